//! Whatever stands in a file, there is an answer or an error, never a panic.

use proptest::prelude::*;
use serde_json::{Value, json};
use stepcast::calibration::Calibration;
use stepcast::cluster::{ClusterFile, Defaults};
use stepcast::job::JobFile;
use stepcast::model::{Query, predict};
use stepcast::placement::Selection;
use stepcast::plan::{Ask, Objective, Wish, curve, recommend};

/// Values of every sort, plausible and not.
fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![
            Just(0_i64),
            Just(-1),
            Just(1),
            Just(3),
            Just(64),
            any::<i64>()
        ]
        .prop_map(Value::from),
        prop_oneof![Just(0.5), Just(1e-300), Just(1e300), -1e3..1e3].prop_map(Value::from),
        prop_oneof![
            Just("resnet18"),
            Just("bert_base"),
            Just("t4"),
            Just("10Gbps"),
            Just("1e9"),
            Just("bsp"),
            Just("ssp"),
            Just("none"),
            Just("adaptive"),
            Just("mg_wfbp"),
            Just("ring"),
            Just("auto"),
            Just("amp"),
            Just("server"),
            Just("all_reduce"),
            Just("single"),
            Just("lab-xeon-1t"),
            Just(""),
            Just("\u{1F600}"),
            Just("NaN")
        ]
        .prop_map(Value::from),
    ]
}

/// A map with some of the keys, each with some value or a map below it.
fn map(keys: &'static [&'static str], below: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let entry = (0..keys.len(), prop_oneof![3 => value().boxed(), 2 => below]);
    prop::collection::vec(entry, 0..5)
        .prop_map(|entries| {
            entries
                .into_iter()
                .map(|(k, v)| (keys[k].to_owned(), v))
                .collect::<serde_json::Map<_, _>>()
                .into()
        })
        .boxed()
}

fn job() -> BoxedStrategy<Value> {
    let fusion = map(
        &["buffer_mib", "timeout_ms", "partition_mib", "priority"],
        value().boxed(),
    );
    let strategy = map(
        &[
            "sync",
            "staleness",
            "servers",
            "overlap",
            "local_aggregation",
            "fusion",
            "algorithm",
            "compression",
            "accumulation",
        ],
        fusion,
    );
    let strategies = map(&["parameter_server", "all_reduce", "single"], strategy);
    let layer = map(
        &[
            "name",
            "forward_flops",
            "parameters",
            "output_elements",
            "kind",
        ],
        value().boxed(),
    );
    let layers = prop::collection::vec(layer, 0..4)
        .prop_map(Value::from)
        .boxed();
    let workload = map(
        &[
            "name",
            "parameters",
            "forward_flops",
            "tensors",
            "sequence_length",
            "layers",
            "sprint",
        ],
        layers,
    );
    (value(), workload, strategies, any::<(bool, bool)>(), value())
        .prop_map(|(batch, workload, strategy, (named, sound), precision)| {
            let workload = if named { json!("resnet18") } else { workload };
            let batch = if sound { json!(4) } else { batch };
            let precision = if sound { json!("fp32") } else { precision };
            json!({"workload": workload, "batch_size": batch, "strategy": strategy, "precision": precision})
        })
        .boxed()
}

fn cluster() -> BoxedStrategy<Value> {
    let inner = map(
        &[
            "type",
            "count",
            "cores",
            "clock_ghz",
            "name",
            "fp32_tflops",
            "memory_gib",
            "memory_gbps",
        ],
        value().boxed(),
    );
    let wild = map(
        &[
            "name",
            "count",
            "role",
            "accelerators",
            "cpu",
            "nic_gbps",
            "transport",
            "price_per_hour",
        ],
        inner,
    );
    let sound = (prop::sample::select(vec!["t4", "NVIDIA-H200"]), 1_u32..5, 0.1..400.0_f64, any::<bool>(), 0..1000_u32)
        .prop_map(|(kind, count, nic, server, id)| if server { json!({"name": format!("s{id}"), "role": "server", "nic_gbps": nic}) } else { json!({"name": format!("w{id}"), "accelerators": {"type": kind, "count": count}, "nic_gbps": nic, "price_per_hour": 1}) })
        .boxed();
    let node = prop_oneof![1 => wild, 4 => sound];
    prop::collection::vec(node, 0..5)
        .prop_map(|nodes| json!({"nodes": nodes}))
        .boxed()
}

/// Numbers that a count may blow up on stay small enough to run.
fn bounded(cluster: &stepcast::cluster::Cluster) -> bool {
    cluster.workers() <= 200
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn any_job_on_any_cluster(job in job(), cluster in cluster(), workers in prop::option::of(0_usize..9)) {
        let (job_text, cluster_text) = (job.to_string(), cluster.to_string());
        let resolve = |_: &str| Err("no files here".to_owned());
        let job = JobFile { name: "job", text: &job_text, resolve: &resolve }.read();
        let cluster = ClusterFile { name: "cluster", text: &cluster_text }.read(&Defaults::default());
        if let Err(problems) = &job {
            prop_assert!(problems.to_string().contains("expected"));
        }
        let (Ok(job), Ok(cluster)) = (job, cluster) else { return Ok(()) };
        prop_assume!(bounded(&cluster));
        let selection = Selection { nodes: None, workers };
        let query = Query { job: &job, cluster: &cluster, selection: &selection, model: None, baseline: None, calibration: Calibration::shipped(), simulation_events: None };
        if let Ok(answer) = predict(&query) {
            let time = answer.step.time.get();
            prop_assert!(time.is_finite() && time > 0.0, "{}", time);
            prop_assert!(answer.speedup.is_finite() && answer.speedup > 0.0);
        }
        let ask = Ask { job: &job, cluster: &cluster, calibration: Calibration::shipped(), model: None, nodes: None, max_workers: workers.filter(|w| *w > 0), baseline: None };
        let _ = curve(ask);
        let wish = Wish { objective: Objective::Speed, target_speedup: None, min_marginal_gain: None };
        if let Ok(found) = recommend(ask, &wish) {
            prop_assert!(ask.max_workers.is_none_or(|most| found.prediction.workers <= most));
        }
    }

    #[test]
    fn any_text_at_all(text in "\\PC{0,200}") {
        let resolve = |_: &str| Err("no files here".to_owned());
        let _ = JobFile { name: "job", text: &text, resolve: &resolve }.read();
        let _ = ClusterFile { name: "cluster", text: &text }.read(&Defaults::default());
    }

    /// Label maps as arbitrary strings.
    #[test]
    fn any_labels(labels in prop::collection::btree_map(
        prop::sample::select(vec![
            "nvidia.com/gpu.product", "nvidia.com/gpu.count", "nvidia.com/gpu.memory", "nvidia.com/gpu.replicas",
            "amd.com/gpu.product-name", "stepcast.dev/accelerator", "stepcast.dev/accelerator-count", "stepcast.dev/cpu",
            "stepcast.dev/cpu-cores", "stepcast.dev/nic-gbps", "stepcast.dev/role", "stepcast.dev/price-per-hour",
            "karpenter.k8s.aws/instance-network-bandwidth", "karpenter.k8s.aws/instance-gpu-name",
            "cloud.google.com/gke-accelerator", "node.kubernetes.io/instance-type",
            "feature.node.kubernetes.io/cpu-model.family", "beta.amd.com/gpu.product-name.MI300X",
        ]),
        prop_oneof!["\\PC{0,20}", Just("Tesla-T4".to_owned()), Just("4".to_owned()), Just("-1".to_owned()), Just("p3.16xlarge".to_owned()), Just("1e308".to_owned())],
        0..8,
    )) {
        let list = json!({"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "n", "labels": labels}}]});
        let text = list.to_string();
        let cluster = ClusterFile { name: "nodes", text: &text }.read(&Defaults::default());
        prop_assert!(cluster.is_ok_and(|c| c.nodes.len() == 1 && (0.001..=1e5).contains(&c.nodes[0].nic.gbit())));
    }
}
