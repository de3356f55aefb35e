//! The questions that schedulers and engineers ask of the models: how far to
//! scale, which nodes, which settings.

mod curve;
mod minibatch;
mod pool;
mod recommend;
mod search;
mod tune;

pub use curve::{Curve, curve};
pub use minibatch::{MinibatchPlan, MinibatchRange, recommend_minibatch};
pub use pool::{Kind, PlanError, Pool, Taken};
pub use recommend::{Objective, Recommendation, Wish, recommend};
pub use tune::{Suggestion, tune};

use crate::calibration::Calibration;
use crate::cluster::Cluster;
use crate::job::{Batch, Job};
use crate::model::ModelName;

/// What is planned: a job on whatever part of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The job.
    pub job: &'a Job,
    /// The cluster.
    pub cluster: &'a Cluster,
    /// What was learnt.
    pub calibration: &'a Calibration,
    /// Which model; the strategy's own when absent.
    pub model: Option<ModelName>,
    /// Only these nodes.
    pub nodes: Option<&'a [String]>,
    /// At most this many workers.
    pub max_workers: Option<usize>,
    /// Node to measure the speedup against; the fastest when absent.
    pub baseline: Option<&'a str>,
}

impl Ask<'_> {
    /// Workers that may be taken: a global batch leaves none without a sample.
    fn limit(&self) -> usize {
        let limit = self.max_workers.unwrap_or(usize::MAX);
        match self.job.batch {
            Batch::Global(samples) => limit.min(usize::try_from(samples).unwrap_or(usize::MAX)),
            _ => limit,
        }
    }
}
