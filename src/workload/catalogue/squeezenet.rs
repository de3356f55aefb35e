//! `SqueezeNet` 1.1, as torchvision builds it.

use crate::workload::Workload;
use crate::workload::build::{Builder, Conv};

pub(super) fn squeezenet1_1() -> Workload {
    let mut b = Builder::image(3, 224);
    b.conv("features.0", Conv::valid(64, 3).stride(2).bias())
        .relu("features.1");
    b.max_pool("features.2", 3, 2, 0, true);
    fire(&mut b, 3, 16, 64);
    fire(&mut b, 4, 16, 64);
    b.max_pool("features.5", 3, 2, 0, true);
    fire(&mut b, 6, 32, 128);
    fire(&mut b, 7, 32, 128);
    b.max_pool("features.8", 3, 2, 0, true);
    fire(&mut b, 9, 48, 192);
    fire(&mut b, 10, 48, 192);
    fire(&mut b, 11, 64, 256);
    fire(&mut b, 12, 64, 256);
    b.dropout("classifier.0")
        .conv("classifier.1", Conv::same(1000, 1).bias());
    b.relu("classifier.2").adaptive_pool("classifier.3", 1);
    b.finish("squeezenet1_1")
}

fn fire(b: &mut Builder, index: usize, squeeze: u64, expand: u64) {
    let name = format!("features.{index}");
    b.conv(format!("{name}.squeeze"), Conv::same(squeeze, 1).bias());
    b.relu(format!("{name}.squeeze_activation"));
    let from = b.shape();
    b.conv(format!("{name}.expand1x1"), Conv::same(expand, 1).bias());
    b.relu(format!("{name}.expand1x1_activation"));
    b.branch(from)
        .conv(format!("{name}.expand3x3"), Conv::same(expand, 3).bias());
    b.relu(format!("{name}.expand3x3_activation"));
    b.concat(format!("{name}.cat"), 2 * expand);
}
