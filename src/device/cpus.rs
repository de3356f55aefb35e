//! The catalogue of processors.

use super::name::fold;
use super::table::Table;
use super::{Device, DeviceKind, Peaks};
use crate::units::{BytesPerSecond, FlopsPerSecond};
use std::sync::{Arc, LazyLock};

/// Cores, clock, fp32 operations a cycle and core, memory bandwidth: a socket.
const TABLE: &str = include_str!("cpus.csv");

/// `cpu-model.*` labels of Node Feature Discovery to generic entries.
const NFD_MODELS: &str = include_str!("nfd_models.csv");

/// fp32 operations a cycle and core where nobody says: AVX2, two FMA units.
const COMMON_FLOPS_PER_CYCLE: f64 = 32.0;

/// What one thread can draw of its socket's memory bandwidth (streaming
/// optimizer steps of the lab's hosts).
pub const MEMORY_PER_THREAD: BytesPerSecond = BytesPerSecond::from_gigabytes(16.0);

/// A processor as catalogued: a socket, or a core where cores are not fixed.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuSpec {
    /// Canonical name.
    pub name: Arc<str>,
    /// Other names.
    aliases: Vec<String>,
    /// Cores; `None` where the node must say.
    pub cores: Option<u32>,
    /// Base clock in GHz.
    pub clock_ghz: f64,
    /// fp32 operations a cycle and core.
    pub flops_per_cycle: f64,
    /// Memory bandwidth of the socket in GB/s.
    pub memory_gbps: f64,
}

/// The three labels by which Node Feature Discovery tells processors apart.
#[derive(Clone, Copy, Debug)]
pub struct NfdModel<'a> {
    /// `cpu-model.vendor_id`.
    pub vendor: &'a str,
    /// `cpu-model.family`.
    pub family: &'a str,
    /// `cpu-model.id`.
    pub id: &'a str,
}

static CATALOGUE: LazyLock<Vec<CpuSpec>> = LazyLock::new(|| {
    let mut specs: Vec<CpuSpec> = Vec::new();
    Table(TABLE).each(|row| {
        let cores = row.number("cores").unwrap_or_default() as u32;
        specs.push(CpuSpec {
            name: row.text("name").into(),
            aliases: row.parts("aliases").map(fold).collect(),
            cores: (cores > 0).then_some(cores),
            clock_ghz: row.number("clock_ghz").unwrap_or_default(),
            flops_per_cycle: row.number("flops_per_cycle").unwrap_or_default(),
            memory_gbps: row.number("memory_gbps").unwrap_or_default(),
        });
    });
    specs
});

/// Every processor.
pub fn cpus() -> &'static [CpuSpec] {
    &CATALOGUE
}

impl CpuSpec {
    /// The device that `cores` of it at `clock_ghz` make.
    pub fn device(&self, cores: Option<u32>, clock_ghz: Option<f64>) -> Device {
        let cores = cores.or(self.cores).unwrap_or(1);
        let clock_ghz = clock_ghz.unwrap_or(self.clock_ghz);
        let peak = f64::from(cores) * clock_ghz * 1e9 * self.flops_per_cycle;
        let peak = FlopsPerSecond::new(peak);
        // A few threads of a socket cannot draw all of its bandwidth.
        let socket = BytesPerSecond::from_gigabytes(self.memory_gbps);
        let memory_rate = socket.min(MEMORY_PER_THREAD * f64::from(cores));
        Device {
            name: Arc::clone(&self.name),
            kind: DeviceKind::Cpu,
            architecture: "cpu".into(),
            cores,
            clock_ghz,
            peaks: Peaks {
                fp32: peak,
                tf32: peak,
                fp16: peak,
                bf16: peak,
            },
            memory: None,
            memory_rate,
            host_link: memory_rate,
            peer_rate: memory_rate,
        }
    }
}

/// A processor known by clock and cores alone.
pub(super) fn anonymous(cores: u32, clock_ghz: f64) -> Device {
    let spec = CpuSpec {
        name: "cpu".into(),
        aliases: Vec::new(),
        cores: None,
        clock_ghz,
        flops_per_cycle: COMMON_FLOPS_PER_CYCLE,
        memory_gbps: f64::INFINITY,
    };
    spec.device(Some(cores), None)
}

/// A processor by any of its names; the error names the nearest ones.
pub fn cpu(name: &str) -> Result<&'static CpuSpec, Vec<&'static str>> {
    let wanted = fold(name);
    let found = cpus()
        .iter()
        .find(|spec| fold(&spec.name) == wanted || spec.aliases.contains(&wanted));
    found.ok_or_else(|| crate::input::near(name, cpus().iter().map(|s| &*s.name)))
}

/// The generic processor that Node Feature Discovery's labels mean.
pub fn nfd_cpu(model: NfdModel<'_>) -> Option<&'static CpuSpec> {
    let mut found = None;
    Table(NFD_MODELS).each(|row| {
        let same = row.text("vendor").eq_ignore_ascii_case(model.vendor)
            && row.text("family") == model.family
            && row.text("id") == model.id;
        if same {
            found = cpu(row.text("cpu")).ok();
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_hosts_and_the_papers_are_known() {
        for name in [
            "lab-xeon-1t",
            "lab-xeon-4t",
            "xeon-e5-2660",
            "Intel(R) Xeon(R) CPU E5-2620 0 @ 2.00GHz",
        ] {
            assert!(cpu(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut seen = std::collections::HashMap::new();
        for spec in cpus() {
            for name in std::iter::once(fold(&spec.name)).chain(spec.aliases.iter().cloned()) {
                let other = seen.insert(name.clone(), &spec.name);
                assert!(other.is_none_or(|o| *o == spec.name), "{name}");
            }
        }
    }

    #[test]
    fn every_nfd_model_leads_to_a_processor() {
        Table(NFD_MODELS).each(|row| {
            let model = NfdModel {
                vendor: row.text("vendor"),
                family: row.text("family"),
                id: row.text("id"),
            };
            assert!(nfd_cpu(model).is_some(), "{model:?}");
        });
    }
}
