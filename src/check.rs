//! Whether a job keeps what was asked of it on a cluster, by how much it
//! falls short, why, and what would mend it.

mod mend;
mod policy;

pub use policy::{Check, PolicyFile};

use crate::calibration::Calibration;
use crate::cluster::Cluster;
use crate::job::Job;
use crate::model::{PredictError, Prediction, Query, predict};
use crate::placement::Selection;
use crate::units::Seconds;

/// What is asked of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Speedup at least.
    pub min_speedup: Option<f64>,
    /// Speedup for each worker at least.
    pub min_scaling_factor: Option<f64>,
    /// Step at most.
    pub max_step_time: Option<Seconds>,
    /// Samples a second at least.
    pub min_throughput: Option<f64>,
}

/// A quantity that is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Speedup at least.
    Speedup,
    /// Scaling factor at least.
    ScalingFactor,
    /// Step time at most.
    StepTime,
    /// Throughput at least.
    Throughput,
}

/// One bound, held against a prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// What is bounded.
    pub bound: Bound,
    /// The bound.
    pub wanted: f64,
    /// What is predicted, at the confidence asked for.
    pub found: f64,
}

impl Finding {
    /// Whether it is kept.
    pub fn holds(&self) -> bool {
        match self.bound {
            Bound::StepTime => self.found <= self.wanted,
            _ => self.found >= self.wanted,
        }
    }

    /// By how much of the bound it falls short.
    pub fn short(&self) -> f64 {
        (self.found / self.wanted - 1.0).abs()
    }

    /// In words.
    pub fn words(&self) -> String {
        let number = |value: f64| match self.bound {
            Bound::Speedup => format!("{value:.2}×"),
            Bound::ScalingFactor => format!("{value:.2}"),
            Bound::StepTime => Seconds::new(value).to_string(),
            Bound::Throughput => format!("{value:.0} samples/s"),
        };
        let what = match self.bound {
            Bound::Speedup => "speedup",
            Bound::ScalingFactor => "scaling factor",
            Bound::StepTime => "step time",
            Bound::Throughput => "throughput",
        };
        let (found, wanted) = (number(self.found), number(self.wanted));
        let percent = self.short() * 100.0;
        match (self.holds(), self.bound) {
            (true, _) => format!("{what} {found} keeps {wanted}"),
            (false, Bound::StepTime) => {
                format!("{what} {found} is over {wanted} by {percent:.0} %")
            }
            (false, _) => format!("{what} {found} falls short of {wanted} by {percent:.0} %"),
        }
    }
}

/// What is checked.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The job.
    pub job: &'a Job,
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Which of its workers.
    pub selection: &'a Selection,
    /// What was learnt.
    pub calibration: &'a Calibration,
    /// How sure it must be; the prediction itself where absent.
    pub confidence: Option<f64>,
}

/// The result of a check.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The prediction.
    pub prediction: Prediction,
    /// Every bound.
    pub findings: Vec<Finding>,
    /// What would mend it, where something does and it does not hold.
    pub mends: Vec<String>,
}

impl Verdict {
    /// Whether every bound is kept.
    pub fn holds(&self) -> bool {
        self.findings.iter().all(Finding::holds)
    }
}

impl Bounds {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Holds a subject against the bounds.
    pub fn check(&self, subject: &Subject<'_>) -> Result<Verdict, PredictError> {
        let prediction = subject.predict()?;
        let findings = self.findings(&prediction, subject.confidence);
        let mends = if findings.iter().all(Finding::holds) {
            Vec::new()
        } else {
            mend::mends(self, subject, &prediction)
        };
        Ok(Verdict {
            prediction,
            findings,
            mends,
        })
    }

    /// Every bound against a prediction.
    fn findings(&self, p: &Prediction, confidence: Option<f64>) -> Vec<Finding> {
        // How much longer the step is at that confidence.
        let slower = confidence.map_or(1.0, |level| {
            let width = (p.interval.high / p.step.time).ln() / quantile(0.95);
            (width * quantile(level)).exp()
        });
        let finding = |bound: Bound, wanted: Option<f64>, found: f64| {
            wanted.map(|wanted| Finding {
                bound,
                wanted,
                found,
            })
        };
        let longest = self.max_step_time.map(Seconds::get);
        [
            finding(Bound::Speedup, self.min_speedup, p.speedup / slower),
            finding(
                Bound::ScalingFactor,
                self.min_scaling_factor,
                p.scaling_factor() / slower,
            ),
            finding(Bound::StepTime, longest, p.step.time.get() * slower),
            finding(
                Bound::Throughput,
                self.min_throughput,
                p.throughput() / slower,
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl Subject<'_> {
    fn predict(&self) -> Result<Prediction, PredictError> {
        predict(&Query {
            job: self.job,
            cluster: self.cluster,
            selection: self.selection,
            model: None,
            baseline: None,
            calibration: self.calibration,
            simulation_events: None,
        })
    }
}

/// Quantile of the normal distribution above one half (Abramowitz and Stegun
/// 26.2.23, good to 0.0005).
fn quantile(level: f64) -> f64 {
    let t = (-2.0 * (1.0 - level).ln()).sqrt();
    let above = 0.010_328f64.mul_add(t, 0.802_853).mul_add(t, 2.515_517);
    let below = 0.001_308f64
        .mul_add(t, 0.189_269)
        .mul_add(t, 1.432_788)
        .mul_add(t, 1.0);
    t - above / below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (level, known) in [(0.5, 0.0), (0.9, 1.2816), (0.95, 1.6449), (0.99, 2.3263)] {
            assert!((quantile(level) - known).abs() < 1e-3, "{level}");
        }
    }
}
