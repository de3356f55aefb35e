//! Builds networks from their architecture: every method adds one layer and
//! carries the shape of the activations on, as the framework would.

use super::{Gemm, Layer, LayerKind, Window, Workload};
use crate::units::Flops;

/// Shape of one sample's activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Channels, or features of a token.
    pub channels: u64,
    /// Height; for sequences the number of tokens.
    pub height: u64,
    /// Width; 1 for sequences and vectors.
    pub width: u64,
}

impl Shape {
    /// All elements.
    pub const fn elements(self) -> u64 {
        self.channels * self.height * self.width
    }

    /// Positions: pixels or tokens.
    pub const fn positions(self) -> u64 {
        self.height * self.width
    }
}

/// A convolution's geometry.
#[derive(Clone, Copy, Debug)]
pub struct Conv {
    /// Output channels.
    pub out: u64,
    /// Kernel height and width.
    pub kernel: (u64, u64),
    /// Stride, both ways.
    pub stride: u64,
    /// Padding above and left.
    pub padding: (u64, u64),
    /// Groups of channels.
    pub groups: u64,
    /// Whether it adds a bias.
    pub bias: bool,
}

impl Conv {
    /// A square kernel that keeps the size at stride 1, without bias.
    pub const fn same(out: u64, kernel: u64) -> Self {
        Self::valid(out, kernel).pad(kernel / 2)
    }

    /// A square kernel without padding, stride 1, without bias.
    pub const fn valid(out: u64, kernel: u64) -> Self {
        Self {
            out,
            kernel: (kernel, kernel),
            stride: 1,
            padding: (0, 0),
            groups: 1,
            bias: false,
        }
    }

    /// A `height` × `width` kernel that keeps the size, without bias.
    pub const fn oblong(out: u64, height: u64, width: u64) -> Self {
        Self {
            kernel: (height, width),
            padding: (height / 2, width / 2),
            ..Self::valid(out, 1)
        }
    }

    /// The same with a stride.
    #[must_use]
    pub const fn stride(self, stride: u64) -> Self {
        Self { stride, ..self }
    }

    /// The same with padding.
    #[must_use]
    pub const fn pad(self, padding: u64) -> Self {
        Self {
            padding: (padding, padding),
            ..self
        }
    }

    /// The same in groups.
    #[must_use]
    pub const fn groups(self, groups: u64) -> Self {
        Self { groups, ..self }
    }

    /// The same with a bias.
    #[must_use]
    pub const fn bias(self) -> Self {
        Self { bias: true, ..self }
    }
}

/// A network under construction.
#[derive(Debug)]
pub struct Builder {
    layers: Vec<Layer>,
    shape: Shape,
}

impl Builder {
    /// Starts from an image of `channels` × `side` × `side`.
    pub fn image(channels: u64, side: u64) -> Self {
        Self {
            layers: Vec::new(),
            shape: Shape {
                channels,
                height: side,
                width: side,
            },
        }
    }

    /// Starts from a sequence of tokens.
    pub fn sequence(tokens: u64) -> Self {
        Self {
            layers: Vec::new(),
            shape: Shape {
                channels: 1,
                height: tokens,
                width: 1,
            },
        }
    }

    /// The shape reached.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Goes on from another shape: the start of a branch.
    pub const fn branch(&mut self, from: Shape) -> &mut Self {
        self.shape = from;
        self
    }

    /// The finished workload.
    pub fn finish(self, name: &str) -> Workload {
        Workload::new(name, self.layers)
    }

    fn push(&mut self, name: impl Into<String>, kind: LayerKind, to: Shape) -> &mut Layer {
        let from = self.shape;
        self.shape = to;
        self.layers.push(Layer {
            input_elements: from.elements() as f64,
            output_elements: to.elements() as f64,
            ..Layer::bare(name, kind)
        });
        let last = self.layers.len() - 1;
        &mut self.layers[last]
    }

    /// A convolution (Zeng 2023, eq. 4: 2·inch·kh·kw·outn·outh·outw).
    pub fn conv(&mut self, name: impl Into<String>, conv: Conv) -> &mut Self {
        let from = self.shape;
        let side =
            |size: u64, kernel: u64, padding: u64| (size + 2 * padding - kernel) / conv.stride + 1;
        let to = Shape {
            channels: conv.out,
            height: side(from.height, conv.kernel.0, conv.padding.0),
            width: side(from.width, conv.kernel.1, conv.padding.1),
        };
        let depth = from.channels / conv.groups * conv.kernel.0 * conv.kernel.1;
        let kind = if conv.groups > 1 && conv.groups == from.channels {
            LayerKind::Depthwise
        } else {
            LayerKind::Convolution
        };
        let layer = self.push(name, kind, to);
        layer.forward_flops = Flops::new((2 * depth * to.elements()) as f64);
        layer.parameters.push(depth * conv.out);
        if conv.bias {
            layer.parameters.push(conv.out);
        }
        layer.window = Window {
            side: conv.kernel.0.max(conv.kernel.1) as f64,
            area: (conv.kernel.0 * conv.kernel.1) as f64,
            stride: conv.stride as f64,
        };
        layer.gemm = Some(Gemm {
            rows: to.positions() as f64,
            columns: (conv.out / conv.groups) as f64,
            depth: depth as f64,
            groups: conv.groups as f64,
        });
        self
    }

    /// A fully connected layer on every position.
    pub fn linear(&mut self, name: impl Into<String>, out: u64, bias: bool) -> &mut Self {
        let from = self.shape;
        let to = Shape {
            channels: out,
            ..from
        };
        let layer = self.push(name, LayerKind::Linear, to);
        layer.forward_flops = Flops::new((2 * from.channels * to.elements()) as f64);
        layer.parameters.push(from.channels * out);
        if bias {
            layer.parameters.push(out);
        }
        layer.gemm = Some(Gemm {
            rows: to.positions() as f64,
            columns: out as f64,
            depth: from.channels as f64,
            groups: 1.0,
        });
        self
    }

    /// Batch normalisation.
    pub fn batch_norm(&mut self, name: impl Into<String>) -> &mut Self {
        self.norm(name, LayerKind::BatchNorm)
    }

    /// Layer normalisation.
    pub fn layer_norm(&mut self, name: impl Into<String>) -> &mut Self {
        self.norm(name, LayerKind::LayerNorm)
    }

    fn norm(&mut self, name: impl Into<String>, kind: LayerKind) -> &mut Self {
        let channels = self.shape.channels;
        self.push(name, kind, self.shape).parameters = vec![channels, channels];
        self
    }

    /// `ReLU`, in place.
    pub fn relu(&mut self, name: impl Into<String>) -> &mut Self {
        self.push(name, LayerKind::Relu, self.shape).in_place = true;
        self
    }

    /// `ReLU6`, in place.
    pub fn relu6(&mut self, name: impl Into<String>) -> &mut Self {
        self.push(name, LayerKind::Activation, self.shape).in_place = true;
        self
    }

    /// An activation that keeps its input (GELU, `SiLU`, sigmoid).
    pub fn activation(&mut self, name: impl Into<String>) -> &mut Self {
        self.push(name, LayerKind::Activation, self.shape);
        self
    }

    /// Max pooling; `ceil` rounds the size up.
    pub fn max_pool(
        &mut self,
        name: impl Into<String>,
        kernel: u64,
        stride: u64,
        padding: u64,
        ceil: bool,
    ) -> &mut Self {
        let side = |size: u64| {
            let span = size + 2 * padding - kernel;
            let steps = if ceil {
                span.div_ceil(stride)
            } else {
                span / stride
            };
            // The last window must start inside the input or its left padding.
            if ceil && steps * stride >= size + padding {
                steps
            } else {
                steps + 1
            }
        };
        let to = Shape {
            height: side(self.shape.height),
            width: side(self.shape.width),
            ..self.shape
        };
        self.pool(name, LayerKind::MaxPool, to, (kernel, stride))
    }

    /// Average pooling.
    pub fn avg_pool(
        &mut self,
        name: impl Into<String>,
        kernel: u64,
        stride: u64,
        padding: u64,
    ) -> &mut Self {
        let side = |size: u64| (size + 2 * padding - kernel) / stride + 1;
        let to = Shape {
            height: side(self.shape.height),
            width: side(self.shape.width),
            ..self.shape
        };
        self.pool(name, LayerKind::AvgPool, to, (kernel, stride))
    }

    /// Average pooling to `side` × `side`.
    pub fn adaptive_pool(&mut self, name: impl Into<String>, side: u64) -> &mut Self {
        let kernel = (self.shape.height / side).max(1);
        let to = Shape {
            height: side,
            width: side,
            ..self.shape
        };
        self.pool(name, LayerKind::GlobalPool, to, (kernel, kernel))
    }

    fn pool(
        &mut self,
        name: impl Into<String>,
        kind: LayerKind,
        to: Shape,
        (kernel, stride): (u64, u64),
    ) -> &mut Self {
        self.push(name, kind, to).window = Window {
            side: kernel as f64,
            area: (kernel * kernel) as f64,
            stride: stride as f64,
        };
        self
    }

    /// All elements of a sample as one vector; costs nothing.
    pub const fn flatten(&mut self) -> &mut Self {
        self.shape = Shape {
            channels: self.shape.elements(),
            height: 1,
            width: 1,
        };
        self
    }

    /// Dropout.
    pub fn dropout(&mut self, name: impl Into<String>) -> &mut Self {
        self.push(name, LayerKind::Dropout, self.shape);
        self
    }

    /// Adds a tensor of the same shape.
    pub fn add(&mut self, name: impl Into<String>) -> &mut Self {
        let layer = self.push(name, LayerKind::Elementwise, self.shape);
        layer.input_elements *= 2.0;
        self
    }

    /// Adds a tensor of the same shape in place.
    pub fn add_in_place(&mut self, name: impl Into<String>) -> &mut Self {
        self.add(name);
        if let Some(layer) = self.layers.last_mut() {
            layer.in_place = true;
        }
        self
    }

    /// Scales every channel by a factor of its own (squeeze and excitation).
    pub fn scale(&mut self, name: impl Into<String>, to: Shape) -> &mut Self {
        self.shape = to;
        self.push(name, LayerKind::Elementwise, to);
        self
    }

    /// Scales every channel by a learnt factor.
    pub fn layer_scale(&mut self, name: impl Into<String>) -> &mut Self {
        let channels = self.shape.channels;
        self.push(name, LayerKind::Elementwise, self.shape)
            .parameters = vec![channels];
        self
    }

    /// Joins branches of the same height and width to `channels`.
    pub fn concat(&mut self, name: impl Into<String>, channels: u64) -> &mut Self {
        let to = Shape {
            channels,
            ..self.shape
        };
        self.shape = to;
        self.push(name, LayerKind::Copy, to);
        self
    }

    /// Rearranges the same elements in memory.
    pub fn permute(&mut self, name: impl Into<String>, to: Shape) -> &mut Self {
        self.push(name, LayerKind::Copy, to);
        self
    }

    /// A learnt tensor added to the activations (position embeddings).
    pub fn learnt(&mut self, name: impl Into<String>, elements: u64) -> &mut Self {
        self.push(name, LayerKind::Elementwise, self.shape)
            .parameters = vec![elements];
        self
    }

    /// A table look-up of `rows` × `width`.
    pub fn embedding(&mut self, name: impl Into<String>, rows: u64, width: u64) -> &mut Self {
        let to = Shape {
            channels: width,
            ..self.shape
        };
        self.push(name, LayerKind::Embedding, to).parameters = vec![rows * width];
        self
    }

    /// Scores and weighted sums of self-attention with `heads` heads: two
    /// products of activations, and a softmax between them.
    pub fn attention(&mut self, name: &str, width: u64, heads: u64) -> &mut Self {
        let tokens = self.shape.height;
        let scores = Shape {
            channels: heads * tokens,
            height: tokens,
            width: 1,
        };
        let out = Shape {
            channels: width,
            height: tokens,
            width: 1,
        };
        let head = width / heads;
        self.product(
            format!("{name}.scores"),
            scores,
            2 * width * tokens,
            (tokens, head, heads),
        );
        self.push(format!("{name}.softmax"), LayerKind::Softmax, scores);
        self.product(
            format!("{name}.context"),
            out,
            scores.elements() + width * tokens,
            (head, tokens, heads),
        );
        self
    }

    fn product(&mut self, name: String, to: Shape, reads: u64, gemm: (u64, u64, u64)) {
        let (columns, depth, groups) = gemm;
        let rows = to.height;
        let layer = self.push(name, LayerKind::Attention, to);
        layer.forward_flops = Flops::new((2 * rows * columns * depth * groups) as f64);
        layer.input_elements = reads as f64;
        layer.gemm = Some(Gemm {
            rows: rows as f64,
            columns: columns as f64,
            depth: depth as f64,
            groups: groups as f64,
        });
    }
}
