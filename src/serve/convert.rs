//! Messages as the documents that files hold, so that one reader checks both.

use crate::cluster::{Node, Role, Transport};
use crate::input::{Number, Tree};
use crate::protocol::v1::{self, fusion, job, strategy, workload};

/// A map that leaves out what is not set.
#[derive(Default)]
struct Map(Vec<(String, Tree)>);

impl Map {
    fn put(mut self, key: &str, value: Tree) -> Self {
        self.0.push((key.to_owned(), value));
        self
    }

    fn put_if(self, set: bool, key: &str, value: Tree) -> Self {
        if set { self.put(key, value) } else { self }
    }

    fn text(self, key: &str, value: &str) -> Self {
        self.put_if(!value.is_empty(), key, text(value))
    }

    fn count(self, key: &str, value: u64) -> Self {
        self.put_if(value != 0, key, count(value))
    }

    fn number(self, key: &str, value: f64) -> Self {
        self.put_if(value != 0.0, key, number(value))
    }

    fn done(self) -> Tree {
        Tree::Map(self.0)
    }
}

fn text(value: &str) -> Tree {
    Tree::Text(value.to_owned())
}

fn count(value: u64) -> Tree {
    Tree::Number(Number::Integer(i128::from(value)))
}

fn number(value: f64) -> Tree {
    Tree::Number(Number::Float(value))
}

/// The path under which a profile's text is handed to the reader.
pub(super) const PROFILE: &str = "profile";

/// The job file that a message stands for.
pub(super) fn job_tree(job: &v1::Job) -> Tree {
    let mut map = Map::default().text("name", &job.name);
    if let Some(workload) = &job.workload {
        map = map.put("workload", workload_tree(workload));
    }
    map = match job.batch {
        Some(job::Batch::BatchSize(size)) => map.put("batch_size", count(u64::from(size))),
        Some(job::Batch::GlobalBatchSize(size)) => map.put("global_batch_size", count(size)),
        None => map,
    };
    map = match v1::Precision::try_from(job.precision) {
        Ok(v1::Precision::Unspecified) => map,
        Ok(precision) => {
            let name = precision.as_str_name().trim_start_matches("PRECISION_");
            map.put("precision", text(&name.to_lowercase()))
        }
        Err(_) => map.put("precision", count(u64::from(job.precision.unsigned_abs()))),
    };
    map = map.count("steps", job.steps);
    if let Some(strategy) = &job.strategy {
        map = map.put("strategy", strategy_tree(strategy));
    }
    map.done()
}

fn workload_tree(workload: &v1::Workload) -> Tree {
    let length = u64::from(workload.sequence_length);
    match &workload.description {
        Some(workload::Description::CatalogueName(name)) if length == 0 => text(name),
        Some(workload::Description::CatalogueName(name)) => Map::default()
            .text("name", name)
            .count("sequence_length", length)
            .done(),
        Some(workload::Description::Totals(totals)) => Map::default()
            .text("name", &totals.name)
            .count("parameters", totals.parameters)
            .number("forward_flops", totals.forward_flops)
            .count("tensors", u64::from(totals.tensors))
            .count("sequence_length", length)
            .done(),
        Some(workload::Description::Layers(layers)) => {
            let layer = |layer: &v1::Layer| {
                let parameters = layer.parameters.iter().map(|&p| count(p)).collect();
                Map::default()
                    .text("name", &layer.name)
                    .put("forward_flops", number(layer.forward_flops))
                    .put("parameters", Tree::List(parameters))
                    .done()
            };
            let layers = layers.layers.iter().map(layer).collect();
            Map::default().put("layers", Tree::List(layers)).done()
        }
        Some(workload::Description::Profile(_)) => {
            Map::default().put("profile", text(PROFILE)).done()
        }
        None => Tree::Null,
    }
}

fn strategy_tree(strategy: &v1::Strategy) -> Tree {
    match &strategy.kind {
        None | Some(strategy::Kind::Single(_)) => text("single"),
        Some(strategy::Kind::ParameterServer(ps)) => {
            let sync = match v1::Sync::try_from(ps.sync) {
                Ok(v1::Sync::Unspecified | v1::Sync::Bsp) => "bsp",
                Ok(v1::Sync::Asp) => "asp",
                Ok(v1::Sync::Ssp) => "ssp",
                Err(_) => "an unknown number",
            };
            let ssp = sync == "ssp";
            let mut map = Map::default()
                .text("sync", sync)
                .put_if(
                    ssp || ps.staleness > 0,
                    "staleness",
                    count(u64::from(ps.staleness)),
                )
                .count("servers", u64::from(ps.servers))
                .put_if(ps.local_aggregation, "local_aggregation", Tree::Bool(true));
            if let Some(overlap) = ps.overlap {
                map = map.put("overlap", Tree::Bool(overlap));
            }
            if let Some(fusion) = &ps.fusion {
                map = map.put("fusion", fusion_tree(fusion));
            }
            Map::default().put("parameter_server", map.done()).done()
        }
        Some(strategy::Kind::AllReduce(all)) => {
            let mut map = Map::default();
            map = match v1::Algorithm::try_from(all.algorithm) {
                Ok(v1::Algorithm::Unspecified) => map,
                Ok(v1::Algorithm::Ring) => map.text("algorithm", "ring"),
                Ok(v1::Algorithm::Tree) => map.text("algorithm", "tree"),
                Ok(v1::Algorithm::Hierarchical) => map.text("algorithm", "hierarchical"),
                Err(_) => map.text("algorithm", "an unknown number"),
            };
            if let Some(overlap) = all.overlap {
                map = map.put("overlap", Tree::Bool(overlap));
            }
            if let Some(fusion) = &all.fusion {
                map = map.put("fusion", fusion_tree(fusion));
            }
            Map::default().put("all_reduce", map.done()).done()
        }
        Some(strategy::Kind::AsyncAllReduce(all)) => {
            let map = Map::default()
                .count("samples", all.samples)
                .count("sample_kib", u64::from(all.sample_kib));
            Map::default().put("async_all_reduce", map.done()).done()
        }
    }
}

fn fusion_tree(fusion: &v1::Fusion) -> Tree {
    match &fusion.kind {
        None | Some(fusion::Kind::None(_)) => text("none"),
        Some(fusion::Kind::Buffer(buffer)) => Map::default()
            .put("buffer_mib", number(buffer.buffer_mib))
            .number("timeout_ms", buffer.timeout_ms)
            .done(),
        Some(fusion::Kind::Partition(partition)) => Map::default()
            .put("partition_mib", number(partition.partition_mib))
            .put("priority", Tree::Bool(partition.priority))
            .done(),
        Some(fusion::Kind::Adaptive(_)) => text("adaptive"),
        Some(fusion::Kind::MgWfbp(_)) => text("mg_wfbp"),
    }
}

/// The cluster file that a caller's own nodes stand for.
pub(crate) fn nodes_tree(nodes: &[v1::Node]) -> Tree {
    Map::default()
        .put("nodes", Tree::List(nodes.iter().map(node_tree).collect()))
        .done()
}

fn node_tree(node: &v1::Node) -> Tree {
    let mut map = Map::default().text("name", &node.name);
    if node.role == v1::Role::Server as i32 {
        map = map.text("role", "server");
    }
    if !node.accelerator_type.is_empty() || node.accelerator_count > 0 {
        let accelerators = Map::default()
            .text("type", &node.accelerator_type)
            .count("count", u64::from(node.accelerator_count));
        map = map.put("accelerators", accelerators.done());
    }
    if !node.cpu_type.is_empty() || node.cpu_cores > 0 || node.cpu_clock_ghz != 0.0 {
        let cpu = Map::default()
            .text("type", &node.cpu_type)
            .count("cores", u64::from(node.cpu_cores))
            .number("clock_ghz", node.cpu_clock_ghz);
        map = map.put("cpu", cpu.done());
    }
    if node.transport == v1::Transport::Rdma as i32 {
        map = map.text("transport", "rdma");
    }
    map.number("nic_gbps", node.nic_gbps)
        .number("price_per_hour", node.price_per_hour)
        .text("zone", &node.zone)
        .text("rack", &node.rack)
        .done()
}

/// A node of the inventory as a caller would bring it.
pub(super) fn node_message(node: &Node) -> v1::Node {
    let (accelerator_type, accelerator_count) = match &node.accelerators {
        Some(a) => (a.device.name.to_string(), a.count),
        None => (String::new(), 0),
    };
    let cpu = node.cpu.as_ref();
    v1::Node {
        name: node.name.clone(),
        role: match node.role {
            Role::Server => v1::Role::Server,
            Role::Worker => v1::Role::Worker,
        }
        .into(),
        accelerator_type,
        accelerator_count,
        cpu_type: cpu.map(|d| d.name.to_string()).unwrap_or_default(),
        cpu_cores: cpu.map_or(0, |d| d.cores),
        cpu_clock_ghz: 0.0,
        nic_gbps: node.nic.gbit(),
        transport: match node.transport {
            Transport::Rdma => v1::Transport::Rdma,
            Transport::Tcp => v1::Transport::Tcp,
        }
        .into(),
        price_per_hour: 0.0,
        zone: node.place.zone.as_deref().unwrap_or_default().to_owned(),
        rack: node.place.rack.as_deref().unwrap_or_default().to_owned(),
    }
}
