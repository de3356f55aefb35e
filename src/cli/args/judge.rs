//! Arguments of the commands that hold predictions against something.

use super::Format;
use crate::runs::FoldBy;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(in crate::cli) struct CheckArgs {
    /// A policy: many checks (YAML or JSON); its paths are relative to it and
    /// may hold * in the last part.
    #[arg(value_name = "POLICY", conflicts_with_all = ["job", "cluster"])]
    pub(in crate::cli) policy: Option<PathBuf>,

    /// The job, instead of a policy.
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) job: Option<PathBuf>,

    /// The cluster: the short form, or what `kubectl get nodes -o yaml` prints.
    #[arg(short, long, value_name = "FILE", conflicts_with = "server")]
    pub(in crate::cli) cluster: Option<PathBuf>,

    /// Take the cluster, and what was learnt, live from a sidecar.
    #[arg(long, value_name = "ADDR")]
    pub(in crate::cli) server: Option<String>,

    /// Only these nodes, in this order.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "job")]
    pub(in crate::cli) nodes: Option<Vec<String>>,

    /// How many workers, taken in file order; all by default.
    #[arg(short = 'n', long, value_name = "N", requires = "job")]
    pub(in crate::cli) workers: Option<usize>,

    /// The least speedup.
    #[arg(long, value_name = "X", requires = "job")]
    pub(in crate::cli) min_speedup: Option<f64>,

    /// The least speedup for each worker.
    #[arg(long, value_name = "SHARE", requires = "job")]
    pub(in crate::cli) min_scaling_factor: Option<f64>,

    /// The longest step, such as 300ms.
    #[arg(long, value_name = "TIME", requires = "job")]
    pub(in crate::cli) max_step_time: Option<String>,

    /// The fewest samples a second.
    #[arg(long, value_name = "N", requires = "job")]
    pub(in crate::cli) min_throughput: Option<f64>,

    /// Hold with this certainty, such as 0.9, by the prediction's interval.
    #[arg(long, value_name = "P")]
    pub(in crate::cli) confidence: Option<f64>,

    /// Calibrated parameters; the shipped ones, or the sidecar's, by default.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) calibration: Option<PathBuf>,

    /// Line rate of NICs that nothing describes.
    #[arg(long, value_name = "GBPS", default_value = "10Gbps")]
    pub(in crate::cli) default_nic: String,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) output: CheckFormat,
}

/// How to print checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum CheckFormat {
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
pub(in crate::cli) struct CalibrateArgs {
    /// Measured runs, one JSON object a line (- for stdin); may be repeated.
    /// Where runs are marked with a split, only those to calibrate on count.
    #[arg(long, value_name = "RUNS", required = true)]
    pub(in crate::cli) runs: Vec<PathBuf>,

    /// Where to write the calibration.
    #[arg(long, value_name = "CALIBRATION")]
    pub(in crate::cli) out: PathBuf,

    /// What it is called; the time by default.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) version_name: Option<String>,

    /// What the parameters are drawn towards; the shipped calibration by
    /// default, `priors` for what was believed before any measurement.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) from: Option<PathBuf>,

    /// Only runs of groups whose name matches this (a regular expression).
    #[arg(long, value_name = "PATTERN")]
    pub(in crate::cli) group: Option<String>,

    /// How to print what was determined.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) output: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct EvaluateArgs {
    /// Measured runs, one JSON object a line (- for stdin); may be repeated.
    #[arg(long, value_name = "RUNS", required_unless_present = "suite")]
    pub(in crate::cli) runs: Vec<PathBuf>,

    /// Fit on these runs first; a split in the others is not looked at.
    #[arg(long, value_name = "RUNS", conflicts_with = "folds")]
    pub(in crate::cli) calibrate: Vec<PathBuf>,

    /// Part the runs into so many folds, each predicted by a fit on all
    /// others; more than there are parts leaves one out at a time.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(2..))]
    pub(in crate::cli) folds: Option<u32>,

    /// What stays together in a fold.
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "placement",
        requires = "folds"
    )]
    pub(in crate::cli) fold_by: FoldByName,

    /// Take each run's measured compute times, to judge communication alone.
    #[arg(long)]
    pub(in crate::cli) compute_given: bool,

    /// Only runs of groups whose name matches this (a regular expression).
    #[arg(long, value_name = "PATTERN")]
    pub(in crate::cli) group: Option<String>,

    /// The calibration that answers, or that fits are drawn towards; the
    /// shipped one by default.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) calibration: Option<PathBuf>,

    /// Write predicted against measured as a picture.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) svg: Option<PathBuf>,

    /// Run the evaluations that this file lists and write them as one page
    /// with its pictures: docs/accuracy.md is made so.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["runs", "calibrate", "folds", "compute_given", "group", "svg"], requires = "page")]
    pub(in crate::cli) suite: Option<PathBuf>,

    /// The page that a suite writes (Markdown).
    #[arg(long, value_name = "FILE", requires = "suite")]
    pub(in crate::cli) page: Option<PathBuf>,

    /// Write nothing: fail where the page is out of date.
    #[arg(long, requires = "suite")]
    pub(in crate::cli) check: bool,

    /// Also print every run.
    #[arg(long)]
    pub(in crate::cli) each: bool,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) output: EvaluateFormat,
}

/// What stays together in a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum FoldByName {
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
pub(in crate::cli) enum EvaluateFormat {
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
