//! What a prediction costs, against sorting as many floats in the same run.
#![allow(clippy::print_stdout, reason = "a bench prints")]
#![allow(missing_docs, reason = "a bench has no reader but its output")]

mod support;

use std::fmt::Write;
use std::sync::Arc;
use stepcast::calibration::Calibration;
use stepcast::cluster::{Cluster, ClusterFile, Defaults};
use stepcast::job::{Batch, Job, ParameterServer, Precision, Strategy};
use stepcast::model::{Case, ModelName, Query, Timings, predict, ps};
use stepcast::placement::{Placement, Selection};
use stepcast::workload::catalogue;
use support::{report, time};

const DEVICES: [&str; 6] = [
    "Tesla-T4",
    "Tesla-K80",
    "Tesla-V100-PCIE-32GB",
    "NVIDIA-A100-SXM4-40GB",
    "NVIDIA-L4",
    "NVIDIA-H200",
];
const NICS: [u32; 3] = [10, 25, 100];

/// Workers of a few kinds, as clusters have them, or each unlike any other.
#[derive(Clone, Copy)]
enum Mix {
    Kinds,
    AllDifferent,
}

fn cluster(workers: usize, mix: Mix) -> Cluster {
    let mut text = String::from(
        "nodes:\n- {name: s0, role: server, nic_gbps: 100}\n- {name: s1, role: server, nic_gbps: 50}\n",
    );
    for i in 0..workers {
        let device = DEVICES[i % DEVICES.len()];
        let nic = match mix {
            Mix::Kinds => f64::from(NICS[i / DEVICES.len() % NICS.len()]),
            Mix::AllDifferent => 10.0 + i as f64 / 100.0,
        };
        let _ = writeln!(
            text,
            "- {{name: w{i}, accelerators: {{type: {device}}}, nic_gbps: {nic}}}"
        );
    }
    let file = ClusterFile {
        name: "bench",
        text: &text,
    };
    file.read(&Defaults::default()).expect("a cluster")
}

fn job(network: &str) -> Job {
    Job {
        name: None,
        workload: Arc::new(catalogue::find(network).expect("known").build(None)),
        batch: Batch::PerWorker(32),
        precision: Precision::Fp32,
        steps: None,
        strategy: Strategy::ParameterServer(ParameterServer {
            servers: 2,
            ..ParameterServer::default()
        }),
    }
}

/// Sorting as many floats, from the same order every time.
fn sorting(count: usize) -> f64 {
    let floats: Vec<f64> = (0..count).map(|i| ((i * 7919) % 10_007) as f64).collect();
    let mut scratch = floats.clone();
    time(|| {
        scratch.copy_from_slice(&floats);
        scratch.sort_unstable_by(f64::total_cmp);
        scratch[0]
    })
}

fn main() {
    let calibration = Calibration::shipped();
    let resnet = job("resnet50");
    println!(
        "ps, ResNet50, unequal workers ({} classes at most)",
        DEVICES.len() * NICS.len()
    );
    for workers in [8, 64, 256, 1000, 4000] {
        let cluster = cluster(workers, Mix::Kinds);
        let baseline = sorting(workers);
        let bound = matches!(workers, 64 | 1000).then_some(25.0);
        let placement =
            Placement::select(&resnet, &cluster, &Selection::default()).expect("placed");
        let mut timings = Timings::default();
        let case =
            Case::new(&resnet, &cluster, calibration, &placement, &mut timings).expect("a case");
        let mut model = ps::Model::new(&case).expect("a model");
        println!(
            "{workers} workers; sorting as many floats takes {:.0} ns",
            baseline * 1e9
        );
        report(
            "  prediction, case prepared",
            time(|| model.step()),
            baseline,
            bound,
        );
        let placed = time(|| {
            let case = Case::new(&resnet, &cluster, calibration, &placement, &mut timings)
                .expect("a case");
            ps::Model::new(&case).map(|mut m| m.step())
        });
        report("  prediction, placed anew", placed, baseline, None);
        let query = Query {
            job: &resnet,
            cluster: &cluster,
            selection: &Selection::default(),
            model: Some(ModelName::Ps),
            baseline: None,
            calibration,
            simulation_events: None,
        };
        report(
            "  the whole answer, nothing kept",
            time(|| predict(&query)),
            baseline,
            None,
        );
    }
    println!("every worker unlike any other");
    for workers in [64, 1000] {
        let cluster = cluster(workers, Mix::AllDifferent);
        let placement =
            Placement::select(&resnet, &cluster, &Selection::default()).expect("placed");
        let case = Case::new(
            &resnet,
            &cluster,
            calibration,
            &placement,
            &mut Timings::default(),
        )
        .expect("a case");
        let mut model = ps::Model::new(&case).expect("a model");
        report(
            &format!("  {workers} workers, case prepared"),
            time(|| model.step()),
            sorting(workers),
            Some(25.0),
        );
    }
    println!("growth with layers, 64 workers");
    let cluster = cluster(64, Mix::Kinds);
    for network in ["alexnet", "resnet18", "resnet50", "resnet152"] {
        let job = job(network);
        let placement = Placement::select(&job, &cluster, &Selection::default()).expect("placed");
        let case = Case::new(
            &job,
            &cluster,
            calibration,
            &placement,
            &mut Timings::default(),
        )
        .expect("a case");
        let mut model = ps::Model::new(&case).expect("a model");
        let name = format!("  {network} ({} tensors)", job.workload.tensor_count());
        report(&name, time(|| model.step()), sorting(64), None);
    }
}
