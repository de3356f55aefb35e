//! Facts from node labels. For each fact the sources stand in a fixed order
//! and the first that speaks wins: `stepcast.dev/*` → vendor → cloud →
//! allocatable → default. The same resolver serves files and the live watch.

use super::fact::{Fact, FactName, Source};
use super::instances::{Instance, instance};
use super::object::NodeObject;
use super::{Accelerators, Defaults, Node, Role, Transport};
use crate::device::{self, CpuSpec, Device, NfdModel};
use crate::units::{Bytes, BytesPerSecond, Unit, parse_quantity};
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
        unusable,
        facts,
        warnings,
    }
}

/// Annotations and labels of our own that are read.
const OWN: [&str; 8] = [
    "accelerator",
    "accelerator-count",
    "cpu",
    "cpu-cores",
    "nic-gbps",
    "transport",
    "role",
    "price-per-hour",
];

/// Taints of nodes that run the cluster rather than its jobs.
const CONTROL_PLANE: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

/// What can be said of a node's accelerators.
enum Sight {
    /// There are none.
    Nothing,
    /// There are some, but not which.
    Unknown(String),
    /// These.
    Known(Accelerators),
}

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

    fn accelerators(&mut self) -> Sight {
        let counts = self.counts();
        let (devices, refused) = self.devices();
        let slices = self.object.status.allocatable.iter().any(|(key, amount)| {
            key.starts_with("nvidia.com/mig-") && amount.amount().is_some_and(|a| a > 0.0)
        });
        let whole = self.object.status.allocatable.get("nvidia.com/gpu");
        let no_whole = whole.is_none_or(|amount| amount.amount().is_none_or(|a| a <= 0.0));
        let own = counts
            .first()
            .is_some_and(|c| matches!(c.source, Source::Override(_)));
        if slices && no_whole && !own {
            return Sight::Unknown(
                "its GPUs are cut into MIG slices, which are not modelled".into(),
            );
        }
        if counts.first().is_some_and(|c| c.value == 0) {
            self.settle(FactName::AcceleratorCount, counts);
            return Sight::Nothing;
        }
        if devices.is_empty() {
            return match (counts.first(), refused) {
                (_, Some(why)) => Sight::Unknown(why),
                (Some(first), None) => Sight::Unknown(format!(
                    "{} accelerators by {}, but nothing says of which type; label it stepcast.dev/accelerator",
                    first.value, first.source
                )),
                (None, None) => Sight::Nothing,
            };
        }
        let Some(device) = self.settle(FactName::Accelerator, devices) else {
            return Sight::Nothing;
        };
        let device = self.of_memory(device);
        let counts = if counts.is_empty() {
            vec![Candidate {
                source: Source::Default,
                value: 1,
                text: "1".into(),
            }]
        } else {
            counts
        };
        match self.settle(FactName::AcceleratorCount, counts) {
            Some(count) => Sight::Known(Accelerators { device, count }),
            None => Sight::Nothing,
        }
    }

    /// The variant of a device that has the memory the labels state (MiB).
    fn of_memory(&mut self, device: Arc<Device>) -> Arc<Device> {
        let stated = [
            "nvidia.com/gpu.memory",
            "karpenter.k8s.aws/instance-gpu-memory",
        ]
        .iter()
        .find_map(|key| self.label(key)?.parse::<f64>().ok())
        .map(Bytes::from_mib);
        match (stated, device.memory) {
            (Some(stated), Some(own)) if (stated / own - 1.0).abs() > 0.2 => {
                let variant = device::with_memory(&device, stated);
                if variant.is_none() {
                    self.warn(format_args!(
                        "labels state {stated} of memory, {} has {own}; taking the latter",
                        device.name
                    ));
                }
                variant.unwrap_or(device)
            }
            _ => device,
        }
    }

    /// Devices that labels name, and why a name was refused.
    fn devices(&mut self) -> (Vec<Candidate<Arc<Device>>>, Option<String>) {
        let mut named: Vec<(Source, &'a str)> = Vec::new();
        named.extend(self.own("accelerator"));
        for key in ["nvidia.com/gpu.product", "amd.com/gpu.product-name"] {
            named.extend(self.label(key).map(|v| (Source::Vendor(key.into()), v)));
        }
        // AMD's older labels carry the product in the key.
        let older = self.object.metadata.labels.keys().find_map(|key| {
            let product = key.strip_prefix("beta.amd.com/gpu.product-name.")?;
            Some((Source::Vendor(key.clone()), product))
        });
        named.extend(older);
        for key in [
            "karpenter.k8s.aws/instance-gpu-name",
            "eks.amazonaws.com/instance-gpu-name",
            "cloud.google.com/gke-accelerator",
            "kubernetes.azure.com/accelerator",
        ] {
            // AKS only says whose it is.
            let value = self.label(key).filter(|v| !["nvidia", "amd"].contains(v));
            named.extend(value.map(|v| (Source::Cloud(key.into()), v)));
        }
        let mut refused = None;
        let mut candidates: Vec<Candidate<Arc<Device>>> = Vec::new();
        for (source, name) in named {
            match known_device(&source, name) {
                Ok(device) => candidates.push(Candidate {
                    text: device.name.to_string(),
                    value: device,
                    source,
                }),
                Err(why) => {
                    self.warn(format_args!("{source}: {why}"));
                    refused.get_or_insert(why);
                }
            }
        }
        if let Some((name, instance)) = self.instance
            && let Some(device) = instance
                .accelerator
                .and_then(|a| device::accelerator(a).ok())
        {
            candidates.push(Candidate {
                source: Source::InstanceType(name.to_owned()),
                text: device.name.to_string(),
                value: device,
            });
        }
        (candidates, refused)
    }

    fn counts(&mut self) -> Vec<Candidate<u32>> {
        let mut candidates = Vec::new();
        let mut texts: Vec<(Source, &'a str)> = Vec::new();
        texts.extend(self.own("accelerator-count"));
        for key in ["nvidia.com/gpu.count", "amd.com/gpu.count"] {
            texts.extend(self.label(key).map(|v| (Source::Vendor(key.into()), v)));
        }
        for key in [
            "karpenter.k8s.aws/instance-gpu-count",
            "eks.amazonaws.com/instance-gpu-count",
        ] {
            texts.extend(self.label(key).map(|v| (Source::Cloud(key.into()), v)));
        }
        for (source, text) in texts {
            match text.parse::<u32>() {
                Ok(value) => candidates.push(Candidate {
                    source,
                    value,
                    text: value.to_string(),
                }),
                Err(_) => self.warn(format_args!("{source}: `{text}` is not a whole number")),
            }
        }
        if let Some((name, instance)) = self.instance.filter(|(_, i)| i.accelerator.is_some()) {
            candidates.push(Candidate {
                source: Source::InstanceType(name.to_owned()),
                value: instance.accelerators,
                text: instance.accelerators.to_string(),
            });
        }
        for key in ["nvidia.com/gpu", "amd.com/gpu"] {
            let amount = self
                .object
                .status
                .allocatable
                .get(key)
                .and_then(super::object::Quantity::amount);
            // Time-sliced GPUs are allocatable several times over.
            if let Some(amount) = amount {
                let replicas = self
                    .label("nvidia.com/gpu.replicas")
                    .and_then(|r| r.parse::<f64>().ok())
                    .filter(|r| *r >= 1.0)
                    .unwrap_or(1.0);
                let value = (amount / replicas) as u32;
                candidates.push(Candidate {
                    source: Source::Allocatable(key.into()),
                    value,
                    text: value.to_string(),
                });
            }
        }
        candidates
    }

    fn cpu(&mut self) -> Option<Arc<Device>> {
        let mut specs: Vec<Candidate<&'static CpuSpec>> = Vec::new();
        if let Some((source, name)) = self.own("cpu") {
            match device::cpu(name) {
                Ok(spec) => specs.push(candidate(source, spec)),
                Err(_) => self.warn(format_args!("{source}: `{name}` is not a known processor")),
            }
        }
        let model = |part: &str| self.label(&format!("{NFD}cpu-model.{part}"));
        if let (Some(vendor), Some(family), Some(id)) =
            (model("vendor_id"), model("family"), model("id"))
            && let Some(spec) = device::nfd_cpu(NfdModel { vendor, family, id })
        {
            specs.push(candidate(Source::Vendor(format!("{NFD}cpu-model.*")), spec));
        }
        if let Some((name, instance)) = self.instance
            && let Some(spec) = instance.cpu.and_then(|c| device::cpu(c).ok())
        {
            specs.push(candidate(Source::InstanceType(name.to_owned()), spec));
        }
        let cores = self.cores();
        if specs.is_empty() {
            return None;
        }
        // A generic entry and a named part of the same family do not contradict.
        specs.truncate(1);
        let spec = self.settle(FactName::Cpu, specs)?;
        let clock = self
            .label("karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz")
            .and_then(|mhz| mhz.parse::<f64>().ok())
            .filter(|mhz| (100.0..20_000.0).contains(mhz))
            .map(|mhz| mhz / 1e3);
        Some(Arc::new(spec.device(cores, clock)))
    }

    fn cores(&mut self) -> Option<u32> {
        let mut candidates = Vec::new();
        if let Some((source, text)) = self.own("cpu-cores") {
            match text.parse::<u32>().ok().filter(|c| *c > 0) {
                Some(value) => candidates.push(Candidate {
                    source,
                    value,
                    text: value.to_string(),
                }),
                None => self.warn(format_args!("{source}: `{text}` is not a number of cores")),
            }
        }
        let allocatable = &self.object.status.allocatable;
        if let Some(amount) = allocatable
            .get("cpu")
            .and_then(super::object::Quantity::amount)
        {
            let value = (amount.round() as u32).max(1);
            candidates.push(Candidate {
                source: Source::Allocatable("cpu".into()),
                value,
                text: value.to_string(),
            });
        } else if let Some((name, instance)) = self.instance.filter(|(_, i)| i.vcpus > 0) {
            candidates.push(Candidate {
                source: Source::InstanceType(name.to_owned()),
                value: instance.vcpus,
                text: instance.vcpus.to_string(),
            });
        }
        candidates.truncate(1);
        self.settle(FactName::CpuCores, candidates)
    }

    fn nic(&mut self, defaults: &Defaults) -> BytesPerSecond {
        let mut candidates = Vec::new();
        if let Some((source, text)) = self.own("nic-gbps") {
            match parse_quantity(text, Unit::Gbps).filter(|g| g.is_finite() && *g > 0.0) {
                Some(gbps) => candidates.push(gbit(source, gbps)),
                None => self.warn(format_args!(
                    "{source}: `{text}` is not {}",
                    Unit::Gbps.expected()
                )),
            }
        }
        for key in [
            "karpenter.k8s.aws/instance-network-bandwidth",
            "eks.amazonaws.com/instance-network-bandwidth",
        ] {
            if let Some(text) = self.label(key) {
                match text
                    .parse::<f64>()
                    .ok()
                    .filter(|m| m.is_finite() && *m > 0.0)
                {
                    Some(mbps) => candidates.push(gbit(Source::Cloud(key.into()), mbps / 1e3)),
                    None => self.warn(format_args!("{key}: `{text}` is not a rate in Mbit/s")),
                }
            }
        }
        if candidates.is_empty()
            && let Some((name, instance)) = self.instance
            && let Some(gbps) = instance.nic_gbps
        {
            candidates.push(gbit(Source::InstanceType(name.to_owned()), gbps));
        }
        if candidates.is_empty() {
            candidates.push(gbit(Source::Default, defaults.nic.gbit()));
            self.warn(format_args!(
                "no label says how fast the NIC is; taking {}; label it stepcast.dev/nic-gbps",
                defaults.nic
            ));
        }
        self.settle(FactName::NicGbps, candidates)
            .unwrap_or(defaults.nic)
    }

    fn transport(&mut self) -> Transport {
        let mut candidates = Vec::new();
        if let Some((source, text)) = self.own("transport") {
            match text {
                "tcp" => candidates.push(transport(source, Transport::Tcp)),
                "rdma" => candidates.push(transport(source, Transport::Rdma)),
                _ => self.warn(format_args!("{source}: `{text}` is neither tcp nor rdma")),
            }
        }
        let rdma = self
            .object
            .status
            .allocatable
            .iter()
            .find(|(key, amount)| {
                (key.starts_with("rdma/") || *key == "vpc.amazonaws.com/efa")
                    && amount.amount().is_some_and(|a| a > 0.0)
            })
            .map(|(key, _)| key.clone());
        if let Some(key) = rdma {
            candidates.push(transport(Source::Allocatable(key), Transport::Rdma));
        } else if let Some((name, _)) = self.instance.filter(|(_, i)| i.rdma) {
            candidates.push(transport(
                Source::InstanceType(name.to_owned()),
                Transport::Rdma,
            ));
        }
        candidates.truncate(1);
        self.settle(FactName::Transport, candidates)
            .unwrap_or_default()
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
        let price = text
            .parse::<f64>()
            .ok()
            .filter(|p| p.is_finite() && *p >= 0.0);
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

/// The device that a label names, or why none.
fn known_device(source: &Source, name: &str) -> Result<Arc<Device>, String> {
    let (product, share) = product(name);
    if let Some(slice) = share {
        return Err(format!(
            "`{name}` is a MIG slice ({slice}) of a device; slices are not modelled, \
             label the node stepcast.dev/accelerator to say what to take it for"
        ));
    }
    if let Source::Cloud(label) = source
        && let Some(device) = device::source_alias(label, product)
    {
        return Ok(device);
    }
    device::accelerator(product).map_err(|near| {
        if near.is_empty() {
            format!("`{name}` is not a known accelerator")
        } else {
            format!(
                "`{name}` is not a known accelerator; near names: {}",
                near.join(", ")
            )
        }
    })
}

/// The product without how it is shared: `-SHARED` marks time slicing, which
/// changes nothing about the device; `-MIG-1g.5gb` a slice of it.
fn product(name: &str) -> (&str, Option<&str>) {
    if let Some((product, slice)) = name.split_once("-MIG-") {
        return (product, Some(slice));
    }
    (name.strip_suffix("-SHARED").unwrap_or(name), None)
}

fn candidate(source: Source, spec: &'static CpuSpec) -> Candidate<&'static CpuSpec> {
    Candidate {
        source,
        text: spec.name.to_string(),
        value: spec,
    }
}

fn gbit(source: Source, gbps: f64) -> Candidate<BytesPerSecond> {
    Candidate {
        source,
        value: BytesPerSecond::from_gbit(gbps),
        text: format!("{gbps}"),
    }
}

fn transport(source: Source, value: Transport) -> Candidate<Transport> {
    Candidate {
        source,
        text: value.to_string(),
        value,
    }
}
