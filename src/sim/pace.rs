//! Who may begin a step, and the record of steps that are over.

use super::spec::{Limits, Spec};
use super::stats::{self, Done, Estimate};
use crate::job::Sync;
use std::collections::VecDeque;

/// Where a worker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Working,
    Waiting,
    Gone,
}

pub(super) struct Pace {
    sync: Sync,
    samples: Vec<f64>,
    stand: Vec<Stand>,
    /// Steps that each has done.
    clock: Vec<u64>,
    /// Updates that the weights had seen when each began its step.
    seen: Vec<u64>,
    /// How many have done as many steps as the slowest, one more, and so on.
    behind: VecDeque<u32>,
    slowest: u64,
    present: u32,
    waiting: VecDeque<u32>,
    /// Under `bsp`: who is back, but joins only with the next round.
    joining: Vec<u32>,
    /// Under `bsp`: who has come to the barrier.
    arrived: u32,
    updates: u64,
    /// For each worker, how many of its steps were how many updates late.
    pub(super) staleness: Vec<Vec<u64>>,
    pub(super) finished_steps: Vec<Done>,
    wanted: u64,
    /// Steps that end at one moment: under `bsp` those of a round.
    together: usize,
    warm_up: usize,
    tolerance: f64,
    next_look: usize,
    enough: bool,
}

/// Batches that the steps are divided into.
pub(super) const BATCHES: usize = 20;
/// The longest delay that is told apart.
const LONGEST: usize = 255;

impl Pace {
    pub(super) fn new(spec: &Spec, limits: &Limits) -> Self {
        let workers = spec.workers.len();
        let warm_up = limits.warm_up as usize * workers;
        Self {
            sync: spec.sync,
            samples: spec.workers.iter().map(|w| w.samples).collect(),
            stand: vec![Stand::Working; workers],
            clock: vec![0; workers],
            seen: vec![0; workers],
            behind: VecDeque::from([workers as u32]),
            slowest: 0,
            present: workers as u32,
            waiting: VecDeque::new(),
            joining: Vec::new(),
            arrived: 0,
            updates: 0,
            staleness: vec![Vec::new(); workers],
            finished_steps: Vec::new(),
            wanted: u64::from(limits.steps.max(1)) * workers as u64,
            together: if spec.sync == Sync::Bsp { workers } else { 1 },
            warm_up,
            tolerance: limits.tolerance,
            next_look: warm_up + BATCHES * workers,
            enough: false,
        }
    }

    pub(super) fn done(&self) -> u64 {
        self.finished_steps.len() as u64
    }

    pub(super) fn wanted(&self) -> u64 {
        self.wanted
    }

    pub(super) fn finished(&self) -> bool {
        self.enough || self.done() >= self.wanted
    }

    /// The throughput over what came after the warm-up.
    pub(super) fn estimate(&self) -> Estimate {
        stats::estimate(&self.finished_steps, self.warm_up, BATCHES, self.together)
    }

    pub(super) fn narrow(&self) -> bool {
        self.enough
    }

    pub(super) fn begin(&mut self, worker: u32) {
        self.stand[worker as usize] = Stand::Working;
        self.seen[worker as usize] = self.updates;
    }

    /// A worker's step is over.
    pub(super) fn end(&mut self, worker: u32, now: f64) {
        let w = worker as usize;
        let stale = (self.updates - self.seen[w]).min(LONGEST as u64) as usize;
        let histogram = &mut self.staleness[w];
        if histogram.len() <= stale {
            histogram.resize(stale + 1, 0);
        }
        histogram[stale] += 1;
        if self.sync != Sync::Bsp {
            self.updates += 1;
            self.count(worker, now);
        }
        self.stand[w] = Stand::Waiting;
        self.waiting.push_back(worker);
        self.arrived += u32::from(self.sync == Sync::Bsp);
        let place = (self.clock[w] - self.slowest) as usize;
        self.behind[place] -= 1;
        if self.behind.len() <= place + 1 {
            self.behind.push_back(0);
        }
        self.behind[place + 1] += 1;
        self.clock[w] += 1;
        self.catch_up();
    }

    fn count(&mut self, worker: u32, now: f64) {
        self.finished_steps.push(Done {
            at: now,
            samples: self.samples[worker as usize],
        });
        if self.finished_steps.len() == self.next_look && self.tolerance > 0.0 {
            let after = self.next_look - self.warm_up;
            self.next_look = self.warm_up + 2 * after;
            self.enough = self.estimate().relative() <= self.tolerance;
        }
    }

    fn catch_up(&mut self) {
        while self.behind.len() > 1 && self.behind[0] == 0 {
            self.behind.pop_front();
            self.slowest += 1;
        }
    }

    /// Whether all have arrived and the servers may apply the sum.
    pub(super) fn barrier_due(&self) -> bool {
        self.sync == Sync::Bsp && self.arrived > 0 && self.arrived == self.present
    }

    /// The sum is applied: the steps count, and all may go on.
    pub(super) fn pass_barrier(&mut self, now: f64) {
        self.arrived = 0;
        self.updates += 1;
        for i in 0..self.waiting.len() {
            self.count(self.waiting[i], now);
        }
        for worker in std::mem::take(&mut self.joining) {
            self.take_in(worker);
        }
    }

    /// Someone who may begin a step.
    pub(super) fn next(&mut self) -> Option<u32> {
        match self.sync {
            Sync::Bsp if self.arrived > 0 => None,
            Sync::Bsp | Sync::Asp => self.waiting.pop_front(),
            Sync::Ssp(staleness) => {
                let most = self.slowest + u64::from(staleness);
                let free = |w: &u32| self.clock[*w as usize] <= most;
                let place = self.waiting.iter().position(free)?;
                self.waiting.remove(place)
            }
        }
    }

    /// A worker is gone: nobody waits for it.
    pub(super) fn leave(&mut self, worker: u32) {
        let w = worker as usize;
        if let Some(place) = self.joining.iter().position(|&j| j == worker) {
            self.joining.remove(place);
            return;
        }
        if self.stand[w] == Stand::Waiting {
            self.waiting.retain(|&other| other != worker);
            self.arrived = self.arrived.saturating_sub(1);
        }
        self.stand[w] = Stand::Gone;
        self.present -= 1;
        self.behind[(self.clock[w] - self.slowest) as usize] -= 1;
        if self.present > 0 {
            self.catch_up();
        }
    }

    /// A worker is back. Where all go in step it waits for the next round.
    pub(super) fn join(&mut self, worker: u32) {
        if self.sync == Sync::Bsp && self.present > 0 {
            self.joining.push(worker);
        } else {
            self.take_in(worker);
        }
    }

    /// It may begin a step, as far as the slowest.
    fn take_in(&mut self, worker: u32) {
        let w = worker as usize;
        self.present += 1;
        self.clock[w] = self.slowest;
        self.behind[0] += 1;
        self.stand[w] = Stand::Waiting;
        self.waiting.push_back(worker);
    }
}
