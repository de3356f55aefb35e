//! What learning costs: a fit on ten thousand runs, against predicting each
//! of them once.
#![allow(clippy::print_stdout, reason = "a bench prints")]
#![allow(missing_docs, reason = "a bench has no reader but its output")]

use std::hint::black_box;
use std::time::Instant;
use stepcast::calibration::Calibration;
use stepcast::learn::{Row, Start, learn};
use stepcast::runs::{self, Run};

fn main() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/pollux_t4.jsonl"
    );
    let text = std::fs::read_to_string(path).expect("the fixture");
    let few = runs::read("pollux_t4.jsonl", &text).expect("runs");
    let calibration = Calibration::shipped();
    for count in [1_000, 10_000] {
        let many: Vec<&Run> = few.iter().cycle().take(count).collect();
        let start = Instant::now();
        for run in &many {
            let row = Row::new(run, calibration).expect("a row");
            black_box(row.predict(calibration));
        }
        let once = start.elapsed();
        let start = Instant::now();
        let learnt = learn(&many, Start::From(calibration));
        let fitted = start.elapsed();
        println!(
            "{count} runs: fitted in {:.2} s ({} parameters), {:.0} × predicting each once ({:.3} s)",
            fitted.as_secs_f64(),
            learnt.determined.len(),
            fitted.as_secs_f64() / once.as_secs_f64(),
            once.as_secs_f64()
        );
    }
}
