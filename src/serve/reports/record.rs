//! A reported job as it is kept.

use crate::observed::{Observed, Window};
use crate::protocol::v1;
use prost::Message;

/// A job, the nodes it runs on with what they were then, and its steps.
/// Written to disk: tags are never used again for something else.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Record {
    #[prost(message, optional, tag = "1")]
    pub(crate) job: Option<v1::Job>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) nodes: Vec<v1::Node>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) names: Vec<String>,
    #[prost(uint32, tag = "4")]
    pub(crate) workers: u32,
    #[prost(uint64, tag = "5")]
    pub(crate) seen_upto: u64,
    #[prost(uint64, tag = "6")]
    pub(crate) steps: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) outliers: u64,
    #[prost(uint64, tag = "8")]
    pub(crate) warm: u64,
    #[prost(double, repeated, tag = "9")]
    pub(crate) current: Vec<f64>,
    #[prost(message, repeated, tag = "10")]
    pub(crate) windows: Vec<WindowRecord>,
    #[prost(uint64, tag = "11")]
    pub(crate) turn: u64,
    #[prost(string, tag = "12")]
    pub(crate) id: String,
    #[prost(double, optional, tag = "13")]
    pub(crate) warming: Option<f64>,
    #[prost(uint64, tag = "14")]
    pub(crate) taken_at: u64,
}

/// A window as it is kept.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct WindowRecord {
    #[prost(double, tag = "1")]
    median: f64,
    #[prost(uint64, tag = "2")]
    steps: u64,
    #[prost(uint64, tag = "3")]
    at: u64,
}

impl Record {
    /// Puts the steps in.
    pub(crate) fn with(mut self, observed: &Observed) -> Self {
        self.seen_upto = observed.seen_upto;
        self.steps = observed.steps;
        self.outliers = observed.outliers;
        self.warm = observed.warm;
        self.warming = observed.warming;
        self.taken_at = observed.taken_at;
        self.current.clone_from(&observed.current);
        let window = |w: &Window| WindowRecord {
            median: w.median,
            steps: w.steps,
            at: w.at,
        };
        self.windows = observed.windows.iter().map(window).collect();
        self
    }

    /// The steps.
    pub(crate) fn observed(&self) -> Observed {
        let window = |w: &WindowRecord| Window {
            median: w.median,
            steps: w.steps,
            at: w.at,
        };
        Observed {
            seen_upto: self.seen_upto,
            steps: self.steps,
            outliers: self.outliers,
            warm: self.warm,
            warming: self.warming,
            taken_at: self.taken_at,
            current: self.current.clone(),
            windows: self.windows.iter().map(window).collect(),
        }
    }
}
