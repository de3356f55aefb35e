//! The sidecar against a real kube-apiserver and etcd.
//!
//! Needs the programs that `tests/tools/assets.sh kube` installs; without them
//! everything is skipped, with the reason printed.
#![allow(clippy::print_stdout, reason = "tests print the numbers they judge")]

mod apiserver;
mod sidecar;

use apiserver::{ApiServer, node, with_status};
use serde_json::json;
use sidecar::Sidecar;
use std::time::{Duration, Instant};
use stepcast::protocol::v1;

/// The programs, or why there are none.
fn assets() -> Option<std::path::PathBuf> {
    let folder = std::env::var_os("KUBEBUILDER_ASSETS")
        .or_else(|| std::env::var_os("STEPCAST_ASSETS"))
        .map(std::path::PathBuf::from)
        .or_else(|| {
            std::env::var_os("HOME")
                .map(|h| std::path::Path::new(&h).join(".cache/stepcast/assets"))
        })?;
    folder.join("kube-apiserver").exists().then_some(folder)
}

macro_rules! need_assets {
    () => {
        if assets().is_none() {
            println!("skipped: no kube-apiserver; run tests/tools/assets.sh kube");
            return;
        }
    };
}

fn job() -> v1::Job {
    v1::Job {
        workload: Some(v1::Workload {
            description: Some(v1::workload::Description::CatalogueName("resnet50".into())),
            sequence_length: 0,
        }),
        batch: Some(v1::job::Batch::BatchSize(32)),
        strategy: Some(v1::Strategy {
            kind: Some(v1::strategy::Kind::AllReduce(v1::AllReduce::default())),
        }),
        ..v1::Job::default()
    }
}

fn on(names: &[&str]) -> v1::PredictRequest {
    v1::PredictRequest {
        job: Some(job()),
        nodes: Some(v1::NodeSet {
            names: names.iter().map(|n| (*n).to_owned()).collect(),
            ..v1::NodeSet::default()
        }),
        ..v1::PredictRequest::default()
    }
}

/// Waits until something holds; panics with what it was about after a while.
async fn until<F: Future<Output = bool>>(
    what: &str,
    within: Duration,
    mut holds: impl FnMut() -> F,
) -> Duration {
    let start = Instant::now();
    loop {
        if holds().await {
            return start.elapsed();
        }
        assert!(start.elapsed() < within, "{what}: not within {within:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_appear_change_and_vanish() {
    need_assets!();
    let api = ApiServer::start("nodes").await;
    // No rights at first: refused by name, and never ready.
    let sidecar = Sidecar::start(&api).await;
    until("the refusal is logged", SOON, || async {
        let log = sidecar.log();
        log.contains("refused by RBAC") && log.contains("resources: [nodes]")
    })
    .await;
    assert_eq!(sidecar.ready().await, 503);
    // Rights to nodes alone: ready, with a warning that pods are not seen.
    api.grant(&["nodes"]).await;
    api.create(&node("a", "Tesla-V100-SXM2-16GB", 8, "25"))
        .await;
    until("ready", SOON, || async { sidecar.ready().await == 200 }).await;
    until("node a", SOON, || async {
        sidecar.nodes().await.iter().any(|n| n.name == "a")
    })
    .await;
    let listed = sidecar.list().await;
    assert!(
        listed
            .warnings
            .iter()
            .any(|w| w.contains("pods may not be read")),
        "{:?}",
        listed.warnings
    );
    let a = &listed.nodes[0];
    assert_eq!(
        (a.accelerator_type.as_str(), a.accelerator_count),
        ("Tesla-V100-SXM2-16GB", 8)
    );
    let nic = a
        .facts
        .iter()
        .find(|f| f.name == "nic_gbps")
        .expect("a fact");
    assert_eq!(
        (nic.value.as_str(), nic.source.as_str()),
        ("25", "stepcast.dev/nic-gbps")
    );
    // Pods too: what they hold is seen, and the warning goes.
    api.grant(&["nodes", "pods"]).await;
    api.pod("train-0", "a", 6, "Running").await;
    until("6 taken", SOON, || async {
        sidecar
            .nodes()
            .await
            .iter()
            .any(|n| n.accelerators_taken == 6)
    })
    .await;
    assert!(sidecar.list().await.warnings.is_empty());
    let recommended = sidecar.recommend(job()).await;
    assert_eq!(
        recommended.prediction.expect("an answer").workers,
        2,
        "only what is free"
    );
    api.pod_phase("train-0", "Succeeded").await;
    until("none taken", SOON, || async {
        sidecar
            .nodes()
            .await
            .iter()
            .all(|n| n.accelerators_taken == 0)
    })
    .await;
    // A second node, then a change of its label: the answer follows.
    api.create(&node("b", "Tesla-V100-SXM2-16GB", 8, "25"))
        .await;
    until("node b", SOON, || async {
        sidecar.nodes().await.len() == 2
    })
    .await;
    let before = sidecar.predict(on(&["a", "b"])).await.expect("an answer");
    assert_eq!(before.workers, 16);
    api.label("b", "stepcast.dev/nic-gbps", "1").await;
    let seen = until("a slower answer", SOON, || async {
        let now = sidecar.predict(on(&["a", "b"])).await.expect("an answer");
        now.iteration_time_seconds > 1.2 * before.iteration_time_seconds
    })
    .await;
    println!("a label's change is in answers after {seen:?}");
    // Cordoned: shown with the reason. Gone: unknown by name.
    api.patch("b", &json!({"spec": {"unschedulable": true}}))
        .await;
    until("cordoned", SOON, || async {
        sidecar
            .nodes()
            .await
            .iter()
            .any(|n| n.name == "b" && n.unusable.contains("cordoned"))
    })
    .await;
    api.delete("b").await;
    until("b is gone", SOON, || async {
        sidecar.nodes().await.len() == 1
    })
    .await;
    let error = sidecar
        .predict(on(&["a", "b"]))
        .await
        .expect_err("b is gone");
    assert_eq!(error.code(), tonic::Code::InvalidArgument);
    assert!(error.message().contains("no node named `b`"), "{error}");
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_dies_takes_nothing_with_it() {
    need_assets!();
    let api = ApiServer::start("outage").await;
    api.grant(&["nodes", "pods"]).await;
    for i in 0..20 {
        api.create(&node(&format!("n{i:02}"), "NVIDIA-L4", 4, "10"))
            .await;
    }
    let sidecar = Sidecar::start(&api).await;
    until("20 nodes", SOON, || async {
        sidecar.nodes().await.len() == 20
    })
    .await;
    let before = sidecar
        .predict(on(&["n00", "n01"]))
        .await
        .expect("an answer");
    // Killed in the middle of the watch: the last state serves, metrics tell.
    api.tool(&["stop-apiserver"]);
    until("out of touch", SOON, || async {
        sidecar.metric("stepcast_inventory_synced").await == Some(0.0)
    })
    .await;
    assert_eq!(sidecar.nodes().await.len(), 20);
    let during = sidecar
        .predict(on(&["n00", "n01"]))
        .await
        .expect("an answer");
    assert_eq!(during, before, "the same answer");
    assert_eq!(sidecar.ready().await, 200, "what it knows, it serves");
    api.tool(&["start-apiserver"]);
    let back = until("in touch again", Duration::from_mins(1), || async {
        sidecar.metric("stepcast_inventory_synced").await == Some(1.0)
    })
    .await;
    println!("in touch {back:?} after the API server was back");
    api.create(&node("late", "NVIDIA-L4", 4, "10")).await;
    until("a node that came after", SOON, || async {
        sidecar.nodes().await.len() == 21
    })
    .await;
    // Changes while it is away, history compacted: a real 410, and a new list.
    api.label("n03", "stepcast.dev/nic-gbps", "40").await;
    until("n03 changed", SOON, || async {
        sidecar
            .nodes()
            .await
            .iter()
            .any(|n| n.name == "n03" && n.nic_gbps > 39.0)
    })
    .await;
    sidecar.pause();
    api.delete("n00").await;
    for i in 0..30 {
        api.label("n05", "stepcast.dev/nic-gbps", &format!("{}", 20 + i))
            .await;
    }
    api.tool(&["compact"]);
    api.tool(&["restart-apiserver"]);
    sidecar.resume();
    let healed = until("the new state", Duration::from_secs(90), || async {
        let nodes = sidecar.nodes().await;
        nodes.len() == 20
            && !nodes.iter().any(|n| n.name == "n00")
            && nodes.iter().any(|n| n.name == "n05" && n.nic_gbps > 48.0)
    })
    .await;
    println!("after compaction and a restart, the new state took {healed:?}");
    assert!(
        sidecar.log().contains("listing anew"),
        "no 410 was met:\n{}",
        sidecar.log()
    );
    // Never did a snapshot lose nodes: every gauge reading had them.
    assert!(sidecar.metric("stepcast_inventory_nodes").await >= Some(20.0));
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_nodes() {
    need_assets!();
    let api = ApiServer::start("large").await;
    api.grant(&["nodes", "pods"]).await;
    // Memory before there is anything to know.
    let idle = {
        let sidecar = Sidecar::start(&api).await;
        until("ready", SOON, || async { sidecar.ready().await == 200 }).await;
        let idle = sidecar.rss_mib();
        sidecar.stop().await;
        idle
    };
    let start = Instant::now();
    let names: Vec<String> = (0..5000).map(|i| format!("node-{i:04}")).collect();
    api.create_many(names.iter().enumerate().map(|(i, name)| {
        let types = [
            "Tesla-V100-SXM2-16GB",
            "NVIDIA-A100-SXM4-40GB",
            "NVIDIA-L4",
            "Tesla-T4",
        ];
        with_status(node(name, types[i % 4], 8, ["10", "25", "100"][i % 3]))
    }))
    .await;
    println!("5,000 nodes created in {:?}", start.elapsed());
    let start = Instant::now();
    let sidecar = Sidecar::start(&api).await;
    until("5,000 nodes", Duration::from_mins(1), || async {
        sidecar.ready().await == 200 && sidecar.count().await == 5000
    })
    .await;
    println!(
        "first sync of 5,000 nodes {:?} after the start",
        start.elapsed()
    );
    // What the list itself took is given back within moments.
    until("at most 64 MiB over idle", SOON, || async {
        sidecar.rss_mib() - idle <= 64.0
    })
    .await;
    let full = sidecar.rss_mib();
    println!(
        "memory: {idle:.0} MiB idle, {full:.0} MiB with 5,000 nodes: {:.0} MiB more",
        full - idle
    );
    // A thousand changes, all of them seen.
    let start = Instant::now();
    api.label_many(&names[..1000], "stepcast.dev/nic-gbps", "37")
        .await;
    let written = start.elapsed();
    let seen = until("1,000 changes", Duration::from_mins(1), || async {
        sidecar.select("stepcast.dev/nic-gbps=37").await == 1000
    })
    .await;
    println!("1,000 label changes written in {written:?}, the last seen {seen:?} later");
    let names: Vec<&str> = names[..8].iter().map(String::as_str).collect();
    sidecar.predict(on(&names)).await.expect("an answer");
    println!("memory after the changes: {:.0} MiB", sidecar.rss_mib());
    sidecar.stop().await;
}
