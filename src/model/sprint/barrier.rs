//! Waiting for the slowest node before the all-reduce.

use super::elements::Elements;

/// The paper's (8) without α': how many buffers more than the average node
/// the one with most fresh buffers sums. F is the distribution function of
/// B(gpus, fresh). Zero when every buffer is fresh, or there is one node.
pub(super) fn published(gpus: u32, fresh: f64, nodes: u32) -> f64 {
    if nodes == 1 || fresh >= 1.0 || fresh <= 0.0 {
        return 0.0;
    }
    let odds = fresh / (1.0 - fresh);
    let mut mass = (1.0 - fresh).powi(gpus.cast_signed());
    let (mut below, mut sum) = (0.0_f64, 0.0);
    for i in 0..gpus {
        below += mass;
        sum += below.min(1.0).powi(nodes.cast_signed());
        mass *= odds * f64::from(gpus - i) / f64::from(i + 1);
    }
    (f64::from(gpus) * (1.0 - fresh) - sum).max(0.0)
}

/// Cells of the grid that delays are counted on.
const CELLS: f64 = 400.0;
/// Share of rounds without fresh buffers below which their effect on the
/// next buffer fades, so that nothing jumps where every buffer is fresh.
const FADE: f64 = 0.05;

/// Ours: E[max over nodes of D] − E[D], where D is all that differs from
/// node to node in a round: the wait for the weights' lock and, buffer after
/// buffer, the wait for its lock and its sum. A buffer is fresh for certain
/// where its lock was held; the later a visit, the likelier it is otherwise.
pub(super) fn corrected(e: &Elements, gpu: f64, update: f64) -> f64 {
    if e.nodes == 1 {
        return 0.0;
    }
    let fresh = (update / gpu).min(1.0);
    let new_weights = (gpu / update).min(1.0);
    let held = (e.update_gradient / gpu).min(fresh);
    let fetching = (new_weights * e.fetch / gpu).min(1.0);
    let meets_fetch = 1.0 - (1.0 - fetching).powi(e.gpus.cast_signed());
    let longest = f64::from(e.gpus) * (e.sum_one + e.update_gradient) + e.fetch;
    if longest <= 0.0 {
        return 0.0;
    }
    // Cells that a sum fills exactly.
    let cell = (longest / CELLS).min(e.sum_one.max(longest / CELLS));
    let sum_cells = (e.sum_one / cell).round().max(0.0) as usize;
    let cell = if sum_cells > 0 {
        e.sum_one / sum_cells as f64
    } else {
        cell
    };
    let wait_cells = (e.update_gradient / cell).round() as usize;
    let fetch_cells = (e.fetch / cell).round() as usize;
    let mut delays = vec![0.0; fetch_cells + 1];
    spread(&mut delays, 0, meets_fetch, fetch_cells);
    delays[0] += 1.0 - meets_fetch;
    let pull = if fresh > 0.0 && fresh < 1.0 {
        let rarer = (fresh / (1.0 - fresh)).min((1.0 - fresh) / fresh);
        (1.0 + rarer) * ((1.0 - fresh) / FADE).min(1.0)
    } else {
        0.0
    };
    for _ in 0..e.gpus {
        delays = after_buffer(&delays, sum_cells, wait_cells, |at, mean| {
            let likelier = pull * (at - mean) * cell / gpu;
            (held, (fresh + likelier).clamp(held, 1.0))
        });
    }
    let (mut below, mut slowest, mut mean) = (0.0_f64, 0.0, 0.0);
    for mass in &delays {
        below = (below + mass).min(1.0);
        slowest += 1.0 - below.powi(e.nodes.cast_signed());
        mean += 1.0 - below;
    }
    (slowest - mean).max(0.0) * cell
}

/// The delays after one more buffer. `odds` gives, at a delay, the chance
/// that its lock is held and the chance that it is fresh.
fn after_buffer(
    delays: &[f64],
    sum_cells: usize,
    wait_cells: usize,
    odds: impl Fn(f64, f64) -> (f64, f64),
) -> Vec<f64> {
    let mean: f64 = delays.iter().enumerate().map(|(i, m)| i as f64 * m).sum();
    let mut after = vec![0.0; delays.len() + sum_cells + wait_cells];
    // Waits spread evenly: changes of a running sum, added up at the end.
    let mut change = vec![0.0; after.len() + 1];
    for (i, &mass) in delays.iter().enumerate() {
        if mass == 0.0 {
            continue;
        }
        let (held, fresh) = odds(i as f64, mean);
        after[i] += mass * (1.0 - fresh);
        after[i + sum_cells] += mass * (fresh - held);
        if wait_cells == 0 {
            after[i + sum_cells] += mass * held;
        } else {
            // Half of it at both ends, so that the mean is exact.
            let each = mass * held / wait_cells as f64;
            change[i + sum_cells] += each;
            change[i + sum_cells + wait_cells] -= each;
            after[i + sum_cells] -= each / 2.0;
            after[i + sum_cells + wait_cells] += each / 2.0;
        }
    }
    let mut running = 0.0;
    for (cell, change) in after.iter_mut().zip(&change) {
        running += change;
        *cell += running;
    }
    after
}

/// Spreads a chance evenly over the cells from `from` on.
fn spread(delays: &mut [f64], from: usize, chance: f64, cells: usize) {
    if cells == 0 {
        delays[from] += chance;
        return;
    }
    let each = chance / cells as f64;
    for delay in &mut delays[from..from + cells] {
        *delay += each;
    }
    delays[from] -= each / 2.0;
    delays[from + cells] += each / 2.0;
}
