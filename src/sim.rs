//! Discrete events: workers, servers and the links between them, step after
//! step (Li 2020, generalised to links of any shape and to `bsp` and `ssp`).
//!
//! Pure and deterministic: the same seed gives the same bytes, on any number
//! of threads. The clock is simulated; the caller says when its own time is
//! up.

mod engine;
mod graph;
mod heap;
mod network;
mod pace;
mod spec;
mod stats;
mod stream;
mod sweep;
mod watch;
mod wiring;

pub use engine::SimError;
pub use graph::{Graph, GraphError, Operation, Resource};
pub use heap::Heap;
pub use network::{Network, Route};
pub use spec::{Costs, Failure, Host, Limits, Order, Server, Spec, Worker};
pub use stats::{Done, Estimate, LEVEL};
pub use sweep::{Sweep, saturation, sweep};
pub use watch::{Nobody, Traced, Tracer, Watch};

use engine::Engine;

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Samples a second after the warm-up, with an interval.
    pub estimate: Estimate,
    /// Steps of all workers.
    pub steps: u64,
    /// Events handled.
    pub events: u64,
    /// Seconds of simulated time.
    pub time: f64,
    /// Whether it stopped because the interval was narrow enough.
    pub narrow: bool,
    /// Share of the time that each worker's device was busy.
    pub computing: Vec<f64>,
    /// Share of the time that each server's cores were busy.
    pub serving: Vec<f64>,
    /// Share of each host's NIC that was used, in and out.
    pub links: Vec<[f64; 2]>,
    /// For each worker, how many of its steps were how many updates late.
    pub staleness: Vec<Vec<u64>>,
    /// Every step that is over, in order.
    pub record: Vec<Done>,
}

impl Outcome {
    /// Time of an iteration: a step of every worker.
    pub fn iteration_s(&self, spec: &Spec) -> f64 {
        let samples: f64 = spec.workers.iter().map(|w| w.samples).sum();
        samples / self.estimate.throughput
    }

    /// Throughput over time, in slices: moments and samples a second.
    pub fn series(&self, slices: usize) -> Vec<(f64, f64)> {
        stats::series(&self.record, slices)
    }
}

/// Simulates until the limits are met. `expired` says when the caller's own
/// time is up.
pub fn simulate(
    spec: &Spec,
    limits: &Limits,
    seed: u64,
    expired: &dyn Fn() -> bool,
) -> Result<Outcome, SimError> {
    simulate_watched(spec, limits, seed, expired, &mut Nobody)
}

/// The same with someone looking on.
pub fn simulate_watched<W: Watch>(
    spec: &Spec,
    limits: &Limits,
    seed: u64,
    expired: &dyn Fn() -> bool,
    watch: &mut W,
) -> Result<Outcome, SimError> {
    let (pace, counted) = Engine::new(spec, limits, seed, watch).run(limits, expired)?;
    let time = counted.now;
    let cores = |s: usize| f64::from(spec.servers[s].cores.clamp(1, spec.workers.len() as u32));
    Ok(Outcome {
        estimate: pace.estimate(),
        steps: pace.done(),
        events: counted.events,
        time,
        narrow: pace.narrow(),
        computing: counted.computing.iter().map(|b| b / time).collect(),
        serving: counted
            .serving
            .iter()
            .enumerate()
            .map(|(s, busy)| busy / time / cores(s))
            .collect(),
        links: counted
            .carried
            .iter()
            .zip(&spec.hosts)
            .map(|(bytes, host)| {
                [
                    bytes[0] / time / host.inward,
                    bytes[1] / time / host.outward,
                ]
            })
            .collect(),
        staleness: pace.staleness,
        record: pace.finished_steps,
    })
}
