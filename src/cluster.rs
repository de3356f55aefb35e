//! What there is to train on: nodes with their devices, links and prices,
//! each fact with where it came from.

mod fact;
mod instances;
mod labels;
mod object;
mod read;
mod selector;
mod short;
mod topology;

pub use fact::{Fact, FactName, Source};
pub use labels::resolve;
pub use object::{Condition, Metadata, NodeObject, Spec, Status, Taint};
pub use read::{ClusterFile, MAX_CLUSTER_BYTES, leave_processors_out};
pub use selector::Selector;
pub use topology::{Links, Place};

use crate::device::Device;
use crate::units::BytesPerSecond;
use std::fmt;
use std::sync::Arc;

/// What a node is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Computes.
    #[default]
    Worker,
    /// Holds weights.
    Server,
}

/// What carries the traffic between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP: the processors copy.
    #[default]
    Tcp,
    /// RDMA: the NICs copy.
    Rdma,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Rdma => "rdma",
        })
    }
}

/// The accelerators of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Accelerators {
    /// Their type.
    pub device: Arc<Device>,
    /// How many.
    pub count: u32,
}

/// Labels, sorted by key. Nodes repeat each other's, so the text is shared.
pub type Labels = Vec<(Arc<str>, Arc<str>)>;

/// One machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Its accelerators; without them the processor computes.
    pub accelerators: Option<Accelerators>,
    /// Its processor.
    pub cpu: Option<Arc<Device>>,
    /// Line rate of its NIC.
    pub nic: BytesPerSecond,
    /// What carries the traffic.
    pub transport: Transport,
    /// Price, in whatever currency the operator thinks in.
    pub price_per_hour: Option<f64>,
    /// Where it stands.
    pub place: Place,
    /// Accelerators that other jobs hold.
    pub taken: u32,
    /// Its labels, sorted by key, where it came from Kubernetes.
    pub labels: Labels,
    /// Why it takes no new work, where it does not.
    pub unusable: Option<String>,
    /// What is known of it and from where.
    pub facts: Vec<Fact>,
    /// What was assumed of it, or is odd about it.
    pub warnings: Vec<String>,
}

impl Node {
    /// What computes on it.
    pub fn device(&self) -> Option<&Arc<Device>> {
        match &self.accelerators {
            Some(accelerators) => Some(&accelerators.device),
            None => self.cpu.as_ref(),
        }
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let place = self.labels.binary_search_by(|(k, _)| (**k).cmp(key));
        place.ok().map(|i| &*self.labels[i].1)
    }

    /// Workers it can hold: its accelerators, or the node itself.
    pub fn workers(&self) -> u32 {
        match (&self.role, &self.accelerators, &self.cpu) {
            (Role::Server, ..) => 0,
            (_, Some(accelerators), _) => accelerators.count,
            (_, None, Some(_)) => 1,
            _ => 0,
        }
    }
}

/// All nodes, in file order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// The nodes, shared with other states of the same cluster.
    pub nodes: Vec<Arc<Node>>,
    /// What the links between zones and racks carry.
    pub links: Links,
    /// What is odd about the file; nodes carry their own.
    pub warnings: Vec<String>,
}

impl Cluster {
    /// Every warning once, the file's first.
    pub fn all_warnings(&self) -> Vec<String> {
        let mut all = self.warnings.clone();
        for node in &self.nodes {
            for warning in &node.warnings {
                if all.last() != Some(warning) {
                    all.push(warning.clone());
                }
            }
        }
        all
    }

    /// Workers over all nodes.
    pub fn workers(&self) -> usize {
        self.nodes.iter().map(|n| n.workers() as usize).sum()
    }
}

/// What to assume where a node does not say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Defaults {
    /// Line rate of a NIC nobody described.
    pub nic: BytesPerSecond,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            nic: BytesPerSecond::from_gbit(10.0),
        }
    }
}
