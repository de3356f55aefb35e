//! Reading what `kubectl get nodes` prints of 5,000 nodes.
#![allow(clippy::print_stdout, reason = "a bench prints")]
#![allow(missing_docs, reason = "a bench has no reader but its output")]

mod support;

use serde_json::{Value, json};
use stepcast::cluster::{ClusterFile, Defaults};
use support::time;

const NODES: usize = 5000;

/// A node with the labels, conditions and images that a real one carries.
fn node(i: usize) -> Value {
    let product = ["Tesla-T4", "NVIDIA-A100-SXM4-40GB", "NVIDIA-L4"][i % 3];
    let mut labels = json!({
        "kubernetes.io/hostname": format!("node-{i}"),
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "custom",
        "topology.kubernetes.io/zone": format!("zone-{}", i % 4),
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": "4",
        "nvidia.com/gpu.memory": "16384",
        "stepcast.dev/nic-gbps": "25",
    });
    for feature in 0..40 {
        labels[format!("feature.node.kubernetes.io/cpu-cpuid.FEATURE{feature}")] = json!("true");
    }
    let images: Vec<Value> = (0..25)
        .map(|k| json!({"names": [format!("registry.example/image-{k}@sha256:{:064}", k)], "sizeBytes": 123_456_789}))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": format!("node-{i}"), "labels": labels, "uid": format!("{i:032}")},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {
            "allocatable": {"cpu": "31850m", "memory": "128000000Ki", "nvidia.com/gpu": "4"},
            "capacity": {"cpu": "32", "memory": "131000000Ki", "nvidia.com/gpu": "4"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}],
            "images": images,
        },
    })
}

fn main() {
    let items: Vec<Value> = (0..NODES).map(node).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let json = serde_json::to_string_pretty(&list).expect("JSON");
    let yaml = serde_yaml::to_string(&list).expect("YAML");
    println!("a list of {NODES} nodes");
    for (form, text) in [("JSON", json), ("YAML", yaml)] {
        let file = ClusterFile {
            name: "nodes",
            text: &text,
        };
        let seconds = time(|| {
            file.read(&Defaults::default())
                .expect("a cluster")
                .nodes
                .len()
        });
        let scanned = time(|| text.bytes().filter(|b| *b == b'\n').count());
        println!(
            "{form}: {:.1} MiB in {:.0} ms, {:.0} MiB/s, {:.0} × counting its lines",
            text.len() as f64 / 1_048_576.0,
            seconds * 1e3,
            text.len() as f64 / 1_048_576.0 / seconds,
            seconds / scanned
        );
    }
}
