//! Inception-v3 without its auxiliary head, as torchvision builds it.

use super::googlenet::unit;
use crate::workload::Workload;
use crate::workload::build::{Builder, Conv, Shape};

pub(super) fn inception_v3() -> Workload {
    let mut b = Builder::image(3, 299);
    unit(&mut b, "Conv2d_1a_3x3", Conv::valid(32, 3).stride(2));
    unit(&mut b, "Conv2d_2a_3x3", Conv::valid(32, 3));
    unit(&mut b, "Conv2d_2b_3x3", Conv::same(64, 3));
    b.max_pool("maxpool1", 3, 2, 0, false);
    unit(&mut b, "Conv2d_3b_1x1", Conv::valid(80, 1));
    unit(&mut b, "Conv2d_4a_3x3", Conv::valid(192, 3));
    b.max_pool("maxpool2", 3, 2, 0, false);
    for (name, pool) in [("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)] {
        block_a(&mut b, name, pool);
    }
    block_b(&mut b, "Mixed_6a");
    for (name, width) in [
        ("Mixed_6b", 128),
        ("Mixed_6c", 160),
        ("Mixed_6d", 160),
        ("Mixed_6e", 192),
    ] {
        block_c(&mut b, name, width);
    }
    block_d(&mut b, "Mixed_7a");
    block_e(&mut b, "Mixed_7b");
    block_e(&mut b, "Mixed_7c");
    b.adaptive_pool("avgpool", 1)
        .dropout("dropout")
        .flatten()
        .linear("fc", 1000, true);
    b.finish("inception_v3")
}

/// One branch: convolutions in turn, from the block's input.
fn chain(b: &mut Builder, from: Shape, block: &str, steps: &[(&str, Conv)]) {
    b.branch(from);
    for (name, conv) in steps {
        unit(b, &format!("{block}.{name}"), *conv);
    }
}

/// The branch that pools, then projects.
fn pooled(b: &mut Builder, from: Shape, block: &str, width: u64) {
    b.branch(from);
    b.avg_pool(format!("{block}.avg_pool"), 3, 1, 1);
    unit(b, &format!("{block}.branch_pool"), Conv::same(width, 1));
}

fn block_a(b: &mut Builder, name: &str, pool: u64) {
    let from = b.shape();
    chain(b, from, name, &[("branch1x1", Conv::same(64, 1))]);
    chain(
        b,
        from,
        name,
        &[
            ("branch5x5_1", Conv::same(48, 1)),
            ("branch5x5_2", Conv::same(64, 5)),
        ],
    );
    chain(
        b,
        from,
        name,
        &[
            ("branch3x3dbl_1", Conv::same(64, 1)),
            ("branch3x3dbl_2", Conv::same(96, 3)),
            ("branch3x3dbl_3", Conv::same(96, 3)),
        ],
    );
    pooled(b, from, name, pool);
    b.concat(format!("{name}.cat"), 64 + 64 + 96 + pool);
}

fn block_b(b: &mut Builder, name: &str) {
    let from = b.shape();
    chain(
        b,
        from,
        name,
        &[("branch3x3", Conv::valid(384, 3).stride(2))],
    );
    chain(
        b,
        from,
        name,
        &[
            ("branch3x3dbl_1", Conv::same(64, 1)),
            ("branch3x3dbl_2", Conv::same(96, 3)),
            ("branch3x3dbl_3", Conv::valid(96, 3).stride(2)),
        ],
    );
    b.branch(from)
        .max_pool(format!("{name}.max_pool"), 3, 2, 0, false);
    b.concat(format!("{name}.cat"), 384 + 96 + from.channels);
}

fn block_c(b: &mut Builder, name: &str, width: u64) {
    let from = b.shape();
    chain(b, from, name, &[("branch1x1", Conv::same(192, 1))]);
    chain(
        b,
        from,
        name,
        &[
            ("branch7x7_1", Conv::same(width, 1)),
            ("branch7x7_2", Conv::oblong(width, 1, 7)),
            ("branch7x7_3", Conv::oblong(192, 7, 1)),
        ],
    );
    chain(
        b,
        from,
        name,
        &[
            ("branch7x7dbl_1", Conv::same(width, 1)),
            ("branch7x7dbl_2", Conv::oblong(width, 7, 1)),
            ("branch7x7dbl_3", Conv::oblong(width, 1, 7)),
            ("branch7x7dbl_4", Conv::oblong(width, 7, 1)),
            ("branch7x7dbl_5", Conv::oblong(192, 1, 7)),
        ],
    );
    pooled(b, from, name, 192);
    b.concat(format!("{name}.cat"), 4 * 192);
}

fn block_d(b: &mut Builder, name: &str) {
    let from = b.shape();
    chain(
        b,
        from,
        name,
        &[
            ("branch3x3_1", Conv::same(192, 1)),
            ("branch3x3_2", Conv::valid(320, 3).stride(2)),
        ],
    );
    chain(
        b,
        from,
        name,
        &[
            ("branch7x7x3_1", Conv::same(192, 1)),
            ("branch7x7x3_2", Conv::oblong(192, 1, 7)),
            ("branch7x7x3_3", Conv::oblong(192, 7, 1)),
            ("branch7x7x3_4", Conv::valid(192, 3).stride(2)),
        ],
    );
    b.branch(from)
        .max_pool(format!("{name}.max_pool"), 3, 2, 0, false);
    b.concat(format!("{name}.cat"), 320 + 192 + from.channels);
}

fn block_e(b: &mut Builder, name: &str) {
    let from = b.shape();
    chain(b, from, name, &[("branch1x1", Conv::same(320, 1))]);
    chain(b, from, name, &[("branch3x3_1", Conv::same(384, 1))]);
    let split = b.shape();
    chain(b, split, name, &[("branch3x3_2a", Conv::oblong(384, 1, 3))]);
    chain(b, split, name, &[("branch3x3_2b", Conv::oblong(384, 3, 1))]);
    chain(
        b,
        from,
        name,
        &[
            ("branch3x3dbl_1", Conv::same(448, 1)),
            ("branch3x3dbl_2", Conv::same(384, 3)),
        ],
    );
    let split = b.shape();
    chain(
        b,
        split,
        name,
        &[("branch3x3dbl_3a", Conv::oblong(384, 1, 3))],
    );
    chain(
        b,
        split,
        name,
        &[("branch3x3dbl_3b", Conv::oblong(384, 3, 1))],
    );
    pooled(b, from, name, 192);
    b.concat(format!("{name}.cat"), 320 + 2 * 384 + 2 * 384 + 192);
}
