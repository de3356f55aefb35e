//! What runs have in common, so that folds keep it together.

use super::Run;
use crate::cluster::{Node, Role};

/// What a fold leaves out whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldBy {
    /// Runs of a group.
    Group,
    /// Runs on a cluster, whatever its nodes are called.
    Cluster,
    /// Runs of a network.
    Workload,
    /// Runs with so many workers on each node, in any order.
    Placement,
}

impl FoldBy {
    /// What runs that stay together have in common.
    pub fn key(self, run: &Run) -> String {
        match self {
            Self::Group => run.group.clone(),
            Self::Workload => run.job.workload.name.clone(),
            Self::Cluster => {
                let mut nodes: Vec<String> = run.cluster.nodes.iter().map(|n| kind(n)).collect();
                nodes.sort_unstable();
                nodes.join("; ")
            }
            Self::Placement => {
                let mut workers: Vec<u32> = run
                    .cluster
                    .nodes
                    .iter()
                    .filter(|n| n.role != Role::Server)
                    .map(|n| n.workers())
                    .collect();
                workers.sort_unstable_by(|a, b| b.cmp(a));
                let counts: Vec<String> = workers.iter().map(u32::to_string).collect();
                counts.join("+")
            }
        }
    }

    /// The fold of each run: keys are dealt out, the most frequent first,
    /// each to the fold that has the fewest runs so far.
    pub fn folds(self, runs: &[Run], folds: usize) -> Vec<usize> {
        let keys: Vec<String> = runs.iter().map(|run| self.key(run)).collect();
        let mut distinct: Vec<(&String, usize)> = Vec::new();
        for key in &keys {
            match distinct.iter_mut().find(|(k, _)| *k == key) {
                Some((_, count)) => *count += 1,
                None => distinct.push((key, 1)),
            }
        }
        distinct.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let mut sizes = vec![0_usize; folds.clamp(1, distinct.len().max(1))];
        let mut fold_of: Vec<(&String, usize)> = Vec::with_capacity(distinct.len());
        for (key, count) in distinct {
            let fold = (0..sizes.len()).min_by_key(|&f| sizes[f]).unwrap_or(0);
            sizes[fold] += count;
            fold_of.push((key, fold));
        }
        keys.iter()
            .map(|key| fold_of.iter().find(|(k, _)| *k == key).map_or(0, |f| f.1))
            .collect()
    }
}

/// A node without its name.
fn kind(node: &Node) -> String {
    let device = node.device().map_or("", |d| &*d.name);
    format!(
        "{:?} {}×{device} {} {:?}",
        node.role,
        node.workers(),
        node.nic,
        node.transport
    )
}
