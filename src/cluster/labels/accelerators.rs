//! Which accelerators a node has, and how many.

use super::{Candidate, Resolver};
use crate::cluster::Accelerators;
use crate::cluster::fact::{FactName, Source};
use crate::cluster::object::Quantity;
use crate::device::{self, Device};
use crate::units::Bytes;
use std::sync::Arc;

/// Accelerators that one node may have.
const MAX_ACCELERATORS: u32 = 1024;

/// What can be said of a node's accelerators.
pub(super) enum Sight {
    /// There are none.
    Nothing,
    /// There are some, but not which.
    Unknown(String),
    /// These.
    Known(Accelerators),
}

impl<'a> Resolver<'a> {
    pub(super) fn accelerators(&mut self) -> Sight {
        let counts = self.counts();
        let (devices, refused) = self.devices();
        let slices = self.object.status.allocatable.iter().any(|(key, amount)| {
            key.starts_with("nvidia.com/mig-") && amount.amount().is_some_and(|a| a > 0.0)
        });
        let whole = self.object.status.allocatable.get("nvidia.com/gpu");
        let no_whole = whole.is_none_or(|amount| amount.amount().is_none_or(|a| a <= 0.0));
        let own = counts
            .first()
            .is_some_and(|c| matches!(c.source, Source::Override(_)));
        if slices && no_whole && !own {
            return Sight::Unknown(
                "its GPUs are cut into MIG slices, which are not modelled".into(),
            );
        }
        if counts.first().is_some_and(|c| c.value == 0) {
            self.settle(FactName::AcceleratorCount, counts);
            return Sight::Nothing;
        }
        if devices.is_empty() {
            return match (counts.first(), refused) {
                (_, Some(why)) => Sight::Unknown(why),
                (Some(first), None) => Sight::Unknown(format!(
                    "{} accelerators by {}, but nothing says of which type; label it stepcast.dev/accelerator",
                    first.value, first.source
                )),
                (None, None) => Sight::Nothing,
            };
        }
        let Some(device) = self.settle(FactName::Accelerator, devices) else {
            return Sight::Nothing;
        };
        let device = self.of_memory(device);
        let counts = if counts.is_empty() {
            vec![Candidate {
                source: Source::Default,
                value: 1,
                text: "1".into(),
            }]
        } else {
            counts
        };
        match self.settle(FactName::AcceleratorCount, counts) {
            Some(count) => Sight::Known(Accelerators { device, count }),
            None => Sight::Nothing,
        }
    }

    /// The variant of a device that has the memory the labels state (MiB).
    fn of_memory(&mut self, device: Arc<Device>) -> Arc<Device> {
        let stated = [
            "nvidia.com/gpu.memory",
            "karpenter.k8s.aws/instance-gpu-memory",
        ]
        .iter()
        .find_map(|key| self.label(key)?.parse::<f64>().ok())
        .map(Bytes::from_mib);
        match (stated, device.memory) {
            (Some(stated), Some(own)) if (stated / own - 1.0).abs() > 0.2 => {
                let variant = device::with_memory(&device, stated);
                if variant.is_none() {
                    self.warn(format_args!(
                        "labels state {stated} of memory, {} has {own}; taking the latter",
                        device.name
                    ));
                }
                variant.unwrap_or(device)
            }
            _ => device,
        }
    }

    /// Devices that labels name, and why a name was refused.
    fn devices(&mut self) -> (Vec<Candidate<Arc<Device>>>, Option<String>) {
        let mut named: Vec<(Source, &'a str)> = Vec::new();
        named.extend(self.own("accelerator"));
        for key in ["nvidia.com/gpu.product", "amd.com/gpu.product-name"] {
            named.extend(self.label(key).map(|v| (Source::Vendor(key.into()), v)));
        }
        // AMD's older labels carry the product in the key.
        let older = self.object.metadata.labels.keys().find_map(|key| {
            let product = key.strip_prefix("beta.amd.com/gpu.product-name.")?;
            Some((Source::Vendor(key.clone()), product))
        });
        named.extend(older);
        for key in [
            "karpenter.k8s.aws/instance-gpu-name",
            "eks.amazonaws.com/instance-gpu-name",
            "cloud.google.com/gke-accelerator",
            "kubernetes.azure.com/accelerator",
        ] {
            // AKS only says whose it is.
            let value = self.label(key).filter(|v| !["nvidia", "amd"].contains(v));
            named.extend(value.map(|v| (Source::Cloud(key.into()), v)));
        }
        let mut refused = None;
        let mut candidates: Vec<Candidate<Arc<Device>>> = Vec::new();
        for (source, name) in named {
            match known_device(&source, name) {
                Ok(device) => candidates.push(Candidate {
                    text: device.name.to_string(),
                    value: device,
                    source,
                }),
                Err(why) => {
                    self.warn(format_args!("{source}: {why}"));
                    refused.get_or_insert(why);
                }
            }
        }
        if let Some((name, instance)) = self.instance
            && let Some(device) = instance
                .accelerator
                .and_then(|a| device::accelerator(a).ok())
        {
            candidates.push(Candidate {
                source: Source::InstanceType(name.to_owned()),
                text: device.name.to_string(),
                value: device,
            });
        }
        (candidates, refused)
    }

    fn counts(&mut self) -> Vec<Candidate<u32>> {
        let mut candidates = Vec::new();
        let mut texts: Vec<(Source, &'a str)> = Vec::new();
        texts.extend(self.own("accelerator-count"));
        for key in ["nvidia.com/gpu.count", "amd.com/gpu.count"] {
            texts.extend(self.label(key).map(|v| (Source::Vendor(key.into()), v)));
        }
        for key in [
            "karpenter.k8s.aws/instance-gpu-count",
            "eks.amazonaws.com/instance-gpu-count",
        ] {
            texts.extend(self.label(key).map(|v| (Source::Cloud(key.into()), v)));
        }
        for (source, text) in texts {
            match text.parse::<u32>().ok().filter(|n| *n <= MAX_ACCELERATORS) {
                Some(value) => candidates.push(Candidate {
                    source,
                    value,
                    text: value.to_string(),
                }),
                None => self.warn(format_args!(
                    "{source}: `{text}` is not a number of accelerators"
                )),
            }
        }
        if let Some((name, instance)) = self.instance.filter(|(_, i)| i.accelerator.is_some()) {
            candidates.push(Candidate {
                source: Source::InstanceType(name.to_owned()),
                value: instance.accelerators,
                text: instance.accelerators.to_string(),
            });
        }
        for key in ["nvidia.com/gpu", "amd.com/gpu"] {
            let amount = self
                .object
                .status
                .allocatable
                .get(key)
                .and_then(Quantity::amount);
            // Time-sliced GPUs are allocatable several times over.
            if let Some(amount) = amount {
                let replicas = self
                    .label("nvidia.com/gpu.replicas")
                    .and_then(|r| r.parse::<f64>().ok())
                    .filter(|r| *r >= 1.0)
                    .unwrap_or(1.0);
                let value = ((amount / replicas) as u32).min(MAX_ACCELERATORS);
                candidates.push(Candidate {
                    source: Source::Allocatable(key.into()),
                    value,
                    text: value.to_string(),
                });
            }
        }
        candidates
    }
}

/// The device that a label names, or why none.
fn known_device(source: &Source, name: &str) -> Result<Arc<Device>, String> {
    let (product, share) = product(name);
    if let Some(slice) = share {
        return Err(format!(
            "`{name}` is a MIG slice ({slice}) of a device; slices are not modelled, \
             label the node stepcast.dev/accelerator to say what to take it for"
        ));
    }
    if let Source::Cloud(label) = source
        && let Some(device) = device::source_alias(label, product)
    {
        return Ok(device);
    }
    device::accelerator(product).map_err(|near| {
        if near.is_empty() {
            format!("`{name}` is not a known accelerator")
        } else {
            format!(
                "`{name}` is not a known accelerator; near names: {}",
                near.join(", ")
            )
        }
    })
}

/// The product without how it is shared: `-SHARED` marks time slicing, which
/// changes nothing about the device; `-MIG-1g.5gb` a slice of it.
fn product(name: &str) -> (&str, Option<&str>) {
    if let Some((product, slice)) = name.split_once("-MIG-") {
        return (product, Some(slice));
    }
    (name.strip_suffix("-SHARED").unwrap_or(name), None)
}
