//! Which settings make a job fastest on given nodes.

use super::Ask;
use super::pool::PlanError;
use crate::job::{Algorithm, AllReduce, Batch, Fusion, Job, ParameterServer, Strategy};
use crate::model::{Case, Memory, PredictError, Prediction, Query, Timings, predict, ring};
use crate::placement::{Placement, Selection};
use crate::units::{Bytes, Seconds};
use crate::workload::without_wide_layers;
use std::sync::Arc;

/// Buffers that are tried, in MiB.
const BUFFERS: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0, 400.0, 1000.0];

/// Horovod's cycle while tuning its buffer.
const CYCLE: Seconds = Seconds::from_millis(1.0);

/// Servers that are tried.
const SERVERS: [u32; 5] = [1, 2, 4, 8, 16];

/// One setting and what it brings.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    /// What is changed.
    pub what: String,
    /// What to type.
    pub setting: String,
    /// The step with it.
    pub step_time: Seconds,
    /// Throughput with it over without, minus 1.
    pub gain: f64,
    /// Scaling factor with it.
    pub scaling_factor: f64,
    /// Buckets as numbers of tensors in ready order, where it is a plan.
    pub buckets: Option<Vec<u32>>,
}

/// Tries settings on the selected nodes; the job as it is comes with the
/// answer, suggestions best first.
pub fn tune(
    ask: Ask<'_>,
    selection: &Selection,
) -> Result<(Prediction, Vec<Suggestion>), PlanError> {
    let now = predict(&query(&ask, ask.job, selection))?;
    let mut trials = vec![];
    trials.extend(fusions(ask.job));
    trials.extend(shapes(ask.job));
    trials.extend(other_strategies(ask.job));
    trials.extend(batches(ask.job));
    trials.extend(layers(ask.job));
    let mut suggestions: Vec<Suggestion> = Vec::new();
    for trial in trials {
        if let Some(suggestion) = weigh(&ask, selection, &now, trial)? {
            let same = suggestions.iter_mut().find(|s| s.what == suggestion.what);
            match same {
                Some(other) if other.gain >= suggestion.gain => {}
                Some(other) => *other = suggestion,
                None => suggestions.push(suggestion),
            }
        }
    }
    suggestions.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    Ok((now, suggestions))
}

/// A changed job; of trials that change the same, the best is kept.
struct Trial {
    what: String,
    setting: String,
    job: Job,
}

fn query<'a>(ask: &Ask<'a>, job: &'a Job, selection: &'a Selection) -> Query<'a> {
    Query {
        job,
        cluster: ask.cluster,
        selection,
        model: None,
        baseline: ask.baseline,
        calibration: ask.calibration,
        simulation_events: None,
    }
}

/// What a trial brings; `None` where it cannot run or does not fit.
fn weigh(
    ask: &Ask<'_>,
    selection: &Selection,
    now: &Prediction,
    trial: Trial,
) -> Result<Option<Suggestion>, PlanError> {
    let answer = match predict(&query(ask, &trial.job, selection)) {
        Ok(answer) => answer,
        Err(PredictError::Placement(_) | PredictError::WrongModel { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let fits = answer.memory.as_ref().is_none_or(Memory::fits);
    let fewer_servers = matches!(trial.job.strategy, Strategy::ParameterServer(ps)
        if answer.warnings.iter().any(|w| w.starts_with(&format!("{} servers wanted", ps.servers))));
    if !fits || fewer_servers {
        return Ok(None);
    }
    Ok(Some(Suggestion {
        gain: answer.throughput() / now.throughput() - 1.0,
        step_time: answer.step.time,
        scaling_factor: answer.scaling_factor(),
        buckets: buckets(ask, selection, &trial.job)?,
        what: trial.what,
        setting: trial.setting,
    }))
}

/// The messages of an all-reduce job as numbers of tensors.
fn buckets(ask: &Ask<'_>, selection: &Selection, job: &Job) -> Result<Option<Vec<u32>>, PlanError> {
    if !matches!(job.strategy, Strategy::AllReduce(_)) {
        return Ok(None);
    }
    let placement = Placement::select(job, ask.cluster, selection)?;
    let case = Case::new(
        job,
        ask.cluster,
        ask.calibration,
        &placement,
        &mut Timings::default(),
    )?;
    Ok(ring::Model::new(&case).map(|m| m.messages().iter().map(|m| m.tensors).collect()))
}

fn with_all_reduce(job: &Job, change: impl Fn(&mut AllReduce)) -> Option<Job> {
    let Strategy::AllReduce(mut strategy) = job.strategy else {
        return None;
    };
    change(&mut strategy);
    Some(Job {
        strategy: Strategy::AllReduce(strategy),
        ..job.clone()
    })
}

fn fusions(job: &Job) -> Vec<Trial> {
    let mut trials = Vec::new();
    // Fusion without overlap saves start-ups only; trials overlap, and say so
    // where the job does not.
    let overlaps = matches!(job.strategy, Strategy::AllReduce(s) if s.overlap);
    let mut add = |what: &str, setting: String, fusion: Fusion| {
        let setting = if overlaps {
            setting
        } else {
            format!("{setting}, overlap: true")
        };
        let changed = with_all_reduce(job, |s| {
            s.overlap = true;
            s.fusion = fusion;
        });
        trials.extend(changed.map(|job| Trial {
            what: what.to_owned(),
            setting: setting.clone(),
            job,
        }));
    };
    for mib in BUFFERS {
        let buffer = Bytes::from_mib(mib);
        add(
            "bucket size (PyTorch DDP)",
            format!("bucket_cap_mb={mib}"),
            Fusion::Buffer {
                buffer,
                timeout: None,
            },
        );
        add(
            "fusion buffer (Horovod)",
            format!(
                "HOROVOD_FUSION_THRESHOLD={:.0} HOROVOD_CYCLE_TIME=1",
                buffer.get()
            ),
            Fusion::Buffer {
                buffer,
                timeout: Some(CYCLE),
            },
        );
    }
    add("no fusion", "fusion: none".into(), Fusion::None);
    add(
        "adaFusion plan",
        "fusion: adaptive".into(),
        Fusion::Adaptive,
    );
    add("MG-WFBP plan", "fusion: mg_wfbp".into(), Fusion::MgWfbp);
    add(
        "parts with priority (ByteScheduler)",
        "fusion: {partition_mib: 4, priority: true}".into(),
        Fusion::Partition {
            part: Bytes::from_mib(4.0),
            priority: true,
        },
    );
    trials
}

fn shapes(job: &Job) -> Vec<Trial> {
    let shape = |(algorithm, name): (Algorithm, &str)| {
        let changed = with_all_reduce(job, |s| s.algorithm = algorithm);
        changed.map(|job| Trial {
            what: format!("{name} all-reduce"),
            setting: format!("algorithm: {name}"),
            job,
        })
    };
    [
        (Algorithm::Ring, "ring"),
        (Algorithm::Tree, "tree"),
        (Algorithm::Hierarchical, "hierarchical"),
    ]
    .into_iter()
    .filter_map(shape)
    .collect()
}

/// Parameter servers of several counts, and all-reduce where servers are used.
fn other_strategies(job: &Job) -> Vec<Trial> {
    let current = match job.strategy {
        Strategy::ParameterServer(ps) => ps,
        _ => ParameterServer::default(),
    };
    let uses_servers = matches!(job.strategy, Strategy::ParameterServer(_));
    let what = if uses_servers {
        "number of servers"
    } else {
        "parameter servers instead"
    };
    let mut trials: Vec<Trial> = SERVERS
        .into_iter()
        .map(|servers| Trial {
            what: what.to_owned(),
            setting: format!(
                "parameter_server: {{servers: {servers}, overlap: {}}}",
                current.overlap
            ),
            job: Job {
                strategy: Strategy::ParameterServer(ParameterServer { servers, ..current }),
                ..job.clone()
            },
        })
        .collect();
    if uses_servers {
        trials.push(Trial {
            what: "all-reduce instead".into(),
            setting: "all_reduce: {algorithm: auto, overlap: true, fusion: {buffer_mib: 25}}"
                .into(),
            job: Job {
                strategy: Strategy::AllReduce(AllReduce::default()),
                ..job.clone()
            },
        });
    }
    trials
}

/// Larger batches: more samples for the same messages.
fn batches(job: &Job) -> Vec<Trial> {
    let Batch::PerWorker(size) = job.batch else {
        return Vec::new();
    };
    let smaller = [size / 4, size / 2].into_iter().filter(|s| *s > 0);
    let larger = [2, 4, 8]
        .into_iter()
        .filter_map(|factor: u32| size.checked_mul(factor));
    smaller
        .chain(larger)
        .map(|size| Trial {
            what: "batch size (changes training)".into(),
            setting: format!("batch_size: {size}"),
            job: Job {
                batch: Batch::PerWorker(size),
                ..job.clone()
            },
        })
        .collect()
}

/// Liu 2022, Table 3: fully connected layers to 1×1 convolutions and pooling.
fn layers(job: &Job) -> Vec<Trial> {
    let replaced = without_wide_layers(&job.workload);
    replaced
        .map(|workload| Trial {
            what: "replace fully connected layers (changes the network)".into(),
            setting: "1×1 convolutions and global average pooling (Liu 2022, Table 3)".into(),
            job: Job {
                workload: Arc::new(workload),
                ..job.clone()
            },
        })
        .into_iter()
        .collect()
}
