//! What a calibration knows of workloads that it has seen.

use super::{Calibration, DeviceFactors, WorkloadFactors};
use crate::job::Precision;
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A workload on a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkloadKey {
    /// The network's name.
    pub workload: String,
    /// Its parameters: two networks may go by one name.
    pub parameters: u64,
    /// The device's name.
    pub device: String,
    /// The arithmetic.
    pub precision: Precision,
}

impl fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} on {} ({})",
            self.workload, self.device, self.precision
        )
    }
}

/// What was learnt of a workload on a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// The network's name.
    pub workload: String,
    /// Its parameters: two networks may go by one name.
    pub parameters: u64,
    /// The device's name.
    pub device: String,
    /// The arithmetic.
    pub precision: Precision,
    /// The factors.
    pub factors: WorkloadFactors,
}

impl Seen {
    /// What it speaks of.
    pub fn key(&self) -> WorkloadKey {
        WorkloadKey {
            workload: self.workload.clone(),
            parameters: self.parameters,
            device: self.device.clone(),
            precision: self.precision,
        }
    }
}

impl Calibration {
    /// What was learnt of a type of device, if anything.
    pub fn device(&self, name: &str) -> Option<&DeviceFactors> {
        self.devices.get(name)
    }

    /// What was learnt of a workload on a device, if anything.
    pub fn workload(
        &self,
        workload: &Workload,
        device: &str,
        precision: Precision,
    ) -> Option<&WorkloadFactors> {
        let named = |s: &&Seen| {
            s.workload == workload.name && s.device == device && s.precision == precision
        };
        let mut named = self.workloads.iter().filter(named).peekable();
        // Counted only where there is something to find.
        named.peek()?;
        let parameters = workload.parameters();
        named
            .find(|s| s.parameters == parameters)
            .map(|s| &s.factors)
    }

    /// The same by key.
    pub fn seen(&self, key: &WorkloadKey) -> Option<&WorkloadFactors> {
        let found = self.workloads.iter().find(|s| s.key() == *key);
        found.map(|s| &s.factors)
    }
}
