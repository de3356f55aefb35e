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
