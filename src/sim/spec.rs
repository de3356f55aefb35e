//! What is simulated: the step, who takes it, over what, and for how long.

use super::graph::Graph;
use crate::job::Sync;

/// Seconds of each operation of one sampled step; of transfers nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs(pub Vec<f64>);

/// One worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worker {
    /// Its kind: an index into [`Spec::kinds`].
    pub kind: u32,
    /// Its node.
    pub host: u32,
    /// Samples of one of its steps.
    pub samples: f64,
    /// How much longer it computes than its kind: a straggler.
    pub slowness: f64,
}

/// One parameter server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its node.
    pub host: u32,
    /// Operations that it works on at a time.
    pub cores: u32,
}

/// A node's NIC, which carries both ways at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// Bytes a second inwards.
    pub inward: f64,
    /// Bytes a second outwards.
    pub outward: f64,
}

impl Host {
    /// The same both ways.
    pub const fn both(rate: f64) -> Self {
        Self {
            inward: rate,
            outward: rate,
        }
    }
}

/// In which order a step's weights are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As the forward pass needs them (`TicTac`'s TIC).
    #[default]
    Forward,
    /// The other way round.
    Reverse,
    /// As it happens, anew each step.
    Random,
}

/// A worker that stops, and perhaps comes back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failure {
    /// Which worker.
    pub worker: u32,
    /// When, in seconds of simulated time.
    pub at: f64,
    /// When it takes up work again.
    pub back: Option<f64>,
}

/// A job as the simulator sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The operations of a step.
    pub graph: Graph,
    /// For each kind of worker, the steps that are sampled from.
    pub kinds: Vec<Vec<Costs>>,
    /// Who works.
    pub workers: Vec<Worker>,
    /// Who holds the weights.
    pub servers: Vec<Server>,
    /// The nodes.
    pub hosts: Vec<Host>,
    /// When workers wait for each other.
    pub sync: Sync,
    /// Under `bsp`: seconds from the last push to the next pull.
    pub barrier_s: f64,
    /// Order of the pulls.
    pub order: Order,
    /// HTTP/2's window in bytes; infinite where flow control is off.
    pub window: f64,
    /// Coefficient of variation of a step's compute time.
    pub jitter: f64,
    /// Coefficient of variation of a worker's share of links, drawn anew each
    /// step: TCP divides a link fairly on average only.
    pub unfairness: f64,
    /// Who fails when.
    pub failures: Vec<Failure>,
}

/// How long to go on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Steps of each worker, on average.
    pub steps: u32,
    /// Of these, dropped at the beginning.
    pub warm_up: u32,
    /// Half width of the interval, as a share of the throughput, that is
    /// narrow enough to stop before all steps are done; 0 never stops early.
    pub tolerance: f64,
    /// Events after which it gives up.
    pub events: u64,
}

impl Default for Limits {
    /// As the paper: 1000 steps, the first 50 dropped.
    fn default() -> Self {
        Self {
            steps: 1000,
            warm_up: 50,
            tolerance: 0.005,
            events: 2_000_000_000,
        }
    }
}
