//! Jobs that reported steps: what was seen of each, beside what is predicted.
//! Nothing that answers a scheduler looks here.

mod placed;
mod record;

use super::convert::{node_message, nodes_tree};
use super::metrics::{JobNumbers, Metrics};
use super::store::{Change, Kept, MOST_PAST, Store};
use crate::calibration::Calibration;
use crate::cluster::{Cluster, ClusterFile, Defaults, Links};
use crate::job::Job;
use crate::observed::{Observed, Steps, WINDOW, Window, median};
use crate::placement::Placement;
use crate::protocol::v1;
use crate::runs::Run;
use placed::{Placed, accelerator, model, placed_cluster, predict};
use prost::Message;
use record::Record;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot};

/// The mark under which the state of versions is kept.
pub(crate) const VERSIONS: &str = "versions";

/// Earlier placements of one job that are learnt from.
const PAST_OF_A_JOB: usize = 1;
/// A job whose description is larger than this is not kept to learn from once
/// it moved or went.
const LARGE: usize = 256 << 10;

/// Jobs that reported.
pub(crate) struct Reports {
    live: Mutex<Live>,
    store: Store,
    most: usize,
    assumed: (Defaults, Links),
    /// Told of every window that is full.
    pub(crate) news: Notify,
}

#[derive(Default)]
struct Live {
    jobs: HashMap<String, Reported>,
    past: VecDeque<Placed>,
    turn: u64,
    windows: u64,
}

struct Reported {
    spec: v1::Job,
    names: Vec<String>,
    workers: u32,
    nodes: Vec<v1::Node>,
    placed: Placed,
    accelerator: String,
    model: &'static str,
    /// `None` where nobody says what it computes.
    predicted: Option<f64>,
    turn: u64,
}

/// A report, looked up.
pub(crate) struct Report<'a> {
    pub(crate) id: &'a str,
    pub(crate) spec: v1::Job,
    pub(crate) names: Vec<String>,
    pub(crate) workers: u32,
    pub(crate) job: &'a Job,
    /// The cluster as it is now, and where in it the job runs.
    pub(crate) cluster: &'a Cluster,
    pub(crate) placement: &'a Placement,
    pub(crate) predicted: Option<f64>,
    pub(crate) first_step: u64,
    pub(crate) steps: Steps,
}

/// Runs to learn from, and others to judge by.
#[derive(Default)]
pub(crate) struct Evidence {
    pub(crate) fit: Vec<Run>,
    pub(crate) check: Vec<Run>,
}

impl Reports {
    /// For at most so many jobs; the oldest silent one gives way. Begins with
    /// what was kept.
    pub(crate) fn new(
        most: usize,
        assumed: (Defaults, Links),
        store: Store,
        kept: &Kept,
        calibration: &Calibration,
        metrics: &Metrics,
    ) -> Self {
        let reports = Self {
            live: Mutex::default(),
            store,
            most: most.max(1),
            assumed,
            news: Notify::new(),
        };
        {
            let mut live = reports.live();
            for (id, bytes) in &kept.jobs {
                let Some(mut job) = reports.restore(id, bytes) else {
                    tracing::warn!(job = id, "what was kept of a job cannot be read");
                    continue;
                };
                job.predicted = predict(&job.placed, calibration);
                live.turn = live.turn.max(job.turn);
                metrics.observed(&job.numbers(), job.placed.observed.steps);
                live.jobs.insert(id.clone(), job);
            }
            let past = kept
                .past
                .iter()
                .filter_map(|bytes| reports.restore("", bytes));
            live.past = past.map(|job| job.placed).collect();
            while live.jobs.len() > reports.most {
                if let Some(gone) = live.evict() {
                    metrics.forget(&gone.numbers());
                }
            }
            metrics.errors(&live.errors());
        }
        reports
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn restore(&self, id: &str, bytes: &[u8]) -> Option<Reported> {
        let record = Record::decode(bytes).ok()?;
        let id = if id.is_empty() { &record.id } else { id };
        let spec = record.job.clone()?;
        let job = super::ask::job_of(&spec).ok()?;
        let cluster = self.cluster(&record.nodes)?;
        Some(Reported {
            accelerator: accelerator(&cluster),
            model: model(&job),
            placed: Placed {
                id: id.to_owned(),
                job: Arc::new(job),
                cluster: Arc::new(cluster),
                observed: record.observed(),
            },
            spec,
            names: record.names,
            workers: record.workers,
            nodes: record.nodes,
            predicted: None,
            turn: record.turn,
        })
    }

    /// The cluster that kept nodes make.
    fn cluster(&self, nodes: &[v1::Node]) -> Option<Cluster> {
        let file = ClusterFile {
            name: "nodes",
            text: "",
        };
        let mut cluster = file.read_tree(&nodes_tree(nodes), &self.assumed.0).ok()?;
        cluster.links = self.assumed.1;
        Some(cluster)
    }

    /// The job and nodes that an earlier report of an id gave.
    pub(crate) fn known(&self, id: &str) -> Option<(v1::Job, Vec<String>)> {
        let live = self.live();
        let job = live.jobs.get(id)?;
        Some((job.spec.clone(), job.names.clone()))
    }

    /// Takes a report: how many of its steps are new, and when they are kept.
    pub(crate) fn take(
        &self,
        report: Report<'_>,
        metrics: &Metrics,
        now: u64,
    ) -> (u64, oneshot::Receiver<Result<(), String>>) {
        let cluster = placed_cluster(report.cluster, report.placement);
        let nodes: Vec<v1::Node> = cluster.nodes.iter().map(|n| node_message(n)).collect();
        let mut changes = Vec::new();
        let mut live = self.live();
        while !live.jobs.contains_key(report.id) && live.jobs.len() >= self.most {
            let Some(gone) = live.evict() else { break };
            metrics.forget(&gone.numbers());
            changes.extend(live.retire(&gone));
            changes.push(Change::Gone(gone.placed.id));
        }
        live.turn += 1;
        let turn = live.turn;
        let mut job = live.jobs.remove(report.id).unwrap_or_else(|| Reported {
            spec: v1::Job::default(),
            names: Vec::new(),
            workers: 0,
            nodes: Vec::new(),
            placed: Placed {
                id: report.id.to_owned(),
                job: Arc::new(report.job.clone()),
                cluster: Arc::default(),
                observed: Observed::default(),
            },
            accelerator: String::new(),
            model: "",
            predicted: None,
            turn,
        });
        if job.spec != report.spec || job.nodes != nodes {
            if !job.model.is_empty() {
                metrics.forget(&job.numbers());
                changes.extend(live.retire(&job));
                // The counter goes on from where it was.
                metrics.counted(report.id, job.placed.observed.steps);
            }
            job.placed.observed.moved(report.first_step);
            job.placed.job = Arc::new(report.job.clone());
            job.placed.cluster = Arc::new(cluster);
            job.accelerator = accelerator(&job.placed.cluster);
            job.model = model(report.job);
            (job.spec, job.nodes) = (report.spec, nodes);
        }
        job.names = report.names;
        job.workers = report.workers;
        job.predicted = report.predicted;
        job.turn = turn;
        let left = job.placed.observed.current.len() as u64;
        let observed = &mut job.placed.observed;
        let new = observed.take(report.first_step, &report.steps, now);
        let windows = match report.steps {
            Steps::Each(_) => (left + new) / WINDOW as u64,
            Steps::Sum(..) => u64::from(new > 0),
        };
        metrics.observed(&job.numbers(), new);
        changes.push(Change::Job(report.id.to_owned(), job.encoded()));
        live.jobs.insert(report.id.to_owned(), job);
        if windows > 0 {
            live.windows += windows;
            metrics.errors(&live.errors());
            self.news.notify_one();
        }
        // Still under the lock: what is kept last is what is true.
        (new, self.store.keep(changes))
    }

    /// Another calibration is in force: predictions are made anew.
    pub(crate) fn recalibrated(&self, calibration: &Calibration, metrics: &Metrics) {
        let placed: Vec<Placed> = {
            let live = self.live();
            live.jobs.values().map(|job| job.placed.clone()).collect()
        };
        let predicted: Vec<(String, Option<f64>)> = placed
            .iter()
            .map(|placed| (placed.id.clone(), predict(placed, calibration)))
            .collect();
        let mut live = self.live();
        for (id, predicted) in predicted {
            if let Some(job) = live.jobs.get_mut(&id) {
                job.predicted = predicted;
                metrics.observed(&job.numbers(), 0);
            }
        }
        metrics.errors(&live.errors());
    }

    /// Windows that were seen, and the mean error of what is predicted now.
    pub(crate) fn standing(&self) -> (u64, Option<f64>) {
        let live = self.live();
        let errors: Vec<f64> = live.jobs.values().filter_map(Reported::error).collect();
        (live.windows, median(&errors))
    }

    /// What can be learnt from: of every placement, each second window to fit
    /// on and the others to judge by.
    pub(crate) fn evidence(&self) -> Evidence {
        let live = self.live();
        let mut evidence = Evidence::default();
        let jobs = live.jobs.values().map(|job| &job.placed);
        for placed in live.past.iter().chain(jobs) {
            let every_second = |from: usize| -> Vec<Window> {
                let windows = placed.observed.windows.iter().rev();
                windows.skip(from).step_by(2).copied().collect()
            };
            evidence.check.extend(placed.run(&every_second(1)));
            evidence.fit.extend(placed.run(&every_second(0)));
        }
        evidence
    }

    /// All jobs, the latest first.
    pub(crate) fn list(&self) -> Vec<v1::ObservedJob> {
        let live = self.live();
        let mut jobs: Vec<&Reported> = live.jobs.values().collect();
        jobs.sort_by_key(|job| std::cmp::Reverse(job.turn));
        jobs.into_iter().map(Reported::listed).collect()
    }

    /// Keeps calibrations, the first one in force, and what goes with them.
    pub(crate) fn keep_calibrations(
        &self,
        all: Vec<String>,
        versions: String,
    ) -> oneshot::Receiver<Result<(), String>> {
        let mark = Change::Mark(VERSIONS.to_owned(), versions);
        self.store.keep(vec![Change::Calibrations(all), mark])
    }

    /// Keeps how far a source was read.
    pub(crate) fn keep_marks(&self, marks: Vec<(String, String)>) {
        let changes = marks
            .into_iter()
            .map(|(name, mark)| Change::Mark(name, mark));
        // Nobody waits: what is read twice is counted once.
        drop(self.store.keep(changes.collect()));
    }
}

impl Live {
    /// The oldest silent job gives way.
    fn evict(&mut self) -> Option<Reported> {
        let oldest = self.jobs.iter().min_by_key(|(_, job)| job.turn)?.0.clone();
        self.jobs.remove(&oldest)
    }

    /// A job leaves its nodes: what was seen there is kept to learn from.
    fn retire(&mut self, job: &Reported) -> Option<Change> {
        let encoded = job.encoded();
        if job.placed.observed.windows.is_empty() || encoded.len() > LARGE {
            return None;
        }
        // Whoever moves often says no more than who stays.
        let own = |p: &Placed| p.id == job.placed.id;
        while self.past.iter().filter(|p| own(p)).count() >= PAST_OF_A_JOB {
            let oldest = self.past.iter().position(own)?;
            self.past.remove(oldest);
        }
        while self.past.len() >= MOST_PAST {
            self.past.pop_front();
        }
        self.past.push_back(job.placed.clone());
        Some(Change::Past(encoded))
    }

    /// Mean size of the error, by type of device, and over all.
    fn errors(&self) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for job in self.jobs.values() {
            let Some(error) = job.error() else { continue };
            for group in [job.accelerator.as_str(), "all"] {
                let sum = sums.entry(group.to_owned()).or_default();
                *sum = (sum.0 + error, sum.1 + 1.0);
            }
        }
        sums.into_iter()
            .map(|(group, (sum, count))| (group, sum / count))
            .collect()
    }
}

impl Reported {
    fn numbers(&self) -> JobNumbers<'_> {
        JobNumbers {
            id: &self.placed.id,
            workload: &self.placed.job.workload.name,
            accelerator: &self.accelerator,
            model: self.model,
            predicted: self.predicted,
            observed: self.placed.observed.step(),
        }
    }

    /// Size of the relative error, where there are both numbers.
    fn error(&self) -> Option<f64> {
        let observed = self.placed.observed.step()?;
        Some((self.predicted? / observed - 1.0).abs())
    }

    fn encoded(&self) -> Vec<u8> {
        let record = Record {
            job: Some(self.spec.clone()),
            nodes: self.nodes.clone(),
            names: self.names.clone(),
            workers: self.workers,
            turn: self.turn,
            id: self.placed.id.clone(),
            ..Record::default()
        };
        record.with(&self.placed.observed).encode_to_vec()
    }

    fn listed(&self) -> v1::ObservedJob {
        let observed = self.placed.observed.step().unwrap_or_default();
        let predicted = self.predicted.unwrap_or_default();
        let both = observed > 0.0 && predicted > 0.0;
        v1::ObservedJob {
            job_id: self.placed.id.clone(),
            workload: self.placed.job.workload.name.clone(),
            model: self.model.to_owned(),
            predicted_step_seconds: predicted,
            observed_step_seconds: observed,
            error_ratio: if both {
                predicted / observed - 1.0
            } else {
                0.0
            },
            steps: self.placed.observed.steps,
            outlier_steps: self.placed.observed.outliers,
            nodes: self.names.clone(),
            accelerator: self.accelerator.clone(),
        }
    }
}
