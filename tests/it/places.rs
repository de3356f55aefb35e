//! Zones, racks and the links between them; nodes whose workers differ.

use stepcast::calibration::Calibration;
use stepcast::cluster::{Cluster, ClusterFile, Defaults};
use stepcast::job::{Job, JobFile};
use stepcast::model::{ModelName, Prediction, Query, predict};
use stepcast::placement::Selection;

fn cluster(text: &str) -> Cluster {
    ClusterFile { name: "test", text }
        .read(&Defaults::default())
        .unwrap_or_else(|problems| panic!("{problems}"))
}

fn job(text: &str) -> Job {
    JobFile {
        name: "job",
        text,
        resolve: &|_| Err("no files".into()),
    }
    .read()
    .unwrap_or_else(|problems| panic!("{problems}"))
}

fn ask(job: &Job, cluster: &Cluster, model: Option<ModelName>, nodes: &[&str]) -> Prediction {
    let nodes = nodes.iter().map(|n| (*n).to_owned()).collect();
    predict(&Query {
        job,
        cluster,
        selection: &Selection {
            nodes: Some(nodes),
            workers: None,
        },
        model,
        baseline: None,
        calibration: Calibration::shipped(),
        simulation_events: None,
    })
    .expect("an answer")
}

const TWO_ZONES: &str = "
links: {between_zones_gbps: 1, between_racks_gbps: 5}
nodes:
- {name: a, count: 2, zone: east, rack: r1, accelerators: {type: Tesla-V100-SXM2-16GB}, nic_gbps: 25}
- {name: b, count: 2, zone: east, rack: r2, accelerators: {type: Tesla-V100-SXM2-16GB}, nic_gbps: 25}
- {name: c, count: 2, zone: west, rack: r1, accelerators: {type: Tesla-V100-SXM2-16GB}, nic_gbps: 25}
- {name: s, role: server, zone: east, rack: r1, nic_gbps: 100}
";

#[test]
fn the_narrowest_link_that_is_crossed_holds_up_all() {
    let there = cluster(TWO_ZONES);
    let free =
        cluster(&TWO_ZONES.replace("links: {between_zones_gbps: 1, between_racks_gbps: 5}", ""));
    let job = job("{workload: vgg16, batch_size: 8, strategy: all_reduce}");
    let time = |cluster: &Cluster, nodes: &[&str]| ask(&job, cluster, None, nodes).step.time.get();
    let (rack, racks, zones) = (
        time(&there, &["a-0", "a-1"]),
        time(&there, &["a-0", "b-0"]),
        time(&there, &["a-0", "c-0"]),
    );
    assert_eq!(rack, time(&free, &["a-0", "b-0"]), "no link is crossed");
    assert!(rack < racks && racks < zones, "{rack} {racks} {zones}");
    assert_eq!(
        zones,
        time(&there, &["a-0", "b-0", "c-0"]).min(zones),
        "the narrowest decides"
    );
}

#[test]
fn a_worker_is_held_to_the_links_to_its_servers() {
    let there = cluster(TWO_ZONES);
    let job = job("{workload: vgg16, batch_size: 8, strategy: {parameter_server: {sync: asp}}}");
    let time = |nodes: &[&str]| ask(&job, &there, None, nodes).step.time.get();
    let (near, far) = (time(&["a-0"]), time(&["c-0"]));
    assert!(far > 3.0 * near, "{near} {far}");
    // Asynchronous: the far one does not hold up the near one.
    let both = ask(&job, &there, None, &["a-0", "c-0"]).throughput();
    assert!(both > 0.95 * 8.0 / near, "{both} {}", 8.0 / near);
}

#[test]
fn a_wrong_link_or_place_is_named() {
    let wrong = TWO_ZONES.replace("between_zones_gbps: 1", "between_zone_gbps: 1");
    let problems = ClusterFile {
        name: "c.yaml",
        text: &wrong,
    }
    .read(&Defaults::default())
    .expect_err("a misspelt key")
    .to_string();
    assert!(
        problems.contains("links") && problems.contains("between_zones_gbps"),
        "{problems}"
    );
}

/// Three samples over all workers make two classes on one node; it is one
/// node all the same.
#[test]
fn a_node_whose_workers_differ_by_a_sample_has_one_nic() {
    let there = cluster(
        "nodes:\n- {name: n, accelerators: {type: Tesla-V100-SXM2-16GB, count: 4}, nic_gbps: 10}\n- {name: s, role: server, nic_gbps: 100}\n",
    );
    for aggregation in [false, true] {
        for sync in ["bsp", "asp"] {
            let time = |samples: u32| {
                let text = format!(
                    "{{workload: resnet50, global_batch_size: {samples}, strategy: {{parameter_server: {{sync: {sync}, local_aggregation: {aggregation}}}}}}}"
                );
                ask(
                    &job(&text),
                    &there,
                    Some(ModelName::Simulation),
                    &["n", "s"],
                )
                .step
                .time
                .get()
            };
            let (even, odd) = (time(128), time(130));
            assert!(
                (odd / even - 1.0).abs() < 0.06,
                "{sync} {aggregation}: {even} {odd}"
            );
        }
    }
}

#[test]
fn staleness_lies_between_in_step_and_free() {
    let there = cluster(
        "nodes:\n- {name: w, count: 4, accelerators: {type: Tesla-V100-SXM2-16GB}, nic_gbps: 10}\n- {name: s, role: server, nic_gbps: 10}\n",
    );
    let time = |sync: &str| {
        let text = format!(
            "{{workload: resnet50, batch_size: 32, strategy: {{parameter_server: {{{sync}}}}}}}"
        );
        ask(
            &job(&text),
            &there,
            None,
            &["w-0", "w-1", "w-2", "w-3", "s"],
        )
        .step
        .time
        .get()
    };
    let (bsp, none, some, asp) = (
        time("sync: bsp"),
        time("sync: ssp, staleness: 0"),
        time("sync: ssp, staleness: 2"),
        time("sync: asp"),
    );
    assert_eq!(none, bsp, "nobody ahead is in step");
    assert!(asp <= some && some <= bsp, "{asp} {some} {bsp}");
}

/// However a worker is placed, one behind a server is no faster than alone.
#[test]
fn one_asynchronous_worker_is_no_faster_than_alone() {
    for (device, network) in [
        ("NVIDIA-H200", "squeezenet1_1"),
        ("Tesla-T4", "resnet50"),
        ("NVIDIA-L4", "bert_base"),
    ] {
        let there = cluster(&format!(
            "nodes:\n- {{name: w, accelerators: {{type: {device}}}, nic_gbps: 400}}\n- {{name: s, role: server, nic_gbps: 400}}\n"
        ));
        let job = job(&format!(
            "{{workload: {network}, batch_size: 1, strategy: {{parameter_server: {{sync: asp}}}}}}"
        ));
        for model in [ModelName::Asp, ModelName::Simulation] {
            let speedup = ask(&job, &there, Some(model), &["w", "s"]).speedup;
            assert!(
                speedup <= 1.0 + 1e-9,
                "{network} on {device}, {model}: {speedup}"
            );
        }
    }
}

/// Several profiles of one network: a simulation draws its steps from all.
#[test]
fn steps_are_drawn_from_several_profiles() {
    let there = cluster(
        "nodes:\n- {name: w, cpu: {type: lab-xeon-1t}, nic_gbps: 100}\n- {name: s, role: server, nic_gbps: 100}\n",
    );
    // The same step, and one that takes three times as long.
    let fast = crate::fixtures::text("lab/profiles/resnet18-b2-1t.json");
    let slow = {
        let mut file: serde_json::Value = serde_json::from_str(&fast).expect("JSON");
        for key in ["forward_ms", "backward_ms"] {
            file[key] = (file[key].as_f64().expect("a time") * 3.0).into();
        }
        for tensor in file["grad_ready"].as_array_mut().expect("gradients") {
            tensor[2] = (tensor[2].as_f64().expect("a moment") * 3.0).into();
        }
        file.to_string()
    };
    let read = |list: &str| {
        let text = format!(
            "{{workload: {{profile: {list}}}, batch_size: 2, strategy: {{parameter_server: {{sync: asp}}}}}}"
        );
        JobFile {
            name: "job",
            text: &text,
            resolve: &|path| match path {
                "fast" => Ok(fast.clone()),
                "slow" => Ok(slow.clone()),
                _ => Err("no such file".into()),
            },
        }
        .read()
    };
    let time = |list: &str| {
        let job = read(list).expect("a job");
        ask(&job, &there, Some(ModelName::Simulation), &["w", "s"])
            .step
            .time
            .get()
    };
    let (short, long, both) = (time("fast"), time("slow"), time("[fast, slow]"));
    assert!(long > 2.0 * short);
    let mean = f64::midpoint(short, long);
    assert!((both / mean - 1.0).abs() < 0.08, "{short} {both} {long}");
    assert!(read("[]").is_err() && read("[fast, gone]").is_err());
}
