//! A profile of one worker: measured forward times and the moments at which
//! gradients are ready. They replace the compute model's.

use super::{Layer, LayerKind, Workload, catalogue};
use crate::units::Seconds;
use serde::Deserialize;

/// Measured times of one step on one device. Layers are those of the
/// workload that carries the profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Samples of the profiled step.
    pub batch: u32,
    /// Forward time of each layer.
    pub forward: Vec<Seconds>,
    /// Backward time of each layer.
    pub backward: Vec<Seconds>,
    /// Time of the optimizer step on the worker.
    pub optimizer: Seconds,
}

/// Why a profile file makes no workload.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// It could not be read at all.
    #[error("{0}")]
    Syntax(String),
    /// A number is impossible.
    #[error("`{0}` must be a finite number above zero")]
    Impossible(&'static str),
    /// The moments do not ascend.
    #[error("gradient `{0}` is ready before the one above it: the moments must ascend")]
    Order(String),
    /// No gradient at all.
    #[error("`grad_ready` names no gradient")]
    Empty,
}

/// The file, as the lab writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    model: String,
    batch: u32,
    #[serde(default)]
    #[allow(dead_code, reason = "of the file's form; the node says what computes")]
    threads: Option<u32>,
    forward_ms: f64,
    backward_ms: f64,
    #[serde(default)]
    optimizer_ms: f64,
    forward: Vec<(String, f64)>,
    grad_ready: Vec<(String, u64, f64)>,
}

impl Workload {
    /// The workload that a profile file describes.
    pub fn from_profile(text: &str) -> Result<Self, ProfileError> {
        let file: File = crate::input::parse(text).map_err(ProfileError::Syntax)?;
        file.check()?;
        let mut layers = file.layers();
        let profile = file.times(&layers);
        let known = catalogue::find(&file.model).map(|entry| entry.build(None));
        if let Some(known) = &known {
            lend(&mut layers, known);
        }
        Ok(Self {
            profile: Some(profile),
            has_flops: known.is_some(),
            ..Self::new(file.model, layers)
        })
    }
}

impl File {
    fn check(&self) -> Result<(), ProfileError> {
        let above_zero = |x: f64, key| {
            let fine = x.is_finite() && x > 0.0;
            fine.then_some(()).ok_or(ProfileError::Impossible(key))
        };
        above_zero(f64::from(self.batch), "batch")?;
        above_zero(self.forward_ms, "forward_ms")?;
        above_zero(self.backward_ms, "backward_ms")?;
        if !(self.optimizer_ms.is_finite() && self.optimizer_ms >= 0.0) {
            return Err(ProfileError::Impossible("optimizer_ms"));
        }
        if self.grad_ready.is_empty() {
            return Err(ProfileError::Empty);
        }
        if self
            .forward
            .iter()
            .any(|(_, ms)| !ms.is_finite() || *ms < 0.0)
        {
            return Err(ProfileError::Impossible("forward"));
        }
        let mut last = 0.0;
        for (name, _, ms) in &self.grad_ready {
            if !ms.is_finite() || *ms < last {
                return Err(ProfileError::Order(name.clone()));
            }
            last = *ms;
        }
        Ok(())
    }

    /// One layer a timed module, with its tensors; then the tensors that
    /// belong to no timed module, one layer each, in front.
    fn layers(&self) -> Vec<Layer> {
        let mut layers: Vec<Layer> = self.forward.iter().map(|(name, _)| bare(name)).collect();
        for (tensor, elements, _) in self.grad_ready.iter().rev() {
            let module = module_of(tensor);
            if let Some(layer) = layers.iter_mut().find(|l| l.name == module) {
                layer.parameters.push(*elements);
                if layer.parameters.len() == 2 && tensor.ends_with(".weight") {
                    // Backwards, a linear layer's weight comes first.
                    layer.kind = match layer.kind {
                        LayerKind::Unspecified if layer.parameters[0] < *elements => {
                            layer.parameters.swap(0, 1);
                            LayerKind::Unspecified
                        }
                        kind => kind,
                    };
                }
            } else {
                let mut layer = bare(module);
                layer.parameters.push(*elements);
                layers.insert(0, layer);
            }
        }
        for layer in &mut layers {
            if layer.parameters.len() == 2 && layer.parameters[0] < layer.parameters[1] {
                layer.parameters.swap(0, 1);
            }
        }
        layers
    }

    /// Forward times as measured; backward times as the gaps between the
    /// moments at which the layers' last gradients are ready.
    fn times(&self, layers: &[Layer]) -> Profile {
        let timed = layers.len() - self.forward.len();
        let sum: f64 = self.forward.iter().map(|(_, ms)| ms).sum();
        let stretch = if sum > 0.0 {
            self.forward_ms / sum
        } else {
            0.0
        };
        let mut forward = vec![Seconds::ZERO; layers.len()];
        for (i, (_, ms)) in self.forward.iter().enumerate() {
            forward[timed + i] = Seconds::from_millis(ms * stretch);
        }
        let mut backward = vec![Seconds::ZERO; layers.len()];
        let mut before = 0.0;
        for (tensor, _, ms) in &self.grad_ready {
            let module = module_of(tensor);
            if let Some(i) = layers.iter().position(|l| l.name == module) {
                backward[i] += Seconds::from_millis(ms - before);
                before = *ms;
            }
        }
        if let Some(first) = backward.first_mut() {
            *first += Seconds::from_millis((self.backward_ms - before).max(0.0));
        }
        Profile {
            batch: self.batch,
            forward,
            backward,
            optimizer: Seconds::from_millis(self.optimizer_ms),
        }
    }
}

/// `layer1.0.conv1.weight` belongs to `layer1.0.conv1`.
fn module_of(tensor: &str) -> &str {
    tensor.rsplit_once('.').map_or(tensor, |(module, _)| module)
}

fn bare(name: &str) -> Layer {
    Layer::bare(name, LayerKind::Unspecified)
}

/// Takes what the catalogue knows of layers of the same name, in order.
fn lend(layers: &mut [Layer], known: &Workload) {
    let mut rest = known.layers.iter();
    for layer in layers {
        let mut ahead = rest.clone();
        if let Some(same) = ahead.find(|k| k.name == layer.name) {
            rest = ahead;
            let parameters = std::mem::take(&mut layer.parameters);
            *layer = same.clone();
            if !parameters.is_empty() {
                layer.parameters = parameters;
            }
        }
    }
}
