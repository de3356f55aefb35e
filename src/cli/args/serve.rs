//! Arguments of the sidecar.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(in crate::cli) struct ServeArgs {
    /// Where gRPC listens.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7443")]
    pub(in crate::cli) listen: std::net::SocketAddr,

    /// Also listen on this Unix socket; its owner may change things.
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) uds: Option<PathBuf>,

    /// Where /metrics, /healthz and /readyz listen.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9464")]
    pub(in crate::cli) metrics: std::net::SocketAddr,

    /// Where the HTTP extender of kube-scheduler listens (/filter,
    /// /prioritize); nowhere by default.
    #[arg(long, value_name = "ADDR")]
    pub(in crate::cli) extender: Option<std::net::SocketAddr>,

    /// The cluster: the short form, or what `kubectl get nodes -o yaml`
    /// prints. Without it and --kube, the built-in example is served.
    #[arg(short, long, value_name = "FILE", conflicts_with = "kube")]
    pub(in crate::cli) cluster: Option<PathBuf>,

    /// Watch the nodes of a Kubernetes cluster: the pod's own, or that of
    /// KUBECONFIG.
    #[arg(long)]
    pub(in crate::cli) kube: bool,

    /// What was learnt; the shipped calibration by default.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) calibration: Option<PathBuf>,

    /// Where reported steps and calibrations are kept; without it they are
    /// lost with the process.
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) data_dir: Option<PathBuf>,

    /// Where to fetch step times of jobs that do not report them: Prometheus
    /// queries and log lines (YAML; see docs/observations.md).
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) observe: Option<PathBuf>,

    /// Jobs that reported and are shown in the metrics; the oldest silent one
    /// gives way.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = within::<1, 100_000>)]
    pub(in crate::cli) max_jobs: usize,

    /// Do not fit on reported steps unless asked to (Calibration/Recalibrate).
    #[arg(long)]
    pub(in crate::cli) no_recalibrate: bool,

    /// What to assume of NICs that nobody describes.
    #[arg(long, value_name = "GBPS", default_value = "10")]
    pub(in crate::cli) default_nic: String,

    /// What a node gets of the links between zones.
    #[arg(long, value_name = "GBPS")]
    pub(in crate::cli) between_zones: Option<String>,

    /// What a node gets of the links between racks.
    #[arg(long, value_name = "GBPS")]
    pub(in crate::cli) between_racks: Option<String>,

    /// Certificate chain (PEM); read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(in crate::cli) tls_cert: Option<PathBuf>,

    /// Its key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(in crate::cli) tls_key: Option<PathBuf>,

    /// Only clients with a certificate of these authorities (PEM) are served.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(in crate::cli) tls_client_ca: Option<PathBuf>,

    /// Client certificates of this name (common name, DNS or URI) may report
    /// steps and change the calibration.
    #[arg(long, value_name = "NAME", requires = "tls_client_ca")]
    pub(in crate::cli) allow_name: Vec<String>,

    /// Bearer tokens that may do the same, one a line; read at every use.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) token_file: Option<PathBuf>,

    /// Reading needs an allowed identity too.
    #[arg(long)]
    pub(in crate::cli) protect_reading: bool,

    /// Largest message in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = within::<1, 1024>)]
    pub(in crate::cli) max_message_mib: usize,

    /// Most nodes of one set.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(in crate::cli) max_nodes: usize,

    /// Most sets of one batch.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(in crate::cli) max_sets: usize,

    /// Most layers of a network.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(in crate::cli) max_layers: usize,

    /// Most events of a simulation.
    #[arg(long, value_name = "N", default_value_t = 5_000_000)]
    pub(in crate::cli) max_simulation_events: u64,

    /// Most calls at a time; more are refused at once.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = within::<1, 1_000_000>)]
    pub(in crate::cli) max_concurrent_calls: usize,

    /// Most plans and simulations at a time.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = within::<1, 1024>)]
    pub(in crate::cli) max_concurrent_plans: usize,

    /// Most workers of a curve.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub(in crate::cli) max_curve_workers: usize,

    /// Longest time of a call that is no stream.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(in crate::cli) max_call_seconds: u64,

    /// How long calls may take to end after SIGTERM.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub(in crate::cli) drain_seconds: u64,

    /// Log lines as text or JSON.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(in crate::cli) log_format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum LogFormat {
    /// For eyes.
    Text,
    /// For machines.
    Json,
}

/// A whole number between two bounds.
fn within<const LEAST: usize, const MOST: usize>(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|n| (LEAST..=MOST).contains(n))
        .ok_or_else(|| format!("expected a number from {LEAST} to {MOST}"))
}
