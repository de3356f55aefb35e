//! The short form of a cluster file.

use super::fact::{Fact, FactName, Source};
use super::{Accelerators, Cluster, Defaults, Links, Node, Place, Role, Transport};
use crate::device::{self, Device};
use crate::input::{Field, Problems, Reader, Tree};
use crate::units::{BytesPerSecond, Unit};
use std::collections::HashSet;
use std::sync::Arc;

/// Nodes that one file may describe.
const MAX_NODES: u64 = 100_000;

/// Accelerators that one node may have.
const MAX_ACCELERATORS: u64 = 1024;

const NODE_KEYS: &[&str] = &[
    "name",
    "count",
    "role",
    "accelerators",
    "cpu",
    "nic_gbps",
    "transport",
    "price_per_hour",
    "zone",
    "rack",
];

/// Reads `nodes: […]`, with `devices: […]` beside it where the file defines
/// its own.
pub(super) fn read(file: &str, tree: &Tree, defaults: &Defaults) -> Result<Cluster, Problems> {
    let reader = Reader::new(file);
    let root = reader.root(tree);
    let cluster = root
        .object("a cluster", &["nodes", "devices", "links"])
        .and_then(|object| {
            let own: Vec<Arc<Device>> = object.get("devices").map_or_else(Vec::new, |f| {
                f.items("a list of devices")
                    .iter()
                    .filter_map(device::read_accelerator)
                    .collect()
            });
            let list = object.require("nodes", "a list of nodes")?;
            let items = list.items("a list of nodes");
            let mut cluster = Cluster {
                links: object
                    .get("links")
                    .map_or(Some(Links::default()), |f| links(&f))?,
                ..Cluster::default()
            };
            let mut names = HashSet::new();
            for item in &items {
                for node in entry(item, &own, defaults).unwrap_or_default() {
                    if !names.insert(node.name.clone()) {
                        item.refuse(
                            format!("a second node named `{}`", node.name),
                            "a name of its own for every node",
                            None,
                        );
                    }
                    cluster.nodes.push(Arc::new(node));
                }
                if cluster.nodes.len() as u64 > MAX_NODES {
                    item.problem(format!("at most {MAX_NODES} nodes in a file"), None);
                    break;
                }
            }
            if items.is_empty() && matches!(list.tree(), Tree::List(_)) {
                list.problem("at least one node", None);
            }
            Some(cluster)
        });
    reader.finish(cluster)
}

/// One entry, which may stand for several nodes.
fn entry(field: &Field<'_>, own: &[Arc<Device>], defaults: &Defaults) -> Option<Vec<Node>> {
    let mut warnings = Vec::new();
    let object = field.object("a node", NODE_KEYS)?;
    let name = object
        .require("name", "the node's name")
        .and_then(|f| f.text("a name"));
    let count = object.get("count").map(|f| {
        let count = f.count(1, "nodes")?;
        if count > MAX_NODES {
            f.problem(format!("at most {MAX_NODES} nodes"), None);
            return None;
        }
        Some(count)
    });
    let role = object.get("role").map_or(Some(Role::Worker), |f| {
        f.choice(&[("worker", Role::Worker), ("server", Role::Server)])
    });
    let accelerators = object.get("accelerators").map(|f| accelerators(&f, own));
    // A processor that computes must say how fast it is.
    let computes = accelerators.is_none() && role != Some(Role::Server);
    let cpu = object.get("cpu").map(|f| device::read_cpu(&f, computes));
    let nic = object.get("nic_gbps").map(|f| f.positive(Unit::Gbps));
    let transport = object.get("transport").map_or(Some(Transport::Tcp), |f| {
        f.choice(&[("tcp", Transport::Tcp), ("rdma", Transport::Rdma)])
    });
    let price = object
        .get("price_per_hour")
        .map(|f| f.non_negative(Unit::None));
    let zone = object.get("zone").map(|f| f.text("the zone it stands in"));
    let rack = object.get("rack").map(|f| f.text("the rack it stands in"));
    let role = role?;
    if role == Role::Worker && accelerators.is_none() && cpu.is_none() {
        field.problem(
            "`accelerators` or `cpu` on a worker",
            Some("something must compute; `role: server` needs neither".into()),
        );
        return None;
    }
    let name = name?;
    let nic_rate = if let Some(gbps) = nic {
        BytesPerSecond::from_gbit(gbps?)
    } else {
        warnings.push(format!(
            "node {name}: no `nic_gbps`; taking {}",
            defaults.nic
        ));
        defaults.nic
    };
    let mut node = Node {
        name: name.to_owned(),
        role,
        accelerators: match accelerators {
            Some(read) => read?,
            None => None,
        },
        cpu: match cpu {
            Some(read) => Some(read?),
            None => None,
        },
        nic: nic_rate,
        transport: transport?,
        price_per_hour: match price {
            Some(read) => Some(read?),
            None => None,
        },
        place: Place {
            zone: zone.flatten().map(Into::into),
            rack: rack.flatten().map(Into::into),
            nvlink_domain: None,
        },
        facts: Vec::new(),
        warnings,
        ..Node::default()
    };
    node.facts = facts(&node, nic.is_some());
    Some(match count {
        None => vec![node],
        Some(count) => (0..count?)
            .map(|i| Node {
                name: format!("{name}-{i}"),
                ..node.clone()
            })
            .collect(),
    })
}

/// `{between_zones_gbps, between_racks_gbps}`: what one node gets of them.
pub(super) fn links(field: &Field<'_>) -> Option<Links> {
    let object = field.object("links", &["between_zones_gbps", "between_racks_gbps"])?;
    let rate = |key| match object.get(key) {
        None => Some(None),
        Some(f) => f
            .positive(Unit::Gbps)
            .map(|g| Some(BytesPerSecond::from_gbit(g))),
    };
    Some(Links {
        between_zones: rate("between_zones_gbps")?,
        between_racks: rate("between_racks_gbps")?,
    })
}

/// `{type, count}`; a count of 0 means none.
#[allow(clippy::option_option, reason = "none and unreadable differ")]
fn accelerators(field: &Field<'_>, own: &[Arc<Device>]) -> Option<Option<Accelerators>> {
    let object = field.object("accelerators", &["type", "count"])?;
    let kind = object.require("type", "the accelerator's type");
    let defined = kind.as_ref().and_then(|f| match f.tree() {
        Tree::Text(name) => own
            .iter()
            .find(|d| device::same_name(&d.name, name))
            .cloned(),
        _ => None,
    });
    let device = defined.or_else(|| kind.as_ref().and_then(device::read_accelerator));
    let count = object.get("count").map_or(Some(1), |f| {
        f.count_within(0, MAX_ACCELERATORS, "accelerators")
            .map(|n| n as u32)
    });
    let (device, count) = (device?, count?);
    Some((count > 0).then_some(Accelerators { device, count }))
}

fn facts(node: &Node, nic_given: bool) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut fact = |name, value: String, source| {
        facts.push(Fact {
            name,
            value,
            source,
            conflicts: Vec::new(),
        });
    };
    if let Some(accelerators) = &node.accelerators {
        fact(
            FactName::Accelerator,
            accelerators.device.name.to_string(),
            Source::File,
        );
        fact(
            FactName::AcceleratorCount,
            accelerators.count.to_string(),
            Source::File,
        );
    }
    if let Some(cpu) = &node.cpu {
        fact(FactName::Cpu, cpu.name.to_string(), Source::File);
        fact(FactName::CpuCores, cpu.cores.to_string(), Source::File);
    }
    let source = if nic_given {
        Source::File
    } else {
        Source::Default
    };
    fact(FactName::NicGbps, format!("{}", node.nic.gbit()), source);
    if node.role == Role::Server {
        fact(FactName::Role, "server".into(), Source::File);
    }
    for (name, value) in [
        (FactName::Zone, &node.place.zone),
        (FactName::Rack, &node.place.rack),
    ] {
        if let Some(value) = value {
            fact(name, value.to_string(), Source::File);
        }
    }
    if let Some(price) = node.price_per_hour {
        fact(FactName::PricePerHour, price.to_string(), Source::File);
    }
    facts
}
