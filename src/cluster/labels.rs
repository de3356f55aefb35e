//! Facts from node labels. For each fact the sources stand in a fixed order
//! and the first that speaks wins: `stepcast.dev/*` → vendor → cloud →
//! allocatable → default. The same resolver serves files and the live watch.

mod accelerators;
mod host;

use self::accelerators::Sight;
use super::fact::{Fact, FactName, Source};
use super::instances::{Instance, instance};
use super::object::NodeObject;
use super::{Defaults, Node, Place, Role};
use std::sync::Arc;

const NFD: &str = "feature.node.kubernetes.io/";
const INSTANCE_TYPE: [&str; 2] = [
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
];

/// Reads a node's facts off its labels, annotations and status.
pub fn resolve(object: &NodeObject, defaults: &Defaults) -> Node {
    let mut resolver = Resolver {
        object,
        instance: INSTANCE_TYPE
            .iter()
            .find_map(|key| object.metadata.labels.get(*key))
            .and_then(|name| instance(name).map(|found| (name.as_str(), found))),
        facts: Vec::new(),
        warnings: Vec::new(),
    };
    resolver.misspelt();
    let (accelerators, unknown) = match resolver.accelerators() {
        Sight::Known(accelerators) => (Some(accelerators), None),
        Sight::Unknown(why) => (None, Some(why)),
        Sight::Nothing => (None, None),
    };
    let cpu = resolver.cpu();
    let nic = resolver.nic(defaults);
    let transport = resolver.transport();
    let role = resolver.role();
    let price_per_hour = resolver.price();
    let place = resolver.place();
    let computes = accelerators.is_some() || cpu.is_some();
    let unusable = resolver.unusable(computes, role, unknown);
    let Resolver {
        facts, warnings, ..
    } = resolver;
    Node {
        name: object.metadata.name.clone(),
        role,
        accelerators,
        cpu,
        nic,
        transport,
        price_per_hour,
        place,
        taken: 0,
        labels: object
            .metadata
            .labels
            .iter()
            .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
            .collect(),
        unusable,
        facts,
        warnings,
    }
}

/// Annotations and labels of our own that are read.
const OWN: [&str; 11] = [
    "accelerator",
    "accelerator-count",
    "cpu",
    "cpu-cores",
    "nic-gbps",
    "transport",
    "role",
    "price-per-hour",
    "zone",
    "rack",
    "nvlink-domain",
];

/// Taints of nodes that run the cluster rather than its jobs.
const CONTROL_PLANE: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

/// Labels that say where a node stands, the nearest to it first.
const ZONE: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
];
const RACK: [&str; 4] = [
    "topology.kubernetes.io/rack",
    "network.topology.nvidia.com/leaf",
    "topology.k8s.aws/network-node-layer-3",
    "cloud.google.com/gce-topology-subblock",
];
const NVLINK_DOMAIN: [&str; 2] = [
    "nvidia.com/gpu.clique",
    "network.topology.nvidia.com/accelerator",
];

struct Resolver<'a> {
    object: &'a NodeObject,
    instance: Option<(&'a str, &'static Instance)>,
    facts: Vec<Fact>,
    warnings: Vec<String>,
}

/// A value and where it stands, before one wins.
struct Candidate<T> {
    source: Source,
    value: T,
    text: String,
}

impl<'a> Resolver<'a> {
    fn label(&self, key: &str) -> Option<&'a str> {
        let value = self.object.metadata.labels.get(key).map(|v| v.trim());
        value.filter(|v| !v.is_empty())
    }

    /// A `stepcast.dev/*` annotation or label; the annotation can hold more
    /// characters, so it goes first.
    fn own(&self, name: &str) -> Option<(Source, &'a str)> {
        let key = format!("stepcast.dev/{name}");
        let annotation = self.object.metadata.annotations.get(&key).map(|v| v.trim());
        let value = annotation
            .filter(|v| !v.is_empty())
            .or_else(|| self.label(&key))?;
        Some((Source::Override(key), value))
    }

    /// Where the node stands.
    fn place(&mut self) -> Place {
        let mut of = |own: &str, name: FactName, keys: &[&str]| {
            let mut candidates: Vec<Candidate<Arc<str>>> = Vec::new();
            let label = |key: &&str| {
                let source = Source::Cloud((*key).to_owned());
                self.label(key).map(|value| (source, value))
            };
            let found = self
                .own(own)
                .into_iter()
                .chain(keys.iter().filter_map(label));
            for (source, value) in found {
                candidates.push(Candidate {
                    source,
                    value: value.into(),
                    text: value.to_owned(),
                });
            }
            self.settle(name, candidates)
        };
        Place {
            zone: of("zone", FactName::Zone, &ZONE),
            rack: of("rack", FactName::Rack, &RACK),
            nvlink_domain: of("nvlink-domain", FactName::NvlinkDomain, &NVLINK_DOMAIN),
        }
    }

    fn warn(&mut self, what: impl std::fmt::Display) {
        self.warnings
            .push(format!("node {}: {what}", self.object.metadata.name));
    }

    /// Keeps the first candidate as the fact, the others as conflicts where
    /// they say something else.
    fn settle<T>(&mut self, name: FactName, candidates: Vec<Candidate<T>>) -> Option<T> {
        let mut candidates = candidates.into_iter();
        let first = candidates.next()?;
        let conflicts: Vec<(Source, String)> = candidates
            .filter(|c| c.text != first.text)
            .map(|c| (c.source, c.text))
            .collect();
        if let Some((source, text)) = conflicts.first() {
            self.warn(format_args!(
                "{name}: {} says {}, {source} says {text}; the former is taken",
                first.source, first.text
            ));
        }
        self.facts.push(Fact {
            name,
            value: first.text,
            source: first.source,
            conflicts,
        });
        Some(first.value)
    }

    /// Warns of keys of our own that mean nothing.
    fn misspelt(&mut self) {
        let metadata = &self.object.metadata;
        let keys = metadata.labels.keys().chain(metadata.annotations.keys());
        let unknown: Vec<&str> = keys
            .filter_map(|key| key.strip_prefix("stepcast.dev/"))
            .filter(|name| !OWN.contains(name))
            .collect();
        for name in unknown {
            let hint = crate::input::near(name, OWN)
                .first()
                .map_or_else(String::new, |known| {
                    format!("; did you mean stepcast.dev/{known}?")
                });
            self.warn(format_args!("stepcast.dev/{name} means nothing{hint}"));
        }
    }

    fn role(&mut self) -> Role {
        let Some((source, text)) = self.own("role") else {
            return Role::Worker;
        };
        let role = match text {
            "worker" => Role::Worker,
            "server" => Role::Server,
            _ => {
                self.warn(format_args!(
                    "{source}: `{text}` is neither worker nor server"
                ));
                return Role::Worker;
            }
        };
        let text = text.to_owned();
        let fact = Candidate {
            source,
            value: role,
            text,
        };
        self.settle(FactName::Role, vec![fact]).unwrap_or_default()
    }

    fn price(&mut self) -> Option<f64> {
        let (source, text) = self.own("price-per-hour")?;
        let price = text.parse::<f64>().ok().filter(|p| (0.0..=1e9).contains(p));
        let Some(value) = price else {
            self.warn(format_args!("{source}: `{text}` is not a price"));
            return None;
        };
        let text = text.to_owned();
        self.settle(
            FactName::PricePerHour,
            vec![Candidate {
                source,
                value,
                text,
            }],
        )
    }

    fn unusable(&mut self, computes: bool, role: Role, unknown: Option<String>) -> Option<String> {
        let not_ready = self
            .object
            .status
            .conditions
            .iter()
            .any(|c| c.kind == "Ready" && c.status != "True");
        let control_plane = self
            .object
            .spec
            .taints
            .iter()
            .any(|t| CONTROL_PLANE.contains(&t.key.as_str()) && t.effect != "PreferNoSchedule");
        let why = if not_ready {
            "not ready".to_owned()
        } else if self.object.spec.unschedulable {
            "cordoned".to_owned()
        } else if control_plane {
            "runs the control plane".to_owned()
        } else if let Some(why) = unknown.filter(|_| role == Role::Worker) {
            why
        } else if !computes && role == Role::Worker {
            "nothing says what it computes with".to_owned()
        } else {
            return None;
        };
        self.facts.push(Fact {
            name: FactName::Schedulable,
            value: format!("no: {why}"),
            source: Source::Status,
            conflicts: Vec::new(),
        });
        Some(why)
    }
}
