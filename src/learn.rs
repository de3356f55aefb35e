//! From measured runs to a calibration: robust least squares on log error,
//! drawn towards what is believed already.

mod conformal;
mod free;
mod hypotheses;
mod row;

pub use row::Row;

use crate::calibration::{Calibration, Fitted, Prior, Provenance, Section, Slot, solve};
use crate::model::{PredictError, compute};
use crate::runs::Run;
use nalgebra::DMatrix;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// What the parameters are drawn towards.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// What is believed before any measurement.
    Priors,
    /// What was learnt before.
    From(&'a Calibration),
}

/// A calibration and how it came about.
#[derive(Clone, Debug)]
pub struct Learnt {
    /// The calibration.
    pub calibration: Calibration,
    /// Parameters that the data moved, with the standard deviation of their
    /// logarithm.
    pub determined: Vec<(Slot, f64)>,
    /// Parameters that it could not determine: held where they were.
    pub undetermined: Vec<Slot>,
    /// Runs that no model could be asked about, and why.
    pub left_out: Vec<(String, PredictError)>,
    /// Runs at odds with all others, which were not fitted on in the end.
    pub set_aside: Vec<String>,
}

/// A parameter is looked at where moving it by what is believed of it moves
/// the residuals by this much, in units of their noise.
const SEEN: f64 = 0.5;

/// Runs of which a fit makes its first guess.
const SAMPLE: usize = 800;

/// The spread of a parameter that is held.
const HELD: f64 = 1e-6;

/// Step of the derivative, in units of the logarithm.
const DELTA: f64 = 1e-4;

/// A run that is off by so many times its noise after a fit is at odds with
/// the others, where those are at least so many times as many.
const AT_ODDS: f64 = 8.0;
const MAJORITY: usize = 3;

/// Fits on runs. Those at odds with all others are set aside, so that one
/// liar cannot move what is predicted for everybody.
pub fn learn(runs: &[&Run], start: Start<'_>) -> Learnt {
    let first = fit_once(runs, start);
    let off = |run: &&Run| {
        let row = Row::new(run, &first.calibration).ok()?;
        let error = (row.predict(&first.calibration) / run.step_time_s).ln();
        Some(error.abs() / run.noise)
    };
    let odd: Vec<bool> = runs
        .iter()
        .map(|run| off(run).is_some_and(|z| z > AT_ODDS))
        .collect();
    // One job counts once, however often it was seen.
    let jobs = |of: &dyn Fn(usize) -> bool| {
        let ids: BTreeSet<&str> = (0..runs.len())
            .filter(|&i| of(i))
            .map(|i| runs[i].id.as_str())
            .collect();
        ids.len()
    };
    let count = jobs(&|i| odd[i]);
    if count == 0 || count * (MAJORITY + 1) > jobs(&|_| true) {
        return first;
    }
    let kept: Vec<&Run> = runs
        .iter()
        .zip(&odd)
        .filter(|(_, odd)| !**odd)
        .map(|(run, _)| *run)
        .collect();
    let mut learnt = fit_once(&kept, start);
    let ids = runs.iter().zip(&odd).filter(|(_, odd)| **odd);
    learnt.set_aside = ids.map(|(run, _)| run.id.clone()).collect();
    learnt
}

fn fit_once(runs: &[&Run], start: Start<'_>) -> Learnt {
    let mut calibration = start.calibration();
    let sections = free::sections(runs);
    for section in &sections {
        let values = calibration.values(section);
        calibration.set_values(section, &values);
    }
    let mut left_out = Vec::new();
    let mut rows = Vec::with_capacity(runs.len());
    for run in runs {
        match Row::new(run, &calibration) {
            Ok(row) => rows.push(row),
            Err(error) => left_out.push((run.id.clone(), error)),
        }
    }
    let slots: Vec<Slot> = sections.iter().flat_map(Section::slots).collect();
    let priors: Vec<Prior> = slots
        .iter()
        .map(|slot| start.prior(slot, &calibration, runs))
        .collect();
    let start_values = calibration.clone();
    let all: Vec<&Row<'_>> = rows.iter().collect();
    let problem = Problem {
        rows: &all,
        slots: &slots,
        start: &start_values,
    };
    let centres = |priors: &[Prior]| priors.iter().map(|p| p.centre).collect::<Vec<f64>>();
    // A sample of many runs tells which belief holds, and nearly where the
    // fit on all of them ends.
    let every = rows.len().div_ceil(SAMPLE).max(1);
    let sampled: Vec<&Row<'_>> = rows.iter().step_by(every).collect();
    let sample = Problem {
        rows: &sampled,
        ..problem
    };
    let (priors, mut first) = hypotheses::best(&slots, priors, |priors| {
        sample.solve(priors, &centres(priors))
    });
    if every > 1 {
        first = problem.solve(&priors, &first.values);
    }
    // What the data cannot determine is held where it was, and the rest
    // fitted again around it.
    let tells = |k: usize| {
        let sensitivity = first.jacobian.column(k).norm() * priors[k].spread;
        sensitivity > SEEN
    };
    let tells: Vec<bool> = (0..slots.len()).map(tells).collect();
    let (held, from): (Vec<Prior>, Vec<f64>) = priors
        .iter()
        .zip(&tells)
        .zip(&first.values)
        .map(|((prior, tells), value)| {
            if *tells {
                (*prior, *value)
            } else {
                let spread = HELD;
                (Prior { spread, ..*prior }, prior.centre)
            }
        })
        .unzip();
    let fitted = problem.solve(&held, &from);
    let mut determined = Vec::new();
    let mut undetermined = Vec::new();
    for (k, slot) in slots.iter().enumerate() {
        if tells[k] {
            calibration.set(slot, fitted.values[k]);
            determined.push((slot.clone(), fitted.covariance[(k, k)].sqrt()));
        } else {
            calibration.set(slot, priors[k].centre);
            undetermined.push(slot.clone());
        }
    }
    let fit = conformal::Fit {
        rows: &rows,
        priors: &held,
        values: &fitted.values,
        residuals: &fitted.residuals,
        jacobian: &fitted.jacobian,
        calibration: &calibration,
        with: &|values| problem.with(values),
    };
    let spread = fit.spread();
    calibration.spread = spread;
    let mut groups: BTreeMap<String, usize> = BTreeMap::new();
    for row in &rows {
        *groups.entry(row.run.group.clone()).or_default() += 1;
    }
    let errors: Vec<f64> = rows
        .iter()
        .map(|row| (row.predict(&calibration) / row.run.step_time_s - 1.0).abs())
        .collect();
    calibration.provenance = Some(Provenance {
        fitted_at: None,
        drawn_towards: match start {
            Start::Priors => None,
            Start::From(from) => Some(from.version.clone().unwrap_or_else(|| "shipped".into())),
        },
        runs: groups,
        error: (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64),
        held_out_error: None,
        undetermined: undetermined.iter().map(Slot::to_string).collect(),
        fitted_on: start
            .seen()
            .iter()
            .copied()
            .chain(rows.iter().map(|r| r.run.fingerprint()))
            .collect(),
    });
    Learnt {
        calibration,
        determined,
        undetermined,
        left_out,
        set_aside: Vec::new(),
    }
}

impl Start<'_> {
    /// Fingerprints of the runs that it has seen.
    fn seen(&self) -> Vec<u32> {
        match self {
            Self::Priors => Vec::new(),
            Self::From(calibration) => calibration.has_seen(),
        }
    }

    fn calibration(&self) -> Calibration {
        match self {
            Self::Priors => {
                let mut calibration = Calibration::shipped().clone();
                for section in &Section::COMMON {
                    let centres: Vec<f64> = section.priors().iter().map(|p| p.centre).collect();
                    calibration.set_values(section, &centres);
                }
                calibration
            }
            Self::From(calibration) => Calibration::clone(calibration),
        }
    }

    /// What a parameter is drawn towards, and how strongly.
    fn prior(&self, slot: &Slot, calibration: &Calibration, runs: &[&Run]) -> Prior {
        let prior = slot.prior();
        let centre = calibration.value(slot);
        let spread = match (&slot.section, self) {
            // Nothing but runs says what such a workload computes.
            (Section::Workload(key), _)
                if slot.name() == "compute" && !free::says_what_it_computes(key, runs) =>
            {
                3.0
            }
            // Where the device's own shares were never measured, networks
            // stray further from them.
            (Section::Workload(key), _)
                if slot.name() == "compute" && !compute::was_fitted_on(&key.device) =>
            {
                3.0 * prior.spread
            }
            // Shares of peaks were learnt from many networks.
            (Section::Accelerator | Section::Cpu, Self::From(_)) => 0.5 * prior.spread,
            _ => prior.spread,
        };
        Prior { centre, spread }
    }
}

#[derive(Clone, Copy)]
struct Problem<'a> {
    rows: &'a [&'a Row<'a>],
    slots: &'a [Slot],
    start: &'a Calibration,
}

/// What came out under one hypothesis.
struct Solved {
    values: Vec<f64>,
    cost: f64,
    /// Softened residuals there.
    residuals: Vec<f64>,
    /// Their derivatives.
    jacobian: DMatrix<f64>,
    /// Of the logarithms, data and priors together.
    covariance: DMatrix<f64>,
}

impl Problem<'_> {
    fn solve(&self, priors: &[Prior], start: &[f64]) -> Solved {
        let Fitted {
            values,
            cost,
            residuals,
            jacobian,
        } = solve(
            priors,
            start,
            &|values| self.residuals(values),
            &|values, here| self.derivatives(values, here),
        );
        Solved {
            values,
            cost,
            covariance: covariance(&jacobian, priors),
            residuals,
            jacobian,
        }
    }

    fn with(&self, values: &[f64]) -> Calibration {
        let mut calibration = self.start.clone();
        let mut rest = values;
        let mut slots = self.slots;
        // Sections lie together.
        while let Some(first) = slots.first() {
            let count = first.section.names().len();
            let own: Vec<f64> = slots[..count]
                .iter()
                .zip(rest)
                .map(|(slot, value)| value.min(slot.most()))
                .collect();
            calibration.set_values(&first.section, &own);
            (slots, rest) = (&slots[count..], &rest[count..]);
        }
        calibration
    }

    fn residuals(&self, values: &[f64]) -> Vec<f64> {
        let calibration = self.with(values);
        let of_rows: Vec<Vec<f64>> = self
            .rows
            .par_iter()
            .map(|row| row.residuals(&calibration, None))
            .collect();
        of_rows.concat()
    }

    /// A column for each parameter; a row is asked only about those that its
    /// prediction depends on.
    fn derivatives(&self, values: &[f64], here: &[f64]) -> DMatrix<f64> {
        let at = self.with(values);
        let moved: Vec<Calibration> = self
            .slots
            .iter()
            .zip(values)
            .map(|(slot, value)| {
                let mut moved = at.clone();
                moved.set(slot, value * DELTA.exp());
                moved
            })
            .collect();
        let mut starts = Vec::with_capacity(self.rows.len());
        let mut count = 0;
        for row in self.rows {
            starts.push(count);
            count += row.outputs();
        }
        let of_rows: Vec<Vec<(usize, usize, f64)>> = self
            .rows
            .par_iter()
            .zip(&starts)
            .map(|(row, &first)| {
                let layers = row.layers(&at);
                let mut entries = Vec::new();
                for (k, slot) in self.slots.iter().enumerate() {
                    if !row.touches(&slot.section) {
                        continue;
                    }
                    let same_layers = !matches!(slot.section, Section::Accelerator | Section::Cpu);
                    let there = row.residuals(&moved[k], same_layers.then_some(&layers));
                    for (i, there) in there.iter().enumerate() {
                        entries.push((first + i, k, (there - here[first + i]) / DELTA));
                    }
                }
                entries
            })
            .collect();
        let mut columns = DMatrix::zeros(count, self.slots.len());
        for (row, column, value) in of_rows.into_iter().flatten() {
            columns[(row, column)] = value;
        }
        columns
    }
}

/// (`JᵀJ` + P)⁻¹, where P holds the priors' inverse variances.
fn covariance(jacobian: &DMatrix<f64>, priors: &[Prior]) -> DMatrix<f64> {
    let mut information = jacobian.tr_mul(jacobian);
    for (k, prior) in priors.iter().enumerate() {
        information[(k, k)] += 1.0 / (prior.spread * prior.spread);
    }
    let count = priors.len();
    information.cholesky().map_or_else(
        || DMatrix::identity(count, count),
        |factors| factors.inverse(),
    )
}
