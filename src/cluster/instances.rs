//! Cloud machine types and what they come with.

use crate::device::Table;
use std::collections::HashMap;
use std::sync::LazyLock;

const TABLE: &str = include_str!("instances.csv");

/// One machine type.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Instance {
    /// Canonical name of its accelerator, where it has one.
    pub(super) accelerator: Option<&'static str>,
    /// How many.
    pub(super) accelerators: u32,
    /// Network in Gbit/s: the RDMA fabric where there is one.
    pub(super) nic_gbps: Option<f64>,
    /// Whether that is an RDMA fabric.
    pub(super) rdma: bool,
    /// Its processor.
    pub(super) cpu: Option<&'static str>,
    /// Its virtual processors.
    pub(super) vcpus: u32,
}

static INSTANCES: LazyLock<HashMap<&'static str, Instance>> = LazyLock::new(|| {
    let mut instances = HashMap::new();
    let some = |text: &'static str| (!text.is_empty()).then_some(text);
    Table(TABLE).each(|row| {
        let rdma = row.number("rdma_gbps");
        let instance = Instance {
            accelerator: some(row.text("accelerator")),
            accelerators: row.number("accelerators").unwrap_or_default() as u32,
            nic_gbps: rdma.or(row.number("nic_gbps")),
            rdma: rdma.is_some(),
            cpu: some(row.text("cpu")),
            vcpus: row.number("vcpus").unwrap_or_default() as u32,
        };
        instances.insert(row.text("name"), instance);
    });
    instances
});

/// A machine type by its exact name.
pub(super) fn instance(name: &str) -> Option<&'static Instance> {
    INSTANCES.get(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_type_names_known_devices() {
        for (name, instance) in INSTANCES.iter() {
            if let Some(accelerator) = instance.accelerator {
                assert!(
                    crate::device::accelerator(accelerator).is_ok(),
                    "{name}: {accelerator}"
                );
            }
            if let Some(cpu) = instance.cpu {
                assert!(crate::device::cpu(cpu).is_ok(), "{name}: {cpu}");
            }
        }
    }
}
