//! What one training step computes and which gradients it produces: layers in
//! forward order, whatever they were described with.

mod build;
pub mod catalogue;
mod layer;
mod profile;
mod read;
mod replace;
mod totals;

pub use build::Builder;
pub use layer::{Gemm, Layer, LayerKind, Window};
pub use profile::{Profile, ProfileError};
pub use read::{MAX_LAYERS, read};
pub use replace::without_wide_layers;
pub use totals::{Totals, TotalsError};

use crate::units::Flops;

/// A network as a data-parallel worker sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Name in answers and metrics.
    pub name: String,
    /// Layers in forward order.
    pub layers: Vec<Layer>,
    /// Tokens a sample, for networks that read sequences.
    pub sequence_length: Option<u32>,
    /// Measured times that replace the compute model's, where given.
    pub profile: Option<Profile>,
    /// More profiles of the same layers: steps vary, and a simulation draws
    /// from all of them.
    pub further_profiles: Vec<Profile>,
    /// Whether the layers say what they compute. False for totals without
    /// FLOPs: only a calibration that has seen the workload can time it.
    pub has_flops: bool,
}

/// One gradient, in the order in which the backward pass produces them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The layer it belongs to, an index into [`Workload::layers`].
    pub layer: usize,
    /// Number of elements.
    pub elements: u64,
}

impl Workload {
    /// A workload of layers that say what they compute.
    pub fn new(name: impl Into<String>, layers: Vec<Layer>) -> Self {
        Self {
            name: name.into(),
            layers,
            sequence_length: None,
            profile: None,
            further_profiles: Vec::new(),
            has_flops: true,
        }
    }

    /// Trainable parameters.
    pub fn parameters(&self) -> u64 {
        self.layers.iter().map(Layer::parameter_count).sum()
    }

    /// Parameter tensors.
    pub fn tensor_count(&self) -> usize {
        self.layers.iter().map(|l| l.parameters.len()).sum()
    }

    /// Arithmetic of the forward pass of one sample.
    pub fn forward_flops(&self) -> Flops {
        self.layers.iter().map(|l| l.forward_flops).sum()
    }

    /// Elements that the forward pass of one sample leaves for the backward.
    pub fn activation_elements(&self) -> f64 {
        self.layers.iter().map(Layer::saved_elements).sum()
    }

    /// Gradients in the order in which they become ready: layers backwards;
    /// within a layer the weight first, but a linear layer's bias before its
    /// weight (seen in every profile of the lab).
    pub fn gradients(&self) -> impl Iterator<Item = Tensor> + '_ {
        self.layers.iter().enumerate().rev().flat_map(|(layer, l)| {
            let bias_first = l.kind == LayerKind::Linear;
            (0..l.parameters.len()).map(move |i| {
                let i = if bias_first {
                    l.parameters.len() - 1 - i
                } else {
                    i
                };
                Tensor {
                    layer,
                    elements: l.parameters[i],
                }
            })
        })
    }
}
