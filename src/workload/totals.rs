//! Workloads known only by their totals.

use super::{Layer, LayerKind, Workload, catalogue};
use crate::units::Flops;

/// How many layers stand for a network whose shape nobody knows.
const UNKNOWN_TENSORS: u32 = 64;

/// A workload as a few sums.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    /// Name; a catalogue's name lends the shape of its layers.
    pub name: Option<String>,
    /// Trainable parameters.
    pub parameters: f64,
    /// Arithmetic of the forward pass of one sample.
    pub forward_flops: Option<Flops>,
    /// Parameter tensors.
    pub tensors: Option<u32>,
    /// Tokens a sample.
    pub sequence_length: Option<u32>,
}

/// Why totals make no workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TotalsError {
    /// More tensors than parameters.
    #[error("more tensors than parameters")]
    TensorsExceedParameters,
}

impl Totals {
    /// Layers that add up to these totals.
    pub fn build(&self) -> Result<Workload, TotalsError> {
        if f64::from(self.tensors.unwrap_or(1)) > self.parameters {
            return Err(TotalsError::TensorsExceedParameters);
        }
        let entry = self.name.as_deref().and_then(catalogue::find);
        let mut workload = match entry {
            Some(entry) => self.scaled(entry.build(self.sequence_length)),
            None => self.even(),
        };
        if let Some(name) = &self.name {
            workload.name.clone_from(name);
        }
        workload.sequence_length = self.sequence_length.or(workload.sequence_length);
        Ok(workload)
    }

    /// The catalogue's layers, stretched to the totals.
    fn scaled(&self, mut workload: Workload) -> Workload {
        let parameters = self.parameters / workload.parameters() as f64;
        let flops = self
            .forward_flops
            .map_or(1.0, |total| total / workload.forward_flops());
        for layer in &mut workload.layers {
            layer.forward_flops = layer.forward_flops * flops;
            for tensor in &mut layer.parameters {
                *tensor = ((*tensor as f64 * parameters).round() as u64).max(1);
            }
        }
        workload
    }

    /// Equal layers: nothing is known of the shape.
    fn even(&self) -> Workload {
        let tensors = self
            .tensors
            .unwrap_or(UNKNOWN_TENSORS)
            .min(self.parameters as u32)
            .max(1);
        let flops = self.forward_flops;
        let share = 1.0 / f64::from(tensors);
        let mut before = 0;
        let layers = (1..=tensors)
            .map(|i| {
                let upto = (self.parameters * f64::from(i) * share).round() as u64;
                let elements = upto - before;
                before = upto;
                Layer {
                    forward_flops: flops.unwrap_or(Flops::ZERO) * share,
                    parameters: vec![elements],
                    ..Layer::bare(format!("part{i}"), LayerKind::Unspecified)
                }
            })
            .collect();
        let name = self.name.as_deref().unwrap_or("totals");
        Workload {
            has_flops: flops.is_some(),
            ..Workload::new(name, layers)
        }
    }
}
