//! The discrete-event simulation asked of a case: its step as operations,
//! its workers and servers on their hosts.
//!
//! What the lab's servers were seen to do is the default: a push is applied
//! whole, under one lock a server, and the worker waits for it; pulls go in
//! forward order, gradients when they are ready, none multiplexed.

use super::case::{Case, Class};
use super::compute::{self, Timing};
use super::prediction::{Bottleneck, Part, Step};
use super::ps::{Handling, Shards, handling};
use crate::calibration::TransferParameters;
use crate::job::{ParameterServer, Strategy, Sync};
use crate::sim::{
    Costs, Failure, Graph, Host, Limits, Operation, Order, Outcome, Resource, Server, SimError,
    Spec, Worker, simulate,
};
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

/// What an operation of the step stands for.
#[derive(Clone, Copy, Debug)]
enum Means {
    Transfer,
    /// A layer, with bytes and messages that its worker takes in before it.
    Forward(usize, f64, f64),
    /// A layer, with its gradients' bytes and those that are being given out
    /// meanwhile.
    Backward(usize, f64, f64),
    /// Giving out the last gradients.
    LastSent(f64),
    Update(f64),
    RoundTrips,
}

/// The operations of a step and what they stand for.
struct Layout {
    operations: Vec<Operation>,
    means: Vec<Means>,
    overlap: bool,
    total: f64,
}

/// One message between a worker and a server.
#[derive(Clone, Copy)]
struct Message {
    layer: usize,
    server: u32,
    bytes: f64,
    /// What its start-up holds the link for, in bytes.
    starting: f64,
}

/// What the start-up of a message holds a link for: as many bytes as the
/// slowest worker would have sent meanwhile.
fn starting(case: &Case<'_>) -> f64 {
    let p = &case.calibration.transfer;
    let slowest = case.classes.iter().map(|c| c.nic.get()).reduce(f64::min);
    p.startup_s * slowest.unwrap_or(0.0) * p.goodput
}

/// Every layer's messages, in forward order: a tensor each, or equal parts
/// on every server where tensors are cut.
fn messages(case: &Case<'_>, shards: &Shards, starting: f64) -> Vec<Message> {
    let element = case.job.precision.parameter_bytes();
    let mut all = Vec::new();
    for (shard, &layer) in shards.layers.iter().enumerate() {
        let tensors = &case.job.workload.layers[layer].parameters;
        if shards.even {
            let servers = shards.server_bytes.len();
            let bytes = shards.bytes[shard] / servers as f64;
            all.extend((0..servers as u32).map(|server| Message {
                layer,
                server,
                bytes,
                starting,
            }));
        } else {
            let server = shards.server[shard] as u32;
            all.extend(tensors.iter().map(|&elements| Message {
                layer,
                server,
                bytes: elements as f64 * element,
                starting,
            }));
        }
    }
    all
}

impl Layout {
    fn new(
        case: &Case<'_>,
        strategy: ParameterServer,
        shards: &Shards,
        settings: &Settings,
    ) -> Self {
        let layers = &case.job.workload.layers;
        let mut step = Self {
            operations: Vec::new(),
            means: Vec::new(),
            overlap: strategy.overlap,
            total: shards.total,
        };
        let messages = messages(case, shards, starting(case));
        let mut bytes = vec![0.0; layers.len()];
        let mut pulls: Vec<Vec<u32>> = vec![Vec::new(); layers.len()];
        for m in &messages {
            let name = format!("pull {}", layers[m.layer].name);
            let resource = Resource::Down(m.server);
            let carried = m.bytes + m.starting;
            let op = step.add(name, resource, carried, Vec::new(), Means::Transfer);
            pulls[m.layer].push(op);
            bytes[m.layer] += m.bytes;
        }
        let mut last: Option<u32> = None;
        for (layer, l) in layers.iter().enumerate() {
            let mut after: Vec<u32> = last.into_iter().collect();
            if strategy.overlap {
                after.extend_from_slice(&pulls[layer]);
            } else if last.is_none() {
                after.extend(pulls.iter().flatten());
            }
            let means = Means::Forward(layer, bytes[layer], pulls[layer].len() as f64);
            last = Some(step.add(l.name.clone(), Resource::Compute, 0.0, after, means));
        }
        let mut backward = vec![0; layers.len()];
        let mut leaving = 0.0;
        for (layer, l) in layers.iter().enumerate().rev() {
            let name = format!("{} (backward)", l.name);
            let means = Means::Backward(layer, bytes[layer], leaving);
            leaving = bytes[layer];
            let after = last.into_iter().collect();
            let op = step.add(name, Resource::Compute, 0.0, after, means);
            backward[layer] = op;
            last = Some(op);
        }
        let mut pushes: Vec<(u32, Message)> = Vec::with_capacity(messages.len());
        for m in messages.iter().rev() {
            let ready = if strategy.overlap {
                backward[m.layer]
            } else {
                last.unwrap_or(0)
            };
            let name = format!("push {}", layers[m.layer].name);
            let resource = Resource::Up(m.server);
            let carried = m.bytes + m.starting;
            let op = step.add(name, resource, carried, vec![ready], Means::Transfer);
            pushes.push((op, *m));
        }
        let mut before_trip: Vec<u32> = pushes.iter().map(|p| p.0).collect();
        if strategy.overlap && leaving > 0.0 {
            let after = last.into_iter().collect();
            let means = Means::LastSent(leaving);
            before_trip.push(step.add("last sent".into(), Resource::Compute, 0.0, after, means));
        }
        let trips = step.add(
            "round trips".into(),
            Resource::Wait,
            0.0,
            before_trip,
            Means::RoundTrips,
        );
        if strategy.sync != Sync::Bsp {
            step.updates(&pushes, shards.server_bytes.len(), trips, settings, layers);
        }
        step
    }

    fn updates(
        &mut self,
        pushes: &[(u32, Message)],
        servers: usize,
        trips: u32,
        settings: &Settings,
        layers: &[crate::workload::Layer],
    ) {
        match settings.update {
            Update::Whole => {
                for server in 0..servers as u32 {
                    let of_server = pushes.iter().filter(|p| p.1.server == server);
                    let bytes: f64 = of_server.map(|p| p.1.bytes).sum();
                    if bytes > 0.0 {
                        let resource = Resource::Server(server);
                        self.add(
                            "update".into(),
                            resource,
                            0.0,
                            vec![trips],
                            Means::Update(bytes),
                        );
                    }
                }
            }
            Update::EachTensor(_) => {
                for &(push, m) in pushes {
                    let name = format!("update {}", layers[m.layer].name);
                    let resource = Resource::Server(m.server);
                    self.add(name, resource, 0.0, vec![push], Means::Update(m.bytes));
                }
            }
        }
    }

    fn add(
        &mut self,
        name: String,
        resource: Resource,
        bytes: f64,
        after: Vec<u32>,
        means: Means,
    ) -> u32 {
        self.operations.push(Operation {
            name,
            resource,
            bytes,
            after,
        });
        self.means.push(means);
        self.means.len() as u32 - 1
    }

    fn costs(
        &self,
        case: &Case<'_>,
        timing: &Timing,
        handling: Handling,
        settings: &Settings,
    ) -> Costs {
        let p = &case.calibration.transfer;
        let seconds = self.means.iter().map(|means| match *means {
            Means::Transfer => 0.0,
            Means::Forward(layer, bytes, messages) => {
                let mut time = timing.forward[layer].get() + settings.message_s * messages;
                if self.overlap {
                    time += (handling.receive + handling.copy_in) * bytes;
                } else if layer == 0 {
                    // All is copied in before anything computes.
                    time += (handling.copy_in + p.copy_s_per_byte) * self.total;
                }
                time
            }
            Means::Backward(layer, bytes, leaving) => {
                let mut time = timing.backward[layer].get();
                if self.overlap {
                    time += handling.send * leaving + handling.copy_out * bytes;
                } else if layer == 0 {
                    time += handling.copy_out * self.total;
                }
                time
            }
            Means::LastSent(bytes) => handling.send * bytes,
            // No server is faster at it than the worker's own optimizer.
            Means::Update(bytes) => {
                (p.update_s_per_byte * bytes).max(timing.optimizer.get() * bytes / self.total)
            }
            Means::RoundTrips => 2.0 * p.latency_s,
        });
        Costs(seconds.collect())
    }
}

/// Hosts, the workers on them, and the servers. Workers follow one another in
/// the order in which they were placed, so that a node whose workers fall
/// into two classes is filled by both.
fn places(
    case: &Case<'_>,
    strategy: ParameterServer,
    update: Update,
) -> (Vec<Host>, Vec<Worker>, Vec<Server>) {
    let p = &case.calibration.transfer;
    let mut hosts: Vec<Host> = Vec::new();
    let mut workers: Vec<Worker> = Vec::new();
    let mut hosting = Vec::new();
    let mut open: Option<(&Class, u32)> = None;
    for (kind, class) in case.classes.iter().enumerate() {
        for _ in 0..class.count {
            let joins = open.filter(|(other, left)| *left > 0 && same_node(other, class));
            if let Some((_, left)) = joins {
                open = Some((class, left - 1));
            } else {
                let handling = handling(class, strategy, p);
                hosts.push(host(class, &handling, strategy.overlap, p));
                if class.hosts_server {
                    hosting.push(hosts.len() as u32 - 1);
                }
                open = Some((class, class.sharing.saturating_sub(1)));
            }
            let samples = f64::from(class.batch);
            match workers.last_mut() {
                // A node that sums its own is one worker, as slow as its
                // slowest.
                Some(node) if strategy.local_aggregation && joins.is_some() => {
                    node.samples += samples;
                    let slower = |k: u32| case.classes[k as usize].timing.compute();
                    if slower(kind as u32) > slower(node.kind) {
                        node.kind = kind as u32;
                    }
                }
                _ => workers.push(Worker {
                    kind: kind as u32,
                    host: hosts.len() as u32 - 1,
                    samples,
                    slowness: 1.0,
                }),
            }
        }
    }
    let cores = match update {
        Update::Whole => 1,
        Update::EachTensor(cores) => cores,
    };
    let servers = case
        .servers
        .iter()
        .enumerate()
        .map(|(s, server)| {
            let host = hosting.get(s).copied().unwrap_or_else(|| {
                hosts.push(Host::both(server.nic.get() * p.goodput));
                hosts.len() as u32 - 1
            });
            Server { host, cores }
        })
        .collect();
    (hosts, workers, servers)
}

/// Whether workers of two classes may stand on one node.
fn same_node(a: &Class, b: &Class) -> bool {
    a.sharing == b.sharing
        && a.nic == b.nic
        && a.transport == b.transport
        && a.hosts_server == b.hosts_server
        && a.device == b.device
}

/// A node's NIC. A processor that has nothing else to do takes bytes in, and
/// gives them out, no faster than it handles them.
fn host(class: &Class, handling: &Handling, overlap: bool, p: &TransferParameters) -> Host {
    let rate = class.nic.get() * p.goodput;
    if overlap {
        return Host::both(rate);
    }
    let held = |seconds: f64| {
        if seconds > 0.0 {
            rate.min(1.0 / seconds)
        } else {
            rate
        }
    };
    Host {
        inward: held(handling.receive),
        outward: held(handling.send),
    }
}
