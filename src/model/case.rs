//! A job on a placement with every look-up done: the workers fall into
//! classes that behave alike, so that a thousand of them cost what a few do.

use super::compute::{self, Timing};
use crate::calibration::Calibration;
use crate::cluster::{Cluster, Node, Transport};
use crate::device::Device;
use crate::job::{Batch, Job, Strategy};
use crate::placement::Placement;
use crate::units::{BytesPerSecond, Seconds};
use std::sync::Arc;

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
    kept: Vec<(Arc<Device>, u32, Arc<Timing>)>,
}

impl Timings {
    /// The time of the job's layers for `batch` samples on a device.
    pub fn of(
        &mut self,
        job: &Job,
        device: &Arc<Device>,
        batch: u32,
        calibration: &Calibration,
    ) -> Result<Arc<Timing>, CaseError> {
        let same = |kept: &&(Arc<Device>, u32, Arc<Timing>)| {
            kept.1 == batch && (Arc::ptr_eq(&kept.0, device) || kept.0 == *device)
        };
        if let Some((_, _, timing)) = self.kept.iter().find(same) {
            return Ok(Arc::clone(timing));
        }
        let timing = compute::time(&job.workload, device, batch, job.precision, calibration)
            .ok_or_else(|| CaseError::NoFlops(job.workload.name.clone()))?;
        let timing = Arc::new(timing);
        self.kept
            .push((Arc::clone(device), batch, Arc::clone(&timing)));
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
        };
        let wanted = match &job.strategy {
            Strategy::ParameterServer(ps) => ps.servers,
            _ => 0,
        };
        // Without server nodes, the first nodes hold the servers.
        let mut hosts_left = if server_nodes.is_empty() { wanted } else { 0 };
        let mut index = 0;
        for group in groups {
            let node = &cluster.nodes[group.node];
            let hosting = group.nodes.min(hosts_left);
            hosts_left -= hosting;
            let nic = Server { nic: node.nic };
            case.servers.extend((0..hosting).map(|_| nic));
            for (count, hosts) in [(hosting, true), (group.nodes - hosting, false)] {
                let place = (group.node, group.workers, hosts);
                case.add_many(node, count * group.workers, index, place, timings)?;
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
        place: (usize, u32, bool),
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
            self.add(node, batch, place, timings)?;
            if let Some(class) = self.class_of(node, batch, place) {
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
        };
        let mut index = 0;
        for placed in &placement.nodes {
            let node = &cluster.nodes[placed.node];
            let hosts_server = placement.servers.contains(&placed.node);
            for _ in 0..placed.workers {
                let batch = job.batch.of_worker(index, workers);
                index += 1;
                let place = (placed.node, placed.workers, hosts_server);
                case.add(node, batch, place, timings)?;
            }
        }
        case.servers = servers_on(cluster, &placement.servers);
        Ok(case)
    }

    fn add(
        &mut self,
        node: &Node,
        batch: u32,
        (index, sharing, hosts_server): (usize, u32, bool),
        timings: &mut Timings,
    ) -> Result<(), CaseError> {
        let device = node.device().ok_or(CaseError::NoWorkers)?;
        if let Some(class) = self.class_of(node, batch, (index, sharing, hosts_server)) {
            class.count += 1;
            return Ok(());
        }
        self.classes.push(Class {
            timing: timings.of(self.job, device, batch, self.calibration)?,
            device: Arc::clone(device),
            batch,
            nic: node.nic,
            transport: node.transport,
            sharing,
            hosts_server,
            count: 1,
            node: index,
        });
        Ok(())
    }

    /// The class that a worker of a node falls into, if there is one yet.
    fn class_of(
        &mut self,
        node: &Node,
        batch: u32,
        (_, sharing, hosts_server): (usize, u32, bool),
    ) -> Option<&mut Class> {
        let device = node.device()?;
        self.classes.iter_mut().find(|class| {
            class.batch == batch
                && class.nic == node.nic
                && class.sharing == sharing
                && class.hosts_server == hosts_server
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
        let timing = timings.of(self.job, &class.device, batch, self.calibration)?;
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

/// Servers, one a node.
fn servers_on(cluster: &Cluster, nodes: &[usize]) -> Vec<Server> {
    let nic = |&node: &usize| cluster.nodes[node].nic;
    nodes.iter().map(nic).map(|nic| Server { nic }).collect()
}
