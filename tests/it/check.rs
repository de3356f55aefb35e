//! `check`: policies, exit codes, and what is said.

use crate::cli::stepcast;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("stepcast-check-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("jobs")).expect("a folder");
        let folder = Self(path);
        let job = |network: &str| {
            format!(
                "workload: {network}\nbatch_size: 32\nstrategy: {{all_reduce: {{algorithm: ring, fusion: {{buffer_mib: 25}}}}}}\n"
            )
        };
        folder.write("jobs/resnet50.yaml", &job("resnet50"));
        folder.write("jobs/vgg16.yaml", &job("vgg16"));
        folder.write(
            "cluster.yaml",
            "nodes: [{name: n, count: 8, accelerators: {type: NVIDIA-Tesla-V100-PCIE-16GB, count: 1}, nic_gbps: 10}]\n",
        );
        folder
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("written");
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Exit code, stdout, stderr of a policy's check.
    fn check(&self, policy: &str, more: &[&str]) -> (Option<i32>, String, String) {
        self.write("policy.yaml", policy);
        let path = self.path("policy.yaml");
        let output = stepcast(&[&["check", &path], more].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const HOLDS: &str = "checks: [{name: easy, job: jobs/resnet50.yaml, cluster: cluster.yaml, min_speedup: 2, max_step_time: 10s, min_scaling_factor: 0.2, min_throughput: 10}]";
const SHORT: &str =
    "checks: [{name: hard, job: 'jobs/*.yaml', cluster: cluster.yaml, min_speedup: 6.5}]";

#[test]
fn zero_holds_one_falls_short_two_is_bad_input() {
    let folder = Folder::new("codes");
    let (code, said, _) = folder.check(HOLDS, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("1 check: all hold"), "{said}");
    let (code, said, _) = folder.check(SHORT, &[]);
    println!("{said}");
    assert_eq!(code, Some(1), "{said}");
    // Cells wrap at the terminal's width.
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("falls short of 6.50×"), "{said}");
    assert!(
        said.contains("limited by") && said.contains("would do: 25 Gb/s on 8 nodes"),
        "{said}"
    );
    for (policy, wanted) in [
        ("checks: []", "at least one check"),
        (
            "checks: [{job: jobs/resnet50.yaml, cluster: cluster.yaml}]",
            "checks[0]",
        ),
        (
            "checks: [{job: jobs/no.yaml, cluster: cluster.yaml, min_speedup: 2}]",
            "no such file",
        ),
        (
            "checks: [{job: 'none/*.yaml', cluster: cluster.yaml, min_speedup: 2}]",
            "none",
        ),
        (
            "checks: [{job: jobs/vgg16.yaml, cluster: cluster.yaml, min_speedupp: 2}]",
            "min_speedup",
        ),
        (
            "checks: [{job: jobs/vgg16.yaml, cluster: cluster.yaml, workers: 99, min_speedup: 2}]",
            "99",
        ),
        (
            "checks: [{job: jobs/vgg16.yaml, cluster: cluster.yaml, min_speedup: -1}]",
            "above zero",
        ),
    ] {
        let (code, _, error) = folder.check(policy, &[]);
        assert_eq!(code, Some(2), "{policy}: {error}");
        assert!(error.contains(wanted), "{policy}: {error}");
    }
}

#[test]
fn json_junit_and_github_say_the_same() {
    let folder = Folder::new("formats");
    let (code, said, _) = folder.check(SHORT, &["-o", "json"]);
    assert_eq!(code, Some(1));
    let json: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(json["holds"], false);
    assert_eq!(
        json["checks"].as_array().map(Vec::len),
        Some(2),
        "one a job"
    );
    let vgg = &json["checks"][1];
    assert_eq!(vgg["name"], "hard: vgg16 on cluster");
    assert!(vgg["findings"][0]["found"].as_f64() < Some(6.5));
    assert!(vgg["prediction"]["iteration_time_s"].is_number());
    let (_, xml, _) = folder.check(SHORT, &["-o", "junit"]);
    assert!(
        xml.contains("tests=\"2\"") && xml.contains("<failure message=\"speedup"),
        "{xml}"
    );
    let (_, annotations, _) = folder.check(SHORT, &["-o", "github"]);
    assert!(annotations.starts_with("::error file="), "{annotations}");
    assert_eq!(
        annotations.lines().count(),
        2,
        "one line each: {annotations}"
    );
}

#[test]
fn certainty_asks_for_more() {
    let folder = Folder::new("sure");
    let found = |more: &[&str]| {
        let (_, said, _) = folder.check(SHORT, &[&["-o", "json"], more].concat());
        let json: Value = serde_json::from_str(&said).expect("JSON");
        json["checks"][0]["findings"][0]["found"]
            .as_f64()
            .expect("a number")
    };
    let (plain, even, sure) = (
        found(&[]),
        found(&["--confidence", "0.5"]),
        found(&["--confidence", "0.9"]),
    );
    assert!((plain / even - 1.0).abs() < 0.01, "{plain} {even}");
    assert!(sure < 0.95 * plain, "{plain} {sure}");
    let (code, _, error) = folder.check(SHORT, &["--confidence", "90"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("below 1"), "{error}");
}

#[test]
fn one_job_is_checked_without_a_policy() {
    let folder = Folder::new("one");
    let (job, cluster) = (
        folder.path("jobs/resnet50.yaml"),
        folder.path("cluster.yaml"),
    );
    let check = |more: &[&str]| {
        let output = stepcast(&[&["check", "-j", &job, "-c", &cluster], more].concat());
        output.status.code()
    };
    assert_eq!(check(&["-n", "4", "--min-speedup", "1.5"]), Some(0));
    assert_eq!(check(&["-n", "4", "--min-speedup", "3.999"]), Some(1));
    assert_eq!(check(&["-n", "4", "--max-step-time", "1ms"]), Some(1));
    assert_eq!(check(&["-n", "4"]), Some(2), "nothing is asked");
    assert_eq!(check(&["--min-speedup", "nan"]), Some(2), "no number");
    assert_eq!(check(&["--min-speedup=-3"]), Some(2), "below zero");
}

/// The steps of the composite action, run as a runner would.
#[test]
fn the_github_action_fails_a_job_that_falls_short() {
    let folder = Folder::new("action");
    folder.write("policy.yaml", SHORT);
    let action = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/ci/action.yml");
    let action = std::fs::read_to_string(action).expect("the action");
    let action: Value = serde_yaml::from_str(&action).expect("YAML");
    let run = |step: usize, program: &str, policy: &str| {
        let script = action["runs"]["steps"][step]["run"]
            .as_str()
            .expect("a script");
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", script])
            .env("PROGRAM", program)
            .env("POLICY", policy)
            .env("CONFIDENCE", "0.6")
            .env("SERVER", "")
            .env("JUNIT", folder.path("junit.xml"))
            .env("GITHUB_OUTPUT", folder.path("output"))
            .env("GITHUB_STEP_SUMMARY", folder.path("summary"))
            .output()
            .expect("bash");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let program = env!("CARGO_BIN_EXE_stepcast");
    assert_eq!(run(0, program, "").0, Some(0));
    let (code, said) = run(1, program, &folder.path("policy.yaml"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("::error "), "{said}");
    let read = |name: &str| std::fs::read_to_string(folder.path(name)).expect("written");
    assert!(
        read("output").contains(&format!("program={program}"))
            && read("output").contains("holds=false")
    );
    assert!(read("summary").contains("falls short") && read("junit.xml").contains("<failure"));
    folder.write("policy.yaml", HOLDS);
    assert_eq!(run(1, program, &folder.path("policy.yaml")).0, Some(0));
    assert!(read("output").contains("holds=true"));
}
