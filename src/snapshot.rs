//! One state of the world that questions are answered from: nodes, what was
//! learnt, and answers already given. It never changes; a new state takes its
//! place.

use crate::calibration::Calibration;
use crate::cluster::{Cluster, Node, Role};
use crate::serving::Answers;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

/// A state of the world.
#[derive(Debug)]
pub struct Snapshot {
    /// All nodes.
    pub cluster: Arc<Cluster>,
    /// The same with only the accelerators that nobody holds.
    pub free: Arc<Cluster>,
    /// The nodes that hold weights and may be used.
    pub servers: Vec<u32>,
    /// The kind of each node; nodes of one kind answer alike.
    pub kinds: Vec<u32>,
    /// What was learnt.
    pub calibration: Arc<Calibration>,
    /// Answers given with this calibration.
    pub answers: Arc<Answers>,
    by_name: HashMap<Arc<str>, u32, RandomState>,
}

impl Snapshot {
    /// The index of a node.
    #[inline]
    pub fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }
}

/// Makes snapshots, and remembers kinds and names between them.
#[derive(Debug, Default)]
pub struct Snapshots {
    kinds: HashMap<u64, Vec<(Arc<Node>, u32)>>,
    names: HashMap<String, Arc<str>>,
    next_kind: u32,
    state: RandomState,
}

/// Kinds that are remembered; beyond, all are numbered anew.
const MOST_KINDS: u32 = 100_000;

impl Snapshots {
    /// A snapshot of a cluster. With `answers` of an earlier one, what was
    /// answered with the same calibration is kept.
    pub fn take(
        &mut self,
        cluster: Cluster,
        calibration: Arc<Calibration>,
        answers: Option<Arc<Answers>>,
    ) -> Snapshot {
        let mut answers = answers;
        if self.next_kind > MOST_KINDS {
            self.kinds.clear();
            self.next_kind = 0;
            answers = None;
        }
        if self.names.len() > 2 * cluster.nodes.len() + 1000 {
            self.names.clear();
        }
        let by_place = !cluster.links.is_empty();
        let mut by_name =
            HashMap::with_capacity_and_hasher(cluster.nodes.len(), RandomState::default());
        let mut kinds = Vec::with_capacity(cluster.nodes.len());
        let mut servers = Vec::new();
        for (index, node) in (0..).zip(&cluster.nodes) {
            kinds.push(self.kind(node, by_place));
            by_name.insert(self.name(&node.name), index);
            if node.role == Role::Server && node.unusable.is_none() {
                servers.push(index);
            }
        }
        Snapshot {
            free: free(&cluster).unwrap_or_else(|| Arc::new(cluster.clone())),
            cluster: Arc::new(cluster),
            servers,
            kinds,
            calibration,
            answers: answers.unwrap_or_default(),
            by_name,
        }
    }

    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        let shared: Arc<str> = name.into();
        self.names.insert(name.to_owned(), Arc::clone(&shared));
        shared
    }

    fn kind(&mut self, node: &Arc<Node>, by_place: bool) -> u32 {
        let mut hasher = self.state.build_hasher();
        node.device().map(|d| &d.name).hash(&mut hasher);
        node.workers().hash(&mut hasher);
        node.nic.get().to_bits().hash(&mut hasher);
        let bucket = self.kinds.entry(hasher.finish()).or_default();
        let known = bucket
            .iter()
            .find(|(other, _)| alike(node, other, by_place));
        if let Some((_, kind)) = known {
            return *kind;
        }
        let kind = self.next_kind;
        self.next_kind += 1;
        bucket.push((Arc::clone(node), kind));
        kind
    }
}

/// Whether two nodes answer alike.
fn alike(a: &Node, b: &Node, by_place: bool) -> bool {
    (!by_place || a.place == b.place)
        && a.role == b.role
        && a.nic == b.nic
        && a.transport == b.transport
        && a.price_per_hour == b.price_per_hour
        && a.workers() == b.workers()
        && a.device() == b.device()
}

/// The cluster with only what nobody holds; `None` where nothing is held.
fn free(cluster: &Cluster) -> Option<Arc<Cluster>> {
    if cluster.nodes.iter().all(|n| n.taken == 0) {
        return None;
    }
    let mut free = cluster.clone();
    for node in free.nodes.iter_mut().filter(|n| n.taken > 0) {
        let node = Arc::make_mut(node);
        let Some(accelerators) = &mut node.accelerators else {
            continue;
        };
        accelerators.count = accelerators.count.saturating_sub(node.taken);
        if accelerators.count == 0 && node.unusable.is_none() {
            node.unusable = Some("all of its accelerators are taken".into());
        }
    }
    Some(Arc::new(free))
}
