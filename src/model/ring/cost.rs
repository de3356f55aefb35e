//! What a collective costs: start-up and bytes, by its shape.

use crate::calibration::{CollectiveParameters, Section};
use crate::cluster::{Cluster, Transport};
use crate::device::DeviceKind;
use crate::job::{Algorithm, Strategy};
use crate::model::case::Case;
use crate::model::prediction::Carrier;
use crate::units::BytesPerSecond;

/// Start-up and seconds a byte of one shape.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Linear {
    startup: f64,
    per_byte: f64,
    /// Bytes that cross a NIC for each byte of a message.
    on_wire: f64,
}

impl Linear {
    fn time(&self, bytes: f64) -> f64 {
        self.startup + self.per_byte * bytes
    }
}

/// The cost of an all-reduce among the workers of a case: of one shape, or
/// the cheapest of several for each message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    shapes: [Linear; 3],
    used: usize,
    carrier: Carrier,
    class: usize,
    rate: BytesPerSecond,
    /// Seconds that a byte on the wire saves where no limit of a flow holds
    /// it back.
    at_line_rate: f64,
    /// Bytes on the wire that none holds back in a step.
    burst: f64,
}

/// Who moves the bytes: processors, or accelerators over one transport.
fn mover(accelerators: bool, rdma: bool) -> Section {
    match (accelerators, rdma) {
        (false, _) => Section::Gloo,
        (true, false) => Section::NcclTcp,
        (true, true) => Section::NcclRdma,
    }
}

/// The part of a calibration that a collective over all nodes of a cluster
/// goes by.
pub fn section(cluster: &Cluster) -> Section {
    let computing = || cluster.nodes.iter().filter(|n| n.workers() > 0);
    mover(
        computing().all(|n| n.accelerators.is_some()),
        computing().all(|n| n.transport == Transport::Rdma),
    )
}

/// Parameters of whoever moves the bytes.
pub(super) fn parameters<'a>(case: &Case<'a>) -> &'a CollectiveParameters {
    let collectives = &case.calibration.collective;
    let accelerators = case
        .classes
        .iter()
        .all(|c| c.device.kind == DeviceKind::Accelerator);
    let rdma = case.classes.iter().all(|c| c.transport == Transport::Rdma);
    match mover(accelerators, rdma) {
        Section::NcclTcp => &collectives.nccl_tcp,
        Section::NcclRdma => &collectives.nccl_rdma,
        _ => &collectives.gloo,
    }
}

/// A gradient is copied into its bucket and back: read and written at the
/// memory rate of whoever computes.
pub(super) fn copy_s_per_byte(case: &Case<'_>, class: usize) -> f64 {
    let device = &case.classes[class].device;
    let (share, rate) = match device.kind {
        DeviceKind::Accelerator => (
            case.calibration.accelerator.memory,
            device.memory_rate.get(),
        ),
        // Copies run on one thread.
        DeviceKind::Cpu => (
            case.calibration.cpu.memory,
            device.memory_rate.get() / f64::from(device.cores.max(1)),
        ),
    };
    2.0 / (share * rate)
}

impl Cost {
    /// The cost for a case: the slowest link carries the ring.
    pub fn of(case: &Case<'_>) -> Self {
        let p = parameters(case);
        let algorithm = match case.job.strategy {
            Strategy::AllReduce(strategy) => strategy.algorithm,
            _ => Algorithm::Ring,
        };
        let slowest = |rate: &dyn Fn(usize) -> f64| {
            let least = |a: usize, b: usize| if rate(b) < rate(a) { b } else { a };
            (1..case.classes.len()).fold(0, least)
        };
        let nic = |k: usize| case.classes[k].nic.get();
        // A lone accelerator has no neighbours to wait for.
        let peer = |k: usize| match case.classes[k].sharing {
            1 => f64::INFINITY,
            _ => case.classes[k].device.peer_rate.get(),
        };
        let (nic_class, peer_class) = (slowest(&nic), slowest(&peer));
        let workers = f64::from(case.workers);
        let nodes = f64::from(case.nodes);
        let sharing = case.classes.iter().map(|c| c.sharing).max().unwrap_or(1);
        // Between two nodes only, both ways share what one process gets.
        let process_rate = if case.nodes == 2 {
            p.process_rate * p.duplex
        } else {
            p.process_rate
        };
        let nic_rate = (p.goodput * nic(nic_class)).min(process_rate);
        let peer_rate = p.peer_goodput * peer(peer_class);
        let one_node = case.nodes == 1;
        // Around a ring every link carries 2(N − 1)/N of the bytes, once.
        let around = |n: f64| 2.0 * (n - 1.0) / n;
        let ring = if one_node {
            Linear {
                startup: p.setup_s + 2.0 * (workers - 1.0) * p.peer_hop_s,
                per_byte: around(workers) / peer_rate,
                on_wire: 0.0,
            }
        } else {
            let within = if sharing > 1 {
                peer_rate
            } else {
                f64::INFINITY
            };
            Linear {
                startup: p.setup_s + 2.0 * (workers - 1.0) * p.hop_s,
                per_byte: around(workers) / nic_rate.min(within),
                on_wire: if nic_rate < within {
                    around(workers)
                } else {
                    0.0
                },
            }
        };
        // Up and down a binary tree: few hops, but inner nodes hear two children.
        let hop = if one_node { p.peer_hop_s } else { p.hop_s };
        let tree_rate = if one_node { peer_rate } else { nic_rate };
        let tree = Linear {
            startup: p.setup_s + 2.0 * workers.log2().ceil() * hop,
            per_byte: 2.0 * 2.0_f64.min(workers - 1.0) / tree_rate,
            on_wire: if one_node {
                0.0
            } else {
                2.0 * 2.0_f64.min(workers - 1.0)
            },
        };
        // Within nodes first, then a ring of nodes, then within again.
        let gpus = f64::from(sharing);
        let hierarchical = Linear {
            startup: ring_startup(p.setup_s, nodes, p.hop_s) + 2.0 * (gpus - 1.0) * p.peer_hop_s,
            per_byte: if one_node {
                0.0
            } else {
                around(nodes) / nic_rate
            } + if sharing > 1 {
                around(gpus) / peer_rate
            } else {
                0.0
            },
            on_wire: if one_node { 0.0 } else { around(nodes) },
        };
        let (shapes, used) = match algorithm {
            Algorithm::Ring => ([ring; 3], 1),
            Algorithm::Tree => ([tree; 3], 1),
            Algorithm::Hierarchical => ([hierarchical; 3], 1),
            Algorithm::Auto => ([ring, tree, hierarchical], 3),
        };
        let (carrier, class, rate) = if one_node {
            (
                Carrier::Peers,
                peer_class,
                case.classes[peer_class].device.peer_rate,
            )
        } else if process_rate < p.goodput * nic(nic_class) {
            (
                Carrier::Process,
                nic_class,
                BytesPerSecond::new(process_rate),
            )
        } else if sharing > 1 && peer_rate < nic_rate {
            (
                Carrier::Peers,
                peer_class,
                case.classes[peer_class].device.peer_rate,
            )
        } else {
            (Carrier::Nic, nic_class, case.classes[nic_class].nic)
        };
        let flow = |rate: f64| 1.0 / rate;
        Self {
            shapes,
            used,
            carrier,
            class,
            rate,
            at_line_rate: if carrier == Carrier::Process {
                flow(process_rate) - flow(p.goodput * nic(nic_class))
            } else {
                0.0
            },
            burst: p.burst,
        }
    }

    /// Times of messages that follow one another: the first bytes of a step
    /// pass before a limit on a flow takes hold.
    pub fn times(&self, bytes: impl Iterator<Item = f64>) -> impl Iterator<Item = f64> {
        let mut allowance = self.burst;
        bytes.map(move |bytes| {
            let shape = self.shape(bytes);
            let unheld = allowance.min(bytes * shape.on_wire);
            allowance -= unheld;
            shape.time(bytes) - unheld * self.at_line_rate
        })
    }

    /// The time of one message.
    pub fn time(&self, bytes: f64) -> f64 {
        self.shape(bytes).time(bytes)
    }

    /// The shape in which a message is cheapest.
    fn shape(&self, bytes: f64) -> &Linear {
        let mut best = &self.shapes[0];
        for other in &self.shapes[1..self.used] {
            if other.time(bytes) < best.time(bytes) {
                best = other;
            }
        }
        best
    }

    /// Start-up of the first shape.
    pub fn startup(&self) -> f64 {
        self.shapes[0].startup
    }

    /// Seconds a byte of the first shape.
    pub fn per_byte(&self) -> f64 {
        self.shapes[0].per_byte
    }

    /// What carries it at its slowest.
    pub(in crate::model) fn carrier(&self) -> Carrier {
        self.carrier
    }

    /// The class that holds it up.
    pub(in crate::model) fn class(&self) -> usize {
        self.class
    }

    /// The rate of the slowest link.
    pub(in crate::model) fn rate(&self) -> BytesPerSecond {
        self.rate
    }
}

fn ring_startup(setup: f64, nodes: f64, hop: f64) -> f64 {
    setup + 2.0 * (nodes - 1.0) * hop
}
