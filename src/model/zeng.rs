//! Zeng et al. 2023, "Modeling the Training Iteration Time for Heterogeneous
//! Distributed Deep Learning Systems", exactly as published; `reproduce`
//! recomputes its tables from here.

use super::case::{Case, Class};
use super::prediction::{Bottleneck, Part, Step};
use crate::device::DeviceKind;
use crate::job::Strategy;
use crate::units::{Bytes, BytesPerSecond, Flops, FlopsPerSecond, Seconds};
use crate::workload::Workload;

/// Operations of the backward pass for a weight (eq. 23, 26): 6 + sig with
/// sig = 2 + x, x = 1 + 4i. The text says i ≈ 20; Table 1 and the authors'
/// workbook use 19.
pub const FLOPS_PER_WEIGHT: f64 = 6.0 + 2.0 + 1.0 + 4.0 * 19.0;

/// Operations of the backward pass for a bias (eq. 24).
pub const FLOPS_PER_BIAS: f64 = 2.0;

/// Bits of a parameter on the wire.
const BITS: f64 = 32.0;

/// fp32 numbers in a CPU's register, as the paper counts (eq. 28).
const SIMD: f64 = 2.0;

/// Operations a cycle and stream processor without FMA (eq. 33).
const FC: f64 = 1.0;

/// What the model knows of a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Forward pass of a sample (eq. 21).
    pub forward: Flops,
    /// Backward pass of a step, whatever the batch (eq. 22).
    pub backward: Flops,
    /// Parameters on the wire.
    pub parameters: f64,
    /// Slices in which gradients are pushed.
    pub pushes: f64,
}

impl Network {
    /// Counted from layers.
    pub fn of(workload: &Workload) -> Self {
        let weights: u64 = workload
            .layers
            .iter()
            .filter_map(|l| l.parameters.first())
            .sum();
        let all = workload.parameters();
        Self {
            forward: workload.forward_flops(),
            backward: backward_flops(weights as f64, (all - weights) as f64),
            parameters: all as f64,
            pushes: workload.tensor_count() as f64,
        }
    }

    /// FLOPs of one iteration (eq. 27).
    pub fn flops(&self, batch: f64) -> Flops {
        self.forward * batch + self.backward
    }

    /// Time to push or pull all parameters (eq. 30, 31).
    pub fn transfer(&self, bandwidth: BytesPerSecond) -> Seconds {
        Bytes::new(self.parameters * BITS / 8.0) / bandwidth
    }

    /// Forward pass and the first slice of the backward pass (Algorithm 2,
    /// lines 3 and 4): when a GPU begins to push.
    pub fn first_push(&self, batch: f64, rate: FlopsPerSecond) -> Seconds {
        (self.forward * batch + self.backward / self.pushes) / rate
    }
}

/// FLOPs of the backward pass (eq. 22).
pub fn backward_flops(weights: f64, biases: f64) -> Flops {
    Flops::new(weights * FLOPS_PER_WEIGHT + biases * FLOPS_PER_BIAS)
}

/// Rate of a CPU (eq. 28): clock × SIMD, one core.
pub const fn cpu_rate(clock_ghz: f64) -> FlopsPerSecond {
    FlopsPerSecond::new(clock_ghz * 1e9 * SIMD)
}

/// Rate of a GPU (eq. 33): clock × stream processors × fc.
pub const fn gpu_rate(clock_ghz: f64, processors: f64) -> FlopsPerSecond {
    FlopsPerSecond::new(clock_ghz * 1e9 * processors * FC)
}

/// Equal workers (eq. 29).
pub fn equal(compute: Seconds, workers: f64, push: Seconds, pull: Seconds) -> Seconds {
    compute + push * workers + pull * workers
}

/// Algorithms 1 and 2 from line 3 on, over `(time, workers)` in ascending
/// order of time: workers push in the order in which they are ready.
pub fn unequal(ascending: &[(Seconds, f64)], push: Seconds, pull: Seconds) -> Seconds {
    let mut total = Seconds::ZERO;
    let mut workers = 0.0;
    for &(ready, count) in ascending {
        total = total.max(ready) + push * count;
        workers += count;
    }
    total + pull * workers
}

/// When communication dominates (eq. 32).
pub fn communication_bound(
    fastest: Seconds,
    workers: f64,
    push: Seconds,
    pull: Seconds,
) -> Seconds {
    pull * workers + fastest + push * workers
}

/// The paper's model asked of a case: its FLOP counts and rates, the server's
/// NIC as the bandwidth. `None` for what the paper leaves open: several
/// servers, no server at all, or layers without FLOPs.
pub fn step(case: &Case<'_>) -> Option<Step> {
    let Strategy::ParameterServer(_) = case.job.strategy else {
        return None;
    };
    let [server] = case.servers.as_slice() else {
        return None;
    };
    if !case.job.workload.has_flops {
        return None;
    }
    let network = Network::of(&case.job.workload);
    let transfer = network.transfer(server.nic);
    let mut ready: Vec<(Seconds, f64, usize)> = case
        .classes
        .iter()
        .enumerate()
        .map(|(i, class)| (ready_to_push(&network, class), f64::from(class.count), i))
        .collect();
    ready.sort_by(|a, b| a.0.get().total_cmp(&b.0.get()));
    let ascending: Vec<(Seconds, f64)> = ready.iter().map(|r| (r.0, r.1)).collect();
    let time = unequal(&ascending, transfer, transfer);
    let workers = f64::from(case.workers);
    let (slowest, _, class) = *ready.last()?;
    let pull = transfer * workers;
    let busy = pull * 2.0;
    let bottleneck = if busy > slowest {
        Bottleneck::ServerLink {
            server: 0,
            rate: server.nic,
            bytes: Bytes::new(network.parameters * BITS / 8.0 * workers),
            busy,
        }
    } else {
        Bottleneck::Compute {
            class,
            busy: slowest,
        }
    };
    let parts = [
        Part::new("pull", pull),
        Part::new("compute", slowest),
        Part::new("push", time - pull - slowest),
    ];
    Some(Step::new(time, bottleneck, &parts))
}

/// When a worker begins to push: after everything on a CPU (Algorithm 1),
/// after the first slice of the backward pass on a GPU (Algorithm 2).
fn ready_to_push(network: &Network, class: &Class) -> Seconds {
    let batch = f64::from(class.batch);
    let device = &class.device;
    match device.kind {
        DeviceKind::Cpu => network.flops(batch) / cpu_rate(device.clock_ghz),
        DeviceKind::Accelerator => {
            network.first_push(batch, gpu_rate(device.clock_ghz, f64::from(device.cores)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(values: &[f64]) -> Vec<(Seconds, f64)> {
        values.iter().map(|v| (Seconds::new(*v), 1.0)).collect()
    }

    /// Figure 4 of the paper: w1 waits for w0, w2 comes late, w3 waits for w2.
    #[test]
    fn algorithm_1_by_hand() {
        let (push, pull) = (Seconds::new(2.0), Seconds::new(1.0));
        let time = unequal(&seconds(&[3.0, 4.0, 10.0, 11.0]), push, pull);
        assert_eq!(time.get(), 10.0 + 2.0 + 2.0 + 4.0);
    }

    #[test]
    fn equal_workers_are_the_special_case_of_unequal_ones() {
        let (push, pull) = (Seconds::new(0.7), Seconds::new(0.4));
        let three = unequal(&[(Seconds::new(5.0), 3.0)], push, pull);
        assert!((three.get() - equal(Seconds::new(5.0), 3.0, push, pull).get()).abs() < 1e-12);
    }

    #[test]
    fn slow_links_leave_only_the_fastest_worker_to_see() {
        let (push, pull) = (Seconds::new(100.0), Seconds::new(100.0));
        let time = unequal(&seconds(&[1.0, 5.0, 9.0]), push, pull);
        assert_eq!(
            time,
            communication_bound(Seconds::new(1.0), 3.0, push, pull)
        );
    }

    #[test]
    fn table_1_counts_85_operations_a_weight() {
        assert_eq!(FLOPS_PER_WEIGHT, 85.0);
        assert!((backward_flops(61_827_776.0, 0.0).get() / 5.2554e9 - 1.0).abs() < 1e-4);
    }
}
