//! Measured runs: one a line, each a job on a cluster with what was measured.

mod given;
mod keys;

pub use given::Given;
pub use keys::FoldBy;

use crate::cluster::{Cluster, ClusterFile, Defaults};
use crate::input::Problems;
use crate::job::{Job, JobFile};
use serde::Deserialize;
use serde_json::value::RawValue;

/// How far a measured run and a prediction are apart, typically: the machine,
/// and what the models leave out.
pub const NOISE: f64 = 0.08;

/// Lines that a file may have.
const MAX_RUNS: usize = 1_000_000;

/// What a run may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// To fit on.
    Calibrate,
    /// To report on.
    Test,
}

/// One measured run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its name.
    pub id: String,
    /// Runs that are reported together.
    pub group: String,
    /// What it may be used for, where that is said.
    pub split: Option<Split>,
    /// The job.
    pub job: Job,
    /// The cluster; all of its workers took part.
    pub cluster: Cluster,
    /// Time of one iteration in seconds.
    pub step_time_s: f64,
    /// How far a measurement and a prediction are apart, typically.
    pub noise: f64,
    /// Compute times that were measured beside it.
    pub given: Option<Given>,
    /// Time that synchronising added to the step, where it was measured.
    pub exposed_sync_s: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    group: Option<String>,
    #[serde(default)]
    split: Option<Split>,
    #[serde(borrow)]
    job: &'a RawValue,
    #[serde(borrow)]
    cluster: &'a RawValue,
    measured: Measured,
    #[serde(default)]
    context: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_field_names)] // the names of the file
struct Measured {
    step_time_s: Option<f64>,
    samples_per_s: Option<f64>,
    steps_per_s: Option<f64>,
}

impl Measured {
    /// The iteration's time for so many workers and samples.
    fn step_time(&self, workers: f64, samples: f64) -> Result<f64, String> {
        let time = match (self.step_time_s, self.samples_per_s, self.steps_per_s) {
            (Some(time), None, None) => time,
            (None, Some(rate), None) => samples / rate,
            // Steps of any worker; an iteration is one of each.
            (None, None, Some(rate)) => workers / rate,
            _ => {
                return Err(
                    "expected exactly one of step_time_s, samples_per_s, steps_per_s".to_owned(),
                );
            }
        };
        if (1e-9..=1e9).contains(&time) {
            Ok(time)
        } else {
            Err(format!(
                "found an iteration of {time} s, expected between 1e-9 and 1e9"
            ))
        }
    }
}

/// Reads a file of runs; every bad line is reported.
pub fn read(name: &str, text: &str) -> Result<Vec<Run>, Problems> {
    let mut runs = Vec::new();
    let mut problems: Option<Problems> = None;
    let lines = text.lines().enumerate();
    for (number, line) in lines.filter(|(_, l)| !l.trim().is_empty()) {
        if runs.len() >= MAX_RUNS {
            let found = format!("more than {MAX_RUNS} runs");
            return Err(Problems::whole_file(name, found, "fewer".into(), None));
        }
        let place = format!("{name}:{}", number + 1);
        match read_line(&place, line) {
            Ok(run) => runs.push(run),
            Err(wrong) => {
                problems = Some(match problems {
                    Some(before) => before.and(wrong),
                    None => wrong,
                });
            }
        }
    }
    match problems {
        Some(problems) => Err(problems),
        None if runs.is_empty() => {
            let hint = "one JSON object a line: {\"job\": …, \"cluster\": …, \"measured\": {\"step_time_s\": 0.25}}";
            let expected = "measured runs".into();
            Err(Problems::whole_file(
                name,
                "no run".into(),
                expected,
                Some(hint.into()),
            ))
        }
        None => Ok(runs),
    }
}

fn read_line(place: &str, text: &str) -> Result<Run, Problems> {
    let wrong = |found: String, expected: &str| {
        Problems::whole_file(place, found, expected.to_owned(), None)
    };
    let line: Line<'_> = serde_json::from_str(text)
        .map_err(|error| wrong(error.to_string(), "a run as one JSON object"))?;
    let job_place = format!("{place}: job");
    let job = JobFile {
        name: &job_place,
        text: line.job.get(),
        resolve: &|_| Err("a run carries its job whole: give the layers, not a file".into()),
    }
    .read();
    let cluster_place = format!("{place}: cluster");
    let cluster = ClusterFile {
        name: &cluster_place,
        text: line.cluster.get(),
    }
    .read(&Defaults::default());
    let (job, cluster) = match (job, cluster) {
        (Ok(job), Ok(cluster)) => (job, cluster),
        (Err(job), Err(cluster)) => return Err(job.and(cluster)),
        (Err(wrong), _) | (_, Err(wrong)) => return Err(wrong),
    };
    let workers = cluster.workers();
    let samples: f64 = (0..workers)
        .map(|w| f64::from(job.batch.of_worker(w, workers)))
        .sum();
    let step_time_s = line
        .measured
        .step_time(workers as f64, samples)
        .map_err(|why| wrong(format!("measured: {why}"), "a measurement"))?;
    Ok(Run {
        id: line.id.unwrap_or_else(|| place.to_owned()),
        group: line.group.unwrap_or_else(|| "runs".to_owned()),
        split: line.split,
        noise: NOISE,
        given: Given::read(&line.context),
        exposed_sync_s: line.context["exposed_sync_s"].as_f64(),
        job,
        cluster,
        step_time_s,
    })
}

impl Run {
    /// A number that another measurement hardly has: names what a calibration
    /// was fitted on.
    pub fn fingerprint(&self) -> u32 {
        // FNV-1a: written into files, so it must never change.
        let text = format!("{}|{:.5e}", self.id, self.step_time_s);
        text.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        })
    }
}
