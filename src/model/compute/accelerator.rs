//! Accelerators: kernels on the device, issued by a host that runs ahead.

use super::Timing;
use crate::calibration::AcceleratorParameters;
use crate::device::Device;
use crate::job::Precision;
use crate::units::Seconds;
use crate::workload::{Layer, LayerKind, Workload};

/// fp32 lanes of these generations are not doubled, so products fill them
/// better than the H200's, on which the shares were fitted (seen on a V100).
const SINGLE_LANES: [&str; 6] = [
    "kepler",
    "maxwell",
    "pascal",
    "volta",
    "turing",
    "ampere-ga100",
];
const SINGLE_LANE_GAIN: f64 = 1.4;
/// No kernel fills more of a peak than this.
const MOST_OF_PEAK: f64 = 0.95;

/// Generations without matrix units, whatever their 16-bit peak.
const NO_MATRIX_UNITS: [&str; 6] = ["kepler", "maxwell", "pascal", "gcn5", "vega", "rdna2"];

/// fp32 lanes of a multiprocessor.
fn lanes(architecture: &str) -> f64 {
    match architecture {
        "kepler" => 192.0,
        "volta" | "turing" | "ampere-ga100" => 64.0,
        amd if amd.starts_with("cdna") || amd.starts_with("gcn") || amd.starts_with("vega") => 64.0,
        _ => 128.0,
    }
}

/// Multiprocessors of the H200, on which the parameters were fitted.
const H200_MULTIPROCESSORS: f64 = 132.0;

/// Size factor of layers whose shape nobody gave: a typical one.
const UNKNOWN_SIZE: f64 = 0.75;

/// What the formulas need of a device at a precision.
struct Rates<'a> {
    p: &'a AcceleratorParameters,
    /// Peak of products.
    peak: f64,
    /// Peak of the plain cores.
    peak_fp32: f64,
    /// Raw memory bandwidth.
    bandwidth: f64,
    /// Bandwidth of streaming kernels.
    memory: f64,
    forward: f64,
    backward: f64,
    /// Products run on matrix units.
    matrix_units: bool,
    /// 16-bit activations.
    half: bool,
    /// Weights are cast each step.
    autocast: bool,
    activation_bytes: f64,
    /// Channels at which batch normalisation has half its bandwidth here.
    norm_half_channels: f64,
}

/// Whether a device has matrix units for a precision.
fn has_matrix_units(device: &Device, precision: Precision) -> bool {
    precision != Precision::Fp32
        && device.peak(precision) > device.peaks.fp32
        && !NO_MATRIX_UNITS.contains(&&*device.architecture)
}

impl<'a> Rates<'a> {
    fn new(
        p: &'a AcceleratorParameters,
        device: &Device,
        precision: Precision,
        matrix_units: bool,
    ) -> Self {
        let peak_fp32 = device.peaks.fp32.get();
        let plain = NO_MATRIX_UNITS.contains(&&*device.architecture);
        let peak = if matrix_units || plain {
            device.peak(precision).get()
        } else {
            peak_fp32
        };
        let half = matches!(
            precision,
            Precision::Fp16 | Precision::Bf16 | Precision::Amp
        );
        let (mut forward, mut backward) = match (matrix_units, half) {
            (false, _) => (p.forward_fp32, p.backward_fp32),
            (true, false) => (p.forward_tf32, p.backward_tf32),
            (true, true) => (p.forward_half, p.backward_half),
        };
        if !matrix_units && SINGLE_LANES.contains(&&*device.architecture) {
            forward = (forward * SINGLE_LANE_GAIN).min(MOST_OF_PEAK);
            backward = (backward * SINGLE_LANE_GAIN).min(MOST_OF_PEAK);
        }
        let bandwidth = device.memory_rate.get();
        Self {
            p,
            peak,
            peak_fp32,
            bandwidth,
            memory: p.memory * bandwidth,
            forward,
            backward,
            matrix_units,
            half,
            autocast: precision == Precision::Amp,
            activation_bytes: precision.activation_bytes(),
            norm_half_channels: p.norm_half_channels * f64::from(device.cores)
                / lanes(&device.architecture)
                / H200_MULTIPROCESSORS,
        }
    }
}

/// One operation each way: the host's time to issue it, the device's to run.
struct Cost {
    host_forward: f64,
    forward: f64,
    host_backward: f64,
    backward: f64,
}

/// Host and device run side by side: an operation starts when the host has
/// issued it and the device is free. A layer's time is how far it moves the
/// device's clock.
pub(super) fn time(
    p: &AcceleratorParameters,
    device: &Device,
    workload: &Workload,
    batch: f64,
    precision: Precision,
) -> Timing {
    let plain = with_rates(&Rates::new(p, device, precision, false), workload, batch);
    if !has_matrix_units(device, precision) {
        return plain;
    }
    // Frameworks pick the faster kernels.
    let matrix = with_rates(&Rates::new(p, device, precision, true), workload, batch);
    if plain.step() < matrix.step() {
        plain
    } else {
        matrix
    }
}

fn with_rates(rates: &Rates<'_>, workload: &Workload, batch: f64) -> Timing {
    let p = rates.p;
    let layers = &workload.layers;
    let costs: Vec<Cost> = layers
        .iter()
        .enumerate()
        .map(|(i, layer)| rates.cost(layer, batch, i == 0))
        .collect();
    let (mut host, mut clock) = (0.0_f64, 0.0_f64);
    let mut issue = |host_time: f64, kernel: f64| {
        let before = clock;
        host += host_time;
        clock = clock.max(host) + kernel;
        Seconds::new(clock - before)
    };
    let forward = costs
        .iter()
        .map(|c| issue(c.host_forward, c.forward))
        .collect();
    let mut backward: Vec<Seconds> = costs
        .iter()
        .rev()
        .map(|c| issue(c.host_backward, c.backward))
        .collect();
    backward.reverse();
    // Reads weight and gradient, writes the weight; fused over all tensors.
    let traffic = 3.0 * 4.0 * workload.parameters() as f64 / rates.memory;
    let optimizer = issue(
        p.host_tensor_s * workload.tensor_count() as f64 + p.host_op_s,
        traffic + 3.0 * p.kernel_s,
    );
    Timing::new(forward, backward, optimizer)
}

impl Rates<'_> {
    fn cost(&self, layer: &Layer, batch: f64, first: bool) -> Cost {
        let p = self.p;
        let (forward, backward) = match layer.kind {
            LayerKind::Convolution
            | LayerKind::Linear
            | LayerKind::Attention
            | LayerKind::Unspecified => self.product(layer, batch, first),
            LayerKind::Depthwise => self.depthwise(layer, batch),
            LayerKind::BatchNorm | LayerKind::LayerNorm => self.norm(layer, batch),
            LayerKind::MaxPool | LayerKind::AvgPool | LayerKind::GlobalPool => {
                self.pool(layer, batch)
            }
            _ => self.streaming(layer, batch),
        };
        let (kernels_forward, kernels_backward) = self.kernels(layer.kind);
        let is_product = is_product(layer.kind) || layer.kind == LayerKind::Depthwise;
        let host = p.host_op_s
            + if is_product && self.autocast {
                p.host_autocast_s
            } else {
                0.0
            };
        // A join hands back one gradient an input; an addition none at all.
        let weight = match layer.kind {
            LayerKind::Copy => 3.0,
            LayerKind::Elementwise => 0.5,
            _ => 1.0,
        };
        Cost {
            host_forward: host,
            forward: forward + p.kernel_s * kernels_forward,
            host_backward: host * p.host_backward * weight,
            backward: backward + p.kernel_s * kernels_backward,
        }
    }

    /// Share of the rate that the size of a product leaves.
    fn size(&self, layer: &Layer) -> f64 {
        let p = self.p;
        let Some(gemm) = layer.gemm else {
            return UNKNOWN_SIZE;
        };
        let mut size = gemm.columns / (gemm.columns + p.half_channels) * gemm.depth
            / (gemm.depth + p.half_depth);
        if self.matrix_units && matches!(layer.kind, LayerKind::Convolution | LayerKind::Depthwise)
        {
            let channels = gemm.depth / layer.window.area;
            size *= channels / (channels + p.half_input_channels);
        }
        size
    }

    /// Time to move inputs, outputs and weights once.
    fn operands(&self, layer: &Layer, batch: f64) -> f64 {
        let activations = (layer.input_elements + layer.output_elements) * batch;
        (activations + weights(layer)) * self.activation_bytes / self.memory
    }

    fn product(&self, layer: &Layer, batch: f64, first: bool) -> (f64, f64) {
        let p = self.p;
        let flops = layer.forward_flops.get() * batch;
        let size = self.size(layer);
        let convolution = layer.kind == LayerKind::Convolution;
        let winograd = convolution
            && !self.matrix_units
            && layer.window.side == 3.0
            && layer.window.area == 9.0
            && layer.window.stride == 1.0;
        let forward_rate = self.peak * self.forward * size;
        let gain = if winograd { p.winograd_backward } else { 1.0 };
        // The low fp32 share backward is of convolution gradients; a plain
        // product is the same kernel both ways.
        let plain_product = !self.matrix_units && !convolution;
        let share = if plain_product {
            self.forward
        } else {
            self.backward
        };
        let backward_rate = self.peak * share * size * gain;
        let operands = self.operands(layer, batch);
        let both = 2.0 * operands;
        // fp32 weights to 16 bits on the way in, their gradients back.
        let cast = if self.autocast {
            6.0 * weights(layer) / self.memory
        } else {
            0.0
        };
        let layout = if convolution && self.matrix_units {
            p.layout_passes
        } else {
            0.0
        };
        // The first layer needs no gradient of its input.
        let products = if first { 1.0 } else { 2.0 };
        let forward = (flops / forward_rate).max(operands) + cast + layout * operands;
        let transform = if winograd { both } else { 0.0 };
        let backward =
            (products * flops / backward_rate).max(both) + cast + layout * both + transform;
        (forward, backward)
    }

    /// Direct kernels on the plain cores, or the product where it is faster.
    fn depthwise(&self, layer: &Layer, batch: f64) -> (f64, f64) {
        let p = self.p;
        let flops = layer.forward_flops.get() * batch;
        let size = self.size(layer);
        let small = if layer.window.side <= 5.0 {
            p.depthwise_small
        } else {
            1.0
        };
        let forward = (self.peak_fp32 * p.depthwise_forward).max(self.peak * self.forward * size);
        let backward =
            (self.peak_fp32 * p.depthwise_backward * small).max(self.peak * self.backward * size);
        let operands = self.operands(layer, batch);
        (
            flops / forward + operands,
            2.0 * flops / backward + 2.0 * operands,
        )
    }

    fn norm(&self, layer: &Layer, batch: f64) -> (f64, f64) {
        let p = self.p;
        let bytes = self.activation_bytes * batch;
        let share = if layer.kind == LayerKind::BatchNorm {
            let channels = layer.parameters.first().map_or(1.0, |c| *c as f64);
            let unfused = if self.half {
                p.norm_half_precision
            } else {
                1.0
            };
            channels / (channels + self.norm_half_channels) * unfused
        } else {
            1.0
        };
        let forward = (layer.input_elements + layer.output_elements) * bytes
            / (self.bandwidth * p.norm_forward * share);
        let backward =
            3.0 * layer.input_elements * bytes / (self.bandwidth * p.norm_backward * share);
        (forward, backward)
    }

    fn pool(&self, layer: &Layer, batch: f64) -> (f64, f64) {
        // Max pooling keeps a 64-bit index of every winner.
        let indices = if layer.kind == LayerKind::MaxPool {
            8.0
        } else {
            0.0
        };
        let traffic =
            (layer.input_elements + layer.output_elements) * self.activation_bytes * batch
                + indices * layer.output_elements * batch;
        (
            traffic / self.memory,
            traffic / (self.bandwidth * self.p.pool_backward),
        )
    }

    fn streaming(&self, layer: &Layer, batch: f64) -> (f64, f64) {
        let bytes = self.activation_bytes * batch;
        let forward = (layer.input_elements + layer.output_elements) * bytes / self.memory;
        let mut backward = 3.0 * layer.output_elements * bytes / self.memory;
        if layer.kind == LayerKind::Embedding {
            // The dense gradient of the whole table is written.
            backward += layer.parameter_count() as f64 * 4.0 / self.memory;
        }
        (forward, backward)
    }

    /// Kernels of one operation: matrix-unit convolutions convert layouts,
    /// autocast casts weights, 16-bit batch normalisation is not fused.
    fn kernels(&self, kind: LayerKind) -> (f64, f64) {
        let product = is_product(kind);
        let depthwise = kind == LayerKind::Depthwise;
        let layout = kind == LayerKind::Convolution && self.matrix_units;
        let cast = product && self.autocast;
        let unfused = kind == LayerKind::BatchNorm && self.half;
        let count = |condition: bool, kernels: f64| if condition { kernels } else { 0.0 };
        (
            1.0 + count(layout, 3.0) + count(cast, 1.0) + count(unfused, 2.0),
            1.0 + count(product || depthwise, 1.0)
                + count(layout, 5.0)
                + count(cast, 1.0)
                + count(unfused, 1.0),
        )
    }
}

const fn is_product(kind: LayerKind) -> bool {
    matches!(
        kind,
        LayerKind::Convolution | LayerKind::Linear | LayerKind::Attention | LayerKind::Unspecified
    )
}

/// Weight elements that a product reads.
pub(super) fn weights(layer: &Layer) -> f64 {
    match (layer.kind, layer.gemm) {
        (LayerKind::Attention, _) => 0.0,
        (_, Some(gemm)) => gemm.columns * gemm.depth * gemm.groups,
        (_, None) => layer.parameters.first().map_or(0.0, |w| *w as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_are_spelt_as_the_catalogue_spells_them() {
        let known = |name: &str| {
            crate::device::accelerators()
                .iter()
                .any(|d| &*d.architecture == name)
        };
        for name in SINGLE_LANES {
            assert!(known(name), "{name}");
        }
        assert!(NO_MATRIX_UNITS.iter().filter(|name| known(name)).count() >= 3);
    }
}
