//! The event loop (Li 2020, Algorithm 3.1, on shared links of any shape).

use super::graph::Resource;
use super::heap::Heap;
use super::network::Network;
use super::pace::Pace;
use super::spec::{Limits, Order, Spec};
use super::stream::Stream;
use super::watch::Watch;
use super::wiring::Wiring;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// Why a simulation has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The limit of events was reached.
    #[error(
        "the simulation reached its limit of {events} events after {done} of {wanted} steps\n  hint: ask for fewer steps or workers, or raise the limit"
    )]
    Events {
        /// The limit.
        events: u64,
        /// Steps done.
        done: u64,
        /// Steps asked for.
        wanted: u64,
    },
    /// The caller's time was up.
    #[error(
        "the simulation ran out of time after {done} of {wanted} steps ({events} events)\n  hint: ask for fewer steps or workers, or allow it more time"
    )]
    Deadline {
        /// Events handled.
        events: u64,
        /// Steps done.
        done: u64,
        /// Steps asked for.
        wanted: u64,
    },
    /// Every worker has failed.
    #[error("all workers have failed after {done} steps: nothing is left to simulate")]
    NobodyLeft {
        /// Steps done.
        done: u64,
    },
}

/// Events between two looks at the caller's clock.
const PATIENCE: u64 = 1 << 14;

/// One worker's state.
struct Work {
    /// Predecessors that each operation still waits for.
    pending: Vec<u32>,
    /// Operations of the step that are not over.
    left: u32,
    /// Index of the sampled step.
    sample: usize,
    /// How much longer this step computes.
    stretch: f64,
    /// Its share of links against others'.
    weight: f64,
    /// What its device does, and what waits for it.
    computing: u32,
    queue: VecDeque<u32>,
    /// What it waits for, and what waits behind.
    waiting: u32,
    waits: VecDeque<u32>,
    started: [f64; 2],
    busy: f64,
    alive: bool,
    /// Counts its failures: what was begun before one is not its any more.
    life: u32,
}

/// One server's cores.
struct Cores {
    first_slot: u32,
    running: Vec<Option<(u32, u32, u32)>>,
    queue: VecDeque<(u32, u32, u32)>,
    started: Vec<f64>,
    busy: f64,
}

/// What the loop counted, besides the pace of steps.
pub(super) struct Counted {
    pub(super) events: u64,
    pub(super) now: f64,
    pub(super) computing: Vec<f64>,
    pub(super) serving: Vec<f64>,
    pub(super) carried: Vec<[f64; 2]>,
}

const NOTHING: u32 = u32::MAX;

pub(super) struct Engine<'a, W> {
    spec: &'a Spec,
    pace: Pace,
    watch: &'a mut W,
    timers: Heap,
    work: Vec<Work>,
    cores: Vec<Cores>,
    core_of: Vec<(u32, u32)>,
    networks: Vec<Network>,
    /// Which network, and which of its flows, each way is; none where both
    /// ends share a node.
    ways: Vec<Option<(u32, u32)>>,
    /// The way of each flow of each network.
    way_of: Vec<Vec<u32>>,
    /// First slot of each network, and one past the last.
    network_slots: Vec<u32>,
    streams: Vec<Stream>,
    stream_started: Vec<f64>,
    carried: Vec<[f64; 2]>,
    rng: Pcg64Mcg,
    jitter: Option<LogNormal<f64>>,
    unfairness: Option<LogNormal<f64>>,
    order: Vec<u32>,
    incidents: Vec<(f64, u32, bool)>,
    incident_slot: u32,
    barrier_slot: u32,
    now: f64,
    events: u64,
    /// Whether a flow began or ended at this moment.
    touched: bool,
}

impl<'a, W: Watch> Engine<'a, W> {
    pub(super) fn new(spec: &'a Spec, limits: &Limits, seed: u64, watch: &'a mut W) -> Self {
        let workers = spec.workers.len() as u32;
        let servers = spec.servers.len() as u32;
        let mut next_slot = 2 * workers;
        let mut core_of = Vec::new();
        let cores = (0..servers)
            .map(|s| {
                let count = spec.servers[s as usize].cores.clamp(1, workers.max(1));
                let first_slot = next_slot;
                next_slot += count;
                core_of.extend((0..count).map(|c| (s, c)));
                Cores {
                    first_slot,
                    running: vec![None; count as usize],
                    queue: VecDeque::new(),
                    started: vec![0.0; count as usize],
                    busy: 0.0,
                }
            })
            .collect();
        let (incident_slot, barrier_slot) = (next_slot, next_slot + 1);
        next_slot += 2;
        let wiring = Wiring::new(spec);
        let mut networks = Vec::new();
        let mut network_slots = vec![next_slot];
        for part in &wiring.parts {
            let network = Network::new(part.capacity.clone(), &part.routes, next_slot);
            next_slot += network.slots();
            network_slots.push(next_slot);
            networks.push(network);
        }
        let mut incidents: Vec<(f64, u32, bool)> = spec
            .failures
            .iter()
            .flat_map(|f| {
                [
                    Some((f.at, f.worker, false)),
                    f.back.map(|b| (b, f.worker, true)),
                ]
            })
            .flatten()
            .filter(|i| i.1 < workers)
            .collect();
        // Taken from the end: the earliest first, a failure before a return.
        incidents.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.2.cmp(&a.2)));
        // A lognormal of mean 1 with the asked coefficient of variation.
        let varying = |variation: f64| {
            let variance = (1.0 + variation * variation).ln();
            let varies = variation > 0.0;
            varies.then(|| LogNormal::new(-variance / 2.0, variance.sqrt()).ok())?
        };
        let (jitter, unfairness) = (varying(spec.jitter), varying(spec.unfairness));
        let ways = wiring.ways.len();
        Self {
            spec,
            pace: Pace::new(spec, limits),
            watch,
            timers: Heap::new(next_slot as usize),
            work: (0..workers).map(|_| Work::new(spec.graph.len())).collect(),
            cores,
            core_of,
            networks,
            ways: wiring.ways,
            way_of: wiring.parts.into_iter().map(|p| p.way_of).collect(),
            network_slots,
            streams: vec![Stream::default(); ways],
            stream_started: vec![0.0; ways],
            carried: vec![[0.0; 2]; spec.hosts.len()],
            rng: Pcg64Mcg::seed_from_u64(seed),
            jitter,
            unfairness,
            order: Vec::new(),
            incidents,
            incident_slot,
            barrier_slot,
            now: 0.0,
            events: 0,
            touched: false,
        }
    }

    /// Runs until the pace has what it wants.
    pub(super) fn run(
        mut self,
        limits: &Limits,
        expired: &dyn Fn() -> bool,
    ) -> Result<(Pace, Counted), SimError> {
        self.time_incident();
        for worker in 0..self.work.len() as u32 {
            self.begin_step(worker);
        }
        self.settle();
        let mut look = PATIENCE.min(limits.events);
        while !self.pace.finished() {
            let Some((moment, slot)) = self.timers.first() else {
                return Err(SimError::NobodyLeft {
                    done: self.pace.done(),
                });
            };
            debug_assert!(moment >= self.now, "time runs backwards");
            self.now = moment;
            self.events += 1;
            self.event(slot);
            if self.touched {
                self.settle();
            }
            if W::WATCHES {
                for network in &self.networks {
                    self.watch.moment(self.now, network);
                }
            }
            if self.events >= look {
                look = (look + PATIENCE).min(limits.events);
                if self.events >= limits.events {
                    return Err(SimError::Events {
                        events: limits.events,
                        done: self.pace.done(),
                        wanted: self.pace.wanted(),
                    });
                }
                if expired() {
                    return Err(SimError::Deadline {
                        events: self.events,
                        done: self.pace.done(),
                        wanted: self.pace.wanted(),
                    });
                }
            }
        }
        // What is still under way counts as far as it got.
        for worker in 0..self.work.len() as u32 {
            self.work[worker as usize].busy -= self.left(worker);
        }
        for server in 0..self.cores.len() {
            let slots = self.cores[server].first_slot..;
            let slots = slots.take(self.cores[server].running.len());
            let left: f64 = slots.map(|slot| self.left(slot)).sum();
            self.cores[server].busy -= left;
        }
        let counted = Counted {
            events: self.events,
            now: self.now,
            computing: self.work.iter().map(|w| w.busy).collect(),
            serving: self.cores.iter().map(|c| c.busy).collect(),
            carried: self.carried,
        };
        Ok((self.pace, counted))
    }

    /// Finds the shares of links anew.
    fn settle(&mut self) {
        self.touched = false;
        for network in &mut self.networks {
            network.settle(self.now, &mut self.timers);
        }
    }

    /// Time until a timer goes off.
    fn left(&self, slot: u32) -> f64 {
        self.timers.moment(slot).map_or(0.0, |m| m - self.now)
    }

    #[inline]
    fn event(&mut self, slot: u32) {
        let workers = self.work.len() as u32;
        if slot >= self.network_slots[0] {
            let network = self.network_slots[1..]
                .iter()
                .take_while(|&&s| s <= slot)
                .count();
            self.chunk_through(network, slot);
        } else if slot < workers {
            self.computed(slot);
        } else if slot < 2 * workers {
            self.waited(slot - workers);
        } else if slot == self.incident_slot {
            self.incident();
        } else if slot == self.barrier_slot {
            self.timers.clear(slot);
            self.pass_barrier();
        } else {
            self.served(slot);
        }
    }

    fn begin_step(&mut self, worker: u32) {
        let spec = self.spec;
        let kind = &spec.kinds[spec.workers[worker as usize].kind as usize];
        let work = &mut self.work[worker as usize];
        work.pending.copy_from_slice(&spec.graph.predecessors);
        work.left = spec.graph.len() as u32;
        work.sample = if kind.len() > 1 {
            self.rng.random_range(0..kind.len())
        } else {
            0
        };
        let jitter = self.jitter.map_or(1.0, |j| j.sample(&mut self.rng));
        work.stretch = jitter * spec.workers[worker as usize].slowness;
        if let Some(unfairness) = self.unfairness {
            work.weight = unfairness.sample(&mut self.rng);
        }
        self.pace.begin(worker);
        if spec.order == Order::Forward {
            for &op in &spec.graph.roots {
                self.ready(worker, op);
            }
            return;
        }
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend_from_slice(&spec.graph.roots);
        if spec.order == Order::Reverse {
            order.reverse();
        } else {
            order.shuffle(&mut self.rng);
        }
        for &op in &order {
            self.ready(worker, op);
        }
        self.order = order;
    }

    /// An operation waits for nothing any more.
    #[inline]
    fn ready(&mut self, worker: u32, op: u32) {
        match self.spec.graph.resource[op as usize] {
            Resource::Compute => {
                let work = &mut self.work[worker as usize];
                if work.computing == NOTHING {
                    self.compute(worker, op);
                } else {
                    work.queue.push_back(op);
                }
            }
            Resource::Down(server) => self.transfer(worker, server, 0, op),
            Resource::Up(server) => self.transfer(worker, server, 1, op),
            Resource::Server(server) => {
                let life = self.work[worker as usize].life;
                self.serve(server, (worker, op, life));
            }
            Resource::Wait => {
                let work = &mut self.work[worker as usize];
                if work.waiting == NOTHING {
                    self.wait(worker, op);
                } else {
                    work.waits.push_back(op);
                }
            }
        }
    }

    #[inline]
    fn cost(&self, worker: u32, op: u32) -> f64 {
        let spec = self.spec;
        let kind = spec.workers[worker as usize].kind as usize;
        spec.kinds[kind][self.work[worker as usize].sample].0[op as usize]
    }

    #[inline]
    fn compute(&mut self, worker: u32, op: u32) {
        let length = self.cost(worker, op) * self.work[worker as usize].stretch;
        let work = &mut self.work[worker as usize];
        work.computing = op;
        work.busy += length;
        work.started[0] = self.now;
        self.timers.set(worker, self.now + length);
    }

    #[inline]
    fn computed(&mut self, worker: u32) {
        let work = &mut self.work[worker as usize];
        let op = std::mem::replace(&mut work.computing, NOTHING);
        if W::WATCHES {
            self.watch.span(worker, op, work.started[0], self.now);
        }
        if let Some(next) = work.queue.pop_front() {
            self.compute(worker, next);
        }
        self.over(worker, op);
        if self.work[worker as usize].computing == NOTHING {
            self.timers.clear(worker);
        }
    }

    fn wait(&mut self, worker: u32, op: u32) {
        let length = self.cost(worker, op);
        let work = &mut self.work[worker as usize];
        work.waiting = op;
        work.started[1] = self.now;
        self.timers
            .set(self.work.len() as u32 + worker, self.now + length);
    }

    fn waited(&mut self, worker: u32) {
        self.timers.clear(self.work.len() as u32 + worker);
        let work = &mut self.work[worker as usize];
        let op = std::mem::replace(&mut work.waiting, NOTHING);
        if W::WATCHES {
            self.watch.span(worker, op, work.started[1], self.now);
        }
        if let Some(next) = work.waits.pop_front() {
            self.wait(worker, next);
        }
        self.over(worker, op);
    }

    fn way(&self, worker: u32, server: u32, up: u32) -> u32 {
        (worker * self.spec.servers.len() as u32 + server) * 2 + up
    }

    #[inline]
    fn transfer(&mut self, worker: u32, server: u32, up: u32, op: u32) {
        let way = self.way(worker, server, up);
        let Some((network, flow)) = self.ways[way as usize] else {
            // Within the node, nothing is sent.
            self.over(worker, op);
            return;
        };
        let stream = &mut self.streams[way as usize];
        stream.add(op, self.spec.graph.bytes[op as usize]);
        let network = &mut self.networks[network as usize];
        if !network.is_active(flow)
            && let Some(bytes) = stream.next(self.spec.window)
        {
            self.stream_started[way as usize] = self.now;
            let weight = self.work[worker as usize].weight;
            network.begin(flow, bytes, weight, self.now, &mut self.timers);
            self.touched = true;
        }
    }

    #[inline]
    fn chunk_through(&mut self, network: usize, slot: u32) {
        let flow = self.networks[network].flow_of(slot);
        let way = self.way_of[network][flow as usize];
        let stream = &mut self.streams[way as usize];
        let (bytes, op, ends) = stream.through();
        let servers = self.spec.servers.len() as u32;
        let (worker, server, up) = (way / 2 / servers, way / 2 % servers, way % 2);
        let both = [
            self.spec.workers[worker as usize].host,
            self.spec.servers[server as usize].host,
        ];
        // What goes up leaves the worker and reaches the server.
        self.carried[both[0] as usize][up as usize] += bytes;
        self.carried[both[1] as usize][1 - up as usize] += bytes;
        if W::WATCHES {
            let started = self.stream_started[way as usize];
            self.watch.span(worker, op, started, self.now);
        }
        if let Some(bytes) = stream.next(self.spec.window) {
            if W::WATCHES {
                self.stream_started[way as usize] = self.now;
            }
            self.networks[network].follow(flow, bytes, self.now, &mut self.timers);
        } else {
            self.networks[network].end(flow, self.now, &mut self.timers);
            self.touched = true;
        }
        if ends {
            self.over(worker, op);
        }
    }

    fn serve(&mut self, server: u32, job: (u32, u32, u32)) {
        let cores = &self.cores[server as usize];
        match cores.running.iter().position(Option::is_none) {
            Some(core) => self.serve_on(server, core, job),
            None => self.cores[server as usize].queue.push_back(job),
        }
    }

    fn serve_on(&mut self, server: u32, core: usize, job: (u32, u32, u32)) {
        let length = self.cost(job.0, job.1);
        let cores = &mut self.cores[server as usize];
        cores.running[core] = Some(job);
        cores.started[core] = self.now;
        cores.busy += length;
        self.timers
            .set(cores.first_slot + core as u32, self.now + length);
    }

    fn served(&mut self, slot: u32) {
        self.timers.clear(slot);
        let (server, core) = self.core_of[(slot - 2 * self.work.len() as u32) as usize];
        let cores = &mut self.cores[server as usize];
        let job = cores.running[core as usize].take();
        let started = cores.started[core as usize];
        if let Some(next) = cores.queue.pop_front() {
            self.serve_on(server, core as usize, next);
        }
        let Some((worker, op, life)) = job else {
            return;
        };
        if W::WATCHES {
            self.watch.span(worker, op, started, self.now);
        }
        if self.work[worker as usize].life == life {
            self.over(worker, op);
        }
    }

    /// An operation is over: those that waited only for it are ready.
    #[inline]
    fn over(&mut self, worker: u32, op: u32) {
        let spec = self.spec;
        self.work[worker as usize].left -= 1;
        for &next in spec.graph.dependents(op) {
            let pending = &mut self.work[worker as usize].pending[next as usize];
            *pending -= 1;
            if *pending == 0 {
                self.ready(worker, next);
            }
        }
        if self.work[worker as usize].left == 0 {
            self.step_over(worker);
        }
    }

    fn step_over(&mut self, worker: u32) {
        self.pace.end(worker, self.now);
        self.let_go();
    }

    /// Starts everyone who may go on.
    fn let_go(&mut self) {
        if self.pace.barrier_due() {
            self.timers
                .set(self.barrier_slot, self.now + self.spec.barrier_s);
            return;
        }
        while let Some(worker) = self.pace.next() {
            self.begin_step(worker);
        }
    }

    fn pass_barrier(&mut self) {
        self.pace.pass_barrier(self.now);
        self.let_go();
    }

    fn time_incident(&mut self) {
        match self.incidents.last() {
            Some(&(at, ..)) => self.timers.set(self.incident_slot, at.max(self.now)),
            None => self.timers.clear(self.incident_slot),
        }
    }

    fn incident(&mut self) {
        let Some((_, worker, back)) = self.incidents.pop() else {
            return;
        };
        self.time_incident();
        let alive = self.work[worker as usize].alive;
        if back && !alive {
            self.work[worker as usize].alive = true;
            self.pace.join(worker);
        } else if !back && alive {
            self.stop(worker);
            self.pace.leave(worker);
        }
        self.let_go();
    }

    /// Drops all that a worker was doing.
    fn stop(&mut self, worker: u32) {
        let workers = self.work.len() as u32;
        self.work[worker as usize].busy -= self.left(worker);
        self.timers.clear(worker);
        self.timers.clear(workers + worker);
        self.work[worker as usize].stop();
        for server in 0..self.spec.servers.len() as u32 {
            for up in 0..2 {
                let way = self.way(worker, server, up);
                self.streams[way as usize].clear();
                if let Some((network, flow)) = self.ways[way as usize]
                    && self.networks[network as usize].is_active(flow)
                {
                    self.networks[network as usize].end(flow, self.now, &mut self.timers);
                    self.touched = true;
                }
            }
            let alive = |job: &(u32, u32, u32)| job.0 != worker;
            self.cores[server as usize].queue.retain(alive);
        }
    }
}

impl Work {
    fn new(operations: usize) -> Self {
        Self {
            pending: vec![0; operations],
            left: 0,
            sample: 0,
            stretch: 1.0,
            weight: 1.0,
            computing: NOTHING,
            queue: VecDeque::new(),
            waiting: NOTHING,
            waits: VecDeque::new(),
            started: [0.0; 2],
            busy: 0.0,
            alive: true,
            life: 0,
        }
    }

    fn stop(&mut self) {
        self.alive = false;
        self.life += 1;
        self.computing = NOTHING;
        self.waiting = NOTHING;
        self.queue.clear();
        self.waits.clear();
    }
}
