//! `stepcast tune`.

use super::args::{Format, TuneArgs};
use super::files::Failure;
use super::output;
use super::predict::headline;
use super::view::PredictionView;
use crate::plan::{Suggestion, tune};
use serde::Serialize;

#[derive(Serialize)]
struct TuneView<'a> {
    now: PredictionView,
    suggestions: Vec<SuggestionView<'a>>,
}

#[derive(Serialize)]
struct SuggestionView<'a> {
    what: &'a str,
    setting: &'a str,
    iteration_time_s: f64,
    gain: f64,
    scaling_factor: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    buckets: Option<&'a [u32]>,
}

impl<'a> From<&'a Suggestion> for SuggestionView<'a> {
    fn from(s: &'a Suggestion) -> Self {
        Self {
            what: &s.what,
            setting: &s.setting,
            iteration_time_s: s.step_time.get(),
            gain: s.gain,
            scaling_factor: s.scaling_factor,
            buckets: s.buckets.as_deref(),
        }
    }
}

pub(super) fn run(args: TuneArgs) -> Result<(), Failure> {
    let TuneArgs {
        question,
        output: format,
    } = args;
    let asked = question.read()?;
    let ask = asked.ask(None, None)?;
    let (now, suggestions) = tune(ask, &asked.selection)?;
    match format {
        Format::Table if suggestions.is_empty() => {
            output::warn(&now.warnings);
            output::print(
                "nothing to suggest: no setting that was tried runs there and fits in memory",
            )
        }
        Format::Table => {
            output::warn(&now.warnings);
            let mut table = output::table(&["change", "step time", "gain", "scaling", "setting"]);
            for s in &suggestions {
                table.add_row(vec![
                    s.what.clone(),
                    s.step_time.to_string(),
                    format!("{:+.1}%", s.gain * 100.0),
                    format!("{:.2}", s.scaling_factor),
                    s.setting.clone(),
                ]);
            }
            output::print(&format!(
                "{}\nnow: {} a step, scaling factor {:.2}\n\n{table}\ngain is in samples a second; only what fits in memory is shown",
                headline(&asked.job, now.workers),
                now.step.time,
                now.scaling_factor()
            ))
        }
        Format::Csv => {
            output::warn(&now.warnings);
            let rows: Vec<Vec<String>> = suggestions
                .iter()
                .map(|s| {
                    vec![
                        s.what.clone(),
                        s.setting.clone(),
                        s.step_time.get().to_string(),
                        s.gain.to_string(),
                        s.scaling_factor.to_string(),
                    ]
                })
                .collect();
            let header = [
                "change",
                "setting",
                "iteration_time_s",
                "gain",
                "scaling_factor",
            ];
            output::print(&output::csv(&header, &rows))
        }
        Format::Json | Format::Yaml => {
            let view = TuneView {
                now: PredictionView::from(&now),
                suggestions: suggestions.iter().map(SuggestionView::from).collect(),
            };
            output::print(&output::document(&view, format)?)
        }
    }
}
