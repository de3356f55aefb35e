//! Answers from a snapshot, each worked out once.
//!
//! A set of nodes is asked about by name, but answered by kind: nodes that
//! are alike in everything that counts make the same step. What was worked
//! out is kept by the kinds of a set, in maps that no reader waits for.

use crate::job::{Batch, Job, Strategy};
use crate::model::{
    Answered, Bottleneck, ModelName, PredictError, Prediction, Query, answer_placed, warn_of_nodes,
    words,
};
use crate::placement::{Placement, Selection};
use crate::snapshot::Snapshot;
use foldhash::fast::RandomState;
use papaya::HashMap;
use std::sync::Arc;

/// Answers, by job.
#[derive(Debug, Default)]
pub struct Answers {
    jobs: HashMap<Box<[u8]>, Arc<Asked>, RandomState>,
}

/// A job that was asked about, and the answers it had.
#[derive(Debug)]
pub struct Asked {
    /// The job.
    pub job: Job,
    /// The model to ask; the strategy's own when absent.
    pub model: Option<ModelName>,
    /// Whether the order of the nodes makes a difference.
    ordered: bool,
    /// Whether servers are among what makes one.
    served: bool,
    answers: HashMap<Box<[u32]>, Arc<Known>, RandomState>,
}

/// An answer by kinds.
#[derive(Debug)]
pub struct Known {
    answered: Answered,
    /// The kind of each class's nodes.
    class_kinds: Vec<u32>,
    baseline_kind: u32,
    /// The set it was worked out for.
    nodes: Box<[u32]>,
    servers: Box<[u32]>,
}

impl Known {
    /// The prediction, in the names of the set that it was worked out for.
    pub fn prediction(&self) -> &Prediction {
        &self.answered.prediction
    }
}

/// Jobs, and answers of a job, beyond which all are forgotten.
const MOST_JOBS: usize = 4096;
const MOST_ANSWERS: usize = 65_536;

impl Answers {
    /// The job that a key stands for, made where it is new.
    pub fn asked<E>(
        &self,
        key: &[u8],
        make: impl FnOnce() -> Result<(Job, Option<ModelName>), E>,
    ) -> Result<Arc<Asked>, E> {
        let jobs = self.jobs.pin();
        if let Some(known) = jobs.get(key) {
            return Ok(Arc::clone(known));
        }
        let (job, model) = make()?;
        if jobs.len() >= MOST_JOBS {
            jobs.clear();
        }
        let asked = Arc::new(Asked::new(job, model));
        jobs.insert(key.into(), Arc::clone(&asked));
        Ok(asked)
    }
}

impl Asked {
    /// A job without answers yet.
    pub fn new(job: Job, model: Option<ModelName>) -> Self {
        let served = matches!(job.strategy, Strategy::ParameterServer(_));
        Self {
            ordered: served || !matches!(job.batch, Batch::PerWorker(_)),
            served,
            job,
            model,
            answers: HashMap::default(),
        }
    }

    /// The answer for a set of nodes. `key` is working memory.
    pub fn answer(
        &self,
        snapshot: &Snapshot,
        nodes: &[u32],
        workers: Option<usize>,
        key: &mut Vec<u32>,
    ) -> Result<Arc<Known>, PredictError> {
        key.clear();
        key.extend(nodes.iter().map(|&i| snapshot.kinds[i as usize]));
        if !self.ordered && workers.is_none() {
            key.sort_unstable();
        }
        if self.served {
            key.push(u32::MAX);
            let most = match &self.job.strategy {
                Strategy::ParameterServer(ps) => ps.servers as usize,
                _ => 0,
            };
            let servers = snapshot.servers.iter().take(most);
            key.extend(servers.map(|&i| snapshot.kinds[i as usize]));
        }
        key.push(workers.map_or(u32::MAX, |w| w as u32));
        let answers = self.answers.pin();
        if let Some(known) = answers.get(key.as_slice()) {
            return Ok(Arc::clone(known));
        }
        let placement = Placement::of_nodes(
            &self.job,
            &snapshot.cluster,
            nodes,
            &snapshot.servers,
            workers,
        )?;
        let known = Arc::new(self.work_out(snapshot, nodes, &placement)?);
        if answers.len() >= MOST_ANSWERS {
            answers.clear();
        }
        answers.insert(key.as_slice().into(), Arc::clone(&known));
        Ok(known)
    }

    fn work_out(
        &self,
        snapshot: &Snapshot,
        nodes: &[u32],
        placement: &Placement,
    ) -> Result<Known, PredictError> {
        let answered = answer_placed(
            &Query {
                job: &self.job,
                cluster: &snapshot.cluster,
                selection: &Selection::default(),
                model: self.model,
                baseline: None,
                calibration: &snapshot.calibration,
                simulation_events: None,
            },
            placement,
        )?;
        let kind_of = |&node: &usize| snapshot.kinds[node];
        let baseline = snapshot.find(&answered.prediction.baseline.node);
        Ok(Known {
            class_kinds: answered.class_nodes.iter().map(kind_of).collect(),
            baseline_kind: baseline.map_or(u32::MAX, |i| snapshot.kinds[i as usize]),
            nodes: nodes.into(),
            servers: placement.servers.iter().map(|&s| s as u32).collect(),
            answered,
        })
    }

    /// The whole prediction for a set, in the names of its own nodes.
    pub fn predict(
        &self,
        snapshot: &Snapshot,
        nodes: &[u32],
        workers: Option<usize>,
    ) -> Result<Prediction, PredictError> {
        let mut key = Vec::with_capacity(nodes.len() + 4);
        let known = self.answer(snapshot, nodes, workers, &mut key)?;
        let placement = Placement::of_nodes(
            &self.job,
            &snapshot.cluster,
            nodes,
            &snapshot.servers,
            workers,
        )?;
        let cluster = &snapshot.cluster;
        let node = |i: u32| &*cluster.nodes[i as usize];
        let first = |kind: u32| {
            let of_kind = |i: &&u32| snapshot.kinds[**i as usize] == kind;
            nodes.iter().find(of_kind).copied()
        };
        let mut prediction = known.answered.prediction.clone();
        let servers: Vec<u32> = placement.servers.iter().map(|&s| s as u32).collect();
        if *known.nodes != *nodes || *known.servers != *servers {
            if let Some(baseline) = first(known.baseline_kind) {
                prediction.baseline.node.clone_from(&node(baseline).name);
            }
            let of_class = |class: usize| {
                let found = known.class_kinds.get(class).and_then(|k| first(*k));
                node(found.or(nodes.first().copied()).unwrap_or(0))
            };
            prediction.bottleneck = words(&prediction.step, &of_class, &|server| {
                servers.get(server).map(|&i| node(i))
            });
        }
        let mut warnings = cluster.warnings.clone();
        warn_of_nodes(cluster, &placement, &mut warnings);
        warnings.append(&mut prediction.warnings);
        prediction.warnings = warnings;
        Ok(prediction)
    }
}

/// A bottleneck's kind, as the protocol numbers them.
pub const fn limit_of(bottleneck: &Bottleneck) -> i32 {
    match bottleneck {
        Bottleneck::Compute { .. } => 1,
        Bottleneck::ServerLink { .. } => 2,
        Bottleneck::WorkerLink { .. } => 3,
        Bottleneck::AllReduce { .. } => 4,
        Bottleneck::ServerUpdate { .. } => 5,
    }
}
