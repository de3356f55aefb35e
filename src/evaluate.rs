//! Predictions held against measured runs: every model, and the rivals, on
//! runs that nothing was fitted on.

mod errors;
mod pollux;

pub use errors::{Errors, Judged};
pub use pollux::Pollux;

use crate::calibration::Calibration;
use crate::learn::{Learnt, Row, Start, learn};
use crate::model::{ModelName, PredictError, step_of};
use crate::runs::{FoldBy, Run, Split};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// How runs are parted into those fitted on and those reported on.
#[derive(Clone, Copy, Debug)]
pub enum Parting<'a> {
    /// As the runs say; all are reported on where none says.
    AsMarked,
    /// Fitted on these, reported on all others.
    On(&'a [Run]),
    /// Each fold by a fit on all others.
    Folds(FoldBy, usize),
}

/// How to evaluate.
#[derive(Clone, Copy, Debug)]
pub struct Evaluation<'a> {
    /// How the runs are parted.
    pub parting: Parting<'a>,
    /// Take each run's measured compute times.
    pub compute_given: bool,
    /// What fits are drawn towards, and what answers where nothing is fitted.
    /// Where it has seen a run that is reported on, fits begin from what was
    /// believed before it.
    pub calibration: &'a Calibration,
}

/// One way of predicting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// The project's own model for the strategy.
    Ours,
    /// A model by name.
    Model(ModelName),
    /// Pollux's model, fitted on the same runs.
    Pollux,
}

impl Way {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ours => "stepcast",
            Self::Model(name) => name.as_str(),
            Self::Pollux => "pollux",
        }
    }
}

/// The rivals and baselines, in the order of the report.
const RIVALS: [ModelName; 8] = [
    ModelName::Zeng,
    ModelName::Osf,
    ModelName::Csf,
    ModelName::Lin,
    ModelName::Cynthia,
    ModelName::Synchronised,
    ModelName::NoCommunication,
    ModelName::SumOfSpeeds,
];

/// A run with what was predicted.
#[derive(Clone, Debug)]
pub struct Verdict<'a> {
    /// The run.
    pub run: &'a Run,
    /// The project's own prediction: time and interval.
    pub predicted: f64,
    /// Where it says the truth lies.
    pub interval: (f64, f64),
    /// What the others say.
    pub others: Vec<(Way, f64)>,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// Every run that was reported on.
    pub verdicts: Vec<Verdict<'a>>,
    /// Runs without an answer, and why.
    pub unanswered: Vec<(String, String)>,
    /// What was fitted, one for each part.
    pub fits: Vec<Learnt>,
    /// Whether fits began from the priors, since the calibration had seen
    /// runs that are reported on.
    pub from_priors: bool,
    /// Runs reported on that the answering calibration was fitted on.
    pub not_unseen: usize,
    /// Runs to fit on that were to be reported on as well: they are not.
    pub fitted_on: usize,
}

impl<'f> Evaluation<'f> {
    /// Evaluates.
    pub fn run<'r: 'f>(&self, runs: &'r [Run]) -> Report<'r> {
        let parts = self.parts(runs);
        let has_seen = self.calibration.has_seen();
        let seen = |run: &&Run| has_seen.contains(&run.fingerprint());
        let judged_seen = parts
            .iter()
            .flat_map(|p| &p.judged)
            .filter(|r| seen(r))
            .count();
        let fitted = parts.iter().any(|p| !p.fitted.is_empty());
        let judged: usize = parts.iter().map(|p| p.judged.len()).sum();
        let from_priors = judged_seen > 0 && fitted;
        let start = if from_priors {
            Start::Priors
        } else {
            Start::From(self.calibration)
        };
        let done: Vec<Done<'r>> = parts
            .into_par_iter()
            .map(|part| self.part(&part, start))
            .collect();
        let mut report = Report {
            verdicts: Vec::new(),
            unanswered: Vec::new(),
            fits: Vec::new(),
            from_priors,
            not_unseen: if fitted { 0 } else { judged_seen },
            fitted_on: match self.parting {
                Parting::On(_) => runs.len() - judged,
                _ => 0,
            },
        };
        for part in done {
            report.verdicts.extend(part.verdicts);
            report.unanswered.extend(part.unanswered);
            report.fits.extend(part.fit);
        }
        report
            .verdicts
            .sort_by(|a, b| (&a.run.group, &a.run.id).cmp(&(&b.run.group, &b.run.id)));
        report
    }

    fn parts<'r: 'f>(&self, runs: &'r [Run]) -> Vec<Part<'f, 'r>> {
        match self.parting {
            Parting::On(fitted) => {
                let own: Vec<u32> = fitted.iter().map(Run::fingerprint).collect();
                let unseen = |run: &&Run| !own.contains(&run.fingerprint());
                vec![Part {
                    fitted: fitted.iter().collect(),
                    judged: runs.iter().filter(unseen).collect(),
                }]
            }
            Parting::AsMarked => {
                let marked = |run: &&Run| run.split == Some(Split::Calibrate);
                let (fitted, judged) = runs.iter().partition(marked);
                vec![Part { fitted, judged }]
            }
            Parting::Folds(by, count) => {
                let fold_of = by.folds(runs, count);
                let folds = fold_of.iter().max().map_or(0, |most| most + 1);
                (0..folds)
                    .map(|fold| {
                        let own = |(_, f): &(&Run, &usize)| **f == fold;
                        let (judged, fitted): (Vec<_>, Vec<_>) =
                            runs.iter().zip(&fold_of).partition(own);
                        Part {
                            fitted: fitted.into_iter().map(|(run, _)| run).collect(),
                            judged: judged.into_iter().map(|(run, _)| run).collect(),
                        }
                    })
                    .collect()
            }
        }
    }

    fn part<'r>(&self, part: &Part<'_, 'r>, start: Start<'_>) -> Done<'r> {
        let fit = (!part.fitted.is_empty()).then(|| learn(&part.fitted, start));
        let calibration = fit.as_ref().map_or(self.calibration, |f| &f.calibration);
        let pollux = Pollux::fit(&part.fitted);
        let mut done = Done {
            verdicts: Vec::with_capacity(part.judged.len()),
            unanswered: Vec::new(),
            fit: None,
        };
        let judged: Vec<_> = part
            .judged
            .par_iter()
            .map(|run| (run, self.judge(run, calibration, &pollux)))
            .collect();
        for (run, verdict) in judged {
            match verdict {
                Ok(verdict) => done.verdicts.push(verdict),
                Err(why) => done.unanswered.push((run.id.clone(), why)),
            }
        }
        done.fit = fit;
        done
    }

    fn judge<'r>(
        &self,
        run: &'r Run,
        calibration: &Calibration,
        pollux: &Pollux,
    ) -> Result<Verdict<'r>, String> {
        let row = Row::new(run, calibration).map_err(|e| e.to_string())?;
        let layers = row.layers(calibration);
        let mut case = row.case(calibration, &layers);
        if self.compute_given {
            let given = run.given.as_ref();
            given
                .ok_or("its context has no compute times to be given")?
                .apply(&mut case, &row.class_of);
        }
        let ask = |model: ModelName| -> Result<f64, PredictError> {
            Ok(step_of(model, &case)?.time.get())
        };
        let own = ModelName::default_for(&run.job.strategy)
            .ok_or_else(|| PredictError::NoModel(run.job.strategy.to_string()).to_string())?;
        let step = step_of(own, &case).map_err(|e| e.to_string())?;
        let interval = crate::model::interval(&case, &step);
        let mut others: Vec<(Way, f64)> = RIVALS
            .iter()
            .filter_map(|&model| Some((Way::Model(model), ask(model).ok()?)))
            .collect();
        others.extend(pollux.predict(run).map(|time| (Way::Pollux, time)));
        Ok(Verdict {
            run,
            predicted: step.time.get(),
            interval: (interval.low.get(), interval.high.get()),
            others,
        })
    }
}

struct Part<'f, 'r> {
    fitted: Vec<&'f Run>,
    judged: Vec<&'r Run>,
}

struct Done<'r> {
    verdicts: Vec<Verdict<'r>>,
    unanswered: Vec<(String, String)>,
    fit: Option<Learnt>,
}

impl Report<'_> {
    /// Errors by group, in order.
    pub fn groups(&self) -> Vec<Judged> {
        let mut groups: BTreeMap<&str, Vec<&Verdict<'_>>> = BTreeMap::new();
        for verdict in &self.verdicts {
            groups.entry(&verdict.run.group).or_default().push(verdict);
        }
        groups
            .into_iter()
            .map(|(group, verdicts)| Judged::of(group, &verdicts))
            .collect()
    }

    /// Errors over all runs.
    pub fn overall(&self) -> Judged {
        let all: Vec<&Verdict<'_>> = self.verdicts.iter().collect();
        Judged::of("overall", &all)
    }

    /// The ways that gave any answer, ours first.
    pub fn ways(&self) -> Vec<Way> {
        let mut ways = vec![Way::Ours];
        for (way, _) in self.verdicts.iter().flat_map(|v| &v.others) {
            if !ways.contains(way) {
                ways.push(*way);
            }
        }
        ways.sort();
        ways
    }
}
