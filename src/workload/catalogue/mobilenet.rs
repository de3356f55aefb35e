//! MobileNet-v2, as torchvision builds it.

use crate::workload::Workload;
use crate::workload::build::{Builder, Conv};

/// Expansion, channels, blocks, first stride.
const STAGES: [(u64, u64, usize, u64); 7] = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
];

pub(super) fn mobilenet_v2() -> Workload {
    let mut b = Builder::image(3, 224);
    unit(&mut b, "features.0", Conv::same(32, 3).stride(2));
    let mut index = 1;
    for (expansion, channels, blocks, first_stride) in STAGES {
        for block in 0..blocks {
            let stride = if block == 0 { first_stride } else { 1 };
            inverted_residual(
                &mut b,
                &format!("features.{index}"),
                expansion,
                channels,
                stride,
            );
            index += 1;
        }
    }
    unit(&mut b, &format!("features.{index}"), Conv::same(1280, 1));
    b.adaptive_pool("pool", 1).flatten().dropout("classifier.0");
    b.linear("classifier.1", 1000, true);
    b.finish("mobilenet_v2")
}

fn unit(b: &mut Builder, name: &str, conv: Conv) {
    b.conv(format!("{name}.0"), conv)
        .batch_norm(format!("{name}.1"))
        .relu6(format!("{name}.2"));
}

fn inverted_residual(b: &mut Builder, name: &str, expansion: u64, channels: u64, stride: u64) {
    let from = b.shape();
    let hidden = from.channels * expansion;
    let mut step = 0;
    if expansion != 1 {
        unit(b, &format!("{name}.conv.0"), Conv::same(hidden, 1));
        step = 1;
    }
    let depthwise = Conv::same(hidden, 3).stride(stride).groups(hidden);
    unit(b, &format!("{name}.conv.{step}"), depthwise);
    b.conv(format!("{name}.conv.{}", step + 1), Conv::same(channels, 1));
    b.batch_norm(format!("{name}.conv.{}", step + 2));
    if b.shape() == from {
        b.add(format!("{name}.add"));
    }
}
