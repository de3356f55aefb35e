//! `stepcast.v1.Observations`: what jobs saw, beside what was predicted.

use super::super::ask::{Nodes, Wrong, asked, no_prediction, nodes};
use super::super::reports::Report;
use super::super::status::{bad_fields, with_reason};
use super::Handlers;
use crate::model::{CaseError, PredictError};
use crate::observed::Steps;
use crate::placement::Placement;
use crate::protocol::v1::observations_server::Observations;
use crate::protocol::v1::{
    self, ListJobsRequest, ListJobsResponse, ReportStepsRequest, ReportStepsResponse,
};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;
use tonic::{Code, Request, Response, Status, Streaming};

/// Steps that one report may stand for.
const MOST_STEPS: u64 = 1 << 40;

/// Seconds that a step may take.
const STEP: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

/// The highest number of a step: a time in microseconds still fits.
const HIGHEST: u64 = 1 << 53;

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
        let mut accepted_steps = 0_u64;
        while let Some(report) = stream.message().await? {
            accepted_steps = self.report(&report).await?.saturating_add(accepted_steps);
        }
        Ok(Response::new(ReportStepsResponse { accepted_steps }))
    }

    async fn list_jobs(
        &self,
        request: Request<ListJobsRequest>,
    ) -> Result<Response<ListJobsResponse>, Status> {
        self.access
            .reading(&request, "Observations/ListJobs", &self.state.metrics)?;
        Ok(Response::new(ListJobsResponse {
            jobs: self.reports.list(),
        }))
    }
}

impl Handlers {
    /// Takes one report and waits until it is kept: the steps that are new.
    pub(crate) async fn report(&self, report: &ReportStepsRequest) -> Result<u64, Status> {
        let (new, kept) = self.take(report)?;
        let failed = |why: String| with_reason(Code::Unavailable, "NOT_KEPT", why);
        kept.await
            .map_err(|_| failed("observations cannot be kept: the store is gone".into()))?
            .map_err(|error| failed(format!("observations cannot be kept: {error}")))?;
        Ok(new)
    }

    fn take(
        &self,
        report: &ReportStepsRequest,
    ) -> Result<(u64, oneshot::Receiver<Result<(), String>>), Status> {
        let steps = durations(report)?;
        if report.job_id.is_empty() || report.job_id.len() > MAX_ID {
            let why = format!(
                "found {} characters, expected 1 to {MAX_ID}",
                report.job_id.len()
            );
            return Err(bad_fields(vec![("job_id".into(), why)]));
        }
        let known = self.reports.known(&report.job_id);
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
        let cluster = &snapshot.cluster;
        let placement =
            Placement::of_nodes(&asked.job, cluster, &found, &snapshot.servers, workers)
                .map_err(|error| no_prediction(&error.into()))?;
        let predicted = match asked.predict(&snapshot, &found, workers) {
            Ok(prediction) => Some(prediction.step.time.get()),
            // What it computes is learnt from its reports.
            Err(PredictError::Case(CaseError::NoFlops(_))) => None,
            Err(error) => return Err(no_prediction(&error)),
        };
        let report = Report {
            id: &report.job_id,
            spec,
            names,
            workers: report.workers,
            job: &asked.job,
            cluster,
            placement: &placement,
            predicted,
            first_step: report.first_step,
            steps,
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs());
        Ok(self.reports.take(report, &self.state.metrics, now))
    }
}

/// Step times of a report, checked.
fn durations(report: &ReportStepsRequest) -> Result<Steps, Status> {
    let fine = |s: f64| STEP.contains(&s);
    let wrong = |field: &str, why: String| bad_fields(vec![(field.into(), why)]);
    if report.first_step > HIGHEST {
        let why = format!("found {}, expected a number of steps", report.first_step);
        return Err(wrong("first_step", why));
    }
    if !report.step_seconds.is_empty() {
        if let Some(i) = report.step_seconds.iter().position(|&s| !fine(s)) {
            let why = format!(
                "found {}, expected seconds between 1e-6 and 1e6",
                report.step_seconds[i]
            );
            return Err(wrong(&format!("step_seconds[{i}]"), why));
        }
        return Ok(Steps::Each(report.step_seconds.clone()));
    }
    let mean = report.step_seconds_sum / report.step_count as f64;
    if report.step_count == 0 || report.step_count > MOST_STEPS || !fine(mean) {
        let why = "expected `step_seconds`, or `step_count` with a `step_seconds_sum` of between 1e-6 and 1e6 seconds a step";
        return Err(wrong("step_seconds", why.into()));
    }
    Ok(Steps::Sum(report.step_count, report.step_seconds_sum))
}
