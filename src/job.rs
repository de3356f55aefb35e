//! The job: what is trained, how much a step, and how workers agree.

mod read;
mod strategy;

pub use read::{JobFile, MAX_JOB_BYTES, Resolve};
pub use strategy::{Algorithm, AllReduce, AsyncAllReduce, Fusion, ParameterServer, Strategy, Sync};

use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Number formats of arithmetic, weights and gradients.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Single precision throughout.
    #[default]
    Fp32,
    /// Products in `TensorFloat-32`.
    Tf32,
    /// Half precision, weights and gradients too.
    Fp16,
    /// bfloat16, weights and gradients too.
    Bf16,
    /// Autocast: low-precision products, fp32 weights and gradients.
    Amp,
}

impl Precision {
    /// Bytes of a weight, and of a gradient.
    pub const fn parameter_bytes(self) -> f64 {
        match self {
            Self::Fp32 | Self::Tf32 | Self::Amp => 4.0,
            Self::Fp16 | Self::Bf16 => 2.0,
        }
    }

    /// Bytes of an activation.
    pub const fn activation_bytes(self) -> f64 {
        match self {
            Self::Fp32 | Self::Tf32 => 4.0,
            Self::Fp16 | Self::Bf16 | Self::Amp => 2.0,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Amp => "amp",
        })
    }
}

/// Samples a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Batch {
    /// The same for every worker.
    PerWorker(u32),
    /// Divided over the workers.
    Global(u64),
    /// One size for each worker, in file order.
    Each(Vec<u32>),
}

impl Batch {
    /// Samples of worker `index` of `workers`; the first ones take what a
    /// global batch leaves over.
    pub fn of_worker(&self, index: usize, workers: usize) -> u32 {
        match self {
            Self::PerWorker(size) => *size,
            Self::Each(sizes) => sizes.get(index).copied().unwrap_or_default(),
            Self::Global(total) => {
                let (share, rest) = (total / workers as u64, total % workers as u64);
                (share + u64::from((index as u64) < rest)) as u32
            }
        }
    }
}

/// A training job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name in answers and metrics.
    pub name: Option<String>,
    /// What a worker computes.
    pub workload: Arc<Workload>,
    /// Samples a step.
    pub batch: Batch,
    /// Number formats.
    pub precision: Precision,
    /// Steps to finish.
    pub steps: Option<u64>,
    /// How workers agree on the weights.
    pub strategy: Strategy,
}
