//! What each node would make of a gang.

use crate::calibration::Calibration;
use crate::cluster::Cluster;
use crate::job::Job;
use crate::model::{PredictError, Query, predict_placed};
use crate::placement::{Placement, Selection};

/// Where one more member of a gang may go.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    /// The job.
    pub job: &'a Job,
    /// All nodes.
    pub cluster: &'a Cluster,
    /// The kind of each; nodes of a kind are alike.
    pub kinds: &'a [u32],
    /// Nodes that hold weights.
    pub servers: &'a [u32],
    /// What was learnt.
    pub calibration: &'a Calibration,
    /// Where the gang is already, and with how many workers.
    pub siblings: &'a [(u32, u32)],
    /// Nodes that have room for the member.
    pub nodes: &'a [u32],
    /// Workers of a member.
    pub workers: u32,
    /// Members that come after this one.
    pub to_come: u32,
}

/// What placing a member somewhere leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placing {
    /// Samples a second of the whole gang.
    pub throughput: f64,
    /// Speedup of the whole gang.
    pub speedup: f64,
}

/// Nodes on which a member makes the same difference.
struct Alike {
    kind: u32,
    /// Workers of the gang that are there already.
    siblings: u32,
    nodes: Vec<u32>,
}

/// What the gang comes to with its next member on each of the nodes: members
/// that come after it go to more of the same kind while there is room, then
/// to what is best of the others.
pub fn throughputs(ask: &Candidates<'_>) -> Result<Vec<Placing>, PredictError> {
    let there = |node: u32| {
        let found = ask.siblings.iter().find(|(n, _)| *n == node);
        found.map_or(0, |(_, workers)| *workers)
    };
    let mut alike: Vec<Alike> = Vec::new();
    for &node in ask.nodes {
        let (kind, siblings) = (ask.kinds[node as usize], there(node));
        match alike
            .iter_mut()
            .find(|a| a.kind == kind && a.siblings == siblings)
        {
            Some(group) => group.nodes.push(node),
            None => alike.push(Alike {
                kind,
                siblings,
                nodes: vec![node],
            }),
        }
    }
    // Best first, by what a gang on one kind alone comes to.
    let mut order: Vec<usize> = (0..alike.len()).collect();
    let alone: Vec<f64> = alike
        .iter()
        .map(|group| {
            let placed = ask.fill(&[], &[group], ask.to_come + 1);
            ask.ask(&placed).map_or(0.0, |p| p.throughput)
        })
        .collect();
    order.sort_by(|a, b| alone[*b].total_cmp(&alone[*a]));
    let mut of_group = Vec::with_capacity(alike.len());
    for (index, group) in alike.iter().enumerate() {
        let mut groups = vec![group];
        groups.extend(order.iter().filter(|o| **o != index).map(|o| &alike[*o]));
        let placed = ask.fill(ask.siblings, &groups, ask.to_come + 1);
        of_group.push(ask.ask(&placed)?);
    }
    let group_of = |node: u32| alike.iter().position(|a| a.nodes.contains(&node));
    let placings = ask
        .nodes
        .iter()
        .map(|&node| of_group[group_of(node).unwrap_or(0)]);
    Ok(placings.collect())
}

impl Candidates<'_> {
    /// Members that a node has room for.
    fn room(&self, node: u32) -> u32 {
        let node = &self.cluster.nodes[node as usize];
        match &node.accelerators {
            Some(a) => (a.count.saturating_sub(node.taken) / self.workers.max(1)).max(1),
            None => 1,
        }
    }

    /// The gang with so many more members, put on groups in their order.
    fn fill(&self, siblings: &[(u32, u32)], groups: &[&Alike], members: u32) -> Vec<(u32, u32)> {
        let mut placed = siblings.to_vec();
        let mut left = members;
        for &node in groups.iter().flat_map(|g| &g.nodes) {
            if left == 0 {
                break;
            }
            let here = left.min(self.room(node));
            left -= here;
            match placed.iter_mut().find(|(n, _)| *n == node) {
                Some((_, workers)) => *workers += here * self.workers,
                None => placed.push((node, here * self.workers)),
            }
        }
        placed
    }

    /// What a gang comes to.
    fn ask(&self, placed: &[(u32, u32)]) -> Result<Placing, PredictError> {
        let nodes: Vec<u32> = placed.iter().map(|(node, _)| *node).collect();
        let mut placement =
            Placement::of_nodes(self.job, self.cluster, &nodes, self.servers, None)?;
        for place in &mut placement.nodes {
            let wanted = placed.iter().find(|(n, _)| *n as usize == place.node);
            if let Some((_, workers)) = wanted {
                let most = self.cluster.nodes[place.node].workers();
                place.workers = (*workers).clamp(1, most.max(1));
            }
        }
        let prediction = predict_placed(
            &Query {
                job: self.job,
                cluster: self.cluster,
                selection: &Selection::default(),
                model: None,
                baseline: None,
                calibration: self.calibration,
                simulation_events: None,
            },
            &placement,
        )?;
        Ok(Placing {
            throughput: prediction.throughput(),
            speedup: prediction.speedup,
        })
    }
}
