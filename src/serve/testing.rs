//! The sidecar's service without a process around it, for tests and benches.

use super::access::Access;
use super::config::Limits;
use super::handlers::Handlers;
use super::listen::{self, Io, Peer, Server};
use super::metrics::Metrics;
use super::reports::Reports;
use super::run::service;
use super::state::{State, Versions};
use super::store::Store;
use crate::calibration::Calibration;
use crate::cluster::{Cluster, Defaults, Links};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::DuplexStream;
use tokio::net::TcpListener;

/// Limits as the command line has them by default.
const LIMITS: Limits = Limits {
    message_bytes: 16 << 20,
    nodes: 10_000,
    sets: 100_000,
    layers: 100_000,
    simulation_events: 5_000_000,
    concurrent_calls: 1024,
    concurrent_plans: 4,
    curve_workers: 4096,
    longest_call: Duration::from_mins(1),
};

/// Jobs whose numbers are shown.
const JOBS: usize = 200;

/// A sidecar over a cluster that does not change by itself.
pub struct Sidecar {
    state: Arc<State>,
    reports: Arc<Reports>,
}

impl Sidecar {
    /// A sidecar with the shipped calibration.
    ///
    /// # Panics
    /// Where metrics cannot be registered.
    pub fn new(cluster: Cluster) -> Self {
        let metrics = Metrics::new().expect("metrics");
        let calibration = Calibration::shipped().clone();
        let assumed = (Defaults::default(), Links::default());
        let (store, kept) = Store::open(None, metrics.store_bytes.clone()).expect("memory");
        let reports = Reports::new(JOBS, assumed, store, &kept, &calibration, &metrics);
        Self {
            state: State::new(
                cluster,
                calibration,
                Versions::default(),
                true,
                assumed,
                LIMITS,
                metrics,
            ),
            reports: Arc::new(reports),
        }
    }

    fn handlers(&self) -> Handlers {
        Handlers {
            state: Arc::clone(&self.state),
            access: Arc::new(Self::access()),
            reports: Arc::clone(&self.reports),
        }
    }

    /// Puts another cluster in place.
    pub fn publish(&self, cluster: Cluster) {
        self.state.publish_cluster(cluster);
    }

    /// The metrics page.
    pub fn metrics(&self) -> String {
        prometheus::TextEncoder::new()
            .encode_to_string(&self.state.metrics.registry.gather())
            .unwrap_or_default()
    }

    fn access() -> Access {
        Access {
            uid: None,
            ..Access::default()
        }
    }

    /// Serves one connection in memory: the caller's end of it.
    pub fn in_memory(&self) -> DuplexStream {
        let (service, _) = service(self.handlers()).expect("a service");
        let server = Server::new(service, listen::Limits::default());
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        tokio::spawn(server.connection(Io::Memory(ours), Peer::Memory));
        theirs
    }

    /// Serves on a free TCP port of this machine.
    pub async fn on_tcp(&self) -> std::io::Result<SocketAddr> {
        let (service, _) = service(self.handlers()).expect("a service");
        let server = Server::new(
            service,
            listen::Limits {
                max_message: LIMITS.message_bytes,
                ..listen::Limits::default()
            },
        );
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        tokio::spawn(server.tcp(listener, None));
        Ok(address)
    }
}
