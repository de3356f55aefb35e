//! Facts that remember where they came from.

use std::fmt;

/// What a fact is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FactName {
    /// Type of the accelerators.
    Accelerator,
    /// How many there are.
    AcceleratorCount,
    /// Type of the processor.
    Cpu,
    /// Its cores.
    CpuCores,
    /// Line rate of the NIC.
    NicGbps,
    /// What carries the traffic.
    Transport,
    /// Worker or server.
    Role,
    /// Price an hour.
    PricePerHour,
    /// Whether it takes new work.
    Schedulable,
    /// The zone it stands in.
    Zone,
    /// The rack it stands in.
    Rack,
    /// The accelerators that its own reach over `NVLink`.
    NvlinkDomain,
}

impl fmt::Display for FactName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accelerator => "accelerator",
            Self::AcceleratorCount => "accelerator_count",
            Self::Cpu => "cpu",
            Self::CpuCores => "cpu_cores",
            Self::NicGbps => "nic_gbps",
            Self::Transport => "transport",
            Self::Role => "role",
            Self::PricePerHour => "price_per_hour",
            Self::Schedulable => "schedulable",
            Self::Zone => "zone",
            Self::Rack => "rack",
            Self::NvlinkDomain => "nvlink_domain",
        })
    }
}

/// Where a fact came from; earlier ones win.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A key of the cluster file.
    File,
    /// A `stepcast.dev/*` label or annotation.
    Override(String),
    /// A label of the vendor's or of Node Feature Discovery.
    Vendor(String),
    /// A label of the cloud's.
    Cloud(String),
    /// The table of instance types.
    InstanceType(String),
    /// The node's allocatable resources.
    Allocatable(String),
    /// The node's own state.
    Status,
    /// The configured default.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("cluster file"),
            Self::Override(key) | Self::Vendor(key) | Self::Cloud(key) => f.write_str(key),
            Self::InstanceType(name) => write!(f, "instance type {name}"),
            Self::Allocatable(key) => write!(f, "allocatable {key}"),
            Self::Status => f.write_str("node status"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One fact about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// What it is about.
    pub name: FactName,
    /// What it says, as a person reads it.
    pub value: String,
    /// Where it came from.
    pub source: Source,
    /// Other sources that say otherwise.
    pub conflicts: Vec<(Source, String)>,
}
