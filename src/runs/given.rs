//! Compute times that were measured beside a run.

use crate::model::{Case, Timing};
use crate::units::Seconds;
use serde_json::Value;
use std::sync::Arc;

/// Forward, backward and optimizer of each worker, in seconds; one entry
/// stands for all.
#[derive(Clone, Debug, PartialEq)]
pub struct Given(Vec<[f64; 3]>);

impl Given {
    /// From a run's context, where it has any.
    pub fn read(context: &Value) -> Option<Self> {
        let number = |value: &Value| value.as_f64().filter(|t| t.is_finite() && *t >= 0.0);
        let alone = ["forward_s", "backward_s", "optimizer_s"].map(|key| number(&context[key]));
        if let [Some(forward), Some(backward), Some(optimizer)] = alone {
            return Some(Self(vec![[forward, backward, optimizer]]));
        }
        let workers = context["compute_only_s"].as_array()?;
        let times: Option<Vec<[f64; 3]>> = workers
            .iter()
            .map(|t| Some([number(&t[0])?, number(&t[1])?, number(&t[2])?]))
            .collect();
        times.filter(|t| !t.is_empty()).map(Self)
    }

    /// The mean over the workers of each class of a case, whose workers stand
    /// in order.
    pub fn by_class(&self, case: &Case<'_>, class_of: &[usize]) -> Vec<[f64; 3]> {
        (0..case.classes.len())
            .map(|class| {
                let of_class = |(worker, times): (usize, &[f64; 3])| {
                    (class_of.get(worker) == Some(&class)).then_some(*times)
                };
                let mut own: Vec<[f64; 3]> =
                    self.0.iter().enumerate().filter_map(of_class).collect();
                if own.is_empty() {
                    own.clone_from(&self.0);
                }
                let mean = |i: usize| own.iter().map(|t| t[i]).sum::<f64>() / own.len() as f64;
                [mean(0), mean(1), mean(2)]
            })
            .collect()
    }

    /// Puts the measured times in the place of the predicted ones.
    pub fn apply(&self, case: &mut Case<'_>, class_of: &[usize]) {
        let given = self.by_class(case, class_of);
        for (class, [forward, backward, optimizer]) in case.classes.iter_mut().zip(given) {
            let mut timing: Timing = class
                .timing
                .stretched(Seconds::new(forward), Seconds::new(backward));
            timing.optimizer = Seconds::new(optimizer);
            class.timing = Arc::new(timing);
        }
    }
}
