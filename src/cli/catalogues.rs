//! `stepcast workloads` and `stepcast devices`.

use super::args::{Format, ListArgs};
use super::files::Failure;
use super::output;
use crate::device;
use crate::input::{Number, Tree};
use crate::workload::catalogue;
use serde::Serialize;

#[derive(Serialize)]
struct WorkloadRow {
    name: &'static str,
    aliases: Vec<&'static str>,
    parameters: u64,
    forward_flops: f64,
    layers: usize,
    tensors: usize,
    sequence_length: Option<u32>,
    about: &'static str,
}

pub(super) fn workloads(args: &ListArgs) -> Result<(), Failure> {
    let rows: Vec<WorkloadRow> = catalogue::entries()
        .iter()
        .filter(|entry| matches(args, entry.name, entry.aliases))
        .map(|entry| {
            let workload = entry.build(None);
            WorkloadRow {
                name: entry.name,
                aliases: entry.aliases.to_vec(),
                parameters: workload.parameters(),
                forward_flops: workload.forward_flops().get(),
                layers: workload.layers.len(),
                tensors: workload.tensor_count(),
                sequence_length: entry.sequence_length,
                about: entry.about,
            }
        })
        .collect();
    let header = [
        "name",
        "parameters",
        "forward FLOPs",
        "tensors",
        "what it is",
    ];
    let cells = |row: &WorkloadRow| {
        vec![
            row.name.to_owned(),
            format!("{:.2} M", row.parameters as f64 / 1e6),
            format!("{:.2} G", row.forward_flops / 1e9),
            row.tensors.to_string(),
            row.about.to_owned(),
        ]
    };
    list(args, &header, &rows, cells)
}

#[derive(Serialize)]
struct DeviceRow {
    name: String,
    kind: &'static str,
    fp32_tflops: f64,
    half_tflops: Option<f64>,
    memory_gib: Option<f64>,
    memory_gbps: f64,
    cores: Option<u32>,
    clock_ghz: f64,
}

pub(super) fn devices(args: &ListArgs) -> Result<(), Failure> {
    let accelerators = device::accelerators().iter().map(|d| DeviceRow {
        name: d.name.to_string(),
        kind: "accelerator",
        fp32_tflops: d.peaks.fp32.get() / 1e12,
        half_tflops: Some(d.peaks.fp16.max(d.peaks.bf16).get() / 1e12),
        memory_gib: d.memory.map(crate::units::Bytes::gib),
        memory_gbps: d.memory_rate.get() / 1e9,
        cores: Some(d.cores),
        clock_ghz: d.clock_ghz,
    });
    let cpus = device::cpus().iter().map(|spec| {
        let d = spec.device(None, None);
        DeviceRow {
            name: d.name.to_string(),
            kind: "cpu",
            fp32_tflops: d.peaks.fp32.get() / 1e12,
            half_tflops: None,
            memory_gib: None,
            memory_gbps: spec.memory_gbps,
            cores: spec.cores,
            clock_ghz: d.clock_ghz,
        }
    });
    let rows: Vec<DeviceRow> = accelerators
        .chain(cpus)
        .filter(|row| matches(args, &row.name, &[]))
        .collect();
    let header = [
        "name",
        "kind",
        "fp32 TFLOP/s",
        "16-bit",
        "memory",
        "GB/s",
        "cores",
        "GHz",
    ];
    let cells = |row: &DeviceRow| {
        vec![
            row.name.clone(),
            row.kind.to_owned(),
            format!("{:.2}", row.fp32_tflops),
            row.half_tflops
                .map_or_else(String::new, |h| format!("{h:.1}")),
            row.memory_gib
                .map_or_else(String::new, |m| format!("{m:.0} GiB")),
            format!("{:.0}", row.memory_gbps),
            row.cores
                .map_or_else(|| "by node".to_owned(), |c| c.to_string()),
            format!("{:.2}", row.clock_ghz),
        ]
    };
    list(args, &header, &rows, cells)
}

fn matches(args: &ListArgs, name: &str, aliases: &[&str]) -> bool {
    args.filter.as_deref().is_none_or(|filter| {
        let filter = filter.to_lowercase();
        name.to_lowercase().contains(&filter)
            || aliases.iter().any(|a| a.to_lowercase().contains(&filter))
    })
}

fn list<T: Serialize>(
    args: &ListArgs,
    header: &[&str],
    rows: &[T],
    cells: impl Fn(&T) -> Vec<String>,
) -> Result<(), Failure> {
    match args.output {
        Format::Table => {
            let mut table = output::table(header);
            for row in rows {
                table.add_row(cells(row));
            }
            output::print(&table.to_string())
        }
        Format::Csv => output::print(&records(rows)?),
        format => output::print(&output::document(&rows, format)?),
    }
}

/// Rows as CSV with the keys and values of their JSON.
fn records<T: Serialize>(rows: &[T]) -> Result<String, Failure> {
    let mut header: Vec<String> = Vec::new();
    let mut cells: Vec<Vec<String>> = Vec::new();
    for row in rows {
        let text = serde_yaml::to_string(row)?;
        let Tree::Map(entries) = crate::input::parse(&text)? else {
            continue;
        };
        header = entries.iter().map(|(key, _)| key.clone()).collect();
        cells.push(entries.iter().map(|(_, value)| cell(value)).collect());
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    Ok(output::csv(&header, &cells))
}

fn cell(value: &Tree) -> String {
    match value {
        Tree::Null | Tree::Map(_) => String::new(),
        Tree::Bool(b) => b.to_string(),
        Tree::Number(Number::Integer(i)) => i.to_string(),
        Tree::Number(Number::Float(x)) => x.to_string(),
        Tree::Text(text) => text.clone(),
        Tree::List(items) => items.iter().map(cell).collect::<Vec<_>>().join(" "),
    }
}
