//! Performance models over shared inputs: a workload's layers, timed on each
//! class of worker, and the links between them.

mod answer;
pub mod baseline;
mod case;
pub mod compute;
mod describe;
pub mod liu;
mod memory;
mod name;
mod osf;
mod prediction;
pub mod ps;
pub mod queueing;
pub mod ring;
pub mod simulated;
mod span;
pub mod sprint;
pub mod zeng;

pub use answer::{
    Answered, PredictError, Query, answer_placed, predict, predict_placed, step_of, warn_of_nodes,
};
pub use case::{Case, CaseError, Class, Group, Server, Timings};
pub use compute::Timing;
pub use describe::{computing_share, interval, words};
pub use memory::Memory;
pub use name::ModelName;
pub use prediction::{
    Asynchronous, Baseline, Bottleneck, Carrier, Finish, Interval, Part, Prediction, Step,
};
pub use span::{Span, Track};
