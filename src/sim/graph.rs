//! A step as operations with predecessors, each on one resource.

/// What an operation occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// The way from a server to the worker.
    Down(u32),
    /// The worker's device, which does one thing at a time.
    Compute,
    /// The way from the worker to a server.
    Up(u32),
    /// A core of a server.
    Server(u32),
    /// Nothing: time that passes, such as a round trip.
    Wait,
}

/// One operation of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// What it is, for traces.
    pub name: String,
    /// What it occupies.
    pub resource: Resource,
    /// Bytes, where it is a transfer.
    pub bytes: f64,
    /// Operations that must be over before it, by index.
    pub after: Vec<u32>,
}

/// The operations of a step, ready to be walked: the same for every worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// The operations, in forward order of their kind.
    pub operations: Vec<Operation>,
    pub(super) predecessors: Vec<u32>,
    pub(super) resource: Vec<Resource>,
    pub(super) bytes: Vec<f64>,
    dependents: Vec<u32>,
    first_dependent: Vec<u32>,
    pub(super) roots: Vec<u32>,
}

/// Why operations make no step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// One waits for something that does not exist.
    #[error("operation `{0}` waits for one that does not exist")]
    Unknown(String),
    /// They wait for each other.
    #[error("operation `{0}` waits for itself, by way of others")]
    Cycle(String),
    /// There is none.
    #[error("a step needs at least one operation")]
    Empty,
}

impl Graph {
    /// From operations that name their predecessors.
    pub fn new(operations: Vec<Operation>) -> Result<Self, GraphError> {
        if operations.is_empty() {
            return Err(GraphError::Empty);
        }
        let count = operations.len();
        let mut dependents: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (i, op) in operations.iter().enumerate() {
            for &before in &op.after {
                dependents
                    .get_mut(before as usize)
                    .ok_or_else(|| GraphError::Unknown(op.name.clone()))?
                    .push(i as u32);
            }
        }
        let predecessors: Vec<u32> = operations.iter().map(|o| o.after.len() as u32).collect();
        let roots: Vec<u32> = (0..count as u32)
            .filter(|&i| predecessors[i as usize] == 0)
            .collect();
        if let Some(stuck) = never_ready(&predecessors, &dependents, &roots) {
            return Err(GraphError::Cycle(operations[stuck].name.clone()));
        }
        let mut first_dependent = Vec::with_capacity(count + 1);
        first_dependent.push(0);
        let mut flat = Vec::new();
        for list in &dependents {
            flat.extend_from_slice(list);
            first_dependent.push(flat.len() as u32);
        }
        Ok(Self {
            predecessors,
            resource: operations.iter().map(|o| o.resource).collect(),
            bytes: operations.iter().map(|o| o.bytes).collect(),
            dependents: flat,
            first_dependent,
            roots,
            operations,
        })
    }

    /// Operations of a step.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Never: a step has operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Those that wait for an operation.
    #[inline]
    pub(super) fn dependents(&self, op: u32) -> &[u32] {
        let from = self.first_dependent[op as usize] as usize;
        let to = self.first_dependent[op as usize + 1] as usize;
        &self.dependents[from..to]
    }
}

/// An operation whose turn never comes.
fn never_ready(predecessors: &[u32], dependents: &[Vec<u32>], roots: &[u32]) -> Option<usize> {
    let mut left = predecessors.to_vec();
    let mut ready = roots.to_vec();
    let mut seen = 0;
    while let Some(op) = ready.pop() {
        seen += 1;
        for &next in &dependents[op as usize] {
            left[next as usize] -= 1;
            if left[next as usize] == 0 {
                ready.push(next);
            }
        }
    }
    (seen < left.len())
        .then(|| left.iter().position(|&n| n > 0))
        .flatten()
}
