//! `stepcast check`.

mod live;
mod report;

use super::args::CheckArgs;
use super::files::{self, Failure};
use super::output;
use crate::calibration::Calibration;
use crate::check::{Bounds, Check, PolicyFile, Subject, Verdict};
use crate::cluster::Cluster;
use crate::placement::Selection;
use crate::units::{Seconds, Unit, parse_quantity};
use std::path::{Path, PathBuf};

/// One check with its result.
pub(super) struct Done {
    pub(super) name: String,
    /// The file that annotations point to.
    pub(super) file: String,
    /// The result, or why there is none.
    pub(super) verdict: Result<Verdict, String>,
}

/// Whether everything holds.
pub(super) fn run(args: &CheckArgs) -> Result<bool, Failure> {
    if let Some(level) = args.confidence
        && !(0.5..1.0).contains(&level)
    {
        return Err(
            format!("--confidence: found {level}, expected at least 0.5 and below 1").into(),
        );
    }
    let defaults = files::defaults(&args.default_nic)?;
    let mut calibration = match &args.calibration {
        Some(path) => files::read_calibration(path)?,
        None => Calibration::shipped().clone(),
    };
    let live = match &args.server {
        Some(address) => {
            let (cluster, learnt) = live::read(address, &defaults)?;
            // What answers schedulers there answers here, unless said otherwise.
            if args.calibration.is_none() {
                calibration = learnt;
            }
            Some(cluster)
        }
        None => None,
    };
    let (checks, folder, file) = read_checks(args)?;
    let mut done = Vec::new();
    for check in &checks {
        for (name, job_path, cluster_path) in meant(check, &folder, live.is_some())? {
            let job = files::read_job(&job_path)?;
            let cluster = match (&cluster_path, &live) {
                (Some(path), _) => files::read_cluster(path, &defaults)?,
                (None, Some(cluster)) => Cluster::clone(cluster),
                (None, None) => {
                    return Err(format!("{name}: no cluster: give one, or --server").into());
                }
            };
            let selection = Selection {
                nodes: check.nodes.clone(),
                workers: check.workers,
            };
            let subject = Subject {
                job: &job,
                cluster: &cluster,
                selection: &selection,
                calibration: &calibration,
                confidence: args.confidence,
            };
            done.push(Done {
                name,
                file: file
                    .clone()
                    .unwrap_or_else(|| job_path.display().to_string()),
                verdict: check.bounds.check(&subject).map_err(|e| e.to_string()),
            });
        }
    }
    output::print(&report::of(&done, args.output)?)?;
    // A check that cannot be made is bad input, not a job that falls short.
    let broken: Vec<String> = done
        .iter()
        .filter_map(|d| Some(format!("{}: {}", d.name, d.verdict.as_ref().err()?)))
        .collect();
    if !broken.is_empty() {
        return Err(broken.join("\n").into());
    }
    Ok(done.iter().all(Done::holds))
}

impl Done {
    pub(super) fn holds(&self) -> bool {
        self.verdict.as_ref().is_ok_and(Verdict::holds)
    }
}

/// The checks, the folder that their paths are relative to, and their file.
fn read_checks(args: &CheckArgs) -> Result<(Vec<Check>, PathBuf, Option<String>), Failure> {
    if let Some(path) = &args.policy {
        let name = path.display().to_string();
        let text = files::read_small(path)?;
        let checks = PolicyFile {
            name: &name,
            text: &text,
        }
        .read()?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        return Ok((checks, folder, Some(name)));
    }
    let Some(job) = &args.job else {
        return Err("give a policy, or --job with --cluster and what is asked of it".into());
    };
    let longest = match &args.max_step_time {
        Some(text) => Some(
            parse_quantity(text, Unit::Seconds)
                .filter(|s| *s > 0.0)
                .map(Seconds::new)
                .ok_or_else(|| {
                    format!(
                        "--max-step-time: found `{text}`, expected {}",
                        Unit::Seconds.expected()
                    )
                })?,
        ),
        None => None,
    };
    let bounds = Bounds {
        min_speedup: args.min_speedup,
        min_scaling_factor: args.min_scaling_factor,
        max_step_time: longest,
        min_throughput: args.min_throughput,
    };
    for (flag, value) in [
        ("--min-speedup", args.min_speedup),
        ("--min-scaling-factor", args.min_scaling_factor),
        ("--min-throughput", args.min_throughput),
    ] {
        if let Some(value) = value.filter(|v| !(v.is_finite() && *v > 0.0)) {
            return Err(format!("{flag}: found {value}, expected a number above zero").into());
        }
    }
    if bounds.is_empty() {
        return Err("nothing is asked of the job: give --min-speedup, --min-scaling-factor, --max-step-time or --min-throughput".into());
    }
    let check = Check {
        name: None,
        job: job.display().to_string(),
        cluster: args.cluster.as_ref().map(|c| c.display().to_string()),
        workers: args.workers,
        nodes: args.nodes.clone(),
        bounds,
    };
    Ok((vec![check], PathBuf::new(), None))
}

type Meant = (String, PathBuf, Option<PathBuf>);

/// Every job on every cluster that a check means, each with a name.
fn meant(check: &Check, folder: &Path, live: bool) -> Result<Vec<Meant>, Failure> {
    let jobs = files::matching(&folder.join(&check.job))?;
    let clusters: Vec<Option<PathBuf>> = match &check.cluster {
        Some(_) if live => vec![None],
        Some(cluster) => {
            let found = files::matching(&folder.join(cluster))?;
            found.into_iter().map(Some).collect()
        }
        None => vec![None],
    };
    let several = jobs.len() * clusters.len() > 1;
    let stem = |path: &Path| {
        path.file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let mut all = Vec::with_capacity(jobs.len() * clusters.len());
    for job in &jobs {
        for cluster in &clusters {
            let of = match cluster {
                Some(cluster) => format!("{} on {}", stem(job), stem(cluster)),
                None => stem(job),
            };
            let name = match &check.name {
                Some(name) if several => format!("{name}: {of}"),
                Some(name) => name.clone(),
                None => of,
            };
            all.push((name, job.clone(), cluster.clone()));
        }
    }
    Ok(all)
}
