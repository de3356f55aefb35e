//! Pods that train one job together: what a pod says of its job, where its
//! siblings are, and what each node would make of the gang.

mod member;
mod score;

pub use member::{ACCELERATORS, Member};
pub use score::{Candidates, Placing, throughputs};

use std::collections::HashMap;

/// How long an answer counts as a placement that was not heard of yet, in
/// seconds.
const ASSUMED: u64 = 30;
/// Gangs that are remembered.
const MOST: usize = 10_000;

/// Where members of gangs are.
#[derive(Clone, Debug, Default)]
pub struct Gangs {
    /// Members by gang, then by pod.
    members: HashMap<String, HashMap<String, Place>>,
    /// The gang of each pod.
    of_pod: HashMap<String, String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Place {
    node: String,
    workers: u32,
    /// Until when it is only assumed; for good where it is bound.
    until: Option<u64>,
}

impl Gangs {
    /// A pod of a gang is bound to a node.
    pub fn bind(&mut self, gang: &str, pod: &str, node: &str, workers: u32) {
        self.put(gang, pod, node, workers, None);
    }

    /// A pod of a gang will probably go to a node; a binding is heard of
    /// later.
    pub fn assume(&mut self, gang: &str, pod: &str, node: &str, workers: u32, now: u64) {
        let members = self.members.get(gang);
        let bound = members
            .and_then(|m| m.get(pod))
            .is_some_and(|p| p.until.is_none());
        if !bound {
            self.put(gang, pod, node, workers, Some(now + ASSUMED));
        }
    }

    fn put(&mut self, gang: &str, pod: &str, node: &str, workers: u32, until: Option<u64>) {
        if self.of_pod.get(pod).is_some_and(|g| g != gang) {
            self.remove(pod);
        }
        if self.members.len() >= MOST && !self.members.contains_key(gang) {
            self.forget_assumed();
        }
        let place = Place {
            node: node.to_owned(),
            workers,
            until,
        };
        let members = self.members.entry(gang.to_owned()).or_default();
        members.insert(pod.to_owned(), place);
        self.of_pod.insert(pod.to_owned(), gang.to_owned());
    }

    /// A pod is gone, or over.
    pub fn remove(&mut self, pod: &str) {
        let Some(gang) = self.of_pod.remove(pod) else {
            return;
        };
        if let Some(members) = self.members.get_mut(&gang) {
            members.remove(pod);
            if members.is_empty() {
                self.members.remove(&gang);
            }
        }
    }

    /// Only these pods are bound.
    pub fn reset(&mut self, bound: impl Iterator<Item = (String, String, String, u32)>) {
        self.forget_bound();
        for (gang, pod, node, workers) in bound {
            self.bind(&gang, &pod, &node, workers);
        }
    }

    fn forget_bound(&mut self) {
        self.keep(|place| place.until.is_some());
    }

    fn forget_assumed(&mut self) {
        self.keep(|place| place.until.is_none());
    }

    fn keep(&mut self, keep: impl Fn(&Place) -> bool) {
        for members in self.members.values_mut() {
            members.retain(|_, place| keep(place));
        }
        self.members.retain(|_, members| !members.is_empty());
        let members = &self.members;
        self.of_pod
            .retain(|pod, gang| members.get(gang).is_some_and(|m| m.contains_key(pod)));
    }

    /// Nodes and workers of a gang's other members.
    pub fn siblings(&self, gang: &str, pod: &str, now: u64) -> Vec<(String, u32)> {
        let mut nodes: Vec<(String, u32)> = Vec::new();
        let members = self.members.get(gang).into_iter().flatten();
        for (_, place) in members.filter(|(name, _)| *name != pod) {
            if place.until.is_some_and(|until| until < now) {
                continue;
            }
            match nodes.iter_mut().find(|(node, _)| *node == place.node) {
                Some((_, workers)) => *workers += place.workers,
                None => nodes.push((place.node.clone(), place.workers)),
            }
        }
        nodes.sort();
        nodes
    }

    /// How many of a gang's other members are placed.
    pub fn placed(&self, gang: &str, pod: &str, now: u64) -> u32 {
        let members = self.members.get(gang).into_iter().flatten();
        members
            .filter(|(name, place)| *name != pod && place.until.is_none_or(|until| until >= now))
            .count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_until_the_binding_is_heard_of_or_time_is_up() {
        let mut gangs = Gangs::default();
        gangs.assume("g", "a", "n1", 1, 100);
        assert_eq!(gangs.siblings("g", "b", 101), [("n1".to_owned(), 1)]);
        gangs.bind("g", "a", "n2", 1);
        gangs.assume("g", "a", "n3", 1, 102);
        assert_eq!(gangs.siblings("g", "b", 500), [("n2".to_owned(), 1)]);
        gangs.assume("g", "b", "n2", 2, 500);
        assert_eq!(gangs.siblings("g", "c", 510), [("n2".to_owned(), 3)]);
        assert_eq!(gangs.siblings("g", "c", 600), [("n2".to_owned(), 1)]);
        gangs.remove("a");
        assert_eq!(gangs.placed("g", "c", 600), 0);
    }
}
