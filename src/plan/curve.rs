//! How a job scales: 1 to N workers, nodes in the order that helps most.

use super::pool::{PlanError, Pool};
use super::{Ask, Taken};
use crate::model::{Prediction, Query, predict_placed};
use crate::placement::{Placement, Selection};
use crate::sim::saturation;

/// A worker more must bring this share of what one brings alone, or the knee
/// is passed.
const WORTHWHILE: f64 = 0.5;

/// Gain of one more worker below which a series is saturated.
const SATURATED: f64 = 0.05;

/// The answers for 1 to N workers.
#[derive(Clone, Debug)]
pub struct Curve {
    /// One a number of workers, from 1 on.
    pub points: Vec<Prediction>,
    /// Workers up to which another still brings half of what one brings alone.
    pub knee: usize,
    /// Workers past which another adds less than 5 % of the throughput.
    pub saturation: Option<usize>,
}

/// Predicts 1 to N workers. Nodes are taken in the order in which each adds
/// most throughput; the speedup is against the fastest node throughout.
pub fn curve(ask: Ask<'_>) -> Result<Curve, PlanError> {
    let mut pool = Pool::new(ask)?;
    let order = greedy_order(&mut pool, ask.limit())?;
    let fastest = &ask.cluster.nodes[pool.baseline].name;
    let workers_of = |&i: &usize| ask.cluster.nodes[i].workers() as usize;
    let available: usize = order.iter().map(workers_of).sum();
    let most = ask.limit().min(available);
    let query = Query {
        job: ask.job,
        cluster: ask.cluster,
        selection: &Selection::default(),
        model: ask.model,
        baseline: Some(fastest),
        calibration: ask.calibration,
        simulation_events: None,
    };
    let mut points: Vec<Prediction> = Vec::with_capacity(most);
    for workers in 1..=most {
        let placement = Placement::on_nodes(ask.job, ask.cluster, &order, Some(workers), ask.nodes);
        points.push(predict_placed(&query, &placement)?);
    }
    for point in &mut points {
        point.warnings.extend(pool.notes.iter().cloned());
    }
    let knee = knee(&points.iter().map(|p| p.speedup).collect::<Vec<_>>());
    let series: Vec<(u32, f64)> = points
        .iter()
        .map(|p| (p.workers as u32, p.throughput()))
        .collect();
    let saturation = saturation(&series, SATURATED).map(|workers| workers as usize);
    Ok(Curve {
        points,
        knee,
        saturation,
    })
}

/// Nodes, each the one that adds most after those before it.
fn greedy_order(pool: &mut Pool<'_>, most: usize) -> Result<Vec<usize>, PlanError> {
    let mut taken: Taken = vec![0; pool.kinds.len()];
    let mut order = Vec::new();
    while pool.workers(&taken) < most {
        let mut best: Option<(f64, usize)> = None;
        for kind in 0..taken.len() {
            if taken[kind] as usize == pool.kinds[kind].nodes.len() {
                continue;
            }
            taken[kind] += 1;
            // For each worker, so that a large node of slow ones does not
            // come before a fast one.
            let throughput = pool.throughput(&taken)? / pool.workers(&taken) as f64;
            taken[kind] -= 1;
            if best.is_none_or(|(t, _)| throughput > t) {
                best = Some((throughput, kind));
            }
        }
        let Some((_, kind)) = best else {
            break;
        };
        let node = pool.kinds[kind].nodes[taken[kind] as usize];
        order.push(node);
        taken[kind] += 1;
    }
    Ok(order)
}

/// The last count before a worker more stops being worthwhile.
fn knee(speedups: &[f64]) -> usize {
    let Some(first) = speedups.first() else {
        return 0;
    };
    let gains = speedups.windows(2).map(|pair| pair[1] - pair[0]);
    1 + gains.take_while(|gain| *gain >= WORTHWHILE * first).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_where_gains_halve() {
        assert_eq!(knee(&[1.0, 2.0, 2.9, 3.2, 3.3]), 3);
        assert_eq!(knee(&[1.0, 2.0, 3.0]), 3);
        assert_eq!(knee(&[1.0, 0.9]), 1);
    }
}
