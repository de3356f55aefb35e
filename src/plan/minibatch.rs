//! The fastest nodes and sub-batch whose mean mini-batch stays in a range
//! (Oyama 2016, section 5): asynchronous updates stand for a varying number
//! of samples, and training converges as expected only within bounds.

use super::Ask;
use super::pool::{PlanError, Pool};
use super::recommend::Recommendation;
use crate::job::{Batch, Job, Strategy};
use crate::model::{Case, PredictError, Query, Timings, predict_placed, sprint};
use crate::placement::{Placement, Selection};
use std::fmt;
use std::str::FromStr;

/// Samples that an update may stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MinibatchRange {
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
}

/// What a range looks like.
const FORM: &str = "expected a mean and how far from it, such as 138±25%, or 100..170";

impl FromStr for MinibatchRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |t: &str| {
            t.trim()
                .parse::<f64>()
                .ok()
                .filter(|x| x.is_finite() && *x >= 0.0)
                .ok_or_else(|| FORM.to_owned())
        };
        let range = if let Some((low, high)) = text.split_once("..") {
            Self {
                low: number(low)?,
                high: number(high)?,
            }
        } else {
            let (mean, spread) = text
                .split_once('±')
                .or_else(|| text.split_once("+-"))
                .ok_or_else(|| FORM.to_owned())?;
            let mean = number(mean)?;
            let spread = match spread.trim().strip_suffix('%') {
                Some(percent) => mean * number(percent)? / 100.0,
                None => number(spread)?,
            };
            Self {
                low: mean - spread,
                high: mean + spread,
            }
        };
        if range.low >= 0.0 && range.high > 0.0 && range.low <= range.high {
            Ok(range)
        } else {
            Err(FORM.to_owned())
        }
    }
}

impl fmt::Display for MinibatchRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} to {:.0}", self.low, self.high)
    }
}

/// A set of nodes and a sub-batch.
#[derive(Clone, Debug)]
pub struct MinibatchPlan {
    /// Samples of a worker's round.
    pub sub_batch: u32,
    /// The nodes and what to expect of them.
    pub recommendation: Recommendation,
}

/// The largest sub-batch that is tried.
const MOST_SAMPLES: u32 = 256;

/// Finds the fastest (nodes, sub-batch) in range. Nodes are taken fastest
/// first; every number of them is tried with every sub-batch, because the
/// mean mini-batch does not rise with the sub-batch throughout.
pub fn recommend_minibatch(
    ask: Ask<'_>,
    range: MinibatchRange,
) -> Result<MinibatchPlan, PlanError> {
    if !matches!(ask.job.strategy, Strategy::AsyncAllReduce(_)) {
        return Err(PlanError::NotAsynchronous);
    }
    let pool = Pool::new(ask)?;
    let order: Vec<usize> = pool
        .kinds
        .iter()
        .flat_map(|kind| kind.nodes.iter().copied())
        .collect();
    let mut best: Option<(f64, u32, usize)> = None;
    let mut nearest: Option<f64> = None;
    for sub_batch in 1..=MOST_SAMPLES {
        let job = with_batch(ask.job, sub_batch);
        let mut timings = Timings::default();
        for nodes in 1..=order.len() {
            let placement = Placement::on_nodes(&job, ask.cluster, &order[..nodes], None, None);
            if placement.workers() > ask.limit() {
                break;
            }
            let case = Case::new(&job, ask.cluster, ask.calibration, &placement, &mut timings)
                .map_err(PredictError::from)?;
            let Some(answer) = sprint::answer(&case).map_err(PredictError::from)? else {
                continue;
            };
            let minibatch = answer.asynchronous.mean_minibatch;
            let off = |m: f64| (range.low - m).max(m - range.high).max(0.0);
            let fits = fits(&case);
            if fits && nearest.is_none_or(|n| off(minibatch) < off(n)) {
                nearest = Some(minibatch);
            }
            let throughput = case.samples() / answer.step.time.get();
            let better = best.is_none_or(|(t, ..)| throughput > t);
            if off(minibatch) == 0.0 && better && fits {
                best = Some((throughput, sub_batch, nodes));
            }
            // More nodes only bring more samples to an update.
            if minibatch > range.high {
                break;
            }
        }
    }
    let Some((_, sub_batch, nodes)) = best else {
        return Err(PlanError::NoMinibatch {
            range: range.to_string(),
            nearest: nearest.unwrap_or_default(),
        });
    };
    let job = with_batch(ask.job, sub_batch);
    let placement = Placement::on_nodes(&job, ask.cluster, &order[..nodes], None, None);
    let query = Query {
        job: &job,
        cluster: ask.cluster,
        selection: &Selection::default(),
        model: None,
        baseline: ask.baseline,
        calibration: ask.calibration,
        simulation_events: None,
    };
    let names = |p: &Placement| -> Vec<String> {
        let used = p.nodes.iter().map(|p| &ask.cluster.nodes[p.node]);
        used.map(|n| n.name.clone()).collect()
    };
    let prices = placement
        .nodes
        .iter()
        .map(|p| ask.cluster.nodes[p.node].price_per_hour);
    Ok(MinibatchPlan {
        sub_batch,
        recommendation: Recommendation {
            nodes: names(&placement),
            price_per_hour: prices.sum(),
            prediction: predict_placed(&query, &placement)?,
        },
    })
}

fn with_batch(job: &Job, sub_batch: u32) -> Job {
    Job {
        batch: Batch::PerWorker(sub_batch),
        ..job.clone()
    }
}

fn fits(case: &Case<'_>) -> bool {
    case.classes.iter().all(|class| {
        let job = case.job;
        crate::model::Memory::of(
            &job.workload,
            &class.device,
            class.batch,
            job.precision,
            &job.strategy,
        )
        .is_none_or(|m| m.fits())
    })
}
