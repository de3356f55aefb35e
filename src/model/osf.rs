//! Liu 2022 asked of a case.

use super::case::Case;
use super::liu::{
    Layer, overlap, plan_adaptive, plan_buffer, plan_mg_wfbp, plan_none, update_time,
};
use super::prediction::{Bottleneck, Part, Step};
use super::ring;
use crate::job::{Fusion, Strategy};
use crate::units::{Bytes, Seconds};

/// The paper's model asked of a case. Its utilisation is the one at which the
/// compute model's time comes out; β and δ are the calibrated collective's.
pub(super) fn step(case: &Case<'_>, overlapped: bool) -> Option<Step> {
    let Strategy::AllReduce(strategy) = case.job.strategy else {
        return None;
    };
    let slowest = case.slowest();
    let timing = &case.classes[slowest].timing;
    let compute = timing.step().get();
    let cost = ring::Cost::of(case);
    let layers = layers(case, slowest, strategy.compression);
    let time = |bytes: f64| cost.time(bytes);
    let total: f64 = layers.iter().map(|l| l.bytes).sum();
    let exposed = if case.workers == 1 {
        0.0
    } else if overlapped && strategy.overlap {
        let plan = match strategy.fusion {
            Fusion::None | Fusion::Partition { .. } => plan_none(&layers),
            Fusion::Buffer { buffer, timeout } => plan_buffer(
                &layers,
                buffer.get(),
                timeout.map_or(f64::INFINITY, Seconds::get),
            ),
            Fusion::Adaptive => plan_adaptive(&layers, &time),
            Fusion::MgWfbp => plan_mg_wfbp(&layers, cost.startup(), cost.per_byte()),
        };
        (update_time(&layers, &plan, &time) - overlap(&layers)).max(0.0)
    } else {
        time(total)
    };
    let busy = if case.workers == 1 { 0.0 } else { time(total) };
    let (forward, backward) = (timing.forward_total(), timing.backward_total());
    let bottleneck = if busy > compute {
        Bottleneck::AllReduce {
            over: cost.carrier(),
            class: cost.class(),
            rate: cost.rate(),
            bytes: Bytes::new(total),
            busy: Seconds::new(busy),
        }
    } else {
        Bottleneck::Compute {
            class: slowest,
            busy: Seconds::new(compute),
        }
    };
    let parts = [
        Part::new("forward", forward),
        Part::new("backward", backward),
        Part::new("update", timing.optimizer),
        Part::new("all_reduce", Seconds::new(exposed)),
    ];
    Some(Step::new(
        Seconds::new(compute + exposed),
        bottleneck,
        &parts,
    ))
}

/// The case's layers with the compute model's backward times.
fn layers(case: &Case<'_>, class: usize, compression: f64) -> Vec<Layer> {
    let timing = &case.classes[class].timing;
    let element = case.job.precision.parameter_bytes() * compression;
    let workload = &case.job.workload.layers;
    workload
        .iter()
        .zip(&timing.backward)
        .map(|(layer, backward)| Layer {
            bytes: layer.parameter_count() as f64 * element,
            backward: backward.get(),
        })
        .collect()
}
