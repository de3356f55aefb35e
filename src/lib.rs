//! How long will a step of a training job take on a set of nodes, and how
//! much faster is that than one worker?
//!
//! Data flows one way, and the modules stand in its order:
//!
//! request → [`job`] → [`workload`] + [`cluster`] (of [`device`]s) →
//! [`placement`] → [`model`] (with a [`calibration`]) → prediction →
//! [`plan`], [`timeline`], answer.
//!
//! Everything down to [`reproduce`] is pure: no runtime, no files, no clock.
//! The edges come after it. `ARCHITECTURE.md` has the map.

pub mod units;

pub mod input;

pub mod measured;

pub mod job;

pub mod workload;

pub mod device;

pub mod cluster;

pub mod placement;

pub mod calibration;

pub mod sim;

pub mod model;

pub mod observed;

pub mod runs;

pub mod learn;

pub mod evaluate;

pub mod plan;

pub mod gang;

pub mod check;

pub mod timeline;

pub mod plot;

pub mod reproduce;

mod causes;

pub mod snapshot;

pub mod serving;

pub mod inventory;

pub mod protocol;

mod paths;

pub mod serve;

mod kubernetes;

pub mod cli;
