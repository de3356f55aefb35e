//! Answers as messages.

use crate::cluster::{Node, Role, Source, Transport};
use crate::model::{Bottleneck, Prediction};
use crate::plan::Suggestion;
use crate::protocol::v1;
use crate::units::Seconds;

/// A prediction, whole.
pub(super) fn prediction(p: Prediction) -> v1::Prediction {
    v1::Prediction {
        iteration_time_seconds: p.step.time.get(),
        throughput_samples_per_second: p.throughput(),
        workers: p.workers as u32,
        speedup: p.speedup,
        scaling_factor: p.scaling_factor(),
        model: p.model.as_str().to_owned(),
        breakdown: p
            .step
            .parts()
            .iter()
            .map(|part| v1::Part {
                name: part.name.to_owned(),
                time_seconds: part.time.get(),
            })
            .collect(),
        interval: Some(v1::Interval {
            low_seconds: p.interval.low.get(),
            high_seconds: p.interval.high.get(),
            level: p.interval.level,
        }),
        fits_in_memory: p.memory.map(|m| m.fits()),
        finish_time_seconds: p.finish.map(|f| f.time.get()),
        finish_cost: p.finish.and_then(|f| f.cost),
        mean_minibatch_samples: p.asynchronous.map(|a| a.mean_minibatch),
        baseline: Some(v1::Baseline {
            iteration_time_seconds: p.baseline.iteration_time.get(),
            node: p.baseline.node,
        }),
        bottleneck: p.bottleneck,
        calibration: p.calibration.unwrap_or_default(),
        warnings: p.warnings,
    }
}

/// A prediction in brief.
#[inline]
pub(super) fn score(p: &Prediction) -> v1::Score {
    v1::Score {
        iteration_time_seconds: p.step.time.get(),
        throughput_samples_per_second: p.throughput(),
        workers: p.workers as u32,
        speedup: p.speedup,
        low_seconds: p.interval.low.get(),
        high_seconds: p.interval.high.get(),
        limit: limit(&p.step.bottleneck) as i32,
        error: String::new(),
    }
}

/// Why there is no score.
pub(super) fn no_score(why: String) -> v1::Score {
    v1::Score {
        error: why,
        ..v1::Score::default()
    }
}

const fn limit(bottleneck: &Bottleneck) -> v1::Limit {
    match bottleneck {
        Bottleneck::Compute { .. } => v1::Limit::Compute,
        Bottleneck::ServerLink { .. } => v1::Limit::ServerLink,
        Bottleneck::WorkerLink { .. } => v1::Limit::WorkerLink,
        Bottleneck::AllReduce { .. } => v1::Limit::AllReduce,
        Bottleneck::ServerUpdate { .. } => v1::Limit::ServerUpdate,
    }
}

/// A setting that makes a job faster.
pub(super) fn suggestion(s: Suggestion) -> v1::Suggestion {
    v1::Suggestion {
        what: s.what,
        setting: s.setting,
        iteration_time_seconds: Seconds::get(s.step_time),
        gain_ratio: s.gain,
        scaling_factor: s.scaling_factor,
    }
}

/// A node as the inventory knows it.
pub(super) fn node(node: &Node) -> v1::InventoryNode {
    let place = |text: &Option<std::sync::Arc<str>>| text.as_deref().unwrap_or_default().to_owned();
    let accelerators = node.accelerators.as_ref();
    v1::InventoryNode {
        name: node.name.clone(),
        role: match node.role {
            Role::Worker => v1::Role::Worker,
            Role::Server => v1::Role::Server,
        } as i32,
        accelerator_type: accelerators.map_or_else(String::new, |a| a.device.name.to_string()),
        accelerator_count: accelerators.map_or(0, |a| a.count),
        accelerators_taken: node.taken,
        cpu_type: node
            .cpu
            .as_ref()
            .map_or_else(String::new, |c| c.name.to_string()),
        nic_gbps: node.nic.gbit(),
        transport: match node.transport {
            Transport::Tcp => v1::Transport::Tcp,
            Transport::Rdma => v1::Transport::Rdma,
        } as i32,
        price_per_hour: node.price_per_hour,
        zone: place(&node.place.zone),
        rack: place(&node.place.rack),
        nvlink_domain: place(&node.place.nvlink_domain),
        unusable: node.unusable.clone().unwrap_or_default(),
        facts: node
            .facts
            .iter()
            .map(|fact| v1::Fact {
                name: fact.name.to_string(),
                value: fact.value.clone(),
                source: fact.source.to_string(),
                is_default: fact.source == Source::Default,
                conflicts: fact
                    .conflicts
                    .iter()
                    .map(|(source, value)| v1::Conflict {
                        source: source.to_string(),
                        value: value.clone(),
                    })
                    .collect(),
            })
            .collect(),
        warnings: node.warnings.clone(),
    }
}
