//! Which parameters runs can say something about.

use crate::calibration::{Section, WorkloadKey};
use crate::device::DeviceKind;
use crate::job::Strategy;
use crate::model::ring;
use crate::runs::Run;
use std::collections::BTreeSet;

/// Shares by kind of layer are learnt from at least so many networks; fewer
/// only show what is particular to the device and to themselves.
const NETWORKS: usize = 5;

/// The sections that the predictions of some runs depend on, in order.
pub(super) fn sections(runs: &[&Run]) -> Vec<Section> {
    let mut sections = BTreeSet::new();
    for (section, kind) in [
        (Section::Accelerator, DeviceKind::Accelerator),
        (Section::Cpu, DeviceKind::Cpu),
    ] {
        let networks: BTreeSet<&str> = runs
            .iter()
            .filter(|run| run.job.workload.has_flops && run.job.workload.profile.is_none())
            .filter(|run| devices(run).any(|(_, k)| k == kind))
            .map(|run| run.job.workload.name.as_str())
            .collect();
        if networks.len() >= NETWORKS {
            sections.insert(section);
        }
    }
    for run in runs {
        sections.extend(of_run(run));
    }
    sections.into_iter().collect()
}

/// Names and kinds of the devices that compute in a run.
fn devices(run: &Run) -> impl Iterator<Item = (&str, DeviceKind)> {
    run.cluster
        .nodes
        .iter()
        .filter(|n| n.workers() > 0)
        .filter_map(|n| n.device())
        .map(|d| (&*d.name, d.kind))
}

/// The sections of one run, but for the shares by kind of layer.
pub(super) fn of_run(run: &Run) -> Vec<Section> {
    let mut sections = Vec::new();
    if run.job.workload.profile.is_none() {
        for (device, _) in devices(run) {
            let section = Section::Device(device.to_owned());
            if !sections.contains(&section) {
                sections.push(section);
                sections.push(Section::Workload(key(run, device)));
            }
        }
    }
    match run.job.strategy {
        Strategy::ParameterServer(_) => sections.push(Section::Transfer),
        Strategy::AllReduce(_) if run.cluster.workers() > 1 => {
            sections.push(ring::section(&run.cluster));
        }
        _ => {}
    }
    sections
}

fn key(run: &Run, device: &str) -> WorkloadKey {
    WorkloadKey {
        workload: run.job.workload.name.clone(),
        parameters: run.job.workload.parameters(),
        device: device.to_owned(),
        precision: run.job.precision,
    }
}

/// Whether a workload's layers say what they compute.
pub(super) fn says_what_it_computes(key: &WorkloadKey, runs: &[&Run]) -> bool {
    runs.iter()
        .filter(|run| run.job.workload.name == key.workload)
        .all(|run| run.job.workload.has_flops)
}
