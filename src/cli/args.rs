//! The arguments as typed.

mod judge;
mod serve;

pub(super) use judge::{
    CalibrateArgs, CheckArgs, CheckFormat, EvaluateArgs, EvaluateFormat, FoldByName,
};
pub(super) use serve::{LogFormat, ServeArgs};

use clap::{Args, Parser, Subcommand, ValueEnum, builder::PossibleValue};
use clap_complete::Shell;
use std::path::PathBuf;

use crate::model::ModelName;
use crate::plan::MinibatchRange;
use crate::plan::Objective;

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
