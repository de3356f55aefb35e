//! The lab's measured runs, read as the contract's files are.

use crate::fixtures;
use stepcast::cluster::{Cluster, ClusterFile, Defaults};
use stepcast::job::{Job, JobFile};

/// One measured run.
pub(crate) struct Row {
    pub(crate) id: String,
    /// Whether it may be fitted on; only the others are reported on.
    pub(crate) calibrate: bool,
    pub(crate) job: Job,
    pub(crate) cluster: Cluster,
    pub(crate) step_time_s: f64,
    pub(crate) context: serde_json::Value,
}

/// All runs of a lab group that measured a step time.
pub(crate) fn of_group(group: &str) -> Vec<Row> {
    of_file("lab/runs.jsonl", |run| run["group"] == group)
}

/// Runs of a file.
pub(crate) fn of_file(file: &str, keep: impl Fn(&serde_json::Value) -> bool) -> Vec<Row> {
    fixtures::text(file)
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a run"))
        .filter(keep)
        .map(|run| Row {
            calibrate: run["split"] == "calibrate",
            id: run["id"].as_str().unwrap_or_default().to_owned(),
            job: JobFile {
                name: "job",
                text: &run["job"].to_string(),
                resolve: &|_| Err("no files here".into()),
            }
            .read()
            .unwrap_or_else(|e| panic!("{e}")),
            cluster: ClusterFile {
                name: "cluster",
                text: &run["cluster"].to_string(),
            }
            .read(&Defaults::default())
            .unwrap_or_else(|e| panic!("{e}")),
            step_time_s: run["measured"]["step_time_s"]
                .as_f64()
                .expect("a step time"),
            context: run["context"].clone(),
        })
        .collect()
}
