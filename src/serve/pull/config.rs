//! The file that says where step times are to be found.

use super::template::Template;
use crate::input::{Field, Object, Problems, Reader, Tree, parse};
use crate::units::Unit;
use regex::Regex;
use std::time::Duration;

/// The file's text and where it came from.
pub(crate) struct PullFile<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

/// One source of step times.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(super) kind: Kind,
    pub(super) every: Duration,
    /// The job's name.
    pub(super) id: Template,
    /// The job, as a job file; absent for jobs that report themselves.
    pub(super) job: Option<Template>,
    /// Names of its nodes, with commas between.
    pub(super) nodes: Option<Template>,
}

impl Source {
    /// What it is called in messages.
    pub(super) fn name(&self) -> &str {
        match &self.kind {
            Kind::Prometheus(query) => &query.url,
            Kind::Log(lines) => &lines.path,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Prometheus(Query),
    Log(Lines),
}

/// A query over a range.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) url: String,
    pub(super) expression: String,
    /// Time between two samples, in seconds.
    pub(super) step: u64,
    /// How much of the past is fetched at the start, in seconds.
    pub(super) back: u64,
    /// What a value is in seconds.
    pub(super) scale: f64,
    /// A file with a bearer token.
    pub(super) token_file: Option<String>,
}

/// Lines of files.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    /// A file, or several with `*` in the name.
    pub(super) path: String,
    pub(super) pattern: Regex,
    /// What a number is in seconds.
    pub(super) scale: f64,
}

/// Patterns of frameworks, by name: the pattern, and what a number is in
/// seconds.
const PRESETS: [(&str, &str, f64); 4] = [
    ("nemo", r"train_step_timing in s: (?P<time>[0-9.]+)", 1.0),
    (
        "megatron",
        r"elapsed time per iteration \(ms\): (?P<time>[0-9.]+)",
        1e-3,
    ),
    ("deepspeed", r"iter time \(s\): (?P<time>[0-9.]+)", 1.0),
    ("seconds", r"step_time[=: ]+(?P<time>[0-9.]+)", 1.0),
];

const SOURCE: &[&str] = &["prometheus", "log", "every", "id", "job", "nodes"];
const QUERY: &[&str] = &["url", "query", "step", "back", "unit", "token_file"];
const LINES: &[&str] = &["path", "preset", "pattern", "unit"];

/// How often a source is looked at unless it says so.
const EVERY: f64 = 15.0;

impl PullFile<'_> {
    /// The sources, or everything that is wrong with the file.
    pub(crate) fn read(&self) -> Result<Vec<Source>, Problems> {
        let tree: Tree = parse(self.text).map_err(|error| {
            Problems::whole_file(self.name, error, "a list of sources".into(), None)
        })?;
        let reader = Reader::new(self.name);
        let root = reader.root(&tree);
        let sources = root.object("sources of step times", &["sources"]);
        let sources = sources.and_then(|object| {
            let list = object.require("sources", "a list of sources")?;
            let read: Vec<Option<Source>> = list.items("sources").iter().map(source).collect();
            read.into_iter().collect()
        });
        reader.finish(sources)
    }
}

fn source(field: &Field<'_>) -> Option<Source> {
    let object = field.object("a source", SOURCE)?;
    let kind = match (object.get("prometheus"), object.get("log")) {
        (Some(query), None) => query_of(&query).map(Kind::Prometheus),
        (None, Some(lines)) => lines_of(&lines).map(Kind::Log),
        _ => {
            field.problem("exactly one of `prometheus` and `log`", None);
            None
        }
    };
    let every = seconds(&object, "every", EVERY)?;
    let id = object.require("id", "a name for the job, such as `${job}`")?;
    let id = id.text("a name for the job");
    let text = |key: &'static str, what: &str| -> Option<Option<Template>> {
        object.get(key).map_or(Some(None), |f| {
            Some(Some(Template(f.text(what)?.to_owned())))
        })
    };
    Some(Source {
        kind: kind?,
        every: Duration::from_secs_f64(every),
        id: Template(id?.to_owned()),
        job: text("job", "a job file as text")?,
        nodes: text("nodes", "names with commas between")?,
    })
}

fn seconds(object: &Object<'_>, key: &'static str, otherwise: f64) -> Option<f64> {
    match object.get(key) {
        Some(field) => field.positive(Unit::Seconds),
        None => Some(otherwise),
    }
}

/// What a number is in seconds.
fn scale(object: &Object<'_>, otherwise: f64) -> Option<f64> {
    match object.get("unit") {
        Some(field) => field.choice(&[("s", 1.0), ("ms", 1e-3), ("us", 1e-6)]),
        None => Some(otherwise),
    }
}

fn query_of(field: &Field<'_>) -> Option<Query> {
    let object = field.object("a query", QUERY)?;
    let url = object.require("url", "where Prometheus is, such as http://prometheus:9090")?;
    let query = object.require(
        "query",
        "an expression (PromQL) whose values are step times",
    )?;
    let text = url.text("an address")?;
    if !(text.starts_with("http://") || text.starts_with("https://")) {
        url.problem("an address that begins with http:// or https://", None);
        return None;
    }
    let token = match object.get("token_file") {
        Some(field) => Some(field.text("a file")?.to_owned()),
        None => None,
    };
    Some(Query {
        url: text.trim_end_matches('/').to_owned(),
        expression: query.text("an expression")?.to_owned(),
        step: (seconds(&object, "step", EVERY)? as u64).max(1),
        back: seconds(&object, "back", 300.0)? as u64,
        scale: scale(&object, 1.0)?,
        token_file: token,
    })
}

fn lines_of(field: &Field<'_>) -> Option<Lines> {
    let object = field.object("log lines", LINES)?;
    let path = object.require("path", "a file, or several with * in the name")?;
    let path = path.text("a path")?.to_owned();
    let (pattern, own_scale) = match (object.get("preset"), object.get("pattern")) {
        (Some(preset), None) => {
            let choices: Vec<(&str, (&str, f64))> = PRESETS
                .iter()
                .map(|(name, p, s)| (*name, (*p, *s)))
                .collect();
            let (pattern, scale) = preset.choice(&choices)?;
            (Regex::new(pattern).ok()?, scale)
        }
        (None, Some(pattern)) => {
            let text = pattern.text("a pattern")?;
            match Regex::new(text) {
                Ok(regex) if regex.capture_names().flatten().any(|n| n == "time") => (regex, 1.0),
                Ok(_) => {
                    let hint = r"such as step took (?P<time>[0-9.]+) s".to_owned();
                    pattern.problem("a pattern with a group named `time`", Some(hint));
                    return None;
                }
                Err(error) => {
                    pattern.problem(format!("a regular expression: {error}"), None);
                    return None;
                }
            }
        }
        _ => {
            field.problem("exactly one of `preset` and `pattern`", None);
            return None;
        }
    };
    Some(Lines {
        path,
        pattern,
        scale: scale(&object, own_scale)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Source>, Problems> {
        PullFile {
            name: "observe.yaml",
            text,
        }
        .read()
    }

    #[test]
    fn sources_of_both_kinds_are_read() {
        let sources = read(
            "sources:\n- prometheus: {url: 'http://p:9090/', query: train_step_seconds, step: 5s}\n  every: 10s\n  id: ${job}\n- log: {path: '/logs/*.log', preset: megatron}\n  id: ${file}\n  nodes: a, b\n  job: '{workload: resnet50, batch_size: 8}'\n",
        )
        .expect("sources");
        assert_eq!(sources.len(), 2);
        assert!(
            matches!(&sources[0].kind, Kind::Prometheus(q) if q.url == "http://p:9090" && q.step == 5)
        );
        assert!(matches!(&sources[1].kind, Kind::Log(l) if l.scale == 1e-3));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, wanted) in [
            ("sources: [{id: a}]", "sources[0]"),
            (
                "sources: [{log: {path: x, pattern: '('}, id: a}]",
                "sources[0].log.pattern",
            ),
            (
                "sources: [{log: {path: x, pattern: 'a'}, id: a}]",
                "named `time`",
            ),
            (
                "sources: [{prometheus: {url: p, query: q}, id: a}]",
                "sources[0].prometheus.url",
            ),
            (
                "sources: [{prometheus: {url: 'http://p', query: q}, idd: a}]",
                "idd",
            ),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn presets_find_the_time_in_lines_of_their_framework() {
        let lines = [
            (
                "nemo",
                "Epoch 0: 12%| train_step_timing in s: 2.505, loss",
                2.505,
            ),
            (
                "megatron",
                " iteration 10/ 500 | elapsed time per iteration (ms): 1234.5 | learning rate",
                1.2345,
            ),
            (
                "deepspeed",
                "steps: 10 loss: 2.3 iter time (s): 0.512 samples/sec: 62.5",
                0.512,
            ),
            ("seconds", "step_time=0.25", 0.25),
        ];
        for (name, line, seconds) in lines {
            let (_, pattern, scale) = PRESETS.iter().find(|p| p.0 == name).expect("a preset");
            let found = Regex::new(pattern).expect("a pattern");
            let found = found.captures(line).expect("a match");
            let value: f64 = found["time"].parse().expect("a number");
            assert!((value * scale - seconds).abs() < 1e-12, "{name}");
        }
    }
}
