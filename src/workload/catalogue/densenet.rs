//! DenseNet-121, as torchvision builds it.

use crate::workload::Workload;
use crate::workload::build::{Builder, Conv, Shape};

const GROWTH: u64 = 32;

pub(super) fn densenet121() -> Workload {
    let mut b = Builder::image(3, 224);
    b.conv("features.conv0", Conv::same(64, 7).stride(2));
    b.batch_norm("features.norm0").relu("features.relu0");
    b.max_pool("features.pool0", 3, 2, 1, false);
    for (block, layers) in [6, 12, 24, 16].into_iter().enumerate() {
        let stem = b.shape();
        for layer in 0..layers {
            let name = format!("features.denseblock{}.denselayer{}", block + 1, layer + 1);
            let from = Shape {
                channels: stem.channels + GROWTH * layer,
                ..stem
            };
            // torch.cat copies even the single tensor of the first layer.
            b.branch(stem).concat(format!("{name}.cat"), from.channels);
            b.batch_norm(format!("{name}.norm1"))
                .relu(format!("{name}.relu1"));
            b.conv(format!("{name}.conv1"), Conv::same(4 * GROWTH, 1));
            b.batch_norm(format!("{name}.norm2"))
                .relu(format!("{name}.relu2"));
            b.conv(format!("{name}.conv2"), Conv::same(GROWTH, 3));
        }
        let channels = stem.channels + GROWTH * layers;
        b.branch(stem)
            .concat(format!("features.denseblock{}.cat", block + 1), channels);
        if block < 3 {
            let name = format!("features.transition{}", block + 1);
            b.batch_norm(format!("{name}.norm"))
                .relu(format!("{name}.relu"));
            b.conv(format!("{name}.conv"), Conv::same(channels / 2, 1));
            b.avg_pool(format!("{name}.pool"), 2, 2, 0);
        }
    }
    b.batch_norm("features.norm5")
        .relu("relu")
        .adaptive_pool("avgpool", 1)
        .flatten();
    b.linear("classifier", 1000, true);
    b.finish("densenet121")
}
