//! Parameter servers against the lab's rows: with each run's measured compute
//! times given (communication judged alone), and with everything predicted.

use crate::lab_rows::{self, Row};
use std::sync::Arc;
use stepcast::calibration::Calibration;
use stepcast::model::{Case, ModelName, Query, Timings, predict, step_of};
use stepcast::placement::{Placement, Selection};
use stepcast::units::Seconds;

/// The step that a model predicts when forward and backward take as long as the
/// run measured them alone; the compute model only lends their shape.
fn with_compute_given(row: &Row, model: ModelName) -> f64 {
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
    step_of(model, &case).expect("an answer").time.get()
}

#[test]
fn bsp_rows_are_predicted_within_eight_percent_when_compute_is_given() {
    let rows = lab_rows::of_group("lab-ps-bsp");
    assert_eq!(rows.len(), 27);
    let mut sum = 0.0;
    for row in &rows {
        let error = with_compute_given(row, ModelName::Ps) / row.step_time_s - 1.0;
        println!("{:<34} {:+.1} %", row.id, error * 100.0);
        sum += error.abs();
    }
    let mean = sum / rows.len() as f64;
    println!("mean error {:.2} %", mean * 100.0);
    assert!(mean <= 0.08, "{mean}");
}

/// With the shipped calibration and nothing else.
fn predicted(row: &Row, model: ModelName) -> f64 {
    let query = Query {
        job: &row.job,
        cluster: &row.cluster,
        selection: &Selection::default(),
        model: Some(model),
        baseline: None,
        calibration: Calibration::shipped(),
        simulation_events: None,
    };
    predict(&query).expect("an answer").step.time.get()
}

/// Mean error of a model over rows, printed with the worst.
fn mean_error(rows: &[Row], what: &str, time: impl Fn(&Row) -> f64) -> f64 {
    let mut errors: Vec<(f64, &str)> = rows
        .iter()
        .map(|row| (time(row) / row.step_time_s - 1.0, row.id.as_str()))
        .collect();
    errors.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    let mean = errors.iter().map(|e| e.0.abs()).sum::<f64>() / errors.len() as f64;
    let bias = errors.iter().map(|e| e.0).sum::<f64>() / errors.len() as f64;
    println!(
        "{what:<44} {:>5.1} %, bias {:+.1} %, worst {:+.0} % ({})",
        mean * 100.0,
        bias * 100.0,
        errors[0].0 * 100.0,
        errors[0].1
    );
    mean
}

#[test]
fn asynchronous_rows_are_predicted_within_ten_percent() {
    let rows = lab_rows::of_group("lab-ps-asp");
    assert_eq!(rows.len(), 14);
    for (model, bound) in [(ModelName::Asp, 0.10), (ModelName::Simulation, 0.10)] {
        let given = mean_error(&rows, &format!("{model}, compute given"), |row| {
            with_compute_given(row, model)
        });
        let whole = mean_error(&rows, &format!("{model}, compute predicted"), |row| {
            predicted(row, model)
        });
        assert!(given <= bound && whole <= bound, "{model} {given} {whole}");
    }
    for model in [ModelName::Lin, ModelName::Cynthia, ModelName::SumOfSpeeds] {
        mean_error(&rows, &format!("{model}, compute given"), |row| {
            with_compute_given(row, model)
        });
    }
}

#[test]
fn overlapped_bsp_rows_are_predicted_within_ten_percent() {
    let overlapped = |row: &Row| matches!(&row.job.strategy, stepcast::job::Strategy::ParameterServer(ps) if ps.overlap);
    let (overlap, in_turn): (Vec<Row>, Vec<Row>) = lab_rows::of_group("lab-ps-bsp")
        .into_iter()
        .partition(overlapped);
    for model in [ModelName::Ps, ModelName::Simulation] {
        for (rows, what) in [(&overlap, "overlap"), (&in_turn, "in turn")] {
            let given = mean_error(rows, &format!("{model}, {what}, compute given"), |row| {
                with_compute_given(row, model)
            });
            let whole = mean_error(rows, &format!("{model}, {what}, predicted"), |row| {
                predicted(row, model)
            });
            assert!(given <= 0.10 && whole <= 0.10, "{model} {given} {whole}");
        }
    }
}

/// CM-DARE's rows say only how many parameters a network has: how long it
/// computes is what its one- and two-worker rows say.
#[test]
fn cmdare_is_predicted_from_its_calibrate_rows() {
    let rows = lab_rows::of_file("cmdare_k80.jsonl", |_| true);
    let mut groups: Vec<&str> = rows.iter().map(|r| r.group.as_str()).collect();
    groups.dedup();
    assert_eq!(groups.len(), 4);
    for model in [
        ModelName::Asp,
        ModelName::Simulation,
        ModelName::SumOfSpeeds,
    ] {
        let mut errors = Vec::new();
        for group in &groups {
            let of = |calibrate: bool| {
                rows.iter()
                    .filter(move |r| r.group == *group && r.calibrate == calibrate)
            };
            let mut compute = 0.1;
            for _ in 0..8 {
                let off: f64 = of(true)
                    .map(|row| (row.step_time_s / computing_for(row, compute, model)).ln())
                    .sum();
                compute *= (off / of(true).count() as f64).exp();
            }
            errors
                .extend(of(false).map(|r| computing_for(r, compute, model) / r.step_time_s - 1.0));
        }
        assert_eq!(errors.len(), 24);
        let mean = errors.iter().map(|e| e.abs()).sum::<f64>() / errors.len() as f64;
        println!("cmdare test rows, {model}: {:.1} %", mean * 100.0);
        assert!(mean <= 0.08, "{model} {mean}");
    }
}

/// The step when forward and backward take so long in all.
fn computing_for(row: &Row, seconds: f64, model: ModelName) -> f64 {
    use stepcast::workload::{Profile, Workload};
    let mut workload = Workload::clone(&row.job.workload);
    let layers = workload.layers.len();
    let each = |share: f64| vec![Seconds::new(seconds * share / layers as f64); layers];
    workload.profile = Some(Profile {
        batch: 128,
        forward: each(1.0 / 3.0),
        backward: each(2.0 / 3.0),
        optimizer: Seconds::ZERO,
    });
    let job = stepcast::job::Job {
        workload: Arc::new(workload),
        ..row.job.clone()
    };
    let query = Query {
        job: &job,
        cluster: &row.cluster,
        selection: &Selection::default(),
        model: Some(model),
        baseline: None,
        calibration: Calibration::shipped(),
        simulation_events: None,
    };
    predict(&query).expect("an answer").step.time.get()
}

/// The closed form against the simulation, over the lab's shapes and more
/// workers than the lab had.
#[test]
fn the_closed_form_is_near_the_simulation() {
    let (mut sum, mut worst, mut cases) = (0.0, (0.0_f64, String::new()), 0.0);
    for row in lab_rows::of_group("lab-ps-asp") {
        for times in 1..=4 {
            let mut cluster = row.cluster.clone();
            let workers: Vec<_> = cluster
                .nodes
                .iter()
                .filter(|n| n.workers() > 0)
                .cloned()
                .collect();
            for round in 1..times {
                cluster.nodes.extend(workers.iter().map(|node| {
                    let mut node = stepcast::cluster::Node::clone(node);
                    node.name = format!("{}-{round}", node.name);
                    Arc::new(node)
                }));
            }
            let ask = |model| {
                let query = Query {
                    job: &row.job,
                    cluster: &cluster,
                    selection: &Selection::default(),
                    model: Some(model),
                    baseline: None,
                    calibration: Calibration::shipped(),
                    simulation_events: None,
                };
                predict(&query).expect("an answer").step.time.get()
            };
            let error = ask(ModelName::Asp) / ask(ModelName::Simulation) - 1.0;
            sum += error.abs();
            cases += 1.0;
            if error.abs() > worst.0.abs() {
                worst = (error, format!("{} × {times}", row.id));
            }
        }
    }
    println!(
        "closed form against simulation: {:.1} % over {cases} cases, worst {:+.0} % ({})",
        sum / cases * 100.0,
        worst.0 * 100.0,
        worst.1
    );
    assert!(sum / cases <= 0.08);
}
