//! `stepcast predict`.

use super::args::{Format, PredictArgs};
use super::files::{Asked, Failure};
use super::output;
use super::view::PredictionView;
use crate::job::{Batch, Job};
use crate::model::{Case, ModelName, Prediction, Query, Timings, predict, ps, ring};
use crate::placement::Placement;
use crate::timeline;
use std::fmt::Write;
use std::path::Path;

/// Blocks of a bar at full length.
const BAR: f64 = 24.0;

pub(super) fn run(args: PredictArgs) -> Result<(), Failure> {
    let PredictArgs {
        question,
        model,
        timeline,
        output: format,
    } = args;
    let asked = question.read()?;
    let prediction = predict(&Query {
        job: &asked.job,
        cluster: &asked.cluster,
        selection: &asked.selection,
        model,
        baseline: asked.baseline.as_deref(),
        calibration: &asked.calibration,
        simulation_events: None,
    })?;
    if let Some(path) = timeline {
        write_timeline(&path, &asked, prediction.model)?;
    }
    let view = PredictionView::from(&prediction);
    match format {
        Format::Table => {
            output::warn(&prediction.warnings);
            output::print(&sheet(&asked.job, &prediction))
        }
        Format::Csv => {
            output::warn(&prediction.warnings);
            output::print(&output::csv(&PredictionView::COLUMNS, &[view.row()]))
        }
        Format::Json | Format::Yaml => output::print(&output::document(&view, format)?),
    }
}

fn write_timeline(path: &Path, asked: &Asked, model: ModelName) -> Result<(), Failure> {
    let placement = Placement::select(&asked.job, &asked.cluster, &asked.selection)?;
    let mut timings = Timings::default();
    let case = Case::new(
        &asked.job,
        &asked.cluster,
        &asked.calibration,
        &placement,
        &mut timings,
    )?;
    let spans = match model {
        ModelName::Ps => ps::Model::new(&case).map(|mut m| m.spans()),
        ModelName::Ring => ring::Model::new(&case).map(|m| m.spans()),
        ModelName::Compute => Some(timeline::alone(&case)),
        _ => None,
    };
    let spans = spans.ok_or_else(|| {
        format!(
            "the model `{model}` has no timeline\n  hint: `ps`, `ring` and `compute` do; `stepcast simulate --trace` shows steps that nobody waits for"
        )
    })?;
    let trace = timeline::chrome_trace(&case, &spans);
    std::fs::write(path, trace)
        .map_err(|error| format!("--timeline {}: {error}", path.display()))?;
    Ok(())
}

/// One line about the job.
pub(super) fn headline(job: &Job, workers: usize) -> String {
    let name = job.name.as_deref().unwrap_or(&job.workload.name);
    let batch = match &job.batch {
        Batch::PerWorker(size) => format!("batch {size} a worker"),
        Batch::Global(samples) => format!("batch {samples} over all workers"),
        Batch::Each(_) => "batch by worker".to_owned(),
    };
    let plural = if workers == 1 { "" } else { "s" };
    format!(
        "{name}: {}, {batch}, {}, {}\non {workers} worker{plural}",
        job.workload.name, job.precision, job.strategy
    )
}

/// The answer for eyes, within 80 columns.
pub(super) fn sheet(job: &Job, p: &Prediction) -> String {
    let mut text = headline(job, p.workers);
    text.push_str("\n\n");
    let mut line = |name: &str, value: String| {
        let mut label = name;
        for part in output::wrapped(&value, 62) {
            let _ = writeln!(text, "  {label:<15} {part}");
            label = "";
        }
    };
    line(
        "step time",
        format!(
            "{}   ({:.0} % sure: {} to {})",
            p.step.time,
            p.interval.level * 100.0,
            p.interval.low,
            p.interval.high
        ),
    );
    line("throughput", format!("{:.1} samples/s", p.throughput()));
    line(
        "speedup",
        format!(
            "{:.2}× one worker on {} ({} a step)",
            p.speedup, p.baseline.node, p.baseline.iteration_time
        ),
    );
    line("scaling factor", format!("{:.2}", p.scaling_factor()));
    line("bottleneck", p.bottleneck.clone());
    if let Some(memory) = &p.memory {
        let verdict = if memory.fits() {
            "fits"
        } else {
            "DOES NOT FIT"
        };
        line(
            "memory",
            format!(
                "{verdict}: needs {} of {} on the tightest device",
                memory.needed, memory.available
            ),
        );
    }
    if let Some(asynchronous) = &p.asynchronous {
        let epoch = asynchronous
            .epoch_time
            .map_or_else(String::new, |t| format!(", an epoch takes {t}"));
        line(
            "updates",
            format!(
                "every {}, of {:.1} samples on average{epoch}",
                asynchronous.update_time, asynchronous.mean_minibatch
            ),
        );
    }
    if let Some(finish) = &p.finish {
        let cost = finish.cost.map_or_else(String::new, |c| {
            format!(", costs {c:.2} at the nodes' prices")
        });
        line(
            "finish",
            format!("{} steps take {}{cost}", finish.steps, finish.time),
        );
    }
    let calibration = p.calibration.as_deref().unwrap_or("shipped");
    line("model", format!("{}, {calibration} calibration", p.model));
    text.push_str("\n  where the time goes\n");
    for part in p.step.parts() {
        let share = part.time / p.step.time;
        let blocks = "█".repeat((share * BAR).round().max(0.0) as usize);
        let time = part.time.to_string();
        let _ = writeln!(
            text,
            "  {:<15} {time:>11} {:>4.0} % {blocks}",
            part.name,
            share * 100.0
        );
    }
    text
}
