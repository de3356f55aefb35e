//! What a model says, and what an asker gets.

use super::memory::Memory;
use super::name::ModelName;
use crate::units::{Bytes, BytesPerSecond, Seconds};
use std::fmt;

/// A named share of the step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// What the time goes into.
    pub name: &'static str,
    /// How much of it.
    pub time: Seconds,
}

impl Part {
    /// A share of the step.
    pub const fn new(name: &'static str, time: Seconds) -> Self {
        Self { name, time }
    }
}

/// The most parts a step is broken down into.
const MAX_PARTS: usize = 6;

/// A model's result: no heap, so that many can be had cheaply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Time of one iteration.
    pub time: Seconds,
    /// What limits it.
    pub bottleneck: Bottleneck,
    parts: [Part; MAX_PARTS],
    used: usize,
}

impl Step {
    /// A step whose parts add up to its time: what they leave over is laid to
    /// the last one.
    pub fn new(time: Seconds, bottleneck: Bottleneck, parts: &[Part]) -> Self {
        const EMPTY: Part = Part::new("", Seconds::ZERO);
        let mut kept = [EMPTY; MAX_PARTS];
        let used = parts.len().min(MAX_PARTS);
        kept[..used].copy_from_slice(&parts[..used]);
        if let Some((last, before)) = kept[..used].split_last_mut() {
            let sum: Seconds = before.iter().map(|p| p.time).sum();
            last.time = time - sum;
        }
        Self {
            time,
            bottleneck,
            parts: kept,
            used,
        }
    }

    /// Where the time goes.
    pub fn parts(&self) -> &[Part] {
        &self.parts[..self.used]
    }
}

/// The resource that is busiest, or that everything waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bottleneck {
    /// The slowest worker's arithmetic.
    Compute {
        /// Class of the worker.
        class: usize,
        /// How long it is busy.
        busy: Seconds,
    },
    /// A parameter server's NIC.
    ServerLink {
        /// Which server.
        server: usize,
        /// Its line rate.
        rate: BytesPerSecond,
        /// What it carries one way in a step.
        bytes: Bytes,
        /// How long it is busy, both ways.
        busy: Seconds,
    },
    /// A worker's own NIC.
    WorkerLink {
        /// Class of the worker.
        class: usize,
        /// Its line rate.
        rate: BytesPerSecond,
        /// How long it is busy, both ways.
        busy: Seconds,
    },
    /// The collective among the workers.
    AllReduce {
        /// What carries it at its slowest.
        over: Carrier,
        /// Class of the worker that holds it up.
        class: usize,
        /// The rate of the slowest link, as sold.
        rate: BytesPerSecond,
        /// What each worker sums in a step.
        bytes: Bytes,
        /// How long it is busy.
        busy: Seconds,
    },
    /// The server's arithmetic on gradients.
    ServerUpdate {
        /// How long it is busy.
        busy: Seconds,
    },
}

/// What carries a collective at its slowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The NIC between nodes.
    Nic,
    /// The links between a node's accelerators.
    Peers,
    /// The process that copies and sums.
    Process,
}

impl Bottleneck {
    /// How long the resource is busy in a step.
    pub const fn busy(&self) -> Seconds {
        match self {
            Self::Compute { busy, .. }
            | Self::ServerLink { busy, .. }
            | Self::WorkerLink { busy, .. }
            | Self::AllReduce { busy, .. }
            | Self::ServerUpdate { busy } => *busy,
        }
    }
}

/// What one iteration of asynchronous all-reduce comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asynchronous {
    /// Samples that one update of the weights stands for, on average (9).
    pub mean_minibatch: f64,
    /// Time from one update of the weights to the next.
    pub update_time: Seconds,
    /// Time of a pass over the data set (10), where its size is known.
    pub epoch_time: Option<Seconds>,
}

/// One worker alone, which the speedup is measured against.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// The node it runs on.
    pub node: String,
    /// Its step.
    pub iteration_time: Seconds,
}

/// Where the truth lies with a stated probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: Seconds,
    /// Upper end.
    pub high: Seconds,
    /// The probability.
    pub level: f64,
}

/// All steps of the job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finish {
    /// How many steps.
    pub steps: u64,
    /// How long they take.
    pub time: Seconds,
    /// What they cost, where every node carries a price.
    pub cost: Option<f64>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The model that answered.
    pub model: ModelName,
    /// Workers that take part.
    pub workers: usize,
    /// Samples of one step over all workers.
    pub samples: f64,
    /// The step.
    pub step: Step,
    /// The bottleneck in words.
    pub bottleneck: String,
    /// Throughput over that of the baseline.
    pub speedup: f64,
    /// What that is measured against.
    pub baseline: Baseline,
    /// How sure it is.
    pub interval: Interval,
    /// Which calibration; `None` for the shipped one.
    pub calibration: Option<String>,
    /// Whether it fits, on the tightest device.
    pub memory: Option<Memory>,
    /// What updates stand for, where workers do not wait for them.
    pub asynchronous: Option<Asynchronous>,
    /// All steps, where the job says how many.
    pub finish: Option<Finish>,
    /// What was assumed.
    pub warnings: Vec<String>,
}

impl Prediction {
    /// Samples a second.
    pub fn throughput(&self) -> f64 {
        self.samples / self.step.time.get()
    }

    /// Speedup for each worker.
    pub fn scaling_factor(&self) -> f64 {
        self.speedup / self.workers as f64
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.time)
    }
}
