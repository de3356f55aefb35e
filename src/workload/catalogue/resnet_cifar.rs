//! `ResNet` for 32×32 images.

use super::resnet::shortcut;
use crate::workload::Workload;
use crate::workload::build::{Builder, Conv};

/// ResNet-18 with a 3×3 stem and no pooling (11.17 M parameters).
pub(super) fn resnet18() -> Workload {
    let mut b = Builder::image(3, 32);
    b.conv("conv1", Conv::same(64, 3))
        .batch_norm("bn1")
        .relu("relu");
    for (stage, width) in [64, 128, 256, 512].into_iter().enumerate() {
        for block in 0..2 {
            let name = format!("layer{}.{block}", stage + 1);
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let from = b.shape();
            b.conv(format!("{name}.conv1"), Conv::same(width, 3).stride(stride));
            b.batch_norm(format!("{name}.bn1"))
                .relu(format!("{name}.relu"));
            b.conv(format!("{name}.conv2"), Conv::same(width, 3))
                .batch_norm(format!("{name}.bn2"));
            shortcut(&mut b, &name, from, width, stride);
            b.add_in_place(format!("{name}.add"))
                .relu(format!("{name}.relu"));
        }
    }
    b.adaptive_pool("avgpool", 1)
        .flatten()
        .linear("linear", 10, true);
    b.finish("resnet18_cifar")
}

/// tensor2tensor's pre-activation networks, `blocks` a stage of 32, 64, 128
/// channels: ResNet-15 has 2, ResNet-32 has 5.
pub(super) fn tensor2tensor(blocks: usize) -> Workload {
    let mut b = Builder::image(3, 32);
    b.conv("initial_conv", Conv::same(16, 3))
        .batch_norm("initial_norm")
        .relu("initial_relu");
    for (stage, width) in [32, 64, 128].into_iter().enumerate() {
        for block in 0..blocks {
            let name = format!("block_layer{}.{block}", stage + 1);
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            b.batch_norm(format!("{name}.norm1"))
                .relu(format!("{name}.relu1"));
            let from = b.shape();
            if block == 0 {
                b.conv(
                    format!("{name}.projection"),
                    Conv::same(width, 1).stride(stride),
                );
                b.branch(from);
            }
            b.conv(format!("{name}.conv1"), Conv::same(width, 3).stride(stride));
            b.batch_norm(format!("{name}.norm2"))
                .relu(format!("{name}.relu2"));
            b.conv(format!("{name}.conv2"), Conv::same(width, 3))
                .add(format!("{name}.add"));
        }
    }
    b.adaptive_pool("pool", 1)
        .flatten()
        .linear("logits", 10, true);
    b.finish("resnet_cifar")
}
