//! Many runs at once, on all cores: each is by itself, so that the numbers do
//! not depend on how many cores there are.

use super::engine::SimError;
use super::spec::{Limits, Spec};
use super::{Outcome, simulate};
use rayon::prelude::*;

/// One run of a sweep.
pub type Sweep = Result<Outcome, SimError>;

/// Simulates each; the seed of a run depends on its place alone. The longest
/// runs are begun first.
pub fn sweep(
    specs: &[Spec],
    limits: &Limits,
    seed: u64,
    expired: &(dyn Fn() -> bool + Sync),
) -> Vec<Sweep> {
    let mut order: Vec<usize> = (0..specs.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(specs[i].workers.len()));
    // One after another to whichever core is free.
    let mut runs: Vec<(usize, Sweep)> = order
        .into_iter()
        .par_bridge()
        .map(|i| {
            (
                i,
                simulate(&specs[i], limits, seed ^ i as u64, &|| expired()),
            )
        })
        .collect();
    runs.sort_by_key(|(i, _)| *i);
    runs.into_iter().map(|(_, run)| run).collect()
}

/// The number of workers past which one more adds less than `gain` of the
/// throughput: the first such point of a series of (workers, throughput).
pub fn saturation(series: &[(u32, f64)], gain: f64) -> Option<u32> {
    series.windows(2).find_map(|pair| {
        let [(workers, before), (next, after)] = [pair[0], pair[1]];
        // Where the series leaps over counts, the gain is laid to each alike.
        let each = (after / before).powf(1.0 / f64::from(next - workers)) - 1.0;
        (each < gain).then_some(workers)
    })
}
