//! Workers that do not wait for each other, in closed form.
//!
//! Each worker's step is a chain: pull, forward, backward, push, update. What
//! others do to it is felt at three places of every server: its NIC out, its
//! NIC in, and the lock under which it applies a push. Mean value analysis
//! gives how many others are met at each: a worker that joins k − 1 others
//! sees the queues they make among themselves (Reiser and Lavenberg 1980).
//! The response to those queues is not a sum of stages but the critical path
//! of the step, so that what overlaps with computing costs nothing.

use super::{Flow, Model};
use crate::calibration::TransferParameters;
use crate::job::Sync;
use crate::model::prediction::{Bottleneck, Part, Step};
use crate::units::{Bytes, Seconds};

/// Up to here every population is gone through; beyond, the queue that a
/// worker meets is its share of the queue that all make (Schweitzer 1979).
const EXACT: u32 = 64;
/// Rounds of the approximation.
const ROUNDS: u32 = 200;
/// Change of throughput at which it has settled.
const SETTLED: f64 = 1e-9;

/// How many others are met at a server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Met {
    down: f64,
    up: f64,
    lock: f64,
}

/// One class's step, and what it spends where.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    pull: f64,
    push: f64,
    update: f64,
    whole: f64,
}

impl Model<'_> {
    /// An iteration of workers that do not wait for each other: as many
    /// samples as a step of every worker brings, over the throughput.
    pub fn asynchronous(&mut self) -> Step {
        let in_step = match self.strategy.sync {
            // Nobody may be ahead at all: that is in step.
            Sync::Ssp(0) => return self.step(),
            Sync::Ssp(_) => Some(self.step()),
            Sync::Asp | Sync::Bsp => None,
        };
        let p = self.case.calibration.transfer;
        self.measure_flows(&p);
        // Workers of a node share its NIC with those who happen to use it.
        for (flow, class) in self.flows.iter_mut().zip(&self.case.classes) {
            if !self.strategy.local_aggregation {
                let total: f64 = self.case.servers.iter().map(|s| s.nic.get()).sum();
                flow.own = flow.remote / (class.nic.get().min(total) * p.goodput);
            }
        }
        self.beside.clear();
        self.beside.resize(self.flows.len(), 0.0);
        let customers: f64 = self.flows.iter().map(|f| f.senders).sum();
        let mut met = std::mem::take(&mut self.met);
        met.clear();
        met.resize(self.case.servers.len(), Met::default());
        if customers <= f64::from(EXACT) {
            let most = customers.round().max(1.0) as u32;
            for k in 1..=most {
                self.queues(
                    &p,
                    &mut met,
                    f64::from(k) / customers,
                    (k < most).then_some(1.0),
                );
            }
        } else {
            let share = (customers - 1.0) / customers;
            let mut last = 0.0_f64;
            for _ in 0..ROUNDS {
                let speed = self.queues(&p, &mut met, 1.0, Some(share));
                if (speed - last).abs() <= SETTLED * speed {
                    break;
                }
                last = speed;
            }
        }
        let step = self.iteration(&p, &met, customers);
        self.met = met;
        // Being allowed ahead never takes longer than waiting every step.
        match in_step {
            Some(in_step) if in_step.time < step.time => in_step,
            _ => step,
        }
    }

    /// One round: the queues that a part of the workers make when each meets
    /// `met`; they replace it, times `carry`, unless that is absent. Returns
    /// the workers' steps a second.
    fn queues(
        &mut self,
        p: &TransferParameters,
        met: &mut [Met],
        part: f64,
        carry: Option<f64>,
    ) -> f64 {
        let slowest = self.slowest_turn(p, met);
        let mut speed = 0.0;
        let mut rates = 0.0;
        for k in 0..self.kind_of.len() {
            let turn = self.pace(p, met, k, slowest);
            speed += part * self.flows[k].senders / turn;
            rates += part * self.flows[k].senders * self.flows[k].remote / turn;
        }
        if carry.is_some() {
            self.meet_neighbours(p, met, part, slowest);
        }
        if let Some(carry) = carry {
            for (server, met) in met.iter_mut().enumerate() {
                let demand = self.demand(server, p);
                let update = self.update_of(server, p);
                let new = Met {
                    down: rates * demand * (1.0 + met.down),
                    up: rates * demand * (1.0 + met.up),
                    lock: speed * update * (1.0 + met.lock),
                };
                // Half the way where it is a fixed point that is looked for.
                let keep = if carry < 1.0 { 0.5 } else { 0.0 };
                met.down = keep * met.down + (1.0 - keep) * carry * new.down;
                met.up = keep * met.up + (1.0 - keep) * carry * new.up;
                met.lock = keep * met.lock + (1.0 - keep) * carry * new.lock;
            }
        }
        speed
    }

    /// How many of the other workers of its node use the NIC when a worker
    /// does: each for its share of the time.
    fn meet_neighbours(
        &mut self,
        p: &TransferParameters,
        met: &[Met],
        part: f64,
        slowest: Option<f64>,
    ) {
        for k in 0..self.flows.len() {
            let others = f64::from(self.case.classes[k].sharing) - 1.0;
            if self.strategy.local_aggregation || others < 1.0 {
                continue;
            }
            let turn = self.pace(p, met, k, slowest);
            let using = self.shards.total * self.own(k) / turn;
            let next = part * others * using.min(1.0);
            self.beside[k] = f64::midpoint(self.beside[k], next);
        }
    }

    /// Seconds a byte on a class's own NIC, with who else uses it.
    fn own(&self, k: usize) -> f64 {
        self.flows[k].own * (1.0 + self.beside[k])
    }

    /// Seconds that a server needs for one worker's push.
    fn update_of(&self, server: usize, p: &TransferParameters) -> f64 {
        let bytes = self.shards.server_bytes[server];
        let optimizer = self.optimizer() * bytes / self.shards.total;
        (p.update_s_per_byte * bytes).max(optimizer)
    }

    /// Seconds a server's NIC is held, one way, by a worker's step.
    fn demand(&self, server: usize, p: &TransferParameters) -> f64 {
        self.shards.server_bytes[server] / (self.case.servers[server].nic.get() * p.goodput)
    }

    /// The slowest worker's step where the others may not leave it behind.
    fn slowest_turn(&self, p: &TransferParameters, met: &[Met]) -> Option<f64> {
        match self.strategy.sync {
            Sync::Ssp(_) => Some(
                (0..self.kind_of.len())
                    .map(|k| self.turn(p, met, k).whole)
                    .fold(0.0, f64::max),
            ),
            Sync::Asp | Sync::Bsp => None,
        }
    }

    fn pace(&self, p: &TransferParameters, met: &[Met], k: usize, slowest: Option<f64>) -> f64 {
        slowest.unwrap_or_else(|| self.turn(p, met, k).whole)
    }

    /// A class's step when it meets others at the servers.
    fn turn(&self, p: &TransferParameters, met: &[Met], k: usize) -> Turn {
        let flow = &self.flows[k];
        let update = met
            .iter()
            .enumerate()
            .map(|(s, met)| self.update_of(s, p) * (1.0 + met.lock))
            .fold(0.0, f64::max);
        let (mut forward_end, mut end) = self.in_turn(p, met, k, flow);
        if self.strategy.overlap {
            let overlapped = self.overlapped(p, met, k, flow);
            // A worker that only waits receives as fast as one in turn.
            if overlapped.1 < end {
                (forward_end, end) = overlapped;
            }
        }
        let kind = self.kind(k);
        let computed = kind.forward_total + kind.backward_total;
        let pull = forward_end - kind.forward_total;
        Turn {
            pull,
            push: end - pull - computed,
            update,
            whole: end + update,
        }
    }

    /// Pull, compute and push one after another.
    fn in_turn(&self, p: &TransferParameters, met: &[Met], k: usize, flow: &Flow) -> (f64, f64) {
        let (shards, kind) = (&self.shards, self.kind(k));
        let startup = p.startup_s * shards.messages;
        let phase = |own: f64, others: &dyn Fn(&Met) -> f64| {
            let mut end = shards.total * own + startup;
            for (s, met) in met.iter().enumerate() {
                let shared = self.demand(s, p) * flow.remote * (1.0 + others(met));
                end = end.max(shared + p.startup_s * shards.server_messages[s]);
            }
            end + p.latency_s
        };
        let pull = phase(self.own(k).max(kind.handling.receive), &|m| m.down);
        let copy = (kind.handling.copy_in + p.copy_s_per_byte) * shards.total;
        let forward_end = pull + copy + kind.forward_total;
        let push = phase(self.own(k).max(kind.handling.send), &|m| m.up);
        (forward_end, self.done(k, forward_end) + push)
    }

    /// Layers wait for their own weights; gradients leave when they are ready.
    fn overlapped(&self, p: &TransferParameters, met: &[Met], k: usize, flow: &Flow) -> (f64, f64) {
        let (shards, kind) = (&self.shards, self.kind(k));
        let slowed = |s: usize, others: f64| {
            flow.remote * (1.0 + others) / (self.case.servers[s].nic.get() * p.goodput)
        };
        if let [only] = met {
            // One server: link and server are one line for each layer.
            let down = self.own(k).max(slowed(0, only.down));
            let up = self.own(k).max(slowed(0, only.up));
            let forward = kind.forward_behind_link(down) + p.latency_s;
            let forward_end = forward.max(kind.unhindered(shards));
            return (
                forward_end,
                forward_end + kind.pushed(shards, up) + p.latency_s,
            );
        }
        let mut forward_end = kind.unhindered(shards);
        let mut pushed = kind.pushed(shards, self.own(k));
        for layer in 0..shards.len() {
            let s = shards.server[layer];
            let startup = p.startup_s * shards.server_counts_upto[layer];
            // Streams of all servers run side by side over the own link.
            let own = self.own(k) * shards.beside[layer];
            let served = slowed(s, met[s].down) * shards.server_upto[layer];
            let arrival = own.max(served) + startup + p.latency_s;
            forward_end = forward_end.max(arrival + kind.after_arrival(shards, layer));
            let left = slowed(s, met[s].up) * shards.server_upto[layer];
            pushed = pushed.max(kind.ready(shards, layer) + left + startup);
        }
        (forward_end, forward_end + pushed + p.latency_s)
    }

    fn iteration(&self, p: &TransferParameters, met: &[Met], customers: f64) -> Step {
        let slowest = self.slowest_turn(p, met);
        let (mut speed, mut samples_a_second, mut remote) = (0.0, 0.0, 0.0);
        let (mut reference, mut most) = (0, 0.0);
        for k in 0..self.kind_of.len() {
            let (class, flow) = (&self.case.classes[k], &self.flows[k]);
            let turn = self.pace(p, met, k, slowest);
            let samples = f64::from(class.batch) * f64::from(class.count) / turn;
            speed += flow.senders / turn;
            remote += flow.senders * flow.remote / turn;
            samples_a_second += samples;
            if samples > most {
                (reference, most) = (k, samples);
            }
        }
        let time = self.case.samples() / samples_a_second;
        let turn = self.turn(p, met, reference);
        let kind = self.kind(reference);
        // The class that brings most, at the length of an iteration.
        let scale = time / slowest.unwrap_or(turn.whole);
        let part = |name, seconds: f64| Part::new(name, Seconds::new(seconds * scale));
        let parts = [
            part("pull", turn.pull),
            part("forward", kind.forward_total),
            part("backward", kind.backward_total),
            part("push", turn.push),
            part("update", turn.update),
            part("waiting", 0.0),
        ];
        let used = if slowest.is_some() { 6 } else { 5 };
        let bottleneck = self.busiest(p, time, speed, remote, reference, customers);
        Step::new(Seconds::new(time), bottleneck, &parts[..used])
    }

    /// The resource with the highest utilisation.
    fn busiest(
        &self,
        p: &TransferParameters,
        time: f64,
        speed: f64,
        remote: f64,
        reference: usize,
        customers: f64,
    ) -> Bottleneck {
        let kind = self.kind(reference);
        let each = time * speed / customers;
        let mut worst = Bottleneck::Compute {
            class: reference,
            busy: Seconds::new((kind.forward_total + kind.backward_total) * each),
        };
        let mut consider = |candidate: Bottleneck| {
            if candidate.busy() > worst.busy() {
                worst = candidate;
            }
        };
        for (index, server) in self.case.servers.iter().enumerate() {
            let bytes = time * remote * self.shards.server_bytes[index];
            consider(Bottleneck::ServerLink {
                server: index,
                rate: server.nic,
                bytes: Bytes::new(bytes),
                busy: Seconds::new(time * remote * self.demand(index, p)),
            });
            let update = self.update_of(index, p);
            consider(Bottleneck::ServerUpdate {
                busy: Seconds::new(time * speed * update),
            });
        }
        for k in 0..self.kind_of.len() {
            consider(Bottleneck::WorkerLink {
                class: k,
                rate: self.case.classes[k].nic,
                busy: Seconds::new(
                    self.shards.total
                        * self.flows[k].own
                        * each
                        * f64::from(self.case.classes[k].sharing),
                ),
            });
        }
        worst
    }
}
