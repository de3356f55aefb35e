//! The lab's measured runs, read as the contract's files are.

use crate::fixtures;
use stepcast::cluster::{Cluster, ClusterFile, Defaults};
use stepcast::job::{Job, JobFile};

/// One measured run.
pub(crate) struct Row {
    pub(crate) id: String,
    /// Whether it may be fitted on; only the others are reported on.
    pub(crate) calibrate: bool,
    pub(crate) group: String,
    pub(crate) job: Job,
    pub(crate) cluster: Cluster,
    pub(crate) step_time_s: f64,
    pub(crate) context: serde_json::Value,
}

/// All runs of a lab group.
pub(crate) fn of_group(group: &str) -> Vec<Row> {
    of_file("lab/runs.jsonl", |run| run["group"] == group)
}

/// Runs of a file.
pub(crate) fn of_file(file: &str, keep: impl Fn(&serde_json::Value) -> bool) -> Vec<Row> {
    fixtures::text(file)
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a run"))
        .filter(keep)
        .map(|run| read(&run))
        .collect()
}

fn read(run: &serde_json::Value) -> Row {
    let job = JobFile {
        name: "job",
        text: &run["job"].to_string(),
        resolve: &|_| Err("no files here".into()),
    }
    .read()
    .unwrap_or_else(|e| panic!("{e}"));
    let cluster = ClusterFile {
        name: "cluster",
        text: &run["cluster"].to_string(),
    }
    .read(&Defaults::default())
    .unwrap_or_else(|e| panic!("{e}"));
    let measured = |key: &str| run["measured"][key].as_f64();
    let workers = cluster.workers();
    let samples: f64 = (0..workers)
        .map(|w| f64::from(job.batch.of_worker(w, workers)))
        .sum();
    let step_time_s = measured("step_time_s")
        .or_else(|| measured("samples_per_s").map(|rate| samples / rate))
        .or_else(|| measured("steps_per_s").map(|rate| workers as f64 / rate))
        .expect("a measurement");
    Row {
        calibrate: run["split"] == "calibrate",
        id: run["id"].as_str().unwrap_or_default().to_owned(),
        group: run["group"].as_str().unwrap_or_default().to_owned(),
        job,
        cluster,
        step_time_s,
        context: run["context"].clone(),
    }
}
