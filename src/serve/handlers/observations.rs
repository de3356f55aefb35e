//! `stepcast.v1.Observations`: what jobs saw, beside what was predicted.

use super::super::ask::{Nodes, Wrong, asked, no_prediction, nodes};
use super::super::metrics::JobNumbers;
use super::super::status::bad_fields;
use super::Handlers;
use crate::protocol::v1::observations_server::Observations;
use crate::protocol::v1::{
    self, ListJobsRequest, ListJobsResponse, ReportStepsRequest, ReportStepsResponse,
};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use tonic::{Request, Response, Status, Streaming};

/// Reports whose median counts.
const WINDOW: usize = 101;

/// Jobs that reported. Nothing that answers a scheduler looks here.
pub(crate) struct Reports {
    jobs: Mutex<HashMap<String, Reported>>,
    most: usize,
}

struct Reported {
    spec: v1::Job,
    nodes: Vec<String>,
    workload: String,
    accelerator: String,
    model: String,
    predicted: f64,
    window: VecDeque<f64>,
    steps: u64,
    turn: u64,
}

impl Reported {
    fn observed(&self) -> f64 {
        let mut sorted: Vec<f64> = self.window.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn numbers<'a>(&'a self, id: &'a str) -> JobNumbers<'a> {
        JobNumbers {
            id,
            workload: &self.workload,
            accelerator: &self.accelerator,
            model: &self.model,
            predicted: self.predicted,
            observed: self.observed(),
        }
    }
}

impl Reports {
    /// For at most so many jobs; the oldest silent one gives way.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            jobs: Mutex::default(),
            most: most.max(1),
        }
    }
}

/// Steps that one report may stand for.
const MOST_STEPS: u64 = 1 << 40;

/// The longest name of a job.
const MAX_ID: usize = 253;

#[tonic::async_trait]
impl Observations for Handlers {
    async fn report_steps(
        &self,
        request: Request<Streaming<ReportStepsRequest>>,
    ) -> Result<Response<ReportStepsResponse>, Status> {
        self.access
            .changing(&request, "Observations/ReportSteps", &self.state.metrics)?;
        let mut stream = request.into_inner();
        let mut accepted_steps = 0;
        while let Some(report) = stream.message().await? {
            accepted_steps = self.take(&report)?.saturating_add(accepted_steps);
        }
        Ok(Response::new(ReportStepsResponse { accepted_steps }))
    }

    async fn list_jobs(
        &self,
        request: Request<ListJobsRequest>,
    ) -> Result<Response<ListJobsResponse>, Status> {
        self.access
            .reading(&request, "Observations/ListJobs", &self.state.metrics)?;
        let jobs = self
            .reports
            .jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<(u64, v1::ObservedJob)> = jobs
            .iter()
            .map(|(id, job)| {
                let observed = job.observed();
                let listed = v1::ObservedJob {
                    job_id: id.clone(),
                    workload: job.workload.clone(),
                    model: job.model.clone(),
                    predicted_step_seconds: job.predicted,
                    observed_step_seconds: observed,
                    error_ratio: job.predicted / observed - 1.0,
                    steps: job.steps,
                };
                (job.turn, listed)
            })
            .collect();
        all.sort_by_key(|(turn, _)| std::cmp::Reverse(*turn));
        Ok(Response::new(ListJobsResponse {
            jobs: all.into_iter().map(|(_, job)| job).collect(),
        }))
    }
}

impl Handlers {
    /// Takes one report: the steps it counts.
    fn take(&self, report: &ReportStepsRequest) -> Result<u64, Status> {
        let (seconds, steps) = durations(report)?;
        if report.job_id.is_empty() || report.job_id.len() > MAX_ID {
            let why = format!(
                "found {} characters, expected 1 to {MAX_ID}",
                report.job_id.len()
            );
            return Err(bad_fields(vec![("job_id".into(), why)]));
        }
        let known = {
            let jobs = self
                .reports
                .jobs
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            jobs.get(&report.job_id)
                .map(|job| (job.spec.clone(), job.nodes.clone()))
        };
        let (spec, mut names) = match (&report.job, known) {
            (Some(spec), known) => (spec.clone(), known.map(|k| k.1).unwrap_or_default()),
            (None, Some(known)) => known,
            (None, None) => {
                let why = "missing: no earlier report of this job gave it";
                return Err(bad_fields(vec![("job".into(), why.into())]));
            }
        };
        if !report.nodes.is_empty() {
            names.clone_from(&report.nodes);
        }
        let snapshot = self.state.snapshot();
        let set = v1::NodeSet {
            names: names.clone(),
            workers: report.workers,
            ..v1::NodeSet::default()
        };
        let mut wrong = Wrong::default();
        if names.is_empty() {
            wrong.add("nodes", "missing: the very nodes that the job runs on");
        }
        let asked = asked(&self.state, &snapshot, Some(&spec), "", &mut wrong)?;
        let found = nodes(&self.state, &snapshot, Some(&set), "nodes", &mut wrong)?;
        let (asked, found) = wrong.or(asked.zip(found))?;
        let Nodes::Known(found) = found else {
            return Err(Status::internal("named nodes are of the inventory"));
        };
        let workers = (report.workers > 0).then_some(report.workers as usize);
        let prediction = asked
            .predict(&snapshot, &found, workers)
            .map_err(|error| no_prediction(&error))?;
        let first = found.first().map(|&i| &snapshot.cluster.nodes[i as usize]);
        let device = first.and_then(|n| n.device()).map(|d| d.name.to_string());
        let mut jobs = self
            .reports
            .jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !jobs.contains_key(&report.job_id) && jobs.len() >= self.reports.most {
            let oldest = jobs
                .iter()
                .min_by_key(|(_, job)| job.turn)
                .map(|(id, _)| id.clone());
            if let Some((id, gone)) = oldest.and_then(|id| jobs.remove_entry(&id)) {
                self.state.metrics.forget(&gone.numbers(&id));
            }
        }
        let turn = jobs.values().map(|job| job.turn).max().unwrap_or(0) + 1;
        let job = jobs
            .entry(report.job_id.clone())
            .or_insert_with(|| Reported {
                spec: spec.clone(),
                nodes: names.clone(),
                workload: asked.job.workload.name.clone(),
                accelerator: String::new(),
                model: String::new(),
                predicted: 0.0,
                window: VecDeque::with_capacity(WINDOW),
                steps: 0,
                turn,
            });
        let model = prediction.model.as_str();
        if !job.model.is_empty() && (job.model != model || job.spec != spec) {
            self.state.metrics.forget(&job.numbers(&report.job_id));
        }
        job.workload.clone_from(&asked.job.workload.name);
        job.spec = spec;
        job.nodes = names;
        job.accelerator = device.unwrap_or_default();
        model.clone_into(&mut job.model);
        job.predicted = prediction.step.time.get();
        job.turn = turn;
        job.steps = job.steps.saturating_add(steps);
        for second in seconds {
            if job.window.len() == WINDOW {
                job.window.pop_front();
            }
            job.window.push_back(second);
        }
        self.state
            .metrics
            .observed(&job.numbers(&report.job_id), steps);
        Ok(steps)
    }
}

/// Step times of a report, checked.
fn durations(report: &ReportStepsRequest) -> Result<(Vec<f64>, u64), Status> {
    let fine = |s: f64| s.is_finite() && s > 0.0;
    let wrong = |field: &str, why: String| bad_fields(vec![(field.into(), why)]);
    if !report.step_seconds.is_empty() {
        if let Some(i) = report.step_seconds.iter().position(|&s| !fine(s)) {
            let why = format!(
                "found {}, expected seconds above zero",
                report.step_seconds[i]
            );
            return Err(wrong(&format!("step_seconds[{i}]"), why));
        }
        let count = report.step_seconds.len() as u64;
        let last = report.step_seconds.len().saturating_sub(WINDOW);
        return Ok((report.step_seconds[last..].to_vec(), count));
    }
    if report.step_count == 0 || report.step_count > MOST_STEPS || !fine(report.step_seconds_sum) {
        let why = "expected `step_seconds`, or `step_count` with a `step_seconds_sum` above zero";
        return Err(wrong("step_seconds", why.into()));
    }
    let mean = report.step_seconds_sum / report.step_count as f64;
    Ok((vec![mean], report.step_count))
}
