//! A predicted step as spans of time, for a timeline.

use crate::units::Seconds;

/// What is busy during a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track {
    /// Weights on their way to a worker of a class.
    Pull(usize),
    /// The worker's device.
    Compute(usize),
    /// Gradients on their way from a worker.
    Push(usize),
    /// The servers.
    Server,
    /// The collective among all workers.
    Collective,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// On what.
    pub track: Track,
    /// What.
    pub name: String,
    /// From when.
    pub start: Seconds,
    /// How long.
    pub length: Seconds,
}

impl Span {
    /// A span between two moments in seconds.
    pub fn between(track: Track, name: impl Into<String>, start: f64, end: f64) -> Self {
        Self {
            track,
            name: name.into(),
            start: Seconds::new(start),
            length: Seconds::new(end - start),
        }
    }
}
