//! The discrete-event simulation asked of a case: its step as operations,
//! its workers and servers on their hosts.
//!
//! What the lab's servers were seen to do is the default: a push is applied
//! whole, under one lock a server, and the worker waits for it; pulls go in
//! forward order, gradients when they are ready, none multiplexed.

mod layout;
mod places;

use self::layout::Layout;
use self::places::places;
use super::case::Case;
use super::compute::{self, Timing};
use super::prediction::{Bottleneck, Part, Step};
use super::ps::{Shards, handling};
use crate::job::{Strategy, Sync};
use crate::sim::{Failure, Graph, Limits, Order, Outcome, SimError, Spec, simulate};
use crate::units::{Bytes, Seconds};

/// How a server applies what is pushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Update {
    /// A worker's whole push at a time, under one lock.
    #[default]
    Whole,
    /// Each tensor when it is there, on this many cores.
    EachTensor(u32),
}

/// What the job's file does not say.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Order of the pulls.
    pub order: Order,
    /// HTTP/2's window in bytes; infinite where flow control is off.
    pub window: f64,
    /// Coefficient of variation of a step's compute time.
    pub jitter: f64,
    /// Coefficient of variation of a worker's share of links.
    pub unfairness: f64,
    /// How the servers apply pushes.
    pub update: Update,
    /// Receiving a message costs the worker this many seconds more (β).
    pub message_s: f64,
    /// Workers, by index, that compute this many times longer.
    pub stragglers: Vec<(u32, f64)>,
    /// Workers that fail.
    pub failures: Vec<Failure>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            order: Order::Forward,
            window: f64::INFINITY,
            jitter: 0.0,
            unfairness: 0.0,
            update: Update::Whole,
            message_s: 0.0,
            stragglers: Vec::new(),
            failures: Vec::new(),
        }
    }
}

/// Steps of one answer: enough for an interval of half a percent.
pub const ANSWER: Limits = Limits {
    steps: 400,
    warm_up: 20,
    tolerance: 0.005,
    events: u64::MAX,
};
/// Seed of an answer: the same question, the same answer.
const SEED: u64 = 2020;
/// How much steps vary by themselves, and how unevenly TCP shares a link.
/// Without either, workers that do not wait fall into step: all pull, then
/// all push, a pattern that no cluster keeps for long.
const SPREAD: f64 = 0.05;
const UNFAIRNESS: f64 = 0.1;

/// An iteration as the simulation has it; nothing for other strategies.
pub fn step(case: &Case<'_>) -> Result<Option<Step>, SimError> {
    let settings = if is_bsp(case) {
        Settings::default()
    } else {
        Settings {
            jitter: SPREAD,
            unfairness: UNFAIRNESS,
            ..Settings::default()
        }
    };
    let Some(spec) = spec(case, &settings) else {
        return Ok(None);
    };
    let limits = Limits {
        events: case.simulation_events,
        ..ANSWER
    };
    let outcome = simulate(&spec, &limits, SEED, &|| false)?;
    Ok(Some(describe(case, &spec, &outcome)))
}

fn is_bsp(case: &Case<'_>) -> bool {
    matches!(&case.job.strategy, Strategy::ParameterServer(ps) if ps.sync == Sync::Bsp)
}

/// What came out, in the terms of a step.
pub fn describe(case: &Case<'_>, spec: &Spec, outcome: &Outcome) -> Step {
    let time = outcome.iteration_s(spec);
    let share = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let slowest =
        outcome.computing.iter().enumerate().fold(
            (0, 0.0),
            |best, (i, &b)| if b > best.1 { (i, b) } else { best },
        );
    let mean = outcome.computing.iter().sum::<f64>() / outcome.computing.len() as f64;
    let mut worst = Bottleneck::Compute {
        class: spec.workers[slowest.0].kind as usize,
        busy: Seconds::new(slowest.1 * time),
    };
    for (index, server) in spec.servers.iter().enumerate() {
        let used = share(&mut outcome.links[server.host as usize].into_iter());
        let nic = case.servers[index].nic;
        let candidates = [
            Bottleneck::ServerLink {
                server: index,
                rate: nic,
                bytes: Bytes::new(used * time * spec.hosts[server.host as usize].outward),
                busy: Seconds::new(used * time),
            },
            Bottleneck::ServerUpdate {
                busy: Seconds::new(outcome.serving[index] * time),
            },
        ];
        for candidate in candidates {
            if candidate.busy() > worst.busy() {
                worst = candidate;
            }
        }
    }
    let parts = [
        Part::new("compute", Seconds::new(mean * time)),
        Part::new("communication", Seconds::new((1.0 - mean) * time)),
    ];
    Step::new(Seconds::new(time), worst, &parts)
}

/// The simulation of a parameter-server job; `None` for other strategies.
pub fn spec(case: &Case<'_>, settings: &Settings) -> Option<Spec> {
    let Strategy::ParameterServer(strategy) = case.job.strategy else {
        return None;
    };
    if case.servers.is_empty() {
        return None;
    }
    let shards = Shards::new(
        &case.job.workload,
        case.job.precision,
        strategy.fusion,
        case.servers.len(),
    );
    let p = &case.calibration.transfer;
    let layout = Layout::new(case, strategy, &shards, settings);
    let kinds = case
        .classes
        .iter()
        .map(|class| {
            let handling = handling(class, strategy, p);
            let costs = |timing: &Timing| layout.costs(case, timing, handling, settings);
            let sampled = compute::sampled(&case.job.workload, class.batch);
            if sampled.len() > 1 {
                sampled.iter().map(costs).collect()
            } else {
                vec![costs(&class.timing)]
            }
        })
        .collect();
    let (hosts, mut workers, servers) = places(case, strategy, settings.update);
    for &(worker, slowness) in &settings.stragglers {
        if let Some(worker) = workers.get_mut(worker as usize) {
            worker.slowness = slowness;
        }
    }
    let fullest = shards.server_bytes.iter().copied().fold(0.0, f64::max);
    let optimizer = case
        .classes
        .iter()
        .map(|c| c.timing.optimizer.get())
        .fold(0.0, f64::max);
    Some(Spec {
        graph: Graph::new(layout.operations).ok()?,
        kinds,
        sync: strategy.sync,
        barrier_s: (p.update_s_per_byte * workers.len() as f64 * fullest).max(optimizer),
        workers,
        servers,
        hosts,
        order: settings.order,
        window: settings.window,
        jitter: settings.jitter,
        unfairness: settings.unfairness,
        failures: settings.failures.clone(),
    })
}
