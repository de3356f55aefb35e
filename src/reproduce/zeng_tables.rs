//! Zeng 2023, Tables 1, 2 and 4 to 7. Table 3 repeats Table 2's numbers, a
//! printing error, and is left out.

use super::zeng_data::{
    ALEXNET_OF_TABLES_6_AND_7, Counted, Printed, TABLE_1, TABLE_2_FAST, TABLE_2_SLOW, TABLE_4,
    TABLE_5, TABLE_6, TABLE_7,
};
use crate::model::zeng::{Network, cpu_rate, gpu_rate, unequal};
use crate::units::{BytesPerSecond, Flops, FlopsPerSecond, Seconds};
use crate::workload::catalogue;

/// Stream processors and clock of the paper's GPUs.
const RTX_4000: (f64, f64) = (2304.0, 1.545);
const GTX_1060: (f64, f64) = (1280.0, 1.506);

/// A network of Table 1: forward FLOPs as printed and as counted by us.
#[derive(Clone, Debug, PartialEq)]
pub struct FlopRow {
    /// The paper's name.
    pub network: &'static str,
    /// The catalogue's name.
    pub workload: &'static str,
    /// Printed.
    pub printed: f64,
    /// Counted from the catalogue's layers.
    pub counted: f64,
}

/// One prediction of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The paper's name of the network.
    pub network: &'static str,
    /// The catalogue's name.
    pub workload: &'static str,
    /// Samples a worker.
    pub batch: u32,
    /// The paper's prediction, as printed.
    pub printed: f64,
    /// The same, recomputed.
    pub recomputed: f64,
    /// What the authors measured.
    pub measured: f64,
}

/// One table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its number in the paper.
    pub number: u32,
    /// What it shows.
    pub title: &'static str,
    /// Its predictions.
    pub cells: Vec<Cell>,
}

impl Table {
    /// The largest relative difference between printed and recomputed.
    pub fn worst_difference(&self) -> f64 {
        self.cells
            .iter()
            .map(|c| (c.recomputed / c.printed - 1.0).abs())
            .fold(0.0, f64::max)
    }

    /// Mean error of the paper's predictions against its measurements.
    pub fn paper_error(&self) -> f64 {
        super::mean_error(self.cells.iter().map(|c| (c.printed, c.measured)))
    }
}

/// Table 1 beside the catalogue's own counts.
pub fn flops() -> Vec<FlopRow> {
    TABLE_1
        .iter()
        .map(|row| FlopRow {
            network: row.name,
            workload: row.workload,
            printed: row.forward,
            counted: catalogue::find(row.workload)
                .map_or(f64::NAN, |entry| entry.build(None).forward_flops().get()),
        })
        .collect()
}

/// Tables 2 and 4 to 7, recomputed.
pub fn tables() -> Vec<Table> {
    let gigabit = BytesPerSecond::from_gbit(1.0);
    let ten_gigabit = BytesPerSecond::from_gbit(10.0);
    let two = [RTX_4000; 2];
    let three = [RTX_4000, RTX_4000, GTX_1060];
    let table =
        |number, title, printed: &[Printed], recompute: &dyn Fn(&Printed) -> Seconds| Table {
            number,
            title,
            cells: printed
                .iter()
                .map(|p| Cell {
                    network: p.network,
                    workload: row(p.network).workload,
                    batch: p.batch,
                    printed: p.predicted,
                    recomputed: recompute(p).get(),
                    measured: p.measured,
                })
                .collect(),
        };
    vec![
        table(2, "one CPU, \"2.0 GHz\"", TABLE_2_SLOW, &one_cpu),
        table(2, "one CPU, \"2.2 GHz\"", TABLE_2_FAST, &one_cpu),
        table(4, "two CPUs, 1 Gb/s", TABLE_4, &|p| {
            let network = network(p.network, None);
            let transfer = network.transfer(gigabit);
            unequal(&[(one_cpu(p), 2.0)], transfer, transfer)
        }),
        table(5, "two RTX 4000, 1 Gb/s", TABLE_5, &|p| {
            gpus(p, &two, gigabit, None)
        }),
        table(6, "two RTX 4000 and a GTX 1060, 1 Gb/s", TABLE_6, &|p| {
            gpus(p, &three, gigabit, Some(ALEXNET_OF_TABLES_6_AND_7))
        }),
        table(7, "two RTX 4000 and a GTX 1060, 10 Gb/s", TABLE_7, &|p| {
            gpus(p, &three, ten_gigabit, Some(ALEXNET_OF_TABLES_6_AND_7))
        }),
    ]
}

/// Eq. 28 at the effective clock.
fn one_cpu(p: &Printed) -> Seconds {
    network(p.network, None).flops(f64::from(p.batch)) / cpu_rate(p.clock)
}

/// Algorithm 2.
fn gpus(p: &Printed, devices: &[(f64, f64)], nic: BytesPerSecond, alexnet: Option<f64>) -> Seconds {
    let network = network(p.network, alexnet);
    let mut ready: Vec<(Seconds, f64)> = devices
        .iter()
        .map(|&(processors, clock)| -> FlopsPerSecond { gpu_rate(clock, processors) })
        .map(|rate| (network.first_push(f64::from(p.batch), rate), 1.0))
        .collect();
    ready.sort_by(|a, b| a.0.get().total_cmp(&b.0.get()));
    let transfer = network.transfer(nic);
    unequal(&ready, transfer, transfer)
}

fn row(name: &str) -> &'static Counted {
    TABLE_1
        .iter()
        .find(|row| row.name == name)
        .expect("every table names networks of Table 1")
}

/// A network with Table 1's counts, as the authors computed with them.
fn network(name: &str, alexnet: Option<f64>) -> Network {
    let row = row(name);
    let parameters = match alexnet {
        Some(millions) if name == "Alexnet" => millions,
        _ => row.parameters.unwrap_or_default(),
    };
    Network {
        forward: Flops::new(row.forward),
        backward: Flops::new(row.backward),
        parameters: parameters * 1e6,
        pushes: row.pushes.unwrap_or(1.0),
    }
}
