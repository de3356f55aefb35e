//! What computes: accelerators and processors by name, with the peaks that
//! every compute model starts from.

mod accelerators;
mod cpus;
mod inline;
mod name;
mod table;

pub use accelerators::{accelerator, accelerators, source_alias, with_memory};
pub use cpus::{CpuSpec, MEMORY_PER_THREAD, NfdModel, cpu, cpus, nfd_cpu};
pub use inline::{read_accelerator, read_cpu};
pub use name::same_name;
pub(crate) use table::Table;

use crate::job::Precision;
use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond};
use std::sync::Arc;

/// Whether a device is driven by a host or is the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// An accelerator: work is launched from a host, memory is its own.
    Accelerator,
    /// The processor itself.
    Cpu,
}

/// Peak arithmetic rates, dense.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peaks {
    /// Single precision, no matrix units.
    pub fp32: FlopsPerSecond,
    /// TensorFloat-32; the fp32 rate where there is none.
    pub tf32: FlopsPerSecond,
    /// Half precision; the fp32 rate where it brings nothing.
    pub fp16: FlopsPerSecond,
    /// bfloat16; the fp32 rate where there is none.
    pub bf16: FlopsPerSecond,
}

/// One device.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Canonical name.
    pub name: Arc<str>,
    /// Accelerator or processor.
    pub kind: DeviceKind,
    /// Generation, such as `ampere`; empty where unknown.
    pub architecture: Arc<str>,
    /// Cores of the device: the papers' formula needs them.
    pub cores: u32,
    /// Clock in GHz, as the papers' formula takes it.
    pub clock_ghz: f64,
    /// Peak rates.
    pub peaks: Peaks,
    /// Memory for weights and activations; `None` where unknown (hosts).
    pub memory: Option<Bytes>,
    /// Memory bandwidth.
    pub memory_rate: BytesPerSecond,
    /// To the host, one way.
    pub host_link: BytesPerSecond,
    /// Between neighbours of one node, one way.
    pub peer_rate: BytesPerSecond,
}

impl Device {
    /// Peak arithmetic rate at a precision. `amp` runs its products in the
    /// faster of the two half precisions.
    pub const fn peak(&self, precision: Precision) -> FlopsPerSecond {
        match precision {
            Precision::Fp32 => self.peaks.fp32,
            Precision::Tf32 => self.peaks.tf32,
            Precision::Fp16 => self.peaks.fp16,
            Precision::Bf16 => self.peaks.bf16,
            Precision::Amp => self.peaks.bf16.max(self.peaks.fp16),
        }
    }
}
