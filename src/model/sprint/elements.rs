//! What Tables 3 and 4 add up: each element of a GPU thread's round and of an
//! update thread's, from the hardware or from the user's own timings.

use crate::measured::{Coefficients, Linear};

/// Seconds of the elements that do not depend on how the threads meet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elements {
    /// Nodes.
    pub nodes: u32,
    /// GPU threads of a node.
    pub gpus: u32,
    /// Samples of a GPU thread's round.
    pub sub_batch: u32,
    /// `FetchWeights`, where the weights are new.
    pub fetch: f64,
    /// `LoadImage`.
    pub load: f64,
    /// `DeformImage`.
    pub deform: f64,
    /// `ComputeGradient`.
    pub gradient: f64,
    /// `ComputeUpdateVal`.
    pub update_value: f64,
    /// `UpdateGradient`, under the buffer's lock.
    pub update_gradient: f64,
    /// `SumGradient` of one fresh buffer, under its lock.
    pub sum_one: f64,
    /// `UpdateOldWeights`.
    pub old_weights: f64,
    /// `AddMomentum`.
    pub add_momentum: f64,
    /// `Allreduce`, once all nodes are there.
    pub all_reduce: f64,
    /// `UpdateMomentum`.
    pub update_momentum: f64,
    /// `UpdateWeights`, under the weights' lock.
    pub update_weights: f64,
}

/// What the elements are worked out from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// Nodes.
    pub nodes: u32,
    /// GPU threads of a node.
    pub gpus: u32,
    /// Samples of a round.
    pub sub_batch: u32,
    /// Parameters (3).
    pub parameters: f64,
    /// Bytes of one.
    pub parameter_bytes: f64,
    /// Bytes of one sample as the device takes it in.
    pub sample_bytes: f64,
    /// Gradient of a sub-batch, in seconds (4).
    pub gradient_s: f64,
    /// Bytes a second between host and device.
    pub host_link: f64,
    /// Bytes a second of the device's memory.
    pub device_memory: f64,
    /// Bytes a second that one host thread moves.
    pub host_memory: f64,
    /// Bytes a second of the NIC.
    pub nic: f64,
    /// Latency of a message between nodes.
    pub latency_s: f64,
}

/// Bytes a second that a node reads samples at.
const STORAGE: f64 = 3e9;

impl Elements {
    /// From the hardware: every pass over the parameters counts the bytes it
    /// reads and writes. The paper prints forms, not coefficients; the counts
    /// are ours. The all-reduce is Rabenseifner's.
    pub fn of(f: &Facts) -> Self {
        let bytes = f.parameters * f.parameter_bytes;
        let nodes = f64::from(f.nodes);
        let samples = f64::from(f.sub_batch) * f.sample_bytes;
        let slice = bytes / nodes;
        let all_reduce = if f.nodes == 1 {
            2.0 * bytes / f.host_memory
        } else {
            let rest = (nodes - 1.0) / nodes * bytes;
            2.0 * nodes.log2().ceil() * f.latency_s
                + 2.0 * rest / f.nic
                + 3.0 * rest / f.host_memory
        };
        Self {
            nodes: f.nodes,
            gpus: f.gpus,
            sub_batch: f.sub_batch,
            fetch: bytes / f.host_link,
            load: samples * (f64::from(f.gpus) / STORAGE + 1.0 / f.host_link),
            deform: 2.0 * samples / f.device_memory,
            gradient: f.gradient_s,
            update_value: 2.0 * bytes / f.device_memory,
            update_gradient: bytes / f.host_link + 3.0 * bytes / f.host_memory,
            sum_one: 3.0 * bytes / f.host_memory,
            old_weights: 2.0 * slice / f.host_memory,
            add_momentum: 4.0 * slice / f.host_memory,
            all_reduce,
            update_momentum: 3.0 * slice / f.host_memory,
            update_weights: 2.0 * bytes / f.host_memory,
        }
    }

    /// The part of a GPU thread's round that depends on nobody.
    pub(super) fn gpu_alone(&self) -> f64 {
        self.load + self.deform + self.gradient + self.update_value + self.update_gradient
    }

    /// The part of an update thread's round that depends on nobody.
    pub(super) fn update_alone(&self) -> f64 {
        self.old_weights
            + self.add_momentum
            + self.all_reduce
            + self.update_momentum
            + self.update_weights
    }
}

impl Elements {
    /// Puts what was timed in place of what the hardware says.
    pub fn replace(&mut self, timed: &Coefficients, f: &Facts) {
        let (parameters, nodes) = (f.parameters, f64::from(f.nodes));
        let samples = f64::from(f.sub_batch);
        let slice = parameters / nodes;
        let put = |to: &mut f64, from: Option<Linear>, x: f64| {
            if let Some(Linear { a, b }) = from {
                *to = a * x + b;
            }
        };
        put(&mut self.fetch, timed.fetch, parameters);
        put(&mut self.load, timed.load, samples);
        put(&mut self.deform, timed.deform, samples);
        put(&mut self.gradient, timed.gradient, samples);
        put(&mut self.update_value, timed.update_value, parameters);
        put(&mut self.update_gradient, timed.update_gradient, parameters);
        put(&mut self.sum_one, timed.sum_gradient, parameters);
        put(&mut self.old_weights, timed.old_weights, slice);
        put(&mut self.add_momentum, timed.add_momentum, slice);
        put(&mut self.update_momentum, timed.update_momentum, slice);
        put(&mut self.update_weights, timed.update_weights, parameters);
        if let Some(Linear { a, b }) = timed.all_reduce {
            self.all_reduce = (a * nodes.log2() + b) * parameters;
        }
    }
}
