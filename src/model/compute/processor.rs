//! Processors: operations one after another on a few threads, in fp32
//! whatever the precision.

use super::Timing;
use super::accelerator::weights;
use crate::calibration::CpuParameters;
use crate::device::{Device, MEMORY_PER_THREAD};
use crate::units::Seconds;
use crate::workload::{Layer, LayerKind, Workload};

const BYTES: f64 = 4.0;

/// Size factor of layers whose shape nobody gave: a typical one.
const UNKNOWN_SIZE: f64 = 0.9;

struct Rates<'a> {
    p: &'a CpuParameters,
    threads: f64,
    /// Threads that work, after what sharing costs.
    effective: f64,
    peak: f64,
    bandwidth: f64,
    memory: f64,
    clock_hz: f64,
    /// Start-up of one operation.
    op: f64,
}

pub(super) fn time(p: &CpuParameters, device: &Device, workload: &Workload, batch: f64) -> Timing {
    let threads = f64::from(device.cores.max(1));
    let effective = threads / (1.0 + p.thread_loss * (threads - 1.0));
    // A thread draws what the lab's did; together no more than the socket has.
    let bandwidth = (MEMORY_PER_THREAD.get() * effective).min(device.memory_rate.get());
    let rates = Rates {
        p,
        threads,
        effective,
        peak: device.peaks.fp32.get() / threads * effective,
        bandwidth,
        memory: p.memory * bandwidth,
        clock_hz: device.clock_ghz * 1e9,
        op: p.op_s + p.thread_sync_s * synchronised(threads),
    };
    let costs: Vec<(f64, f64)> = workload
        .layers
        .iter()
        .enumerate()
        .map(|(i, layer)| rates.cost(layer, batch, i == 0))
        .collect();
    let traffic = 3.0 * BYTES * workload.parameters() as f64 / (bandwidth * p.optimizer);
    let tensor = p.optimizer_tensor_s * (rates.op / p.op_s);
    Timing::new(
        costs.iter().map(|c| Seconds::new(c.0)).collect(),
        costs.iter().map(|c| Seconds::new(c.1)).collect(),
        Seconds::new(traffic + tensor * workload.tensor_count() as f64),
    )
}

/// Waits of one operation's barrier: one a further thread as far as was
/// measured, then like a tree.
fn synchronised(threads: f64) -> f64 {
    const MEASURED: f64 = 4.0;
    threads.min(MEASURED) - 1.0 + (threads / MEASURED).max(1.0).log2()
}

impl Rates<'_> {
    /// Forward and backward time of a layer.
    fn cost(&self, layer: &Layer, batch: f64, first: bool) -> (f64, f64) {
        let p = self.p;
        let input = layer.input_elements * batch * BYTES;
        let output = layer.output_elements * batch * BYTES;
        let mut operations = 1.0;
        let (forward, backward) = match layer.kind {
            LayerKind::Convolution
            | LayerKind::Depthwise
            | LayerKind::Linear
            | LayerKind::Attention
            | LayerKind::Unspecified => {
                operations = 2.0;
                self.product(layer, batch, first)
            }
            LayerKind::BatchNorm | LayerKind::LayerNorm => (
                (input + output) / (self.bandwidth * p.norm_forward),
                3.0 * input / (self.bandwidth * p.norm_backward),
            ),
            LayerKind::Relu | LayerKind::Activation => {
                let share = if layer.kind == LayerKind::Relu {
                    p.relu_forward
                } else {
                    p.activation_forward
                };
                (
                    (input + output) / (self.bandwidth * share),
                    3.0 * output / (self.bandwidth * p.activation_backward),
                )
            }
            LayerKind::MaxPool | LayerKind::AvgPool | LayerKind::GlobalPool => {
                let cycles = match layer.kind {
                    LayerKind::MaxPool => p.max_pool_cycles,
                    LayerKind::AvgPool => p.avg_pool_cycles,
                    _ => 0.0,
                };
                let windows = layer.output_elements * batch * layer.window.area;
                (
                    (input + output) / self.memory
                        + windows * cycles / (self.clock_hz * self.effective),
                    (input + output) / (self.bandwidth * p.pool_backward),
                )
            }
            _ => self.streaming(layer, batch),
        };
        (forward + self.op, backward + self.op * operations)
    }

    fn product(&self, layer: &Layer, batch: f64, first: bool) -> (f64, f64) {
        let p = self.p;
        let flops = layer.forward_flops.get() * batch;
        let input = layer.input_elements * batch * BYTES;
        let output = layer.output_elements * batch * BYTES;
        let weight = weights(layer) * BYTES;
        let size = layer.gemm.map_or(UNKNOWN_SIZE, |gemm| {
            gemm.columns / (gemm.columns + p.half_channels) * gemm.depth
                / (gemm.depth + p.half_depth)
        });
        let mut forward_rate = self.peak * p.product_forward * size;
        let mut backward_rate = self.peak * p.product_backward * size;
        if layer.kind == LayerKind::Depthwise {
            forward_rate = forward_rate.max(self.peak * p.depthwise_forward);
            backward_rate = backward_rate.max(self.peak * p.depthwise_backward);
        }
        let pointwise = layer.kind == LayerKind::Convolution && layer.window.area == 1.0;
        let reorder = if pointwise && self.threads > 1.0 {
            p.reorder_passes * (input + output) / self.memory
        } else {
            0.0
        };
        // The first layer needs no gradient of its input.
        let products = if first { 1.0 } else { 2.0 };
        let forward = flops / forward_rate + (input + output + weight) / self.memory + reorder;
        let backward = products * flops / backward_rate
            + (2.0 * input + 2.0 * output + weight) / self.memory
            + weight / (self.bandwidth * p.weight_gradient)
            + 2.0 * reorder;
        (forward, backward)
    }

    fn streaming(&self, layer: &Layer, batch: f64) -> (f64, f64) {
        let input = layer.input_elements * batch * BYTES;
        let output = layer.output_elements * batch * BYTES;
        let mut forward = (input + output) / self.memory;
        let mut backward = 3.0 * output / self.memory;
        if layer.kind == LayerKind::Dropout {
            // Random numbers are drawn on one thread.
            forward += layer.output_elements * batch * self.p.dropout_cycles / self.clock_hz;
        }
        if layer.kind == LayerKind::Embedding {
            backward +=
                layer.parameter_count() as f64 * BYTES / (self.bandwidth * self.p.weight_gradient);
        }
        (forward, backward)
    }
}
