//! The lab's measured runs, read as the contract's files are.

use crate::fixtures;
use stepcast::cluster::{Cluster, ClusterFile, Defaults};
use stepcast::job::{Job, JobFile};

/// One measured run.
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) job: Job,
    pub(crate) cluster: Cluster,
    pub(crate) step_time_s: f64,
    pub(crate) context: serde_json::Value,
}

/// All runs of a group that measured a step time.
pub(crate) fn of_group(group: &str) -> Vec<Row> {
    fixtures::text("lab/runs.jsonl")
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a run"))
        .filter(|run| run["group"] == group)
        .map(|run| Row {
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
