//! From a request to a question: the job, its nodes, and every field that is
//! wrong.

use super::convert::{PROFILE, job_tree, nodes_tree};
use super::state::State;
use super::status::{bad_fields, over_limit, violations, with_reason};
use crate::cluster::{Cluster, ClusterFile, Selector};
use crate::input::near;
use crate::job::{Job, JobFile};
use crate::model::{ModelName, PredictError};
use crate::placement::PlacementError;
use crate::plan::PlanError;
use crate::protocol::v1;
use crate::serving::Asked;
use crate::snapshot::Snapshot;
use prost::Message;
use std::sync::Arc;
use tonic::{Code, Status};

/// What is wrong with a request, field by field.
#[derive(Default)]
pub(super) struct Wrong(Vec<(String, String)>);

impl Wrong {
    pub(super) fn add(&mut self, field: impl Into<String>, why: impl Into<String>) {
        self.0.push((field.into(), why.into()));
    }

    /// The value, if nothing is wrong.
    pub(super) fn or<T>(self, value: Option<T>) -> Result<T, Status> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            None if self.0.is_empty() => Err(Status::internal("nothing is wrong, yet no value")),
            _ => Err(bad_fields(self.0)),
        }
    }
}

/// The job that a request asks about. One that was asked about before costs
/// a look-up.
pub(super) fn asked(
    state: &State,
    snapshot: &Snapshot,
    job: Option<&v1::Job>,
    model: &str,
    wrong: &mut Wrong,
) -> Result<Option<Arc<Asked>>, Status> {
    let Some(message) = job else {
        wrong.add("job", "missing: there is nothing to answer without a job");
        return Ok(None);
    };
    let mut key = Vec::with_capacity(message.encoded_len() + model.len() + 1);
    key.extend_from_slice(model.as_bytes());
    key.push(0);
    if message.encode(&mut key).is_err() {
        return Err(Status::internal("the job cannot be encoded"));
    }
    let events = state.limits.simulation_events;
    let made = snapshot.answers.asked(&key, events, || {
        check_layers(state, message)?;
        let model = read_model(model, wrong);
        let job = read_job(message, wrong);
        let layers = job.as_ref().map_or(0, |j| j.workload.layers.len());
        within_layers(state, layers)?;
        Ok::<_, Failed>((job.ok_or(Failed::Fields)?, model.ok_or(Failed::Fields)?))
    });
    match made {
        Ok(asked) => Ok(Some(asked)),
        Err(Failed::Fields) => Ok(None),
        Err(Failed::Status(status)) => Err(*status),
    }
}

enum Failed {
    Fields,
    Status(Box<Status>),
}

impl From<Status> for Failed {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

fn check_layers(state: &State, job: &v1::Job) -> Result<(), Status> {
    match job.workload.as_ref().and_then(|w| w.description.as_ref()) {
        Some(v1::workload::Description::Layers(l)) => within_layers(state, l.layers.len()),
        _ => Ok(()),
    }
}

fn within_layers(state: &State, layers: usize) -> Result<(), Status> {
    let limit = state.limits.layers;
    if layers > limit {
        return Err(over_limit(
            "TOO_MANY_LAYERS",
            "layers",
            layers,
            limit,
            "--max-layers",
        ));
    }
    Ok(())
}

/// The model of a name, or the strategy's own for an empty one.
#[allow(clippy::option_option, reason = "none and unreadable differ")]
pub(super) fn read_model(name: &str, wrong: &mut Wrong) -> Option<Option<ModelName>> {
    if name.is_empty() {
        return Some(None);
    }
    let found = ModelName::ALL.iter().find(|m| m.as_str() == name);
    if found.is_none() {
        let names: Vec<&str> = ModelName::ALL.iter().map(|m| m.as_str()).collect();
        wrong.add(
            "model",
            format!("no model `{name}`; there are {}", names.join(", ")),
        );
    }
    found.map(|m| Some(*m))
}

/// The job that a message stands for.
pub(super) fn job_of(message: &v1::Job) -> Result<Job, Status> {
    let mut wrong = Wrong::default();
    let job = read_job(message, &mut wrong);
    wrong.or(job)
}

fn read_job(message: &v1::Job, wrong: &mut Wrong) -> Option<Job> {
    let profile = match message
        .workload
        .as_ref()
        .and_then(|w| w.description.as_ref())
    {
        Some(v1::workload::Description::Profile(text)) => Some(text),
        _ => None,
    };
    let whole = !message.file.is_empty();
    let file = JobFile {
        name: "job",
        text: &message.file,
        resolve: &|path| match profile {
            Some(text) if !whole && path == PROFILE => Ok(text.clone()),
            _ => Err("a job in a request refers to no files; send the text itself".into()),
        },
    };
    let bare = v1::Job {
        file: message.file.clone(),
        ..v1::Job::default()
    };
    if whole && *message != bare {
        wrong.add(
            "job.file",
            "give either the file or the other fields, not both",
        );
        return None;
    }
    let (read, prefix) = if whole {
        (file.read(), "job.file")
    } else {
        (file.read_tree(&job_tree(message)), "job")
    };
    read.inspect_err(|problems| wrong.0.extend(violations(prefix, problems)))
        .ok()
}

/// Workers that a caller may bring for each node of the limit.
const WORKERS_A_NODE: u64 = 8;

/// Nodes that a request is about.
pub(super) enum Nodes {
    /// Of the inventory, by index.
    Known(Vec<u32>),
    /// The caller's own.
    Own(Box<Cluster>),
}

/// Finds the nodes of a set; `key` names the field.
pub(super) fn nodes(
    state: &State,
    snapshot: &Snapshot,
    set: Option<&v1::NodeSet>,
    key: &str,
    wrong: &mut Wrong,
) -> Result<Option<Nodes>, Status> {
    let empty = v1::NodeSet::default();
    let set = set.unwrap_or(&empty);
    let limit = state.limits.nodes;
    let many = set.names.len().max(set.nodes.len());
    if many > limit {
        return Err(over_limit(
            "TOO_MANY_NODES",
            "nodes",
            many,
            limit,
            "--max-nodes",
        ));
    }
    let ways = [
        !set.names.is_empty(),
        !set.label_selector.is_empty(),
        !set.nodes.is_empty(),
    ];
    if ways.iter().filter(|w| **w).count() > 1 {
        wrong.add(
            key,
            "give `names`, a `label_selector` or `nodes` of your own, not several",
        );
        return Ok(None);
    }
    if !set.nodes.is_empty() {
        let file = ClusterFile {
            name: "nodes",
            text: "",
        };
        let workers = set
            .nodes
            .iter()
            .map(|n| u64::from(n.accelerator_count.max(1)));
        let (workers, most) = (workers.sum::<u64>(), limit as u64 * WORKERS_A_NODE);
        if workers > most {
            let (found, limit) = (workers as usize, most as usize);
            return Err(over_limit(
                "TOO_MANY_WORKERS",
                "workers",
                found,
                limit,
                "--max-nodes",
            ));
        }
        let read = file.read_tree(&nodes_tree(&set.nodes), &state.defaults);
        return Ok(read
            .inspect_err(|problems| wrong.0.extend(violations(key, problems)))
            .ok()
            .map(|mut cluster| {
                cluster.links = state.links;
                Nodes::Own(Box::new(cluster))
            }));
    }
    if !state.is_synced() {
        let why = "the inventory has not been read in full yet; try again";
        return Err(with_reason(Code::Unavailable, "NOT_SYNCED", why));
    }
    if !set.names.is_empty() {
        let mut found = Vec::with_capacity(set.names.len());
        let complete = find_all(snapshot, &set.names, &mut found, &mut |i, why| {
            wrong.add(format!("{key}.names[{i}]"), why);
        });
        return Ok(complete.then_some(Nodes::Known(found)));
    }
    let cluster = &snapshot.cluster;
    let selector: Selector = match set.label_selector.parse() {
        Ok(selector) => selector,
        Err(why) => {
            wrong.add(format!("{key}.label_selector"), why);
            return Ok(None);
        }
    };
    let chosen = |i: &u32| {
        let node = &cluster.nodes[*i as usize];
        node.unusable.is_none() && node.workers() > 0 && selector.matches(node)
    };
    let found: Vec<u32> = (0..cluster.nodes.len() as u32).filter(chosen).collect();
    if found.is_empty() {
        let why = if cluster.nodes.is_empty() {
            "the inventory has no nodes yet"
        } else {
            "no usable node of the inventory is meant"
        };
        return Err(with_reason(Code::FailedPrecondition, "NO_NODES", why));
    }
    if found.len() > limit {
        return Err(over_limit(
            "TOO_MANY_NODES",
            "nodes",
            found.len(),
            limit,
            "--max-nodes",
        ));
    }
    Ok(Some(Nodes::Known(found)))
}

/// Looks names up; `bad` hears of each that is unknown or named twice.
#[inline]
pub(super) fn find_all(
    snapshot: &Snapshot,
    names: &[String],
    found: &mut Vec<u32>,
    bad: &mut dyn FnMut(usize, String),
) -> bool {
    /// Unknown names that get a hint.
    const HINTS: usize = 3;
    found.clear();
    let (mut complete, mut unknown_names) = (true, 0);
    for (i, name) in names.iter().enumerate() {
        if let Some(index) = snapshot.find(name) {
            found.push(index);
            continue;
        }
        complete = false;
        unknown_names += 1;
        // Looking for near names takes time: a few show the way.
        if unknown_names <= HINTS {
            bad(i, unknown(snapshot, name));
        } else {
            bad(i, format!("no node named `{name}`"));
        }
    }
    // A few are compared with each other, many through a sorted copy.
    let twice = if found.len() <= 16 {
        (1..found.len()).find(|&i| found[..i].contains(&found[i]))
    } else {
        let mut sorted = found.clone();
        sorted.sort_unstable();
        let double = sorted.windows(2).find(|w| w[0] == w[1]).map(|w| w[0]);
        double.and_then(|d| found.iter().rposition(|&i| i == d))
    };
    if let Some(i) = twice.filter(|_| complete) {
        bad(i, format!("node `{}` is named twice", names[i]));
        return false;
    }
    complete
}

fn unknown(snapshot: &Snapshot, name: &str) -> String {
    /// Names that are compared for a hint.
    const COMPARED: usize = 2000;
    let known = snapshot.cluster.nodes.iter().take(COMPARED);
    let near = near(name, known.map(|n| n.name.as_str()));
    if near.is_empty() {
        format!("no node named `{name}`")
    } else {
        format!(
            "no node named `{name}`; did you mean {}?",
            near.join(" or ")
        )
    }
}

/// Why there is no prediction, as a status.
pub(super) fn no_prediction(error: &PredictError) -> Status {
    let (code, reason) = match error {
        PredictError::Placement(PlacementError::NothingComputes(_)) => {
            (Code::FailedPrecondition, "NOTHING_COMPUTES")
        }
        PredictError::Placement(PlacementError::TooMany { .. }) => {
            return bad_fields(vec![("nodes.workers".into(), error.to_string())]);
        }
        PredictError::Placement(PlacementError::EmptyBatch { .. }) => {
            return bad_fields(vec![("job.global_batch_size".into(), error.to_string())]);
        }
        PredictError::UnknownBaseline(_) => {
            return bad_fields(vec![("baseline".into(), error.to_string())]);
        }
        PredictError::WrongModel { .. } | PredictError::NoModel(_) => {
            return bad_fields(vec![("model".into(), error.to_string())]);
        }
        PredictError::Case(_) | PredictError::SingleOnly(_) | PredictError::Placement(_) => {
            return bad_fields(vec![("job".into(), error.to_string())]);
        }
        PredictError::Simulation(_) => (Code::ResourceExhausted, "SIMULATION_TOO_LONG"),
        PredictError::Sprint(_) => (Code::FailedPrecondition, "NOT_SETTLED"),
    };
    with_reason(code, reason, error.to_string())
}

/// Why there is no plan, as a status.
pub(super) fn no_plan(error: &PlanError) -> Status {
    match error {
        PlanError::Predict(error) => no_prediction(error),
        PlanError::OutOfReach { .. } | PlanError::NoPrice(_) | PlanError::NoMinibatch { .. } => {
            with_reason(Code::FailedPrecondition, "NO_SUCH_PLAN", error.to_string())
        }
        _ => bad_fields(vec![("job".into(), error.to_string())]),
    }
}

/// Simulations are asked for one at a time, where they hold up nobody.
pub(super) fn no_simulation(asked: &Asked, wrong: &mut Wrong) {
    if asked.model == Some(ModelName::Simulation) {
        wrong.add(
            "model",
            "`simulation` answers Predict; here a closed form is asked",
        );
    }
}
