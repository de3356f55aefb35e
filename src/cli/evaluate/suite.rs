//! Several evaluations, as one page.

use super::{page, warn_of};
use crate::calibration::Calibration;
use crate::cli::args::FoldByName;
use crate::cli::files::{Failure, read_runs, read_small};
use crate::evaluate::{Evaluation, Parting, Report};
use crate::plot;
use clap::ValueEnum;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Suite {
    evaluations: Vec<Item>,
}

/// One evaluation of a suite.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Item {
    /// Names its picture.
    pub(super) name: String,
    pub(super) title: String,
    pub(super) about: String,
    runs: Vec<PathBuf>,
    #[serde(default)]
    group: Option<String>,
    #[serde(default)]
    folds: Option<usize>,
    #[serde(default)]
    fold_by: Option<String>,
    #[serde(default)]
    compute_given: bool,
    /// The mean error that was promised, over all runs.
    #[serde(default)]
    pub(super) at_most: Option<f64>,
    /// The same of single groups.
    #[serde(default)]
    pub(super) at_most_of: BTreeMap<String, f64>,
}

impl Item {
    /// Promises that are not kept.
    fn broken(&self, report: &Report<'_>) -> Vec<String> {
        let groups = report.groups();
        let of_groups = groups
            .iter()
            .filter_map(|g| Some((g, *self.at_most_of.get(&g.group)?)));
        let overall = report.overall();
        let all = self.at_most.map(|most| (&overall, most));
        of_groups
            .chain(all)
            .filter_map(|(judged, most)| {
                let mape = judged.ours?.mape;
                (mape > most).then(|| {
                    let (found, most) = (super::percent(mape), super::percent(most));
                    format!("{}: {}: {found}, promised {most}", self.name, judged.group)
                })
            })
            .collect()
    }
}

/// Evaluates everything; writes the page and its pictures, or with `check`
/// says where the page is out of date.
pub(super) fn run(
    suite: &Path,
    page: &Path,
    check: bool,
    calibration: &Calibration,
) -> Result<(), Failure> {
    let text = read_small(suite)?;
    let read: Result<Suite, String> = crate::input::parse(&text);
    let Suite { evaluations } = read.map_err(|error| format!("{}: {error}", suite.display()))?;
    let folder = suite.parent().unwrap_or(Path::new(""));
    let mut sections = Vec::with_capacity(evaluations.len());
    let mut broken = Vec::new();
    for item in &evaluations {
        let paths: Vec<PathBuf> = item.runs.iter().map(|p| folder.join(p)).collect();
        let runs = read_runs(&paths, item.group.as_deref())?;
        let parting = match item.folds {
            Some(folds) => {
                let name = item.fold_by.as_deref().unwrap_or("placement");
                let by = FoldByName::from_str(name, false)
                    .map_err(|error| format!("{}: fold_by: {error}", item.name))?;
                Parting::Folds(by.into(), folds)
            }
            None => Parting::AsMarked,
        };
        let evaluation = Evaluation {
            parting,
            compute_given: item.compute_given,
            calibration,
        };
        let report: Report<'_> = evaluation.run(&runs);
        // With compute given, runs without compute times are no news.
        if !item.compute_given {
            warn_of(&report);
        }
        if !check {
            let picture = folder.join(format!("{}.svg", item.name));
            std::fs::write(&picture, plot::scatter(&report, &item.name)?)?;
        }
        broken.extend(item.broken(&report));
        sections.push(page::section(item, &report));
    }
    if check && !broken.is_empty() {
        return Err(broken.join("\n").into());
    }
    let text = page::whole(&evaluations, &sections);
    if !check {
        return Ok(std::fs::write(page, text)?);
    }
    let there = read_small(page)?;
    match page::difference(&there, &text) {
        None => Ok(()),
        Some(line) => Err(format!(
            "{} is out of date: {line}\n  hint: write it again, without --check",
            page.display()
        )
        .into()),
    }
}
