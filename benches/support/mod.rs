//! A stop-watch for ratios: the best of many batches, so that a busy machine
//! slows baseline and subject alike.
#![allow(
    dead_code,
    clippy::print_stdout,
    reason = "shared by several benches, which print"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

/// How long one measurement may take.
const BUDGET: Duration = Duration::from_millis(400);

/// Seconds of one call, the best batch of many.
pub(crate) fn time<T>(mut call: impl FnMut() -> T) -> f64 {
    let mut batch = 1_u32;
    loop {
        let start = Instant::now();
        for _ in 0..batch {
            black_box(call());
        }
        if start.elapsed() > Duration::from_millis(2) || batch > 1 << 20 {
            break;
        }
        batch *= 2;
    }
    let mut best = f64::INFINITY;
    let start = Instant::now();
    while start.elapsed() < BUDGET {
        let batch_start = Instant::now();
        for _ in 0..batch {
            black_box(call());
        }
        best = best.min(batch_start.elapsed().as_secs_f64() / f64::from(batch));
    }
    best
}

/// Prints a measurement against its baseline and its bound.
pub(crate) fn report(name: &str, seconds: f64, baseline: f64, bound: Option<f64>) {
    let ratio = seconds / baseline;
    let verdict = match bound {
        Some(bound) if ratio <= bound => format!("within {bound} ×"),
        Some(bound) => format!("OVER {bound} ×"),
        None => String::new(),
    };
    println!(
        "{name:<52} {:>12.0} ns {ratio:>8.1} × {verdict}",
        seconds * 1e9
    );
}
