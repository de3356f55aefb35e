//! `GoogLeNet` with batch normalisation, as torchvision builds it.

use crate::workload::Workload;
use crate::workload::build::{Builder, Conv};

/// Channels of an inception block: 1×1; 3×3 reduced, 3×3; second reduced,
/// second (3×3 as well, in torchvision); projection of the pool.
type Inception = (&'static str, [u64; 6]);

const STAGES: [&[Inception]; 3] = [
    &[
        ("inception3a", [64, 96, 128, 16, 32, 32]),
        ("inception3b", [128, 128, 192, 32, 96, 64]),
    ],
    &[
        ("inception4a", [192, 96, 208, 16, 48, 64]),
        ("inception4b", [160, 112, 224, 24, 64, 64]),
        ("inception4c", [128, 128, 256, 24, 64, 64]),
        ("inception4d", [112, 144, 288, 32, 64, 64]),
        ("inception4e", [256, 160, 320, 32, 128, 128]),
    ],
    &[
        ("inception5a", [256, 160, 320, 32, 128, 128]),
        ("inception5b", [384, 192, 384, 48, 128, 128]),
    ],
];

pub(super) fn googlenet() -> Workload {
    let mut b = Builder::image(3, 224);
    unit(&mut b, "conv1", Conv::same(64, 7).stride(2));
    b.max_pool("maxpool1", 3, 2, 0, true);
    unit(&mut b, "conv2", Conv::same(64, 1));
    unit(&mut b, "conv3", Conv::same(192, 3));
    b.max_pool("maxpool2", 3, 2, 0, true);
    for (i, stage) in STAGES.into_iter().enumerate() {
        for (name, channels) in stage {
            inception(&mut b, name, *channels);
        }
        match i {
            0 => drop(b.max_pool("maxpool3", 3, 2, 0, true)),
            1 => drop(b.max_pool("maxpool4", 2, 2, 0, true)),
            _ => {}
        }
    }
    b.adaptive_pool("avgpool", 1)
        .flatten()
        .dropout("dropout")
        .linear("fc", 1000, true);
    b.finish("googlenet")
}

/// Convolution, batch normalisation, `ReLU`.
pub(super) fn unit(b: &mut Builder, name: &str, conv: Conv) {
    b.conv(format!("{name}.conv"), conv)
        .batch_norm(format!("{name}.bn"))
        .relu(format!("{name}.relu"));
}

fn inception(b: &mut Builder, name: &str, channels: [u64; 6]) {
    let from = b.shape();
    let [one, three_in, three, five_in, five, pool] = channels;
    unit(b, &format!("{name}.branch1"), Conv::same(one, 1));
    b.branch(from);
    unit(b, &format!("{name}.branch2.0"), Conv::same(three_in, 1));
    unit(b, &format!("{name}.branch2.1"), Conv::same(three, 3));
    b.branch(from);
    unit(b, &format!("{name}.branch3.0"), Conv::same(five_in, 1));
    unit(b, &format!("{name}.branch3.1"), Conv::same(five, 3));
    b.branch(from);
    b.max_pool(format!("{name}.branch4.0"), 3, 1, 1, true);
    unit(b, &format!("{name}.branch4.1"), Conv::same(pool, 1));
    b.concat(format!("{name}.cat"), one + three + five + pool);
}
