//! The catalogue of accelerators.

use super::name::fold;
use super::table::Table;
use super::{Device, DeviceKind, Peaks};
use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// Rates are dense peaks of vendor data sheets.
const TABLE: &str = include_str!("accelerators.csv");

/// What a bare name means when one label settles it: label, value, device.
const SOURCE_ALIASES: &str = include_str!("source_aliases.csv");

struct Catalogue {
    devices: Vec<Arc<Device>>,
    by_name: HashMap<String, usize>,
}

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    let mut catalogue = Catalogue {
        devices: Vec::new(),
        by_name: HashMap::new(),
    };
    Table(TABLE).each(|row| {
        let name = row.text("name");
        let fp32 = FlopsPerSecond::from_tera(row.number("fp32_tflops").unwrap_or_default());
        let rate = |column| row.number(column).map_or(fp32, FlopsPerSecond::from_tera);
        let host_link =
            BytesPerSecond::from_gigabytes(row.number("host_link_gbps").unwrap_or(15.75));
        let peer = row
            .number("peer_link_gbps")
            .map(BytesPerSecond::from_gigabytes);
        let clock = row
            .number("paper_clock_ghz")
            .or(row.number("boost_clock_ghz"));
        let index = catalogue.devices.len();
        for known in std::iter::once(name).chain(row.parts("aliases")) {
            let other = catalogue.by_name.insert(fold(known), index);
            assert!(
                other.is_none_or(|o| o == index),
                "{known} names two devices"
            );
        }
        catalogue.devices.push(Arc::new(Device {
            name: name.into(),
            kind: DeviceKind::Accelerator,
            architecture: row.text("architecture").into(),
            cores: row.number("cores").unwrap_or_default() as u32,
            clock_ghz: clock.unwrap_or_default(),
            peaks: Peaks {
                fp32,
                tf32: rate("tf32_tflops"),
                fp16: rate("fp16_tflops"),
                bf16: rate("bf16_tflops"),
            },
            memory: row.number("memory_gib").map(Bytes::from_gib),
            memory_rate: BytesPerSecond::from_gigabytes(
                row.number("memory_gbps").unwrap_or_default(),
            ),
            host_link,
            peer_rate: peer.unwrap_or(host_link),
        }));
    });
    catalogue
});

/// Every accelerator.
pub fn accelerators() -> &'static [Arc<Device>] {
    &CATALOGUE.devices
}

/// An accelerator by any of its names; the error names the nearest ones.
pub fn accelerator(name: &str) -> Result<Arc<Device>, Vec<&'static str>> {
    let found = CATALOGUE.by_name.get(&fold(name));
    found
        .map(|&i| Arc::clone(&CATALOGUE.devices[i]))
        .ok_or_else(|| {
            let folded = fold(name);
            let mut near: Vec<&'static str> = accelerators()
                .iter()
                .map(|d| &*d.name)
                .filter(|known| !folded.is_empty() && fold(known).contains(&folded))
                .collect();
            near.extend(crate::input::near(
                name,
                accelerators().iter().map(|d| &*d.name),
            ));
            near.sort_unstable();
            near.dedup();
            near.truncate(6);
            near
        })
}

/// The same device with another amount of memory, where there is one.
pub fn with_memory(device: &Device, memory: Bytes) -> Option<Arc<Device>> {
    let same = |d: &&Arc<Device>| {
        d.architecture == device.architecture
            && d.cores == device.cores
            && d.peaks == device.peaks
            && d.peer_rate == device.peer_rate
            && d.memory.is_some_and(|m| (memory / m - 1.0).abs() < 0.12)
    };
    accelerators().iter().find(same).cloned()
}

/// What a name means when it is the value of this very label.
pub fn source_alias(label: &str, value: &str) -> Option<Arc<Device>> {
    let mut found = None;
    Table(SOURCE_ALIASES).each(|row| {
        if row.text("label") == label && fold(row.text("value")) == fold(value) {
            found = accelerator(row.text("device")).ok();
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_labels_and_people_write_are_known() {
        for (spelling, name) in [
            ("Tesla-T4", "Tesla-T4"),
            ("NVIDIA-T4-16GB", "Tesla-T4"),
            ("t4", "Tesla-T4"),
            ("NVIDIA-RTX-2080Ti", "NVIDIA-GeForce-RTX-2080-Ti"),
            ("NVIDIA-V100-PCIE-32GB", "Tesla-V100-PCIE-32GB"),
            ("NVIDIA-K80", "Tesla-K80"),
            ("NVIDIA-H200", "NVIDIA-H200"),
        ] {
            let device =
                accelerator(spelling).unwrap_or_else(|near| panic!("{spelling}: {near:?}"));
            assert_eq!(&*device.name, name, "{spelling}");
        }
    }

    #[test]
    fn every_rate_is_possible() {
        for d in accelerators() {
            assert!(
                d.peaks.fp32.get() > 1e12 && d.peaks.fp32.get() < 1e15,
                "{}",
                d.name
            );
            assert!(d.peaks.fp16 >= d.peaks.fp32, "{}", d.name);
            assert!(d.memory_rate.get() > 1e11, "{}", d.name);
            assert!(d.cores > 0 && d.clock_ghz > 0.3, "{}", d.name);
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_near_ones() {
        let near = accelerator("NVIDIA-A100-SXM9").expect_err("no such device");
        assert!(near.iter().any(|n| n.contains("A100")), "{near:?}");
    }
}
