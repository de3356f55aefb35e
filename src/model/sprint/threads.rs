//! Algorithms 1 and 2 as they run: threads, locks and the all-reduce. It
//! checks the fixed point; nothing but the elements is shared with it.

use super::elements::Elements;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Normal};
use rand_pcg::Pcg64Mcg;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// Mean round of a GPU thread.
    pub gpu: f64,
    /// Mean round of an update thread.
    pub update: f64,
    /// Mean samples of an update, counted.
    pub minibatch: f64,
}

/// Moments in an order that a heap can keep.
#[derive(Clone, Copy, PartialEq)]
struct Moment(f64);
impl Eq for Moment {}
impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Where a thread is: the line it comes to next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    GpuWantsWeights,
    GpuFetches,
    GpuComputes,
    GpuWantsBuffer,
    GpuWrites,
    Visits(u32),
    Sums(u32),
    Prepares,
    Reduces,
    Finishes,
    WantsWeights,
    WritesWeights,
}

#[derive(Default)]
struct Lock {
    held: bool,
    queue: VecDeque<u32>,
}

struct Thread {
    node: u32,
    /// Its buffer; the update thread has none.
    buffer: Option<u32>,
    line: Line,
    seen: u64,
    rounds: u64,
    first: f64,
    last: f64,
}

struct Node {
    weights: Lock,
    version: u64,
    buffers: Vec<Lock>,
    /// Gradients in each buffer that were not summed yet.
    fresh: Vec<u64>,
}

struct World<'a> {
    e: &'a Elements,
    nodes: Vec<Node>,
    threads: Vec<Thread>,
    events: BinaryHeap<Reverse<(Moment, u64, u32)>>,
    arrived: Vec<u32>,
    now: f64,
    count: u64,
    summed: u64,
    updates: u64,
    counting: bool,
    jitter: Option<Normal<f64>>,
    rng: Pcg64Mcg,
}

/// Runs `rounds` of every thread, the first quarter of which is dropped.
/// `variation` is that of the gradient's time.
pub fn simulate(e: &Elements, variation: f64, rounds: u64, seed: u64) -> Observed {
    let mut world = World::new(e, variation, seed);
    let warm = rounds / 4;
    loop {
        let slowest = world.threads.iter().map(|t| t.rounds).min().unwrap_or(0);
        if !world.counting && slowest >= warm {
            world.begin_counting();
        }
        if slowest >= rounds {
            return world.observed();
        }
        let Some(Reverse((moment, _, thread))) = world.events.pop() else {
            return world.observed();
        };
        world.now = moment.0;
        world.go_on(thread);
    }
}

impl<'a> World<'a> {
    fn new(e: &'a Elements, variation: f64, seed: u64) -> Self {
        let gpus = e.gpus as usize;
        let mut world = Self {
            e,
            nodes: (0..e.nodes)
                .map(|_| Node {
                    weights: Lock::default(),
                    version: 1,
                    buffers: (0..gpus).map(|_| Lock::default()).collect(),
                    fresh: vec![0; gpus],
                })
                .collect(),
            threads: Vec::new(),
            events: BinaryHeap::new(),
            arrived: Vec::new(),
            now: 0.0,
            count: 0,
            summed: 0,
            updates: 0,
            counting: false,
            jitter: (variation > 0.0)
                .then(|| Normal::new(e.gradient, variation * e.gradient).ok())
                .flatten(),
            rng: Pcg64Mcg::seed_from_u64(seed),
        };
        for node in 0..e.nodes {
            for buffer in (0..e.gpus).map(Some).chain([None]) {
                let line = match buffer {
                    Some(_) => Line::GpuWantsWeights,
                    None => Line::Visits(0),
                };
                world.threads.push(Thread {
                    node,
                    buffer,
                    line,
                    seen: 0,
                    rounds: 0,
                    first: 0.0,
                    last: 0.0,
                });
                let thread = world.threads.len() as u32 - 1;
                let begin = if buffer.is_some() {
                    world.rng.random::<f64>() * e.gradient
                } else {
                    0.0
                };
                world.after(thread, begin, line);
            }
        }
        world
    }

    fn begin_counting(&mut self) {
        self.counting = true;
        for thread in &mut self.threads {
            thread.rounds = 0;
            thread.first = thread.last;
        }
        (self.summed, self.updates) = (0, 0);
    }

    fn observed(&self) -> Observed {
        let period = |t: &Thread| (t.last - t.first) / t.rounds as f64;
        let (mut speed, mut gpus, mut update, mut updates) = (0.0, 0.0, 0.0, 0.0);
        for thread in &self.threads {
            if thread.buffer.is_some() {
                speed += 1.0 / period(thread);
                gpus += 1.0;
            } else {
                update += period(thread);
                updates += 1.0;
            }
        }
        Observed {
            gpu: gpus / speed,
            update: update / updates,
            minibatch: self.summed as f64 * f64::from(self.e.sub_batch)
                / (self.updates as f64 / f64::from(self.e.nodes)),
        }
    }

    /// The thread comes to a line after some time.
    fn after(&mut self, thread: u32, seconds: f64, line: Line) {
        self.threads[thread as usize].line = line;
        self.count += 1;
        self.events
            .push(Reverse((Moment(self.now + seconds), self.count, thread)));
    }

    fn lock(&mut self, thread: u32, buffer: Option<u32>) -> &mut Lock {
        let node = &mut self.nodes[self.threads[thread as usize].node as usize];
        match buffer {
            Some(buffer) => &mut node.buffers[buffer as usize],
            None => &mut node.weights,
        }
    }

    /// Takes a lock, or queues for it; the queue is woken at `line`.
    fn take(&mut self, thread: u32, buffer: Option<u32>, line: Line) -> bool {
        let lock = self.lock(thread, buffer);
        if lock.held {
            lock.queue.push_back(thread);
            self.threads[thread as usize].line = line;
            return false;
        }
        lock.held = true;
        true
    }

    /// Gives a lock to whoever waits longest.
    fn release(&mut self, thread: u32, buffer: Option<u32>) {
        let lock = self.lock(thread, buffer);
        match lock.queue.pop_front() {
            Some(next) => {
                let line = self.threads[next as usize].line;
                self.after(next, 0.0, line);
            }
            None => lock.held = false,
        }
    }

    fn round_over(&mut self, thread: u32) {
        let thread = &mut self.threads[thread as usize];
        thread.rounds += 1;
        thread.last = self.now;
    }

    fn go_on(&mut self, thread: u32) {
        let e = self.e;
        let t = &self.threads[thread as usize];
        let (node, buffer) = (t.node as usize, t.buffer);
        match t.line {
            Line::GpuWantsWeights => {
                if self.take(thread, None, Line::GpuFetches) {
                    self.threads[thread as usize].line = Line::GpuFetches;
                    self.go_on(thread);
                }
            }
            Line::GpuFetches => {
                let version = self.nodes[node].version;
                let new = version != self.threads[thread as usize].seen;
                self.threads[thread as usize].seen = version;
                self.after(thread, if new { e.fetch } else { 0.0 }, Line::GpuComputes);
            }
            Line::GpuComputes => {
                self.release(thread, None);
                let gradient = self.jitter.map_or(e.gradient, |j| {
                    j.sample(&mut self.rng).max(0.05 * e.gradient)
                });
                let time = e.load + e.deform + gradient + e.update_value;
                self.after(thread, time, Line::GpuWantsBuffer);
            }
            Line::GpuWantsBuffer => {
                if self.take(thread, buffer, Line::GpuWrites) {
                    self.threads[thread as usize].line = Line::GpuWrites;
                    self.go_on(thread);
                }
            }
            Line::GpuWrites => {
                // The lock is held; the gradient is there at the end.
                if self.threads[thread as usize].seen & WRITING == 0 {
                    self.threads[thread as usize].seen |= WRITING;
                    self.after(thread, e.update_gradient, Line::GpuWrites);
                } else {
                    self.threads[thread as usize].seen &= !WRITING;
                    let own = buffer.unwrap_or(0);
                    self.nodes[node].fresh[own as usize] += 1;
                    self.release(thread, buffer);
                    self.round_over(thread);
                    self.threads[thread as usize].line = Line::GpuWantsWeights;
                    self.go_on(thread);
                }
            }
            Line::Visits(at) if at == e.gpus => {
                self.after(thread, e.old_weights + e.add_momentum, Line::Prepares);
            }
            Line::Visits(at) => {
                if self.take(thread, Some(at), Line::Sums(at)) {
                    self.threads[thread as usize].line = Line::Sums(at);
                    self.go_on(thread);
                }
            }
            Line::Sums(at) => {
                let fresh = std::mem::take(&mut self.nodes[node].fresh[at as usize]);
                if fresh > 0 {
                    self.summed += fresh;
                    // Comes back here with nothing fresh, and lets go.
                    self.after(thread, e.sum_one, Line::Sums(at));
                } else {
                    self.release(thread, Some(at));
                    self.threads[thread as usize].line = Line::Visits(at + 1);
                    self.go_on(thread);
                }
            }
            Line::Prepares => {
                self.arrived.push(thread);
                if self.arrived.len() == self.nodes.len() {
                    for thread in std::mem::take(&mut self.arrived) {
                        self.after(thread, e.all_reduce, Line::Reduces);
                    }
                }
            }
            Line::Reduces => self.after(thread, e.update_momentum, Line::Finishes),
            Line::Finishes => {
                if self.take(thread, None, Line::WantsWeights) {
                    self.threads[thread as usize].line = Line::WantsWeights;
                    self.go_on(thread);
                }
            }
            Line::WantsWeights => self.after(thread, e.update_weights, Line::WritesWeights),
            Line::WritesWeights => {
                self.nodes[node].version += 1;
                self.release(thread, None);
                self.updates += 1;
                self.round_over(thread);
                self.threads[thread as usize].line = Line::Visits(0);
                self.go_on(thread);
            }
        }
    }
}

/// Marks a GPU thread that is writing its gradient.
const WRITING: u64 = 1 << 63;
