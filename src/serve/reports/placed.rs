//! A job where it was seen: what was measured there, as a run to learn from.

use crate::calibration::Calibration;
use crate::cluster::{Cluster, Node};
use crate::job::Job;
use crate::learn::Row;
use crate::model::ModelName;
use crate::observed::{Observed, Window, median};
use crate::placement::Placement;
use crate::runs::{NOISE, Run};
use std::sync::Arc;

/// An observation of one window is trusted as little as if it were so many
/// times noisier, squared; of many, nearly in full.
const WINDOWS_TO_TRUST: f64 = 4.0;

/// A job on its nodes, with what was seen of it there.
#[derive(Clone)]
pub(super) struct Placed {
    pub(super) id: String,
    pub(super) job: Arc<Job>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) observed: Observed,
}

impl Placed {
    /// What was measured, as a run; `None` without a window.
    pub(super) fn run(&self, windows: &[Window]) -> Option<Run> {
        let medians: Vec<f64> = windows.iter().map(|w| w.median).collect();
        let step_time_s = median(&medians)?;
        let trust = 1.0 + WINDOWS_TO_TRUST / Observed::evidence(windows);
        Some(Run {
            id: self.id.clone(),
            group: accelerator(&self.cluster),
            split: None,
            job: Job::clone(&self.job),
            cluster: Cluster::clone(&self.cluster),
            step_time_s,
            noise: NOISE * trust.sqrt(),
            given: None,
            exposed_sync_s: None,
        })
    }
}

/// What a calibration predicts for a job where it was seen.
pub(super) fn predict(placed: &Placed, calibration: &Calibration) -> Option<f64> {
    let any = Window {
        median: 1.0,
        steps: 1,
        at: 0,
    };
    let run = placed.run(&[any])?;
    let row = Row::new(&run, calibration).ok()?;
    Some(row.predict(calibration)).filter(|t| t.is_finite())
}

/// The type of device that computes.
pub(super) fn accelerator(cluster: &Cluster) -> String {
    let first = cluster.nodes.iter().find(|n| n.workers() > 0);
    let device = first.and_then(|n| n.device());
    device.map(|d| d.name.to_string()).unwrap_or_default()
}

pub(super) fn model(job: &Job) -> &'static str {
    ModelName::default_for(&job.strategy).map_or("", ModelName::as_str)
}

/// The nodes of a placement, with the workers that take part and nothing
/// else.
pub(super) fn placed_cluster(cluster: &Cluster, placement: &Placement) -> Cluster {
    let worker = |p: &crate::placement::Placed| {
        let mut node = Node::clone(&cluster.nodes[p.node]);
        if let Some(accelerators) = &mut node.accelerators {
            accelerators.count = p.workers;
        }
        (node.taken, node.unusable) = (0, None);
        Arc::new(node)
    };
    let apart = |i: &&usize| placement.nodes.iter().all(|p| p.node != **i);
    let servers = placement.servers.iter().filter(apart);
    Cluster {
        nodes: placement
            .nodes
            .iter()
            .map(worker)
            .chain(servers.map(|&i| Arc::clone(&cluster.nodes[i])))
            .collect(),
        links: cluster.links,
        ..Cluster::default()
    }
}
