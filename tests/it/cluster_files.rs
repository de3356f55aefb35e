//! Cluster files of both forms, and what labels are read as.

use stepcast::cluster::{Cluster, ClusterFile, Defaults, FactName, Node, Source, Transport};

fn read(text: &str) -> Cluster {
    ClusterFile {
        name: "cluster.yaml",
        text,
    }
    .read(&Defaults::default())
    .unwrap_or_else(|e| panic!("{e}"))
}

fn list(labels: &str, rest: &str) -> String {
    format!(
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata:\n    name: n\n    labels: {{{labels}}}\n{rest}"
    )
}

fn fact(node: &Node, name: FactName) -> (String, Source) {
    let fact = node
        .facts
        .iter()
        .find(|f| f.name == name)
        .unwrap_or_else(|| panic!("no {name}"));
    (fact.value.clone(), fact.source.clone())
}

#[test]
fn the_short_form_expands_counts_and_keeps_file_order() {
    let cluster = read(
        "nodes:\n- {name: a, count: 2, accelerators: {type: t4, count: 4}, nic_gbps: 25Gbps}\n- {name: b, cpu: {cores: 8, clock_ghz: 2.2}, nic_gbps: 10}\n- {name: s, role: server, nic_gbps: 10}\n",
    );
    let names: Vec<&str> = cluster.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["a-0", "a-1", "b", "s"]);
    assert_eq!(cluster.workers(), 9);
    assert_eq!(cluster.nodes[0].nic.gbit(), 25.0);
}

#[test]
fn a_missing_nic_takes_the_default_with_a_warning() {
    let cluster = read("nodes: [{name: a, accelerators: {type: t4}}]");
    assert_eq!(cluster.nodes[0].nic.gbit(), 10.0);
    assert_eq!(
        cluster.all_warnings(),
        ["node a: no `nic_gbps`; taking 10 Gb/s"]
    );
}

#[test]
fn a_file_may_define_its_own_devices() {
    let cluster = read(
        "devices: [{name: ours, fp32_tflops: 50, memory_gib: 32, memory_gbps: 1TB/s}]\nnodes: [{name: a, accelerators: {type: ours, count: 2}, nic_gbps: 10}]",
    );
    let device = cluster.nodes[0].device().expect("a device");
    assert_eq!(device.peaks.fp32.get(), 50e12);
    assert_eq!(device.memory_rate.get(), 1e12);
}

#[test]
fn json_and_flow_yaml_are_told_apart_by_content() {
    let json = r#"{"nodes": [{"name": "a", "accelerators": {"type": "t4"}, "nic_gbps": 10}]}"#;
    let flow = "{nodes: [{name: a, accelerators: {type: t4}, nic_gbps: 10}]}";
    assert_eq!(read(json), read(flow));
}

#[test]
fn own_labels_win_over_vendor_cloud_and_allocatable() {
    let labels = "stepcast.dev/accelerator: NVIDIA-L4, nvidia.com/gpu.product: Tesla-T4, nvidia.com/gpu.count: \"2\", karpenter.k8s.aws/instance-network-bandwidth: \"25000\"";
    let cluster = read(&list(
        labels,
        "  status:\n    allocatable: {nvidia.com/gpu: \"4\", cpu: 7910m}\n",
    ));
    let node = &cluster.nodes[0];
    let (value, source) = fact(node, FactName::Accelerator);
    assert_eq!(value, "NVIDIA-L4");
    assert_eq!(source, Source::Override("stepcast.dev/accelerator".into()));
    assert_eq!(node.workers(), 2);
    assert_eq!(node.nic.gbit(), 25.0);
    assert!(
        cluster
            .all_warnings()
            .iter()
            .any(|w| w.contains("Tesla-T4")),
        "{:?}",
        cluster.all_warnings()
    );
}

#[test]
fn a_machine_type_gives_what_labels_leave_open() {
    let cluster = read(&list("node.kubernetes.io/instance-type: p3.16xlarge", ""));
    let node = &cluster.nodes[0];
    assert_eq!(node.workers(), 8);
    assert_eq!(node.nic.gbit(), 25.0);
    assert_eq!(
        fact(node, FactName::NicGbps).1,
        Source::InstanceType("p3.16xlarge".into())
    );
}

#[test]
fn shared_gpus_count_once_and_slices_are_refused() {
    let shared = read(&list(
        "nvidia.com/gpu.product: Tesla-T4-SHARED, nvidia.com/gpu.replicas: \"4\", stepcast.dev/nic-gbps: \"10\"",
        "  status: {allocatable: {nvidia.com/gpu: \"8\"}}\n",
    ));
    assert_eq!(shared.nodes[0].workers(), 2);
    let sliced = ClusterFile {
        name: "mig",
        text: &list(
            "nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
            "",
        ),
    }
    .read(&Defaults::default());
    let sliced = sliced.expect("read all the same");
    assert!(
        sliced.nodes[0]
            .unusable
            .as_deref()
            .is_some_and(|why| why.contains("MIG slice")),
        "{:?}",
        sliced.nodes[0]
    );
}

#[test]
fn cordoned_and_unready_nodes_take_no_work() {
    let two = format!(
        "{}- kind: Node\n  metadata: {{name: up, labels: {{nvidia.com/gpu.product: Tesla-T4, stepcast.dev/nic-gbps: \"10\", stepcast.dev/transport: rdma}}}}\n  status: {{conditions: [{{type: Ready, status: \"True\"}}]}}\n",
        list(
            "nvidia.com/gpu.product: Tesla-T4, stepcast.dev/nic-gbps: \"10\"",
            "  spec: {unschedulable: true}\n"
        )
    );
    let cluster = read(&two);
    assert_eq!(cluster.nodes[0].unusable.as_deref(), Some("cordoned"));
    assert_eq!(cluster.nodes[1].unusable, None);
    assert_eq!(cluster.nodes[1].transport, Transport::Rdma);
}

fn one(labels: &str, rest: &str) -> Node {
    Node::clone(&read(&list(labels, rest)).nodes[0])
}

#[test]
fn gpus_that_nobody_names_do_not_become_processors() {
    let node = one(
        "feature.node.kubernetes.io/cpu-model.vendor_id: Intel, feature.node.kubernetes.io/cpu-model.family: \"6\", feature.node.kubernetes.io/cpu-model.id: \"85\"",
        "  status: {allocatable: {nvidia.com/gpu: \"4\", cpu: \"32\"}}\n",
    );
    assert!(node.cpu.is_some());
    assert!(
        node.unusable
            .is_some_and(|why| why.contains("nothing says of which type"))
    );
    let mixed = one(
        "nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB, nvidia.com/gpu.count: \"8\"",
        "  status: {allocatable: {nvidia.com/gpu: \"0\", nvidia.com/mig-1g.5gb: \"56\"}}\n",
    );
    assert!(mixed.unusable.is_some_and(|why| why.contains("MIG")));
    let control = one(
        "stepcast.dev/cpu: intel-skylake-sp",
        "  spec: {taints: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}]}\n",
    );
    assert_eq!(control.unusable.as_deref(), Some("runs the control plane"));
}

#[test]
fn labels_state_which_variant_and_what_is_misspelt() {
    let node = one(
        "nvidia.com/gpu.product: Tesla-V100-SXM2, nvidia.com/gpu.memory: \"32768\", stepcast.dev/nic-gpbs: \"10\"",
        "",
    );
    assert_eq!(
        &*node.device().expect("a device").name,
        "Tesla-V100-SXM2-32GB"
    );
    assert!(
        node.warnings
            .iter()
            .any(|w| w.contains("did you mean stepcast.dev/nic-gbps")),
        "{:?}",
        node.warnings
    );
    let azure = one(
        "kubernetes.azure.com/accelerator: nvidia, node.kubernetes.io/instance-type: Standard_ND96asr_v4",
        "",
    );
    assert_eq!(azure.workers(), 8);
    assert!(
        !azure.warnings.iter().any(|w| w.contains("not a known")),
        "{:?}",
        azure.warnings
    );
}

#[test]
fn processors_stay_out_where_others_have_accelerators() {
    let text = format!(
        "{}- kind: Node\n  metadata: {{name: cpu, labels: {{stepcast.dev/cpu: intel-skylake-sp, stepcast.dev/nic-gbps: \"10\"}}}}\n",
        list(
            "nvidia.com/gpu.product: Tesla-T4, stepcast.dev/nic-gbps: \"10\"",
            ""
        )
    );
    let cluster = read(&text);
    assert_eq!(cluster.nodes[0].unusable, None);
    assert!(cluster.nodes[1].unusable.is_some());
}
