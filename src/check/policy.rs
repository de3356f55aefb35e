//! Policies: many checks in one file.

use super::Bounds;
use crate::input::{Field, Problems, Reader, Tree, parse};
use crate::units::{Seconds, Unit};

/// A policy's text and where it came from.
#[derive(Clone, Copy, Debug)]
pub struct PolicyFile<'a> {
    /// The name in error messages.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
}

/// One check of a policy. Paths are as they stand in it; they may hold `*`.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What it is called.
    pub name: Option<String>,
    /// The job's file.
    pub job: String,
    /// The cluster's file; absent where it is live.
    pub cluster: Option<String>,
    /// How many workers; all where absent.
    pub workers: Option<usize>,
    /// Which nodes; all where absent.
    pub nodes: Option<Vec<String>>,
    /// What is asked.
    pub bounds: Bounds,
}

const KEYS: &[&str] = &[
    "name",
    "job",
    "cluster",
    "workers",
    "nodes",
    "min_speedup",
    "min_scaling_factor",
    "max_step_time",
    "min_throughput",
];

impl PolicyFile<'_> {
    /// The checks, or everything that is wrong with the file.
    pub fn read(&self) -> Result<Vec<Check>, Problems> {
        let whole = |found: String| {
            let hint = "checks: [{job: job.yaml, cluster: cluster.yaml, min_speedup: 6}]";
            Problems::whole_file(self.name, found, "a policy".into(), Some(hint.into()))
        };
        if self.text.trim().is_empty() {
            return Err(whole("an empty file".into()));
        }
        let tree: Tree = parse(self.text).map_err(whole)?;
        let reader = Reader::new(self.name);
        let root = reader.root(&tree);
        let checks = root.object("a policy", &["checks"]).and_then(|object| {
            let list = object.require("checks", "a list of checks")?;
            let items = list.items("checks");
            if items.is_empty() {
                list.problem("at least one check", None);
            }
            let read: Vec<Option<Check>> = items.iter().map(check).collect();
            read.into_iter().collect()
        });
        reader.finish(checks)
    }
}

fn check(field: &Field<'_>) -> Option<Check> {
    let object = field.object("a check", KEYS)?;
    let text = |key: &'static str, what: &str| match object.get(key) {
        Some(field) => field.text(what).map(|text| Some(text.to_owned())),
        None => Some(None),
    };
    let number = |key: &'static str| match object.get(key) {
        Some(field) => field.positive(Unit::None).map(Some),
        None => Some(None),
    };
    let job = object.require("job", "the path of a job file")?;
    let job = job.text("a path")?.to_owned();
    let workers = match object.get("workers") {
        Some(field) => Some(field.small_count(1, "workers")? as usize),
        None => None,
    };
    let nodes = match object.get("nodes") {
        Some(field) => {
            let names = field.items("names of nodes");
            let read: Vec<Option<String>> = names
                .iter()
                .map(|n| n.text("a name").map(str::to_owned))
                .collect();
            Some(read.into_iter().collect::<Option<Vec<String>>>()?)
        }
        None => None,
    };
    let longest = match object.get("max_step_time") {
        Some(field) => Some(Seconds::new(field.positive(Unit::Seconds)?)),
        None => None,
    };
    let bounds = Bounds {
        min_speedup: number("min_speedup")?,
        min_scaling_factor: number("min_scaling_factor")?,
        max_step_time: longest,
        min_throughput: number("min_throughput")?,
    };
    if bounds.is_empty() {
        let hint = "min_speedup, min_scaling_factor, max_step_time or min_throughput";
        field.problem("something that is asked of the job", Some(hint.to_owned()));
        return None;
    }
    Some(Check {
        name: text("name", "a name")?,
        job,
        cluster: text("cluster", "a path")?,
        workers,
        nodes,
        bounds,
    })
}
