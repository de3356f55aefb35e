//! How sure a prediction is: the interval is as wide as it must be to hold
//! nine of ten runs that were left out of the fit.
//!
//! Nothing is fitted anew. From where the whole fit ended, one Gauss–Newton
//! step with the derivatives at hand takes the parameters to where they would
//! be without some of the runs; those are then predicted for real.

use super::row::Row;
use crate::calibration::{Calibration, Prior, Spread};
use crate::model::{ModelName, computing_share, step_of};
use nalgebra::{DMatrix, DVector};

/// The interval's level.
const LEVEL: f64 = 0.9;
/// Quantile of the normal distribution for it.
const NINETY_PERCENT: f64 = 1.645;
/// Networks that must have been left out to say how well an unseen one does.
const NETWORKS: usize = 5;
/// Runs without which nothing is said.
const RUNS: usize = 10;

/// Parts into which runs are dealt; each is left out once.
const PARTS: usize = 10;

/// What a fit leaves behind.
pub(super) struct Fit<'a> {
    pub(super) rows: &'a [Row<'a>],
    pub(super) priors: &'a [Prior],
    /// The fitted values.
    pub(super) values: &'a [f64],
    /// Softened residuals there, and their derivatives by the logarithms.
    pub(super) residuals: &'a [f64],
    pub(super) jacobian: &'a DMatrix<f64>,
    pub(super) calibration: &'a Calibration,
    /// A calibration with other values.
    pub(super) with: &'a dyn Fn(&[f64]) -> Calibration,
}

/// Runs that were left out, in so many groups.
#[derive(Default)]
struct Judged {
    runs: Vec<LeftOut>,
    groups: usize,
}

/// A run that was left out: its log error, and the share of its step that is
/// computing.
struct LeftOut {
    error: f64,
    share: f64,
}

impl Fit<'_> {
    /// The spread with which nine of ten of the runs lie in their interval.
    pub(super) fn spread(&self) -> Spread {
        let mut spread = self.calibration.spread;
        let placed = self.left_out(&|row| {
            let cluster = crate::runs::FoldBy::Cluster.key(row.run);
            format!("{} {cluster}", row.run.job.workload.name)
        });
        if placed.runs.len() >= RUNS {
            let seen = spread.seen_compute.unwrap_or(spread.compute);
            let factor = placed.needed(|factor| (seen * factor, spread.transfer * factor));
            spread.seen_compute = Some(seen * factor);
            spread.transfer *= factor;
        }
        let mut networks: Vec<&str> = self
            .rows
            .iter()
            .map(|row| row.run.job.workload.name.as_str())
            .collect();
        networks.sort_unstable();
        networks.dedup();
        if networks.len() >= NETWORKS {
            let unseen = self.left_out(&|row| row.run.job.workload.name.clone());
            let factor = unseen.needed(|factor| (spread.compute * factor, spread.transfer));
            spread.compute *= factor;
            spread.borrowed_compute = spread.borrowed_compute.max(spread.compute);
        }
        spread
    }

    /// Every run's error when all runs with its key are left out.
    fn left_out(&self, key: &dyn Fn(&Row<'_>) -> String) -> Judged {
        let keys: Vec<String> = self.rows.iter().map(key).collect();
        let mut distinct: Vec<&String> = keys.iter().collect();
        distinct.sort_unstable();
        distinct.dedup();
        let groups = distinct.len();
        if groups < 2 {
            return Judged::default();
        }
        let part_of = |key: &String| distinct.binary_search(&key).map_or(0, |i| i % PARTS);
        let parts: Vec<usize> = keys.iter().map(part_of).collect();
        let runs = (0..groups.min(PARTS))
            .flat_map(|part| {
                let calibration = self.without(&|row| parts[row] == part);
                let left: Vec<LeftOut> = (0..self.rows.len())
                    .filter(|&row| parts[row] == part)
                    .filter_map(|row| self.judge(row, &calibration))
                    .collect();
                left
            })
            .collect();
        Judged { runs, groups }
    }

    /// Where the parameters would be without some of the rows.
    fn without(&self, left_out: &dyn Fn(usize) -> bool) -> Calibration {
        let mut kept: Vec<usize> = Vec::with_capacity(self.residuals.len());
        let mut next = 0;
        for (row, own) in self.rows.iter().enumerate() {
            let outputs = next..next + own.outputs();
            next = outputs.end;
            if !left_out(row) {
                kept.extend(outputs);
            }
        }
        let jacobian = self.jacobian.select_rows(&kept);
        let residuals = DVector::from_iterator(kept.len(), kept.iter().map(|&i| self.residuals[i]));
        let mut information = jacobian.tr_mul(&jacobian);
        let mut slope = jacobian.tr_mul(&residuals);
        for (k, prior) in self.priors.iter().enumerate() {
            let weight = 1.0 / (prior.spread * prior.spread);
            information[(k, k)] += weight;
            slope[k] += weight * (self.values[k] / prior.centre).ln();
        }
        let Some(factors) = information.cholesky() else {
            return self.calibration.clone();
        };
        let step = factors.solve(&slope);
        let moved: Vec<f64> = self
            .values
            .iter()
            .zip(self.priors)
            .zip(step.iter())
            .map(|((value, prior), step)| {
                // No further than a fit of its own would believe.
                let most = 3.0 * prior.spread;
                value * (-step).clamp(-most, most).exp()
            })
            .collect();
        (self.with)(&moved)
    }

    /// The error of a run, and the share of its step that is computing.
    fn judge(&self, index: usize, calibration: &Calibration) -> Option<LeftOut> {
        let row = &self.rows[index];
        let layers = row.layers(calibration);
        let case = row.case(calibration, &layers);
        let model = ModelName::default_for(&row.run.job.strategy)?;
        let step = step_of(model, &case).ok()?;
        Some(LeftOut {
            error: (step.time.get() / row.run.step_time_s).ln(),
            share: computing_share(&case, &step),
        })
    }
}

impl Judged {
    /// The factor by which spreads must be stretched so that the level's
    /// share of the runs lies within. Runs of a group err together, so the
    /// group that is to come counts as well: by half, since groups differ
    /// less than that they were as many single runs.
    fn needed(&self, spreads: impl Fn(f64) -> (f64, f64)) -> f64 {
        let level = (LEVEL * (1.0 + 0.5 / self.groups as f64)).min(1.0);
        let wanted = (level * self.runs.len() as f64).ceil() as usize;
        let within = |factor: f64| {
            let (compute, transfer) = spreads(factor);
            let holds = |run: &&LeftOut| {
                let sigma = (run.share * compute).hypot((1.0 - run.share) * transfer);
                run.error.abs() <= NINETY_PERCENT * sigma
            };
            self.runs.iter().filter(holds).count()
        };
        let (mut low, mut high) = (0.1_f64, 10.0_f64);
        for _ in 0..30 {
            let middle = (low * high).sqrt();
            if within(middle) >= wanted {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }
}
