//! One class of workers: its layers' times between transfers.

use super::Flow;
use super::shards::Shards;
use crate::calibration::TransferParameters;
use crate::model::case::Server;
use crate::model::compute::Timing;

/// Times of a class, gathered to the layers that have parameters.
#[derive(Clone, Debug)]
pub(super) struct ClassTimes {
    /// Forward time before the first layer with parameters.
    pub(super) lead: f64,
    /// Forward time of each, with the layers up to the next.
    pub(super) forward: Vec<f64>,
    /// Backward time up to each one's gradient, since the one above it.
    pub(super) backward: Vec<f64>,
    /// The whole forward pass.
    pub(super) forward_total: f64,
    /// The whole backward pass.
    pub(super) backward_total: f64,
}

impl ClassTimes {
    pub(super) fn new(timing: &Timing, shards: &Shards) -> Self {
        let mut times = Self {
            lead: 0.0,
            forward: vec![0.0; shards.len()],
            backward: vec![0.0; shards.len()],
            forward_total: timing.forward_total().get(),
            backward_total: timing.backward_total().get(),
        };
        let mut next = 0;
        for (layer, time) in timing.forward.iter().enumerate() {
            if shards.layers.get(next) == Some(&layer) {
                next += 1;
            }
            match next {
                0 => times.lead += time.get(),
                _ => times.forward[next - 1] += time.get(),
            }
        }
        let mut pending = 0.0;
        let mut next = shards.len();
        for (layer, time) in timing.backward.iter().enumerate().rev() {
            pending += time.get();
            if next > 0 && shards.layers[next - 1] == layer {
                next -= 1;
                times.backward[next] = pending;
                pending = 0.0;
            }
        }
        times
    }

    /// The forward pass while weights arrive in forward order: a layer waits
    /// for its own. A server sends every worker's copy of a layer before the
    /// next layer's; a worker's own link may be slower still.
    pub(super) fn forward_with_pulls(
        &self,
        shards: &Shards,
        flow: &Flow,
        servers: &[Server],
        load: f64,
        p: &TransferParameters,
    ) -> f64 {
        let mut clock = self.lead;
        let (mut own, mut messages) = (0.0, 0.0);
        for layer in 0..shards.len() {
            let bytes = shards.bytes[layer];
            own += bytes * flow.own;
            messages += shards.counts[layer];
            let rate = servers[shards.server[layer]].nic.get() * p.goodput;
            let shared = load * shards.server_upto[layer] / rate
                + p.startup_s * shards.server_counts_upto[layer];
            let arrival =
                p.latency_s + shared.max(own + p.startup_s * messages) + flow.copy_in * bytes;
            clock = clock.max(arrival) + flow.receive * bytes + self.forward[layer];
        }
        clock
    }

    /// The backward pass while gradients leave as they are ready, from `start`
    /// on. Returns when the last one has left over the worker's own link.
    pub(super) fn backward_with_pushes(
        &self,
        shards: &Shards,
        flow: &Flow,
        start: f64,
        p: &TransferParameters,
        ready: &mut [f64],
    ) -> f64 {
        let (mut clock, mut link) = (start, 0.0_f64);
        for layer in (0..shards.len()).rev() {
            let bytes = shards.bytes[layer];
            clock += self.backward[layer];
            ready[layer] = clock + flow.copy_out * bytes;
            link = link.max(ready[layer]) + bytes * flow.own + p.startup_s * shards.counts[layer];
            clock += flow.send * bytes;
        }
        link.max(start + self.backward_total + flow.send * shards.total)
    }
}

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
        let mut clock = 0.0;
        for layer in (0..shards.len()).rev() {
            clock += class.backward[layer];
            let moment = clock;
            clock += send * shards.bytes[layer];
            if !shards.on(server, layer) {
                continue;
            }
            let point = (moment, shards.bytes_from(server, layer), layer);
            while let [.., a, b] = hull.as_slice() {
                let cross = (b.0 - a.0) * (point.1 - a.1) - (b.1 - a.1) * (point.0 - a.0);
                if cross < 0.0 {
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
