//! What was learnt from measurements: parameters with a physical meaning,
//! each with the prior it is drawn towards. The shipped values were fitted
//! on the lab's rows; `docs/models.md` says how.

mod fit;
mod parameters;

pub use fit::fit;
pub use parameters::{
    AcceleratorParameters, CollectiveParameters, CpuParameters, Prior, TransferParameters,
};

use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// The values shipped with the program.
const DEFAULT: &str = include_str!("calibration/default.yaml");

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
        let sections: [(&str, &[&str], Vec<f64>); 6] = [
            (
                "accelerator",
                AcceleratorParameters::NAMES,
                self.accelerator.to_array(),
            ),
            ("cpu", CpuParameters::NAMES, self.cpu.to_array()),
            (
                "transfer",
                TransferParameters::NAMES,
                self.transfer.to_array(),
            ),
            (
                "collective.gloo",
                CollectiveParameters::NAMES,
                self.collective.gloo.to_array(),
            ),
            (
                "collective.nccl_tcp",
                CollectiveParameters::NAMES,
                self.collective.nccl_tcp.to_array(),
            ),
            (
                "collective.nccl_rdma",
                CollectiveParameters::NAMES,
                self.collective.nccl_rdma.to_array(),
            ),
        ];
        for (section, names, values) in sections {
            for (name, value) in names.iter().zip(values) {
                let most = if name.ends_with("goodput") {
                    1.0
                } else {
                    f64::MAX
                };
                if !(value > 0.0 && value <= most) {
                    return Err(format!(
                        "{section}.{name}: found `{value}`, expected a number above 0 and at most {most:e}"
                    ));
                }
            }
        }
        let spreads = [
            self.spread.compute,
            self.spread.borrowed_compute,
            self.spread.transfer,
        ];
        if spreads.iter().any(|s| !(0.0..=10.0).contains(s)) {
            return Err("spread: expected numbers between 0 and 10".to_owned());
        }
        Ok(())
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
