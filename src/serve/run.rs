//! Puts the parts together, and takes them apart on a signal.

use super::admin;
use super::config::{Config, Limits, Source};
use super::extender;
use super::handlers::Handlers;
use super::layers::calls::{Calls, CallsLayer};
use super::layers::deadline::DeadlineLayer;
use super::layers::panics::CatchPanicLayer;
use super::layers::request_id::RequestIdLayer;
use super::layers::shed::ShedLayer;
use super::listen::{self, Server};
use super::metrics::Metrics;
use super::pull;
use super::recalibrate;
use super::reports::{Reports, VERSIONS};
use super::state::{State, Versions};
use super::store::Store;
use super::tls::Tls;
use crate::calibration::Calibration;
use crate::cluster::Cluster;
use crate::kubernetes;
use crate::protocol::FILE_DESCRIPTOR_SET;
use crate::protocol::v1::calibration_server::CalibrationServer;
use crate::protocol::v1::inventory_server::InventoryServer;
use crate::protocol::v1::observations_server::ObservationsServer;
use crate::protocol::v1::predictor_server::PredictorServer;
use http::{Request, Response};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tonic::service::Routes;
use tonic_health::server::HealthReporter;
use tower_layer::Layer;
use tower_service::Service;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Every method, for the metrics.
const PATHS: [&str; 15] = [
    "/stepcast.v1.Predictor/Predict",
    "/stepcast.v1.Predictor/PredictBatch",
    "/stepcast.v1.Predictor/PredictStream",
    "/stepcast.v1.Predictor/Curve",
    "/stepcast.v1.Predictor/Recommend",
    "/stepcast.v1.Predictor/Tune",
    "/stepcast.v1.Observations/ReportSteps",
    "/stepcast.v1.Observations/ListJobs",
    "/stepcast.v1.Inventory/ListNodes",
    "/stepcast.v1.Inventory/WatchNodes",
    "/stepcast.v1.Calibration/Get",
    "/stepcast.v1.Calibration/Recalibrate",
    "/stepcast.v1.Calibration/Import",
    "/stepcast.v1.Calibration/Rollback",
    "/grpc.health.v1.Health/Check",
];

/// How soon a caller that was shed may try again.
const RETRY: Duration = Duration::from_millis(50);
/// How often certificates are looked at.
const RELOAD: Duration = Duration::from_secs(10);

/// All services behind all layers.
#[allow(clippy::type_complexity, reason = "it has no name to say it with")]
pub(crate) fn service(
    handlers: Handlers,
) -> Result<
    (
        impl Service<
            Request<tonic::body::Body>,
            Response = Response<
                impl http_body::Body<Data = bytes::Bytes, Error: Into<Failure>>
                + Send
                + Default
                + 'static,
            >,
            Error = Infallible,
            Future: Send + 'static,
        > + Clone
        + Send
        + Sync
        + 'static,
        HealthReporter,
    ),
    Failure,
> {
    let limits = handlers.state.limits;
    let calls = Calls::new(&handlers.state.metrics.registry, &PATHS)?;
    let (routes, health) = routes(handlers, &limits)?;
    let stack = CallsLayer(calls).layer(
        RequestIdLayer::default().layer(
            DeadlineLayer {
                longest: Some(limits.longest_call),
            }
            .layer(
                ShedLayer {
                    permits: Arc::new(Semaphore::new(limits.concurrent_calls)),
                    retry: RETRY,
                }
                .layer(CatchPanicLayer.layer(routes)),
            ),
        ),
    );
    Ok((stack, health))
}

fn routes(handlers: Handlers, limits: &Limits) -> Result<(Routes, HealthReporter), Failure> {
    let (reporter, health) = tonic_health::server::health_reporter();
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    // The limit of tonic's own decoder is put out of the way: ours answers
    // first, and better.
    let most = limits.message_bytes.saturating_mul(2);
    let mut routes = Routes::builder();
    routes
        .add_service(
            PredictorServer::new(handlers.clone())
                .max_decoding_message_size(most)
                .max_encoding_message_size(usize::MAX),
        )
        .add_service(InventoryServer::new(handlers.clone()).max_encoding_message_size(usize::MAX))
        .add_service(ObservationsServer::new(handlers.clone()).max_decoding_message_size(most))
        .add_service(CalibrationServer::new(handlers).max_decoding_message_size(most))
        .add_service(health)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    Ok((routes.routes().prepare(), reporter))
}

/// Serves until a signal, then drains.
pub(crate) async fn run(config: Config, announce: impl FnOnce(&Started)) -> Result<(), Failure> {
    let Config {
        listen,
        uds,
        metrics,
        extender: extended,
        tls,
        source,
        calibration,
        assumed,
        limits,
        access,
        data,
        pull: sources,
        jobs,
        recalibrate: by_itself,
        drain,
    } = config;
    let (cluster, watched) = match source {
        Source::Cluster(cluster) => (*cluster, None),
        Source::Kubernetes => (Cluster::default(), Some(assumed)),
    };
    let synced = watched.is_none();
    let numbers = Metrics::new()?;
    let (store, kept) = Store::open(data.as_deref(), numbers.store_bytes.clone())?;
    let learnt = kept.calibrations.iter().filter_map(|text| {
        let read: Result<Calibration, String> = crate::input::parse(text);
        read.inspect_err(|error| tracing::warn!(error, "a kept calibration cannot be read"))
            .ok()
    });
    let versions = kept.marks.get(VERSIONS);
    let mut versions: Versions = versions
        .and_then(|text| serde_yaml::from_str(text).ok())
        .unwrap_or_default();
    versions.calibrations = learnt.collect();
    let state = State::new(
        cluster,
        calibration,
        versions,
        synced,
        assumed,
        limits,
        numbers,
    );
    let calibration = Arc::clone(&state.snapshot().calibration);
    let reports = Arc::new(Reports::new(
        jobs,
        assumed,
        store,
        &kept,
        &calibration,
        &state.metrics,
    ));
    if by_itself {
        tokio::spawn(recalibrate::watch(Arc::clone(&state), Arc::clone(&reports)));
    }
    let handlers = Handlers {
        state: Arc::clone(&state),
        access: Arc::new(access),
        reports,
    };
    for source in sources {
        let marks = kept.marks.clone();
        tokio::spawn(pull::run(source, Arc::new(handlers.clone()), marks));
    }
    let (service, health) = service(handlers)?;
    let server = Server::new(
        service,
        listen::Limits {
            max_message: limits.message_bytes,
            ..listen::Limits::default()
        },
    );
    let tcp = TcpListener::bind(listen)
        .await
        .map_err(|error| format!("--listen {listen}: {error}"))?;
    let admin = TcpListener::bind(metrics)
        .await
        .map_err(|error| format!("--metrics {metrics}: {error}"))?;
    let started = Started {
        grpc: tcp.local_addr()?,
        metrics: admin.local_addr()?,
        uds: uds.clone(),
        tls: tls.is_some(),
    };
    let tls = tls
        .map(Tls::load)
        .transpose()
        .map_err(|error| format!("TLS: {error}"))?;
    let tls = tls.map(|(tls, reloader)| {
        tokio::spawn(reloader.run(RELOAD));
        tls
    });
    tokio::spawn(Arc::clone(&server).tcp(tcp, tls));
    if let Some(path) = &uds {
        let listener = bind_socket(path)?;
        tokio::spawn(Arc::clone(&server).unix(listener));
    }
    if let Some(address) = extended {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| format!("--extender {address}: {error}"))?;
        let pages = extender::pages(Arc::clone(&state));
        tracing::info!(address = %listener.local_addr()?, "extending the scheduler");
        tokio::spawn(async move { axum::serve(listener, pages).await });
    }
    let pages = admin::pages(Arc::clone(&state));
    tokio::spawn(async move { axum::serve(admin, pages).await });
    if let Some((defaults, links)) = watched {
        kubernetes::watch(Arc::clone(&state), defaults, links).await?;
    }
    report_health(&health, &state).await;
    announce(&started);
    stopped().await?;
    tracing::info!(seconds = drain.as_secs(), "draining");
    state.draining.send_replace(true);
    for service in SERVICES {
        health
            .set_service_status(service, tonic_health::ServingStatus::NotServing)
            .await;
    }
    tokio::select! {
        clean = server.drain(drain) => if !clean {
            tracing::warn!("some calls were cut when the time to drain was up");
        },
        // Who asks twice does not want to wait.
        again = stopped() => again?,
    }
    if let Some(path) = uds {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Where it listens.
pub(crate) struct Started {
    pub(crate) grpc: std::net::SocketAddr,
    pub(crate) metrics: std::net::SocketAddr,
    pub(crate) uds: Option<std::path::PathBuf>,
    pub(crate) tls: bool,
}

/// What health is asked about.
const SERVICES: [&str; 5] = [
    "",
    "stepcast.v1.Predictor",
    "stepcast.v1.Inventory",
    "stepcast.v1.Observations",
    "stepcast.v1.Calibration",
];

/// Health follows the inventory: serving once it is read in full.
async fn report_health(health: &HealthReporter, state: &Arc<State>) {
    let set = |serving: bool| {
        let health = health.clone();
        async move {
            let status = if serving {
                tonic_health::ServingStatus::Serving
            } else {
                tonic_health::ServingStatus::NotServing
            };
            for service in SERVICES {
                health.set_service_status(service, status).await;
            }
        }
    };
    set(state.is_synced()).await;
    if !state.is_synced() {
        let (state, health) = (Arc::clone(state), health.clone());
        let mut published = state.published.subscribe();
        tokio::spawn(async move {
            while !state.is_synced() && published.changed().await.is_ok() {}
            for service in SERVICES {
                health
                    .set_service_status(service, tonic_health::ServingStatus::Serving)
                    .await;
            }
        });
    }
}

/// A socket that a dead server left behind is taken over; a living one's is
/// not.
fn bind_socket(path: &std::path::Path) -> Result<UnixListener, Failure> {
    let wrong = |error: std::io::Error| format!("--uds {}: {error}", path.display());
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => {
            let text = format!("--uds {}: another server listens there", path.display());
            return Err(text.into());
        }
        // Nobody listens: a dead server's socket goes, anything else stays.
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            use std::os::unix::fs::FileTypeExt;
            let found = std::fs::symlink_metadata(path).map_err(wrong)?;
            if found.file_type().is_socket() {
                std::fs::remove_file(path).map_err(wrong)?;
            }
        }
        Err(_) => {}
    }
    Ok(UnixListener::bind(path).map_err(wrong)?)
}

async fn stopped() -> Result<(), Failure> {
    let (mut term, mut int) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(())
}
