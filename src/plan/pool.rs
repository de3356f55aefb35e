//! Nodes that are alike, so that a plan is a count of each kind.

use super::Ask;
use crate::cluster::Node;
use crate::job::{Batch, Strategy};
use crate::model::{Case, CaseError, Group, Memory, ModelName, PredictError, Timings, step_of};
use crate::placement::{PlacementError, candidates, server_nodes};

/// Nodes that are alike in everything that a plan depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// The nodes, in file order; indices into the cluster.
    pub nodes: Vec<usize>,
    /// Workers of each.
    pub workers: u32,
    /// Price of each.
    pub price_per_hour: Option<f64>,
}

/// How many nodes of each kind a plan takes.
pub type Taken = Vec<u32>;

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// There is no answer to plan with.
    #[error(transparent)]
    Predict(#[from] PredictError),
    /// Batch sizes are given worker by worker.
    #[error(
        "`batch_size` lists sizes for given workers, so that nothing is left to plan\n  hint: give one size for all, or `global_batch_size`"
    )]
    BatchList,
    /// One worker only.
    #[error(
        "`strategy: single` is one worker: there is nothing to plan\n  hint: give the job a strategy for several, such as all_reduce"
    )]
    Single,
    /// Two limits on how far to go.
    #[error("--target-speedup and --min-marginal-gain contradict each other: give one of them")]
    TwoWishes,
    /// No price to minimise.
    #[error("--objective cost needs `price_per_hour` on every node; `{0}` has none")]
    NoPrice(String),
    /// Only updates that nobody waits for stand for a varying number.
    #[error(
        "--minibatch is for `strategy: async_all_reduce`\n  hint: elsewhere a step is always the batch of all workers"
    )]
    NotAsynchronous,
    /// No pair in range.
    #[error(
        "no number of these nodes and sub-batch up to 256 keeps the mean mini-batch within {range}; the nearest is {nearest:.1}"
    )]
    NoMinibatch {
        /// The range.
        range: String,
        /// The nearest there is.
        nearest: f64,
    },
    /// The target is out of reach.
    #[error(
        "no set of these nodes reaches a speedup of {target:.2}; the best is {best:.2} with {workers} workers\n  hint: the bottleneck there is {bottleneck}"
    )]
    OutOfReach {
        /// What was wanted.
        target: f64,
        /// What can be had.
        best: f64,
        /// With how many.
        workers: usize,
        /// Why no more.
        bottleneck: String,
    },
}

impl From<CaseError> for PlanError {
    fn from(error: CaseError) -> Self {
        Self::Predict(error.into())
    }
}

impl From<PlacementError> for PlanError {
    fn from(error: PlacementError) -> Self {
        Self::Predict(error.into())
    }
}

/// The nodes that a plan can take from.
pub struct Pool<'a> {
    ask: Ask<'a>,
    model: ModelName,
    /// Kinds, the fastest first.
    pub kinds: Vec<Kind>,
    servers: Vec<usize>,
    timings: Timings,
    /// Samples a second of one worker alone on the baseline.
    pub alone: f64,
    /// The node that speedups are measured against.
    pub baseline: usize,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

impl<'a> Pool<'a> {
    /// Groups the nodes that can compute.
    pub fn new(ask: Ask<'a>) -> Result<Self, PlanError> {
        let job = ask.job;
        match (&job.strategy, &job.batch) {
            (Strategy::Single, _) => return Err(PlanError::Single),
            (_, Batch::Each(_)) => return Err(PlanError::BatchList),
            _ => {}
        }
        let model = match ask.model {
            Some(model) => model,
            None => ModelName::default_for(&job.strategy)
                .ok_or_else(|| PredictError::NoModel(job.strategy.to_string()))?,
        };
        let nodes = &ask.cluster.nodes;
        let by_place = !ask.cluster.links.is_empty();
        let mut kinds: Vec<Kind> = Vec::new();
        for index in candidates(ask.cluster, ask.nodes)? {
            let node = &nodes[index];
            if node.workers() == 0 {
                continue;
            }
            let same = |kind: &&mut Kind| alike(node, &nodes[kind.nodes[0]], by_place);
            match kinds.iter_mut().find(same) {
                Some(kind) => kind.nodes.push(index),
                None => kinds.push(Kind {
                    nodes: vec![index],
                    workers: node.workers(),
                    price_per_hour: node.price_per_hour,
                }),
            }
        }
        if kinds.is_empty() {
            return Err(PlacementError::NothingComputes(Vec::new()).into());
        }
        let notes = leave_out_what_does_not_fit(&ask, &mut kinds);
        let servers = server_nodes(ask.cluster, ask.nodes);
        let mut pool = Self {
            ask,
            model,
            kinds,
            servers,
            timings: Timings::default(),
            alone: 0.0,
            baseline: 0,
            notes,
        };
        pool.rank()?;
        Ok(pool)
    }

    /// Sorts kinds by the speed of one of their workers, then by their NIC.
    fn rank(&mut self) -> Result<(), PlanError> {
        let batch = match self.ask.job.batch {
            Batch::PerWorker(size) => size,
            Batch::Global(samples) => u32::try_from(samples).unwrap_or(u32::MAX),
            Batch::Each(_) => return Err(PlanError::BatchList),
        };
        let mut ranked = Vec::with_capacity(self.kinds.len());
        for kind in std::mem::take(&mut self.kinds) {
            let node = &self.ask.cluster.nodes[kind.nodes[0]];
            let device = node.device().ok_or(CaseError::NoWorkers)?;
            let timing = self
                .timings
                .of(self.ask.job, device, batch, 1, self.ask.calibration)?;
            ranked.push((f64::from(batch) / timing.step().get(), node.nic.get(), kind));
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
        self.alone = ranked.first().map_or(0.0, |r| r.0);
        self.baseline = ranked.first().map_or(0, |r| r.2.nodes[0]);
        if let Some(name) = self.ask.baseline {
            let unknown = || PredictError::UnknownBaseline(name.to_owned());
            let nodes = &self.ask.cluster.nodes;
            self.baseline = nodes
                .iter()
                .position(|n| n.name == name)
                .ok_or_else(unknown)?;
            let device = nodes[self.baseline].device().ok_or_else(unknown)?;
            let timing = self
                .timings
                .of(self.ask.job, device, batch, 1, self.ask.calibration)?;
            self.alone = f64::from(batch) / timing.step().get();
        }
        self.kinds = ranked.into_iter().map(|r| r.2).collect();
        Ok(())
    }

    /// Workers of a plan.
    pub fn workers(&self, taken: &[u32]) -> usize {
        let of = |(kind, count): (&Kind, &u32)| kind.workers as usize * *count as usize;
        self.kinds.iter().zip(taken).map(of).sum()
    }

    /// Price of a plan, where every kind taken carries one.
    pub fn price(&self, taken: &[u32]) -> Option<f64> {
        let of = |(kind, count): (&Kind, &u32)| match count {
            0 => Some(0.0),
            _ => kind.price_per_hour.map(|p| p * f64::from(*count)),
        };
        let servers: Option<f64> = self
            .used_servers()
            .map(|&i| self.ask.cluster.nodes[i].price_per_hour)
            .sum();
        let workers: Option<f64> = self.kinds.iter().zip(taken).map(of).sum();
        Some(workers? + servers?)
    }

    /// A node of the plan, servers included, that carries no price.
    pub fn unpriced(&self) -> Option<usize> {
        let kinds = self
            .kinds
            .iter()
            .filter(|k| k.price_per_hour.is_none())
            .map(|k| k.nodes[0]);
        let nodes = &self.ask.cluster.nodes;
        let servers = self
            .used_servers()
            .copied()
            .filter(|&i| nodes[i].price_per_hour.is_none());
        kinds.chain(servers).next()
    }

    fn used_servers(&self) -> impl Iterator<Item = &usize> {
        let wanted = match &self.ask.job.strategy {
            Strategy::ParameterServer(ps) => ps.servers as usize,
            _ => 0,
        };
        self.servers.iter().take(wanted)
    }

    /// Samples a second of a plan; zero where it cannot run.
    pub fn throughput(&mut self, taken: &[u32]) -> Result<f64, PlanError> {
        let groups: Vec<Group> = self
            .kinds
            .iter()
            .zip(taken)
            .filter(|(_, count)| **count > 0)
            .map(|(kind, &nodes)| Group {
                node: kind.nodes[0],
                nodes,
                workers: kind.workers,
            })
            .collect();
        let workers = self.workers(taken);
        if workers == 0
            || matches!(self.ask.job.batch, Batch::Global(samples) if samples < workers as u64)
        {
            return Ok(0.0);
        }
        let case = Case::of_groups(
            self.ask.job,
            self.ask.cluster,
            self.ask.calibration,
            &groups,
            &self.servers,
            &mut self.timings,
        )?;
        let step = step_of(self.model, &case)?;
        Ok(case.samples() / step.time.get())
    }

    /// The nodes of a plan, fastest kinds first.
    pub fn chosen(&self, taken: &[u32]) -> Vec<usize> {
        let of = |(kind, count): (&Kind, &u32)| kind.nodes[..*count as usize].to_vec();
        self.kinds.iter().zip(taken).flat_map(of).collect()
    }
}

/// Whether two nodes are the same to a plan. Where they stand matters only
/// when the links between places are known.
fn alike(a: &Node, b: &Node, by_place: bool) -> bool {
    (!by_place || a.place == b.place)
        && a.nic == b.nic
        && a.transport == b.transport
        && a.price_per_hour == b.price_per_hour
        && a.workers() == b.workers()
        && a.device() == b.device()
}

/// Kinds whose memory a worker's batch overflows go, unless all do.
fn leave_out_what_does_not_fit(ask: &Ask<'_>, kinds: &mut Vec<Kind>) -> Vec<String> {
    let Batch::PerWorker(batch) = ask.job.batch else {
        return Vec::new();
    };
    let nodes = &ask.cluster.nodes;
    let fits = |kind: &Kind| {
        let device = nodes[kind.nodes[0]].device();
        let memory = device.and_then(|d| {
            Memory::of(
                &ask.job.workload,
                d,
                batch,
                ask.job.precision,
                &ask.job.strategy,
            )
        });
        memory.is_none_or(|m| m.fits())
    };
    if !kinds.iter().any(fits) {
        return Vec::new();
    }
    let out: Vec<String> = kinds
        .iter()
        .filter(|kind| !fits(kind))
        .map(|kind| {
            format!(
                "nodes like {} are left out: batch {batch} does not fit in memory there",
                nodes[kind.nodes[0]].name
            )
        })
        .collect();
    kinds.retain(fits);
    out
}
