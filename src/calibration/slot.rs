//! Every parameter of a calibration by its place, for fits that treat some of
//! them as a vector.

use super::{
    AcceleratorParameters, Calibration, CollectiveParameters, CpuParameters, DeviceFactors, Prior,
    Seen, TransferParameters, WorkloadFactors, WorkloadKey,
};
use std::fmt;

/// A part of a calibration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Section {
    /// Compute on accelerators.
    Accelerator,
    /// Compute on processors.
    Cpu,
    /// Transfers to and from parameter servers.
    Transfer,
    /// Collectives of processors.
    Gloo,
    /// Collectives of accelerators over TCP.
    NcclTcp,
    /// Collectives of accelerators over RDMA.
    NcclRdma,
    /// A type of device.
    Device(String),
    /// A workload on a device.
    Workload(WorkloadKey),
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot {
    /// Where it is.
    pub section: Section,
    /// Which of the section's.
    pub index: usize,
}

impl Section {
    /// The sections that every calibration has.
    pub const COMMON: [Self; 6] = [
        Self::Accelerator,
        Self::Cpu,
        Self::Transfer,
        Self::Gloo,
        Self::NcclTcp,
        Self::NcclRdma,
    ];

    /// Names of its parameters.
    pub const fn names(&self) -> &'static [&'static str] {
        match self {
            Self::Accelerator => AcceleratorParameters::NAMES,
            Self::Cpu => CpuParameters::NAMES,
            Self::Transfer => TransferParameters::NAMES,
            Self::Gloo | Self::NcclTcp | Self::NcclRdma => CollectiveParameters::NAMES,
            Self::Device(_) => DeviceFactors::NAMES,
            Self::Workload(_) => WorkloadFactors::NAMES,
        }
    }

    /// What is believed of them before any measurement.
    pub const fn priors(&self) -> &'static [Prior] {
        match self {
            Self::Accelerator => AcceleratorParameters::PRIORS,
            Self::Cpu => CpuParameters::PRIORS,
            Self::Transfer => TransferParameters::PRIORS,
            Self::Gloo | Self::NcclTcp | Self::NcclRdma => CollectiveParameters::PRIORS,
            Self::Device(_) => DeviceFactors::PRIORS,
            Self::Workload(_) => WorkloadFactors::PRIORS,
        }
    }

    /// All of its parameters.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..self.names().len()).map(|index| Slot {
            section: self.clone(),
            index,
        })
    }
}

impl Slot {
    /// Its name within the section.
    pub fn name(&self) -> &'static str {
        self.section.names()[self.index]
    }

    /// What is believed of it before any measurement.
    pub fn prior(&self) -> Prior {
        self.section.priors()[self.index]
    }

    /// The most that it can be: shares of a line rate are at most 1.
    pub fn most(&self) -> f64 {
        /// A day: no single cost is longer.
        const LONGEST: f64 = 86_400.0;
        /// More than any rate, count or factor.
        const LARGEST: f64 = 1e18;
        let name = self.name();
        if name.ends_with("goodput") || name == "duplex" {
            1.0
        } else if name.ends_with("_s") || name.ends_with("_s_per_byte") {
            LONGEST
        } else {
            LARGEST
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.section {
            Section::Accelerator => f.write_str("accelerator")?,
            Section::Cpu => f.write_str("cpu")?,
            Section::Transfer => f.write_str("transfer")?,
            Section::Gloo => f.write_str("collective.gloo")?,
            Section::NcclTcp => f.write_str("collective.nccl_tcp")?,
            Section::NcclRdma => f.write_str("collective.nccl_rdma")?,
            Section::Device(name) => write!(f, "devices[{name}]")?,
            Section::Workload(key) => write!(f, "workloads[{key}]")?,
        }
        write!(f, ".{}", self.name())
    }
}

impl Calibration {
    /// The values of a section; those of the prior where it has none.
    pub fn values(&self, section: &Section) -> Vec<f64> {
        match section {
            Section::Accelerator => self.accelerator.to_array(),
            Section::Cpu => self.cpu.to_array(),
            Section::Transfer => self.transfer.to_array(),
            Section::Gloo => self.collective.gloo.to_array(),
            Section::NcclTcp => self.collective.nccl_tcp.to_array(),
            Section::NcclRdma => self.collective.nccl_rdma.to_array(),
            Section::Device(name) => self
                .device(name)
                .copied()
                .unwrap_or_else(DeviceFactors::prior)
                .to_array(),
            Section::Workload(key) => self
                .seen(key)
                .copied()
                .unwrap_or_else(WorkloadFactors::prior)
                .to_array(),
        }
    }

    /// Puts values into a section.
    pub fn set_values(&mut self, section: &Section, values: &[f64]) {
        match section {
            Section::Accelerator => self.accelerator = AcceleratorParameters::from_array(values),
            Section::Cpu => self.cpu = CpuParameters::from_array(values),
            Section::Transfer => self.transfer = TransferParameters::from_array(values),
            Section::Gloo => self.collective.gloo = CollectiveParameters::from_array(values),
            Section::NcclTcp => self.collective.nccl_tcp = CollectiveParameters::from_array(values),
            Section::NcclRdma => {
                self.collective.nccl_rdma = CollectiveParameters::from_array(values);
            }
            Section::Device(name) => {
                self.devices
                    .insert(name.clone(), DeviceFactors::from_array(values));
            }
            Section::Workload(key) => {
                let factors = WorkloadFactors::from_array(values);
                match self.workloads.iter_mut().find(|s| s.key() == *key) {
                    Some(seen) => seen.factors = factors,
                    None => self.workloads.push(Seen {
                        workload: key.workload.clone(),
                        parameters: key.parameters,
                        device: key.device.clone(),
                        precision: key.precision,
                        factors,
                    }),
                }
            }
        }
    }

    /// The value of one parameter.
    pub fn value(&self, slot: &Slot) -> f64 {
        self.values(&slot.section)[slot.index]
    }

    /// Sets one parameter, at most to what it can be.
    pub fn set(&mut self, slot: &Slot, value: f64) {
        let mut values = self.values(&slot.section);
        values[slot.index] = value.min(slot.most());
        self.set_values(&slot.section, &values);
    }
}
