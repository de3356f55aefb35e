//! Predicts how long a step of a distributed training job takes.

pub mod calibration;
pub mod cli;
pub mod cluster;
pub mod device;
pub mod input;
pub mod job;
pub mod model;
pub mod placement;
pub mod reproduce;
pub mod timeline;
pub mod units;
pub mod workload;
