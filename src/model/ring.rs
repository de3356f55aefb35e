//! The project's all-reduce model: gradients become messages in the order in
//! which they are ready, and travel while the backward pass goes on. To Liu's
//! recurrence it adds unequal workers and NICs, GPUs that share a node's NIC,
//! the frameworks' own fusion, and computation and collectives that slow each
//! other down. `docs/models.md` derives it.

mod cost;
mod messages;

pub use cost::{Cost, section};
pub use messages::Message;

use super::case::Case;
use super::compute::Timing;
use super::prediction::{Bottleneck, Part, Step};
use super::span::{Span, Track};
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

/// A message as the recurrence sees it.
#[derive(Clone, Copy, Debug)]
struct Sending {
    /// Share of the backward pass that is done when it is ready.
    share: f64,
    /// What it waits after that: for copies into buckets, and held back.
    after: f64,
    /// How long it takes alone.
    alone: f64,
    /// The same while the backward pass computes.
    slowed: f64,
    /// Copies out of buckets from this one on.
    copies: f64,
    bytes: f64,
    wait: f64,
}

/// Computation that a collective slows down by less than this is not slowed.
const NO_SLOWDOWN: f64 = 1e-3;

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
    /// What the recurrence needs of each message.
    sends: Vec<Sending>,
    /// How long all messages take one after the other.
    carried: f64,
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
        let ready = gradients(&case.job.workload, timing, case.job.precision, &strategy);
        let messages = messages::plan(&ready, &strategy, &cost);
        let copy = cost::copy_s_per_byte(case, slowest);
        let bytes: f64 = ready.iter().map(|g: &Gradient| g.bytes).sum();
        let mut upto = 0.0;
        let times = cost.times(messages.iter().map(|m| m.bytes));
        let sends: Vec<Sending> = messages
            .iter()
            .zip(times)
            .map(|(m, alone)| {
                upto += m.bytes;
                Sending {
                    share: m.share,
                    after: copy * upto + m.wait,
                    alone,
                    slowed: alone * (1.0 + p.transfer_slowdown),
                    copies: copy * (bytes - upto + m.bytes),
                    bytes: m.bytes,
                    wait: m.wait,
                }
            })
            .collect();
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
            bytes,
            messages,
            carried: sends.iter().map(|s| s.alone).sum(),
            sends,
            cost,
            forward: timing.forward_total().get(),
            backward: timing.backward_total().get(),
            optimizer: optimizer.fold(0.0, f64::max),
            copy,
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
        let busy = self.carried;
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
        let parts_cut = if self.overtakes() {
            self.p.part_s * self.messages.len() as f64
        } else {
            0.0
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

    /// Whether parts of early layers overtake those of late ones.
    fn overtakes(&self) -> bool {
        matches!(
            self.strategy.fusion,
            Fusion::Partition { priority: true, .. }
        ) && self.strategy.overlap
    }

    fn distributed(&self, forward: f64, backward: f64) -> f64 {
        let compute = forward + backward + self.optimizer;
        let passes = f64::from(self.strategy.accumulation);
        if self.overtakes() {
            // Parts of early layers overtake and run into the next forward
            // pass, so that the last backward pass, that forward pass and the
            // collective only bound each other.
            let beside = (forward + backward) / passes;
            let cut = self.p.part_s * self.messages.len() as f64;
            return cut + compute - beside + beside.max(self.carried);
        }
        if !self.strategy.overlap {
            let carried = self.carried;
            return compute + carried + 2.0 * self.copy * self.bytes;
        }
        // Only the last of several accumulated backward passes overlaps.
        let before = backward * (1.0 - 1.0 / passes);
        forward + before + self.overlapped(backward / passes, |_, _, _| ()) + self.optimizer
    }

    /// The step as spans of time: the slowest worker's passes, each message,
    /// the optimizer. They end with the step.
    pub fn spans(&self) -> Vec<Span> {
        let waiting = self.waiting();
        let (forward, backward) = (self.forward * waiting, self.backward * waiting);
        let time = self.step().time.get();
        let updating = time - self.optimizer;
        let compute = Track::Compute(self.slowest);
        let mut spans = vec![Span::between(compute, "forward", 0.0, forward)];
        let mut end = forward + backward;
        let mut add = |index: usize, start: f64, end: f64| {
            let message = &self.messages[index];
            let name = format!(
                "message {index}: {} tensors, {}",
                message.tensors,
                Bytes::new(message.bytes)
            );
            spans.push(Span::between(Track::Collective, name, start, end));
        };
        if self.case.workers > 1 {
            if self.strategy.overlap && !self.overtakes() {
                let passes = f64::from(self.strategy.accumulation);
                let start = forward + backward * (1.0 - 1.0 / passes);
                self.overlapped(backward / passes, |i, from, to| {
                    add(i, start + from, start + to);
                });
            } else {
                let mut clock = end;
                for (i, message) in self.messages.iter().enumerate() {
                    let after = clock + self.cost.time(message.bytes);
                    add(i, clock.min(updating), after.min(updating));
                    clock = after;
                }
            }
            end = end.min(updating);
        }
        spans.push(Span::between(compute, "backward", forward, end));
        spans.push(Span::between(compute, "optimizer", updating, time));
        spans
    }

    /// From the start of the backward pass until the last gradient is back.
    ///
    /// `ready` is when computation reaches a message, `free` when the channel
    /// has carried the one before. While both run, computation takes
    /// 1 + h times as long and the collective 1 + a times.
    /// `sent` hears of each message, when it starts and when it is through.
    fn overlapped(&self, backward: f64, mut sent: impl FnMut(usize, f64, f64)) -> f64 {
        if self.p.compute_slowdown < NO_SLOWDOWN {
            return self.overlapped_freely(backward, sent);
        }
        let (h, a) = (self.p.compute_slowdown, self.p.transfer_slowdown);
        let (hindered, stretched) = (h / (1.0 + h), 1.0 - 1.0 / (1.0 + a));
        let total = backward + self.copy * self.bytes;
        let (mut ready, mut free, mut done, mut back, mut share) =
            (0.0, 0.0_f64, 0.0, 0.0_f64, 0.0);
        for (index, message) in self.sends.iter().enumerate() {
            let work = (message.share - share) * backward + self.copy * message.bytes;
            share = message.share;
            done += work;
            ready += work + (h * work).min((free - ready).max(0.0) * hindered);
            let start = free.max(ready + message.wait);
            let left = ((total - done) * (1.0 + h) - (start - ready)).max(0.0);
            let alone = message.alone;
            free = start + alone + stretched * (alone * (1.0 + a)).min(left);
            sent(index, start, free);
            back = back.max(free) + self.copy * message.bytes;
        }
        let work = total - done;
        ready += work + (h * work).min((free - ready).max(0.0) * hindered);
        (ready + self.copy * self.bytes).max(back)
    }

    /// The same where collectives do not slow computation: moments are known
    /// beforehand, and only the channel is a chain.
    fn overlapped_freely(&self, backward: f64, mut sent: impl FnMut(usize, f64, f64)) -> f64 {
        let stretched = 1.0 - 1.0 / (1.0 + self.p.transfer_slowdown);
        let total = backward + self.copy * self.bytes;
        let later = |a: f64, b: f64| if a > b { a } else { b };
        let (mut free, mut back, mut index) = (0.0_f64, 0.0_f64, 0);
        // While the backward pass outlasts the messages, all of each is slowed.
        for message in &self.sends {
            let start = later(free, message.share * backward + message.after);
            let end = start + message.slowed;
            if end > total {
                break;
            }
            sent(index, start, end);
            // Copied out in order, with all that waited.
            back = later(back, end + message.copies);
            free = end;
            index += 1;
        }
        // One message straddles the end of the backward pass and is slowed
        // until then; the rest follow at their own pace.
        for (index, message) in self.sends.iter().enumerate().skip(index) {
            let start = later(free, message.share * backward + message.after);
            free = start + message.alone;
            if start < total {
                free += stretched * (total - start).min(message.slowed);
            }
            sent(index, start, free);
            back = later(back, free + message.copies);
        }
        (total + self.copy * self.bytes).max(back)
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
