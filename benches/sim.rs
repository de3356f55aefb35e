//! What an event costs, against bare pushes and pops of a binary heap with
//! as many timers in the same run.
#![allow(clippy::print_stdout, reason = "a bench prints")]
#![allow(missing_docs, reason = "a bench has no reader but its output")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use stepcast::calibration::Calibration;
use stepcast::cluster::{Cluster, ClusterFile, Defaults};
use stepcast::job::{Batch, Job, ParameterServer, Precision, Strategy, Sync};
use stepcast::model::{Case, Timings, simulated};
use stepcast::placement::{Placement, Selection};
use stepcast::sim::{Limits, Outcome, Spec, simulate, sweep};
use stepcast::workload::catalogue;

fn cluster(workers: u32, servers: u32) -> Cluster {
    let mut text = String::from("nodes:\n");
    for s in 0..servers {
        let _ = writeln!(text, "- {{name: s{s}, role: server, nic_gbps: 10}}");
    }
    let _ = writeln!(
        text,
        "- {{name: w, count: {workers}, accelerators: {{type: Tesla-V100-SXM2-16GB}}, nic_gbps: 10}}"
    );
    let file = ClusterFile {
        name: "bench",
        text: &text,
    };
    file.read(&Defaults::default()).expect("a cluster")
}

fn job(network: &str, batch: u32, servers: u32) -> Job {
    Job {
        name: None,
        workload: Arc::new(catalogue::find(network).expect("known").build(None)),
        batch: Batch::PerWorker(batch),
        precision: Precision::Fp32,
        steps: None,
        strategy: Strategy::ParameterServer(ParameterServer {
            sync: Sync::Asp,
            servers,
            overlap: true,
            ..ParameterServer::default()
        }),
    }
}

fn spec(network: &str, batch: u32, workers: u32, servers: u32) -> Spec {
    let (cluster, job) = (cluster(workers, servers), job(network, batch, servers));
    let placement = Placement::select(&job, &cluster, &Selection::default()).expect("placed");
    let calibration = Calibration::shipped();
    let mut timings = Timings::default();
    let case = Case::new(&job, &cluster, calibration, &placement, &mut timings).expect("a case");
    let settings = simulated::Settings {
        jitter: 0.05,
        unfairness: 0.1,
        ..simulated::Settings::default()
    };
    simulated::spec(&case, &settings).expect("a parameter-server job")
}

fn limits(steps: u32) -> Limits {
    Limits {
        steps,
        tolerance: 0.0,
        ..Limits::default()
    }
}

fn run(spec: &Spec, steps: u32) -> (f64, Outcome) {
    let start = Instant::now();
    let outcome = simulate(spec, &limits(steps), 1, &|| false).expect("an outcome");
    (start.elapsed().as_secs_f64(), outcome)
}

/// Seconds of one push and one pop among `held` timers.
fn bare_heap(held: usize, events: u64) -> f64 {
    let mut heap: BinaryHeap<Reverse<(u64, u32)>> = (0..held as u32)
        .map(|i| Reverse((u64::from(i) * 7919, i)))
        .collect();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let start = Instant::now();
    for _ in 0..events {
        let Some(Reverse((at, id))) = heap.pop() else {
            break;
        };
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        heap.push(Reverse((at + (state >> 44), id)));
    }
    black_box(&heap);
    start.elapsed().as_secs_f64() / events as f64
}

fn line(name: &str, seconds: f64, outcome: &Outcome) -> f64 {
    let each = seconds / outcome.events as f64;
    println!(
        "{name:<44} {:>9.2} M events {:>7.1} ns an event {:>8.1} samples/s",
        outcome.events as f64 / 1e6,
        each * 1e9,
        outcome.estimate.throughput
    );
    each
}

fn main() {
    let at_ten = spec("inception_v3", 128, 10, 1);
    let (seconds, outcome) = run(&at_ten, 300);
    let each = line("Inception-v3, batch 128, 10 workers", seconds, &outcome);
    // Timers in flight: a device, a way down, a way up and a core a worker.
    let bare = bare_heap(40, outcome.events.min(20_000_000));
    println!(
        "{:<44} {:>26.1} ns, so the simulator has {:.2} of its rate (at least 0.25)",
        "bare heap, 40 timers, push and pop",
        bare * 1e9,
        bare / each
    );
    let specs: Vec<Spec> = (2..=10).map(|w| spec("inception_v3", 128, w, 1)).collect();
    let start = Instant::now();
    let runs = sweep(&specs, &limits(1000), 1, &|| false);
    let seconds = start.elapsed().as_secs_f64();
    let events: u64 = runs.iter().flatten().map(|o| o.events).sum();
    println!(
        "Inception-v3, 2–10 workers, 1000 steps each: {:.1} M events in {seconds:.2} s (at most 3 s)",
        events as f64 / 1e6
    );
    println!("\ngrowth with workers");
    for workers in [1, 4, 16, 64, 256] {
        let (seconds, outcome) = run(&spec("resnet50", 32, workers, 1), 1600 / workers + 2);
        line(
            &format!("ResNet-50, {workers} workers, 1 server"),
            seconds,
            &outcome,
        );
    }
    println!("growth with servers");
    for servers in [1, 2, 4, 8, 16] {
        let (seconds, outcome) = run(&spec("resnet50", 32, 16, servers), 100);
        line(
            &format!("ResNet-50, 16 workers, {servers} servers"),
            seconds,
            &outcome,
        );
    }
    println!("growth with tensors");
    for network in [
        "alexnet",
        "resnet18",
        "resnet50",
        "densenet121",
        "resnet152",
    ] {
        let (seconds, outcome) = run(&spec(network, 32, 10, 1), 150);
        line(&format!("{network}, 10 workers"), seconds, &outcome);
    }
}
