//! `ResNet` for 224×224 images, as torchvision builds it.

use crate::workload::Workload;
use crate::workload::build::{Builder, Conv, Shape};

/// Two 3×3 convolutions a block.
pub(super) fn basic(blocks: [usize; 4]) -> Workload {
    network(blocks, 1, |b, name, width, stride| {
        b.conv(format!("{name}.conv1"), Conv::same(width, 3).stride(stride));
        b.batch_norm(format!("{name}.bn1"))
            .relu(format!("{name}.relu"));
        b.conv(format!("{name}.conv2"), Conv::same(width, 3));
        b.batch_norm(format!("{name}.bn2"));
    })
}

/// 1×1, 3×3, 1×1 with four times the width at the end.
pub(super) fn bottleneck(blocks: [usize; 4]) -> Workload {
    network(blocks, 4, |b, name, width, stride| {
        b.conv(format!("{name}.conv1"), Conv::same(width, 1));
        b.batch_norm(format!("{name}.bn1"))
            .relu(format!("{name}.relu"));
        b.conv(format!("{name}.conv2"), Conv::same(width, 3).stride(stride));
        b.batch_norm(format!("{name}.bn2"))
            .relu(format!("{name}.relu"));
        b.conv(format!("{name}.conv3"), Conv::same(4 * width, 1));
        b.batch_norm(format!("{name}.bn3"));
    })
}

fn network(
    blocks: [usize; 4],
    expansion: u64,
    body: impl Fn(&mut Builder, &str, u64, u64),
) -> Workload {
    let mut b = Builder::image(3, 224);
    b.conv("conv1", Conv::same(64, 7).stride(2));
    b.batch_norm("bn1")
        .relu("relu")
        .max_pool("maxpool", 3, 2, 1, false);
    for (stage, count) in blocks.into_iter().enumerate() {
        let width = 64 << stage;
        for block in 0..count {
            let name = format!("layer{}.{block}", stage + 1);
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let from = b.shape();
            body(&mut b, &name, width, stride);
            shortcut(&mut b, &name, from, expansion * width, stride);
            b.add_in_place(format!("{name}.add"))
                .relu(format!("{name}.relu"));
        }
    }
    b.adaptive_pool("avgpool", 1)
        .flatten()
        .linear("fc", 1000, true);
    b.finish("resnet")
}

/// The projection where a block changes the shape.
pub(super) fn shortcut(b: &mut Builder, name: &str, from: Shape, width: u64, stride: u64) {
    if from.channels != width || stride != 1 {
        b.branch(from);
        b.conv(
            format!("{name}.downsample.0"),
            Conv::same(width, 1).stride(stride),
        );
        b.batch_norm(format!("{name}.downsample.1"));
    }
}
