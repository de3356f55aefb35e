//! A step as operations: pulls, layers forward and backward, pushes, updates.

use super::{Settings, Update};
use crate::job::{ParameterServer, Sync};
use crate::model::case::Case;
use crate::model::compute::Timing;
use crate::model::ps::{Handling, Shards};
use crate::sim::{Costs, Operation, Resource};

/// What an operation of the step stands for.
#[derive(Clone, Copy, Debug)]
enum Means {
    Transfer,
    /// A layer, with bytes and messages that its worker takes in before it.
    Forward(usize, f64, f64),
    /// A layer, with its gradients' bytes and those that are being given out
    /// meanwhile.
    Backward(usize, f64, f64),
    /// Giving out the last gradients.
    LastSent(f64),
    Update(f64),
    RoundTrips,
}

/// The operations of a step and what they stand for.
pub(super) struct Layout {
    pub(super) operations: Vec<Operation>,
    means: Vec<Means>,
    overlap: bool,
    total: f64,
}

/// One message between a worker and a server.
#[derive(Clone, Copy)]
struct Message {
    layer: usize,
    server: u32,
    bytes: f64,
    /// What its start-up holds the link for, in bytes.
    starting: f64,
}

/// What the start-up of a message holds a link for: as many bytes as the
/// slowest worker would have sent meanwhile.
fn starting(case: &Case<'_>) -> f64 {
    let p = &case.calibration.transfer;
    let slowest = case.classes.iter().map(|c| c.nic.get()).reduce(f64::min);
    p.startup_s * slowest.unwrap_or(0.0) * p.goodput
}

/// Every layer's messages, in forward order: a tensor each, or equal parts
/// on every server where tensors are cut.
fn messages(case: &Case<'_>, shards: &Shards, starting: f64) -> Vec<Message> {
    let element = case.job.precision.parameter_bytes();
    let mut all = Vec::new();
    for (shard, &layer) in shards.layers.iter().enumerate() {
        let tensors = &case.job.workload.layers[layer].parameters;
        if shards.even {
            let servers = shards.server_bytes.len();
            let bytes = shards.bytes[shard] / servers as f64;
            all.extend((0..servers as u32).map(|server| Message {
                layer,
                server,
                bytes,
                starting,
            }));
        } else {
            let server = shards.server[shard] as u32;
            all.extend(tensors.iter().map(|&elements| Message {
                layer,
                server,
                bytes: elements as f64 * element,
                starting,
            }));
        }
    }
    all
}

impl Layout {
    pub(super) fn new(
        case: &Case<'_>,
        strategy: ParameterServer,
        shards: &Shards,
        settings: &Settings,
    ) -> Self {
        let layers = &case.job.workload.layers;
        let mut step = Self {
            operations: Vec::new(),
            means: Vec::new(),
            overlap: strategy.overlap,
            total: shards.total,
        };
        let messages = messages(case, shards, starting(case));
        let mut bytes = vec![0.0; layers.len()];
        let mut pulls: Vec<Vec<u32>> = vec![Vec::new(); layers.len()];
        for m in &messages {
            let name = format!("pull {}", layers[m.layer].name);
            let resource = Resource::Down(m.server);
            let carried = m.bytes + m.starting;
            let op = step.add(name, resource, carried, Vec::new(), Means::Transfer);
            pulls[m.layer].push(op);
            bytes[m.layer] += m.bytes;
        }
        let mut last: Option<u32> = None;
        for (layer, l) in layers.iter().enumerate() {
            let mut after: Vec<u32> = last.into_iter().collect();
            if strategy.overlap {
                after.extend_from_slice(&pulls[layer]);
            } else if last.is_none() {
                after.extend(pulls.iter().flatten());
            }
            let means = Means::Forward(layer, bytes[layer], pulls[layer].len() as f64);
            last = Some(step.add(l.name.clone(), Resource::Compute, 0.0, after, means));
        }
        let mut backward = vec![0; layers.len()];
        let mut leaving = 0.0;
        for (layer, l) in layers.iter().enumerate().rev() {
            let name = format!("{} (backward)", l.name);
            let means = Means::Backward(layer, bytes[layer], leaving);
            leaving = bytes[layer];
            let after = last.into_iter().collect();
            let op = step.add(name, Resource::Compute, 0.0, after, means);
            backward[layer] = op;
            last = Some(op);
        }
        let mut pushes: Vec<(u32, Message)> = Vec::with_capacity(messages.len());
        for m in messages.iter().rev() {
            let ready = if strategy.overlap {
                backward[m.layer]
            } else {
                last.unwrap_or(0)
            };
            let name = format!("push {}", layers[m.layer].name);
            let resource = Resource::Up(m.server);
            let carried = m.bytes + m.starting;
            let op = step.add(name, resource, carried, vec![ready], Means::Transfer);
            pushes.push((op, *m));
        }
        let mut before_trip: Vec<u32> = pushes.iter().map(|p| p.0).collect();
        if strategy.overlap && leaving > 0.0 {
            let after = last.into_iter().collect();
            let means = Means::LastSent(leaving);
            before_trip.push(step.add("last sent".into(), Resource::Compute, 0.0, after, means));
        }
        let trips = step.add(
            "round trips".into(),
            Resource::Wait,
            0.0,
            before_trip,
            Means::RoundTrips,
        );
        if strategy.sync != Sync::Bsp {
            step.updates(&pushes, shards.server_bytes.len(), trips, settings, layers);
        }
        step
    }

    fn updates(
        &mut self,
        pushes: &[(u32, Message)],
        servers: usize,
        trips: u32,
        settings: &Settings,
        layers: &[crate::workload::Layer],
    ) {
        match settings.update {
            Update::Whole => {
                for server in 0..servers as u32 {
                    let of_server = pushes.iter().filter(|p| p.1.server == server);
                    let bytes: f64 = of_server.map(|p| p.1.bytes).sum();
                    if bytes > 0.0 {
                        let resource = Resource::Server(server);
                        self.add(
                            "update".into(),
                            resource,
                            0.0,
                            vec![trips],
                            Means::Update(bytes),
                        );
                    }
                }
            }
            Update::EachTensor(_) => {
                for &(push, m) in pushes {
                    let name = format!("update {}", layers[m.layer].name);
                    let resource = Resource::Server(m.server);
                    self.add(name, resource, 0.0, vec![push], Means::Update(m.bytes));
                }
            }
        }
    }

    fn add(
        &mut self,
        name: String,
        resource: Resource,
        bytes: f64,
        after: Vec<u32>,
        means: Means,
    ) -> u32 {
        self.operations.push(Operation {
            name,
            resource,
            bytes,
            after,
        });
        self.means.push(means);
        self.means.len() as u32 - 1
    }

    pub(super) fn costs(
        &self,
        case: &Case<'_>,
        timing: &Timing,
        handling: Handling,
        settings: &Settings,
    ) -> Costs {
        let p = &case.calibration.transfer;
        let seconds = self.means.iter().map(|means| match *means {
            Means::Transfer => 0.0,
            Means::Forward(layer, bytes, messages) => {
                let mut time = timing.forward[layer].get() + settings.message_s * messages;
                if self.overlap {
                    time += (handling.receive + handling.copy_in) * bytes;
                } else if layer == 0 {
                    // All is copied in before anything computes.
                    time += (handling.copy_in + p.copy_s_per_byte) * self.total;
                }
                time
            }
            Means::Backward(layer, bytes, leaving) => {
                let mut time = timing.backward[layer].get();
                if self.overlap {
                    time += handling.send * leaving + handling.copy_out * bytes;
                } else if layer == 0 {
                    time += handling.copy_out * self.total;
                }
                time
            }
            Means::LastSent(bytes) => handling.send * bytes,
            // No server is faster at it than the worker's own optimizer.
            Means::Update(bytes) => {
                (p.update_s_per_byte * bytes).max(timing.optimizer.get() * bytes / self.total)
            }
            Means::RoundTrips => 2.0 * p.latency_s,
        });
        Costs(seconds.collect())
    }
}
