//! What was learnt from measurements: parameters with a physical meaning,
//! each with the prior it is drawn towards. The shipped values were fitted
//! on the lab's rows; `docs/models.md` says how.

mod fit;
mod parameters;
mod provenance;
mod seen;
mod slot;

pub use fit::{Fitted, fit, solve};
pub use parameters::{
    AcceleratorParameters, CollectiveParameters, CpuParameters, DeviceFactors, Prior,
    TransferParameters, WorkloadFactors,
};
pub use provenance::Provenance;
pub use seen::{Seen, WorkloadKey};
pub use slot::{Section, Slot};

use crate::device::{accelerator, cpu};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The values shipped with the program.
const DEFAULT: &str = include_str!("calibration/default.yaml");

/// Fingerprints of the runs that they were fitted on.
const FITTED_ON: &str = include_str!("calibration/fitted_on.txt");

/// Parameters of every model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Which calibration this is; `None` for the shipped one.
    #[serde(default)]
    pub version: Option<String>,
    /// Compute on accelerators.
    pub accelerator: AcceleratorParameters,
    /// Compute on processors.
    pub cpu: CpuParameters,
    /// Transfers between workers and parameter servers.
    pub transfer: TransferParameters,
    /// Collectives among workers.
    pub collective: Collectives,
    /// How far predictions are off.
    pub spread: Spread,
    /// What is particular to a type of device, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<String, DeviceFactors>,
    /// What is particular to a workload on a device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<Seen>,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

/// Collectives, by who moves the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collectives {
    /// Processors over TCP (gloo).
    pub gloo: CollectiveParameters,
    /// Accelerators over TCP (NCCL).
    pub nccl_tcp: CollectiveParameters,
    /// Accelerators over RDMA (NCCL).
    pub nccl_rdma: CollectiveParameters,
}

/// Typical size of the relative error, one standard deviation of its
/// logarithm, from residuals on rows not fitted on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Compute of a workload that was seen on the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_compute: Option<f64>,
    /// Compute on a device like the ones measured.
    pub compute: f64,
    /// Compute on a device that borrows its parameters.
    pub borrowed_compute: f64,
    /// Transfers and collectives.
    pub transfer: f64,
}

impl Calibration {
    /// Every parameter must be a finite number above zero, and a share of the
    /// line rate at most 1; names the first that is not.
    pub fn check(&self) -> Result<(), String> {
        let mut sections = Section::COMMON.to_vec();
        sections.extend(self.devices.keys().cloned().map(Section::Device));
        sections.extend(self.workloads.iter().map(|w| Section::Workload(w.key())));
        for section in sections {
            for (index, value) in self.values(&section).into_iter().enumerate() {
                let slot = Slot {
                    section: section.clone(),
                    index,
                };
                let most = slot.most();
                if !(value > 0.0 && value <= most) {
                    return Err(format!(
                        "{slot}: found `{value}`, expected a number above 0 and at most {most:e}"
                    ));
                }
            }
        }
        let named = self
            .devices
            .keys()
            .chain(self.workloads.iter().map(|w| &w.device));
        for name in named {
            let canonical = match (accelerator(name), cpu(name)) {
                (Ok(device), _) => Some(device.name.to_string()),
                (_, Ok(spec)) => Some(spec.name.to_string()),
                // A device that a cluster file brings.
                _ => None,
            };
            if let Some(canonical) = canonical.filter(|c| c != name) {
                return Err(format!(
                    "devices[{name}]: the device is known as `{canonical}` here"
                ));
            }
        }
        let spreads = [
            self.spread.seen_compute.unwrap_or_default(),
            self.spread.compute,
            self.spread.borrowed_compute,
            self.spread.transfer,
        ];
        if spreads.iter().any(|s| !(0.0..=10.0).contains(s)) {
            return Err("spread: expected numbers between 0 and 10".to_owned());
        }
        Ok(())
    }

    /// Fingerprints of the runs that the shipped calibration was fitted on.
    pub fn shipped_has_seen() -> &'static [u32] {
        static SEEN: LazyLock<Vec<u32>> = LazyLock::new(|| {
            let words = FITTED_ON.lines().filter(|line| !line.starts_with('#'));
            words
                .flat_map(str::split_whitespace)
                .filter_map(|word| u32::from_str_radix(word, 16).ok())
                .collect()
        });
        &SEEN
    }

    /// Fingerprints of the runs that this one was fitted on, as far as it
    /// says: the shipped one by a list of its own.
    pub fn has_seen(&self) -> Vec<u32> {
        match &self.provenance {
            Some(provenance) => provenance.fitted_on.clone(),
            None => Self::shipped_has_seen().to_vec(),
        }
    }

    /// The shipped calibration.
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<Calibration> = LazyLock::new(|| {
            serde_yaml::from_str(DEFAULT).expect("the shipped calibration is valid")
        });
        &SHIPPED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_calibration_reads_and_is_physical() {
        let shipped = Calibration::shipped();
        assert_eq!(shipped.check(), Ok(()));
        let mut broken = shipped.clone();
        broken.transfer.goodput = 1.5;
        assert!(
            broken
                .check()
                .is_err_and(|e| e.starts_with("transfer.goodput: found `1.5`"))
        );
        for (name, value) in AcceleratorParameters::NAMES
            .iter()
            .zip(shipped.accelerator.to_array())
        {
            assert!(value > 0.0 && value.is_finite(), "{name}");
        }
        assert!(shipped.transfer.goodput <= 1.0);
        let array = shipped.cpu.to_array();
        assert_eq!(CpuParameters::from_array(&array), shipped.cpu);
    }
}
