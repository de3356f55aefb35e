//! Models that leave something out on purpose, to compare with.

use super::case::Case;
use super::prediction::{Bottleneck, Part, Step};
use super::zeng::equal;
use crate::job::{Strategy, Sync};
use crate::units::{Bytes, Seconds};

fn transfer_bytes(case: &Case<'_>) -> Bytes {
    let job = case.job;
    Bytes::new(job.workload.parameters() as f64 * job.precision.parameter_bytes())
}

fn compute(case: &Case<'_>, with_optimizer: bool) -> Step {
    let slowest = case.slowest();
    let timing = &case.classes[slowest].timing;
    let optimizer = if with_optimizer {
        timing.optimizer
    } else {
        Seconds::ZERO
    };
    let (forward, backward) = (timing.forward_total(), timing.backward_total());
    let time = forward + backward + optimizer;
    let bottleneck = Bottleneck::Compute {
        class: slowest,
        busy: time,
    };
    let parts = [
        Part::new("forward", forward),
        Part::new("backward", backward),
        Part::new("update", optimizer),
    ];
    Step::new(time, bottleneck, &parts)
}

/// As if the network were free: the slowest worker alone, or, where workers
/// do not wait for each other, the sum of their speeds.
pub fn no_communication(case: &Case<'_>) -> Step {
    if let Strategy::ParameterServer(ps) = case.job.strategy
        && ps.sync != Sync::Bsp
    {
        return sum_of_speeds(case);
    }
    compute(case, true)
}

/// Workers × batch over the sum of what each does alone.
pub fn sum_of_speeds(case: &Case<'_>) -> Step {
    let speed: f64 = case
        .classes
        .iter()
        .map(|c| f64::from(c.count) * f64::from(c.batch) / c.timing.step().get())
        .sum();
    let time = Seconds::new(case.samples() / speed);
    let bottleneck = Bottleneck::Compute {
        class: case.slowest(),
        busy: time,
    };
    Step::new(time, bottleneck, &[Part::new("compute", time)])
}

/// Workers in step, as in the earlier work that Zeng 2023 shows in Figure 1a:
/// all compute as long as the slowest, then push and pull in turn at the
/// server's line rate (eq. 29). `None` without exactly one server.
pub fn synchronised(case: &Case<'_>) -> Option<Step> {
    let [server] = case.servers.as_slice() else {
        return None;
    };
    let slowest = case.slowest();
    let timing = &case.classes[slowest].timing;
    let busy = timing.forward_total() + timing.backward_total();
    let transfer = transfer_bytes(case) / server.nic;
    let workers = f64::from(case.workers);
    let time = equal(busy, workers, transfer, transfer);
    let carried = transfer * (2.0 * workers);
    let bottleneck = if carried > busy {
        Bottleneck::ServerLink {
            server: 0,
            rate: server.nic,
            bytes: transfer_bytes(case) * workers,
            busy: carried,
        }
    } else {
        Bottleneck::Compute {
            class: slowest,
            busy,
        }
    };
    let parts = [
        Part::new("pull", transfer * workers),
        Part::new("compute", busy),
        Part::new("push", transfer * workers),
    ];
    Some(Step::new(time, bottleneck, &parts))
}

/// Everything in sequence: every worker's pull, the slowest compute, every
/// worker's push and the server's update of each, one after another. No
/// model that overlaps anything may be slower.
pub fn sum(case: &Case<'_>) -> Option<Step> {
    let p = &case.calibration.transfer;
    let slowest_server = case.servers.iter().map(|s| s.nic.get()).reduce(f64::min)?;
    let bytes = transfer_bytes(case).get();
    let timing = &case.classes[case.slowest()].timing;
    let messages = case.job.workload.tensor_count() as f64;
    let mut one_way = 0.0;
    let mut on_thread = 0.0_f64;
    for class in &case.classes {
        let rate = (class.nic.get() / f64::from(class.sharing)).min(slowest_server) * p.goodput;
        let copies = 1.0 / class.device.host_link.get() + 1.0 / class.device.peer_rate.get();
        one_way +=
            f64::from(class.count) * (bytes / rate + p.startup_s * messages + bytes * copies);
        let touched = p.copy_s_per_byte + p.receive_s_per_byte + p.send_s_per_byte;
        on_thread = on_thread.max(touched * bytes);
    }
    let update =
        (p.update_s_per_byte * f64::from(case.workers) * bytes).max(timing.optimizer.get());
    let optimizer = case
        .classes
        .iter()
        .map(|c| c.timing.optimizer.get())
        .fold(update, f64::max);
    let compute = timing.forward_total() + timing.backward_total() + Seconds::new(on_thread);
    let phase = Seconds::new(one_way + p.latency_s);
    let time = phase * 2.0 + compute + Seconds::new(optimizer);
    let parts = [
        Part::new("pull", phase),
        Part::new("compute", compute),
        Part::new("push", phase),
        Part::new("update", Seconds::new(optimizer)),
    ];
    let bottleneck = if phase * 2.0 > compute {
        Bottleneck::ServerLink {
            server: 0,
            rate: case.servers.first()?.nic,
            bytes: transfer_bytes(case) * f64::from(case.workers),
            busy: phase * 2.0,
        }
    } else {
        Bottleneck::Compute {
            class: case.slowest(),
            busy: compute,
        }
    };
    Some(Step::new(time, bottleneck, &parts))
}
