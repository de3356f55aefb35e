//! `stepcast nodes`.

use super::args::{Format, NodesArgs};
use super::files::{self, Failure};
use super::{example, output};
use crate::cluster::{Cluster, Node, Role};
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct NodeRow<'a> {
    name: &'a str,
    role: &'static str,
    usable: bool,
    workers: u32,
    accelerator: Option<&'a str>,
    nic_gbps: f64,
    facts: Vec<FactRow>,
}

#[derive(Serialize)]
struct FactRow {
    fact: String,
    value: String,
    source: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conflicts: Vec<ConflictRow>,
}

#[derive(Serialize)]
struct ConflictRow {
    source: String,
    value: String,
}

pub(super) fn run(args: &NodesArgs) -> Result<(), Failure> {
    let defaults = files::defaults(&args.default_nic)?;
    let cluster = if args.example {
        example::cluster(&defaults)?
    } else {
        let path = args.cluster.as_deref().unwrap_or(Path::new("-"));
        files::read_cluster(path, &defaults)?
    };
    output::warn(&cluster.all_warnings());
    let rows: Vec<NodeRow<'_>> = cluster.nodes.iter().map(|node| row(node)).collect();
    match args.output {
        Format::Table => output::print(&sheet(&cluster, &rows)),
        Format::Csv => output::print(&output::csv(
            &["node", "fact", "value", "source"],
            &cells(&rows),
        )),
        format => output::print(&output::document(&rows, format)?),
    }
}

fn row(node: &Node) -> NodeRow<'_> {
    NodeRow {
        name: &node.name,
        role: match node.role {
            Role::Worker => "worker",
            Role::Server => "server",
        },
        usable: node.unusable.is_none(),
        workers: node.workers(),
        accelerator: node.accelerators.as_ref().map(|a| &*a.device.name),
        nic_gbps: node.nic.gbit(),
        facts: node
            .facts
            .iter()
            .map(|fact| FactRow {
                fact: fact.name.to_string(),
                value: fact.value.clone(),
                source: fact.source.to_string(),
                conflicts: fact
                    .conflicts
                    .iter()
                    .map(|(source, value)| ConflictRow {
                        source: source.to_string(),
                        value: value.clone(),
                    })
                    .collect(),
            })
            .collect(),
    }
}

fn cells(rows: &[NodeRow<'_>]) -> Vec<Vec<String>> {
    rows.iter()
        .flat_map(|row| {
            row.facts.iter().map(|fact| {
                vec![
                    row.name.to_owned(),
                    fact.fact.clone(),
                    fact.value.clone(),
                    fact.source.clone(),
                ]
            })
        })
        .collect()
}

fn sheet(cluster: &Cluster, rows: &[NodeRow<'_>]) -> String {
    let mut table = output::table(&["node", "fact", "value", "source"]);
    let mut last = String::new();
    for mut line in cells(rows) {
        if line[0] == last {
            line[0].clear();
        } else {
            last.clone_from(&line[0]);
        }
        table.add_row(line);
    }
    let usable = cluster.nodes.iter().filter(|n| n.unusable.is_none());
    let workers: u32 = usable.map(|node| node.workers()).sum();
    format!(
        "{table}\n{} nodes, {workers} workers that can be used",
        cluster.nodes.len()
    )
}
