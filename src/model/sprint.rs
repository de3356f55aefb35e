//! SPRINT: asynchronous SGD over all-reduce (Oyama et al. 2016).
//!
//! On every node, GPU threads compute gradients and add them to a buffer
//! each (Algorithm 1); one update thread sums the fresh buffers, all-reduces
//! with the other nodes and writes the weights back (Algorithm 2). How often
//! each meets the other depends on how long both take: `T_GPU` and
//! `T_Update` are a fixed point.

mod barrier;
mod elements;
mod fixed_point;
mod threads;

pub use elements::{Elements, Facts};
pub use fixed_point::{Reading, Rounds, Unsettled, solve};

use fixed_point::gpu_given_update;
pub use threads::{Observed, simulate};

use super::case::{Case, Class};
use super::compute::Timing;
use super::prediction::{Asynchronous, Bottleneck, Carrier, Part, Step};
use crate::device::{DeviceKind, MEMORY_PER_THREAD};
use crate::job::{AsyncAllReduce, Strategy};
use crate::measured::GemmTable;
use crate::units::{Bytes, Seconds};
use crate::workload::Workload;

/// Latency of a message of an all-reduce: a hop, not a request of a server.
const MESSAGE: f64 = 5e-5;

/// A step of every worker and what the weights see of it.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The step.
    pub step: Step,
    /// The rest.
    pub asynchronous: Asynchronous,
}

/// Answers a case; `None` when its strategy is another.
pub fn answer(case: &Case<'_>) -> Result<Option<Answer>, Unsettled> {
    let Strategy::AsyncAllReduce(strategy) = &case.job.strategy else {
        return Ok(None);
    };
    // Nodes that differ are kept together by the all-reduce: the one whose
    // update thread takes longest sets the pace of all updates.
    let mut rounds = Vec::with_capacity(case.classes.len());
    for class in &case.classes {
        let elements = elements(case, class, strategy);
        rounds.push((elements, solve(&elements, Reading::Corrected)?));
    }
    let update = rounds.iter().map(|r| r.1.update).fold(0.0, f64::max);
    let mut speed = 0.0;
    for (class, (elements, round)) in case.classes.iter().zip(&mut rounds) {
        round.gpu = gpu_given_update(elements, round.gpu, update);
        speed += f64::from(class.count) * f64::from(class.batch) / round.gpu;
    }
    let time = case.samples() / speed;
    let slowest = (1..rounds.len()).fold(0, |s, i| {
        if rounds[i].1.gpu > rounds[s].1.gpu {
            i
        } else {
            s
        }
    });
    let (elements, round) = &rounds[slowest];
    Ok(Some(Answer {
        step: step(case, slowest, elements, round, update, time),
        asynchronous: Asynchronous {
            mean_minibatch: speed * update,
            update_time: Seconds::new(update),
            epoch_time: strategy
                .samples
                .map(|samples| Seconds::new(samples as f64 / speed)),
        },
    }))
}

fn step(
    case: &Case<'_>,
    slowest: usize,
    elements: &Elements,
    round: &Rounds,
    update: f64,
    time: f64,
) -> Step {
    let class = &case.classes[slowest];
    let gpu = round.gpu;
    let scale = time / gpu;
    let part = |name, seconds: f64| Part::new(name, Seconds::new(seconds * scale));
    let fetch = elements.fetch * (gpu / update).min(1.0);
    let parts = [
        part("fetch", fetch),
        part("input", elements.load + elements.deform),
        part("compute", elements.gradient),
        part("update", elements.update_value + elements.update_gradient),
        part("locks", 0.0),
    ];
    let computing = (elements.gradient + elements.update_value) * scale;
    let reducing = elements.all_reduce / update * time;
    let bottleneck = if reducing > computing {
        Bottleneck::AllReduce {
            over: Carrier::Nic,
            class: slowest,
            rate: class.nic,
            bytes: Bytes::new(
                case.job.workload.parameters() as f64 * case.job.precision.parameter_bytes(),
            ),
            busy: Seconds::new(reducing.min(time)),
        }
    } else {
        Bottleneck::Compute {
            class: slowest,
            busy: Seconds::new(computing),
        }
    };
    Step::new(Seconds::new(time), bottleneck, &parts)
}

/// The elements of Tables 3 and 4 for a class of workers: the user's where
/// they are given, the hardware's otherwise.
fn elements(case: &Case<'_>, class: &Class, strategy: &AsyncAllReduce) -> Elements {
    let job = case.job;
    let timing = &class.timing;
    let gradient = strategy.gemm.as_ref().map_or_else(
        || timing.compute().get(),
        |table| gradient_time(table, &job.workload, f64::from(class.batch), timing),
    );
    let host_link = match class.device.kind {
        DeviceKind::Accelerator => class.device.host_link.get(),
        DeviceKind::Cpu => MEMORY_PER_THREAD.get(),
    };
    let facts = Facts {
        nodes: case.nodes,
        gpus: class.sharing,
        sub_batch: class.batch,
        parameters: job.workload.parameters() as f64,
        parameter_bytes: job.precision.parameter_bytes(),
        sample_bytes: strategy.sample_bytes,
        gradient_s: gradient,
        host_link,
        device_memory: class.device.memory_rate.get(),
        host_memory: MEMORY_PER_THREAD.get(),
        nic: class.nic.get() * case.calibration.transfer.goodput,
        latency_s: MESSAGE,
    };
    let mut elements = Elements::of(&facts);
    if let Some(coefficients) = &strategy.coefficients {
        elements.replace(coefficients, &facts);
    }
    elements
}

/// Forward and backward of every product of a network (4); layers that are
/// none take what the compute model says.
fn gradient_time(table: &GemmTable, workload: &Workload, batch: f64, timing: &Timing) -> f64 {
    let mut time = 0.0;
    for (i, layer) in workload.layers.iter().enumerate() {
        let Some(gemm) = layer.gemm else {
            time += timing.forward[i].get() + timing.backward[i].get();
            continue;
        };
        let (rows, columns, depth) = (gemm.rows * batch, gemm.columns, gemm.depth);
        let each = table.time([rows, columns, depth])
            + table.time([rows, depth, columns])
            + table.time([depth, columns, rows]);
        time += each * gemm.groups;
    }
    time
}
