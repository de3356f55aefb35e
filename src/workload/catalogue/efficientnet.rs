//! EfficientNet-B0, as torchvision builds it.

use crate::workload::Workload;
use crate::workload::build::{Builder, Conv};

/// Expansion, kernel, first stride, channels, blocks.
const STAGES: [(u64, u64, u64, u64, usize); 7] = [
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
];

pub(super) fn efficientnet_b0() -> Workload {
    let mut b = Builder::image(3, 224);
    unit(&mut b, "features.0", Conv::same(32, 3).stride(2));
    for (stage, (expansion, kernel, first_stride, channels, blocks)) in
        STAGES.into_iter().enumerate()
    {
        for block in 0..blocks {
            let name = format!("features.{}.{block}", stage + 1);
            let stride = if block == 0 { first_stride } else { 1 };
            mb_conv(
                &mut b,
                &name,
                expansion,
                Conv::same(channels, kernel).stride(stride),
            );
        }
    }
    unit(&mut b, "features.8", Conv::same(1280, 1));
    b.adaptive_pool("avgpool", 1)
        .flatten()
        .dropout("classifier.0");
    b.linear("classifier.1", 1000, true);
    b.finish("efficientnet_b0")
}

fn unit(b: &mut Builder, name: &str, conv: Conv) {
    b.conv(format!("{name}.0"), conv)
        .batch_norm(format!("{name}.1"))
        .activation(format!("{name}.2"));
}

/// Expand, depthwise, squeeze and excitation, project; a residual where the
/// shape stays. `shape` carries the kernel, stride and output channels.
fn mb_conv(b: &mut Builder, name: &str, expansion: u64, shape: Conv) {
    let from = b.shape();
    let hidden = from.channels * expansion;
    let mut step = 0;
    if expansion != 1 {
        unit(b, &format!("{name}.block.0"), Conv::same(hidden, 1));
        step = 1;
    }
    let depthwise = Conv {
        out: hidden,
        groups: hidden,
        ..shape
    };
    unit(b, &format!("{name}.block.{step}"), depthwise);
    let wide = b.shape();
    let excitation = format!("{name}.block.{}", step + 1);
    b.adaptive_pool(format!("{excitation}.avgpool"), 1);
    b.conv(
        format!("{excitation}.fc1"),
        Conv::same((from.channels / 4).max(1), 1).bias(),
    );
    b.activation(format!("{excitation}.activation"));
    b.conv(format!("{excitation}.fc2"), Conv::same(hidden, 1).bias());
    b.activation(format!("{excitation}.scale_activation"));
    b.scale(format!("{excitation}.scale"), wide);
    b.conv(
        format!("{name}.block.{}.0", step + 2),
        Conv::same(shape.out, 1),
    );
    b.batch_norm(format!("{name}.block.{}.1", step + 2));
    if b.shape() == from {
        b.add(format!("{name}.add"));
    }
}
