//! Reads what the user names, within limits.

use super::args::Question;
use super::example;
use crate::calibration::Calibration;
use crate::cluster::{Cluster, ClusterFile, Defaults, MAX_CLUSTER_BYTES};
use crate::input::Problems;
use crate::job::{Job, JobFile, MAX_JOB_BYTES};
use crate::model::ModelName;
use crate::paths;
use crate::placement::Selection;
use crate::plan::Ask;
use crate::runs::Run;
use crate::serve::PullFile;
use crate::units::{BytesPerSecond, Unit, parse_quantity};
use regex::Regex;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Anything that stops a command, ready to print.
pub(super) type Failure = Box<dyn std::error::Error>;

/// A profile over this is refused unread.
const MAX_PROFILE_BYTES: u64 = 64 << 20;

/// A calibration over this is refused unread.
const MAX_CALIBRATION_BYTES: u64 = 16 << 20;

/// Everything a question refers to, read and checked.
pub(super) struct Asked {
    pub(super) job: Job,
    pub(super) cluster: Cluster,
    pub(super) selection: Selection,
    pub(super) calibration: Calibration,
    pub(super) baseline: Option<String>,
}

impl Asked {
    /// The same as a question to plan with.
    pub(super) fn ask(
        &self,
        model: Option<ModelName>,
        max_workers: Option<usize>,
    ) -> Result<Ask<'_>, Failure> {
        let max_workers = max_workers.or(self.selection.workers);
        if max_workers == Some(0) {
            return Err("0 workers asked for; a step needs at least 1".into());
        }
        Ok(Ask {
            job: &self.job,
            cluster: &self.cluster,
            calibration: &self.calibration,
            model,
            nodes: self.selection.nodes.as_deref(),
            max_workers,
            baseline: self.baseline.as_deref(),
        })
    }
}

impl Question {
    /// Reads the files; problems of all of them are reported together.
    pub(super) fn read(self) -> Result<Asked, Failure> {
        let Self {
            job,
            cluster,
            nodes,
            workers,
            baseline,
            calibration,
            default_nic,
            example,
        } = self;
        let defaults = defaults(&default_nic)?;
        let (job, cluster) = if example {
            (example::job(), example::cluster(&defaults))
        } else {
            let both_stdin = job.as_deref() == Some(Path::new("-"))
                && cluster.as_deref() == Some(Path::new("-"));
            if both_stdin {
                return Err("only one of --job and --cluster can be read from stdin".into());
            }
            let job = read_job(job.as_deref().unwrap_or(Path::new("-")));
            let cluster = read_cluster(cluster.as_deref().unwrap_or(Path::new("-")), &defaults);
            (job, cluster)
        };
        let (job, cluster) = match (job, cluster) {
            (Ok(job), Ok(cluster)) => (job, cluster),
            (Err(job), Err(cluster)) => return Err(job.and(cluster).into()),
            (Err(one), _) | (_, Err(one)) => return Err(one.into()),
        };
        let calibration = match calibration {
            Some(path) => read_calibration(&path)?,
            None => Calibration::shipped().clone(),
        };
        Ok(Asked {
            job,
            cluster,
            selection: Selection { nodes, workers },
            calibration,
            baseline,
        })
    }
}

/// What to assume of nodes that do not say.
pub(super) fn defaults(default_nic: &str) -> Result<Defaults, Failure> {
    let gbps =
        parse_quantity(default_nic, Unit::Gbps).filter(|g| Unit::Gbps.plausible().contains(g));
    let gbps = gbps.ok_or_else(|| {
        format!(
            "--default-nic: found `{default_nic}`, expected {}",
            Unit::Gbps.expected()
        )
    })?;
    Ok(Defaults {
        nic: BytesPerSecond::from_gbit(gbps),
    })
}

/// A cluster file of either form.
pub(super) fn read_cluster(path: &Path, defaults: &Defaults) -> Result<Cluster, Problems> {
    let name = path.display().to_string();
    let text = read_text(path, MAX_CLUSTER_BYTES)?;
    ClusterFile {
        name: &name,
        text: &text,
    }
    .read(defaults)
}

/// A job file.
pub(super) fn read_job(path: &Path) -> Result<Job, Problems> {
    let name = path.display().to_string();
    let text = read_text(path, MAX_JOB_BYTES)?;
    JobFile {
        name: &name,
        text: &text,
        resolve: &|reference| read_reference(path, reference),
    }
    .read()
}

/// A file that a job refers to, relative to the job.
fn read_reference(job: &Path, reference: &str) -> Result<String, String> {
    let path = job.parent().unwrap_or(Path::new("")).join(reference);
    let same = |a: &Path, b: &Path| matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if same(job, &path) {
        return Err("the job refers to itself; name a file with measured times".into());
    }
    read_text(&path, MAX_PROFILE_BYTES).map_err(|problems| problems.to_string())
}

pub(super) fn read_calibration(path: &Path) -> Result<Calibration, Failure> {
    let name = path.display().to_string();
    let text = read_text(path, MAX_CALIBRATION_BYTES)?;
    let calibration: Result<Calibration, String> = crate::input::parse(&text);
    let checked = calibration.and_then(|c| c.check().map(|()| c));
    Ok(
        checked
            .map_err(|found| Problems::whole_file(&name, found, "a calibration".into(), None))?,
    )
}

/// A list of sources of step times.
pub(super) fn read_sources(path: &Path) -> Result<Vec<crate::serve::PullSource>, Problems> {
    let name = path.display().to_string();
    let text = read_text(path, MAX_CALIBRATION_BYTES)?;
    PullFile {
        name: &name,
        text: &text,
    }
    .read()
}

/// Files of a path whose last part may hold `*`; at least one.
pub(super) fn matching(path: &Path) -> Result<Vec<PathBuf>, Problems> {
    let none = |found: String| {
        let shown = path.display().to_string();
        Problems::whole_file(&shown, found, "at least one file".into(), None)
    };
    let found = paths::matching(path).map_err(|error| none(error.to_string()))?;
    if found.is_empty() {
        return Err(none("none".into()));
    }
    Ok(found)
}

/// A file of no great size.
pub(super) fn read_small(path: &Path) -> Result<String, Problems> {
    read_text(path, MAX_CALIBRATION_BYTES)
}

/// Measured runs over this are refused unread.
const MAX_RUNS_BYTES: u64 = 256 << 20;

/// Measured runs of all files whose group matches `group`; every bad line is
/// reported.
pub(super) fn read_runs(paths: &[PathBuf], group: Option<&str>) -> Result<Vec<Run>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        let name = path.display().to_string();
        let text = read_text(path, MAX_RUNS_BYTES)?;
        all.extend(crate::runs::read(&name, &text)?);
    }
    if let Some(wanted) = group {
        let pattern = Regex::new(wanted).map_err(|error| format!("--group: {error}"))?;
        let mut groups: Vec<String> = all.iter().map(|run| run.group.clone()).collect();
        all.retain(|run| pattern.is_match(&run.group));
        if all.is_empty() {
            groups.sort_unstable();
            groups.dedup();
            let there = groups.join(", ");
            return Err(format!("no group matches `{wanted}`; there are: {there}").into());
        }
    }
    Ok(all)
}

/// The text of a file, or of stdin for `-`, up to a limit.
fn read_text(path: &Path, limit: u64) -> Result<String, Problems> {
    let name = path.display().to_string();
    let whole = |found: String, hint: Option<String>| {
        Problems::whole_file(&name, found, "a readable file".into(), hint)
    };
    let mut text = String::new();
    let read = if path == Path::new("-") {
        io::stdin().lock().take(limit + 1).read_to_string(&mut text)
    } else {
        File::open(path).and_then(|file| {
            if file.metadata()?.is_dir() {
                return Err(io::Error::new(
                    io::ErrorKind::IsADirectory,
                    "it is a directory",
                ));
            }
            file.take(limit + 1).read_to_string(&mut text)
        })
    };
    read.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => whole("no such file".into(), None),
        io::ErrorKind::InvalidData => whole("bytes that are not UTF-8".into(), None),
        _ => whole(error.to_string(), None),
    })?;
    if text.len() as u64 > limit {
        let hint = format!("files of this kind have at most {} MiB", limit >> 20);
        return Err(whole(format!("more than {limit} bytes"), Some(hint)));
    }
    Ok(text)
}
