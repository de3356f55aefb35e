//! Liu 2022 on the paper's testbed: 4 × 8 RTX 2080 Ti, 25 Gb/s. The paper
//! gives neither batch, utilisation nor overheads; those here are chosen and
//! stated, so that shapes can be compared, not digits.

use crate::model::liu::{
    Layer, Piecewise, Send, backward_time, compute_time, csf, osf, overlap, plan_adaptive,
    plan_buffer, plan_mg_wfbp, plan_none, update_cost, update_time,
};
use crate::workload::{Workload, catalogue, without_wide_layers};

/// What the paper leaves open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    /// GPUs of the testbed (given).
    pub workers: f64,
    /// Peak of an RTX 2080 Ti in FLOP/s (its data sheet).
    pub peak: f64,
    /// Samples a worker.
    pub batch: f64,
    /// Utilisation of the peak on `ResNet`s.
    pub utilisation_resnet: f64,
    /// The same on VGG.
    pub utilisation_vgg: f64,
    /// Effective bandwidth in bytes a second, so that VGG16 comes near its
    /// published scaling factor.
    pub bandwidth: f64,
    /// Overhead of an all-reduce in seconds.
    pub overhead: f64,
    /// Start-up of MG-WFBP's linear cost in seconds.
    pub linear_startup: f64,
}

/// The values chosen.
pub const CHOSEN: Chosen = Chosen {
    workers: 32.0,
    peak: 13.45e12,
    batch: 32.0,
    utilisation_resnet: 0.5,
    utilisation_vgg: 0.8,
    bandwidth: 1.25e9,
    overhead: 0.9e-3,
    linear_startup: 2e-5,
};

/// Eq. 18 of the same network: continuous at the paper's 45 KB.
const PIECEWISE: Piecewise = Piecewise {
    a1: 5.4e-5,
    b1: 1.35e-4,
    a2: 1.55e-9,
    b2: 9e-4,
    threshold: 45e3,
};

/// Scaling factors of one network.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// The network.
    pub network: String,
    /// One late all-reduce.
    pub csf: f64,
    /// Overlap, no fusion.
    pub none: f64,
    /// Buffers of 1 MB, 100 MB and 1 GB.
    pub buffers: [f64; 3],
    /// No fusion, judged under the piecewise cost.
    pub piecewise_none: f64,
    /// A buffer of 100 MB, judged the same.
    pub piecewise_buffer: f64,
    /// MG-WFBP's plan, judged the same.
    pub mg_wfbp: f64,
    /// adaFusion's plan, judged the same.
    pub adaptive: f64,
}

/// VGG16's scaling factor before and after its fully connected layers are
/// replaced, with a buffer of 100 MB (Table 3: 0.25 to 0.72).
pub fn replacement() -> Option<(f64, f64)> {
    let vgg = catalogue::find("vgg16")?.build(None);
    let replaced = without_wide_layers(&vgg)?;
    Some((scaling(&vgg).buffers[1], scaling(&replaced).buffers[1]))
}

/// The paper's five networks.
pub fn figures() -> Vec<Scaling> {
    ["resnet50", "resnet101", "resnet152", "vgg16", "vgg19"]
        .iter()
        .filter_map(|name| catalogue::find(name))
        .map(|entry| scaling(&entry.build(None)))
        .collect()
}

fn scaling(workload: &Workload) -> Scaling {
    let c = CHOSEN;
    let utilisation = if workload.name.starts_with("vgg") {
        c.utilisation_vgg
    } else {
        c.utilisation_resnet
    };
    let forward: Vec<f64> = workload
        .layers
        .iter()
        .map(|l| l.forward_flops.get())
        .collect();
    let compute = compute_time(c.batch, &forward, utilisation, c.peak);
    // Tensors in forward order; the weight carries the layer's time.
    let layers: Vec<Layer> = workload
        .layers
        .iter()
        .flat_map(|layer| {
            let time = backward_time(c.batch, layer.forward_flops.get(), utilisation, c.peak);
            layer
                .parameters
                .iter()
                .enumerate()
                .map(move |(i, elements)| Layer {
                    bytes: *elements as f64 * 4.0,
                    backward: if i == 0 { time } else { 0.0 },
                })
        })
        .collect();
    let (startup, per_byte) = update_cost(c.workers, c.bandwidth, c.overhead, c.peak, 4.0);
    let linear = |bytes: f64| startup + per_byte * bytes;
    let piecewise = |bytes: f64| PIECEWISE.time(bytes);
    let factor = |plan: &[Send], time: &dyn Fn(f64) -> f64| {
        osf(compute, update_time(&layers, plan, time), overlap(&layers))
    };
    let buffer = |bytes: f64| plan_buffer(&layers, bytes, f64::INFINITY);
    let total: f64 = layers.iter().map(|l| l.bytes).sum();
    let none = plan_none(&layers);
    Scaling {
        network: workload.name.clone(),
        csf: csf(compute, linear(total)),
        none: factor(&none, &linear),
        buffers: [1e6, 1e8, 1e9].map(|bytes| factor(&buffer(bytes), &linear)),
        piecewise_none: factor(&none, &piecewise),
        piecewise_buffer: factor(&buffer(1e8), &piecewise),
        mg_wfbp: factor(
            &plan_mg_wfbp(&layers, c.linear_startup, PIECEWISE.a2),
            &piecewise,
        ),
        adaptive: factor(&plan_adaptive(&layers, &piecewise), &piecewise),
    }
}
