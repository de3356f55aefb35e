//! VGG, configurations A to E of the paper; layer names as torchvision's.

use crate::workload::Workload;
use crate::workload::build::{Builder, Conv};

/// Output channels and kernel side of each convolution, a block a slice.
type Blocks = [&'static [(u64, u64)]; 5];

pub(super) const A: Blocks = [
    &[(64, 3)],
    &[(128, 3)],
    &[(256, 3), (256, 3)],
    &[(512, 3), (512, 3)],
    &[(512, 3), (512, 3)],
];
pub(super) const B: Blocks = [
    &[(64, 3), (64, 3)],
    &[(128, 3), (128, 3)],
    &[(256, 3), (256, 3)],
    &[(512, 3), (512, 3)],
    &[(512, 3), (512, 3)],
];
pub(super) const C: Blocks = [
    &[(64, 3), (64, 3)],
    &[(128, 3), (128, 3)],
    &[(256, 3), (256, 3), (256, 1)],
    &[(512, 3), (512, 3), (512, 1)],
    &[(512, 3), (512, 3), (512, 1)],
];
pub(super) const D: Blocks = [
    &[(64, 3), (64, 3)],
    &[(128, 3), (128, 3)],
    &[(256, 3), (256, 3), (256, 3)],
    &[(512, 3), (512, 3), (512, 3)],
    &[(512, 3), (512, 3), (512, 3)],
];
pub(super) const E: Blocks = [
    &[(64, 3), (64, 3)],
    &[(128, 3), (128, 3)],
    &[(256, 3), (256, 3), (256, 3), (256, 3)],
    &[(512, 3), (512, 3), (512, 3), (512, 3)],
    &[(512, 3), (512, 3), (512, 3), (512, 3)],
];

pub(super) fn vgg(blocks: Blocks) -> Workload {
    let mut b = Builder::image(3, 224);
    let mut index = 0;
    for block in blocks {
        for &(out, kernel) in block {
            b.conv(format!("features.{index}"), Conv::same(out, kernel).bias());
            b.relu(format!("features.{}", index + 1));
            index += 2;
        }
        b.max_pool(format!("features.{index}"), 2, 2, 0, false);
        index += 1;
    }
    b.adaptive_pool("avgpool", 7).flatten();
    b.linear("classifier.0", 4096, true)
        .relu("classifier.1")
        .dropout("classifier.2");
    b.linear("classifier.3", 4096, true)
        .relu("classifier.4")
        .dropout("classifier.5");
    b.linear("classifier.6", 1000, true);
    b.finish("vgg")
}
