//! The project's own `ps` model on the paper's testbed: three terms fitted on
//! the measured columns of Tables 5 and 6, judged on Table 7.

use super::mean_error;
use super::zeng_tables::{Cell, Table};
use crate::calibration::{Calibration, Prior, TransferParameters, fit};
use crate::cluster::{Cluster, ClusterFile, Defaults};
use crate::job::{Batch, Job, ParameterServer, Precision, Strategy};
use crate::model::{Case, Timings, ps};
use crate::placement::{Placement, Selection};
use crate::workload::catalogue;
use std::sync::Arc;

/// Expected error of one measurement, for the weight of priors against data.
const NOISE: f64 = 0.03;

/// The three terms. Their priors are the lab's values: on Tables 5 and 6
/// alone goodput and update cannot be told apart (both scale with bytes).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerFit {
    /// Share of the line rate that payload gets.
    pub goodput: f64,
    /// Start-up of each pull and push phase, in seconds.
    pub startup_s: f64,
    /// The server's time for a worker's byte, in seconds.
    pub update_s_per_byte: f64,
}

/// The fit and what it says of every cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The terms.
    pub terms: ServerFit,
    /// Table number and, for each cell, what `ps` predicts.
    pub predictions: Vec<(u32, Vec<f64>)>,
}

impl Fitted {
    /// Mean error of `ps` on a table's measured column.
    pub fn error(&self, table: &Table) -> f64 {
        let predicted = self
            .predictions
            .iter()
            .find(|(number, _)| *number == table.number);
        let predicted = predicted.map_or(&[][..], |(_, values)| values);
        mean_error(
            predicted
                .iter()
                .zip(&table.cells)
                .map(|(p, cell)| (*p, cell.measured)),
        )
    }
}

/// Fits on Tables 5 and 6, predicts 5, 6 and 7.
pub fn fit_server_terms(tables: &[Table]) -> Fitted {
    let beds: Vec<(&Table, Vec<(Job, Cluster)>)> = tables
        .iter()
        .filter(|t| t.number >= 5)
        .map(|table| {
            let runs = table
                .cells
                .iter()
                .map(|cell| (job(cell), testbed(table.number)));
            (table, runs.collect())
        })
        .collect();
    let lab = &Calibration::shipped().transfer;
    let priors = [
        Prior {
            centre: lab.goodput,
            spread: 0.02,
        },
        Prior {
            centre: lab.latency_s,
            spread: 1.0,
        },
        Prior {
            centre: lab.update_s_per_byte,
            spread: 0.5,
        },
    ];
    let values = fit(&priors, &|p| {
        let calibration = with_terms(p);
        beds.iter()
            .filter(|(table, _)| table.number < 7)
            .flat_map(|(table, runs)| runs.iter().zip(&table.cells))
            .map(|((job, cluster), cell)| {
                (predict(job, cluster, &calibration) / cell.measured).ln() / NOISE
            })
            .collect()
    });
    let calibration = with_terms(&values);
    let predictions = beds
        .iter()
        .map(|(table, runs)| {
            let predicted = runs
                .iter()
                .map(|(job, cluster)| predict(job, cluster, &calibration));
            (table.number, predicted.collect())
        })
        .collect();
    Fitted {
        terms: ServerFit {
            goodput: values[0],
            startup_s: values[1],
            update_s_per_byte: values[2],
        },
        predictions,
    }
}

/// The shipped calibration with the three terms replaced.
fn with_terms(values: &[f64]) -> Calibration {
    let shipped = Calibration::shipped();
    Calibration {
        transfer: TransferParameters {
            goodput: values[0].min(1.0),
            latency_s: values[1],
            update_s_per_byte: values[2],
            ..shipped.transfer
        },
        ..shipped.clone()
    }
}

fn job(cell: &Cell) -> Job {
    let entry = catalogue::find(cell.workload).expect("Table 1 names networks of the catalogue");
    Job {
        name: None,
        workload: Arc::new(entry.build(None)),
        batch: Batch::PerWorker(cell.batch),
        precision: Precision::Fp32,
        steps: None,
        strategy: Strategy::ParameterServer(ParameterServer::default()),
    }
}

/// The machines of a table.
fn testbed(table: u32) -> Cluster {
    let nic = if table == 7 { 10 } else { 1 };
    let third = if table > 5 {
        format!(
            "- {{name: gtx, accelerators: {{type: NVIDIA-GeForce-GTX-1060-6GB}}, nic_gbps: {nic}}}\n"
        )
    } else {
        String::new()
    };
    let text = format!(
        "nodes:\n- {{name: ps, role: server, nic_gbps: {nic}}}\n\
         - {{name: rtx, count: 2, accelerators: {{type: Quadro-RTX-4000}}, nic_gbps: {nic}}}\n{third}"
    );
    ClusterFile {
        name: "testbed",
        text: &text,
    }
    .read(&Defaults::default())
    .expect("the testbed is valid")
}

fn predict(job: &Job, cluster: &Cluster, calibration: &Calibration) -> f64 {
    let placement =
        Placement::select(job, cluster, &Selection::default()).expect("the testbed has workers");
    let case = Case::new(
        job,
        cluster,
        calibration,
        &placement,
        &mut Timings::default(),
    )
    .expect("the catalogue counts FLOPs");
    let mut model = ps::Model::new(&case).expect("a parameter-server job");
    model.step().time.get()
}
