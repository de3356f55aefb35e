//! Where workers and servers stand, and what their NICs carry.

use super::Update;
use crate::calibration::TransferParameters;
use crate::job::ParameterServer;
use crate::model::case::{Case, Class};
use crate::model::ps::{Handling, handling};
use crate::sim::{Host, Server, Worker};

/// Hosts, the workers on them, and the servers. Workers follow one another in
/// the order in which they were placed, so that a node whose workers fall
/// into two classes is filled by both.
pub(super) fn places(
    case: &Case<'_>,
    strategy: ParameterServer,
    update: Update,
) -> (Vec<Host>, Vec<Worker>, Vec<Server>) {
    let p = &case.calibration.transfer;
    let mut hosts: Vec<Host> = Vec::new();
    let mut workers: Vec<Worker> = Vec::new();
    let mut hosting = Vec::new();
    let mut open: Option<(&Class, u32)> = None;
    for (kind, class) in case.classes.iter().enumerate() {
        for _ in 0..class.count {
            let joins = open.filter(|(other, left)| *left > 0 && same_node(other, class));
            if let Some((_, left)) = joins {
                open = Some((class, left - 1));
            } else {
                let handling = handling(class, strategy, p);
                hosts.push(host(class, &handling, strategy.overlap, p));
                if class.hosts_server {
                    hosting.push(hosts.len() as u32 - 1);
                }
                open = Some((class, class.sharing.saturating_sub(1)));
            }
            let samples = f64::from(class.batch);
            match workers.last_mut() {
                // A node that sums its own is one worker, as slow as its
                // slowest.
                Some(node) if strategy.local_aggregation && joins.is_some() => {
                    node.samples += samples;
                    let slower = |k: u32| case.classes[k as usize].timing.compute();
                    if slower(kind as u32) > slower(node.kind) {
                        node.kind = kind as u32;
                    }
                }
                _ => workers.push(Worker {
                    kind: kind as u32,
                    host: hosts.len() as u32 - 1,
                    samples,
                    slowness: 1.0,
                }),
            }
        }
    }
    let cores = match update {
        Update::Whole => 1,
        Update::EachTensor(cores) => cores,
    };
    let servers = case
        .servers
        .iter()
        .enumerate()
        .map(|(s, server)| {
            let host = hosting.get(s).copied().unwrap_or_else(|| {
                hosts.push(Host::both(server.nic.get() * p.goodput));
                hosts.len() as u32 - 1
            });
            Server { host, cores }
        })
        .collect();
    (hosts, workers, servers)
}

/// Whether workers of two classes may stand on one node.
fn same_node(a: &Class, b: &Class) -> bool {
    a.sharing == b.sharing
        && a.nic == b.nic
        && a.transport == b.transport
        && a.hosts_server == b.hosts_server
        && a.device == b.device
}

/// A node's NIC. A processor that has nothing else to do takes bytes in, and
/// gives them out, no faster than it handles them.
fn host(class: &Class, handling: &Handling, overlap: bool, p: &TransferParameters) -> Host {
    let rate = class.nic.get() * p.goodput;
    if overlap {
        return Host::both(rate);
    }
    let held = |seconds: f64| {
        if seconds > 0.0 {
            rate.min(1.0 / seconds)
        } else {
            rate
        }
    };
    Host {
        inward: held(handling.receive),
        outward: held(handling.send),
    }
}
