//! Step times that are fetched rather than sent: from Prometheus, and from
//! the log lines of jobs. What is found goes the way of a report.

mod config;
mod log;
mod prometheus;
mod template;

pub(crate) use config::{PullFile, Source};

use super::handlers::Handlers;
use crate::protocol::v1::{Job, ReportStepsRequest};
use config::Kind;
use std::collections::HashMap;
use std::sync::Arc;
use template::Fields;

/// Step times of one job.
struct Found {
    /// What the source says of the job: labels, or the name of a file.
    fields: Fields,
    /// When, or where, each was found, and how long the step took. Numbers
    /// ascend, so that what was taken before is known.
    steps: Vec<(u64, f64)>,
}

/// Fetches from a source for ever.
pub(crate) async fn run(source: Source, handlers: Arc<Handlers>, marks: HashMap<String, String>) {
    let mut tick = tokio::time::interval(source.every);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut reader = match &source.kind {
        Kind::Prometheus(query) => match prometheus::Reader::new(query.clone()) {
            Ok(reader) => Reader::Prometheus(reader),
            Err(error) => {
                tracing::error!(source = %source.name(), %error, "no step times from here");
                return;
            }
        },
        Kind::Log(lines) => Reader::Log(log::Reader::new(lines.clone(), &marks)),
    };
    let mut complained = false;
    loop {
        tick.tick().await;
        let found = match &mut reader {
            Reader::Prometheus(reader) => reader.read().await,
            Reader::Log(reader) => reader.read(),
        };
        let done = match found {
            Ok(found) => report(&source, &handlers, found).await,
            Err(error) => Err(error),
        };
        // What could not be reported is fetched again; what was is known by
        // its numbers.
        if done.is_ok() {
            match &mut reader {
                Reader::Prometheus(reader) => reader.taken(),
                Reader::Log(reader) => handlers.reports.keep_marks(reader.taken()),
            }
        }
        // The same trouble is told once, and its end too.
        match done {
            Err(error) if !complained => {
                tracing::warn!(source = %source.name(), error, "no step times from here for now");
                complained = true;
            }
            Ok(()) if complained => {
                tracing::info!(source = %source.name(), "step times come again");
                complained = false;
            }
            _ => {}
        }
    }
}

enum Reader {
    Prometheus(prometheus::Reader),
    Log(log::Reader),
}

async fn report(source: &Source, handlers: &Handlers, found: Vec<Found>) -> Result<(), String> {
    let mut first_error = None;
    for Found { fields, steps } in found {
        if let Err(error) = report_job(source, handlers, &fields, &steps).await {
            first_error.get_or_insert(error);
        }
    }
    first_error.map_or(Ok(()), Err)
}

async fn report_job(
    source: &Source,
    handlers: &Handlers,
    fields: &Fields,
    steps: &[(u64, f64)],
) -> Result<(), String> {
    let id = source.id.fill(fields)?;
    let job = match &source.job {
        Some(template) => Some(Job {
            file: template.fill(fields)?,
            ..Job::default()
        }),
        None => None,
    };
    let nodes: Vec<String> = match &source.nodes {
        Some(template) => template
            .fill(fields)?
            .split(',')
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect(),
        None => Vec::new(),
    };
    for &(number, seconds) in steps {
        let request = ReportStepsRequest {
            job_id: id.clone(),
            job: job.clone(),
            nodes: nodes.clone(),
            step_seconds: vec![seconds],
            first_step: number,
            ..ReportStepsRequest::default()
        };
        let taken = handlers.report(&request).await;
        taken.map_err(|status| format!("job `{id}`: {}", status.message()))?;
    }
    Ok(())
}
