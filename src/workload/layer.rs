//! One layer: what it computes, what it reads and writes, what it learns.

use crate::units::Flops;
use std::fmt;

/// What a layer does, as far as its speed depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerKind {
    /// Convolution over all input channels (or few, large groups).
    Convolution,
    /// Convolution of each channel by itself.
    Depthwise,
    /// Fully connected, on a vector or on every token.
    Linear,
    /// Products of activations with activations.
    Attention,
    /// Batch normalisation.
    BatchNorm,
    /// Layer normalisation.
    LayerNorm,
    /// `ReLU` that writes over its input.
    Relu,
    /// Any other pointwise non-linearity.
    Activation,
    /// Max pooling.
    MaxPool,
    /// Average pooling over windows.
    AvgPool,
    /// Average pooling to a given size, mostly one.
    GlobalPool,
    /// Addition, scaling and other pointwise arithmetic of tensors.
    Elementwise,
    /// Joining or reordering tensors in memory.
    Copy,
    /// Softmax over the last dimension.
    Softmax,
    /// Dropout.
    Dropout,
    /// Table look-up.
    Embedding,
    /// Described by FLOPs and parameters alone.
    Unspecified,
}

impl fmt::Display for LayerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Convolution => "convolution",
            Self::Depthwise => "depthwise",
            Self::Linear => "linear",
            Self::Attention => "attention",
            Self::BatchNorm => "batch_norm",
            Self::LayerNorm => "layer_norm",
            Self::Relu => "relu",
            Self::Activation => "activation",
            Self::MaxPool => "max_pool",
            Self::AvgPool => "avg_pool",
            Self::GlobalPool => "global_pool",
            Self::Elementwise => "elementwise",
            Self::Copy => "copy",
            Self::Softmax => "softmax",
            Self::Dropout => "dropout",
            Self::Embedding => "embedding",
            Self::Unspecified => "unspecified",
        })
    }
}

/// The matrix product a layer amounts to, for one sample:
/// (`rows` × `depth`) · (`depth` × `columns`), `groups` times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemm {
    /// Output positions of one sample: pixels or tokens.
    pub rows: f64,
    /// Output channels of a group.
    pub columns: f64,
    /// Length of the sums: input channels of a group times kernel size.
    pub depth: f64,
    /// Independent products.
    pub groups: f64,
}

/// The window that a convolution or pooling slides over its input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Its longer side.
    pub side: f64,
    /// Its elements.
    pub area: f64,
    /// How far it moves.
    pub stride: f64,
}

impl Default for Window {
    /// One element at a time: no window at all.
    fn default() -> Self {
        Self {
            side: 1.0,
            area: 1.0,
            stride: 1.0,
        }
    }
}

/// One layer of a network, for one sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Name, as the framework's module tree gives it.
    pub name: String,
    /// What it does.
    pub kind: LayerKind,
    /// Arithmetic of the forward pass, two for each multiply–add.
    pub forward_flops: Flops,
    /// Elements of each parameter tensor, weight first.
    pub parameters: Vec<u64>,
    /// Elements read of the layers before.
    pub input_elements: f64,
    /// Elements written for the layers after.
    pub output_elements: f64,
    /// Shape of the product, where it is one.
    pub gemm: Option<Gemm>,
    /// The window that convolutions and pooling slide.
    pub window: Window,
    /// Writes over its input (in-place activations): keeps nothing of its own.
    pub in_place: bool,
}

impl Layer {
    /// A layer that computes nothing and learns nothing yet.
    pub fn bare(name: impl Into<String>, kind: LayerKind) -> Self {
        Self {
            name: name.into(),
            kind,
            forward_flops: Flops::ZERO,
            parameters: Vec::new(),
            input_elements: 0.0,
            output_elements: 0.0,
            gemm: None,
            window: Window::default(),
            in_place: false,
        }
    }

    /// Elements over all parameter tensors.
    pub fn parameter_count(&self) -> u64 {
        self.parameters.iter().sum()
    }

    /// Elements that stay in memory until the backward pass has used them.
    pub fn saved_elements(&self) -> f64 {
        if self.in_place {
            0.0
        } else {
            self.output_elements
        }
    }
}
