//! The sidecar: gRPC over a snapshot of the nodes, and the numbers about it.

mod access;
mod admin;
mod ask;
mod config;
mod convert;
mod extender;
mod handlers;
mod layers;
mod limited;
mod listen;
mod metrics;
mod pull;
mod recalibrate;
mod reply;
mod reports;
mod run;
mod state;
mod status;
mod store;
mod tls;

pub(crate) use access::Access;
pub(crate) use config::{Config, Limits, Source};
pub(crate) use convert::nodes_tree;
pub(crate) use pull::{PullFile, Source as PullSource};
pub(crate) use run::run;
pub(crate) use state::State;
pub(crate) use tls::TlsFiles;

/// What benches and tests need of the inside.
pub mod testing;
