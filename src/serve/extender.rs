//! The HTTP extender of the stock kube-scheduler: `/filter` and
//! `/prioritize`. Whatever goes wrong, the pod passes on as it came.

mod wire;

use super::state::State;
use crate::gang::{Candidates, Member, Placing, throughputs};
use crate::job::JobFile;
use crate::snapshot::Snapshot;
use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::routing::post;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use wire::Request;

/// The most that one node scores.
const BEST: f64 = 10.0;
/// Bytes of a request: thousands of whole nodes.
const MOST_BYTES: usize = 256 << 20;

/// The pages.
pub(crate) fn pages(state: Arc<State>) -> Router {
    let filtering = Arc::clone(&state);
    Router::new()
        .route(
            "/filter",
            post(move |body: Bytes| answer(filtering, "filter", body, filter)),
        )
        .route(
            "/prioritize",
            post(move |body: Bytes| answer(state, "prioritize", body, prioritize)),
        )
        .layer(DefaultBodyLimit::max(MOST_BYTES))
}

/// What became of a request.
enum Outcome {
    /// Nodes were told apart.
    Scored(String),
    /// The pod is none of ours, or nothing tells the nodes apart.
    Passed(String),
    /// Something was wrong; the pod passes on.
    Failed(String, String),
}

async fn answer(
    state: Arc<State>,
    verb: &'static str,
    body: Bytes,
    work: fn(&State, &Request) -> Outcome,
) -> ([(&'static str, &'static str); 1], String) {
    let done = tokio::task::spawn_blocking(move || {
        let start = Instant::now();
        let request = Request::read(&body);
        let outcome = match &request {
            Ok(request) => {
                let worked = catch_unwind(AssertUnwindSafe(|| work(&state, request)));
                worked.unwrap_or_else(|_| {
                    Outcome::Failed(request.pass(verb), "a panic, see the log".into())
                })
            }
            Err(error) => Outcome::Failed(Request::pass_nothing(verb), error.clone()),
        };
        let (text, word) = match outcome {
            Outcome::Scored(text) => (text, "scored"),
            Outcome::Passed(text) => (text, "passed"),
            Outcome::Failed(text, why) => {
                tracing::warn!(verb, why, "the extender passes a pod on unscored");
                (text, "failed")
            }
        };
        let seconds = start.elapsed().as_secs_f64();
        state.metrics.extended(verb, word, seconds);
        text
    });
    let text = done.await.unwrap_or_else(|_| Request::pass_nothing(verb));
    ([("content-type", "application/json")], text)
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| d.as_secs())
}

/// A pod of ours among nodes that are known.
struct Scored {
    member: Member,
    /// For each node of the request: what it leads to, where it is known.
    placings: Vec<Option<Placing>>,
}

fn score(state: &State, request: &Request) -> Result<Option<Scored>, String> {
    let Some(member) = Member::read(&request.pod)? else {
        return Ok(None);
    };
    let file = JobFile {
        name: "the pod's job",
        text: &member.job,
        resolve: &|_| Err("a pod's job refers to no files".into()),
    };
    let job = file.read().map_err(|problems| problems.to_string())?;
    let snapshot: Arc<Snapshot> = state.snapshot();
    let known: Vec<Option<u32>> = request.names.iter().map(|n| snapshot.find(n)).collect();
    let computes = |i: &u32| snapshot.cluster.nodes[*i as usize].workers() > 0;
    let nodes: Vec<u32> = known.iter().flatten().copied().filter(computes).collect();
    if nodes.is_empty() {
        return Err("none of the nodes is known here".into());
    }
    let (gang, pod, at) = (&member.gang, &member.pod, now());
    let (siblings, placed) = state.gangs(|gangs| {
        let siblings = gangs.siblings(gang, pod, at);
        (siblings, gangs.placed(gang, pod, at))
    });
    let siblings: Vec<(u32, u32)> = siblings
        .iter()
        .filter_map(|(node, workers)| Some((snapshot.find(node)?, *workers)))
        .collect();
    let size = member.size.unwrap_or(0);
    let ask = Candidates {
        job: &job,
        cluster: &snapshot.cluster,
        kinds: &snapshot.kinds,
        servers: &snapshot.servers,
        calibration: &snapshot.calibration,
        siblings: &siblings,
        nodes: &nodes,
        workers: member.workers,
        to_come: size.saturating_sub(placed + 1),
    };
    let found = throughputs(&ask).map_err(|error| error.to_string())?;
    let of = |node: u32| nodes.iter().position(|n| *n == node).map(|i| found[i]);
    let placings = known.iter().map(|node| node.and_then(of)).collect();
    Ok(Some(Scored { member, placings }))
}

/// Nodes on which the gang can reach its target; all, where none can.
fn filter(state: &State, request: &Request) -> Outcome {
    let scored = match score(state, request) {
        Ok(Some(scored)) => scored,
        Ok(None) => return Outcome::Passed(request.pass("filter")),
        Err(why) => return Outcome::Failed(request.pass("filter"), why),
    };
    let Some(target) = scored.member.target_speedup else {
        return Outcome::Passed(request.pass("filter"));
    };
    let short: Vec<Option<f64>> = scored
        .placings
        .iter()
        .map(|p| p.map(|p| p.speedup).filter(|s| *s < target))
        .collect();
    if short.iter().all(Option::is_some) {
        // Better late than never: the best of what there is.
        return Outcome::Passed(request.pass("filter"));
    }
    let why = |i: usize| {
        short[i].map(|speedup| {
            format!("stepcast: the gang would reach {speedup:.2}×, its target is {target}×")
        })
    };
    Outcome::Scored(request.filtered(why))
}

fn prioritize(state: &State, request: &Request) -> Outcome {
    let scored = match score(state, request) {
        Ok(Some(scored)) => scored,
        Ok(None) => return Outcome::Passed(request.pass("prioritize")),
        Err(why) => return Outcome::Failed(request.pass("prioritize"), why),
    };
    let values = || scored.placings.iter().flatten().map(|p| p.throughput);
    let (least, most) = (
        values().fold(f64::INFINITY, f64::min),
        values().fold(0.0, f64::max),
    );
    let scores: Vec<i64> = scored
        .placings
        .iter()
        .map(|placing| match placing {
            Some(p) if most > least => {
                ((p.throughput - least) / (most - least) * BEST).round() as i64
            }
            _ => 0,
        })
        .collect();
    let best = scores
        .iter()
        .enumerate()
        .max_by_key(|(i, score)| (**score, std::cmp::Reverse(*i)));
    if let Some((best, _)) = best {
        let Member {
            gang, pod, workers, ..
        } = &scored.member;
        state.gangs(|gangs| gangs.assume(gang, pod, &request.names[best], *workers, now()));
    }
    Outcome::Scored(request.prioritized(&scores))
}
