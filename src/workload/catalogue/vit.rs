//! Vision transformer, base, 16×16 patches, as torchvision builds it.

use super::transformer::{Block, block};
use crate::workload::Workload;
use crate::workload::build::{Builder, Conv, Shape};

const WIDTH: u64 = 768;

pub(super) fn vit_b_16() -> Workload {
    let mut b = Builder::image(3, 224);
    b.conv("conv_proj", Conv::valid(WIDTH, 16).stride(16).bias());
    let tokens = Shape {
        channels: WIDTH,
        height: b.shape().positions() + 1,
        width: 1,
    };
    b.permute("patches", tokens).learnt("class_token", WIDTH);
    b.learnt("encoder.pos_embedding", WIDTH * tokens.height)
        .dropout("encoder.dropout");
    for i in 0..12 {
        block(
            &mut b,
            &format!("encoder.layers.encoder_layer_{i}"),
            Block {
                width: WIDTH,
                heads: 12,
                norm_first: true,
            },
        );
    }
    b.layer_norm("encoder.ln");
    b.branch(Shape {
        channels: WIDTH,
        height: 1,
        width: 1,
    });
    b.linear("heads.head", 1000, true);
    b.finish("vit_b_16")
}
