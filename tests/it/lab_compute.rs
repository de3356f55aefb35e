//! The compute model against the lab's single-device rows.

use crate::lab_rows::{self, Row};
use std::collections::BTreeMap;
use stepcast::calibration::Calibration;
use stepcast::model::compute;

fn error(row: &Row, calibration: &Calibration) -> f64 {
    let device = row.cluster.nodes[0].device().expect("a device");
    let batch = row.job.batch.of_worker(0, 1);
    let timing = compute::time(
        &row.job.workload,
        device,
        batch,
        row.job.precision,
        calibration,
    )
    .expect("FLOPs");
    timing.step().get() / row.step_time_s - 1.0
}

fn mean_error(rows: &[Row], calibration: &Calibration) -> f64 {
    rows.iter()
        .map(|r| error(r, calibration).abs())
        .sum::<f64>()
        / rows.len() as f64
}

#[test]
fn shipped_defaults_predict_the_lab_within_fifteen_percent() {
    for group in ["lab-single", "lab-h200"] {
        let rows = lab_rows::of_group(group);
        let mean = mean_error(&rows, Calibration::shipped());
        println!(
            "{group}: {} rows, mean error {:.1} %",
            rows.len(),
            mean * 100.0
        );
        assert!(mean <= 0.15, "{group}: {mean}");
        let mut by_network: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for row in &rows {
            by_network
                .entry(&row.job.workload.name)
                .or_default()
                .push(error(row, Calibration::shipped()).abs());
        }
        for (name, errors) in by_network {
            let mean = errors.iter().sum::<f64>() / errors.len() as f64;
            println!("  {name}: {:.1} %", mean * 100.0);
        }
    }
}
