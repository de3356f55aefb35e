//! Errors of predictions, summed up.

use super::{Verdict, Way};

/// Errors as fractions of what was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Runs that were answered.
    pub runs: usize,
    /// Mean of the absolute errors.
    pub mape: f64,
    /// Their median.
    pub median_ape: f64,
    /// The worst.
    pub worst_ape: f64,
    /// Mean of the errors with their signs.
    pub bias: f64,
}

impl Errors {
    /// Of pairs of predicted and measured; `None` of none.
    pub fn of(pairs: impl Iterator<Item = (f64, f64)>) -> Option<Self> {
        let errors: Vec<f64> = pairs.map(|(ours, theirs)| ours / theirs - 1.0).collect();
        if errors.is_empty() {
            return None;
        }
        let mut sizes: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
        sizes.sort_unstable_by(f64::total_cmp);
        let count = sizes.len() as f64;
        let middle = sizes.len() / 2;
        let median_ape = if sizes.len() % 2 == 1 {
            sizes[middle]
        } else {
            f64::midpoint(sizes[middle - 1], sizes[middle])
        };
        Some(Self {
            runs: errors.len(),
            mape: sizes.iter().sum::<f64>() / count,
            median_ape,
            worst_ape: sizes[sizes.len() - 1],
            bias: errors.iter().sum::<f64>() / count,
        })
    }
}

/// How well some runs were predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// What they are called.
    pub group: String,
    /// The project's own errors; `None` without an answer.
    pub ours: Option<Errors>,
    /// Share of the runs that lie within their interval.
    pub coverage: f64,
    /// Everyone's errors, ours among them.
    pub ways: Vec<(Way, Errors)>,
}

impl Judged {
    pub(super) fn of(group: &str, verdicts: &[&Verdict<'_>]) -> Self {
        let ours = Errors::of(verdicts.iter().map(|v| (v.predicted, v.run.step_time_s)));
        let within = |v: &&&Verdict<'_>| (v.interval.0..=v.interval.1).contains(&v.run.step_time_s);
        let mut ways: Vec<(Way, Errors)> = ours.map(|e| (Way::Ours, e)).into_iter().collect();
        let mut others: Vec<Way> = verdicts
            .iter()
            .flat_map(|v| v.others.iter().map(|o| o.0))
            .collect();
        others.sort();
        others.dedup();
        for way in others {
            let pairs = verdicts.iter().filter_map(|v| {
                let found = v.others.iter().find(|o| o.0 == way)?;
                Some((found.1, v.run.step_time_s))
            });
            ways.extend(Errors::of(pairs).map(|errors| (way, errors)));
        }
        Self {
            group: group.to_owned(),
            ours,
            coverage: verdicts.iter().filter(within).count() as f64 / verdicts.len().max(1) as f64,
            ways,
        }
    }
}
