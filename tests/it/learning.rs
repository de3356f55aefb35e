//! Laws of learning from measured runs.

use proptest::prelude::*;
use stepcast::calibration::{Calibration, Section, Slot};
use stepcast::evaluate::{Evaluation, Parting};
use stepcast::learn::{Row, Start, learn};
use stepcast::runs::{self, FoldBy, Run};

/// Runs of several networks on clusters of several sizes.
fn made_up(count: usize) -> Vec<Run> {
    let networks = [
        "resnet18",
        "resnet50",
        "vgg16",
        "alexnet",
        "mobilenet_v2",
        "densenet121",
    ];
    let lines: Vec<String> = (0..count)
        .map(|i| {
            let network = networks[i % networks.len()];
            let nodes = [1, 2, 3, 4, 8][(i / networks.len()) % 5];
            let (gpus, nic) = ([1, 2, 4][i % 3], [10, 25, 100][(i / 7) % 3]);
            let batch = [16, 32, 64][(i / 3) % 3];
            format!(
                r#"{{"id":"r{i}","group":"made-up","job":{{"workload":"{network}","batch_size":{batch},"strategy":{{"all_reduce":{{"algorithm":"ring","overlap":true,"fusion":{{"buffer_mib":25}}}}}}}},"cluster":{{"nodes":[{{"name":"n","count":{nodes},"accelerators":{{"type":"NVIDIA-Tesla-T4","count":{gpus}}},"nic_gbps":{nic}}}]}},"measured":{{"step_time_s":1}}}}"#
            )
        })
        .collect();
    runs::read("made-up", &lines.join("\n")).expect("runs")
}

fn slot(section: Section, name: &str) -> Slot {
    let index = section.names().iter().position(|n| *n == name);
    Slot {
        index: index.expect("a parameter"),
        section,
    }
}

/// The same runs as a world with these parameters would measure them.
fn measured(runs: &mut [Run], truth: &Calibration) {
    for run in runs {
        let row = Row::new(run, truth).expect("a row");
        let time = row.predict(truth);
        run.step_time_s = time;
    }
}

fn learnt(runs: &[Run], base: &Calibration) -> Calibration {
    let all: Vec<&Run> = runs.iter().collect();
    learn(&all, Start::From(base)).calibration
}

fn mean_error(runs: &[Run], calibration: &Calibration) -> f64 {
    let error = |run: &Run| {
        let row = Row::new(run, calibration).expect("a row");
        (row.predict(calibration) / run.step_time_s - 1.0).abs()
    };
    runs.iter().map(error).sum::<f64>() / runs.len() as f64
}

#[test]
fn known_parameters_come_back() {
    let shipped = Calibration::shipped();
    let device = Section::Device("Tesla-T4".into());
    let known = [
        (slot(Section::NcclTcp, "process_rate"), 2.1e9),
        (slot(Section::NcclTcp, "peer_goodput"), 0.2),
        (slot(device.clone(), "compute"), 1.4),
        (slot(device, "overhead_s"), 0.012),
    ];
    let mut truth = shipped.clone();
    for (slot, value) in &known {
        truth.set(slot, *value);
    }
    let mut runs = made_up(180);
    measured(&mut runs, &truth);
    let found = learnt(&runs, shipped);
    for (slot, value) in &known {
        let ratio = found.value(slot) / value;
        println!("{slot}: {value:.4e}, found {:.4e}", found.value(slot));
        assert!((ratio - 1.0).abs() < 0.15, "{slot}: {ratio}");
    }
    let error = mean_error(&runs, &found);
    println!("mean error {:.2} %", error * 100.0);
    assert!(error < 0.02, "{error}");
}

#[test]
fn one_observation_moves_little_and_a_hundred_move_much() {
    let shipped = Calibration::shipped();
    let mut truth = shipped.clone();
    let compute = slot(Section::Device("Tesla-T4".into()), "compute");
    truth.set(&compute, 1.5);
    let mut runs = made_up(100);
    measured(&mut runs, &truth);
    let all = runs.clone();
    let moved = |count: usize, noise: f64| {
        let mut some = runs[..count].to_vec();
        for run in &mut some {
            run.noise = noise;
        }
        1.0 - mean_error(&all, &learnt(&some, shipped)) / mean_error(&all, shipped)
    };
    // As the sidecar sees them: one window each, not much to go by.
    let (one, few, many) = (moved(1, 0.4), moved(10, 0.4), moved(100, 0.4));
    println!("of the error, 1 observation takes {one:.2}, 10 {few:.2}, 100 {many:.2}");
    assert!(one < 0.5 && one < few && few < many && many > 0.85);
}

#[test]
fn a_liar_cannot_poison_others() {
    let shipped = Calibration::shipped();
    let mut truth = shipped.clone();
    truth.set(&slot(Section::Device("Tesla-T4".into()), "compute"), 1.2);
    let mut runs = made_up(40);
    measured(&mut runs, &truth);
    let honest = runs.clone();
    for liar in [3, 17] {
        runs[liar].step_time_s *= 10.0;
    }
    let all: Vec<&Run> = runs.iter().collect();
    let learnt = learn(&all, Start::From(shipped));
    assert_eq!(learnt.set_aside, ["r3", "r17"]);
    let error = mean_error(&honest, &learnt.calibration);
    println!("mean error of honest jobs {:.2} %", error * 100.0);
    assert!(error < 0.02, "{error}");
}

#[test]
fn what_runs_cannot_determine_is_held_and_named() {
    let mut runs = made_up(6);
    let truth = Calibration::shipped().clone();
    measured(&mut runs, &truth);
    let all: Vec<&Run> = runs.iter().filter(|r| r.cluster.workers() == 1).collect();
    assert!(!all.is_empty());
    let learnt = learn(&all, Start::From(&truth));
    let names: Vec<String> = learnt.undetermined.iter().map(Slot::to_string).collect();
    assert!(names.iter().any(|n| n.ends_with("crowding")), "{names:?}");
    for slot in &learnt.undetermined {
        assert_eq!(learnt.calibration.value(slot), truth.value(slot), "{slot}");
    }
}

#[test]
fn a_workload_without_flops_is_learnt_from_its_runs() {
    let line = |workers: usize, time: f64| {
        format!(
            r#"{{"id":"w{workers}","job":{{"workload":{{"name":"secret","parameters":1e6}},"batch_size":32,"strategy":{{"all_reduce":{{}}}}}},"cluster":{{"nodes":[{{"name":"n","count":{workers},"accelerators":{{"type":"NVIDIA-Tesla-T4","count":1}},"nic_gbps":10}}]}},"measured":{{"step_time_s":{time}}}}}"#
        )
    };
    let seen = runs::read("seen", &line(1, 0.25)).expect("a run");
    let unseen = runs::read("unseen", &line(4, 0.25)).expect("a run");
    assert!(Row::new(&unseen[0], Calibration::shipped()).is_err());
    let calibration = learnt(&seen, Calibration::shipped());
    let row = Row::new(&unseen[0], &calibration).expect("seen");
    let time = row.predict(&calibration);
    assert!((0.24..0.28).contains(&time), "{time}");
    let text = serde_yaml::to_string(&calibration).expect("YAML");
    let read: Calibration = serde_yaml::from_str(&text).expect("a calibration");
    assert_eq!(read, calibration, "a calibration is what its file says");
}

#[test]
fn folds_keep_together_what_belongs_together() {
    let runs = made_up(120);
    for by in [FoldBy::Workload, FoldBy::Cluster, FoldBy::Placement] {
        let folds = by.folds(&runs, 5);
        let keys: Vec<String> = runs.iter().map(|r| by.key(r)).collect();
        for i in 0..runs.len() {
            for j in 0..i {
                if keys[i] == keys[j] {
                    assert_eq!(folds[i], folds[j]);
                }
            }
        }
        assert!(folds.iter().any(|f| *f > 0));
    }
}

#[test]
fn intervals_hold_nine_of_ten_unseen_runs() {
    use rand::SeedableRng;
    use rand_distr::{Distribution, Normal};
    let mut truth = Calibration::shipped().clone();
    truth.set(&slot(Section::Device("Tesla-T4".into()), "compute"), 1.3);
    truth.set(&slot(Section::NcclTcp, "process_rate"), 1.5e9);
    let mut runs = made_up(400);
    measured(&mut runs, &truth);
    let mut random = rand_pcg::Pcg64::seed_from_u64(7);
    for spread in [0.03, 0.12] {
        let noise = Normal::new(0.0_f64, spread).expect("a spread");
        let mut noisy = runs.clone();
        for run in &mut noisy {
            run.step_time_s *= noise.sample(&mut random).exp();
        }
        let (seen, unseen) = noisy.split_at(200);
        let evaluation = Evaluation {
            parting: Parting::On(seen),
            compute_given: false,
            calibration: Calibration::shipped(),
        };
        let covered = evaluation.run(unseen).overall().coverage;
        println!("noise of {spread}: {:.1} % within", covered * 100.0);
        assert!((0.85..=0.95).contains(&covered), "{covered}");
    }
}

#[test]
fn bad_lines_are_all_reported_with_their_place() {
    let text = "{}\n\n{\"job\":{\"workload\":\"resnet5\",\"batch_size\":8},\"cluster\":{\"nodes\":[{\"name\":\"a\",\"cpu\":{\"cores\":4}}]},\"measured\":{\"step_time_s\":0}}\nnot JSON";
    let error = runs::read("r.jsonl", text).expect_err("bad").to_string();
    for wanted in [
        "r.jsonl:1",
        "missing field `job`",
        "r.jsonl:3: job",
        "resnet50",
        "r.jsonl:4",
    ] {
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
    let error = runs::read("empty", "\n").expect_err("empty").to_string();
    assert!(error.contains("no run"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However runs lie, a fit ends with numbers that are physical.
    #[test]
    fn a_fit_ends_physical_whatever_was_measured(
        times in prop::collection::vec(1e-4..1e3_f64, 1..12),
    ) {
        let mut runs = made_up(times.len());
        for (run, time) in runs.iter_mut().zip(times) {
            run.step_time_s = time;
        }
        let calibration = learnt(&runs, Calibration::shipped());
        prop_assert_eq!(calibration.check(), Ok(()));
        for run in &runs {
            let row = Row::new(run, &calibration).expect("a row");
            prop_assert!(row.predict(&calibration).is_finite());
        }
    }
}
