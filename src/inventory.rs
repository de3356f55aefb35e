//! The nodes of a live cluster: what is applied, deleted and reset becomes a
//! cluster as a file would give it.

use crate::cluster::{
    Cluster, Defaults, Labels, Links, Node, NodeObject, leave_processors_out, resolve,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Accelerators that one pod holds on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The node.
    pub node: String,
    /// How many.
    pub accelerators: u32,
}

/// Nodes and what pods hold of them.
#[derive(Debug, Default)]
pub struct Inventory {
    defaults: Defaults,
    links: Links,
    nodes: BTreeMap<String, Arc<Node>>,
    pods: HashMap<String, Holding>,
    taken: HashMap<String, u32>,
    /// Why pods cannot be read, where they cannot.
    blind: Option<String>,
    texts: HashSet<Arc<str>>,
    applied: u64,
}

/// Changes after which texts that no node uses any more are dropped.
const SWEEP: u64 = 10_000;

impl Inventory {
    /// An inventory without nodes.
    pub fn new(defaults: Defaults, links: Links) -> Self {
        Self {
            defaults,
            links,
            ..Self::default()
        }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A node is new or different. Whether that changes anything.
    pub fn apply(&mut self, object: &NodeObject) -> bool {
        let node = self.read(object);
        if self.nodes.get(&node.name).is_some_and(|n| *n == node) {
            return false;
        }
        self.nodes.insert(node.name.clone(), node);
        self.applied += 1;
        if self.applied.is_multiple_of(SWEEP) {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
        }
        true
    }

    /// A node is gone. Whether it was there.
    pub fn delete(&mut self, name: &str) -> bool {
        self.nodes.remove(name).is_some()
    }

    /// These are all nodes there are: others go.
    pub fn reset(&mut self, nodes: Vec<Arc<Node>>) {
        let named = |node: Arc<Node>| (node.name.clone(), node);
        self.nodes = nodes.into_iter().map(named).collect();
        self.texts.retain(|text| Arc::strong_count(text) > 1);
    }

    /// A pod holds accelerators, or none any more. Whether that changes
    /// anything.
    pub fn hold(&mut self, pod: &str, holding: Option<Holding>) -> bool {
        if self.pods.get(pod) == holding.as_ref() {
            return false;
        }
        if let Some(before) = self.pods.remove(pod)
            && let Some(taken) = self.taken.get_mut(&before.node)
        {
            *taken -= before.accelerators;
            if *taken == 0 {
                self.taken.remove(&before.node);
            }
        }
        if let Some(now) = holding {
            *self.taken.entry(now.node.clone()).or_default() += now.accelerators;
            self.pods.insert(pod.to_owned(), now);
        }
        true
    }

    /// These are all pods there are.
    pub fn reset_pods(&mut self, pods: HashMap<String, Holding>) {
        self.blind = None;
        self.taken.clear();
        for holding in pods.values() {
            *self.taken.entry(holding.node.clone()).or_default() += holding.accelerators;
        }
        self.pods = pods;
    }

    /// Pods cannot be read: what is allocatable counts.
    pub fn blind(&mut self, why: String) -> bool {
        self.taken.clear();
        self.pods.clear();
        let changed = self.blind.as_ref() != Some(&why);
        self.blind = Some(why);
        changed
    }

    /// All nodes, by name.
    pub fn cluster(&self) -> Cluster {
        let mut nodes: Vec<Arc<Node>> = self.nodes.values().cloned().collect();
        for node in &mut nodes {
            let there = node.accelerators.as_ref().map_or(0, |a| a.count);
            // Slices of a shared accelerator may be held more often than it
            // is there.
            let taken = self.taken.get(&node.name).copied().unwrap_or(0).min(there);
            if node.taken != taken {
                Arc::make_mut(node).taken = taken;
            }
        }
        leave_processors_out(&mut nodes);
        Cluster {
            nodes,
            links: self.links,
            warnings: self.blind.iter().cloned().collect(),
        }
    }

    /// What an object says of a node; nothing is kept of the object itself.
    pub fn read(&mut self, object: &NodeObject) -> Arc<Node> {
        let mut node = resolve(object, &self.defaults);
        let labels = std::mem::take(&mut node.labels);
        node.labels = self.share(labels);
        node.facts.shrink_to_fit();
        Arc::new(node)
    }

    /// Labels with their text shared among nodes.
    fn share(&mut self, labels: Labels) -> Labels {
        let mut one = |text: Arc<str>| {
            if let Some(known) = self.texts.get(&text) {
                return Arc::clone(known);
            }
            self.texts.insert(Arc::clone(&text));
            text
        };
        let mut labels: Labels = labels.into_iter().map(|(k, v)| (one(k), one(v))).collect();
        labels.shrink_to_fit();
        labels
    }
}
