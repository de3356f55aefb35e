//! Whether a step fits into a device's memory.

use crate::device::Device;
use crate::job::{Precision, Strategy};
use crate::units::Bytes;
use crate::workload::{LayerKind, Workload};

/// Bytes of momentum that the optimizer keeps for a parameter.
const OPTIMIZER_BYTES: f64 = 4.0;

/// What frameworks and libraries take before any layer: context and
/// workspaces, seen at 0.5 to 1 GiB on accelerators.
const RUNTIME: Bytes = Bytes::from_gib(0.75);

/// What a step needs of a device's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Weights and their gradients.
    pub weights: Bytes,
    /// State of the optimizer, where the worker keeps it.
    pub optimizer: Bytes,
    /// Activations kept for the backward pass.
    pub activations: Bytes,
    /// All of it, with the framework's own.
    pub needed: Bytes,
    /// What the device has.
    pub available: Bytes,
}

impl Memory {
    /// What `batch` samples need on a device; `None` where its memory is not
    /// known.
    pub fn of(
        workload: &Workload,
        device: &Device,
        batch: u32,
        precision: Precision,
        strategy: &Strategy,
    ) -> Option<Self> {
        let available = device.memory?;
        // Totals do not say what is kept for the backward pass.
        if workload.activation_elements() == 0.0 {
            return None;
        }
        let parameters = workload.parameters() as f64;
        let weights = Bytes::new(2.0 * parameters * precision.parameter_bytes());
        // A parameter server keeps the optimizer's state.
        let optimizer = match strategy {
            Strategy::ParameterServer(_) => Bytes::ZERO,
            _ => Bytes::new(parameters * OPTIMIZER_BYTES),
        };
        let indices: f64 = workload
            .layers
            .iter()
            .filter(|l| l.kind == LayerKind::MaxPool)
            .map(|l| l.output_elements * 8.0)
            .sum();
        let sample = workload.activation_elements() * precision.activation_bytes() + indices;
        let activations = Bytes::new(sample * f64::from(batch));
        Some(Self {
            weights,
            optimizer,
            activations,
            needed: weights + optimizer + activations + RUNTIME,
            available,
        })
    }

    /// Whether it fits.
    pub fn fits(&self) -> bool {
        self.needed <= self.available
    }

    /// What is left over; below zero where it does not fit.
    pub fn headroom(&self) -> Bytes {
        self.available - self.needed
    }
}
