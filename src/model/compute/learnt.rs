//! What was learnt of a device and of a workload, on top of the layers.

use super::Timing;
use crate::calibration::{Calibration, DeviceFactors, WorkloadFactors};
use crate::device::Device;
use crate::job::Precision;
use crate::units::Seconds;
use crate::workload::Workload;

/// Factors that apply to a workload on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Learnt {
    device: Option<DeviceFactors>,
    workload: Option<WorkloadFactors>,
}

impl Learnt {
    /// What a calibration knows. `None` where neither it nor the layers say
    /// what the workload computes.
    pub fn of(
        workload: &Workload,
        device: &Device,
        precision: Precision,
        calibration: &Calibration,
    ) -> Option<Self> {
        // A profile is what was measured.
        if workload.profile.is_some() {
            return Some(Self::default());
        }
        let learnt = Self {
            device: calibration.device(&device.name).copied(),
            workload: calibration
                .workload(workload, &device.name, precision)
                .copied(),
        };
        (workload.has_flops || learnt.workload.is_some()).then_some(learnt)
    }

    /// How much longer everything takes, for one of `sharing` workers on a node.
    fn factor(&self, sharing: u32) -> f64 {
        let device = self.device.map_or(1.0, |d| d.compute);
        let workload = self.workload.map_or(1.0, |w| w.compute);
        let crowding = self.device.map_or(0.0, |d| d.crowding);
        // The first neighbour costs half of all, a full node nearly all.
        let neighbours = 1.0 - 1.0 / f64::from(sharing.max(1));
        device * workload * crowding.mul_add(neighbours, 1.0)
    }

    /// The layers' times with what was learnt, for one of `sharing` workers
    /// on a node. Host time comes before the first layer.
    #[must_use]
    pub fn apply(&self, layers: &Timing, sharing: u32) -> Timing {
        if *self == Self::default() {
            return layers.clone();
        }
        let factor = self.factor(sharing);
        let mut timing = layers.scaled(factor);
        let overhead =
            self.device.map_or(0.0, |d| d.overhead_s) + self.workload.map_or(0.0, |w| w.overhead_s);
        timing.delay(Seconds::new(overhead));
        timing
    }
}
