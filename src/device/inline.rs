//! Devices as a cluster file names or defines them.

use super::cpus::anonymous;
use super::{Device, DeviceKind, Peaks, accelerator, cpu};
use crate::input::{Field, Tree};
use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond, Unit};
use std::sync::Arc;

const DEFINITION: &[&str] = &[
    "name",
    "fp32_tflops",
    "tf32_tflops",
    "fp16_tflops",
    "bf16_tflops",
    "memory_gib",
    "memory_gbps",
    "host_link_gbps",
    "peer_link_gbps",
    "cores",
    "clock_ghz",
];

/// An accelerator by name, or defined in place.
pub fn read_accelerator(field: &Field<'_>) -> Option<Arc<Device>> {
    if let Tree::Map(_) = field.tree() {
        return define(field).map(Arc::new);
    }
    let name = field.text("the name of an accelerator, or a map that defines one")?;
    accelerator(name)
        .inspect_err(|near| {
            let hint = if near.is_empty() {
                "`stepcast devices` lists the known ones; a map with name, fp32_tflops, \
                 memory_gib and memory_gbps defines another"
                    .to_owned()
            } else {
                format!("did you mean {}?", near.join(" or "))
            };
            field.problem("a known accelerator", Some(hint));
        })
        .ok()
}

fn define(field: &Field<'_>) -> Option<Device> {
    let object = field.object("a device", DEFINITION)?;
    let name = object
        .require("name", "a name for the device")?
        .text("a name");
    let rate = |key| object.get(key).map(|f| f.positive(Unit::Teraflops));
    let fp32 = object
        .require("fp32_tflops", "its single-precision peak in TFLOP/s")
        .and_then(|f| f.positive(Unit::Teraflops));
    let memory = object
        .require("memory_gib", "its memory in GiB")
        .and_then(|f| f.positive(Unit::Gibibytes));
    let memory_rate = object
        .require("memory_gbps", "its memory bandwidth in GB/s")
        .and_then(|f| f.positive(Unit::GigabytesPerSecond));
    let link = |key| {
        object
            .get(key)
            .and_then(|f| f.positive(Unit::GigabytesPerSecond))
    };
    let host_link = BytesPerSecond::from_gigabytes(link("host_link_gbps").unwrap_or(15.75));
    let peer = link("peer_link_gbps").map(BytesPerSecond::from_gigabytes);
    let cores = object.get("cores").and_then(|f| f.small_count(1, "cores"));
    let clock = object
        .get("clock_ghz")
        .and_then(|f| f.positive(Unit::Gigahertz));
    let (tf32, fp16, bf16) = (
        rate("tf32_tflops"),
        rate("fp16_tflops"),
        rate("bf16_tflops"),
    );
    let fp32 = FlopsPerSecond::from_tera(fp32?);
    let or_fp32 =
        |rate: Option<Option<f64>>| rate.flatten().map_or(fp32, FlopsPerSecond::from_tera);
    Some(Device {
        name: name?.into(),
        kind: DeviceKind::Accelerator,
        architecture: "".into(),
        // Without cores and clock, any pair whose product is the peak serves
        // the papers' formula.
        cores: cores.unwrap_or(1000),
        clock_ghz: clock.unwrap_or(fp32.get() / 2.0 / 1e12),
        peaks: Peaks {
            fp32,
            tf32: or_fp32(tf32),
            fp16: or_fp32(fp16),
            bf16: or_fp32(bf16),
        },
        memory: Some(Bytes::from_gib(memory?)),
        memory_rate: BytesPerSecond::from_gigabytes(memory_rate?),
        host_link,
        peer_rate: peer.unwrap_or(host_link),
    })
}

/// A processor by type, or by clock and cores; one that only holds weights
/// may leave its clock out.
pub fn read_cpu(field: &Field<'_>, computes: bool) -> Option<Arc<Device>> {
    let object = field.object("a cpu", &["type", "cores", "clock_ghz"])?;
    let kind = object.get("type");
    let spec = kind.as_ref().map(|f| {
        let name = f.text("the type of a processor, such as xeon-e5-2660")?;
        cpu(name)
            .inspect_err(|near| {
                let hint = if near.is_empty() {
                    "`stepcast devices` lists the known ones; leave `type` out and give \
                     `cores` and `clock_ghz` instead"
                        .to_owned()
                } else {
                    format!("did you mean {}?", near.join(" or "))
                };
                f.problem("a known processor", Some(hint));
            })
            .ok()
    });
    let cores = object.get("cores").map(|f| f.small_count(1, "cores"));
    let clock = object.get("clock_ghz").map(|f| f.positive(Unit::Gigahertz));
    match (spec, cores, clock) {
        (Some(spec), cores, clock) => {
            let (cores, clock) = (transpose(cores)?, transpose(clock)?);
            Some(Arc::new(spec?.device(cores, clock)))
        }
        (None, Some(_), None) if computes => {
            object.require("clock_ghz", "its clock in GHz, or its `type`: it computes");
            None
        }
        (None, Some(cores), clock) => Some(Arc::new(anonymous(
            cores?,
            transpose(clock)?.unwrap_or(2.5),
        ))),
        (None, None, _) => {
            field.problem("a processor's `type`, or its `cores` and `clock_ghz`", None);
            None
        }
    }
}

/// Absent is fine, present must have been read.
#[allow(clippy::option_option, reason = "absent and unreadable differ")]
const fn transpose<T: Copy>(value: Option<Option<T>>) -> Option<Option<T>> {
    match value {
        None => Some(None),
        Some(None) => None,
        Some(read) => Some(read),
    }
}
