//! The form of network that SPRINT trains (Oyama 2016, section 3.2): square
//! 3×3 convolutions without padding, each with an optional 2×2 pooling, then
//! fully connected layers.

use crate::workload::Workload;
use crate::workload::build::{Builder, Conv};

/// One convolution of the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// Output channels.
    pub channels: u64,
    /// Whether a 2×2 max pooling follows.
    pub pool: bool,
}

/// Builds such a network on `channels` × `side` × `side` images; `None` when
/// the image shrinks away before the last convolution.
pub fn sprint(
    channels: u64,
    side: u64,
    convolutions: &[Convolution],
    fully_connected: &[u64],
) -> Option<Workload> {
    let mut b = Builder::image(channels, side);
    for (i, convolution) in convolutions.iter().enumerate() {
        if b.shape().height < 3 {
            return None;
        }
        b.conv(
            format!("conv{i}"),
            Conv::valid(convolution.channels, 3).bias(),
        );
        b.relu(format!("relu{i}"));
        if convolution.pool {
            if b.shape().height < 2 {
                return None;
            }
            b.max_pool(format!("pool{i}"), 2, 2, 0, false);
        }
    }
    b.flatten();
    for (i, &out) in fully_connected.iter().enumerate() {
        b.linear(format!("fc{i}"), out, true);
        if i + 1 < fully_connected.len() {
            b.relu(format!("fc{i}.relu"));
        }
    }
    Some(b.finish("sprint"))
}
