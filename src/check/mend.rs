//! What would mend a check that does not hold: each change alone.

use super::{Bounds, Finding, Subject};
use crate::cluster::{Cluster, Node};
use crate::job::{Batch, Job};
use crate::model::Prediction;
use crate::placement::Selection;
use crate::units::BytesPerSecond;
use std::sync::Arc;

/// Line rates that are sold, in Gb/s.
const RATES: [f64; 9] = [10.0, 25.0, 40.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0];
/// Suggestions of one check.
const MOST: usize = 3;
/// Workers that are tried.
const MOST_WORKERS: usize = 512;

/// Changes that make every bound hold, the smallest of each sort.
pub(super) fn mends(bounds: &Bounds, subject: &Subject<'_>, now: &Prediction) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(faster_nics(bounds, subject));
    all.extend(other_workers(bounds, subject, now.workers));
    all.extend(larger_batch(bounds, subject));
    all.truncate(MOST);
    all
}

/// What a changed subject comes to, if it keeps every bound.
fn kept(bounds: &Bounds, subject: &Subject<'_>) -> Option<String> {
    let prediction = subject.predict().ok()?;
    if prediction.memory.is_some_and(|m| !m.fits()) {
        return None;
    }
    let findings = bounds.findings(&prediction, subject.confidence);
    let first = findings.first()?;
    let words = first.words();
    let value = words.split(" keeps ").next()?.to_owned();
    findings.iter().all(Finding::holds).then_some(value)
}

fn faster_nics(bounds: &Bounds, subject: &Subject<'_>) -> Option<String> {
    RATES.iter().find_map(|&rate| {
        let faster = BytesPerSecond::from_gbit(rate);
        let slow = |node: &Arc<Node>| node.nic < faster;
        let changed = subject.cluster.nodes.iter().filter(|n| slow(n)).count();
        if changed == 0 {
            return None;
        }
        let mut cluster = Cluster::clone(subject.cluster);
        for node in cluster.nodes.iter_mut().filter(|n| n.nic < faster) {
            Arc::make_mut(node).nic = faster;
        }
        let value = kept(
            bounds,
            &Subject {
                cluster: &cluster,
                ..*subject
            },
        )?;
        let nodes = if changed == 1 { "node" } else { "nodes" };
        Some(format!("{rate} Gb/s on {changed} {nodes} reaches {value}"))
    })
}

fn other_workers(bounds: &Bounds, subject: &Subject<'_>, now: usize) -> Option<String> {
    let most = subject.cluster.workers().min(MOST_WORKERS);
    let more = now + 1..=most;
    let fewer = (1..now).rev();
    more.chain(fewer).find_map(|workers| {
        let selection = Selection {
            nodes: None,
            workers: Some(workers),
        };
        let value = kept(
            bounds,
            &Subject {
                selection: &selection,
                ..*subject
            },
        )?;
        Some(format!("{workers} workers instead of {now}: {value}"))
    })
}

fn larger_batch(bounds: &Bounds, subject: &Subject<'_>) -> Option<String> {
    let Batch::PerWorker(size) = subject.job.batch else {
        return None;
    };
    [2, 4, 8].into_iter().find_map(|factor| {
        let larger = size.checked_mul(factor)?;
        let job = Job {
            batch: Batch::PerWorker(larger),
            ..subject.job.clone()
        };
        let value = kept(
            bounds,
            &Subject {
                job: &job,
                ..*subject
            },
        )?;
        Some(format!("batch size {larger} instead of {size}: {value}"))
    })
}
