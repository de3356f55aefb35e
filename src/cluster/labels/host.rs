//! A node's processor, NIC and transport.

use super::{Candidate, NFD, Resolver};
use crate::cluster::fact::{FactName, Source};
use crate::cluster::object::Quantity;
use crate::cluster::{Defaults, Transport};
use crate::device::{self, CpuSpec, Device, NfdModel};
use crate::units::{BytesPerSecond, Unit, parse_quantity};
use std::sync::Arc;

impl Resolver<'_> {
    pub(super) fn cpu(&mut self) -> Option<Arc<Device>> {
        let mut specs: Vec<Candidate<&'static CpuSpec>> = Vec::new();
        if let Some((source, name)) = self.own("cpu") {
            match device::cpu(name) {
                Ok(spec) => specs.push(candidate(source, spec)),
                Err(_) => self.warn(format_args!("{source}: `{name}` is not a known processor")),
            }
        }
        let model = |part: &str| self.label(&format!("{NFD}cpu-model.{part}"));
        if let (Some(vendor), Some(family), Some(id)) =
            (model("vendor_id"), model("family"), model("id"))
            && let Some(spec) = device::nfd_cpu(NfdModel { vendor, family, id })
        {
            specs.push(candidate(Source::Vendor(format!("{NFD}cpu-model.*")), spec));
        }
        if let Some((name, instance)) = self.instance
            && let Some(spec) = instance.cpu.and_then(|c| device::cpu(c).ok())
        {
            specs.push(candidate(Source::InstanceType(name.to_owned()), spec));
        }
        let cores = self.cores();
        if specs.is_empty() {
            return None;
        }
        // A generic entry and a named part of the same family do not contradict.
        specs.truncate(1);
        let spec = self.settle(FactName::Cpu, specs)?;
        let clock = self
            .label("karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz")
            .and_then(|mhz| mhz.parse::<f64>().ok())
            .filter(|mhz| (100.0..20_000.0).contains(mhz))
            .map(|mhz| mhz / 1e3);
        Some(Arc::new(spec.device(cores, clock)))
    }

    fn cores(&mut self) -> Option<u32> {
        let mut candidates = Vec::new();
        if let Some((source, text)) = self.own("cpu-cores") {
            match text.parse::<u32>().ok().filter(|c| *c > 0) {
                Some(value) => candidates.push(Candidate {
                    source,
                    value,
                    text: value.to_string(),
                }),
                None => self.warn(format_args!("{source}: `{text}` is not a number of cores")),
            }
        }
        let allocatable = &self.object.status.allocatable;
        if let Some(amount) = allocatable.get("cpu").and_then(Quantity::amount) {
            let value = (amount.round() as u32).max(1);
            candidates.push(Candidate {
                source: Source::Allocatable("cpu".into()),
                value,
                text: value.to_string(),
            });
        } else if let Some((name, instance)) = self.instance.filter(|(_, i)| i.vcpus > 0) {
            candidates.push(Candidate {
                source: Source::InstanceType(name.to_owned()),
                value: instance.vcpus,
                text: instance.vcpus.to_string(),
            });
        }
        candidates.truncate(1);
        self.settle(FactName::CpuCores, candidates)
    }

    pub(super) fn nic(&mut self, defaults: &Defaults) -> BytesPerSecond {
        let mut candidates = Vec::new();
        if let Some((source, text)) = self.own("nic-gbps") {
            match parse_quantity(text, Unit::Gbps).filter(|g| Unit::Gbps.plausible().contains(g)) {
                Some(gbps) => candidates.push(gbit(source, gbps)),
                None => self.warn(format_args!(
                    "{source}: `{text}` is not {}",
                    Unit::Gbps.expected()
                )),
            }
        }
        for key in [
            "karpenter.k8s.aws/instance-network-bandwidth",
            "eks.amazonaws.com/instance-network-bandwidth",
        ] {
            if let Some(text) = self.label(key) {
                match text
                    .parse::<f64>()
                    .ok()
                    .filter(|m| Unit::Gbps.plausible().contains(&(m / 1e3)))
                {
                    Some(mbps) => candidates.push(gbit(Source::Cloud(key.into()), mbps / 1e3)),
                    None => self.warn(format_args!("{key}: `{text}` is not a rate in Mbit/s")),
                }
            }
        }
        if candidates.is_empty()
            && let Some((name, instance)) = self.instance
            && let Some(gbps) = instance.nic_gbps
        {
            candidates.push(gbit(Source::InstanceType(name.to_owned()), gbps));
        }
        if candidates.is_empty() {
            candidates.push(gbit(Source::Default, defaults.nic.gbit()));
            self.warn(format_args!(
                "no label says how fast the NIC is; taking {}; label it stepcast.dev/nic-gbps",
                defaults.nic
            ));
        }
        self.settle(FactName::NicGbps, candidates)
            .unwrap_or(defaults.nic)
    }

    pub(super) fn transport(&mut self) -> Transport {
        let mut candidates = Vec::new();
        if let Some((source, text)) = self.own("transport") {
            match text {
                "tcp" => candidates.push(transport(source, Transport::Tcp)),
                "rdma" => candidates.push(transport(source, Transport::Rdma)),
                _ => self.warn(format_args!("{source}: `{text}` is neither tcp nor rdma")),
            }
        }
        let rdma = self
            .object
            .status
            .allocatable
            .iter()
            .find(|(key, amount)| {
                (key.starts_with("rdma/") || *key == "vpc.amazonaws.com/efa")
                    && amount.amount().is_some_and(|a| a > 0.0)
            })
            .map(|(key, _)| key.clone());
        if let Some(key) = rdma {
            candidates.push(transport(Source::Allocatable(key), Transport::Rdma));
        } else if let Some((name, _)) = self.instance.filter(|(_, i)| i.rdma) {
            candidates.push(transport(
                Source::InstanceType(name.to_owned()),
                Transport::Rdma,
            ));
        }
        candidates.truncate(1);
        self.settle(FactName::Transport, candidates)
            .unwrap_or_default()
    }
}

fn candidate(source: Source, spec: &'static CpuSpec) -> Candidate<&'static CpuSpec> {
    Candidate {
        source,
        text: spec.name.to_string(),
        value: spec,
    }
}

fn gbit(source: Source, gbps: f64) -> Candidate<BytesPerSecond> {
    Candidate {
        source,
        value: BytesPerSecond::from_gbit(gbps),
        text: format!("{gbps}"),
    }
}

fn transport(source: Source, value: Transport) -> Candidate<Transport> {
    Candidate {
        source,
        text: value.to_string(),
        value,
    }
}
