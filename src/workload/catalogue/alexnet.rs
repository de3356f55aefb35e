//! `AlexNet`, in the two forms people mean by the name.

use crate::workload::Workload;
use crate::workload::build::{Builder, Conv};

/// torchvision's: 192, 384, 256, 256 channels after the first.
pub(super) fn torchvision() -> Workload {
    let mut b = Builder::image(3, 224);
    let convolutions = [
        (0, Conv::valid(64, 11).stride(4).pad(2), true),
        (3, Conv::same(192, 5), true),
        (6, Conv::same(384, 3), false),
        (8, Conv::same(256, 3), false),
        (10, Conv::same(256, 3), true),
    ];
    for (i, conv, pool) in convolutions {
        b.conv(format!("features.{i}"), conv.bias());
        b.relu(format!("features.{}", i + 1));
        if pool {
            b.max_pool(format!("features.{}", i + 2), 3, 2, 0, false);
        }
    }
    b.adaptive_pool("avgpool", 6).flatten();
    b.dropout("classifier.0")
        .linear("classifier.1", 4096, true)
        .relu("classifier.2");
    b.dropout("classifier.3")
        .linear("classifier.4", 4096, true)
        .relu("classifier.5");
    b.linear("classifier.6", 1000, true);
    b.finish("alexnet")
}

/// The one of `tf_cnn_benchmarks`, which Zeng 2023 measures: 384 channels in
/// the fourth convolution; 55, 27, 13 squares.
pub(super) fn tensorflow() -> Workload {
    let mut b = Builder::image(3, 227);
    let convolutions = [
        (Conv::valid(64, 11).stride(4), true),
        (Conv::same(192, 5), true),
        (Conv::same(384, 3), false),
        (Conv::same(384, 3), false),
        (Conv::same(256, 3), true),
    ];
    for (i, (conv, pool)) in convolutions.into_iter().enumerate() {
        b.conv(format!("conv{i}"), conv.bias())
            .relu(format!("relu{i}"));
        if pool {
            b.max_pool(format!("mpool{i}"), 3, 2, 0, false);
        }
    }
    b.flatten();
    for (i, out) in [4096, 4096].into_iter().enumerate() {
        b.linear(format!("affine{i}"), out, true)
            .relu(format!("affine{i}.relu"));
        b.dropout(format!("dropout{i}"));
    }
    b.linear("affine2", 1000, true);
    b.finish("alexnet_tf")
}
