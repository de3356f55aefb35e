//! Networks with their wide, fully connected layers replaced (Liu 2022,
//! Table 3).

use super::build::{Builder, Conv, Shape};
use super::{LayerKind, Workload};

/// Channels of the first 1×1 convolution: a hidden layer of the paper's size.
const HIDDEN: u64 = 512;

/// Three fully connected layers at the end, on the pooled features of a
/// convolutional network, become two 1×1 convolutions and global average
/// pooling: VGG16's 392 + 64 + 15.6 MiB become 1 + 1.95. `None` for networks
/// that do not end so.
pub fn without_wide_layers(workload: &Workload) -> Option<Workload> {
    let linear: Vec<usize> = (0..workload.layers.len())
        .filter(|&i| workload.layers[i].kind == LayerKind::Linear)
        .collect();
    let (&first, &last) = (linear.first()?, linear.last()?);
    if linear.len() != 3 || last + 1 != workload.layers.len() {
        return None;
    }
    let features = workload.layers[..first]
        .iter()
        .rfind(|l| matches!(l.kind, LayerKind::Convolution))?;
    let channels = features.gemm?.columns as u64;
    let elements = workload.layers[first].input_elements as u64;
    let positions = elements / channels;
    let side = (positions as f64).sqrt() as u64;
    if side * side * channels != elements {
        return None;
    }
    let classes = workload.layers[last].output_elements as u64;
    let mut b = Builder::image(channels, side);
    b.branch(Shape {
        channels,
        height: side,
        width: side,
    });
    b.conv("replaced.0", Conv::same(HIDDEN, 1).bias())
        .relu("replaced.1");
    b.conv("replaced.2", Conv::same(classes, 1).bias())
        .relu("replaced.3");
    b.adaptive_pool("replaced.4", 1);
    let end = b.finish("replaced").layers;
    // What stood between the features and the first layer (pooling, dropout)
    // stays.
    let mut layers = workload.layers[..first].to_vec();
    layers.extend(end);
    Some(Workload {
        name: format!("{} without fully connected layers", workload.name),
        layers,
        profile: None,
        ..workload.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::catalogue;

    /// Liu 2022, Table 3.
    #[test]
    fn vgg16_loses_its_472_mib() {
        let vgg = catalogue::find("vgg16").expect("vgg16").build(None);
        let replaced = without_wide_layers(&vgg).expect("replaced");
        let mib = |w: &Workload| w.parameters() as f64 * 4.0 / 1_048_576.0;
        assert!((mib(&vgg) - 527.8).abs() < 0.1);
        assert!((mib(&replaced) - 59.1).abs() < 0.1, "{}", mib(&replaced));
        let resnet = catalogue::find("resnet50").expect("resnet50").build(None);
        assert!(without_wide_layers(&resnet).is_none());
    }
}
