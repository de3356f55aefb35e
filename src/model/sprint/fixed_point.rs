//! `T_GPU` and `T_Update`, each of which depends on the other.

use super::barrier;
use super::elements::Elements;

/// Whose barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// As printed, with α' the sum of one buffer (8).
    Paper,
    /// Ours: what the slowest of all nodes takes longer, waits for locks
    /// included, and a late visit finding more fresh buffers.
    #[default]
    Corrected,
}

/// A round of each kind of thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounds {
    /// `T_GPU`.
    pub gpu: f64,
    /// `T_Update`.
    pub update: f64,
    /// `T_Barrier`, of which `T_Update` holds one.
    pub barrier: f64,
    /// How far from fixed the point is.
    pub residual: f64,
}

impl Rounds {
    /// Samples that an update stands for (9).
    pub fn minibatch(&self, e: &Elements) -> f64 {
        f64::from(e.nodes) * f64::from(e.gpus) * f64::from(e.sub_batch) * self.update / self.gpu
    }

    /// Seconds of a pass over `samples` (10).
    pub fn epoch(&self, e: &Elements, samples: f64) -> f64 {
        samples * self.gpu / (f64::from(e.nodes) * f64::from(e.gpus) * f64::from(e.sub_batch))
    }
}

/// The iteration did not settle.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "the rounds of GPU and update threads do not settle: {residual:.1e} apart after {iterations} iterations\n  hint: look at the element times; one of them may be wrong by orders of magnitude"
)]
pub struct Unsettled {
    /// How far apart.
    pub residual: f64,
    /// After how many iterations.
    pub iterations: u32,
}

const ITERATIONS: u32 = 500;
const SETTLED: f64 = 1e-9;
const GOOD_ENOUGH: f64 = 1e-6;
/// What is added of a move that does not bring both closer.
const LEAST_MOVE: f64 = 0.02;

/// Waiting for a lock that others hold for `held` every `every` (7).
fn waiting(held: f64, every: f64) -> f64 {
    held * held / (2.0 * every)
}

/// Table 3, given how often updates come.
fn gpu_round(e: &Elements, gpu: f64, update: f64) -> f64 {
    let new_weights = (gpu / update).min(1.0);
    let fresh = (update / gpu).min(1.0);
    let fetch = e.fetch * new_weights;
    let others = f64::from(e.gpus) - 1.0;
    let lock_weights = waiting(e.update_weights, update) + others * waiting(fetch, gpu);
    let lock_gradient = waiting(e.sum_one * fresh, update);
    e.gpu_alone() + fetch + lock_weights + lock_gradient
}

/// Table 4, given how often gradients come: the round and its barrier.
fn update_round(e: &Elements, gpu: f64, update: f64, reading: Reading) -> (f64, f64) {
    let new_weights = (gpu / update).min(1.0);
    let fresh = (update / gpu).min(1.0);
    let gpus = f64::from(e.gpus);
    let lock_gradient = gpus * waiting(e.update_gradient, gpu);
    let lock_weights = gpus * waiting(e.fetch * new_weights, gpu);
    let sum = gpus * e.sum_one * fresh;
    let barrier = match reading {
        Reading::Paper => e.sum_one * barrier::published(e.gpus, fresh, e.nodes),
        Reading::Corrected => barrier::corrected(e, gpu, update),
    };
    let round = e.update_alone() + sum + lock_gradient + lock_weights + barrier;
    (round, barrier)
}

/// Damped iteration; where it does not settle, halving.
pub fn solve(e: &Elements, reading: Reading) -> Result<Rounds, Unsettled> {
    let mut at = Rounds {
        gpu: e.gpu_alone() + e.fetch,
        update: e.update_alone() + f64::from(e.gpus) * e.sum_one,
        barrier: 0.0,
        residual: f64::INFINITY,
    };
    let mut damping = 1.0_f64;
    for _ in 0..ITERATIONS {
        let gpu = gpu_round(e, at.gpu, at.update);
        let (update, barrier) = update_round(e, at.gpu, at.update, reading);
        at.barrier = barrier;
        let residual = ((gpu - at.gpu).abs() / at.gpu).max((update - at.update).abs() / at.update);
        if !residual.is_finite() {
            break;
        }
        if residual > 0.9 * at.residual {
            damping = (damping * 0.7).max(LEAST_MOVE);
        }
        at.residual = residual;
        if residual < SETTLED {
            return Ok(at);
        }
        at.gpu += damping * (gpu - at.gpu);
        at.update += damping * (update - at.update);
    }
    let halved = halve(e, reading);
    if halved.residual < GOOD_ENOUGH {
        Ok(halved)
    } else {
        Err(Unsettled {
            residual: halved.residual,
            iterations: ITERATIONS,
        })
    }
}

/// For each `T_Update` the `T_GPU` that fits, between bounds.
fn halve(e: &Elements, reading: Reading) -> Rounds {
    const HALVINGS: u32 = 50;
    let gpu_for = |update: f64| {
        let (mut low, mut high) = (
            e.gpu_alone() * 0.999,
            3.0 * (e.gpu_alone() + e.fetch) + e.update_weights + e.sum_one,
        );
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if gpu_round(e, middle, update) > middle {
                low = middle;
            } else {
                high = middle;
            }
        }
        f64::midpoint(low, high)
    };
    let most = f64::from(e.gpus) * (e.sum_one + e.update_gradient + e.fetch);
    let (mut low, mut high) = (e.update_alone() * 0.999, e.update_alone() + 3.0 * most);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if update_round(e, gpu_for(middle), middle, reading).0 > middle {
            low = middle;
        } else {
            high = middle;
        }
    }
    let update = f64::midpoint(low, high);
    let gpu = gpu_for(update);
    let (next, barrier) = update_round(e, gpu, update, reading);
    let again = gpu_round(e, gpu, update);
    Rounds {
        gpu,
        update,
        barrier,
        residual: ((next - update).abs() / update).max((again - gpu).abs() / gpu),
    }
}

/// `T_GPU` when another node keeps the updates at `update`.
pub(super) fn gpu_given_update(e: &Elements, gpu: f64, update: f64) -> f64 {
    (0..20).fold(gpu, |gpu, _| gpu_round(e, gpu, update))
}
