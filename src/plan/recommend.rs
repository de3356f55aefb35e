//! How many workers and which nodes.

use super::Ask;
use super::pool::{PlanError, Pool, Taken};
use super::search::{MAX_KINDS, Search};
use crate::model::{Prediction, Query, predict_placed};
use crate::placement::{Placement, Selection};

/// What is best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// The most samples a second.
    #[default]
    Speed,
    /// As many workers as are each worth their marginal gain.
    Efficiency,
    /// The fewest money a sample.
    Cost,
}

/// What is wanted of a set of nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// What is best.
    pub objective: Objective,
    /// The speedup to reach with the fewest nodes.
    pub target_speedup: Option<f64>,
    /// Share of one worker's own throughput that a further one must add.
    pub min_marginal_gain: Option<f64>,
}

/// A set of nodes.
#[derive(Clone, Debug)]
pub struct Recommendation {
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// What to expect of them.
    pub prediction: Prediction,
    /// Price an hour, where every node carries one.
    pub price_per_hour: Option<f64>,
}

/// Marginal gain below which a worker is not worth having, where efficiency
/// is asked for and nothing is said.
const DEFAULT_GAIN: f64 = 0.5;

/// Finds the set that suits a wish best.
pub fn recommend(ask: Ask<'_>, wish: &Wish) -> Result<Recommendation, PlanError> {
    let mut pool = Pool::new(ask)?;
    if wish.target_speedup.is_some() && wish.min_marginal_gain.is_some() {
        return Err(PlanError::TwoWishes);
    }
    if wish.objective == Objective::Cost
        && let Some(node) = pool.unpriced()
    {
        return Err(PlanError::NoPrice(ask.cluster.nodes[node].name.clone()));
    }
    let limit = ask.limit();
    let gain = wish
        .min_marginal_gain
        .or((wish.objective == Objective::Efficiency).then_some(DEFAULT_GAIN));
    let mut search = Search {
        target: wish.target_speedup.map(|s| s * pool.alone),
        objective: wish.objective,
        gain: gain.map(|g| g * pool.alone),
        limit,
        best: None,
        fastest: None,
    };
    search.run(&mut pool)?;
    let baseline = &ask.cluster.nodes[pool.baseline].name;
    let query = Query {
        job: ask.job,
        cluster: ask.cluster,
        selection: &Selection::default(),
        model: ask.model,
        baseline: Some(baseline),
        calibration: ask.calibration,
        simulation_events: None,
    };
    let answer = |order: &[usize]| -> Result<Recommendation, PlanError> {
        let workers = Some(limit).filter(|l| *l < usize::MAX);
        let placement = Placement::on_nodes(ask.job, ask.cluster, order, workers, ask.nodes);
        let mut prediction = predict_placed(&query, &placement)?;
        prediction.warnings.extend(pool.notes.iter().cloned());
        let used = || placement.nodes.iter().map(|p| p.node);
        let nodes = used().map(|i| ask.cluster.nodes[i].name.clone()).collect();
        let paid = used().chain(placement.servers.iter().copied());
        let prices: Option<f64> = paid.map(|i| ask.cluster.nodes[i].price_per_hour).sum();
        Ok(Recommendation {
            nodes,
            prediction,
            price_per_hour: prices,
        })
    };
    let whole = match (search.best, wish.target_speedup, search.fastest) {
        (Some(best), ..) => Some(answer(&pool.chosen(&best.taken))?),
        (None, Some(target), fastest) => {
            let taken = fastest.map_or_else(|| one_node(&pool), |f| f.taken);
            let best = answer(&pool.chosen(&taken))?;
            return Err(PlanError::OutOfReach {
                target,
                best: best.prediction.speedup,
                workers: best.prediction.workers,
                bottleneck: best.prediction.bottleneck,
            });
        }
        (None, None, _) => None,
    };
    let part = best_with_part_of_a_node(wish, limit, &pool, answer)?;
    let faster = |a: &Recommendation, b: &Recommendation| {
        a.prediction.throughput() >= b.prediction.throughput()
    };
    match (whole, part) {
        (Some(whole), Some(part)) => Ok(if faster(&whole, &part) { whole } else { part }),
        (Some(one), None) | (None, Some(one)) => Ok(one),
        (None, None) => answer(&pool.chosen(&one_node(&pool))),
    }
}

/// Where the number of workers is limited and speed is all that counts, the
/// last node may be taken in part: nodes of one kind first, then the others
/// in order of speed.
fn best_with_part_of_a_node(
    wish: &Wish,
    limit: usize,
    pool: &Pool<'_>,
    answer: impl Fn(&[usize]) -> Result<Recommendation, PlanError>,
) -> Result<Option<Recommendation>, PlanError> {
    let all: usize = pool
        .kinds
        .iter()
        .map(|k| k.nodes.len() * k.workers as usize)
        .sum();
    let only_speed = wish.objective == Objective::Speed && wish.min_marginal_gain.is_none();
    if limit >= all || !only_speed || wish.target_speedup.is_some() {
        return Ok(None);
    }
    let mut best: Option<Recommendation> = None;
    for first in 0..pool.kinds.len().min(MAX_KINDS) {
        let rest = (0..pool.kinds.len()).filter(|k| *k != first);
        let order: Vec<usize> = std::iter::once(first)
            .chain(rest)
            .flat_map(|k| pool.kinds[k].nodes.iter().copied())
            .collect();
        let found = answer(&order)?;
        let better = best
            .as_ref()
            .is_none_or(|b| found.prediction.throughput() > b.prediction.throughput());
        if better {
            best = Some(found);
        }
    }
    Ok(best)
}

/// One node of the fastest kind.
fn one_node(pool: &Pool<'_>) -> Taken {
    let mut taken = vec![0; pool.kinds.len()];
    taken[0] = 1;
    taken
}
