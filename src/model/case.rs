//! A job on a placement with every look-up done: the workers fall into
//! classes that behave alike, so that a thousand of them cost what a few do.

use super::compute::{self, Learnt, Timing};
use crate::calibration::Calibration;
use crate::cluster::{Cluster, Node, Place, Transport};
use crate::device::Device;
use crate::job::{Batch, Job, Strategy};
use crate::placement::Placement;
use crate::units::{BytesPerSecond, Seconds};
use std::sync::Arc;

/// Events that a simulation may take unless the asker says otherwise.
const EVENTS: u64 = 20_000_000;

/// Workers that behave alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// What computes.
    pub device: Arc<Device>,
    /// Samples of one worker's step.
    pub batch: u32,
    /// A step's compute, layer by layer.
    pub timing: Arc<Timing>,
    /// Line rate of the node's NIC.
    pub nic: BytesPerSecond,
    /// What carries the traffic.
    pub transport: Transport,
    /// Workers of the job on the node, which share its NIC.
    pub sharing: u32,
    /// Whether the node holds a parameter server as well.
    pub hosts_server: bool,
    /// How many workers are of this class.
    pub count: u32,
    /// The first node of the class.
    pub node: usize,
}

/// A parameter server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Server {
    /// Its node's NIC.
    pub nic: BytesPerSecond,
}

/// A job, placed.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// The job.
    pub job: &'a Job,
    /// The cluster.
    pub cluster: &'a Cluster,
    /// What was learnt.
    pub calibration: &'a Calibration,
    /// The classes of workers.
    pub classes: Vec<Class>,
    /// The parameter servers.
    pub servers: Vec<Server>,
    /// Workers over all classes.
    pub workers: u32,
    /// Nodes that compute.
    pub nodes: u32,
    /// Events that a simulation may take.
    pub simulation_events: u64,
}

/// Why a case cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// Nothing says what the layers compute.
    #[error(
        "nothing says what `{0}` computes: it has parameters, but no FLOPs, no catalogue name and no calibration that has seen it\n  hint: add `forward_flops` to the workload, or give its layers or a profile"
    )]
    NoFlops(String),
    /// The batch sizes do not fit the workers.
    #[error("the placement holds no worker")]
    NoWorkers,
}

/// Times of workloads on devices, kept between cases of one job.
#[derive(Clone, Debug, Default)]
pub struct Timings {
    kept: Vec<Kept>,
}

/// The time of a job's layers on a device.
#[derive(Clone, Debug)]
struct Kept {
    device: Arc<Device>,
    batch: u32,
    sharing: u32,
    timing: Arc<Timing>,
}

impl Timings {
    /// The time of the job's layers for `batch` samples on a device, for one
    /// of `sharing` workers on a node.
    pub fn of(
        &mut self,
        job: &Job,
        device: &Arc<Device>,
        batch: u32,
        sharing: u32,
        calibration: &Calibration,
    ) -> Result<Arc<Timing>, CaseError> {
        let same = |kept: &&Kept| {
            kept.batch == batch
                && kept.sharing == sharing
                && (Arc::ptr_eq(&kept.device, device) || kept.device == *device)
        };
        if let Some(kept) = self.kept.iter().find(same) {
            return Ok(Arc::clone(&kept.timing));
        }
        let (workload, precision) = (&job.workload, job.precision);
        let timing = compute::from_layers(workload, device, batch, precision, calibration)
            .zip(Learnt::of(workload, device, precision, calibration))
            .map(|(layers, learnt)| learnt.apply(&layers, sharing))
            .ok_or_else(|| CaseError::NoFlops(workload.name.clone()))?;
        let timing = Arc::new(timing);
        self.kept.push(Kept {
            device: Arc::clone(device),
            batch,
            sharing,
            timing: Arc::clone(&timing),
        });
        Ok(timing)
    }
}

/// Nodes that are alike, in a plan that counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// One of them.
    pub node: usize,
    /// How many.
    pub nodes: u32,
    /// Workers of each.
    pub workers: u32,
}

impl<'a> Case<'a> {
    /// The case of whole groups of nodes: what [`Case::new`] makes of the same
    /// nodes, without looking at each.
    pub fn of_groups(
        job: &'a Job,
        cluster: &'a Cluster,
        calibration: &'a Calibration,
        groups: &[Group],
        server_nodes: &[usize],
        timings: &mut Timings,
    ) -> Result<Self, CaseError> {
        let nodes: u32 = groups.iter().map(|g| g.nodes).sum();
        let workers: u32 = groups.iter().map(|g| g.nodes * g.workers).sum();
        if workers == 0 {
            return Err(CaseError::NoWorkers);
        }
        let mut case = Self {
            job,
            cluster,
            calibration,
            classes: Vec::with_capacity(groups.len()),
            servers: Vec::new(),
            workers,
            nodes,
            simulation_events: EVENTS,
        };
        let wanted = match &job.strategy {
            Strategy::ParameterServer(ps) => ps.servers,
            _ => 0,
        };
        // Without server nodes, the first nodes hold the servers.
        let mut hosts_left = if server_nodes.is_empty() { wanted } else { 0 };
        let servers: &[usize] = if wanted > 0 { server_nodes } else { &[] };
        let reach = Reach::new(cluster, groups.iter().map(|g| g.node), servers);
        let mut index = 0;
        for group in groups {
            let node = &cluster.nodes[group.node];
            let hosting = group.nodes.min(hosts_left);
            hosts_left -= hosting;
            let nic = Server { nic: node.nic };
            case.servers.extend((0..hosting).map(|_| nic));
            for (count, hosts_server) in [(hosting, true), (group.nodes - hosting, false)] {
                let spot = Spot {
                    node: group.node,
                    sharing: group.workers,
                    hosts_server,
                    nic: reach.nic(node),
                };
                case.add_many(node, count * group.workers, index, spot, timings)?;
                index += (count * group.workers) as usize;
            }
        }
        if !server_nodes.is_empty() {
            let chosen: Vec<usize> = server_nodes.iter().copied().take(wanted as usize).collect();
            case.servers = servers_on(cluster, &chosen);
        }
        Ok(case)
    }

    /// Adds workers that follow one another: at most two batch sizes.
    fn add_many(
        &mut self,
        node: &Node,
        count: u32,
        first: usize,
        spot: Spot,
        timings: &mut Timings,
    ) -> Result<(), CaseError> {
        let all = self.workers as usize;
        let mut done = 0;
        while done < count {
            let batch = self.job.batch.of_worker(first + done as usize, all);
            // The first workers take what a global batch leaves over.
            let alike = match &self.job.batch {
                Batch::Global(samples) => {
                    let rest = (samples % all as u64) as usize;
                    let end = if first + (done as usize) < rest {
                        rest - first
                    } else {
                        count as usize
                    };
                    (end as u32).min(count) - done
                }
                _ => count - done,
            };
            self.add(node, batch, spot, timings)?;
            if let Some(class) = self.class_of(node, batch, spot) {
                class.count += alike - 1;
            }
            done += alike;
        }
        Ok(())
    }

    /// Places a job: sorts its workers into classes and times each.
    pub fn new(
        job: &'a Job,
        cluster: &'a Cluster,
        calibration: &'a Calibration,
        placement: &Placement,
        timings: &mut Timings,
    ) -> Result<Self, CaseError> {
        let workers = placement.workers();
        if workers == 0 {
            return Err(CaseError::NoWorkers);
        }
        let mut case = Self {
            job,
            cluster,
            calibration,
            classes: Vec::new(),
            servers: Vec::new(),
            workers: workers as u32,
            nodes: placement.nodes.len() as u32,
            simulation_events: EVENTS,
        };
        let mut index = 0;
        let placed = || placement.nodes.iter().map(|p| p.node);
        let reach = Reach::new(cluster, placed(), &placement.servers);
        for placed in &placement.nodes {
            let node = &cluster.nodes[placed.node];
            let hosts_server = placement.servers.contains(&placed.node);
            for _ in 0..placed.workers {
                let batch = job.batch.of_worker(index, workers);
                index += 1;
                let spot = Spot {
                    node: placed.node,
                    sharing: placed.workers,
                    hosts_server,
                    nic: reach.nic(node),
                };
                case.add(node, batch, spot, timings)?;
            }
        }
        case.servers = servers_on(cluster, &placement.servers);
        Ok(case)
    }

    fn add(
        &mut self,
        node: &Node,
        batch: u32,
        spot: Spot,
        timings: &mut Timings,
    ) -> Result<(), CaseError> {
        let device = node.device().ok_or(CaseError::NoWorkers)?;
        if let Some(class) = self.class_of(node, batch, spot) {
            class.count += 1;
            return Ok(());
        }
        self.classes.push(Class {
            timing: timings.of(self.job, device, batch, spot.sharing, self.calibration)?,
            device: Arc::clone(device),
            batch,
            nic: spot.nic,
            transport: node.transport,
            sharing: spot.sharing,
            hosts_server: spot.hosts_server,
            count: 1,
            node: spot.node,
        });
        Ok(())
    }

    /// The class that a worker of a node falls into, if there is one yet.
    fn class_of(&mut self, node: &Node, batch: u32, spot: Spot) -> Option<&mut Class> {
        let device = node.device()?;
        self.classes.iter_mut().find(|class| {
            class.batch == batch
                && class.nic == spot.nic
                && class.sharing == spot.sharing
                && class.hosts_server == spot.hosts_server
                && class.transport == node.transport
                && (Arc::ptr_eq(&class.device, device) || class.device == *device)
        })
    }

    /// Samples of one step over all workers.
    pub fn samples(&self) -> f64 {
        self.classes
            .iter()
            .map(|c| f64::from(c.batch) * f64::from(c.count))
            .sum()
    }

    /// The class whose worker alone trains fastest.
    pub fn fastest(&self) -> &Class {
        let speed = |class: &Class| f64::from(class.batch) / class.timing.step().get();
        let mut classes = self.classes.iter();
        let first = classes.next().expect("a case has at least one worker");
        classes.fold(first, |best, class| {
            if speed(class) > speed(best) {
                class
            } else {
                best
            }
        })
    }

    /// A step of one worker alone on a device, as the speedup's baseline:
    /// with its own batch, or with all of a global one.
    pub fn alone(&self, class: &Class, timings: &mut Timings) -> Result<(f64, Seconds), CaseError> {
        let batch = match &self.job.batch {
            Batch::Global(samples) => u32::try_from(*samples).unwrap_or(u32::MAX),
            _ => class.batch,
        };
        let timing = timings.of(self.job, &class.device, batch, 1, self.calibration)?;
        Ok((f64::from(batch), timing.step()))
    }

    /// The index of the class that takes longest to compute.
    pub fn slowest(&self) -> usize {
        let time = |i: usize| {
            let timing = &self.classes[i].timing;
            timing.forward_total() + timing.backward_total()
        };
        (1..self.classes.len()).fold(0, |worst, i| if time(i) > time(worst) { i } else { worst })
    }
}

/// A worker's place on a node.
#[derive(Clone, Copy)]
struct Spot {
    node: usize,
    sharing: u32,
    hosts_server: bool,
    nic: BytesPerSecond,
}

/// What the links between zones and racks leave of a node's NIC.
enum Reach<'a> {
    /// All of it: nothing is known of any links, or none is crossed.
    Whole,
    /// All nodes talk to each other: the narrowest link holds up all.
    Among(BytesPerSecond),
    /// Each talks to the servers.
    Servers(&'a Cluster, &'a [usize]),
}

impl<'a> Reach<'a> {
    fn new(cluster: &'a Cluster, nodes: impl Iterator<Item = usize>, servers: &'a [usize]) -> Self {
        if cluster.links.is_empty() {
            return Self::Whole;
        }
        if !servers.is_empty() {
            return Self::Servers(cluster, servers);
        }
        let mut narrowest: Option<BytesPerSecond> = None;
        let mut seen: Vec<&Place> = Vec::new();
        for node in nodes {
            let place = &cluster.nodes[node].place;
            if seen.contains(&place) {
                continue;
            }
            let crossed = seen.iter().filter_map(|p| cluster.links.between(p, place));
            for rate in crossed {
                if narrowest.is_none_or(|n| rate < n) {
                    narrowest = Some(rate);
                }
            }
            seen.push(place);
        }
        narrowest.map_or(Self::Whole, Self::Among)
    }

    fn nic(&self, node: &Node) -> BytesPerSecond {
        let least = |rate: BytesPerSecond| if rate < node.nic { rate } else { node.nic };
        match self {
            Self::Whole => node.nic,
            Self::Among(rate) => least(*rate),
            Self::Servers(cluster, servers) => servers
                .iter()
                .filter_map(|&s| cluster.links.between(&node.place, &cluster.nodes[s].place))
                .fold(node.nic, |nic, rate| if rate < nic { rate } else { nic }),
        }
    }
}

/// Servers, one a node.
fn servers_on(cluster: &Cluster, nodes: &[usize]) -> Vec<Server> {
    let nic = |&node: &usize| cluster.nodes[node].nic;
    nodes.iter().map(nic).map(|nic| Server { nic }).collect()
}
