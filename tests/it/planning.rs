//! `curve`, `recommend` and `tune`.

use crate::cli::{Scratch, stderr, stdout, stepcast};
use proptest::prelude::*;
use std::fmt::Write;
use stepcast::calibration::Calibration;
use stepcast::cluster::{Cluster, ClusterFile, Defaults};
use stepcast::job::{Job, JobFile};
use stepcast::model::{Query, predict};
use stepcast::placement::Selection;
use stepcast::plan::{Ask, Objective, PlanError, Wish, curve, recommend};

fn job(strategy: &str) -> Job {
    let text = format!("workload: resnet50\nbatch_size: 32\nstrategy: {strategy}\n");
    let file = JobFile {
        name: "job",
        text: &text,
        resolve: &|_| Err("no files here".into()),
    };
    file.read().unwrap_or_else(|e| panic!("{e}"))
}

fn cluster(nodes: &[(&str, u32, f64, u32)]) -> Cluster {
    let mut text = String::from("nodes:\n");
    for (i, (device, accelerators, nic, count)) in nodes.iter().enumerate() {
        let price = 1.0 + i as f64;
        let _ = writeln!(
            text,
            "- {{name: k{i}, count: {count}, accelerators: {{type: {device}, count: {accelerators}}}, nic_gbps: {nic}, price_per_hour: {price}}}"
        );
    }
    let file = ClusterFile {
        name: "cluster",
        text: &text,
    };
    file.read(&Defaults::default())
        .unwrap_or_else(|e| panic!("{e}"))
}

fn ask<'a>(job: &'a Job, cluster: &'a Cluster) -> Ask<'a> {
    Ask {
        job,
        cluster,
        calibration: Calibration::shipped(),
        model: None,
        nodes: None,
        max_workers: None,
        baseline: None,
    }
}

const SPEED: Wish = Wish {
    objective: Objective::Speed,
    target_speedup: None,
    min_marginal_gain: None,
};

/// Throughput, nodes and price of every set of nodes, asked one by one.
fn every_set(job: &Job, cluster: &Cluster) -> Vec<(f64, usize, f64)> {
    let n = cluster.nodes.len();
    (1_u32..1 << n)
        .map(|set| {
            let chosen: Vec<_> = (0..n)
                .filter(|i| set & (1 << i) != 0)
                .map(|i| &cluster.nodes[i])
                .collect();
            let selection = Selection {
                nodes: Some(chosen.iter().map(|n| n.name.clone()).collect()),
                workers: None,
            };
            let answer = predict(&Query {
                job,
                cluster,
                selection: &selection,
                model: None,
                baseline: None,
                calibration: Calibration::shipped(),
                simulation_events: None,
            })
            .expect("an answer");
            let price: f64 = chosen.iter().filter_map(|n| n.price_per_hour).sum();
            (answer.throughput(), chosen.len(), price)
        })
        .collect()
}

fn kinds() -> impl Strategy<Value = Vec<(&'static str, u32, f64, u32)>> {
    let device = prop_oneof![
        Just("t4"),
        Just("K80-12GB"),
        Just("V100-PCIE-32GB"),
        Just("NVIDIA-H200")
    ];
    prop::collection::vec((device, 1_u32..5, 1.0..100.0_f64, 1_u32..4), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Exact on small clusters, against every set of nodes by brute force.
    #[test]
    fn the_best_set_is_found(kinds in kinds(), target in 1.0..8.0_f64) {
        let (job, cluster) = (job("{all_reduce: {algorithm: ring}}"), cluster(&kinds));
        let sets = every_set(&job, &cluster);
        let fastest = sets.iter().map(|s| s.0).fold(0.0, f64::max);
        let found = recommend(ask(&job, &cluster), &SPEED).expect("a set");
        prop_assert!((found.prediction.throughput() / fastest - 1.0).abs() < 1e-9);

        let cheapest = sets.iter().map(|s| s.2 / s.0).fold(f64::INFINITY, f64::min);
        let cost = Wish { objective: Objective::Cost, ..SPEED };
        let found = recommend(ask(&job, &cluster), &cost).expect("a set");
        let price = found.price_per_hour.expect("a price");
        prop_assert!((price / found.prediction.throughput() / cheapest - 1.0).abs() < 1e-9);

        let wish = Wish { target_speedup: Some(target), ..SPEED };
        let needed = target * alone(&job, &cluster);
        let fewest = sets.iter().filter(|s| s.0 >= needed).map(|s| s.1).min();
        match recommend(ask(&job, &cluster), &wish) {
            Ok(found) => prop_assert_eq!(Some(found.nodes.len()), fewest),
            Err(PlanError::OutOfReach { .. }) => prop_assert_eq!(fewest, None),
            Err(other) => panic!("{other}"),
        }
    }

    /// The search by kinds, which serves large pools, does as well there as
    /// the best of the kinds' own prefixes.
    #[test]
    fn large_pools_are_searched_by_kind(kinds in kinds()) {
        let many: Vec<_> = kinds.iter().map(|&(d, a, n, c)| (d, a, n, c * 40)).collect();
        let (job, cluster) = (job("{all_reduce: {algorithm: ring}}"), cluster(&many));
        let found = recommend(ask(&job, &cluster), &SPEED).expect("a set");
        for kind in 0..many.len() {
            let names: Vec<String> = cluster.nodes.iter().map(|n| n.name.clone()).filter(|n| n.starts_with(&format!("k{kind}-"))).collect();
            let selection = Selection { nodes: Some(names), workers: None };
            let query = Query { job: &job, cluster: &cluster, selection: &selection, model: None, baseline: None, calibration: Calibration::shipped(), simulation_events: None };
            let alone = predict(&query).expect("an answer").throughput();
            prop_assert!(found.prediction.throughput() >= alone * (1.0 - 1e-9));
        }
    }
}

/// Samples a second of one worker on the fastest node.
fn alone(job: &Job, cluster: &Cluster) -> f64 {
    let answer = predict(&Query {
        job,
        cluster,
        selection: &Selection::default(),
        model: None,
        baseline: None,
        calibration: Calibration::shipped(),
        simulation_events: None,
    })
    .expect("an answer");
    32.0 / answer.baseline.iteration_time.get()
}

#[test]
fn the_best_set_is_not_the_first_nodes() {
    let job = job("{all_reduce: {algorithm: ring}}");
    let cluster = cluster(&[("K80-12GB", 1, 10.0, 4), ("NVIDIA-H200", 1, 100.0, 4)]);
    let found = recommend(ask(&job, &cluster), &SPEED).expect("a set");
    assert!(
        found.nodes.iter().all(|n| n.starts_with("k1-")),
        "{:?}",
        found.nodes
    );
}

#[test]
fn efficiency_stops_where_workers_are_not_worth_it() {
    let job = job("{parameter_server: {servers: 1}}");
    let cluster = cluster(&[("K80-12GB", 1, 10.0, 12)]);
    let all = recommend(ask(&job, &cluster), &SPEED).expect("a set");
    let wish = Wish {
        objective: Objective::Efficiency,
        ..SPEED
    };
    let some = recommend(ask(&job, &cluster), &wish).expect("a set");
    assert!(
        some.nodes.len() < all.nodes.len(),
        "{} and {}",
        some.nodes.len(),
        all.nodes.len()
    );
}

#[test]
fn curves_take_the_fastest_nodes_first() {
    let job = job("{all_reduce: {algorithm: ring}}");
    let cluster = cluster(&[("K80-12GB", 1, 10.0, 2), ("NVIDIA-H200", 1, 100.0, 2)]);
    let curve = curve(ask(&job, &cluster)).expect("a curve");
    assert_eq!(curve.points.len(), 4);
    assert_eq!(curve.knee, 2);
    assert!((curve.points[0].speedup - 1.0).abs() < 1e-12);
    assert_eq!(curve.points[0].baseline.node, "k1-0");
}

#[test]
fn the_commands_answer_in_every_format() {
    let scratch = Scratch::new("planning");
    let job = scratch.write(
        "job.yaml",
        "workload: vgg16\nbatch_size: 32\nstrategy: all_reduce\n",
    );
    let cluster = scratch.write(
        "cluster.yaml",
        "nodes: [{name: a, count: 4, accelerators: {type: NVIDIA-RTX-2080Ti, count: 8}, nic_gbps: 25, price_per_hour: 5}]",
    );
    for command in ["curve", "recommend", "tune"] {
        for format in ["table", "json", "yaml", "csv"] {
            let output = stepcast(&[command, "-j", &job, "-c", &cluster, "-o", format]);
            assert!(
                output.status.success(),
                "{command} {format}: {}",
                stderr(&output)
            );
            if format == "table" {
                for line in stdout(&output).lines() {
                    assert!(line.chars().count() <= 80, "{command}: {line}");
                }
            }
        }
    }
    let json: serde_json::Value = serde_json::from_slice(
        &stepcast(&["curve", "-j", &job, "-c", &cluster, "-o", "json"]).stdout,
    )
    .expect("JSON");
    assert_eq!(json["points"].as_array().map(Vec::len), Some(32));
    assert!(json["knee"].as_u64().is_some_and(|k| (1..=32).contains(&k)));
    let svg = stdout(&stepcast(&[
        "curve", "-j", &job, "-c", &cluster, "-o", "svg",
    ]));
    for part in [
        "<svg",
        "workers",
        "speedup over one worker",
        "ideal",
        "knee",
    ] {
        assert!(svg.contains(part), "{part}");
    }
    let png = stepcast(&["curve", "-j", &job, "-c", &cluster, "-o", "png"]).stdout;
    assert!(png.starts_with(b"\x89PNG"));
    let tuned: serde_json::Value = serde_json::from_slice(
        &stepcast(&["tune", "-j", &job, "-c", &cluster, "-o", "json"]).stdout,
    )
    .expect("JSON");
    let suggestions = tuned["suggestions"].as_array().expect("suggestions");
    let replaced = suggestions
        .iter()
        .find(|s| {
            s["what"]
                .as_str()
                .is_some_and(|w| w.starts_with("replace fully connected"))
        })
        .expect("layer replacement pays on VGG16");
    // The paper's doubling is held to in `reproduce`, with its parameters;
    // `ring` with the calibrated NIC starts from a higher factor.
    let before = tuned["now"]["scaling_factor"].as_f64().expect("a factor");
    println!(
        "VGG16 on 32 GPUs by ring: {before:.2} to {}",
        replaced["scaling_factor"]
    );
    assert!(replaced["scaling_factor"].as_f64().expect("a factor") > 1.1 * before);
}

#[test]
fn wishes_that_cannot_be_met_say_why() {
    let scratch = Scratch::new("wishes");
    let job = scratch.write(
        "job.yaml",
        "workload: resnet50\nbatch_size: 32\nstrategy: all_reduce\n",
    );
    let single = scratch.write("single.yaml", "workload: resnet50\nbatch_size: 32\n");
    let cluster = scratch.write(
        "cluster.yaml",
        "nodes: [{name: a, count: 2, accelerators: {type: t4}, nic_gbps: 10}]",
    );
    for (args, expected) in [
        (
            vec!["recommend", "-j", &job, "--target-speedup", "9"],
            "no set of these nodes reaches",
        ),
        (
            vec!["recommend", "-j", &job, "--objective", "cost"],
            "needs `price_per_hour`",
        ),
        (
            vec!["recommend", "-j", &job, "--target-speedup", "0"],
            "expected a number above zero",
        ),
        (vec!["recommend", "-j", &single], "nothing to plan"),
        (
            vec!["recommend", "-j", &job, "--nodes", "a-0,a-0"],
            "named twice",
        ),
        (
            vec![
                "recommend",
                "-j",
                &job,
                "--target-speedup",
                "2",
                "--min-marginal-gain",
                "0.5",
            ],
            "contradict",
        ),
        (
            vec!["curve", "-j", &job, "--max-workers", "0"],
            "at least 1",
        ),
    ] {
        let mut args = args;
        args.extend(["-c", &cluster]);
        let output = stepcast(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            stderr(&output).contains(expected),
            "{args:?}: {}",
            stderr(&output)
        );
    }
}

/// Whatever limits the workers, the last node may be taken in part, and a
/// global batch leaves nobody without a sample.
#[test]
fn limits_are_kept_and_used_up() {
    let job = job("{all_reduce: {algorithm: ring}}");
    let nodes = cluster(&[("V100-PCIE-32GB", 4, 25.0, 3), ("t4", 1, 25.0, 4)]);
    for limit in 1..=12 {
        let asked = Ask {
            max_workers: Some(limit),
            ..ask(&job, &nodes)
        };
        let found = recommend(asked, &SPEED).expect("a set");
        assert!(found.prediction.workers <= limit);
        let curve = curve(asked).expect("a curve");
        let best = curve
            .points
            .iter()
            .map(stepcast::model::Prediction::throughput)
            .fold(0.0, f64::max);
        let ours = found.prediction.throughput();
        assert!(
            ours >= best * (1.0 - 1e-9),
            "{limit}: {ours} against the curve's {best}"
        );
    }
    let mut global = job;
    global.batch = stepcast::job::Batch::Global(6);
    let many = cluster(&[("t4", 4, 25.0, 2000)]);
    let found = recommend(ask(&global, &many), &SPEED).expect("a set");
    assert!(
        (2..=6).contains(&found.prediction.workers),
        "{}",
        found.prediction.workers
    );
}

/// More kinds than are searched in full: the slow crowd still counts.
#[test]
fn many_kinds_are_all_looked_at() {
    let job = job("{all_reduce: {algorithm: ring}}");
    let mut kinds: Vec<(&str, u32, f64, u32)> = (0..8)
        .map(|i| ("NVIDIA-A100-SXM4-40GB", 1, 90.0 + f64::from(i), 2))
        .collect();
    kinds.push(("t4", 1, 100.0, 500));
    let nodes = cluster(&kinds);
    let found = recommend(ask(&job, &nodes), &SPEED).expect("a set");
    assert!(found.nodes.len() > 500, "{}", found.nodes.len());
}

#[test]
fn sets_that_do_not_fit_in_memory_are_not_proposed() {
    let mut job = job("{all_reduce: {algorithm: ring}}");
    job.batch = stepcast::job::Batch::PerWorker(256);
    let nodes = cluster(&[("t4", 1, 100.0, 8), ("NVIDIA-A100-SXM4-80GB", 1, 100.0, 2)]);
    let found = recommend(ask(&job, &nodes), &SPEED).expect("a set");
    assert!(found.prediction.memory.is_some_and(|m| m.fits()));
    assert!(
        found
            .prediction
            .warnings
            .iter()
            .any(|w| w.contains("left out")),
        "{:?}",
        found.prediction.warnings
    );
}
