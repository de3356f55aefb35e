//! The project's parameter-server models: in step, and asynchronous.
//!
//! It keeps Zeng's recurrence (2023, Algorithms 1 and 2): workers queue for
//! the server's NIC in the order in which their gradients are ready. To that
//! it adds times by layer, several servers, unequal NICs at both ends,
//! start-up and copy costs, the server's update, and pulls and pushes that
//! overlap with the forward and backward pass. `docs/models.md` derives it.

mod asynchronous;
mod kind;
mod shards;
mod spans;

pub(crate) use self::kind::Handling;
use self::kind::Kind;
pub(crate) use self::shards::Shards;
use super::case::{Case, Class};
use super::compute::Timing;
use super::prediction::{Bottleneck, Part, Step};
use crate::calibration::TransferParameters;
use crate::cluster::Transport;
use crate::device::DeviceKind;
use crate::job::{ParameterServer, Strategy};
use crate::units::{Bytes, Seconds};
use std::sync::Arc;

/// A case prepared for many predictions: everything that does not depend on
/// how many workers each class has.
#[derive(Clone, Debug)]
pub struct Model<'a> {
    case: &'a Case<'a>,
    strategy: ParameterServer,
    shards: Shards,
    /// Workers that differ only in their links are of one kind.
    kinds: Vec<Kind>,
    /// The kind of each class.
    kind_of: Vec<usize>,
    /// For each server, the gradients at which its queue may be decided.
    vertices: Vec<Vec<usize>>,
    /// When each layer has been sent to all workers.
    sent: Vec<f64>,
    /// When each kind's forward pass ends if the servers set the pace.
    behind_servers: Vec<f64>,
    /// When each class's forward pass ends.
    forward_ends: Vec<f64>,
    /// How each class uses the network.
    flows: Vec<Flow>,
    /// Moments at which classes reach a server and what it carries for each,
    /// kept between queues to save the memory.
    order: Vec<(f64, f64)>,
    /// How many others a worker meets at each server, where nobody waits.
    met: Vec<asynchronous::Met>,
    /// How many of its node's other workers a worker meets at their NIC.
    beside: Vec<f64>,
}

/// How one class uses the network.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// Transfers that leave its nodes for each shard: one a worker, or one a
    /// node where the node sums its workers first.
    senders: f64,
    /// Share of a worker's bytes that cross a NIC.
    remote: f64,
    /// Seconds a byte on the worker's own link.
    own: f64,
}

impl<'a> Model<'a> {
    /// Prepares a case; `None` when its strategy is another.
    pub fn new(case: &'a Case<'a>) -> Option<Self> {
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
        let mut kinds: Vec<Kind> = Vec::new();
        let mut kind_of = Vec::with_capacity(case.classes.len());
        let mut seen: Vec<(*const Timing, Handling)> = Vec::new();
        for class in &case.classes {
            let key = (Arc::as_ptr(&class.timing), handling(class, strategy, p));
            let known = seen.iter().position(|k| *k == key);
            kind_of.push(known.unwrap_or(kinds.len()));
            if known.is_none() {
                seen.push(key);
                kinds.push(Kind::new(&class.timing, key.1, &shards, p));
            }
        }
        let vertices = (0..case.servers.len())
            .map(|server| kind::vertices(&kinds, &shards, server))
            .collect();
        Some(Self {
            case,
            strategy,
            sent: Vec::with_capacity(shards.len()),
            behind_servers: Vec::with_capacity(kinds.len()),
            forward_ends: Vec::with_capacity(kind_of.len()),
            flows: Vec::with_capacity(kind_of.len()),
            order: Vec::with_capacity(kind_of.len()),
            met: Vec::with_capacity(case.servers.len()),
            beside: Vec::with_capacity(kind_of.len()),
            shards,
            kinds,
            kind_of,
            vertices,
        })
    }

    /// The step with the workers that the case counts.
    pub fn step(&mut self) -> Step {
        let p = &self.case.calibration.transfer;
        self.measure_flows(p);
        let load = self.load();
        self.measure_sent(load, p);
        self.forward_ends.clear();
        let mut finish = 0.0_f64;
        let mut reference = 0;
        let (mut reference_forward, mut reference_end) = (0.0, f64::NEG_INFINITY);
        for k in 0..self.kind_of.len() {
            let (forward_end, own_end) = self.worker(k, load, p);
            self.forward_ends.push(forward_end);
            let compute_end = forward_end + self.kind(k).backward_total;
            if compute_end > reference_end {
                (reference, reference_forward, reference_end) = (k, forward_end, compute_end);
            }
            finish = finish.max(own_end);
        }
        for server in 0..self.case.servers.len() {
            finish = finish.max(self.queue(server, p));
        }
        let arrived = finish + p.latency_s;
        let update = self.update(p);
        let class = self.kind(reference);
        let backward_end = reference_forward + class.backward_total;
        let second = Seconds::new;
        let parts = [
            Part::new("pull", second(reference_forward - class.forward_total)),
            Part::new("forward", second(class.forward_total)),
            Part::new("backward", second(class.backward_total)),
            Part::new("push", second(arrived - backward_end)),
            Part::new("update", second(update)),
        ];
        Step::new(second(arrived + update), self.bottleneck(load, p), &parts)
    }

    /// Transfers that reach each server in a step. With servers on worker
    /// nodes, what a node keeps to itself does not count.
    fn load(&self) -> f64 {
        self.flows
            .iter()
            .map(|flow| flow.senders * flow.remote)
            .sum()
    }

    fn measure_sent(&mut self, load: f64, p: &TransferParameters) {
        self.sent.clear();
        for layer in 0..self.shards.len() {
            self.sent
                .push(self.shards.sent(layer, &self.case.servers, load, p));
        }
        self.behind_servers.clear();
        for kind in &self.kinds {
            let end = kind.forward_behind_servers(&self.shards, &self.sent);
            self.behind_servers.push(end);
        }
    }

    fn kind(&self, class: usize) -> &Kind {
        &self.kinds[self.kind_of[class]]
    }

    fn measure_flows(&mut self, p: &TransferParameters) {
        self.flows.clear();
        for k in 0..self.kind_of.len() {
            let flow = self.flow(k, p);
            self.flows.push(flow);
        }
    }

    fn flow(&self, k: usize, p: &TransferParameters) -> Flow {
        let class = &self.case.classes[k];
        let sharing = f64::from(class.sharing);
        let aggregated = self.strategy.local_aggregation;
        let count = f64::from(class.count);
        let (senders, link_share) = if aggregated {
            (count / sharing, 1.0)
        } else {
            (count, sharing)
        };
        let servers = self.case.servers.len() as f64;
        let remote = if class.hosts_server {
            1.0 - 1.0 / servers
        } else {
            1.0
        };
        let total: f64 = self.case.servers.iter().map(|s| s.nic.get()).sum();
        let own_rate = (class.nic.get() / link_share).min(total) * p.goodput;
        Flow {
            senders,
            remote,
            own: remote / own_rate,
        }
    }

    /// When a class's forward pass ends, and when its last gradient has left
    /// over its own link.
    fn worker(&self, k: usize, load: f64, p: &TransferParameters) -> (f64, f64) {
        let (shards, flow, kind) = (&self.shards, &self.flows[k], self.kind(k));
        // Nothing computes meanwhile, but bytes come no faster than the
        // processor receives them.
        let taken = flow.own.max(kind.handling.receive);
        let pull = shards.pull_all(taken, &self.case.servers, load, p);
        let copy = (kind.handling.copy_in + p.copy_s_per_byte) * shards.total;
        let in_turn = pull + copy + kind.forward_total;
        if self.strategy.overlap {
            let servers = self.behind_servers[self.kind_of[k]];
            let waiting = servers.max(kind.forward_behind_link(flow.own)) + p.latency_s;
            // A worker that only waits receives as fast as one that is in turn.
            let forward_end = waiting.max(kind.unhindered(shards)).min(in_turn);
            (forward_end, forward_end + kind.pushed(shards, flow.own))
        } else {
            let forward_end = in_turn;
            let done = self.done(k, forward_end);
            let sent = shards.total * flow.own.max(kind.handling.send);
            (forward_end, done + sent + p.startup_s * shards.messages)
        }
    }

    /// Without overlap: when all gradients are ready to leave.
    fn done(&self, k: usize, forward_end: f64) -> f64 {
        let kind = self.kind(k);
        forward_end + kind.backward_total + kind.handling.copy_out * self.shards.total
    }

    /// Zeng's recurrence at one server: classes in the order in which they
    /// are ready, each worker's bytes after the ones before. With overlap a
    /// busy period may begin at any gradient; the vertices are those that can
    /// decide.
    fn queue(&mut self, server: usize, p: &TransferParameters) -> f64 {
        let seconds_a_byte = 1.0 / (self.case.servers[server].nic.get() * p.goodput);
        let startup = p.startup_s * self.shards.server_messages[server];
        let mut order = std::mem::take(&mut self.order);
        let mut finish = 0.0_f64;
        let decisive = if self.strategy.overlap {
            self.vertices[server].len()
        } else {
            1
        };
        for v in 0..decisive {
            let gradient = self.vertices[server].get(v).copied();
            let (overlap, shards) = (self.strategy.overlap, &self.shards);
            let bytes = match gradient {
                Some(layer) if overlap => shards.bytes_from(server, layer),
                _ => shards.server_bytes[server],
            };
            order.clear();
            order.extend((0..self.kind_of.len()).map(|k| {
                let start = self.forward_ends[k];
                let ready = match gradient {
                    Some(layer) if overlap => start + self.kind(k).ready(shards, layer),
                    _ => self.done(k, start),
                };
                let flow = &self.flows[k];
                (ready, flow.senders * flow.remote * bytes * seconds_a_byte)
            }));
            order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            let end = order
                .iter()
                .fold(0.0_f64, |end, (ready, carried)| end.max(*ready) + carried);
            finish = finish.max(end + startup);
        }
        self.order = order;
        finish
    }

    /// The fullest server sums and applies every sender's bytes; it is no
    /// faster at it than a worker's own optimizer.
    fn update(&self, p: &TransferParameters) -> f64 {
        let fullest = self.shards.server_bytes.iter().copied().fold(0.0, f64::max);
        let senders: f64 = self.flows.iter().map(|flow| flow.senders).sum();
        (p.update_s_per_byte * senders * fullest).max(self.optimizer())
    }

    /// The slowest worker's own optimizer.
    fn optimizer(&self) -> f64 {
        let times = self.case.classes.iter().map(|c| c.timing.optimizer.get());
        times.fold(0.0, f64::max)
    }

    /// The resource that is busy longest in the step.
    fn bottleneck(&self, load: f64, p: &TransferParameters) -> Bottleneck {
        let computing = |k: usize| self.kind(k).forward_total + self.kind(k).backward_total;
        let slower = |a: usize, b: usize| if computing(b) > computing(a) { b } else { a };
        let slowest = (1..self.kind_of.len()).fold(0, slower);
        let mut worst = Bottleneck::Compute {
            class: slowest,
            busy: Seconds::new(computing(slowest)),
        };
        let mut consider = |candidate: Bottleneck| {
            if candidate.busy() > worst.busy() {
                worst = candidate;
            }
        };
        for (index, server) in self.case.servers.iter().enumerate() {
            let bytes = load * self.shards.server_bytes[index];
            consider(Bottleneck::ServerLink {
                server: index,
                rate: server.nic,
                bytes: Bytes::new(bytes),
                busy: Seconds::new(2.0 * bytes / (server.nic.get() * p.goodput)),
            });
        }
        for k in 0..self.kind_of.len() {
            consider(Bottleneck::WorkerLink {
                class: k,
                rate: self.case.classes[k].nic,
                busy: Seconds::new(2.0 * self.shards.total * self.flows[k].own),
            });
        }
        consider(Bottleneck::ServerUpdate {
            busy: Seconds::new(self.update(p)),
        });
        worst
    }
}

/// What bytes cost a class beside the network.
pub(crate) fn handling(
    class: &Class,
    strategy: ParameterServer,
    p: &TransferParameters,
) -> Handling {
    let sharing = f64::from(class.sharing);
    // Summing and spreading within the node, where it does that itself.
    let within = if strategy.local_aggregation && class.sharing > 1 {
        (sharing - 1.0) / sharing / class.device.peer_rate.get()
    } else {
        0.0
    };
    let (copy, receive, send) = match (class.device.kind, class.transport) {
        // A host feeds the accelerator while it computes.
        (DeviceKind::Accelerator, _) => (1.0 / class.device.host_link.get(), 0.0, 0.0),
        (DeviceKind::Cpu, Transport::Tcp) => (
            0.0,
            p.receive_s_per_byte + p.copy_s_per_byte,
            p.send_s_per_byte,
        ),
        (DeviceKind::Cpu, Transport::Rdma) => (0.0, p.copy_s_per_byte, 0.0),
    };
    Handling {
        copy_in: copy + within,
        copy_out: copy + within,
        receive,
        send,
    }
}
