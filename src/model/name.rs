//! The models by name, and which jobs each can answer.

use crate::job::{Strategy, Sync};
use std::fmt;

/// A model that can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModelName {
    /// One worker alone.
    Compute,
    /// The project's parameter-server model.
    Ps,
    /// The project's model of workers that do not wait for each other.
    Asp,
    /// Discrete events, step after step.
    Simulation,
    /// SPRINT (Oyama 2016).
    Sprint,
    /// Zeng 2023, exactly.
    Zeng,
    /// Lin et al. 2018: a closed queueing network.
    Lin,
    /// Cynthia (Zheng et al. 2019).
    Cynthia,
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
    /// What each worker does alone, added up.
    SumOfSpeeds,
    /// Everything in sequence, nothing overlapped.
    Sum,
}

impl ModelName {
    /// Every model, the project's own first.
    pub const ALL: [Self; 15] = [
        Self::Compute,
        Self::Ps,
        Self::Asp,
        Self::Simulation,
        Self::Sprint,
        Self::Zeng,
        Self::Lin,
        Self::Cynthia,
        Self::Ring,
        Self::Osf,
        Self::Csf,
        Self::Synchronised,
        Self::NoCommunication,
        Self::SumOfSpeeds,
        Self::Sum,
    ];

    /// The name people type.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Ps => "ps",
            Self::Asp => "asp",
            Self::Simulation => "simulation",
            Self::Sprint => "sprint",
            Self::Zeng => "zeng",
            Self::Lin => "lin",
            Self::Cynthia => "cynthia",
            Self::Ring => "ring",
            Self::Osf => "osf",
            Self::Csf => "csf",
            Self::Synchronised => "synchronised",
            Self::NoCommunication => "no-communication",
            Self::SumOfSpeeds => "sum-of-speeds",
            Self::Sum => "sum",
        }
    }

    /// What it is, in a line.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Compute => "one worker alone: roofline by kind and size of layer",
            Self::Ps => "parameter server: layers, overlap, several servers, unequal NICs",
            Self::Asp => "asynchronous: mean value analysis around the step's critical path",
            Self::Simulation => "discrete events: links shared max–min fair (after Li 2020)",
            Self::Sprint => "SPRINT 2016: GPU and update threads as a fixed point",
            Self::Lin => "Lin et al. 2018: queues for downlink, worker, uplink, server",
            Self::Cynthia => "Cynthia 2019: one worker's utilisation, scaled",
            Self::Ring => "all-reduce: buckets in ready order, overlap, stragglers, shared NICs",
            Self::Osf => "Liu 2022: overlap and tensor fusion, equal workers",
            Self::Csf => "Liu 2022's baseline: one late all-reduce",
            Self::Zeng => "Zeng 2023: Algorithms 1 and 2 with the paper's FLOPs and rates",
            Self::Synchronised => "baseline: workers in step, transfers in turn (Zeng, Figure 1a)",
            Self::NoCommunication => "baseline: as if the network were free",
            Self::SumOfSpeeds => "baseline: what each worker does alone, added up",
            Self::Sum => "baseline: everything in sequence",
        }
    }

    /// The model that answers a strategy unless another is asked for.
    pub const fn default_for(strategy: &Strategy) -> Option<Self> {
        match strategy {
            Strategy::Single => Some(Self::Compute),
            Strategy::ParameterServer(ps) => match ps.sync {
                Sync::Bsp => Some(Self::Ps),
                Sync::Asp | Sync::Ssp(_) => Some(Self::Asp),
            },
            Strategy::AllReduce(_) => Some(Self::Ring),
            Strategy::AsyncAllReduce(_) => Some(Self::Sprint),
        }
    }

    /// Whether it can answer a strategy.
    pub const fn answers(self, strategy: &Strategy) -> bool {
        match (self, strategy) {
            (Self::Compute, Strategy::Single)
            | (Self::Simulation, Strategy::ParameterServer(_))
            | (Self::Sprint, Strategy::AsyncAllReduce(_))
            | (Self::Ring | Self::Osf | Self::Csf | Self::Sum, Strategy::AllReduce(_)) => true,
            (Self::NoCommunication | Self::SumOfSpeeds, other) => {
                !matches!(other, Strategy::AsyncAllReduce(_)) || matches!(self, Self::SumOfSpeeds)
            }
            (Self::Asp | Self::Lin | Self::Cynthia, Strategy::ParameterServer(ps)) => {
                !matches!(ps.sync, Sync::Bsp)
            }
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
