//! The `ps` model against what it must equal: Zeng's Algorithm 1 where nothing
//! overlaps and nothing costs extra, and the exact merge of all gradients at
//! the server where everything overlaps.

use std::sync::Arc;
use stepcast::calibration::{Calibration, TransferParameters};
use stepcast::cluster::{ClusterFile, Defaults};
use stepcast::job::{Batch, Job, ParameterServer, Precision, Strategy};
use stepcast::model::zeng::unequal;
use stepcast::model::{Case, Timings, ps};
use stepcast::placement::{Placement, Selection};
use stepcast::units::{Bytes, Flops, Seconds};
use stepcast::workload::{Layer, LayerKind, Workload, catalogue};

/// No overheads: only line rates.
fn bare() -> Calibration {
    let shipped = Calibration::shipped();
    Calibration {
        transfer: TransferParameters {
            goodput: 1.0,
            startup_s: 0.0,
            latency_s: 0.0,
            copy_s_per_byte: 0.0,
            receive_s_per_byte: 0.0,
            send_s_per_byte: 0.0,
            update_s_per_byte: 0.0,
        },
        ..shipped.clone()
    }
}

const CLUSTER: &str = "nodes:\n- {name: s, role: server, nic_gbps: 10}\n- {name: a, count: 2, cpu: {type: lab-xeon-4t}, nic_gbps: 100}\n- {name: b, count: 1, cpu: {type: lab-xeon-2t}, nic_gbps: 100}\n- {name: c, count: 3, cpu: {type: lab-xeon-1t}, nic_gbps: 100}\n";

fn job(workload: Workload, overlap: bool) -> Job {
    Job {
        name: None,
        workload: Arc::new(workload),
        batch: Batch::PerWorker(4),
        precision: Precision::Fp32,
        steps: None,
        strategy: Strategy::ParameterServer(ParameterServer {
            overlap,
            ..ParameterServer::default()
        }),
    }
}

fn with_case<T>(job: &Job, ask: impl Fn(&Case<'_>) -> T) -> T {
    let calibration = bare();
    let file = ClusterFile {
        name: "cluster",
        text: CLUSTER,
    };
    let cluster = file.read(&Defaults::default()).expect("a cluster");
    let placement = Placement::select(job, &cluster, &Selection::default()).expect("placed");
    let case = Case::new(
        job,
        &cluster,
        &calibration,
        &placement,
        &mut Timings::default(),
    )
    .expect("a case");
    ask(&case)
}

#[test]
fn without_overlap_and_overheads_it_is_algorithm_1() {
    for network in ["alexnet", "resnet50", "vgg11"] {
        let job = job(catalogue::find(network).expect(network).build(None), false);
        with_case(&job, |case| {
            let bytes = Bytes::new(job.workload.parameters() as f64 * 4.0);
            let transfer = bytes / case.servers[0].nic;
            let mut ready: Vec<(Seconds, f64)> = case
                .classes
                .iter()
                .map(|c| (c.timing.compute(), f64::from(c.count)))
                .collect();
            ready.sort_by(|a, b| a.0.get().total_cmp(&b.0.get()));
            let expected = unequal(&ready, transfer, transfer).get();
            let step = ps::Model::new(case).expect("ps").step();
            let update = step
                .parts()
                .iter()
                .find(|p| p.name == "update")
                .expect("an update")
                .time
                .get();
            let ours = step.time.get() - update;
            assert!(
                (ours / expected - 1.0).abs() < 1e-9,
                "{network}: {ours} against {expected}"
            );
        });
    }
}

/// Many equal small layers: the hull of their gradients is smooth, and every
/// one of them might begin the busy period.
fn smooth(layers: usize) -> Workload {
    let layers = (0..layers)
        .map(|i| Layer {
            forward_flops: Flops::new(1e9 * (1.0 + i as f64) / layers as f64),
            parameters: vec![(4e7 / layers as f64) as u64],
            ..Layer::bare(format!("l{i}"), LayerKind::Unspecified)
        })
        .collect();
    Workload::new("smooth", layers)
}

/// The server's queue as it is: every gradient of every worker in the order
/// in which they are ready.
fn merged(case: &Case<'_>) -> f64 {
    let workload = &case.job.workload;
    let rate = case.servers[0].nic.get();
    let workers = f64::from(case.workers);
    let mut arrivals: Vec<(f64, f64)> = Vec::new();
    for class in &case.classes {
        let mut clock = 0.0_f64;
        let mut sent = 0.0;
        for (layer, forward) in workload.layers.iter().zip(&class.timing.forward) {
            sent += layer.parameter_count() as f64 * 4.0;
            let own = sent / class.nic.get();
            clock = clock.max((sent * workers / rate).max(own)) + forward.get();
        }
        for (layer, backward) in workload.layers.iter().zip(&class.timing.backward).rev() {
            clock += backward.get();
            let bytes = layer.parameter_count() as f64 * 4.0;
            arrivals.extend((0..class.count).map(|_| (clock, bytes)));
        }
    }
    arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
    arrivals.iter().fold(0.0_f64, |end, (ready, bytes)| {
        end.max(*ready) + bytes / rate
    })
}

#[test]
fn with_overlap_the_queue_is_the_exact_merge() {
    let networks =
        ["alexnet", "vgg16", "resnet50"].map(|n| catalogue::find(n).expect(n).build(None));
    for workload in networks.into_iter().chain([100, 1000, 3000].map(smooth)) {
        let job = job(workload, true);
        with_case(&job, |case| {
            let expected = merged(case);
            let step = ps::Model::new(case).expect("ps").step();
            let update = step
                .parts()
                .iter()
                .find(|p| p.name == "update")
                .expect("an update")
                .time
                .get();
            let ours = step.time.get() - update;
            let off = ours / expected - 1.0;
            println!(
                "{} ({} layers): {:+.3} %",
                job.workload.name,
                job.workload.layers.len(),
                off * 100.0
            );
            assert!(
                off.abs() < 0.01,
                "{}: {ours} against {expected}",
                job.workload.name
            );
        });
    }
}
