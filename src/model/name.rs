//! The models by name, and which jobs each can answer.

use crate::job::{Strategy, Sync};
use std::fmt;

/// A model that can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModelName {
    /// One worker alone.
    Compute,
    /// The project's parameter-server model.
    Ps,
    /// Zeng 2023, exactly.
    Zeng,
    /// The project's all-reduce model.
    Ring,
    /// Liu 2022: overlapped scaling factor.
    Osf,
    /// Liu 2022: its baseline without overlap.
    Csf,
    /// All workers in step, transfers one after another (Zeng's Figure 1a).
    Synchronised,
    /// As if the network were free.
    NoCommunication,
    /// Everything in sequence, nothing overlapped.
    Sum,
}

impl ModelName {
    /// Every model, the project's own first.
    pub const ALL: [Self; 9] = [
        Self::Compute,
        Self::Ps,
        Self::Zeng,
        Self::Ring,
        Self::Osf,
        Self::Csf,
        Self::Synchronised,
        Self::NoCommunication,
        Self::Sum,
    ];

    /// The name people type.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Ps => "ps",
            Self::Zeng => "zeng",
            Self::Ring => "ring",
            Self::Osf => "osf",
            Self::Csf => "csf",
            Self::Synchronised => "synchronised",
            Self::NoCommunication => "no-communication",
            Self::Sum => "sum",
        }
    }

    /// What it is, in a line.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Compute => "one worker alone: roofline by kind and size of layer",
            Self::Ps => "parameter server: layers, overlap, several servers, unequal NICs",
            Self::Ring => "all-reduce: buckets in ready order, overlap, stragglers, shared NICs",
            Self::Osf => "Liu 2022: overlap and tensor fusion, equal workers",
            Self::Csf => "Liu 2022's baseline: one late all-reduce",
            Self::Zeng => "Zeng 2023: Algorithms 1 and 2 with the paper's FLOPs and rates",
            Self::Synchronised => "baseline: workers in step, transfers in turn (Zeng, Figure 1a)",
            Self::NoCommunication => "baseline: as if the network were free",
            Self::Sum => "baseline: everything in sequence",
        }
    }

    /// The model that answers a strategy unless another is asked for.
    pub const fn default_for(strategy: &Strategy) -> Option<Self> {
        match strategy {
            Strategy::Single => Some(Self::Compute),
            Strategy::ParameterServer(ps) => match ps.sync {
                Sync::Bsp => Some(Self::Ps),
                Sync::Asp | Sync::Ssp(_) => None,
            },
            Strategy::AllReduce(_) => Some(Self::Ring),
            Strategy::AsyncAllReduce => None,
        }
    }

    /// Whether it can answer a strategy.
    pub const fn answers(self, strategy: &Strategy) -> bool {
        match (self, strategy) {
            (Self::Compute, Strategy::Single)
            | (Self::Ring | Self::Osf | Self::Csf | Self::Sum, Strategy::AllReduce(_)) => true,
            (Self::NoCommunication, other) => !matches!(other, Strategy::AsyncAllReduce),
            (
                Self::Ps | Self::Zeng | Self::Synchronised | Self::Sum,
                Strategy::ParameterServer(ps),
            ) => {
                matches!(ps.sync, Sync::Bsp)
            }
            _ => false,
        }
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
