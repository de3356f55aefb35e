//! What the sidecar is told.

use super::access::Access;
use super::pull;
use super::tls::TlsFiles;
use crate::calibration::Calibration;
use crate::cluster::{Cluster, Defaults, Links};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Where nodes come from.
pub(crate) enum Source {
    /// A file, or the built-in example.
    Cluster(Box<Cluster>),
    /// The API server of the kubeconfig or of the pod.
    Kubernetes,
}

/// What one call may ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of a message.
    pub(crate) message_bytes: usize,
    /// Nodes of one set.
    pub(crate) nodes: usize,
    /// Sets of one batch.
    pub(crate) sets: usize,
    /// Layers of a network.
    pub(crate) layers: usize,
    /// Events of a simulation.
    pub(crate) simulation_events: u64,
    /// Calls at a time.
    pub(crate) concurrent_calls: usize,
    /// Plans and simulations at a time.
    pub(crate) concurrent_plans: usize,
    /// Workers of a curve.
    pub(crate) curve_workers: usize,
    /// Time of any call.
    pub(crate) longest_call: Duration,
}

/// Everything.
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) uds: Option<PathBuf>,
    pub(crate) metrics: SocketAddr,
    /// Where the scheduler's extender listens, if anywhere.
    pub(crate) extender: Option<SocketAddr>,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) source: Source,
    pub(crate) calibration: Calibration,
    /// What to assume of nodes that do not say, and of the links between them.
    pub(crate) assumed: (Defaults, Links),
    pub(crate) limits: Limits,
    pub(crate) access: Access,
    /// Where observations and calibrations are kept; in memory without.
    pub(crate) data: Option<PathBuf>,
    /// Where step times are fetched from.
    pub(crate) pull: Vec<pull::Source>,
    /// Jobs whose numbers are shown.
    pub(crate) jobs: usize,
    /// Whether to fit on observations without being asked.
    pub(crate) recalibrate: bool,
    pub(crate) drain: Duration,
}
