//! Which workers take part, and where the parameter servers live.

use crate::cluster::{Cluster, Node, Role};
use crate::input::near;
use crate::job::{Batch, Job, Strategy};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What the asker wants of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only these nodes, in this order.
    pub nodes: Option<Vec<String>>,
    /// This many workers, in order; all of them when absent.
    pub workers: Option<usize>,
}

/// Workers of one node that take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Index of the node in the cluster.
    pub node: usize,
    /// How many of its workers.
    pub workers: u32,
}

/// A job's place on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Nodes that compute, with at least one worker each.
    pub nodes: Vec<Placed>,
    /// The node of each parameter server.
    pub servers: Vec<usize>,
}

/// Why a selection cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// A node that is not there.
    #[error("no node named `{name}`{}", hint(near))]
    UnknownNode {
        /// What was asked for.
        name: String,
        /// Nodes of similar names.
        near: Vec<String>,
    },
    /// The same node twice.
    #[error("node `{0}` is named twice")]
    Twice(String),
    /// No worker at all.
    #[error("0 workers asked for; a step needs at least 1")]
    NoWorkers,
    /// The nodes hold none.
    #[error("none of the nodes can compute{}\n  hint: workers need a known accelerator or processor, ready and not cordoned; label nodes stepcast.dev/accelerator or stepcast.dev/cpu where discovery does not", because(.0))]
    NothingComputes(Vec<String>),
    /// More than there are.
    #[error(
        "{wanted} workers asked for, but the nodes hold {available}\n  hint: a worker is one accelerator, or one node where the CPU computes; ask for at most {available}"
    )]
    TooMany {
        /// Asked for.
        wanted: usize,
        /// There.
        available: usize,
    },
    /// A list of batch sizes of another length.
    #[error(
        "`batch_size` lists {sizes} sizes for {workers} workers\n  hint: give one size for each worker, or one for all"
    )]
    BatchSizes {
        /// Sizes given.
        sizes: usize,
        /// Workers placed.
        workers: usize,
    },
    /// Too little to share out.
    #[error(
        "`global_batch_size` {samples} leaves some of {workers} workers without a sample\n  hint: ask for at most {samples} workers, or raise it"
    )]
    EmptyBatch {
        /// The global batch.
        samples: u64,
        /// Workers placed.
        workers: usize,
    },
}

fn hint(near: &[String]) -> String {
    if near.is_empty() {
        String::new()
    } else {
        format!("\n  hint: did you mean {}?", near.join(" or "))
    }
}

fn because(reasons: &[String]) -> String {
    if reasons.is_empty() {
        String::new()
    } else {
        format!(" ({})", reasons.join("; "))
    }
}

impl Placement {
    /// Workers over all nodes.
    pub fn workers(&self) -> usize {
        self.nodes.iter().map(|p| p.workers as usize).sum()
    }

    /// The first `workers` of nodes in this order, all of theirs when absent.
    /// Servers are those that `named` names, where it names some.
    pub fn on_nodes(
        job: &Job,
        cluster: &Cluster,
        order: &[usize],
        workers: Option<usize>,
        named: Option<&[String]>,
    ) -> Self {
        let mut left = workers.unwrap_or(usize::MAX);
        let mut nodes = Vec::new();
        for &node in order {
            let taken = (cluster.nodes[node].workers() as usize).min(left);
            left -= taken;
            if taken > 0 {
                nodes.push(Placed {
                    node,
                    workers: taken as u32,
                });
            }
            if left == 0 {
                break;
            }
        }
        let servers = servers(job, cluster, &nodes, named);
        Self { nodes, servers }
    }

    /// Takes workers in order, and gives the job its servers.
    pub fn select(
        job: &Job,
        cluster: &Cluster,
        selection: &Selection,
    ) -> Result<Self, PlacementError> {
        if selection.workers == Some(0) {
            return Err(PlacementError::NoWorkers);
        }
        let candidates = candidates(cluster, selection.nodes.as_deref())?;
        let available: usize = candidates
            .iter()
            .map(|&i| cluster.nodes[i].workers() as usize)
            .sum();
        if available == 0 {
            let why = |n: &Arc<Node>| match (&n.unusable, n.role) {
                (Some(why), _) => format!("{}: {why}", n.name),
                (None, Role::Server) => format!("{} is a server", n.name),
                _ => format!("{} has no worker", n.name),
            };
            let mut reasons: Vec<String> = cluster.nodes.iter().take(5).map(why).collect();
            if cluster.nodes.is_empty() {
                reasons.push("there are no nodes".into());
            }
            return Err(PlacementError::NothingComputes(reasons));
        }
        let default = if job.strategy == Strategy::Single {
            1
        } else {
            available
        };
        let wanted = selection.workers.unwrap_or(default);
        if wanted > available {
            return Err(PlacementError::TooMany { wanted, available });
        }
        check_batch(&job.batch, wanted)?;
        let named = selection.nodes.as_deref();
        Ok(Self::on_nodes(
            job,
            cluster,
            &candidates,
            Some(wanted),
            named,
        ))
    }
}

impl Placement {
    /// The same of nodes that were found already, in order; `servers` are all
    /// nodes of the cluster that hold weights.
    pub fn of_nodes(
        job: &Job,
        cluster: &Cluster,
        nodes: &[u32],
        servers: &[u32],
        workers: Option<usize>,
    ) -> Result<Self, PlacementError> {
        let node = |i: &u32| &cluster.nodes[*i as usize];
        let available: usize = nodes.iter().map(|i| node(i).workers() as usize).sum();
        if available == 0 {
            let why = |i: &u32| match (&node(i).unusable, node(i).role) {
                (Some(why), _) => format!("{}: {why}", node(i).name),
                (None, Role::Server) => format!("{} is a server", node(i).name),
                _ => format!("{} has no worker", node(i).name),
            };
            return Err(PlacementError::NothingComputes(
                nodes.iter().take(5).map(why).collect(),
            ));
        }
        let default = if job.strategy == Strategy::Single {
            1
        } else {
            available
        };
        let wanted = workers.unwrap_or(default);
        if wanted > available {
            return Err(PlacementError::TooMany { wanted, available });
        }
        check_batch(&job.batch, wanted)?;
        let mut left = wanted;
        let mut placed = Vec::with_capacity(nodes.len());
        for &index in nodes {
            let taken = (node(&index).workers() as usize).min(left);
            left -= taken;
            if taken > 0 {
                placed.push(Placed {
                    node: index as usize,
                    workers: taken as u32,
                });
            }
        }
        let wanted = match &job.strategy {
            Strategy::ParameterServer(ps) => ps.servers as usize,
            _ => 0,
        };
        // Servers among the nodes, else all there are, else the workers' nodes.
        let holds = |i: &&u32| node(i).role == Role::Server && node(i).unusable.is_none();
        let own = || nodes.iter().filter(holds);
        let mut chosen: Vec<usize> = own().take(wanted).map(|&i| i as usize).collect();
        if chosen.is_empty() {
            chosen = servers.iter().take(wanted).map(|&i| i as usize).collect();
        }
        if chosen.is_empty() {
            chosen = placed.iter().take(wanted).map(|p| p.node).collect();
        }
        Ok(Self {
            nodes: placed,
            servers: chosen,
        })
    }
}

/// Nodes that may compute, in order.
pub(crate) fn candidates(
    cluster: &Cluster,
    named: Option<&[String]>,
) -> Result<Vec<usize>, PlacementError> {
    let Some(named) = named else {
        return Ok((0..cluster.nodes.len())
            .filter(|&i| {
                cluster.nodes[i].role == Role::Worker && cluster.nodes[i].unusable.is_none()
            })
            .collect());
    };
    let by_name: HashMap<&str, usize> = cluster
        .nodes
        .iter()
        .map(|n| n.name.as_str())
        .zip(0..)
        .collect();
    let mut chosen = Vec::with_capacity(named.len());
    let mut seen = HashSet::with_capacity(named.len());
    for name in named {
        let Some(&index) = by_name.get(name.as_str()) else {
            let known = cluster.nodes.iter().map(|n| n.name.as_str());
            return Err(PlacementError::UnknownNode {
                name: name.clone(),
                near: near(name, known).into_iter().map(str::to_owned).collect(),
            });
        };
        if !seen.insert(index) {
            return Err(PlacementError::Twice(name.clone()));
        }
        chosen.push(index);
    }
    // A server among the named nodes stays a server.
    Ok(chosen
        .into_iter()
        .filter(|&i| cluster.nodes[i].role == Role::Worker)
        .collect())
}

fn check_batch(batch: &Batch, workers: usize) -> Result<(), PlacementError> {
    match batch {
        Batch::Each(sizes) if sizes.len() != workers => Err(PlacementError::BatchSizes {
            sizes: sizes.len(),
            workers,
        }),
        Batch::Global(samples) if *samples < workers as u64 => Err(PlacementError::EmptyBatch {
            samples: *samples,
            workers,
        }),
        _ => Ok(()),
    }
}

/// Servers live on server nodes, those that the selection names where it
/// names some; without such nodes they share the workers'. One a node.
fn servers(job: &Job, cluster: &Cluster, nodes: &[Placed], named: Option<&[String]>) -> Vec<usize> {
    let Strategy::ParameterServer(ps) = &job.strategy else {
        return Vec::new();
    };
    let wanted = ps.servers as usize;
    let dedicated = server_nodes(cluster, named);
    if dedicated.is_empty() {
        return nodes.iter().map(|p| p.node).take(wanted).collect();
    }
    dedicated.into_iter().take(wanted).collect()
}

/// Nodes for servers: those that are named, or all where none is.
pub(crate) fn server_nodes(cluster: &Cluster, named: Option<&[String]>) -> Vec<usize> {
    let is_server =
        |i: &usize| cluster.nodes[*i].role == Role::Server && cluster.nodes[*i].unusable.is_none();
    let all: Vec<usize> = (0..cluster.nodes.len()).filter(is_server).collect();
    let is_named = |i: &usize| named.is_some_and(|names| names.contains(&cluster.nodes[*i].name));
    if all.iter().any(is_named) {
        all.into_iter().filter(is_named).collect()
    } else {
        all
    }
}
