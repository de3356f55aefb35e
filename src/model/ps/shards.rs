//! The weights as the servers hold them: layers whole, each on the server
//! that is least loaded so far.

use crate::calibration::TransferParameters;
use crate::job::{Fusion, Precision};
use crate::model::case::Server;
use crate::workload::Workload;

/// Layers with parameters, in forward order, and where they live.
#[derive(Clone, Debug)]
pub(crate) struct Shards {
    /// Index of each in the workload's layers.
    pub(crate) layers: Vec<usize>,
    /// Bytes of each.
    pub(crate) bytes: Vec<f64>,
    /// Messages of each.
    pub(crate) counts: Vec<f64>,
    /// Server of each.
    pub(crate) server: Vec<usize>,
    /// Bytes up to and with each.
    pub(crate) upto: Vec<f64>,
    /// Messages up to and with each.
    pub(crate) counts_upto: Vec<f64>,
    /// Bytes on the same server up to and with each.
    pub(crate) server_upto: Vec<f64>,
    /// Messages on the same server up to and with each.
    pub(crate) server_counts_upto: Vec<f64>,
    /// Bytes that have come in when each is there, with the streams of all
    /// servers side by side.
    pub(crate) beside: Vec<f64>,
    /// Bytes of each server.
    pub(crate) server_bytes: Vec<f64>,
    /// Messages of each server.
    pub(crate) server_messages: Vec<f64>,
    /// All bytes.
    pub(crate) total: f64,
    /// All messages.
    pub(crate) messages: f64,
    /// Parts are spread over all servers rather than placed whole.
    pub(crate) even: bool,
    servers: usize,
}

impl Shards {
    pub(crate) fn new(
        workload: &Workload,
        precision: Precision,
        fusion: Fusion,
        servers: usize,
    ) -> Self {
        let even = matches!(fusion, Fusion::Partition { .. });
        let mut shards = Self {
            layers: Vec::new(),
            bytes: Vec::new(),
            counts: Vec::new(),
            server: Vec::new(),
            upto: Vec::new(),
            counts_upto: Vec::new(),
            server_upto: Vec::new(),
            server_counts_upto: Vec::new(),
            beside: Vec::new(),
            server_bytes: vec![0.0; servers],
            server_messages: vec![0.0; servers],
            total: 0.0,
            messages: 0.0,
            even,
            servers,
        };
        for (index, layer) in workload.layers.iter().enumerate() {
            if layer.parameters.is_empty() {
                continue;
            }
            let bytes = layer.parameter_count() as f64 * precision.parameter_bytes();
            let messages = match fusion {
                Fusion::Partition { part, .. } => (bytes / part.get()).ceil(),
                Fusion::Buffer { buffer, .. } => {
                    (bytes / buffer.get()).min(layer.parameters.len() as f64)
                }
                _ => layer.parameters.len() as f64,
            };
            shards.push(index, bytes, messages);
        }
        shards.beside = shards
            .server_upto
            .iter()
            .map(|&upto| shards.server_bytes.iter().map(|&all| upto.min(all)).sum())
            .collect();
        shards
    }

    fn push(&mut self, layer: usize, bytes: f64, messages: f64) {
        let least = (0..self.servers).fold(0, |best, s| {
            if self.server_bytes[s] < self.server_bytes[best] {
                s
            } else {
                best
            }
        });
        self.layers.push(layer);
        self.bytes.push(bytes);
        self.counts.push(messages);
        self.server.push(least);
        self.total += bytes;
        self.messages += messages;
        self.upto.push(self.total);
        self.counts_upto.push(self.messages);
        if self.even {
            let share = 1.0 / self.servers as f64;
            for server in 0..self.servers {
                self.server_bytes[server] += bytes * share;
                self.server_messages[server] += messages * share;
            }
        } else {
            self.server_bytes[least] += bytes;
            self.server_messages[least] += messages;
        }
        self.server_upto.push(self.server_bytes[least]);
        self.server_counts_upto.push(self.server_messages[least]);
    }

    /// Layers with parameters.
    pub(crate) fn len(&self) -> usize {
        self.layers.len()
    }

    /// Whether a layer has bytes on a server.
    pub(crate) fn on(&self, server: usize, layer: usize) -> bool {
        self.even || self.server[layer] == server
    }

    /// Bytes that one worker still pushes to a server once the gradient of a
    /// layer is ready: that layer's and those of the layers before it.
    pub(crate) fn bytes_from(&self, server: usize, layer: usize) -> f64 {
        if self.even || self.server[layer] == server {
            self.server_upto[layer]
        } else {
            (0..layer)
                .rev()
                .find(|&l| self.server[l] == server)
                .map_or(0.0, |l| self.server_upto[l])
        }
    }

    /// When the server has sent a layer to all workers, since it began.
    pub(crate) fn sent(
        &self,
        layer: usize,
        servers: &[Server],
        load: f64,
        p: &TransferParameters,
    ) -> f64 {
        let rate = servers[self.server[layer]].nic.get() * p.goodput;
        load * self.server_upto[layer] / rate + p.startup_s * self.server_counts_upto[layer]
    }

    /// When everything is pulled, with nothing computing meanwhile; a byte
    /// takes `own` seconds on the worker's side.
    pub(crate) fn pull_all(
        &self,
        own: f64,
        servers: &[Server],
        load: f64,
        p: &TransferParameters,
    ) -> f64 {
        let own = self.total * own + p.startup_s * self.messages;
        let shared = servers.iter().enumerate().map(|(s, server)| {
            load * self.server_bytes[s] / (server.nic.get() * p.goodput)
                + p.startup_s * self.server_messages[s]
        });
        shared.fold(own, f64::max) + p.latency_s
    }
}
