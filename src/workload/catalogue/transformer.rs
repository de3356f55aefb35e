//! BERT and GPT-2: a sample is one sequence.

use crate::workload::Workload;
use crate::workload::build::{Builder, Shape};

/// One transformer layer.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) width: u64,
    pub(super) heads: u64,
    /// Normalise before attention and feed-forward (`ViT`, GPT) or after (BERT).
    pub(super) norm_first: bool,
}

pub(super) fn block(b: &mut Builder, name: &str, shape: Block) {
    let Block {
        width,
        heads,
        norm_first,
    } = shape;
    let tokens = b.shape();
    if norm_first {
        b.layer_norm(format!("{name}.ln_1"));
    }
    b.linear(format!("{name}.attention.qkv"), 3 * width, true);
    b.attention(&format!("{name}.attention"), width, heads);
    b.linear(format!("{name}.attention.out"), width, true);
    b.dropout(format!("{name}.dropout1"))
        .add(format!("{name}.add1"));
    b.layer_norm(format!(
        "{name}.{}",
        if norm_first { "ln_2" } else { "ln_1" }
    ));
    b.linear(format!("{name}.mlp.0"), 4 * width, true)
        .activation(format!("{name}.mlp.gelu"));
    b.linear(format!("{name}.mlp.1"), width, true);
    b.dropout(format!("{name}.dropout2"))
        .add(format!("{name}.add2"));
    if !norm_first {
        b.layer_norm(format!("{name}.ln_2"));
    }
    debug_assert_eq!(b.shape(), tokens);
}

/// BERT with its pooler, without a task's head.
pub(super) fn bert(layers: usize, width: u64, heads: u64, tokens: u32) -> Workload {
    let mut b = Builder::sequence(u64::from(tokens));
    let ids = b.shape();
    b.embedding("embeddings.word", 30_522, width);
    b.branch(ids).embedding("embeddings.position", 512, width);
    b.branch(ids).embedding("embeddings.token_type", 2, width);
    b.add("embeddings.add")
        .layer_norm("embeddings.norm")
        .dropout("embeddings.dropout");
    for i in 0..layers {
        let name = format!("encoder.layer.{i}");
        block(
            &mut b,
            &name,
            Block {
                width,
                heads,
                norm_first: false,
            },
        );
    }
    b.branch(Shape {
        channels: width,
        height: 1,
        width: 1,
    });
    b.linear("pooler", width, true).activation("pooler.tanh");
    b.finish("bert")
}

/// GPT-2; the output layer shares the embedding's weights.
pub(super) fn gpt2(layers: usize, width: u64, heads: u64, tokens: u32) -> Workload {
    const VOCABULARY: u64 = 50_257;
    let mut b = Builder::sequence(u64::from(tokens));
    let ids = b.shape();
    b.embedding("wte", VOCABULARY, width);
    b.branch(ids)
        .embedding("wpe", 1024, width)
        .add("embeddings.add")
        .dropout("drop");
    for i in 0..layers {
        let name = format!("h.{i}");
        block(
            &mut b,
            &name,
            Block {
                width,
                heads,
                norm_first: true,
            },
        );
    }
    b.layer_norm("ln_f").linear("lm_head", VOCABULARY, false);
    let mut workload = b.finish("gpt2");
    if let Some(head) = workload.layers.last_mut() {
        head.parameters.clear();
    }
    workload
}
