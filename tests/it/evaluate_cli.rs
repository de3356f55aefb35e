//! `evaluate` and `calibrate` as people type them.

use crate::cli::stepcast;
use serde_json::Value;

fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn json(args: &[&str]) -> Value {
    let output = stepcast(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn evaluate_prints_what_was_promised() {
    for (file, at_most) in [
        ("ddl_resnet50_10gbe.jsonl", 0.08),
        ("cmdare_k80.jsonl", 0.03),
        ("pollux_t4.jsonl", 0.11),
    ] {
        let report = json(&["evaluate", "--runs", &fixture(file), "-o", "json"]);
        for key in ["runs", "mape", "median_ape", "worst_ape", "bias"] {
            assert!(report["overall"][key].is_number(), "{file}: {key}");
            assert!(report["groups"][0][key].is_number(), "{file}: {key}");
        }
        assert!(report["groups"][0]["group"].is_string());
        let mape = report["overall"]["mape"].as_f64().expect("a number");
        println!("{file}: mean error {:.2} %", mape * 100.0);
        assert!(mape <= at_most, "{file}: {mape}");
        let rival = &report["baselines"]["pollux"]["mape"];
        if let Some(rival) = rival.as_f64() {
            assert!(mape < rival, "{file}: {mape} against {rival}");
        }
        assert!(report["baselines"]["no-communication"]["mape"].is_number());
    }
}

#[test]
fn compute_can_be_given() {
    let runs = fixture("lab/runs.jsonl");
    let common = [
        "evaluate",
        "--runs",
        &runs,
        "--group",
        "lab-ps-bsp",
        "-o",
        "json",
    ];
    let predicted = json(&common);
    let given = json(&[&common[..], &["--compute-given"]].concat());
    let mape = |report: &Value| report["overall"]["mape"].as_f64().expect("a number");
    assert_ne!(mape(&predicted), mape(&given));
    assert!(mape(&given) < 0.08, "{}", mape(&given));
}

#[test]
fn a_calibration_is_written_read_and_named_in_answers() {
    let folder = std::env::temp_dir().join(format!("stepcast-calibrate-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let out = folder.join("mine.yaml").display().to_string();
    let report = json(&[
        "calibrate",
        "--runs",
        &fixture("ddl_resnet50_10gbe.jsonl"),
        "--out",
        &out,
        "--version-name",
        "mine",
        "-o",
        "json",
    ]);
    assert_eq!(report["runs"], 15, "only those marked to calibrate on");
    let parameters = report["parameters"].as_array().expect("parameters");
    let with = |determined: bool| {
        parameters
            .iter()
            .filter(|p| p["determined"] == determined)
            .count()
    };
    assert!(
        with(true) > 3 && with(false) > 3,
        "some are held, and named"
    );
    let text = std::fs::read_to_string(&out).expect("written");
    for wanted in [
        "version: mine",
        "provenance:",
        "drawn_towards: shipped",
        "devices:",
        "undetermined:",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
    let prediction = json(&["predict", "--example", "--calibration", &out, "-o", "json"]);
    assert_eq!(prediction["calibration"], "mine");
    let svg = folder.join("dots.svg").display().to_string();
    let done = stepcast(&[
        "evaluate",
        "--runs",
        &fixture("cmdare_k80.jsonl"),
        "--svg",
        &svg,
    ]);
    assert!(done.status.success());
    let picture = std::fs::read_to_string(&svg).expect("a picture");
    assert!(picture.starts_with("<svg") && picture.matches("<circle").count() >= 24);
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn what_is_wrong_is_said() {
    let runs = fixture("cmdare_k80.jsonl");
    for (args, wanted) in [
        (vec!["evaluate", "--runs", "/no/such/file"], "no such file"),
        (
            vec!["evaluate", "--runs", &runs, "--group", "nothing"],
            "no group matches",
        ),
        (vec!["evaluate", "--runs", &runs, "--folds", "1"], "2.."),
        (
            vec!["calibrate", "--runs", &runs, "--out", "/no/such/folder/x"],
            "/no/such/folder/x",
        ),
        (vec!["evaluate"], "--runs"),
    ] {
        let output = stepcast(&args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(wanted), "{args:?}: {error}");
    }
}
