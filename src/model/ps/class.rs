//! One class of workers: when its forward pass ends and its gradients leave.
//!
//! Both passes are chains of "wait for the later of two, then add": unrolled,
//! the end is the latest of (arrival + all that comes after it), so each
//! layer is looked at once and on its own.

use super::Flow;
use super::shards::Shards;
use crate::calibration::TransferParameters;
use crate::model::compute::Timing;

/// Times of a class, summed at the layers that have parameters.
#[derive(Clone, Debug)]
pub(super) struct ClassTimes {
    /// Forward time from each layer to the end.
    pub(super) forward_from: Vec<f64>,
    /// Backward time until each one's gradient is ready.
    pub(super) backward_upto: Vec<f64>,
    /// The whole forward pass.
    pub(super) forward_total: f64,
    /// The whole backward pass.
    pub(super) backward_total: f64,
}

impl ClassTimes {
    pub(super) fn new(timing: &Timing, shards: &Shards) -> Self {
        let tail = |times: &[crate::units::Seconds], from: usize| -> f64 {
            times[from..].iter().map(|t| t.get()).sum()
        };
        // Sums from the end, so that each layer is added once.
        let mut forward_from = vec![0.0; shards.len()];
        let mut backward_upto = vec![0.0; shards.len()];
        let (mut forward, mut backward, mut end) = (0.0, 0.0, timing.forward.len());
        for shard in (0..shards.len()).rev() {
            let layer = shards.layers[shard];
            forward += tail(&timing.forward[..end], layer);
            backward += tail(&timing.backward[..end], layer);
            end = layer;
            forward_from[shard] = forward;
            backward_upto[shard] = backward;
        }
        Self {
            forward_from,
            backward_upto,
            forward_total: timing.forward_total().get(),
            backward_total: timing.backward_total().get(),
        }
    }

    /// The end of a forward pass while weights arrive in forward order. A
    /// layer waits for its own: a server sends every worker's copy of a layer
    /// before the next layer's (`shared`), and the worker's own link may be
    /// slower still. Receiving takes time from the computing thread.
    pub(super) fn forward_with_pulls(
        &self,
        shards: &Shards,
        flow: &Flow,
        shared: &[f64],
        p: &TransferParameters,
    ) -> f64 {
        let unhindered = self.forward_total + flow.receive * shards.total;
        // Slices of one length let the loop run without bound checks.
        let layers = shards.len();
        let (upto, counts, bytes) = (
            &shards.upto[..layers],
            &shards.counts_upto[..layers],
            &shards.bytes[..layers],
        );
        let (shared, forward_from) = (&shared[..layers], &self.forward_from[..layers]);
        let latest = latest(layers, |layer| {
            let own = upto[layer] * flow.own + p.startup_s * counts[layer];
            let waited = later(shared[layer], own) + flow.copy_in * bytes[layer];
            let from = shards.total - upto[layer] + bytes[layer];
            waited + flow.receive * from + forward_from[layer]
        });
        (latest + p.latency_s).max(unhindered)
    }

    /// When the gradient of a layer can leave, `start` being when the
    /// backward pass began. Sending what was ready before takes time from
    /// the computing thread.
    pub(super) fn ready(&self, shards: &Shards, flow: &Flow, start: f64, layer: usize) -> f64 {
        let before = shards.total - shards.upto[layer];
        start + self.backward_upto[layer] + flow.send * before + flow.copy_out * shards.bytes[layer]
    }

    /// When the last gradient has left over the worker's own link and the
    /// backward pass is done.
    pub(super) fn pushed(
        &self,
        shards: &Shards,
        flow: &Flow,
        start: f64,
        p: &TransferParameters,
    ) -> f64 {
        let layers = shards.len();
        let (upto, counts, bytes) = (
            &shards.upto[..layers],
            &shards.counts_upto[..layers],
            &shards.bytes[..layers],
        );
        let backward_upto = &self.backward_upto[..layers];
        let link = latest(layers, |layer| {
            let before = shards.total - upto[layer];
            let ready = backward_upto[layer] + flow.send * before + flow.copy_out * bytes[layer];
            ready + upto[layer] * flow.own + p.startup_s * counts[layer]
        });
        (start + link).max(start + self.backward_total + flow.send * shards.total)
    }
}

/// The later of two moments; unlike `f64::max` it is one instruction.
const fn later(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The latest of `count` moments, in four lanes that do not wait for another.
fn latest(count: usize, moment: impl Fn(usize) -> f64) -> f64 {
    let mut lanes = [0.0_f64; 4];
    let whole = count - count % 4;
    for base in (0..whole).step_by(4) {
        for (lane, latest) in lanes.iter_mut().enumerate() {
            *latest = later(moment(base + lane), *latest);
        }
    }
    for layer in whole..count {
        lanes[0] = later(moment(layer), lanes[0]);
    }
    later(later(lanes[0], lanes[1]), later(lanes[2], lanes[3]))
}

/// How far, as a share of both the backward pass and the bytes, a vertex must
/// stand out of the hull to be looked at. A thousandth is far below what any
/// parameter is known to, and halves the vertices.
const STANDS_OUT: f64 = 1e-3;

/// The gradients at which the queue of a server may be decided: vertices of
/// the upper hull of (moment ready, bytes still to come), over all classes.
/// A point below the hull never gives the latest finish, whatever the rate.
pub(super) fn vertices(
    classes: &[ClassTimes],
    shards: &Shards,
    server: usize,
    send: f64,
) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    for class in classes {
        let mut hull: Vec<(f64, f64, usize)> = Vec::new();
        let flat = STANDS_OUT * class.backward_total * shards.server_bytes[server];
        for layer in (0..shards.len()).rev().filter(|&l| shards.on(server, l)) {
            let moment = class.backward_upto[layer] + send * (shards.total - shards.upto[layer]);
            let point = (moment, shards.bytes_from(server, layer), layer);
            while let [.., a, b] = hull.as_slice() {
                let cross = (b.0 - a.0) * (point.1 - a.1) - (b.1 - a.1) * (point.0 - a.0);
                if cross < -flat {
                    break;
                }
                hull.pop();
            }
            hull.push(point);
        }
        for (_, _, layer) in hull {
            if !kept.contains(&layer) {
                kept.push(layer);
            }
        }
    }
    kept
}
