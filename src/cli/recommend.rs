//! `stepcast recommend`.

use super::args::{Format, RecommendArgs};
use super::files::Failure;
use super::output;
use super::predict::sheet;
use super::view::PredictionView;
use crate::job::{Batch, Job};
use crate::plan::{Recommendation, Wish, recommend, recommend_minibatch};
use serde::Serialize;

#[derive(Serialize)]
struct RecommendationView {
    workers: usize,
    nodes: Vec<String>,
    price_per_hour: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub_batch: Option<u32>,
    prediction: PredictionView,
}

pub(super) fn run(args: RecommendArgs) -> Result<(), Failure> {
    let RecommendArgs {
        question,
        model,
        objective,
        target_speedup,
        min_marginal_gain,
        minibatch,
        max_workers,
        output: format,
    } = args;
    for (flag, value) in [
        ("--target-speedup", target_speedup),
        ("--min-marginal-gain", min_marginal_gain),
    ] {
        if value.is_some_and(|v| !v.is_finite() || v <= 0.0) {
            return Err(format!(
                "{flag}: found `{}`, expected a number above zero",
                value.unwrap_or_default()
            )
            .into());
        }
    }
    let asked = question.read()?;
    let ask = asked.ask(model, max_workers)?;
    if let Some(range) = minibatch {
        let plan = recommend_minibatch(ask, range)?;
        let job = Job {
            batch: Batch::PerWorker(plan.sub_batch),
            ..asked.job.clone()
        };
        return print(&job, &plan.recommendation, Some(plan.sub_batch), format);
    }
    let wish = Wish {
        objective: objective.into(),
        target_speedup,
        min_marginal_gain,
    };
    let found = recommend(ask, &wish)?;
    print(&asked.job, &found, None, format)
}

fn print(
    job: &Job,
    found: &Recommendation,
    sub_batch: Option<u32>,
    format: Format,
) -> Result<(), Failure> {
    let view = RecommendationView {
        workers: found.prediction.workers,
        nodes: found.nodes.clone(),
        price_per_hour: found.price_per_hour,
        sub_batch,
        prediction: PredictionView::from(&found.prediction),
    };
    match format {
        Format::Table => {
            output::warn(&found.prediction.warnings);
            let price = found
                .price_per_hour
                .map_or_else(String::new, |p| format!(", {p:.2} an hour"));
            output::print(&format!(
                "take {} on {}{price}{}:\n{}\n\n{}",
                output::count(found.prediction.workers, "worker"),
                output::count(found.nodes.len(), "node"),
                sub_batch.map_or_else(String::new, |b| format!(", sub-batch {b}")),
                listed(&found.nodes),
                sheet(job, &found.prediction)
            ))
        }
        Format::Csv => {
            output::warn(&found.prediction.warnings);
            let rows: Vec<Vec<String>> = found.nodes.iter().map(|n| vec![n.clone()]).collect();
            output::print(&output::csv(&["node"], &rows))
        }
        Format::Json | Format::Yaml => output::print(&output::document(&view, format)?),
    }
}

/// Names within 76 columns, at most a screenful.
fn listed(names: &[String]) -> String {
    const MOST: usize = 40;
    let mut lines = vec![String::from(" ")];
    for name in names.iter().take(MOST) {
        let line = lines.last_mut().expect("there is a line");
        if line.chars().count() + name.chars().count() > 75 {
            lines.push(format!("  {name}"));
        } else {
            line.push(' ');
            line.push_str(name);
        }
    }
    if names.len() > MOST {
        lines.push(format!(
            "  … and {} more; -o json lists all",
            names.len() - MOST
        ));
    }
    lines.join("\n")
}
