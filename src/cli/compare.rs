//! `stepcast compare`.

use super::args::{CompareArgs, Format};
use super::files::Failure;
use super::output;
use super::predict::headline;
use super::view::PredictionView;
use crate::model::{ModelName, PredictError, Prediction, Query, predict};

pub(super) fn run(args: CompareArgs) -> Result<(), Failure> {
    let CompareArgs {
        question,
        output: format,
    } = args;
    let asked = question.read()?;
    let mut answers: Vec<Prediction> = Vec::new();
    let mut refusal: Option<PredictError> = None;
    for model in ModelName::ALL {
        if !model.answers(&asked.job.strategy) {
            continue;
        }
        let query = Query {
            job: &asked.job,
            cluster: &asked.cluster,
            selection: &asked.selection,
            model: Some(model),
            baseline: asked.baseline.as_deref(),
            calibration: &asked.calibration,
            simulation_events: None,
        };
        match predict(&query) {
            Ok(prediction) => answers.push(prediction),
            Err(error @ PredictError::WrongModel { .. }) => refusal = Some(error),
            // One that takes too long does not keep the others.
            Err(error @ PredictError::Simulation(_)) => {
                output::warn(&[format!("no simulation: {error}")]);
            }
            Err(error) => return Err(error.into()),
        }
    }
    let Some(first) = answers.first() else {
        return Err(refusal.map_or_else(
            || PredictError::NoModel(asked.job.strategy.to_string()).into(),
            Failure::from,
        ));
    };
    let views: Vec<PredictionView> = answers.iter().map(PredictionView::from).collect();
    match format {
        Format::Table => {
            output::warn(&first.warnings);
            let mut table =
                output::table(&["model", "step time", "against", "speedup", "what it is"]);
            for answer in &answers {
                table.add_row(vec![
                    answer.model.to_string(),
                    answer.step.time.to_string(),
                    format!(
                        "{:+.1} %",
                        (answer.step.time / first.step.time - 1.0) * 100.0
                    ),
                    format!("{:.2}×", answer.speedup),
                    answer.model.about().to_owned(),
                ]);
            }
            output::print(&format!(
                "{}\n\n{table}",
                headline(&asked.job, first.workers)
            ))
        }
        Format::Csv => {
            output::warn(&first.warnings);
            let rows: Vec<Vec<String>> = views.iter().map(PredictionView::row).collect();
            output::print(&output::csv(&PredictionView::COLUMNS, &rows))
        }
        Format::Json | Format::Yaml => output::print(&output::document(&views, format)?),
    }
}
