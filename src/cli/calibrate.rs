//! `stepcast calibrate`.

use super::args::{CalibrateArgs, Format};
use super::files::{Failure, read_calibration, read_runs};
use super::output;
use crate::calibration::Calibration;
use crate::learn::{Learnt, Start, learn};
use crate::runs::{Run, Split};
use serde::Serialize;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) fn run(args: CalibrateArgs) -> Result<(), Failure> {
    let runs = read_runs(&args.runs, args.group.as_deref())?;
    let marked = runs.iter().any(|run| run.split.is_some());
    let fitted: Vec<&Run> = runs
        .iter()
        .filter(|run| !marked || run.split == Some(Split::Calibrate))
        .collect();
    if fitted.is_empty() {
        return Err("every run is marked as `test`; there is none to calibrate on".into());
    }
    let from = match args.from.as_deref() {
        Some(path) if path == Path::new("priors") => None,
        Some(path) => Some(read_calibration(path)?),
        None => Some(Calibration::shipped().clone()),
    };
    let start = from.as_ref().map_or(Start::Priors, Start::From);
    let mut learnt = learn(&fitted, start);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    let version = args
        .version_name
        .unwrap_or_else(|| format!("calibrated-{now}"));
    learnt.calibration.version = Some(version);
    if let Some(provenance) = &mut learnt.calibration.provenance {
        provenance.fitted_at = Some(now);
    }
    let left_out: Vec<String> = learnt
        .left_out
        .iter()
        .map(|(id, why)| format!("{id}: not fitted on: {why}"))
        .collect();
    output::warn(&left_out);
    if learnt.left_out.len() == fitted.len() {
        return Err("no run could be predicted, so there is nothing to fit".into());
    }
    let text = serde_yaml::to_string(&learnt.calibration)?;
    write_whole(&args.out, &text)?;
    report(&learnt, from.as_ref(), fitted.len(), args.output)
}

/// Writes beside the file first, so that what was there before is never lost
/// to half a file.
fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        return output::print(text);
    }
    let beside = path.with_extension("partial");
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    Ok(written.map_err(|error| {
        let _ = std::fs::remove_file(&beside);
        format!("{}: {error}", path.display())
    })?)
}

#[derive(Serialize)]
struct ParameterView {
    parameter: String,
    before: f64,
    value: f64,
    /// One standard deviation, as a fraction of the value.
    deviation: Option<f64>,
    determined: bool,
}

#[derive(Serialize)]
struct CalibrateView {
    version: String,
    /// Runs that were fitted on.
    runs: usize,
    /// Runs at odds with all others.
    set_aside: Vec<String>,
    mape: Option<f64>,
    parameters: Vec<ParameterView>,
}

fn report(
    learnt: &Learnt,
    from: Option<&Calibration>,
    runs: usize,
    format: Format,
) -> Result<(), Failure> {
    let calibration = &learnt.calibration;
    let before =
        |slot: &crate::calibration::Slot| from.map_or(slot.prior().centre, |from| from.value(slot));
    let mut parameters: Vec<ParameterView> = learnt
        .determined
        .iter()
        .map(|(slot, deviation)| ParameterView {
            parameter: slot.to_string(),
            before: before(slot),
            value: calibration.value(slot),
            deviation: Some(*deviation),
            determined: true,
        })
        .collect();
    let held = learnt.undetermined.iter().map(|slot| ParameterView {
        parameter: slot.to_string(),
        before: before(slot),
        value: calibration.value(slot),
        deviation: None,
        determined: false,
    });
    parameters.extend(held);
    let mape = calibration.provenance.as_ref().and_then(|p| p.error);
    let view = CalibrateView {
        version: calibration.version.clone().unwrap_or_default(),
        runs: runs - learnt.left_out.len() - learnt.set_aside.len(),
        set_aside: learnt.set_aside.clone(),
        mape,
        parameters,
    };
    match format {
        Format::Json | Format::Yaml => output::print(&output::document(&view, format)?),
        Format::Csv => {
            let rows: Vec<Vec<String>> = view
                .parameters
                .iter()
                .map(|p| {
                    let deviation = p.deviation.map_or(String::new(), |d| d.to_string());
                    vec![
                        p.parameter.clone(),
                        p.before.to_string(),
                        p.value.to_string(),
                        deviation,
                        p.determined.to_string(),
                    ]
                })
                .collect();
            let header = ["parameter", "before", "value", "deviation", "determined"];
            output::print(&output::csv(&header, &rows))
        }
        Format::Table => output::print(&table(&view)),
    }
}

fn table(view: &CalibrateView) -> String {
    let mut table = output::table(&["parameter", "before", "now", "±"]);
    for p in view.parameters.iter().filter(|p| p.determined) {
        table.add_row(vec![
            p.parameter.clone(),
            format!("{:.4e}", p.before),
            format!("{:.4e}", p.value),
            p.deviation
                .map_or(String::new(), |d| format!("{:.0} %", d * 100.0)),
        ]);
    }
    let held: Vec<&str> = view
        .parameters
        .iter()
        .filter(|p| !p.determined)
        .map(|p| p.parameter.as_str())
        .collect();
    let error = view.mape.map_or(String::new(), |e| {
        format!(", mean error {:.1} %", e * 100.0)
    });
    let mut text = format!(
        "{}: fitted on {}{error}\n\n{table}\n",
        view.version,
        output::count(view.runs, "run")
    );
    if !view.set_aside.is_empty() {
        let ids = view.set_aside.join(", ");
        text.extend(["\nset aside, at odds with all others: ", &ids, "\n"]);
    }
    if !held.is_empty() {
        text += "\nheld, since the runs cannot determine them:\n";
        for line in output::wrapped(&held.join(", "), usize::from(output::width()) - 2) {
            text.extend(["  ", line, "\n"]);
        }
    }
    text
}
