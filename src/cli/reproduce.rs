//! `stepcast reproduce`.

use super::args::{Format, ReproduceArgs};
use super::files::Failure;
use super::output;
use crate::reproduce::{
    CHOSEN, Fitted, FlopRow, Table, figures, fit_server_terms, flops, replacement, tables,
};
use serde::Serialize;
use std::fmt::Write;

#[derive(Serialize)]
struct Row {
    table: u32,
    network: &'static str,
    batch: u32,
    printed_s: f64,
    recomputed_s: f64,
    difference: f64,
    measured_s: f64,
    paper_error: f64,
    ps_s: Option<f64>,
    ps_error: Option<f64>,
}

#[derive(Serialize)]
struct Flops {
    network: &'static str,
    workload: &'static str,
    printed: f64,
    counted: f64,
    difference: f64,
}

#[derive(Serialize)]
struct Summary {
    table: u32,
    title: &'static str,
    worst_difference: f64,
    paper_error: f64,
    ps_error: Option<f64>,
}

#[derive(Serialize)]
struct Terms {
    goodput: f64,
    startup_s: f64,
    update_s_per_byte: f64,
}

#[derive(Serialize)]
struct Report {
    paper: &'static str,
    table_1: Vec<Flops>,
    rows: Vec<Row>,
    tables: Vec<Summary>,
    fitted_on_tables_5_and_6: Terms,
    liu_2022: Vec<LiuRow>,
    liu_2022_table_3_vgg16: Option<(f64, f64)>,
}

/// Scaling factors on Liu's testbed.
#[derive(Serialize)]
struct LiuRow {
    network: String,
    csf: f64,
    osf: f64,
    buffer_1_mb: f64,
    buffer_100_mb: f64,
    buffer_1_gb: f64,
    piecewise_none: f64,
    piecewise_buffer_100_mb: f64,
    piecewise_mg_wfbp: f64,
    piecewise_adaptive: f64,
}

const COLUMNS: [&str; 10] = [
    "table",
    "network",
    "batch",
    "printed_s",
    "recomputed_s",
    "difference",
    "measured_s",
    "paper_error",
    "ps_s",
    "ps_error",
];

pub(super) fn run(args: ReproduceArgs) -> Result<(), Failure> {
    let ReproduceArgs { output: format } = args;
    let tables = tables();
    let fitted = fit_server_terms(&tables);
    let counted = flops();
    match format {
        Format::Table => output::print(&sheet(&counted, &tables, &fitted)),
        Format::Csv => {
            let rows: Vec<Vec<String>> = rows(&tables, &fitted).iter().map(cells).collect();
            output::print(&output::csv(&COLUMNS, &rows))
        }
        Format::Json | Format::Yaml => {
            let report = report(&counted, &tables, &fitted);
            output::print(&output::document(&report, format)?)
        }
    }
}

fn rows(tables: &[Table], fitted: &Fitted) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in tables {
        let ours = fitted
            .predictions
            .iter()
            .find(|(number, _)| *number == table.number);
        for (i, cell) in table.cells.iter().enumerate() {
            let ps = ours.and_then(|(_, values)| values.get(i)).copied();
            rows.push(Row {
                table: table.number,
                network: cell.network,
                batch: cell.batch,
                printed_s: cell.printed,
                recomputed_s: cell.recomputed,
                difference: cell.recomputed / cell.printed - 1.0,
                measured_s: cell.measured,
                paper_error: cell.printed / cell.measured - 1.0,
                ps_s: ps,
                ps_error: ps.map(|p| p / cell.measured - 1.0),
            });
        }
    }
    rows
}

fn cells(row: &Row) -> Vec<String> {
    let optional = |x: Option<f64>| x.map_or_else(String::new, |x| x.to_string());
    vec![
        row.table.to_string(),
        row.network.to_owned(),
        row.batch.to_string(),
        row.printed_s.to_string(),
        row.recomputed_s.to_string(),
        row.difference.to_string(),
        row.measured_s.to_string(),
        row.paper_error.to_string(),
        optional(row.ps_s),
        optional(row.ps_error),
    ]
}

fn report(counted: &[FlopRow], tables: &[Table], fitted: &Fitted) -> Report {
    Report {
        paper: "Zeng 2023",
        table_1: counted
            .iter()
            .map(|row| Flops {
                network: row.network,
                workload: row.workload,
                printed: row.printed,
                counted: row.counted,
                difference: row.counted / row.printed - 1.0,
            })
            .collect(),
        rows: rows(tables, fitted),
        tables: tables
            .iter()
            .map(|table| Summary {
                table: table.number,
                title: table.title,
                worst_difference: table.worst_difference(),
                paper_error: table.paper_error(),
                ps_error: (table.number >= 5).then(|| fitted.error(table)),
            })
            .collect(),
        fitted_on_tables_5_and_6: Terms {
            goodput: fitted.terms.goodput,
            startup_s: fitted.terms.startup_s,
            update_s_per_byte: fitted.terms.update_s_per_byte,
        },
        liu_2022: figures()
            .into_iter()
            .map(|s| LiuRow {
                network: s.network,
                csf: s.csf,
                osf: s.none,
                buffer_1_mb: s.buffers[0],
                buffer_100_mb: s.buffers[1],
                buffer_1_gb: s.buffers[2],
                piecewise_none: s.piecewise_none,
                piecewise_buffer_100_mb: s.piecewise_buffer,
                piecewise_mg_wfbp: s.mg_wfbp,
                piecewise_adaptive: s.adaptive,
            })
            .collect(),
        liu_2022_table_3_vgg16: replacement(),
    }
}

/// Liu 2022's figures and Table 3, beside what is published.
fn liu_sheet() -> String {
    let two = |x: f64| format!("{x:.2}");
    let mut text = String::from(
        "\nLiu 2022, Figures 3, 4 and 6: scaling factor on 4 × 8 RTX 2080 Ti, 25 Gb/s\n",
    );
    let mut buffers = output::table(&[
        "network",
        "no overlap",
        "no fusion",
        "1 MB",
        "100 MB",
        "1 GB",
    ]);
    let mut plans = output::table(&[
        "network",
        "none",
        "100 MB",
        "MG-WFBP",
        "adaFusion",
        "over MG",
        "over 100 MB",
    ]);
    for s in figures() {
        let name = s.network.clone();
        let [small, large, huge] = s.buffers.map(two);
        buffers.add_row(vec![
            name.clone(),
            two(s.csf),
            two(s.none),
            small,
            large,
            huge,
        ]);
        plans.add_row(vec![
            name,
            two(s.piecewise_none),
            two(s.piecewise_buffer),
            format!("{:.3}", s.mg_wfbp),
            format!("{:.3}", s.adaptive),
            format!("{:+.1}%", (s.adaptive / s.mg_wfbp - 1.0) * 100.0),
            format!("{:+.1}%", (s.adaptive / s.piecewise_buffer - 1.0) * 100.0),
        ]);
    }
    let _ = writeln!(text, "{buffers}");
    let _ = writeln!(
        text,
        "\nLiu 2022, Figure 11: plans judged under the piecewise cost (eq. 18)\n{plans}"
    );
    text.push_str(
        "published: adaFusion 9.0 to 19.6 % over MG-WFBP, 32.2 to 150 % over a constant\n\
         buffer. Ours gains less: MG-WFBP as its authors define it is near the optimum, and\n\
         one tensor holds three quarters of VGG's bytes, which no plan can cut.\n",
    );
    if let Some((before, after)) = replacement() {
        let _ = writeln!(
            text,
            "\nLiu 2022, Table 3: VGG16's fully connected layers replaced: {before:.2} to {after:.2}\n\
             (published 0.25 to 0.72)"
        );
    }
    let c = CHOSEN;
    let _ = writeln!(
        text,
        "chosen, the paper is silent: batch {}, utilisation {} and {} (VGG), {} GB/s\n\
         effective, {} ms an all-reduce",
        c.batch,
        c.utilisation_resnet,
        c.utilisation_vgg,
        c.bandwidth / 1e9,
        c.overhead * 1e3
    );
    text
}

fn sheet(counted: &[FlopRow], tables: &[Table], fitted: &Fitted) -> String {
    let percent = |x: f64| format!("{:+.2}%", x * 100.0);
    let mut text = String::from("Zeng 2023, Table 1: forward FLOPs a sample\n");
    let mut table = output::table(&[
        "network",
        "printed",
        "our layers",
        "differs",
        "the paper counts",
    ]);
    for row in counted {
        let difference = row.counted / row.printed - 1.0;
        let note = match row.network {
            name if name.starts_with("Resnet") => "v1, no projections",
            "Overfeat" => "second layer at 28×28",
            _ => "",
        };
        table.add_row(vec![
            row.network.to_owned(),
            format!("{:.4e}", row.printed),
            format!("{:.4e}", row.counted),
            percent(difference),
            note.to_owned(),
        ]);
    }
    let _ = writeln!(text, "{table}");
    let all = rows(tables, fitted);
    let mut from = 0;
    for printed in tables {
        let ours = printed.number >= 5;
        let _ = writeln!(
            text,
            "\nZeng 2023, Table {}: {} (seconds)",
            printed.number, printed.title
        );
        let mut header = vec![
            "network", "bs", "printed", "again", "diff", "measured", "error",
        ];
        if ours {
            header.extend(["ps", "error"]);
        }
        let mut table = output::table(&header);
        for row in &all[from..from + printed.cells.len()] {
            let mut cells = vec![
                row.network.to_owned(),
                row.batch.to_string(),
                format!("{:.2}", row.printed_s),
                format!("{:.3}", row.recomputed_s),
                percent(row.difference),
                format!("{:.2}", row.measured_s),
                percent(row.paper_error),
            ];
            if let (Some(ps), Some(error)) = (row.ps_s, row.ps_error) {
                cells.extend([format!("{ps:.2}"), percent(error)]);
            }
            table.add_row(cells);
        }
        from += printed.cells.len();
        let _ = writeln!(text, "{table}");
        let _ = write!(
            text,
            "worst difference {:.2} %, mean error of the paper {:.1} %",
            printed.worst_difference() * 100.0,
            printed.paper_error() * 100.0
        );
        if ours {
            let role = if printed.number == 7 {
                "not fitted on"
            } else {
                "fitted on"
            };
            let _ = write!(
                text,
                ", of ps {:.1} % ({role})",
                fitted.error(printed) * 100.0
            );
        }
        text.push('\n');
    }
    let terms = &fitted.terms;
    let _ = writeln!(
        text,
        "\nps, fitted on the measured columns of Tables 5 and 6 (three terms):\n\
         goodput {:.3} of line rate, start-up {:.1} ms a phase, update {:.2} ns a worker's byte",
        terms.goodput,
        terms.startup_s * 1e3,
        terms.update_s_per_byte * 1e9
    );
    text.push_str(&liu_sheet());
    text
}
