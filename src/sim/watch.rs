//! Looking on: what a trace or a test wants to see. Nothing is spent on it
//! where nobody looks.

use super::network::Network;

/// Someone who looks on.
pub trait Watch {
    /// Whether there is anything to see.
    const WATCHES: bool;

    /// A worker's operation took from one moment to another.
    fn span(&mut self, worker: u32, op: u32, start: f64, end: f64);

    /// After an event: what the links carry.
    fn moment(&mut self, now: f64, network: &Network);
}

/// Nobody.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Watch for Nobody {
    const WATCHES: bool = false;

    fn span(&mut self, _: u32, _: u32, _: f64, _: f64) {}

    fn moment(&mut self, _: f64, _: &Network) {}
}

/// One span of a synthetic trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traced {
    /// Whose.
    pub worker: u32,
    /// Which operation of the step.
    pub op: u32,
    /// From when, in seconds.
    pub start: f64,
    /// Until when.
    pub end: f64,
}

/// Keeps the spans of a stretch of time.
#[derive(Clone, Debug, Default)]
pub struct Tracer {
    /// The most that is kept.
    pub most: usize,
    /// What was seen.
    pub spans: Vec<Traced>,
}

impl Watch for Tracer {
    const WATCHES: bool = true;

    fn span(&mut self, worker: u32, op: u32, start: f64, end: f64) {
        if self.spans.len() < self.most {
            self.spans.push(Traced {
                worker,
                op,
                start,
                end,
            });
        }
    }

    fn moment(&mut self, _: f64, _: &Network) {}
}
