//! Two published models of asynchronous training, to compare with. Both see
//! a step as phases one after another, without the overlap between them.

use super::case::Case;
use super::prediction::{Bottleneck, Part, Step};
use crate::units::{Bytes, Seconds};

/// What both know of a case.
struct Phases {
    workers: f64,
    /// Compute of a step, the harmonic mean over the workers.
    compute: f64,
    /// One way of all parameters.
    transfer: f64,
    /// Applying them.
    update: f64,
}

impl Phases {
    fn of(case: &Case<'_>) -> Option<Self> {
        let p = &case.calibration.transfer;
        let servers: f64 = case.servers.iter().map(|s| s.nic.get()).sum();
        let nic = case.classes.iter().map(|c| c.nic.get()).reduce(f64::min)?;
        let rate = servers.min(nic) * p.goodput;
        if rate <= 0.0 {
            return None;
        }
        let job = case.job;
        let bytes = job.workload.parameters() as f64 * job.precision.parameter_bytes();
        let workers = f64::from(case.workers);
        let speed: f64 = case
            .classes
            .iter()
            .map(|c| f64::from(c.count) / c.timing.compute().get())
            .sum();
        Some(Self {
            workers,
            compute: workers / speed,
            transfer: bytes / rate,
            update: p.update_s_per_byte * bytes / case.servers.len() as f64,
        })
    }

    /// Steps a second of all workers become an iteration.
    fn step(&self, case: &Case<'_>, speed: f64) -> Step {
        let time = self.workers / speed;
        let compute = self.compute.min(time);
        let parts = [
            Part::new("compute", Seconds::new(compute)),
            Part::new("communication", Seconds::new(time - compute)),
        ];
        let carried = self.workers * self.transfer;
        let bottleneck = match case.servers.first() {
            Some(server) if carried > self.compute => Bottleneck::ServerLink {
                server: 0,
                rate: server.nic,
                bytes: Bytes::new(carried * server.nic.get()),
                busy: Seconds::new(carried.min(time)),
            },
            _ => Bottleneck::Compute {
                class: case.slowest(),
                busy: Seconds::new(compute),
            },
        };
        Step::new(Seconds::new(time), bottleneck, &parts)
    }
}

/// Cynthia, as Li 2020 states it: W·K / (`T_p`·max(1, W·U₁) + 2·`T_C`), where
/// U₁ is the share of a lone worker's step that the network is busy.
pub fn cynthia(case: &Case<'_>) -> Option<Step> {
    let phases = Phases::of(case)?;
    let network = 2.0 * phases.transfer;
    let utilisation = network / (phases.compute + network);
    let stretched = phases.compute * (phases.workers * utilisation).max(1.0);
    Some(phases.step(case, phases.workers / (stretched + network)))
}

/// Lin et al.: a closed network of downlink, worker, uplink and server, by
/// exact mean value analysis; the worker's own station is a delay.
pub fn lin(case: &Case<'_>) -> Option<Step> {
    let phases = Phases::of(case)?;
    let demands = [phases.transfer, phases.transfer, phases.update];
    let mut queues = [0.0; 3];
    let mut speed = 0.0;
    for customers in 1..=case.workers {
        let mut responses = [0.0; 3];
        for (response, (demand, queue)) in responses.iter_mut().zip(demands.iter().zip(queues)) {
            *response = demand * (1.0 + queue);
        }
        let cycle = phases.compute + responses.iter().sum::<f64>();
        speed = f64::from(customers) / cycle;
        queues = responses.map(|r| r * speed);
    }
    Some(phases.step(case, speed))
}
