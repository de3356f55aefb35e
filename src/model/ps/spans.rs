//! The predicted step as spans of time.

use super::Model;
use crate::model::span::{Span, Track};
use crate::units::Seconds;

impl Model<'_> {
    /// Spans of one worker of each class, and the server's update. They end
    /// with the step.
    pub fn spans(&mut self) -> Vec<Span> {
        let step = self.step();
        let p = self.case.calibration.transfer;
        let load = self.load();
        let update = self.update(&p);
        let mut spans = Vec::new();
        for k in 0..self.kind_of.len() {
            self.class_spans(k, load, step.time.get() - update, &mut spans);
        }
        spans.push(Span {
            track: Track::Server,
            name: "update".into(),
            start: step.time - Seconds::new(update),
            length: Seconds::new(update),
        });
        spans
    }

    fn class_spans(&self, k: usize, load: f64, arrived: f64, spans: &mut Vec<Span>) {
        let p = &self.case.calibration.transfer;
        let flow = self.flows[k];
        let (shards, times) = (&self.shards, self.kind(k));
        let handling = times.handling;
        let names = &self.case.job.workload.layers;
        let mut add = |track, name: &str, start: f64, end: f64| {
            if end > start {
                spans.push(Span {
                    track,
                    name: name.to_owned(),
                    start: Seconds::new(start),
                    length: Seconds::new(end - start),
                });
            }
        };
        if !self.strategy.overlap {
            let taken = flow.own.max(handling.receive);
            let pulled = shards.pull_all(taken, &self.case.servers, load, p)
                + (handling.copy_in + p.copy_s_per_byte) * shards.total;
            let forward = pulled + times.forward_total;
            let backward = forward + times.backward_total;
            add(Track::Pull(k), "all weights", 0.0, pulled);
            add(Track::Compute(k), "forward", pulled, forward);
            add(Track::Compute(k), "backward", forward, backward);
            add(Track::Push(k), "all gradients", backward, arrived);
            return;
        }
        let total = times.forward_total;
        let lead = total - times.forward_from.first().copied().unwrap_or(total);
        let (mut clock, mut before) = (lead, 0.0_f64);
        add(Track::Compute(k), "input", 0.0, lead);
        for layer in 0..shards.len() {
            let name = &names[shards.layers[layer]].name;
            let bytes = shards.bytes[layer];
            let own = shards.upto[layer] * flow.own + p.startup_s * shards.counts_upto[layer];
            let arrival = p.latency_s + self.sent[layer].max(own) + handling.copy_in * bytes;
            add(Track::Pull(k), name, before, arrival);
            before = before.max(arrival);
            let after = times.forward_from.get(layer + 1).copied().unwrap_or(0.0);
            let start = clock.max(arrival);
            clock = start + handling.receive * bytes + times.forward_from[layer] - after;
            add(Track::Compute(k), name, start, clock);
        }
        let start = clock;
        let mut link = 0.0_f64;
        for layer in (0..shards.len()).rev() {
            let name = &names[shards.layers[layer]].name;
            let bytes = shards.bytes[layer];
            let ready = start + times.ready(shards, layer);
            let end = ready - handling.copy_out * bytes;
            add(Track::Compute(k), &format!("{name} (backward)"), clock, end);
            clock = end + handling.send * bytes;
            let from = link.max(ready);
            link = from + bytes * flow.own + p.startup_s * shards.counts[layer];
            // Others may hold the server's NIC until the end.
            let shown = if layer == 0 {
                link.max(arrived - p.latency_s)
            } else {
                link
            };
            add(Track::Push(k), name, from, shown.min(arrived));
        }
    }
}
