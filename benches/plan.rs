//! What an all-reduce prediction costs against a running sum over the same
//! tensors, a curve against its points, a recommendation on a large cluster.
#![allow(clippy::print_stdout, reason = "a bench prints")]
#![allow(missing_docs, reason = "a bench has no reader but its output")]

mod support;

use std::fmt::Write;
use std::hint::black_box;
use stepcast::calibration::Calibration;
use stepcast::cluster::{Cluster, ClusterFile, Defaults};
use stepcast::job::{Job, JobFile};
use stepcast::model::{Case, Query, Timings, predict, ring};
use stepcast::placement::{Placement, Selection};
use stepcast::plan::{Ask, Objective, Wish, curve, recommend};
use support::{report, time};

const DEVICES: [&str; 6] = [
    "Tesla-T4",
    "Tesla-K80",
    "Tesla-V100-PCIE-32GB",
    "NVIDIA-A100-SXM4-40GB",
    "NVIDIA-L4",
    "NVIDIA-H200",
];

fn cluster(nodes: usize, kinds: usize) -> Cluster {
    let mut text = String::from("nodes:\n");
    for kind in 0..kinds {
        let count = nodes / kinds + usize::from(kind < nodes % kinds);
        let nic = [10, 25, 25, 100, 50, 100][kind];
        let gpus = [1, 1, 4, 8, 2, 8][kind];
        let _ = writeln!(
            text,
            "- {{name: k{kind}, count: {count}, accelerators: {{type: {}, count: {gpus}}}, nic_gbps: {nic}, price_per_hour: {gpus}}}",
            DEVICES[kind]
        );
    }
    let file = ClusterFile {
        name: "bench",
        text: &text,
    };
    file.read(&Defaults::default()).expect("a cluster")
}

fn job(network: &str, fusion: &str) -> Job {
    let text = format!(
        "workload: {network}\nbatch_size: 32\nstrategy: {{all_reduce: {{algorithm: ring, fusion: {fusion}}}}}\n"
    );
    let file = JobFile {
        name: "bench",
        text: &text,
        resolve: &|_| Err("no files here".into()),
    };
    file.read().expect("a job")
}

/// A plain running sum over as many tensors.
fn running_sum(job: &Job) -> f64 {
    let sizes: Vec<f64> = job
        .workload
        .gradients()
        .map(|t| t.elements as f64)
        .collect();
    time(|| black_box(&sizes).iter().fold(0.0, |sum, size| sum + size))
}

fn main() {
    let calibration = Calibration::shipped();
    let ring_time = |job: &Job, cluster: &Cluster, workers: usize| {
        let selection = Selection {
            nodes: None,
            workers: Some(workers),
        };
        let placement = Placement::select(job, cluster, &selection).expect("placed");
        let case = Case::new(
            job,
            cluster,
            calibration,
            &placement,
            &mut Timings::default(),
        )
        .expect("a case");
        let model = ring::Model::new(&case).expect("a model");
        time(|| black_box(&model).step())
    };
    println!("ring, against a running sum over the same tensors");
    let unequal = cluster(64, 6);
    for (fusion, bound) in [("none", Some(12.0)), ("{buffer_mib: 25}", Some(12.0))] {
        let job = job("resnet50", fusion);
        let name = format!("  ResNet50 (161 tensors), 64 workers, fusion {fusion}");
        report(
            &name,
            ring_time(&job, &unequal, 64),
            running_sum(&job),
            bound,
        );
    }
    for network in ["alexnet", "resnet18", "resnet152"] {
        let job = job(network, "none");
        let name = format!(
            "  {network} ({} tensors), 64 workers",
            job.workload.tensor_count()
        );
        report(
            &name,
            ring_time(&job, &unequal, 64),
            running_sum(&job),
            None,
        );
    }
    let large = cluster(1000, 6);
    for workers in [8, 512, 3900] {
        let job = job("resnet50", "none");
        let name = format!("  ResNet50, {workers} workers");
        report(
            &name,
            ring_time(&job, &large, workers),
            running_sum(&job),
            None,
        );
    }
    println!("a curve of 512 points, against as many predictions");
    let resnet = job("resnet50", "{buffer_mib: 25}");
    let pool = cluster(512, 1);
    let ask = |cluster| Ask {
        job: &resnet,
        cluster,
        calibration,
        model: None,
        nodes: None,
        max_workers: None,
        baseline: None,
    };
    let points: f64 = time(|| {
        let mut selection = Selection::default();
        for workers in 1..=512 {
            selection.workers = Some(workers);
            let _ = black_box(predict(&Query {
                job: &resnet,
                cluster: &pool,
                selection: &selection,
                model: None,
                baseline: None,
                calibration,
                simulation_events: None,
            }));
        }
    });
    report(
        "  curve",
        time(|| curve(ask(&pool)).expect("a curve").knee),
        points,
        Some(1.5),
    );
    println!("a recommendation among 5,000 nodes of 6 kinds, against 5 ms");
    let many = cluster(5000, 6);
    let wishes = [
        ("speed", Objective::Speed, None),
        ("efficiency", Objective::Efficiency, None),
        ("cost", Objective::Cost, None),
        ("speedup 200", Objective::Speed, Some(200.0)),
    ];
    for (name, objective, target_speedup) in wishes {
        let wish = Wish {
            objective,
            target_speedup,
            min_marginal_gain: None,
        };
        let seconds = time(|| recommend(ask(&many), &wish).map(|r| r.nodes.len()));
        report(&format!("  {name}"), seconds, 5e-3, Some(1.0));
    }
}
