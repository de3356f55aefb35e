//! The search behind a recommendation.
//!
//! Nodes group into kinds, so a set is a count of each. Small pools are
//! searched in full. In large ones a set is thought of as the kinds it may
//! use: the slowest of them holds the step up whether one node or a hundred
//! of it take part, so for each choice of kinds only the number of nodes is
//! left, and more of the same never train slower together.

use super::pool::{PlanError, Pool, Taken};
use super::recommend::Objective;

/// Sets that are searched one by one.
const EXHAUSTIVE: u64 = 4096;

/// Kinds whose every choice is looked at in a large pool; of more, the fastest
/// so many, and then all that are at least as fast as each.
pub(super) const MAX_KINDS: usize = 8;

/// One node in so many may be left out of a large set that is worth its gain.
const SLACK: usize = 100;

#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) taken: Taken,
    nodes: u32,
    throughput: f64,
    price: Option<f64>,
}

/// Looks for the set that suits a wish best.
pub(super) struct Search {
    /// Samples a second to reach.
    pub(super) target: Option<f64>,
    pub(super) objective: Objective,
    /// Samples a second that a worker must add.
    pub(super) gain: Option<f64>,
    /// Workers that may be taken.
    pub(super) limit: usize,
    pub(super) best: Option<Found>,
    /// The fastest set at all, whatever the wish.
    pub(super) fastest: Option<Found>,
}

impl Search {
    /// Small pools in full, large ones by choice of kinds.
    pub(super) fn run(&mut self, pool: &mut Pool<'_>) -> Result<(), PlanError> {
        let sets: u64 = pool
            .kinds
            .iter()
            .map(|k| k.nodes.len() as u64 + 1)
            .fold(1, u64::saturating_mul);
        if sets <= EXHAUSTIVE {
            self.exhaustive(pool)
        } else {
            self.by_choice_of_kinds(pool)
        }
    }

    /// Every count of every kind.
    fn exhaustive(&mut self, pool: &mut Pool<'_>) -> Result<(), PlanError> {
        let mut taken: Taken = vec![0; pool.kinds.len()];
        loop {
            let mut kind = 0;
            while kind < taken.len() && taken[kind] as usize == pool.kinds[kind].nodes.len() {
                taken[kind] = 0;
                kind += 1;
            }
            if kind == taken.len() {
                return Ok(());
            }
            taken[kind] += 1;
            self.consider(pool, &taken)?;
        }
    }

    /// For every choice of kinds, the number of nodes that suits best: all
    /// that may be taken, or as few as reach the target, or as many as are
    /// worth their gain; the last two by bisection.
    fn by_choice_of_kinds(&mut self, pool: &mut Pool<'_>) -> Result<(), PlanError> {
        let kinds = pool.kinds.len().min(MAX_KINDS);
        let some = (1_u32..1 << kinds)
            .map(|choice| (0..kinds).filter(|k| choice & (1 << k) != 0).collect());
        // Beyond that, all kinds at least as fast as each.
        let prefixes = (kinds + 1..=pool.kinds.len()).map(|count| (0..count).collect());
        let mut choices = Vec::new();
        for mut chosen in some.chain(prefixes).collect::<Vec<Vec<usize>>>() {
            if self.objective == Objective::Cost {
                let price = |k: usize| {
                    pool.kinds[k].price_per_hour.unwrap_or(0.0) / f64::from(pool.kinds[k].workers)
                };
                chosen.sort_by(|&a, &b| price(a).total_cmp(&price(b)));
            } else {
                // Fewest nodes: those with most workers first.
                chosen.sort_by_key(|&k| std::cmp::Reverse(pool.kinds[k].workers));
            }
            let all: usize = chosen.iter().map(|&k| pool.kinds[k].nodes.len()).sum();
            let most = self.most_nodes(pool, &chosen, all);
            if most > 0 {
                let bound = pool.throughput(&fill(pool, &chosen, most))?;
                choices.push((bound, chosen, most));
            }
        }
        // The fastest first, so that the others need not be looked into.
        choices.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (bound, chosen, most) in choices {
            let found = self.best.as_ref().map_or(0.0, |best| best.throughput);
            if self.target.is_none() && self.objective != Objective::Cost && found >= bound {
                break;
            }
            // With a gain to keep, the search below ends at all of them only
            // if each is worth it.
            let throughput = if self.gain.is_some() && self.target.is_none() {
                bound
            } else {
                let whole = fill(pool, &chosen, most);
                self.consider(pool, &whole)?
            };
            if let Some(target) = self.target {
                if throughput >= target {
                    let enough = |search: &mut Self, pool: &mut Pool<'_>, n: usize| {
                        let taken = fill(pool, &chosen, n);
                        Ok(search.consider(pool, &taken)? >= target)
                    };
                    let fewest = self.bisect(pool, most, 0, enough)?;
                    let taken = fill(pool, &chosen, fewest);
                    self.consider(pool, &taken)?;
                }
            } else if let Some(gain) = self.gain {
                let spent = |_: &mut Self, pool: &mut Pool<'_>, n: usize| {
                    let (less, more) = (fill(pool, &chosen, n), fill(pool, &chosen, n + 1));
                    let added = (pool.workers(&more) - pool.workers(&less)) as f64;
                    if n == most {
                        return Ok(true);
                    }
                    let before = pool.throughput(&less)?;
                    let after = pool.throughput(&more)?;
                    Ok(after - before < gain * added)
                };
                let enough = self.bisect(pool, most, most / SLACK, spent)?;
                let taken = fill(pool, &chosen, enough);
                self.consider(pool, &taken)?;
            } else if self.objective == Objective::Cost {
                // Powers of two, from one node to all.
                let mut n = 1;
                while n < most {
                    let taken = fill(pool, &chosen, n);
                    self.consider(pool, &taken)?;
                    n *= 2;
                }
            }
        }
        Ok(())
    }

    /// The smallest number of nodes up to `most` at which `holds` does, or up
    /// to `slack` fewer: one more than a number at which it does not.
    fn bisect<'a>(
        &mut self,
        pool: &mut Pool<'a>,
        most: usize,
        slack: usize,
        holds: impl Fn(&mut Self, &mut Pool<'a>, usize) -> Result<bool, PlanError>,
    ) -> Result<usize, PlanError> {
        let (mut low, mut high) = (1, most);
        // Often all or nothing: look at the end first.
        if most > 1 && !holds(self, pool, most - 1)? {
            return Ok(most);
        }
        while low + slack < high {
            let middle = low.midpoint(high);
            if holds(self, pool, middle)? {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }

    fn most_nodes(&self, pool: &Pool<'_>, chosen: &[usize], all: usize) -> usize {
        let (mut low, mut high) = (0, all);
        while low < high {
            let middle = (low + high).div_ceil(2);
            if pool.workers(&fill(pool, chosen, middle)) <= self.limit {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }

    /// Asks about a set and keeps it if it suits better; returns its
    /// throughput.
    fn consider(&mut self, pool: &mut Pool<'_>, taken: &[u32]) -> Result<f64, PlanError> {
        if pool.workers(taken) > self.limit {
            return Ok(0.0);
        }
        let found = Found {
            throughput: pool.throughput(taken)?,
            nodes: taken.iter().sum(),
            price: pool.price(taken),
            taken: taken.to_vec(),
        };
        let throughput = found.throughput;
        if throughput <= 0.0 {
            return Ok(0.0);
        }
        if self
            .fastest
            .as_ref()
            .is_none_or(|f| throughput > f.throughput)
        {
            self.fastest = Some(found.clone());
        }
        let suits =
            self.target.is_none_or(|target| throughput >= target) && self.worth_it(pool, &found)?;
        if suits
            && self
                .best
                .as_ref()
                .is_none_or(|best| self.better(&found, best))
        {
            self.best = Some(found);
        }
        Ok(throughput)
    }

    /// Whether every kind's last node brings its marginal gain.
    fn worth_it(&self, pool: &mut Pool<'_>, found: &Found) -> Result<bool, PlanError> {
        let Some(gain) = self.gain.filter(|_| self.target.is_none()) else {
            return Ok(true);
        };
        if found.nodes <= 1 {
            return Ok(found.throughput >= gain * pool.workers(&found.taken) as f64);
        }
        let mut less = found.taken.clone();
        for kind in 0..less.len() {
            if less[kind] == 0 {
                continue;
            }
            less[kind] -= 1;
            let lost = found.throughput - pool.throughput(&less)?;
            less[kind] += 1;
            if lost < gain * f64::from(pool.kinds[kind].workers) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn better(&self, a: &Found, b: &Found) -> bool {
        let cost = |f: &Found| f.price.map_or(f64::INFINITY, |p| p / f.throughput);
        if self.target.is_some() {
            return match self.objective {
                Objective::Cost => cost(a) < cost(b),
                _ => (a.nodes, -a.throughput) < (b.nodes, -b.throughput),
            };
        }
        match self.objective {
            // Equal speed with fewer nodes is better.
            Objective::Speed | Objective::Efficiency => {
                a.throughput > b.throughput || (a.throughput == b.throughput && a.nodes < b.nodes)
            }
            Objective::Cost => cost(a) < cost(b),
        }
    }
}

/// The first `nodes` of the chosen kinds, in their order.
fn fill(pool: &Pool<'_>, chosen: &[usize], nodes: usize) -> Taken {
    let mut taken = vec![0; pool.kinds.len()];
    let mut left = nodes;
    for &kind in chosen {
        let take = left.min(pool.kinds[kind].nodes.len());
        taken[kind] = take as u32;
        left -= take;
    }
    taken
}
