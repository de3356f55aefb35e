//! One kind of worker: when its forward pass ends and its gradients leave.
//!
//! Both passes are chains of "wait for the later of two, then add". Unrolled,
//! the end is the latest of (arrival + all that comes after it). Where the
//! arrival depends on the worker's own link, each layer is a line in the
//! seconds a byte takes there, and only the upper envelope of the lines
//! matters: a handful, found once, so that a worker more costs next to
//! nothing.

use super::shards::Shards;
use crate::calibration::TransferParameters;
use crate::model::compute::Timing;
use crate::units::Seconds;

/// What bytes cost a worker beside the network, in seconds each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Handling {
    /// From the NIC to where they are used, while the device computes.
    pub(crate) copy_in: f64,
    /// From the device to the NIC, while it computes.
    pub(crate) copy_out: f64,
    /// Time that receiving takes from the computing thread.
    pub(crate) receive: f64,
    /// Time that sending takes from the computing thread.
    pub(crate) send: f64,
}

/// A moment that depends on the worker's own link: `at + bytes · own`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    bytes: f64,
    at: f64,
}

/// Times of a kind, summed at the layers that have parameters.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) handling: Handling,
    /// Forward time from each layer to the end.
    pub(crate) forward_from: Vec<f64>,
    /// Backward time until each one's gradient is ready.
    pub(crate) backward_upto: Vec<f64>,
    /// The whole forward pass.
    pub(crate) forward_total: f64,
    /// The whole backward pass.
    pub(crate) backward_total: f64,
    /// When the forward pass ends, by the layer that the own link holds up.
    pulls: Vec<Line>,
    /// When the last gradient has left, since the backward pass began, by the
    /// layer from which on the own link is never idle.
    pushes: Vec<Line>,
}

impl Kind {
    pub(crate) fn new(
        timing: &Timing,
        handling: Handling,
        shards: &Shards,
        p: &TransferParameters,
    ) -> Self {
        let mut kind = Self {
            handling,
            forward_from: from_the_end(&timing.forward, shards),
            backward_upto: from_the_end(&timing.backward, shards),
            forward_total: timing.forward_total().get(),
            backward_total: timing.backward_total().get(),
            pulls: Vec::new(),
            pushes: Vec::new(),
        };
        let lines = |at: &dyn Fn(usize) -> f64| {
            envelope((0..shards.len()).map(|layer| Line {
                bytes: shards.upto[layer],
                at: at(layer) + p.startup_s * shards.counts_upto[layer],
            }))
        };
        let pulls = lines(&|layer| kind.after_arrival(shards, layer));
        let pushes = lines(&|layer| kind.ready(shards, layer));
        (kind.pulls, kind.pushes) = (pulls, pushes);
        kind
    }

    /// What is left of the forward pass once a layer's weights are there:
    /// copying them in, and computing this layer and all after it. Receiving
    /// takes time from the computing thread.
    pub(super) fn after_arrival(&self, shards: &Shards, layer: usize) -> f64 {
        let from = shards.total - shards.upto[layer] + shards.bytes[layer];
        self.handling.copy_in * shards.bytes[layer]
            + self.handling.receive * from
            + self.forward_from[layer]
    }

    /// When the gradient of a layer can leave, since the backward pass began.
    /// Sending what was ready before takes time from the computing thread.
    pub(crate) fn ready(&self, shards: &Shards, layer: usize) -> f64 {
        let before = shards.total - shards.upto[layer];
        self.backward_upto[layer]
            + self.handling.send * before
            + self.handling.copy_out * shards.bytes[layer]
    }

    /// The end of a forward pass for which the servers alone set the pace:
    /// `sent` is when each layer has been sent to all workers.
    pub(crate) fn forward_behind_servers(&self, shards: &Shards, sent: &[f64]) -> f64 {
        latest(shards.len(), |layer| {
            sent[layer] + self.after_arrival(shards, layer)
        })
    }

    /// The same with all weights there from the start.
    pub(crate) fn unhindered(&self, shards: &Shards) -> f64 {
        self.forward_total + self.handling.receive * shards.total
    }

    /// The same where only the worker's own link does.
    pub(crate) fn forward_behind_link(&self, own: f64) -> f64 {
        highest(&self.pulls, own)
    }

    /// When the last gradient has left over the own link and the backward
    /// pass is done, since it began.
    pub(crate) fn pushed(&self, shards: &Shards, own: f64) -> f64 {
        let computed = self.backward_total + self.handling.send * shards.total;
        highest(&self.pushes, own).max(computed)
    }
}

/// For each layer with parameters, the time of it and all layers after it.
fn from_the_end(times: &[Seconds], shards: &Shards) -> Vec<f64> {
    let mut sums = vec![0.0; shards.len()];
    let (mut sum, mut end) = (0.0, times.len());
    for shard in (0..shards.len()).rev() {
        let layer = shards.layers[shard];
        sum += times[layer..end].iter().map(|t| t.get()).sum::<f64>();
        end = layer;
        sums[shard] = sum;
    }
    sums
}

fn highest(lines: &[Line], own: f64) -> f64 {
    lines
        .iter()
        .map(|line| line.at + line.bytes * own)
        .fold(0.0, later)
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

/// The lines that are highest somewhere; bytes ascend on the way in.
fn envelope(lines: impl Iterator<Item = Line>) -> Vec<Line> {
    let mut kept: Vec<Line> = Vec::new();
    for line in lines {
        // One that lies no higher and rises no faster is never seen.
        while kept.last().is_some_and(|last| last.at <= line.at) {
            kept.pop();
        }
        while let [.., a, b] = kept.as_slice() {
            let hides =
                (b.bytes - a.bytes) * (line.at - a.at) - (b.at - a.at) * (line.bytes - a.bytes);
            if hides < 0.0 {
                break;
            }
            kept.pop();
        }
        kept.push(line);
    }
    kept
}

/// How far, as a share of both the backward pass and the bytes, a vertex must
/// stand out of what is kept: far below what any parameter is known to.
const STANDS_OUT: f64 = 5e-4;

/// A gradient as a server's queue sees it.
#[derive(Clone, Copy, Debug)]
struct Point {
    ready: f64,
    bytes: f64,
    layer: usize,
}

/// Twice the area of a triangle, negative where `b` stands out upwards.
fn turn(a: Point, b: Point, c: Point) -> f64 {
    (b.ready - a.ready) * (c.bytes - a.bytes) - (b.bytes - a.bytes) * (c.ready - a.ready)
}

/// The gradients at which the queue of a server may be decided: vertices of
/// the upper hull of (moment ready, bytes still to come), over all kinds.
/// A point below the hull never gives the latest finish, whatever the rate.
pub(crate) fn vertices(kinds: &[Kind], shards: &Shards, server: usize) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    for kind in kinds {
        let mut hull: Vec<Point> = Vec::new();
        for layer in (0..shards.len()).rev().filter(|&l| shards.on(server, l)) {
            let point = Point {
                ready: kind.ready(shards, layer),
                bytes: shards.bytes_from(server, layer),
                layer,
            };
            while let [.., a, b] = hull.as_slice() {
                if turn(*a, *b, point) < 0.0 {
                    break;
                }
                hull.pop();
            }
            hull.push(point);
        }
        let flat = STANDS_OUT * kind.backward_total * shards.server_bytes[server];
        keep(&hull, flat, &mut kept);
    }
    kept
}

/// Keeps both ends of a stretch of hull, and whatever stands out between.
fn keep(hull: &[Point], flat: f64, kept: &mut Vec<usize>) {
    let (Some(first), Some(last)) = (hull.first(), hull.last()) else {
        return;
    };
    for end in [first, last] {
        if !kept.contains(&end.layer) {
            kept.push(end.layer);
        }
    }
    let inner = 1..hull.len().saturating_sub(1);
    let out = |i: usize| -turn(*first, hull[i], *last);
    if let Some(most) = inner.max_by(|&a, &b| out(a).total_cmp(&out(b)))
        && out(most) > flat
    {
        keep(&hull[..=most], flat, kept);
        keep(&hull[most..], flat, kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_is_as_high_as_all_lines_together() {
        let lines: Vec<Line> = [
            (1.0, 9.0),
            (2.0, 8.9),
            (3.0, 5.0),
            (4.0, 8.0),
            (6.0, 7.9),
            (9.0, 1.0),
        ]
        .map(|(bytes, at)| Line { bytes, at })
        .to_vec();
        let kept = envelope(lines.iter().copied());
        assert!(kept.len() < lines.len());
        for own in [0.0, 0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 1000.0] {
            assert_eq!(highest(&kept, own), highest(&lines, own), "at {own}");
        }
    }
}
