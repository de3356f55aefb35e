//! The command as users run it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the command with arguments.
pub(crate) fn stepcast(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stepcast"))
        .args(args)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "80")
        .output()
        .expect("the command runs")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// A folder that goes when the test ends.
pub(crate) struct Scratch(std::path::PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a scratch folder");
        Self(folder)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a scratch file");
        path.to_string_lossy().into_owned()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_example_needs_no_file_and_fits_eighty_columns() {
    let output = stepcast(&["predict", "--example"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    insta::assert_snapshot!(text);
}

#[test]
fn the_readme_shows_what_the_example_prints() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"))
        .expect("a README");
    let text = stdout(&stepcast(&["predict", "--example"]));
    assert!(
        readme.contains(text.trim_end()),
        "the README is behind:\n{text}"
    );
}

#[test]
fn json_has_the_contracts_keys_and_its_breakdown_adds_up() {
    let output = stepcast(&["predict", "--example", "-o", "json"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for key in [
        "iteration_time_s",
        "throughput_samples_per_s",
        "workers",
        "speedup",
        "scaling_factor",
        "baseline",
        "model",
        "breakdown",
        "bottleneck",
        "interval",
        "calibration",
        "warnings",
    ] {
        assert!(answer.get(key).is_some(), "{key}");
    }
    let time = answer["iteration_time_s"].as_f64().expect("a time");
    let parts: f64 = answer["breakdown"]
        .as_object()
        .expect("parts")
        .values()
        .filter_map(serde_json::Value::as_f64)
        .sum();
    assert!((parts / time - 1.0).abs() < 1e-9);
    assert_eq!(answer["workers"], 3);
    assert!(answer["interval"]["low_s"].as_f64() < answer["interval"]["high_s"].as_f64());
    assert!(answer["baseline"]["node"] == "fast-0");
    assert!(answer["calibration"].is_null());
}

#[test]
fn yaml_says_the_same_as_json() {
    let json: serde_json::Value =
        serde_json::from_slice(&stepcast(&["predict", "--example", "-o", "json"]).stdout)
            .expect("JSON");
    let yaml: serde_json::Value =
        serde_yaml::from_str(&stdout(&stepcast(&["predict", "--example", "-o", "yaml"])))
            .expect("YAML");
    // The two writers print the last digit of a float differently.
    let speedup = |v: &serde_json::Value| v["speedup"].as_f64().expect("a speedup");
    assert!((speedup(&json) - speedup(&yaml)).abs() < 1e-12);
    assert_eq!(json["bottleneck"], yaml["bottleneck"]);
}

#[test]
fn workers_are_taken_in_file_order_and_nodes_by_name() {
    let two = stepcast(&["predict", "--example", "-n", "2", "-o", "json"]);
    let two: serde_json::Value = serde_json::from_slice(&two.stdout).expect("JSON");
    assert_eq!(two["workers"], 2);
    let named = stepcast(&[
        "predict",
        "--example",
        "--nodes",
        "slow,fast-1",
        "-o",
        "json",
    ]);
    let named: serde_json::Value = serde_json::from_slice(&named.stdout).expect("JSON");
    assert_eq!(named["workers"], 2);
    assert!(named["iteration_time_s"].as_f64() > two["iteration_time_s"].as_f64());
}

#[test]
fn every_model_can_be_asked_and_compare_shows_them_side_by_side() {
    for model in [
        "ps",
        "simulation",
        "zeng",
        "synchronised",
        "no-communication",
        "sum-of-speeds",
        "sum",
    ] {
        let output = stepcast(&["predict", "--example", "--model", model, "-o", "json"]);
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(answer["model"], model);
    }
    let output = stepcast(&["compare", "--example", "-o", "json"]);
    let answers: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answers.as_array().map(Vec::len), Some(7));
}

#[test]
fn the_timeline_ends_with_the_step() {
    let scratch = Scratch::new("timeline");
    let path = scratch.path("trace.json");
    let output = stepcast(&["predict", "--example", "--timeline", &path, "-o", "json"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let trace: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).expect("a trace")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let end = events
        .iter()
        .filter(|e| e["ph"] == "X")
        .map(|e| e["ts"].as_f64().unwrap_or_default() + e["dur"].as_f64().unwrap_or_default())
        .fold(0.0, f64::max);
    let step = answer["iteration_time_s"].as_f64().expect("a time") * 1e6;
    assert!((end / step - 1.0).abs() < 1e-9, "{end} against {step}");
    let layers = events
        .iter()
        .filter(|e| e["cat"] == "compute" && e["pid"] == 0)
        .count();
    assert!(layers > 200, "a span for every layer, both ways: {layers}");
}

#[test]
fn an_all_reduce_has_a_timeline_too() {
    let scratch = Scratch::new("ring-timeline");
    let job = scratch.write(
        "job.yaml",
        "workload: vgg16\nbatch_size: 8\nstrategy: all_reduce\n",
    );
    let cluster = scratch.write(
        "c.yaml",
        "nodes: [{name: a, count: 4, accelerators: {type: t4}, nic_gbps: 10}]",
    );
    let path = scratch.path("trace.json");
    let output = stepcast(&[
        "predict",
        "-j",
        &job,
        "-c",
        &cluster,
        "--timeline",
        &path,
        "-o",
        "json",
    ]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let trace: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).expect("a trace")).expect("JSON");
    let spans: Vec<(&str, f64, f64)> = trace["traceEvents"]
        .as_array()
        .expect("events")
        .iter()
        .filter(|e| e["ph"] == "X")
        .map(|e| {
            let at = |key: &str| e[key].as_f64().expect("a time");
            (
                e["cat"].as_str().expect("a category"),
                at("ts"),
                at("ts") + at("dur"),
            )
        })
        .collect();
    let end = spans.iter().map(|s| s.2).fold(0.0, f64::max);
    let step = answer["iteration_time_s"].as_f64().expect("a time") * 1e6;
    assert!((end / step - 1.0).abs() < 1e-9, "{end} against {step}");
    let messages: Vec<_> = spans.iter().filter(|s| s.0 == "all-reduce").collect();
    assert!(messages.len() > 3);
    assert!(
        messages
            .windows(2)
            .all(|pair| pair[0].2 <= pair[1].1 + 1e-6),
        "one after another"
    );
}

#[test]
fn a_calibration_of_ones_own_is_used_and_checked() {
    let scratch = Scratch::new("calibration");
    let shipped = include_str!("../../src/calibration/default.yaml");
    let slower = scratch.write(
        "slow.yaml",
        &format!(
            "version: mine\n{}",
            shipped.replace("goodput: 0.96", "goodput: 0.48")
        ),
    );
    let ask = |extra: &[&str]| {
        let mut args = vec!["predict", "--example", "-o", "json"];
        args.extend(extra);
        stepcast(&args)
    };
    let json = |output: &Output| {
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
    };
    let (before, after) = (json(&ask(&[])), json(&ask(&["--calibration", &slower])));
    assert_eq!(after["calibration"], "mine");
    assert!(after["iteration_time_s"].as_f64() > before["iteration_time_s"].as_f64());
    for (name, from, to) in [
        ("typo", "goodput: 0.96", "godput: 0.96"),
        ("over", "goodput: 0.96", "goodput: -1"),
    ] {
        let file = scratch.write(name, &shipped.replace(from, to));
        let output = ask(&["--calibration", &file]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(
            stderr(&output).contains("put"),
            "{name}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn profiles_replace_the_compute_model() {
    let scratch = Scratch::new("profile");
    let profile = crate::fixtures::text("lab/profiles/resnet50-b1-1t.json");
    scratch.write("profile.json", &profile);
    let job = scratch.write(
        "job.yaml",
        "workload: {profile: profile.json}\nbatch_size: 1\n",
    );
    let cluster = scratch.write(
        "cluster.yaml",
        "nodes: [{name: a, cpu: {type: lab-xeon-1t}, nic_gbps: 10}]",
    );
    let output = stepcast(&["predict", "-j", &job, "-c", &cluster, "-o", "json"]);
    let answer: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let measured: serde_json::Value = serde_json::from_str(&profile).expect("JSON");
    let total: f64 = ["forward_ms", "backward_ms", "optimizer_ms"]
        .iter()
        .filter_map(|key| measured[key].as_f64())
        .sum();
    let predicted = answer["iteration_time_s"].as_f64().expect("a time") * 1e3;
    assert!(
        (predicted / total - 1.0).abs() < 0.02,
        "{predicted} against {total}"
    );
}

#[test]
fn a_job_can_come_from_stdin() {
    let scratch = Scratch::new("stdin");
    let cluster = scratch.write(
        "c.yaml",
        "nodes: [{name: a, accelerators: {type: t4}, nic_gbps: 10}]",
    );
    let mut child = Command::new(env!("CARGO_BIN_EXE_stepcast"))
        .args(["predict", "-j", "-", "-c", &cluster, "-o", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command runs");
    child
        .stdin
        .take()
        .expect("stdin")
        .write_all(b"workload: resnet18\nbatch_size: 8\n")
        .expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_stepcast"))
        .args(["devices"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

#[test]
fn catalogues_completions_and_the_manual_print() {
    for (args, expected) in [
        (&["workloads"][..], "resnet50"),
        (&["workloads", "bert", "-o", "csv"], "bert_large"),
        (&["devices", "t4"], "Tesla-T4"),
        (&["devices", "-o", "json"], "lab-xeon-4t"),
        (&["nodes", "--example"], "cluster file"),
        (&["completions", "bash"], "_stepcast"),
        (&["completions", "zsh"], "#compdef"),
        (&["man"], ".TH"),
        (&["reproduce", "-o", "csv"], "Vgg16D"),
    ] {
        let output = stepcast(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        assert!(stdout(&output).contains(expected), "{args:?}");
    }
}

#[test]
fn steps_and_prices_give_a_finish_and_a_cost() {
    let output = stepcast(&["predict", "--example", "-o", "json"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let finish = &answer["finish"];
    let time = answer["iteration_time_s"].as_f64().expect("a time") * 100_000.0;
    assert!((finish["time_s"].as_f64().expect("a time") / time - 1.0).abs() < 1e-9);
    let hourly = 0.40 + 2.0 * 0.80 + 0.35;
    assert!(
        (finish["cost"].as_f64().expect("a cost") / (hourly * time / 3600.0) - 1.0).abs() < 1e-9
    );
}
