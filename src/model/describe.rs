//! A step in the terms people ask in: how sure, how long in all, what limits it.

use super::case::Case;
use super::prediction::{Bottleneck, Carrier, Finish, Interval, Step};
use crate::cluster::{Cluster, Node};
use crate::placement::Placement;
use crate::units::Seconds;

/// Quantile of the normal distribution for an interval of 90 %.
const NINETY_PERCENT: f64 = 1.645;

/// The share of a step that is computing.
pub fn computing_share(case: &Case<'_>, step: &Step) -> f64 {
    // A server's update belongs to its transfers, a worker's to its compute.
    let served = !case.servers.is_empty();
    let computing: Seconds = step
        .parts()
        .iter()
        .filter(|p| match p.name {
            "forward" | "backward" | "compute" | "stragglers" => true,
            "update" => !served,
            _ => false,
        })
        .map(|p| p.time)
        .sum();
    (computing / step.time).clamp(0.0, 1.0)
}

/// Errors of compute and of communication, each as large as runs not fitted
/// on showed, by their share of the step.
pub fn interval(case: &Case<'_>, step: &Step) -> Interval {
    let spread = &case.calibration.spread;
    let share = computing_share(case, step);
    let seen = |device: &str| {
        let (workload, precision) = (&case.job.workload, case.job.precision);
        let factors = case.calibration.workload(workload, device, precision);
        factors.is_some()
    };
    let compute = if case.classes.iter().any(|c| c.timing.borrowed) {
        spread.borrowed_compute
    } else {
        match spread.seen_compute {
            Some(of_seen) if case.classes.iter().all(|c| seen(&c.device.name)) => of_seen,
            _ => spread.compute,
        }
    };
    let sigma = (share * compute).hypot((1.0 - share) * spread.transfer);
    let factor = (NINETY_PERCENT * sigma).exp();
    Interval {
        low: step.time / factor,
        high: step.time * factor,
        level: 0.9,
    }
}

/// All steps, and what they cost where every node carries a price.
pub(super) fn finish(steps: u64, step: &Step, cluster: &Cluster, placement: &Placement) -> Finish {
    let time = step.time * steps as f64;
    let mut paid: Vec<usize> = placement.nodes.iter().map(|p| p.node).collect();
    paid.extend(&placement.servers);
    paid.sort_unstable();
    paid.dedup();
    let hourly: Option<f64> = paid.iter().map(|&i| cluster.nodes[i].price_per_hour).sum();
    Finish {
        steps,
        time,
        cost: hourly.map(|price| price * time.hours()),
    }
}

/// The bottleneck in words; `node_of` gives a node of each class of workers,
/// `server` the node of each parameter server.
pub fn words<'a>(
    step: &Step,
    node_of: &dyn Fn(usize) -> &'a Node,
    server_of: &dyn Fn(usize) -> Option<&'a Node>,
) -> String {
    let node = |class: usize| &node_of(class).name;
    let share =
        |busy: Seconds| format!("{:.0} % of the step", (busy / step.time * 100.0).min(100.0));
    match step.bottleneck {
        Bottleneck::Compute { class, busy } => {
            let device = node_of(class).device().map_or("", |d| &*d.name);
            format!(
                "compute on {} ({device}): busy {}",
                node(class),
                share(busy)
            )
        }
        Bottleneck::ServerLink {
            server,
            rate,
            bytes,
            busy,
        } => {
            let name = server_of(server).map_or("", |node| &*node.name);
            format!(
                "NIC of server {name} ({rate}): {bytes} each way, busy {}",
                share(busy)
            )
        }
        Bottleneck::WorkerLink { class, rate, busy } => {
            format!(
                "NIC of worker {} ({rate}): busy {}",
                node(class),
                share(busy)
            )
        }
        Bottleneck::AllReduce {
            over,
            class,
            rate,
            bytes,
            busy,
        } => {
            let link = match over {
                Carrier::Nic => format!("NIC of {} ({rate})", node(class)),
                Carrier::Peers => format!("links between the accelerators of {}", node(class)),
                Carrier::Process => "processes that copy and sum".to_owned(),
            };
            format!(
                "all-reduce of {bytes} over the {link}: busy {}",
                share(busy)
            )
        }
        Bottleneck::ServerUpdate { busy } => {
            format!("summing gradients on the server: busy {}", share(busy))
        }
    }
}
