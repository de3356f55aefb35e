//! The `ring` model against the lab's DDP rows and public rows.

use crate::lab_rows::{self, Row};
use std::sync::Arc;
use stepcast::calibration::Calibration;
use stepcast::job::Strategy;
use stepcast::model::{Case, Timing, Timings, ps, ring};
use stepcast::placement::{Placement, Selection};
use stepcast::units::Seconds;

/// A row's case, with compute as the closure has it.
fn with_case<T>(row: &Row, timing: impl Fn(&Timing) -> Timing, ask: impl Fn(&Case<'_>) -> T) -> T {
    let calibration = Calibration::shipped();
    let placement =
        Placement::select(&row.job, &row.cluster, &Selection::default()).expect("workers");
    let mut case = Case::new(
        &row.job,
        &row.cluster,
        calibration,
        &placement,
        &mut Timings::default(),
    )
    .expect("a case");
    for class in &mut case.classes {
        class.timing = Arc::new(timing(&class.timing));
    }
    ask(&case)
}

fn ring_step(case: &Case<'_>) -> f64 {
    ring::Model::new(case)
        .expect("an all-reduce job")
        .step()
        .time
        .get()
}

/// Mean of the workers' measured compute times, shared by equal hosts.
fn measured_compute(row: &Row) -> (Seconds, Seconds, Seconds) {
    let times = row.context["compute_only_s"]
        .as_array()
        .expect("compute times");
    let mean = |i: usize| {
        let sum: f64 = times.iter().filter_map(|t| t[i].as_f64()).sum();
        Seconds::new(sum / times.len() as f64)
    };
    (mean(0), mean(1), mean(2))
}

fn mean_error(rows: &[Row], step: impl Fn(&Row) -> f64) -> f64 {
    let mut sum = 0.0;
    for row in rows {
        let error = step(row) / row.step_time_s - 1.0;
        println!("{:<40} {:+.1} %", row.id, error * 100.0);
        sum += error.abs();
    }
    sum / rows.len() as f64
}

#[test]
fn ddp_rows_within_seven_percent_when_compute_is_given() {
    let rows = lab_rows::of_group("lab-ddp");
    assert_eq!(rows.len(), 55);
    let mean = mean_error(&rows, |row| {
        let (forward, backward, optimizer) = measured_compute(row);
        let given = |timing: &Timing| {
            let mut given = timing.stretched(forward, backward);
            given.optimizer = optimizer;
            given
        };
        with_case(row, given, ring_step)
    });
    println!("lab-ddp, compute given: mean error {:.2} %", mean * 100.0);
    assert!(mean <= 0.07, "{mean}");
}

#[test]
fn ddp_rows_within_ten_percent_when_compute_is_predicted() {
    let rows = lab_rows::of_group("lab-ddp");
    let mean = mean_error(&rows, |row| with_case(row, Timing::clone, ring_step));
    println!(
        "lab-ddp, compute predicted: mean error {:.2} %",
        mean * 100.0
    );
    assert!(mean <= 0.10, "{mean}");
}

/// The V100's compute comes from the one-GPU row, which is for calibration.
#[test]
fn ten_gigabit_rows_within_ten_percent_and_in_the_measured_order() {
    let rows = lab_rows::of_file("ddl_resnet50_10gbe.jsonl", |_| true);
    let alone = rows
        .iter()
        .find(|r| r.job.strategy == Strategy::Single)
        .expect("the one-GPU row")
        .step_time_s;
    let scale = |timing: &Timing| {
        let factor = alone / timing.step().get();
        let (forward, backward) = (
            timing.forward_total() * factor,
            timing.backward_total() * factor,
        );
        let mut scaled = timing.stretched(forward, backward);
        scaled.optimizer = timing.optimizer * factor;
        scaled
    };
    let step = |row: &Row| {
        with_case(row, scale, |case| match case.job.strategy {
            Strategy::ParameterServer(_) => ps::Model::new(case).expect("ps").step().time.get(),
            _ => ring_step(case),
        })
    };
    let (_, test): (Vec<Row>, Vec<Row>) = rows
        .into_iter()
        .filter(|r| r.job.strategy != Strategy::Single)
        .partition(|r| r.calibrate);
    let mean = mean_error(&test, step);
    println!("ddl 10 GbE, test rows: mean error {:.2} %", mean * 100.0);
    assert!(mean <= 0.10, "{mean}");
    let at_32: Vec<(&Row, f64)> = test
        .iter()
        .filter(|r| r.cluster.workers() == 32)
        .map(|r| (r, step(r)))
        .collect();
    assert_eq!(at_32.len(), 7);
    for (a, predicted_a) in &at_32 {
        for (b, predicted_b) in &at_32 {
            if a.step_time_s > 1.03 * b.step_time_s {
                assert!(
                    predicted_a > predicted_b,
                    "{} should be slower than {}",
                    a.id,
                    b.id
                );
            }
        }
    }
}

/// The collective's cost by itself: bytes dominate from 16 MiB on. Below
/// 1 MiB the measured times themselves jump, and are printed, not judged.
#[test]
fn the_collectives_cost_agrees_with_the_labs_own_times() {
    let mut errors: Vec<(f64, f64)> = Vec::new();
    for line in crate::fixtures::text("lab/allreduce.csv").lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |i: usize| cells[i].parse::<f64>().expect("a number");
        let text = format!(
            "nodes: [{{name: w, count: {}, cpu: {{type: lab-xeon-1t}}, nic_gbps: {}}}]",
            cells[1], cells[2]
        );
        let file = stepcast::cluster::ClusterFile {
            name: cells[0],
            text: &text,
        };
        let cluster = file
            .read(&stepcast::cluster::Defaults::default())
            .expect("a cluster");
        let job = stepcast::job::JobFile {
            name: "job",
            text: "workload: resnet18\nbatch_size: 1\nstrategy: {all_reduce: {algorithm: ring}}",
            resolve: &|_| Err("no files here".into()),
        }
        .read()
        .expect("a job");
        let placement = Placement::select(&job, &cluster, &Selection::default()).expect("workers");
        let case = Case::new(
            &job,
            &cluster,
            Calibration::shipped(),
            &placement,
            &mut Timings::default(),
        )
        .expect("a case");
        let predicted = ring::Cost::of(&case).time(number(3)) * 1e3;
        errors.push((number(3), (predicted / number(4) - 1.0).abs()));
    }
    let from = |bytes: f64| {
        let kept: Vec<f64> = errors
            .iter()
            .filter(|e| e.0 >= bytes)
            .map(|e| e.1)
            .collect();
        kept.iter().sum::<f64>() / kept.len() as f64
    };
    let mib = 1_048_576.0;
    for size in [0.0, 1.0, 4.0, 16.0] {
        println!(
            "messages from {size} MiB on: mean error {:.1} %",
            from(size * mib) * 100.0
        );
    }
    assert!(from(16.0 * mib) <= 0.06, "{}", from(16.0 * mib));
}
