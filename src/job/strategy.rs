//! How workers agree on the weights.

use crate::measured::{Coefficients, GemmTable};
use crate::units::{Bytes, Seconds};
use std::fmt;
use std::sync::Arc;

/// How workers agree on the weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Strategy {
    /// One worker, nothing to agree on.
    #[default]
    Single,
    /// Through servers that hold the weights.
    ParameterServer(ParameterServer),
    /// By summing gradients among the workers.
    AllReduce(AllReduce),
    /// All-reduce by a thread of its own, workers not waiting (SPRINT).
    AsyncAllReduce(AsyncAllReduce),
}

/// An asynchronous all-reduce job (SPRINT).
#[derive(Clone, Debug, PartialEq)]
pub struct AsyncAllReduce {
    /// Samples of the data set: then the time of an epoch.
    pub samples: Option<u64>,
    /// Bytes of one sample as the device takes it in.
    pub sample_bytes: f64,
    /// Measured products that the gradient's time is interpolated from.
    pub gemm: Option<Arc<GemmTable>>,
    /// Coefficients that measured element times gave.
    pub coefficients: Option<Arc<Coefficients>>,
}

impl Default for AsyncAllReduce {
    /// An image of 224 × 224 in three colours, single precision.
    fn default() -> Self {
        Self {
            samples: None,
            sample_bytes: 224.0 * 224.0 * 3.0 * 4.0,
            gemm: None,
            coefficients: None,
        }
    }
}

/// When workers of a parameter server wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Every step.
    Bsp,
    /// Never.
    Asp,
    /// When one is more than this many steps ahead.
    Ssp(u32),
}

/// A parameter-server job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParameterServer {
    /// When workers wait.
    pub sync: Sync,
    /// How many servers hold the weights.
    pub servers: u32,
    /// Whether transfers run while layers compute.
    pub overlap: bool,
    /// Whether a node's accelerators are summed before the NIC.
    pub local_aggregation: bool,
    /// How tensors become messages.
    pub fusion: Fusion,
}

impl Default for ParameterServer {
    fn default() -> Self {
        Self {
            sync: Sync::Bsp,
            servers: 1,
            overlap: true,
            local_aggregation: false,
            fusion: Fusion::None,
        }
    }
}

/// The collective's shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Around a ring.
    Ring,
    /// Up and down a tree.
    Tree,
    /// Within nodes first, then between them.
    Hierarchical,
    /// The cheapest.
    #[default]
    Auto,
}

/// An all-reduce job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AllReduce {
    /// The collective's shape.
    pub algorithm: Algorithm,
    /// Whether it runs while the backward pass computes.
    pub overlap: bool,
    /// How tensors become messages.
    pub fusion: Fusion,
    /// Bytes sent for a byte of gradients.
    pub compression: f64,
    /// Backward passes before gradients are summed over workers.
    pub accumulation: u32,
}

impl Default for AllReduce {
    /// `PyTorch`'s defaults: overlapped, buckets of 25 MiB.
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Auto,
            overlap: true,
            fusion: Fusion::Buffer {
                buffer: Bytes::from_mib(25.0),
                timeout: None,
            },
            compression: 1.0,
            accumulation: 1,
        }
    }
}

/// How tensors become messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fusion {
    /// Each by itself.
    None,
    /// Collected in a buffer; with a timeout as Horovod does, without as
    /// `PyTorch`'s buckets.
    Buffer {
        /// Size of the buffer.
        buffer: Bytes,
        /// How long a tensor waits for company.
        timeout: Option<Seconds>,
    },
    /// Cut into parts, sent in the order the next step needs them.
    Partition {
        /// Size of a part.
        part: Bytes,
        /// Whether parts of early layers overtake.
        priority: bool,
    },
    /// adaFusion (Liu 2022).
    Adaptive,
    /// MG-WFBP.
    MgWfbp,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single => f.write_str("single"),
            Self::ParameterServer(ps) => match ps.sync {
                Sync::Bsp => f.write_str("parameter_server (bsp)"),
                Sync::Asp => f.write_str("parameter_server (asp)"),
                Sync::Ssp(staleness) => write!(f, "parameter_server (ssp, staleness {staleness})"),
            },
            Self::AllReduce(_) => f.write_str("all_reduce"),
            Self::AsyncAllReduce(_) => f.write_str("async_all_reduce"),
        }
    }
}
