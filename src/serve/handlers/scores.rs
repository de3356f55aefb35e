//! Many sets of one job, in brief: what batches and streams are made of.

use super::super::ask::{Nodes, Wrong, asked, find_all, no_simulation, nodes};
use super::super::reply;
use super::super::state::State;
use super::super::status::{over_limit, too_late};
use super::predictor::{too_late_at, workers};
use crate::model::{Query, predict};
use crate::placement::Selection;
use crate::protocol::v1;
use crate::serving::Asked;
use crate::snapshot::Snapshot;
use std::sync::Arc;
use std::time::Instant;
use tonic::Status;

/// Sets after which a batch looks at the clock.
const PATIENCE: usize = 256;

/// The job to score sets for, by a model that holds up nobody.
pub(super) fn closed_form(
    state: &State,
    snapshot: &Snapshot,
    job: Option<&v1::Job>,
    model: &str,
) -> Result<Arc<Asked>, Status> {
    let mut wrong = Wrong::default();
    let asked = asked(state, snapshot, job, model, &mut wrong)?;
    if let Some(asked) = &asked {
        no_simulation(asked, &mut wrong);
    }
    wrong.or(asked)
}

/// One stream's job, from message to message.
pub(super) struct StreamAsker {
    pub(super) state: Arc<State>,
    pub(super) job: Option<(v1::Job, String)>,
    pub(super) until: Option<Instant>,
}

impl StreamAsker {
    pub(super) fn answer(
        &mut self,
        message: &v1::PredictStreamRequest,
    ) -> Result<v1::PredictStreamResponse, Status> {
        let snapshot = self.state.snapshot();
        if let Some(job) = &message.job {
            self.job = Some((job.clone(), message.model.clone()));
        }
        let (job, model) = match &self.job {
            Some((job, model)) => (Some(job), model.as_str()),
            None => (None, ""),
        };
        let asked = closed_form(&self.state, &snapshot, job, model)?;
        Ok(v1::PredictStreamResponse {
            id: message.id,
            scores: scores(&self.state, &snapshot, &asked, &message.sets, self.until)?,
        })
    }
}

/// Scores of sets; one without an answer says why.
pub(super) fn scores(
    state: &State,
    snapshot: &Snapshot,
    asked: &Asked,
    sets: &[v1::NodeSet],
    until: Option<Instant>,
) -> Result<Vec<v1::Score>, Status> {
    let limit = state.limits.sets;
    if sets.len() > limit {
        return Err(over_limit(
            "TOO_MANY_SETS",
            "sets",
            sets.len(),
            limit,
            "--max-sets",
        ));
    }
    let mut scores = Vec::with_capacity(sets.len());
    let (mut found, mut key) = (Vec::new(), Vec::new());
    for (i, set) in sets.iter().enumerate() {
        if (i % PATIENCE == 0 || !set.nodes.is_empty()) && too_late_at(until) {
            return Err(too_late());
        }
        scores.push(score(state, snapshot, asked, set, &mut found, &mut key));
    }
    Ok(scores)
}

#[inline]
fn score(
    state: &State,
    snapshot: &Snapshot,
    asked: &Asked,
    set: &v1::NodeSet,
    found: &mut Vec<u32>,
    key: &mut Vec<u32>,
) -> v1::Score {
    let named = !set.names.is_empty() && set.label_selector.is_empty() && set.nodes.is_empty();
    let workers = workers(Some(set));
    if named && set.names.len() <= state.limits.nodes {
        let mut why = None;
        if !find_all(snapshot, &set.names, found, &mut |_, text| why = Some(text)) {
            return reply::no_score(why.unwrap_or_default());
        }
        return match asked.answer(snapshot, found, workers, key) {
            Ok(known) => reply::score(known.prediction()),
            Err(error) => reply::no_score(error.to_string()),
        };
    }
    let mut wrong = Wrong::default();
    let nodes = match nodes(state, snapshot, Some(set), "nodes", &mut wrong) {
        Ok(nodes) => nodes,
        Err(status) => return reply::no_score(status.message().to_owned()),
    };
    match wrong.or(nodes) {
        Err(status) => reply::no_score(status.message().to_owned()),
        Ok(Nodes::Known(nodes)) => match asked.answer(snapshot, &nodes, workers, key) {
            Ok(known) => reply::score(known.prediction()),
            Err(error) => reply::no_score(error.to_string()),
        },
        Ok(Nodes::Own(cluster)) => {
            let query = Query {
                job: &asked.job,
                cluster: &cluster,
                selection: &Selection {
                    nodes: None,
                    workers,
                },
                model: asked.model,
                baseline: None,
                calibration: &snapshot.calibration,
                simulation_events: Some(state.limits.simulation_events),
            };
            match predict(&query) {
                Ok(prediction) => reply::score(&prediction),
                Err(error) => reply::no_score(error.to_string()),
            }
        }
    }
}
