//! From a question to an answer: places the job, asks a model, and puts its
//! step into the terms that people ask in.

use super::baseline;
use super::case::{Case, CaseError, Timings};
use super::describe::{finish, interval, words};
use super::memory::Memory;
use super::name::ModelName;
use super::osf;
use super::prediction::{Baseline, Prediction, Step};
use super::ps;
use super::queueing;
use super::ring;
use super::simulated;
use super::sprint;
use super::zeng;
use crate::calibration::Calibration;
use crate::cluster::Cluster;
use crate::job::{Batch, Job, Precision, Strategy};
use crate::placement::{Placement, PlacementError, Selection};
use crate::sim::SimError;

/// A question.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The job.
    pub job: &'a Job,
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Which of its workers.
    pub selection: &'a Selection,
    /// Which model; the strategy's own when absent.
    pub model: Option<ModelName>,
    /// Node to measure the speedup against; the fastest when absent.
    pub baseline: Option<&'a str>,
    /// What was learnt.
    pub calibration: &'a Calibration,
    /// Events that a simulation may take; the model's own limit when absent.
    pub simulation_events: Option<u64>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PredictError {
    /// It cannot be placed.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// It cannot be timed.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// No model for the strategy.
    #[error("no model of this version answers `{0}`")]
    NoModel(String),
    /// The model is for other strategies.
    #[error(
        "the model `{model}` does not answer `{strategy}`{}",
        why_not(model, strategy)
    )]
    WrongModel {
        /// The model.
        model: &'static str,
        /// The strategy.
        strategy: String,
    },
    /// The rounds of SPRINT's threads did not settle.
    #[error(transparent)]
    Sprint(#[from] sprint::Unsettled),
    /// The simulation did not end.
    #[error(transparent)]
    Simulation(#[from] SimError),
    /// One worker only.
    #[error(
        "`strategy: single` is one worker, but {0} were asked for\n  hint: give the job a strategy for several, such as parameter_server"
    )]
    SingleOnly(usize),
    /// The baseline's node does not compute.
    #[error("the baseline `{0}` is not a node of the cluster that computes")]
    UnknownBaseline(String),
}

fn why_not(model: &str, strategy: &str) -> String {
    match model {
        "zeng" | "synchronised" if strategy.starts_with("parameter_server (bsp)") => {
            "\n  hint: the paper models exactly one server; set `servers: 1`".to_owned()
        }
        _ => String::new(),
    }
}

/// Answers a question.
pub fn predict(query: &Query<'_>) -> Result<Prediction, PredictError> {
    let placement = Placement::select(query.job, query.cluster, query.selection)?;
    predict_placed(query, &placement)
}

/// Answers a question about given nodes; the selection is not looked at.
pub fn predict_placed(
    query: &Query<'_>,
    placement: &Placement,
) -> Result<Prediction, PredictError> {
    let Answered { mut prediction, .. } = answer_placed(query, placement)?;
    let mut warnings = query.cluster.warnings.clone();
    warn_of_nodes(query.cluster, placement, &mut warnings);
    warnings.append(&mut prediction.warnings);
    prediction.warnings = warnings;
    Ok(prediction)
}

/// An answer that holds for other nodes of the same kinds too.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The prediction; its warnings are those of any such nodes.
    pub prediction: Prediction,
    /// A node of each class of workers.
    pub class_nodes: Vec<usize>,
}

/// Answers, and says which classes of workers the answer speaks of.
pub fn answer_placed(query: &Query<'_>, placement: &Placement) -> Result<Answered, PredictError> {
    let job = query.job;
    if job.strategy == Strategy::Single && placement.workers() > 1 {
        return Err(PredictError::SingleOnly(placement.workers()));
    }
    let model = match query.model {
        Some(model) => model,
        None => ModelName::default_for(&job.strategy)
            .ok_or_else(|| PredictError::NoModel(job.strategy.to_string()))?,
    };
    let mut timings = Timings::default();
    let mut case = Case::new(
        job,
        query.cluster,
        query.calibration,
        placement,
        &mut timings,
    )?;
    if let Some(events) = query.simulation_events {
        case.simulation_events = events;
    }
    let step = step_of(model, &case)?;
    let asynchronous = match model {
        ModelName::Sprint => sprint::answer(&case)?.map(|answer| answer.asynchronous),
        _ => None,
    };
    let (baseline, baseline_samples) = baseline_of(query, &case, &mut timings)?;
    let samples = case.samples();
    let speedup = if let Batch::Global(_) = job.batch {
        baseline.iteration_time / step.time
    } else {
        let alone = baseline_samples / baseline.iteration_time.get();
        samples / step.time.get() / alone
    };
    let mut warnings = case_warnings(&case, placement);
    let memory = tightest_memory(&case);
    if let Some(memory) = memory.filter(|m| !m.fits()) {
        warnings.push(format!(
            "does not fit in memory: needs {}, the device has {}",
            memory.needed, memory.available
        ));
    }
    let nodes = &query.cluster.nodes;
    let prediction = Prediction {
        model,
        workers: placement.workers(),
        samples,
        bottleneck: words(
            &step,
            &|class| &nodes[case.classes[class].node],
            &|server| placement.servers.get(server).map(|&i| &*nodes[i]),
        ),
        speedup,
        baseline,
        interval: interval(&case, &step),
        calibration: query.calibration.version.clone(),
        memory,
        asynchronous,
        finish: job
            .steps
            .map(|steps| finish(steps, &step, query.cluster, placement)),
        step,
        warnings,
    };
    Ok(Answered {
        prediction,
        class_nodes: case.classes.iter().map(|c| c.node).collect(),
    })
}

/// The step by a model, or why it has none.
pub fn step_of(model: ModelName, case: &Case<'_>) -> Result<Step, PredictError> {
    let strategy = &case.job.strategy;
    let step = match model {
        _ if !model.answers(strategy) => None,
        ModelName::Compute | ModelName::NoCommunication => Some(baseline::no_communication(case)),
        ModelName::Ps => ps::Model::new(case).map(|mut m| m.step()),
        ModelName::Asp => ps::Model::new(case).map(|mut m| m.asynchronous()),
        ModelName::Simulation => simulated::step(case)?,
        ModelName::Sprint => sprint::answer(case)?.map(|answer| answer.step),
        ModelName::Ring => ring::Model::new(case).map(|m| m.step()),
        ModelName::Osf => osf::step(case, true),
        ModelName::Csf => osf::step(case, false),
        ModelName::Zeng => zeng::step(case),
        ModelName::Lin => queueing::lin(case),
        ModelName::Cynthia => queueing::cynthia(case),
        ModelName::SumOfSpeeds => Some(baseline::sum_of_speeds(case)),
        ModelName::Synchronised => baseline::synchronised(case),
        ModelName::Sum => match strategy {
            Strategy::AllReduce(_) => ring::Model::new(case).map(|m| m.in_sequence()),
            _ => baseline::sum(case),
        },
    };
    step.ok_or_else(|| PredictError::WrongModel {
        model: model.as_str(),
        strategy: strategy.to_string(),
    })
}

fn baseline_of(
    query: &Query<'_>,
    case: &Case<'_>,
    timings: &mut Timings,
) -> Result<(Baseline, f64), PredictError> {
    let Some(name) = query.baseline else {
        let class = case.fastest();
        let (samples, iteration_time) = case.alone(class, timings)?;
        let node = query.cluster.nodes[class.node].name.clone();
        return Ok((
            Baseline {
                node,
                iteration_time,
            },
            samples,
        ));
    };
    let unknown = || PredictError::UnknownBaseline(name.to_owned());
    let node = query
        .cluster
        .nodes
        .iter()
        .find(|n| n.name == name)
        .ok_or_else(unknown)?;
    let device = node
        .device()
        .filter(|_| node.workers() > 0)
        .ok_or_else(unknown)?;
    let batch = match &query.job.batch {
        Batch::PerWorker(size) => *size,
        Batch::Global(samples) => u32::try_from(*samples).unwrap_or(u32::MAX),
        Batch::Each(_) => case
            .classes
            .iter()
            .find(|c| query.cluster.nodes[c.node].name == name || c.device == *device)
            .map_or(1, |c| c.batch),
    };
    let timing = timings.of(query.job, device, batch, 1, query.calibration)?;
    let baseline = Baseline {
        node: name.to_owned(),
        iteration_time: timing.step(),
    };
    Ok((baseline, f64::from(batch)))
}

/// Adds the warnings of the nodes in use, each once.
pub fn warn_of_nodes(cluster: &Cluster, placement: &Placement, warnings: &mut Vec<String>) {
    let used = placement.nodes.iter().map(|p| p.node);
    for i in used.chain(placement.servers.iter().copied()) {
        let node = &cluster.nodes[i];
        let asked_for = node
            .unusable
            .as_ref()
            .map(|why| format!("node {} takes no work: {why}", node.name));
        for warning in node.warnings.iter().chain(&asked_for) {
            if !warnings.contains(warning) {
                warnings.push(warning.clone());
            }
        }
    }
}

fn case_warnings(case: &Case<'_>, placement: &Placement) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut borrowed: Vec<&str> = case
        .classes
        .iter()
        .filter(|c| c.timing.borrowed)
        .map(|c| &*c.device.name)
        .collect();
    borrowed.sort_unstable();
    borrowed.dedup();
    if !borrowed.is_empty() {
        warnings.push(format!(
            "no measurements of {}: compute is scaled by its peaks from devices that were measured",
            borrowed.join(", ")
        ));
    }
    if let Some(profile) = &case.job.workload.profile
        && case.classes.iter().any(|c| c.batch != profile.batch)
    {
        warnings.push(format!(
            "the profile is of batch {}; its times are scaled with the batch",
            profile.batch
        ));
    }
    if case.job.workload.profile.is_some() {
        warnings
            .push("the profile's times are taken for every worker, whatever computes there".into());
    }
    if case.job.precision != Precision::Fp32
        && case
            .classes
            .iter()
            .any(|c| c.device.peak(case.job.precision) <= c.device.peaks.fp32)
    {
        warnings.push(format!(
            "{} brings no faster arithmetic on some of the devices; they compute at their fp32 rate",
            case.job.precision
        ));
    }
    if let Strategy::ParameterServer(ps) = &case.job.strategy {
        let there = placement.servers.len();
        if there < ps.servers as usize {
            warnings.push(format!(
                "{} servers wanted, but there are nodes for {there}: one server a node",
                ps.servers
            ));
        }
    }
    warnings
}

fn tightest_memory(case: &Case<'_>) -> Option<Memory> {
    case.classes
        .iter()
        .filter_map(|c| {
            Memory::of(
                &case.job.workload,
                &c.device,
                c.batch,
                case.job.precision,
                &case.job.strategy,
            )
        })
        .reduce(|a, b| if b.headroom() < a.headroom() { b } else { a })
}
