//! The `ps` model against the lab's parameter-server rows, with each run's
//! measured compute times given: communication judged alone.

use crate::lab_rows::{self, Row};
use std::sync::Arc;
use stepcast::calibration::Calibration;
use stepcast::model::{Case, Timings, ps};
use stepcast::placement::{Placement, Selection};
use stepcast::units::Seconds;

/// The step that `ps` predicts when forward and backward take as long as the
/// run measured them alone; the compute model only lends their shape.
fn with_compute_given(row: &Row) -> f64 {
    let calibration = Calibration::shipped();
    let placement =
        Placement::select(&row.job, &row.cluster, &Selection::default()).expect("workers");
    let mut timings = Timings::default();
    let mut case = Case::new(
        &row.job,
        &row.cluster,
        calibration,
        &placement,
        &mut timings,
    )
    .expect("a case");
    let measured = row.context["compute_only_s"]
        .as_array()
        .expect("compute times");
    // Each worker has times of its own, so each is a class of its own.
    let kinds = case.classes.clone();
    case.classes.clear();
    let nodes = placement.nodes.iter().map(|p| p.node);
    for (node, times) in nodes.zip(measured) {
        let device = row.cluster.nodes[node].device().expect("a device");
        let mut class = kinds
            .iter()
            .find(|k| k.device == *device)
            .expect("its class")
            .clone();
        let seconds = |i: usize| Seconds::new(times[i].as_f64().expect("a time"));
        class.timing = Arc::new(class.timing.stretched(seconds(0), seconds(1)));
        class.count = 1;
        class.node = node;
        case.classes.push(class);
    }
    let mut model = ps::Model::new(&case).expect("a parameter-server job");
    model.step().time.get()
}

#[test]
fn bsp_rows_are_predicted_within_eight_percent_when_compute_is_given() {
    let rows = lab_rows::of_group("lab-ps-bsp");
    assert_eq!(rows.len(), 27);
    let mut sum = 0.0;
    for row in &rows {
        let error = with_compute_given(row) / row.step_time_s - 1.0;
        println!("{:<34} {:+.1} %", row.id, error * 100.0);
        sum += error.abs();
    }
    let mean = sum / rows.len() as f64;
    println!("mean error {:.2} %", mean * 100.0);
    assert!(mean <= 0.08, "{mean}");
}
