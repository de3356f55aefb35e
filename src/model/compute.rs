//! The compute model that every other model shares: how long each layer's
//! forward and backward pass takes for a batch on a device.
//!
//! A layer is bound by arithmetic or by memory traffic, each at a share of
//! the device's peak that depends on the kind and size of the layer, plus a
//! start-up cost. Measured profiles replace all of it.

mod accelerator;
mod learnt;
mod processor;

pub use learnt::Learnt;

use crate::calibration::Calibration;
use crate::device::{Device, DeviceKind, accelerator as accelerator_by, cpu};
use crate::job::Precision;
use crate::units::Seconds;
use crate::workload::{Profile, Workload};

/// What one worker's step takes, alone and without communication.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Forward time of each layer.
    pub forward: Vec<Seconds>,
    /// Backward time of each layer.
    pub backward: Vec<Seconds>,
    /// Applying the gradients on the worker itself.
    pub optimizer: Seconds,
    /// Whether the parameters were fitted on this very device.
    pub borrowed: bool,
    // Asked for again and again, so added up once.
    forward_total: Seconds,
    backward_total: Seconds,
}

impl Timing {
    /// From the times of the layers.
    pub fn new(forward: Vec<Seconds>, backward: Vec<Seconds>, optimizer: Seconds) -> Self {
        Self {
            forward_total: forward.iter().copied().sum(),
            backward_total: backward.iter().copied().sum(),
            forward,
            backward,
            optimizer,
            borrowed: false,
        }
    }

    /// The whole forward pass.
    pub const fn forward_total(&self) -> Seconds {
        self.forward_total
    }

    /// The whole backward pass.
    pub const fn backward_total(&self) -> Seconds {
        self.backward_total
    }

    /// Both passes.
    pub fn compute(&self) -> Seconds {
        self.forward_total() + self.backward_total()
    }

    /// A step of a worker alone.
    pub fn step(&self) -> Seconds {
        self.forward_total() + self.backward_total() + self.optimizer
    }

    /// Forward and backward stretched to given totals: measured compute times
    /// with the model's shape.
    #[must_use]
    pub fn stretched(&self, forward: Seconds, backward: Seconds) -> Self {
        let stretch = |times: &[Seconds], total: Seconds| {
            let sum: Seconds = times.iter().copied().sum();
            times.iter().map(|t| *t * (total / sum)).collect()
        };
        let forward = stretch(&self.forward, forward);
        let backward = stretch(&self.backward, backward);
        Self {
            borrowed: self.borrowed,
            ..Self::new(forward, backward, self.optimizer)
        }
    }
}

impl Timing {
    /// Everything so many times as long.
    fn scaled(&self, factor: f64) -> Self {
        let scale = |times: &[Seconds]| times.iter().map(|t| *t * factor).collect();
        Self {
            borrowed: self.borrowed,
            ..Self::new(
                scale(&self.forward),
                scale(&self.backward),
                self.optimizer * factor,
            )
        }
    }

    /// Time before the first layer.
    fn delay(&mut self, overhead: Seconds) {
        if let Some(first) = self.forward.first_mut() {
            *first += overhead;
            self.forward_total += overhead;
        }
    }
}

/// Devices whose own rows the shipped parameters were fitted on.
const FITTED: [&str; 4] = ["NVIDIA-H200", "lab-xeon-1t", "lab-xeon-2t", "lab-xeon-4t"];

/// Whether a device is one of those, by its name.
pub fn was_fitted_on(device: &str) -> bool {
    FITTED.contains(&device)
}

/// Whether a device is one of those, and not another of its name.
fn was_measured(device: &Device) -> bool {
    FITTED.contains(&&*device.name)
        && match device.kind {
            DeviceKind::Accelerator => accelerator_by(&device.name).is_ok_and(|d| *d == *device),
            DeviceKind::Cpu => cpu(&device.name).is_ok_and(|spec| spec.cores == Some(device.cores)),
        }
}

/// The steps that were profiled, where they were: what a simulation draws
/// from.
pub fn sampled(workload: &Workload, batch: u32) -> Vec<Timing> {
    let first = workload.profile.iter();
    let profiles = first.chain(&workload.further_profiles);
    profiles.map(|profile| profiled(profile, batch)).collect()
}

/// Profiled moments are of one batch size; others scale with samples.
fn profiled(profile: &Profile, batch: u32) -> Timing {
    let scale = f64::from(batch) / f64::from(profile.batch);
    let forward = profile.forward.iter().map(|t| *t * scale).collect();
    let backward = profile.backward.iter().map(|t| *t * scale).collect();
    Timing::new(forward, backward, profile.optimizer)
}

/// Times a workload's layers for `batch` samples on a device, for a worker
/// alone on its node. `None` when nothing says what the layers compute.
pub fn time(
    workload: &Workload,
    device: &Device,
    batch: u32,
    precision: Precision,
    calibration: &Calibration,
) -> Option<Timing> {
    let layers = from_layers(workload, device, batch, precision, calibration)?;
    let learnt = Learnt::of(workload, device, precision, calibration);
    learnt.map(|learnt| learnt.apply(&layers, 1))
}

/// What the layers alone say: before anything particular to the device or
/// the workload. Where they say nothing, a millisecond a sample.
pub fn from_layers(
    workload: &Workload,
    device: &Device,
    batch: u32,
    precision: Precision,
    calibration: &Calibration,
) -> Option<Timing> {
    if let Some(profile) = &workload.profile {
        return Some(profiled(profile, batch));
    }
    if !workload.has_flops {
        return Some(unknown(workload, batch));
    }
    let batch = f64::from(batch);
    let mut timing = match device.kind {
        DeviceKind::Accelerator => {
            accelerator::time(&calibration.accelerator, device, workload, batch, precision)
        }
        DeviceKind::Cpu => processor::time(&calibration.cpu, device, workload, batch),
    };
    timing.borrowed = !was_measured(device) && calibration.device(&device.name).is_none();
    Some(timing)
}

/// Layers of which nobody says what they compute: all alike, backward twice
/// forward.
fn unknown(workload: &Workload, batch: u32) -> Timing {
    const SAMPLE: f64 = 1e-3;
    let layers = workload.layers.len().max(1);
    let each = Seconds::new(SAMPLE * f64::from(batch) / 3.0 / layers as f64);
    Timing::new(vec![each; layers], vec![each * 2.0; layers], Seconds::ZERO)
}
