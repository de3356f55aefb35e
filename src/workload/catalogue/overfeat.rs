//! `OverFeat` (fast) as `tf_cnn_benchmarks` builds it.

use crate::workload::Workload;
use crate::workload::build::{Builder, Conv};

pub(super) fn overfeat() -> Workload {
    let mut b = Builder::image(3, 231);
    let convolutions = [
        (Conv::valid(96, 11).stride(4), true),
        (Conv::valid(256, 5), true),
        (Conv::same(512, 3), false),
        (Conv::same(1024, 3), false),
        (Conv::same(1024, 3), true),
    ];
    for (i, (conv, pool)) in convolutions.into_iter().enumerate() {
        b.conv(format!("conv{i}"), conv.bias())
            .relu(format!("relu{i}"));
        if pool {
            b.max_pool(format!("mpool{i}"), 2, 2, 0, false);
        }
    }
    b.flatten();
    b.linear("affine0", 3072, true).relu("affine0.relu");
    b.linear("affine1", 4096, true).relu("affine1.relu");
    b.linear("affine2", 1000, true);
    b.finish("overfeat")
}
