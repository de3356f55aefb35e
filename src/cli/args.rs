//! The arguments as typed.

use clap::{Args, Parser, Subcommand, ValueEnum, builder::PossibleValue};
use clap_complete::Shell;
use std::path::PathBuf;

use crate::model::ModelName;
use crate::plan::MinibatchRange;
use crate::plan::Objective;
use crate::runs::FoldBy;

/// How long will a step of this training job take on those nodes, and how
/// much faster is that than one worker?
#[derive(Debug, Parser)]
#[command(name = "stepcast", version, max_term_width = 100)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,

    /// How much to log to stderr: error, warn, info, debug, trace.
    #[arg(long, global = true, value_name = "LEVEL", default_value = "warn")]
    pub(super) log_level: tracing::Level,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Step time, throughput and speedup of a job on a set of nodes.
    Predict(PredictArgs),
    /// The same for 1 to N workers, with the knee marked.
    Curve(CurveArgs),
    /// How many workers and which nodes.
    Recommend(RecommendArgs),
    /// The settings that make a job fastest, with the gain of each.
    Tune(TuneArgs),
    /// Step after step as discrete events: queues, jitter, stragglers, failures.
    Simulate(SimulateArgs),
    /// Every model that can answer, side by side.
    Compare(CompareArgs),
    /// Whether jobs keep what a policy asks of them: exit 0 holds, 1 falls short.
    Check(Box<CheckArgs>),
    /// Fit parameters on measured runs.
    Calibrate(CalibrateArgs),
    /// Error of every model on measured runs.
    Evaluate(Box<EvaluateArgs>),
    /// The papers' tables, recomputed beside the printed values.
    Reproduce(ReproduceArgs),
    /// The networks that jobs can name.
    Workloads(ListArgs),
    /// The accelerators and processors that clusters can name.
    Devices(ListArgs),
    /// What the nodes of a cluster were read as, fact by fact.
    Nodes(NodesArgs),
    /// The sidecar: gRPC for schedulers, metrics for Prometheus.
    Serve(Box<ServeArgs>),
    /// Completions for a shell, on stdout.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// The manual page, on stdout.
    Man,
}

/// What is asked about: a job on a cluster.
#[derive(Debug, Args)]
pub(super) struct Question {
    /// The job (YAML or JSON; - for stdin).
    #[arg(short, long, value_name = "FILE", required_unless_present = "example")]
    pub(super) job: Option<PathBuf>,

    /// The cluster: the short form, or what `kubectl get nodes -o yaml` prints.
    #[arg(short, long, value_name = "FILE", required_unless_present = "example")]
    pub(super) cluster: Option<PathBuf>,

    /// Only these nodes, in this order.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) nodes: Option<Vec<String>>,

    /// How many workers, taken in file order; all of them by default. `curve`
    /// and `recommend` choose the order: there it is the most.
    #[arg(short = 'n', long, value_name = "N")]
    pub(super) workers: Option<usize>,

    /// Node to measure the speedup against; the fastest by default.
    #[arg(long, value_name = "NODE")]
    pub(super) baseline: Option<String>,

    /// Calibrated parameters; the shipped ones by default.
    #[arg(long, value_name = "FILE")]
    pub(super) calibration: Option<PathBuf>,

    /// Line rate of NICs that nothing describes.
    #[arg(long, value_name = "GBPS", default_value = "10Gbps")]
    pub(super) default_nic: String,

    /// Ask about the built-in job and cluster.
    #[arg(long, conflicts_with_all = ["job", "cluster"])]
    pub(super) example: bool,
}

#[derive(Debug, Args)]
pub(super) struct PredictArgs {
    #[command(flatten)]
    pub(super) question: Question,

    /// The model to ask; the strategy's own by default.
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<ModelName>,

    /// Write the predicted step as a Chrome/Perfetto trace.
    #[arg(long, value_name = "FILE")]
    pub(super) timeline: Option<PathBuf>,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: Format,
}

#[derive(Debug, Args)]
pub(super) struct CurveArgs {
    #[command(flatten)]
    pub(super) question: Question,

    /// The model to ask; the strategy's own by default.
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<ModelName>,

    /// Up to how many workers; all of them by default.
    #[arg(long, value_name = "N")]
    pub(super) max_workers: Option<usize>,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: CurveFormat,
}

#[derive(Debug, Args)]
pub(super) struct RecommendArgs {
    #[command(flatten)]
    pub(super) question: Question,

    /// The model to ask; the strategy's own by default.
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<ModelName>,

    /// What is best.
    #[arg(long, value_name = "WHAT", default_value = "speed")]
    pub(super) objective: ObjectiveName,

    /// Reach this speedup with the fewest nodes.
    #[arg(long, value_name = "X")]
    pub(super) target_speedup: Option<f64>,

    /// Share of one worker's own throughput that a further one must add.
    #[arg(long, value_name = "SHARE")]
    pub(super) min_marginal_gain: Option<f64>,

    /// For `async_all_reduce`: the fastest nodes and sub-batch whose updates
    /// stand for so many samples on average, such as 138±25% or 100..170.
    #[arg(long, value_name = "RANGE", conflicts_with_all = ["objective", "target_speedup", "min_marginal_gain", "model"])]
    pub(super) minibatch: Option<MinibatchRange>,

    /// At most this many workers.
    #[arg(long, value_name = "N")]
    pub(super) max_workers: Option<usize>,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: Format,
}

#[derive(Debug, Args)]
pub(super) struct TuneArgs {
    #[command(flatten)]
    pub(super) question: Question,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: Format,
}

#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    #[command(flatten)]
    pub(super) question: Question,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: Format,
}

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// A policy: many checks (YAML or JSON); its paths are relative to it and
    /// may hold * in the last part.
    #[arg(value_name = "POLICY", conflicts_with_all = ["job", "cluster"])]
    pub(super) policy: Option<PathBuf>,

    /// The job, instead of a policy.
    #[arg(short, long, value_name = "FILE")]
    pub(super) job: Option<PathBuf>,

    /// The cluster: the short form, or what `kubectl get nodes -o yaml` prints.
    #[arg(short, long, value_name = "FILE", conflicts_with = "server")]
    pub(super) cluster: Option<PathBuf>,

    /// Take the cluster, and what was learnt, live from a sidecar.
    #[arg(long, value_name = "ADDR")]
    pub(super) server: Option<String>,

    /// Only these nodes, in this order.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "job")]
    pub(super) nodes: Option<Vec<String>>,

    /// How many workers, taken in file order; all by default.
    #[arg(short = 'n', long, value_name = "N", requires = "job")]
    pub(super) workers: Option<usize>,

    /// The least speedup.
    #[arg(long, value_name = "X", requires = "job")]
    pub(super) min_speedup: Option<f64>,

    /// The least speedup for each worker.
    #[arg(long, value_name = "SHARE", requires = "job")]
    pub(super) min_scaling_factor: Option<f64>,

    /// The longest step, such as 300ms.
    #[arg(long, value_name = "TIME", requires = "job")]
    pub(super) max_step_time: Option<String>,

    /// The fewest samples a second.
    #[arg(long, value_name = "N", requires = "job")]
    pub(super) min_throughput: Option<f64>,

    /// Hold with this certainty, such as 0.9, by the prediction's interval.
    #[arg(long, value_name = "P")]
    pub(super) confidence: Option<f64>,

    /// Calibrated parameters; the shipped ones, or the sidecar's, by default.
    #[arg(long, value_name = "FILE")]
    pub(super) calibration: Option<PathBuf>,

    /// Line rate of NICs that nothing describes.
    #[arg(long, value_name = "GBPS", default_value = "10Gbps")]
    pub(super) default_nic: String,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: CheckFormat,
}

/// How to print checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum CheckFormat {
    /// For eyes.
    Table,
    /// One JSON document.
    Json,
    /// For CI systems that show tests.
    Junit,
    /// Annotations of a GitHub workflow.
    Github,
}

#[derive(Debug, Args)]
pub(super) struct CalibrateArgs {
    /// Measured runs, one JSON object a line (- for stdin); may be repeated.
    /// Where runs are marked with a split, only those to calibrate on count.
    #[arg(long, value_name = "RUNS", required = true)]
    pub(super) runs: Vec<PathBuf>,

    /// Where to write the calibration.
    #[arg(long, value_name = "CALIBRATION")]
    pub(super) out: PathBuf,

    /// What it is called; the time by default.
    #[arg(long, value_name = "NAME")]
    pub(super) version_name: Option<String>,

    /// What the parameters are drawn towards; the shipped calibration by
    /// default, `priors` for what was believed before any measurement.
    #[arg(long, value_name = "FILE")]
    pub(super) from: Option<PathBuf>,

    /// Only runs of groups whose name matches this (a regular expression).
    #[arg(long, value_name = "PATTERN")]
    pub(super) group: Option<String>,

    /// How to print what was determined.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: Format,
}

#[derive(Debug, Args)]
pub(super) struct EvaluateArgs {
    /// Measured runs, one JSON object a line (- for stdin); may be repeated.
    #[arg(long, value_name = "RUNS", required_unless_present = "suite")]
    pub(super) runs: Vec<PathBuf>,

    /// Fit on these runs first; a split in the others is not looked at.
    #[arg(long, value_name = "RUNS", conflicts_with = "folds")]
    pub(super) calibrate: Vec<PathBuf>,

    /// Part the runs into so many folds, each predicted by a fit on all
    /// others; more than there are parts leaves one out at a time.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(2..))]
    pub(super) folds: Option<u32>,

    /// What stays together in a fold.
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "placement",
        requires = "folds"
    )]
    pub(super) fold_by: FoldByName,

    /// Take each run's measured compute times, to judge communication alone.
    #[arg(long)]
    pub(super) compute_given: bool,

    /// Only runs of groups whose name matches this (a regular expression).
    #[arg(long, value_name = "PATTERN")]
    pub(super) group: Option<String>,

    /// The calibration that answers, or that fits are drawn towards; the
    /// shipped one by default.
    #[arg(long, value_name = "FILE")]
    pub(super) calibration: Option<PathBuf>,

    /// Write predicted against measured as a picture.
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,

    /// Run the evaluations that this file lists and write them as one page
    /// with its pictures: docs/accuracy.md is made so.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["runs", "calibrate", "folds", "compute_given", "group", "svg"], requires = "page")]
    pub(super) suite: Option<PathBuf>,

    /// The page that a suite writes (Markdown).
    #[arg(long, value_name = "FILE", requires = "suite")]
    pub(super) page: Option<PathBuf>,

    /// Write nothing: fail where the page is out of date.
    #[arg(long, requires = "suite")]
    pub(super) check: bool,

    /// Also print every run.
    #[arg(long)]
    pub(super) each: bool,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: EvaluateFormat,
}

/// What stays together in a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FoldByName {
    /// Runs of a group.
    Group,
    /// Runs on a cluster, whatever its nodes are called.
    Cluster,
    /// Runs of a network.
    Workload,
    /// Runs with so many workers on each node, in any order.
    Placement,
}

impl From<FoldByName> for FoldBy {
    fn from(name: FoldByName) -> Self {
        match name {
            FoldByName::Group => Self::Group,
            FoldByName::Cluster => Self::Cluster,
            FoldByName::Workload => Self::Workload,
            FoldByName::Placement => Self::Placement,
        }
    }
}

/// How to print an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum EvaluateFormat {
    /// For eyes.
    Table,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// Comma-separated, with a header.
    Csv,
    /// A picture, as text.
    Svg,
}

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct ReproduceArgs {
    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: Format,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only names that contain this.
    #[arg(value_name = "TEXT")]
    pub(super) filter: Option<String>,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: Format,
}

#[derive(Debug, Args)]
pub(super) struct NodesArgs {
    /// The cluster (YAML or JSON; - for stdin).
    #[arg(short, long, value_name = "FILE", required_unless_present = "example")]
    pub(super) cluster: Option<PathBuf>,

    /// Line rate of NICs that nothing describes.
    #[arg(long, value_name = "GBPS", default_value = "10Gbps")]
    pub(super) default_nic: String,

    /// Read the built-in cluster.
    #[arg(long, conflicts_with = "cluster")]
    pub(super) example: bool,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: Format,
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For eyes.
    Table,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// Comma-separated, with a header.
    Csv,
}

/// How to print a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum CurveFormat {
    /// For eyes.
    Table,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// Comma-separated, with a header.
    Csv,
    /// A picture, as text.
    Svg,
    /// A picture.
    Png,
}

/// What is best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ObjectiveName {
    /// The most samples a second.
    Speed,
    /// As many workers as are each worth their marginal gain.
    Efficiency,
    /// The least money a sample.
    Cost,
}

impl From<ObjectiveName> for Objective {
    fn from(name: ObjectiveName) -> Self {
        match name {
            ObjectiveName::Speed => Self::Speed,
            ObjectiveName::Efficiency => Self::Efficiency,
            ObjectiveName::Cost => Self::Cost,
        }
    }
}

impl ValueEnum for ModelName {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.as_str()).help(self.about()))
    }
}

#[derive(Debug, Args)]
pub(super) struct SimulateArgs {
    #[command(flatten)]
    pub(super) question: Question,

    /// Steps of each worker.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(super) steps: u32,

    /// Steps of each worker that are dropped at the beginning.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(super) warm_up: u32,

    /// Stop early when the interval is this narrow, as a share of the
    /// throughput; 0 never does.
    #[arg(long, value_name = "SHARE", default_value_t = 0.005)]
    pub(super) tolerance: f64,

    /// Give up after this many events.
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000)]
    pub(super) max_events: u64,

    /// Give up after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub(super) deadline: f64,

    /// The same seed gives the same numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,

    /// Coefficient of variation of a step's compute time.
    #[arg(long, value_name = "CV", default_value_t = 0.05)]
    pub(super) jitter: f64,

    /// Coefficient of variation of a worker's share of links from step to
    /// step: TCP is fair on average only.
    #[arg(long, value_name = "CV", default_value_t = 0.1)]
    pub(super) unfairness: f64,

    /// Order in which weights are pulled.
    #[arg(long, value_name = "ORDER", default_value = "forward")]
    pub(super) order: OrderName,

    /// HTTP/2's flow-control window in MiB (`TensorFlow` over gRPC: about 28);
    /// without it transfers go whole.
    #[arg(long, value_name = "MIB")]
    pub(super) window_mib: Option<f64>,

    /// Apply each tensor when it is there, on this many cores of a server;
    /// by default a worker's whole push at a time, under one lock.
    #[arg(long, value_name = "CORES")]
    pub(super) update_cores: Option<u32>,

    /// A worker (counted from 0) that computes so many times longer: 3=2.5.
    #[arg(long, value_name = "WORKER=FACTOR")]
    pub(super) straggler: Vec<String>,

    /// A worker that fails after so many seconds, and comes back after more:
    /// 3@60 or 3@60+30.
    #[arg(long, value_name = "WORKER@SECONDS[+BACK]")]
    pub(super) fail: Vec<String>,

    /// Microseconds that every message costs the worker that receives it,
    /// beside what its bytes cost.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0.0)]
    pub(super) message_us: f64,

    /// Also for 1 to N workers, with the saturation point, on all cores;
    /// without stragglers and failures.
    #[arg(long, value_name = "N")]
    pub(super) sweep: Option<u32>,

    /// Write the synthetic trace of the first steps (Chrome, Perfetto).
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: Format,
}

/// Order of the pulls.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum OrderName {
    /// As the forward pass needs them (TIC).
    #[value(alias = "tic")]
    Forward,
    /// The other way round.
    Reverse,
    /// Anew each step.
    Random,
}

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Where gRPC listens.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7443")]
    pub(super) listen: std::net::SocketAddr,

    /// Also listen on this Unix socket; its owner may change things.
    #[arg(long, value_name = "PATH")]
    pub(super) uds: Option<PathBuf>,

    /// Where /metrics, /healthz and /readyz listen.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9464")]
    pub(super) metrics: std::net::SocketAddr,

    /// Where the HTTP extender of kube-scheduler listens (/filter,
    /// /prioritize); nowhere by default.
    #[arg(long, value_name = "ADDR")]
    pub(super) extender: Option<std::net::SocketAddr>,

    /// The cluster: the short form, or what `kubectl get nodes -o yaml`
    /// prints. Without it and --kube, the built-in example is served.
    #[arg(short, long, value_name = "FILE", conflicts_with = "kube")]
    pub(super) cluster: Option<PathBuf>,

    /// Watch the nodes of a Kubernetes cluster: the pod's own, or that of
    /// KUBECONFIG.
    #[arg(long)]
    pub(super) kube: bool,

    /// What was learnt; the shipped calibration by default.
    #[arg(long, value_name = "FILE")]
    pub(super) calibration: Option<PathBuf>,

    /// Where reported steps and calibrations are kept; without it they are
    /// lost with the process.
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: Option<PathBuf>,

    /// Where to fetch step times of jobs that do not report them: Prometheus
    /// queries and log lines (YAML; see docs/observations.md).
    #[arg(long, value_name = "FILE")]
    pub(super) observe: Option<PathBuf>,

    /// Jobs that reported and are shown in the metrics; the oldest silent one
    /// gives way.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = within::<1, 100_000>)]
    pub(super) max_jobs: usize,

    /// Do not fit on reported steps unless asked to (Calibration/Recalibrate).
    #[arg(long)]
    pub(super) no_recalibrate: bool,

    /// What to assume of NICs that nobody describes.
    #[arg(long, value_name = "GBPS", default_value = "10")]
    pub(super) default_nic: String,

    /// What a node gets of the links between zones.
    #[arg(long, value_name = "GBPS")]
    pub(super) between_zones: Option<String>,

    /// What a node gets of the links between racks.
    #[arg(long, value_name = "GBPS")]
    pub(super) between_racks: Option<String>,

    /// Certificate chain (PEM); read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(super) tls_cert: Option<PathBuf>,

    /// Its key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,

    /// Only clients with a certificate of these authorities (PEM) are served.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_client_ca: Option<PathBuf>,

    /// Client certificates of this name (common name, DNS or URI) may report
    /// steps and change the calibration.
    #[arg(long, value_name = "NAME", requires = "tls_client_ca")]
    pub(super) allow_name: Vec<String>,

    /// Bearer tokens that may do the same, one a line; read at every use.
    #[arg(long, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,

    /// Reading needs an allowed identity too.
    #[arg(long)]
    pub(super) protect_reading: bool,

    /// Largest message in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = within::<1, 1024>)]
    pub(super) max_message_mib: usize,

    /// Most nodes of one set.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(super) max_nodes: usize,

    /// Most sets of one batch.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(super) max_sets: usize,

    /// Most layers of a network.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(super) max_layers: usize,

    /// Most events of a simulation.
    #[arg(long, value_name = "N", default_value_t = 5_000_000)]
    pub(super) max_simulation_events: u64,

    /// Most calls at a time; more are refused at once.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = within::<1, 1_000_000>)]
    pub(super) max_concurrent_calls: usize,

    /// Most plans and simulations at a time.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = within::<1, 1024>)]
    pub(super) max_concurrent_plans: usize,

    /// Most workers of a curve.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub(super) max_curve_workers: usize,

    /// Longest time of a call that is no stream.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) max_call_seconds: u64,

    /// How long calls may take to end after SIGTERM.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub(super) drain_seconds: u64,

    /// Log lines as text or JSON.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(super) log_format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
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
