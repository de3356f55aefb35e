//! The project's all-reduce model: gradients become messages in the order in
//! which they are ready, and travel while the backward pass goes on. To Liu's
//! recurrence it adds unequal workers and NICs, GPUs that share a node's NIC,
//! the frameworks' own fusion, and computation and collectives that slow each
//! other down. `docs/models.md` derives it.

mod cost;
mod messages;

pub use cost::Cost;
pub use messages::Message;

use super::case::Case;
use super::compute::Timing;
use super::prediction::{Bottleneck, Part, Step};
use crate::calibration::CollectiveParameters;
use crate::job::{AllReduce, Fusion, Strategy};
use crate::units::{Bytes, Seconds};
use messages::{Gradient, gradients};

/// Expected largest of N standard normal numbers, for N = 1, 2, 4 … 1024.
const LARGEST: [f64; 11] = [
    0.0, 0.5642, 1.0294, 1.4236, 1.7660, 2.0697, 2.3437, 2.5946, 2.8263, 3.0420, 3.2442,
];

/// The same for any N: linear in the logarithm, a fifth a doubling beyond.
fn expected_largest(count: f64) -> f64 {
    let doublings = count.max(1.0).log2();
    let below = doublings as usize;
    match (LARGEST.get(below), LARGEST.get(below + 1)) {
        (Some(a), Some(b)) => a + (doublings - below as f64) * (b - a),
        _ => LARGEST[10] + 0.2 * (doublings - 10.0),
    }
}

/// A case prepared for many predictions.
#[derive(Clone, Debug)]
pub struct Model<'a> {
    case: &'a Case<'a>,
    strategy: AllReduce,
    p: CollectiveParameters,
    cost: Cost,
    /// The class that computes longest; its layers give the moments.
    slowest: usize,
    /// Compute time and workers of each class, slowest first.
    slow_first: Vec<(f64, f64)>,
    messages: Vec<Message>,
    bytes: f64,
    forward: f64,
    backward: f64,
    optimizer: f64,
    /// Seconds a byte to copy a gradient into its bucket, or out of it.
    copy: f64,
}

impl<'a> Model<'a> {
    /// Prepares a case; `None` when its strategy is another.
    pub fn new(case: &'a Case<'a>) -> Option<Self> {
        let Strategy::AllReduce(strategy) = case.job.strategy else {
            return None;
        };
        let p = *cost::parameters(case);
        let cost = Cost::of(case);
        let slowest = case.slowest();
        let class = &case.classes[slowest];
        let timing: &Timing = &class.timing;
        let ready = gradients(
            &case.job.workload,
            timing,
            case.job.precision,
            strategy.compression,
        );
        let messages = messages::plan(&ready, &strategy, &cost);
        let optimizer = case.classes.iter().map(|c| c.timing.optimizer.get());
        let mut slow_first: Vec<(f64, f64)> = case
            .classes
            .iter()
            .map(|c| (c.timing.compute().get(), f64::from(c.count)))
            .collect();
        slow_first.sort_by(|a, b| b.0.total_cmp(&a.0));
        Some(Self {
            case,
            strategy,
            p,
            slowest,
            slow_first,
            bytes: ready.iter().map(|g: &Gradient| g.bytes).sum(),
            messages,
            cost,
            forward: timing.forward_total().get(),
            backward: timing.backward_total().get(),
            optimizer: optimizer.fold(0.0, f64::max),
            copy: cost::copy_s_per_byte(case, slowest),
        })
    }

    /// The messages, in the order in which they are sent.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The collective's cost.
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// The step with the workers that the case counts.
    pub fn step(&self) -> Step {
        let waiting = self.waiting();
        let (forward, backward) = (self.forward * waiting, self.backward * waiting);
        let compute = forward + backward + self.optimizer;
        let time = if self.case.workers == 1 {
            compute
        } else {
            self.distributed(forward, backward)
        };
        let busy = self
            .messages
            .iter()
            .map(|m| self.cost.time(m.bytes))
            .sum::<f64>();
        let bottleneck = if busy > forward + backward && self.case.workers > 1 {
            Bottleneck::AllReduce {
                over: self.cost.carrier(),
                class: self.cost.class(),
                rate: self.cost.rate(),
                bytes: Bytes::new(self.bytes),
                busy: Seconds::new(busy),
            }
        } else {
            Bottleneck::Compute {
                class: self.slowest,
                busy: Seconds::new(forward + backward),
            }
        };
        let part = |name, time: f64| Part {
            name,
            time: Seconds::new(time),
        };
        let straggling = (waiting - 1.0) * (self.forward + self.backward);
        let parts = [
            part("forward", self.forward),
            part("backward", self.backward),
            part("stragglers", straggling),
            part("update", self.optimizer),
            part("all_reduce", time - compute),
        ];
        Step::new(Seconds::new(time), bottleneck, &parts)
    }

    /// The same with nothing overlapped: each message after the other, after
    /// all computation, with every hindrance in full.
    pub fn in_sequence(&self) -> Step {
        let waiting = self.waiting();
        let (forward, backward) = (self.forward * waiting, self.backward * waiting);
        let hindered = backward * (1.0 + self.p.compute_slowdown);
        let carried: f64 = self
            .messages
            .iter()
            .map(|m| self.cost.time(m.bytes) + m.wait)
            .sum();
        let copies = 2.0 * self.copy * self.bytes * (1.0 + self.p.compute_slowdown);
        let parts_cut = match self.strategy.fusion {
            Fusion::Partition { .. } => self.p.part_s * self.messages.len() as f64,
            _ => 0.0,
        };
        let alone = self.case.workers == 1;
        let communication = if alone {
            0.0
        } else {
            carried * (1.0 + self.p.transfer_slowdown) + copies + parts_cut
        };
        let computing = forward + if alone { backward } else { hindered };
        let part = |name, time: f64| Part {
            name,
            time: Seconds::new(time),
        };
        let parts = [
            part("compute", computing),
            part("update", self.optimizer),
            part("all_reduce", communication),
        ];
        let bottleneck = Bottleneck::Compute {
            class: self.slowest,
            busy: Seconds::new(computing),
        };
        let time = computing + self.optimizer + communication;
        Step::new(Seconds::new(time), bottleneck, &parts)
    }

    /// How much longer the slowest of all workers takes than the mean of the
    /// slowest class: workers vary from step to step, and all wait. Of the k
    /// slowest, the last is expected at the largest of k.
    fn waiting(&self) -> f64 {
        let reference = self.forward + self.backward;
        let mut as_slow = 0.0;
        self.slow_first
            .iter()
            .fold(1.0_f64, |worst, &(time, count)| {
                as_slow += count;
                worst.max(time / reference * (1.0 + self.p.straggle * expected_largest(as_slow)))
            })
    }

    fn distributed(&self, forward: f64, backward: f64) -> f64 {
        let compute = forward + backward + self.optimizer;
        if let (Fusion::Partition { .. }, true) = (self.strategy.fusion, self.strategy.overlap) {
            // Parts of early layers overtake and run into the next forward
            // pass, so that computation and collective only bound each other.
            let carried: f64 = self.messages.iter().map(|m| self.cost.time(m.bytes)).sum();
            return self.p.part_s * self.messages.len() as f64 + compute.max(carried);
        }
        if !self.strategy.overlap {
            let carried: f64 = self.messages.iter().map(|m| self.cost.time(m.bytes)).sum();
            return compute + carried + 2.0 * self.copy * self.bytes;
        }
        // Only the last of several accumulated backward passes overlaps.
        let passes = f64::from(self.strategy.accumulation);
        let before = backward * (1.0 - 1.0 / passes);
        forward + before + self.overlapped(backward / passes) + self.optimizer
    }

    /// From the start of the backward pass until the last gradient is back.
    ///
    /// `ready` is when computation reaches a message, `free` when the channel
    /// has carried the one before. While both run, computation takes
    /// 1 + h times as long and the collective 1 + a times.
    fn overlapped(&self, backward: f64) -> f64 {
        let (h, a) = (self.p.compute_slowdown, self.p.transfer_slowdown);
        let (hindered, stretched) = (h / (1.0 + h), 1.0 - 1.0 / (1.0 + a));
        let total = backward + self.copy * self.bytes;
        let (mut ready, mut free, mut done, mut back, mut share) =
            (0.0, 0.0_f64, 0.0, 0.0_f64, 0.0);
        for message in &self.messages {
            let work = (message.share - share) * backward + self.copy * message.bytes;
            share = message.share;
            done += work;
            ready += work + (h * work).min((free - ready).max(0.0) * hindered);
            let start = free.max(ready + message.wait);
            let left = ((total - done) * (1.0 + h) - (start - ready)).max(0.0);
            let alone = self.cost.time(message.bytes);
            free = start + alone + stretched * (alone * (1.0 + a)).min(left);
            back = back.max(free) + self.copy * message.bytes;
        }
        let work = total - done;
        ready += work + (h * work).min((free - ready).max(0.0) * hindered);
        (ready + self.copy * self.bytes).max(back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_more_is_larger() {
        assert_eq!(expected_largest(1.0), 0.0);
        assert!((expected_largest(4.0) - 1.0294).abs() < 1e-9);
        assert!((expected_largest(3.0) - 0.846).abs() < 0.02);
        let mut last = 0.0;
        for n in 2..5000 {
            let next = expected_largest(f64::from(n));
            assert!(next > last);
            last = next;
        }
    }
}
