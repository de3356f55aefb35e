//! Bad input: each a clear error that says what, where and how to mend it,
//! exit 2, nothing on stdout.

use crate::cli::{Scratch, stderr, stdout, stepcast};

const JOB: &str = "workload: resnet50\nbatch_size: 32\nstrategy: {parameter_server: {sync: bsp}}\n";
const CLUSTER: &str = "nodes:\n- {name: a, accelerators: {type: t4, count: 2}, nic_gbps: 10}\n- {name: b, accelerators: {type: t4, count: 2}, nic_gbps: 10}\n";

/// What the command says of a job and a cluster.
fn complaint(name: &str, job: &str, cluster: &str, more: &[&str]) -> String {
    let scratch = Scratch::new(name);
    let job = scratch.write("job.yaml", job);
    let cluster = scratch.write("cluster.yaml", cluster);
    let mut args = vec!["predict", "-j", &job, "-c", &cluster];
    args.extend(more);
    let output = stepcast(&args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{name}: {said}");
    assert_eq!(stdout(&output), "", "{name}");
    said.replace(&scratch.path(""), "")
}

fn says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "`{part}` is missing from:\n{said}");
    }
}

#[test]
fn a_misspelt_key_is_named_with_what_was_meant() {
    let said = complaint(
        "misspelt",
        &JOB.replace("batch_size", "bacth_size"),
        CLUSTER,
        &[],
    );
    says(
        &said,
        &["job.yaml", "bacth_size", "did you mean `batch_size`?"],
    );
}

#[test]
fn every_problem_of_both_files_is_said_at_once() {
    let job = "workload: resnet5O\nbatch_size: -3\nprecison: fp32\nsteps: none\nstrategy: {parameter_server: {snyc: bsp, servers: 0}}\n";
    let cluster = "nodes:\n- {name: a, accelerators: {type: A100-SXM9}, nic_gbps: 10GiB}\n- {name: a, cpu: {type: xeon-e5-9999}, rol: worker}\n";
    let said = complaint("many", job, cluster, &[]);
    says(
        &said,
        &[
            "job.yaml: workload: found `resnet5O`",
            "did you mean resnet50",
            "batch_size: found `-3`",
            "precison",
            "steps: found `none`",
            "strategy.parameter_server.snyc",
            "strategy.parameter_server.servers: found `0`",
            "cluster.yaml: nodes[0].accelerators.type",
            "nodes[0].nic_gbps: found `10GiB`",
            "nodes[1].cpu.type",
            "nodes[1].rol",
        ],
    );
}

#[test]
fn impossible_numbers_are_refused() {
    for (name, from, to, path) in [
        (
            "negative",
            "batch_size: 32",
            "batch_size: -32",
            "batch_size: found `-32`",
        ),
        (
            "zero",
            "batch_size: 32",
            "batch_size: 0",
            "batch_size: found `0`",
        ),
        (
            "nan",
            "batch_size: 32",
            "batch_size: .nan",
            "batch_size: found `NaN`",
        ),
        (
            "fraction",
            "batch_size: 32",
            "batch_size: 1.5",
            "batch_size: found `1.5`",
        ),
    ] {
        let said = complaint(name, &JOB.replace(from, to), CLUSTER, &[]);
        says(&said, &[path, "a whole number of at least 1"]);
    }
    let said = complaint(
        "inf",
        "workload: {parameters: .inf, forward_flops: 1e9}\nbatch_size: 1\n",
        CLUSTER,
        &[],
    );
    says(&said, &["workload.parameters: found `inf`"]);
}

#[test]
fn a_wrong_unit_is_an_error_that_lists_right_ones() {
    for (name, nic) in [
        ("gib", "10GiB"),
        ("fast", "fast"),
        ("minus", "-10"),
        ("nan", ".nan"),
    ] {
        let said = complaint(
            name,
            JOB,
            &CLUSTER.replace("nic_gbps: 10", &format!("nic_gbps: {nic}")),
            &[],
        );
        says(
            &said,
            &[
                "cluster.yaml: nodes[0].nic_gbps",
                "nodes[1].nic_gbps",
                "Gbit/s",
                "10Gbps",
            ],
        );
    }
}

#[test]
fn no_workers_and_too_many_are_refused() {
    says(
        &complaint("none", JOB, CLUSTER, &["-n", "0"]),
        &["0 workers asked for"],
    );
    says(
        &complaint("many-workers", JOB, CLUSTER, &["-n", "5"]),
        &["5 workers", "hold 4"],
    );
    says(
        &complaint("no-node", JOB, CLUSTER, &["--nodes", "c"]),
        &["no node named `c`"],
    );
    says(
        &complaint("twice", JOB, CLUSTER, &["--nodes", "a,a"]),
        &["named twice"],
    );
    let said = complaint(
        "servers-only",
        JOB,
        "nodes: [{name: s, role: server, nic_gbps: 1}]",
        &[],
    );
    says(&said, &["none of the nodes can compute"]);
    let global = "workload: resnet50\nglobal_batch_size: 3\nstrategy: parameter_server\n";
    says(
        &complaint("empty-share", global, CLUSTER, &[]),
        &["`global_batch_size` 3"],
    );
}

#[test]
fn empty_broken_and_oversized_files_are_refused() {
    says(
        &complaint("empty", "", CLUSTER, &[]),
        &["job.yaml: found an empty file"],
    );
    says(
        &complaint("blank", JOB, "  \n", &[]),
        &["cluster.yaml: found an empty file"],
    );
    says(
        &complaint("syntax", "workload: [\n", CLUSTER, &[]),
        &["job.yaml", "line"],
    );
    says(
        &complaint("list", "- a\n", CLUSTER, &[]),
        &["job.yaml", "a map with"],
    );
    says(
        &complaint("doubled", &format!("{JOB}batch_size: 3\n"), CLUSTER, &[]),
        &["batch_size", "job.yaml"],
    );
    let large = format!("{JOB}# {}\n", "x".repeat(16 << 20));
    says(
        &complaint("large", &large, CLUSTER, &[]),
        &["job.yaml: found more than 16777216 bytes", "16 MiB"],
    );
    let output = stepcast(&["predict", "-j", "nowhere.yaml", "-c", "nowhere.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    says(&stderr(&output), &["nowhere.yaml: found no such file"]);
}

#[test]
fn what_is_outside_data_parallelism_is_refused_by_name() {
    for (strategy, what) in [
        ("pipeline_parallel", "pipeline parallelism"),
        ("{pipeline: {stages: 4}}", "pipeline parallelism"),
        ("fsdp", "sharded data parallelism"),
        ("tensor_parallel", "tensor parallelism"),
    ] {
        let job = format!("workload: resnet50\nbatch_size: 32\nstrategy: {strategy}\n");
        says(
            &complaint(
                strategy
                    .trim_matches(['{', '}', ':', ' '])
                    .split(':')
                    .next()
                    .unwrap_or("x"),
                &job,
                CLUSTER,
                &[],
            ),
            &[what],
        );
    }
}

#[test]
fn a_node_list_without_a_usable_node_says_why() {
    let list = "apiVersion: v1\nkind: List\nitems:\n- kind: Node\n  metadata: {name: a, labels: {}}\n- kind: Node\n  metadata: {name: b, labels: {nvidia.com/gpu.product: Tesla-T4}}\n  spec: {unschedulable: true}\n";
    let said = complaint("unusable", JOB, list, &[]);
    says(
        &said,
        &[
            "none of the nodes can compute",
            "a: nothing says what it computes with",
            "b: cordoned",
            "stepcast.dev/accelerator",
        ],
    );
    says(
        &complaint("no-items", JOB, "kind: List\nitems: []\n", &[]),
        &["there are no nodes"],
    );
}

#[test]
fn a_job_that_refers_to_itself_is_refused() {
    let job = "workload: {profile: job.yaml}\nbatch_size: 1\n";
    says(
        &complaint("self", job, CLUSTER, &[]),
        &["workload.profile", "refers to itself"],
    );
    let gone = "workload: {profile: gone.json}\nbatch_size: 1\n";
    says(
        &complaint("gone", gone, CLUSTER, &[]),
        &["workload.profile", "no such file"],
    );
}

#[test]
fn without_flops_there_is_no_answer() {
    let job = "workload: {name: ours, parameters: 25e6}\nbatch_size: 1\n";
    says(
        &complaint("flops", job, CLUSTER, &[]),
        &["nothing says what `ours` computes", "forward_flops"],
    );
    let onnx = "workload: {onnx: model.onnx}\nbatch_size: 1\n";
    says(&complaint("onnx", onnx, CLUSTER, &[]), &["ONNX"]);
}

#[test]
fn ambiguous_and_unknown_devices_list_near_names() {
    let said = complaint("v100", JOB, &CLUSTER.replace("t4", "v100"), &[]);
    says(&said, &["a known accelerator", "Tesla-V100"]);
}
