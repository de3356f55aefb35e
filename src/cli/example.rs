//! The built-in job and cluster.

use crate::cluster::{Cluster, ClusterFile, Defaults};
use crate::input::Problems;
use crate::job::{Job, JobFile};

const JOB: &str = include_str!("../../examples/job.yaml");
const CLUSTER: &str = include_str!("../../examples/cluster.yaml");

pub(super) fn job() -> Result<Job, Problems> {
    JobFile {
        name: "examples/job.yaml",
        text: JOB,
        resolve: &|_| Err("the example refers to no file".into()),
    }
    .read()
}

pub(super) fn cluster(defaults: &Defaults) -> Result<Cluster, Problems> {
    ClusterFile {
        name: "examples/cluster.yaml",
        text: CLUSTER,
    }
    .read(defaults)
}
