//! ConvNeXt-T, as torchvision builds it.

use crate::workload::Workload;
use crate::workload::build::{Builder, Conv, Shape};

pub(super) fn convnext_tiny() -> Workload {
    let mut b = Builder::image(3, 224);
    b.conv("features.0.0", Conv::valid(96, 4).stride(4).bias())
        .layer_norm("features.0.1");
    for (stage, (channels, blocks)) in [(96, 3), (192, 3), (384, 9), (768, 3)]
        .into_iter()
        .enumerate()
    {
        if stage > 0 {
            let name = format!("features.{}", 2 * stage);
            b.layer_norm(format!("{name}.0"));
            b.conv(
                format!("{name}.1"),
                Conv::valid(channels, 2).stride(2).bias(),
            );
        }
        for block in 0..blocks {
            let name = format!("features.{}.{block}", 2 * stage + 1);
            cn_block(&mut b, &name, channels, stage + block > 0);
        }
    }
    b.adaptive_pool("avgpool", 1)
        .layer_norm("classifier.0")
        .flatten();
    b.linear("classifier.2", 1000, true);
    b.finish("convnext_tiny")
}

/// The permutations between image and tokens are views: they cost nothing.
fn cn_block(b: &mut Builder, name: &str, channels: u64, stochastic_depth: bool) {
    let image = b.shape();
    let tokens = Shape {
        channels,
        height: image.positions(),
        width: 1,
    };
    b.conv(
        format!("{name}.block.0"),
        Conv::same(channels, 7).groups(channels).bias(),
    );
    b.branch(tokens).layer_norm(format!("{name}.block.2"));
    b.linear(format!("{name}.block.3"), 4 * channels, true);
    b.activation(format!("{name}.block.4"));
    b.linear(format!("{name}.block.5"), channels, true);
    b.branch(image).layer_scale(format!("{name}.layer_scale"));
    if stochastic_depth {
        b.scale(format!("{name}.stochastic_depth"), image);
    }
    b.add(format!("{name}.add"));
}
