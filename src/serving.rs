//! Answers from a snapshot, each worked out once.
//!
//! A set of nodes is asked about by name, but answered by kind: nodes that
//! are alike in everything that counts make the same step. What was worked
//! out is kept by the kinds of a set, in maps that no reader waits for.

use crate::job::{Batch, Job, Strategy};
use crate::model::{
    Answered, ModelName, PredictError, Prediction, Query, answer_placed, warn_of_nodes, words,
};
use crate::placement::{Placement, Selection};
use crate::snapshot::Snapshot;
use foldhash::fast::RandomState;
use papaya::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Answers, by job.
#[derive(Debug, Default)]
pub struct Answers {
    jobs: HashMap<Box<[u8]>, Arc<Asked>, RandomState>,
    /// Answers of all jobs together.
    kept: Arc<AtomicUsize>,
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
    /// Events that a simulation may take.
    events: u64,
    answers: HashMap<Box<[u32]>, Arc<Known>, RandomState>,
    kept: Arc<AtomicUsize>,
}

/// An answer by kinds.
#[derive(Debug)]
pub struct Known {
    answered: Answered,
    /// Where each class's node stands in the set.
    classes: Vec<Stands>,
    baseline: Stands,
}

/// A node of a set: by its place where the order counts, by kind elsewhere.
#[derive(Clone, Copy, Debug)]
struct Stands {
    place: usize,
    kind: u32,
}

impl Known {
    /// The prediction, in the names of the set that it was worked out for.
    pub fn prediction(&self) -> &Prediction {
        &self.answered.prediction
    }
}

/// Jobs, and answers of all jobs, beyond which they are forgotten.
const MOST_JOBS: usize = 512;
const MOST_ANSWERS: usize = 20_000;
/// A job larger than this is read anew each time.
const LARGE: usize = 16 << 10;

impl Answers {
    /// The job that a key stands for, made where it is new.
    pub fn asked<E>(
        &self,
        key: &[u8],
        events: u64,
        make: impl FnOnce() -> Result<(Job, Option<ModelName>), E>,
    ) -> Result<Arc<Asked>, E> {
        let jobs = self.jobs.pin();
        if let Some(known) = jobs.get(key) {
            return Ok(Arc::clone(known));
        }
        let (job, model) = make()?;
        let kept = Arc::clone(&self.kept);
        let asked = Arc::new(Asked::new(job, model, events, kept));
        if key.len() <= LARGE {
            if jobs.len() >= MOST_JOBS {
                jobs.clear();
                self.kept.store(0, Ordering::Relaxed);
            }
            jobs.insert(key.into(), Arc::clone(&asked));
        }
        Ok(asked)
    }
}

impl Asked {
    /// A job without answers yet.
    fn new(job: Job, model: Option<ModelName>, events: u64, kept: Arc<AtomicUsize>) -> Self {
        let served = matches!(job.strategy, Strategy::ParameterServer(_));
        Self {
            ordered: served
                || job.strategy == Strategy::Single
                || !matches!(job.batch, Batch::PerWorker(_)),
            served,
            job,
            model,
            events,
            answers: HashMap::default(),
            kept,
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
        if self.kept.fetch_add(1, Ordering::Relaxed) >= MOST_ANSWERS {
            self.kept.fetch_sub(answers.len(), Ordering::Relaxed);
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
                simulation_events: Some(self.events),
            },
            placement,
        )?;
        let stands = |node: u32| Stands {
            place: nodes.iter().position(|&n| n == node).unwrap_or(0),
            kind: snapshot.kinds[node as usize],
        };
        let baseline = snapshot.find(&answered.prediction.baseline.node);
        Ok(Known {
            classes: answered
                .class_nodes
                .iter()
                .map(|&node| stands(node as u32))
                .collect(),
            baseline: stands(baseline.or(nodes.first().copied()).unwrap_or(0)),
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
        // Where the servers stand matters to their names alone.
        let servers: Vec<u32> = if self.served {
            let (job, cluster) = (&self.job, &snapshot.cluster);
            let placement = Placement::of_nodes(job, cluster, nodes, &snapshot.servers, workers)?;
            placement.servers.iter().map(|&s| s as u32).collect()
        } else {
            Vec::new()
        };
        let cluster = &snapshot.cluster;
        let node = |i: u32| &*cluster.nodes[i as usize];
        let exact = self.ordered || workers.is_some();
        let of = |stands: Stands| {
            let of_kind = |i: &&u32| snapshot.kinds[**i as usize] == stands.kind;
            let found = if exact {
                nodes.get(stands.place)
            } else {
                nodes.iter().find(of_kind)
            };
            node(found.or(nodes.first()).copied().unwrap_or(0))
        };
        let mut prediction = known.answered.prediction.clone();
        prediction
            .baseline
            .node
            .clone_from(&of(known.baseline).name);
        prediction.bottleneck = words(
            &prediction.step,
            &|class| of(known.classes.get(class).copied().unwrap_or(known.baseline)),
            &|server| servers.get(server).map(|&i| node(i)),
        );
        let odd = |i: &u32| !node(*i).warnings.is_empty() || node(*i).unusable.is_some();
        if !cluster.warnings.is_empty() || nodes.iter().chain(&servers).any(odd) {
            let placement =
                Placement::of_nodes(&self.job, cluster, nodes, &snapshot.servers, workers)?;
            let mut warnings = cluster.warnings.clone();
            warn_of_nodes(cluster, &placement, &mut warnings);
            warnings.append(&mut prediction.warnings);
            prediction.warnings = warnings;
        }
        Ok(prediction)
    }
}
