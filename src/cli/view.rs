//! The contract's JSON, from the core's answers.

use crate::model::{Memory, Prediction};
use crate::units::Seconds;
use serde::Serialize;
use std::collections::BTreeMap;

/// A prediction as scripts read it.
#[derive(Debug, Serialize)]
pub(super) struct PredictionView {
    iteration_time_s: f64,
    throughput_samples_per_s: f64,
    workers: usize,
    speedup: f64,
    scaling_factor: f64,
    baseline: BaselineView,
    model: &'static str,
    breakdown: BTreeMap<&'static str, f64>,
    bottleneck: String,
    interval: IntervalView,
    calibration: Option<String>,
    memory: Option<MemoryView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asynchronous: Option<AsynchronousView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish: Option<FinishView>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct BaselineView {
    node: String,
    iteration_time_s: f64,
}

#[derive(Debug, Serialize)]
struct IntervalView {
    low_s: f64,
    high_s: f64,
    level: f64,
}

#[derive(Debug, Serialize)]
struct MemoryView {
    fits: bool,
    needed_bytes: f64,
    available_bytes: f64,
    headroom_bytes: f64,
    weights_bytes: f64,
    optimizer_bytes: f64,
    activations_bytes: f64,
}

#[derive(Debug, Serialize)]
struct AsynchronousView {
    mean_minibatch_samples: f64,
    update_time_s: f64,
    epoch_time_s: Option<f64>,
}

#[derive(Debug, Serialize)]
struct FinishView {
    steps: u64,
    time_s: f64,
    cost: Option<f64>,
}

impl From<&Memory> for MemoryView {
    fn from(memory: &Memory) -> Self {
        Self {
            fits: memory.fits(),
            needed_bytes: memory.needed.get(),
            available_bytes: memory.available.get(),
            headroom_bytes: memory.headroom().get(),
            weights_bytes: memory.weights.get(),
            optimizer_bytes: memory.optimizer.get(),
            activations_bytes: memory.activations.get(),
        }
    }
}

impl From<&Prediction> for PredictionView {
    fn from(p: &Prediction) -> Self {
        Self {
            iteration_time_s: p.step.time.get(),
            throughput_samples_per_s: p.throughput(),
            workers: p.workers,
            speedup: p.speedup,
            scaling_factor: p.scaling_factor(),
            baseline: BaselineView {
                node: p.baseline.node.clone(),
                iteration_time_s: p.baseline.iteration_time.get(),
            },
            model: p.model.as_str(),
            breakdown: p
                .step
                .parts()
                .iter()
                .map(|part| (part.name, part.time.get()))
                .collect(),
            bottleneck: p.bottleneck.clone(),
            interval: IntervalView {
                low_s: p.interval.low.get(),
                high_s: p.interval.high.get(),
                level: p.interval.level,
            },
            calibration: p.calibration.clone(),
            memory: p.memory.as_ref().map(MemoryView::from),
            asynchronous: p.asynchronous.map(|a| AsynchronousView {
                mean_minibatch_samples: a.mean_minibatch,
                update_time_s: a.update_time.get(),
                epoch_time_s: a.epoch_time.map(Seconds::get),
            }),
            finish: p.finish.map(|f| FinishView {
                steps: f.steps,
                time_s: f.time.get(),
                cost: f.cost,
            }),
            warnings: p.warnings.clone(),
        }
    }
}

impl PredictionView {
    /// Columns of the CSV form.
    pub(super) const COLUMNS: [&'static str; 7] = [
        "workers",
        "iteration_time_s",
        "throughput_samples_per_s",
        "speedup",
        "scaling_factor",
        "model",
        "bottleneck",
    ];

    /// The same as one row.
    pub(super) fn row(&self) -> Vec<String> {
        vec![
            self.workers.to_string(),
            self.iteration_time_s.to_string(),
            self.throughput_samples_per_s.to_string(),
            self.speedup.to_string(),
            self.scaling_factor.to_string(),
            self.model.to_owned(),
            self.bottleneck.clone(),
        ]
    }
}
