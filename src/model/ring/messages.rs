//! Gradients become messages, as the frameworks do it.

use super::Cost;
use crate::job::{AllReduce, Fusion, Precision};
use crate::model::compute::Timing;
use crate::model::liu;
use crate::units::{Bytes, Seconds};
use crate::workload::Workload;

/// The first bucket of `PyTorch`'s DDP, whatever the cap.
const FIRST_BUCKET: Bytes = Bytes::from_mib(1.0);

/// One gradient as it becomes ready.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gradient {
    /// Share of the backward pass that is done then.
    pub(super) share: f64,
    /// Seconds of the backward pass until then, alone.
    moment: f64,
    /// Its bytes on the wire.
    pub(super) bytes: f64,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message {
    /// Share of the backward pass that is done when its last gradient is
    /// ready.
    pub share: f64,
    /// Its bytes.
    pub bytes: f64,
    /// Gradients in it.
    pub tensors: u32,
    /// How long it is held back after that, in seconds.
    pub wait: f64,
}

/// Gradients in the order in which they become ready.
pub(super) fn gradients(
    workload: &Workload,
    timing: &Timing,
    precision: Precision,
    strategy: &AllReduce,
) -> Vec<Gradient> {
    // Of several accumulated passes the last one sends.
    let passes = f64::from(strategy.accumulation);
    let total = timing.backward_total().get();
    let mut moments = vec![0.0; timing.backward.len()];
    let mut clock = 0.0;
    for (layer, time) in timing.backward.iter().enumerate().rev() {
        clock += time.get();
        moments[layer] = clock;
    }
    let element = precision.parameter_bytes() * strategy.compression;
    workload
        .gradients()
        .map(|tensor| Gradient {
            share: if total > 0.0 {
                moments[tensor.layer] / total
            } else {
                1.0
            },
            moment: moments[tensor.layer] / passes,
            bytes: tensor.elements as f64 * element,
        })
        .collect()
}

/// The messages of a strategy.
pub(super) fn plan(ready: &[Gradient], strategy: &AllReduce, cost: &Cost) -> Vec<Message> {
    match strategy.fusion {
        Fusion::None => ready.iter().map(|g| message(g, g.bytes, 1)).collect(),
        Fusion::Buffer {
            buffer,
            timeout: None,
        } => buckets(ready, buffer.get()),
        Fusion::Buffer {
            buffer,
            timeout: Some(cycle),
        } => cycles(ready, buffer.get(), cycle, cost),
        Fusion::Partition { part, .. } => parts(ready, part.get()),
        Fusion::Adaptive => from_liu(
            ready,
            &liu::plan_adaptive(&as_layers(ready), &|b| cost.time(b)),
        ),
        Fusion::MgWfbp => from_liu(
            ready,
            &liu::plan_mg_wfbp(&as_layers(ready), cost.startup(), cost.per_byte()),
        ),
    }
}

const fn message(last: &Gradient, bytes: f64, tensors: u32) -> Message {
    Message {
        share: last.share,
        bytes,
        tensors,
        wait: 0.0,
    }
}

/// `PyTorch` DDP: buckets in ready order, closed once they reach the cap; the
/// first is 1 MiB.
fn buckets(ready: &[Gradient], cap: f64) -> Vec<Message> {
    let mut messages = Vec::new();
    let (mut bytes, mut tensors, mut limit) = (0.0, 0, FIRST_BUCKET.get().min(cap));
    for (i, gradient) in ready.iter().enumerate() {
        bytes += gradient.bytes;
        tensors += 1;
        if bytes >= limit || i + 1 == ready.len() {
            messages.push(message(gradient, bytes, tensors));
            (bytes, tensors, limit) = (0.0, 0, cap);
        }
    }
    messages
}

/// Horovod: a background thread wakes once a cycle, or when it is done with
/// what it sent, and fuses what is ready by then, up to the buffer.
fn cycles(ready: &[Gradient], buffer: f64, cycle: Seconds, cost: &Cost) -> Vec<Message> {
    let cycle = cycle.get();
    let mut messages = Vec::new();
    let (mut next, mut free) = (0, 0.0_f64);
    while next < ready.len() {
        let first = &ready[next];
        let tick = if cycle > 0.0 {
            ((first.moment / cycle).ceil() * cycle).max(first.moment)
        } else {
            first.moment
        };
        let wakes = tick.max(free);
        let (mut bytes, mut last) = (0.0, next);
        for (i, gradient) in ready.iter().enumerate().skip(next) {
            let fits = i == next || bytes + gradient.bytes <= buffer;
            if gradient.moment > wakes || !fits {
                break;
            }
            bytes += gradient.bytes;
            last = i;
        }
        let tensors = (last + 1 - next) as u32;
        messages.push(Message {
            wait: (tick - ready[last].moment).max(0.0),
            ..message(&ready[last], bytes, tensors)
        });
        free = wakes + cost.time(bytes);
        next = last + 1;
    }
    messages
}

/// Cut into parts of at most `part` bytes.
fn parts(ready: &[Gradient], part: f64) -> Vec<Message> {
    let mut messages = Vec::new();
    for gradient in ready {
        let mut left = gradient.bytes;
        while left > 0.0 {
            messages.push(message(gradient, left.min(part), 1));
            left -= part;
        }
    }
    messages
}

/// Gradients as Liu's layers: from the front, with the time between them.
fn as_layers(ready: &[Gradient]) -> Vec<liu::Layer> {
    let mut before = 0.0;
    let mut layers: Vec<liu::Layer> = ready
        .iter()
        .map(|gradient| {
            let backward = gradient.moment - before;
            before = gradient.moment;
            liu::Layer {
                bytes: gradient.bytes,
                backward,
            }
        })
        .collect();
    layers.reverse();
    layers
}

fn from_liu(ready: &[Gradient], plan: &[liu::Send]) -> Vec<Message> {
    let mut before = 0;
    plan.iter()
        .map(|send| {
            let last = ready.len() - 1 - send.layer;
            let tensors = (last + 1 - before) as u32;
            before = last + 1;
            Message {
                wait: send.wait,
                ..message(&ready[last], send.bytes, tensors)
            }
        })
        .collect()
}
