//! `stepcast evaluate`.

mod page;
mod suite;
mod view;

use super::args::{EvaluateArgs, EvaluateFormat, Format};
use super::files::{Failure, read_calibration, read_runs};
use super::output;
use crate::calibration::Calibration;
use crate::evaluate::{Evaluation, Judged, Parting, Report};
use crate::plot;
use view::ReportView;

pub(super) fn run(args: &EvaluateArgs) -> Result<(), Failure> {
    let calibration = match &args.calibration {
        Some(path) => read_calibration(path)?,
        None => Calibration::shipped().clone(),
    };
    if let (Some(suite), Some(page)) = (&args.suite, &args.page) {
        return suite::run(suite, page, args.check, &calibration);
    }
    let group = args.group.as_deref();
    let runs = read_runs(&args.runs, group)?;
    let fitted = read_runs(&args.calibrate, None)?;
    let parting = match args.folds {
        Some(folds) => Parting::Folds(args.fold_by.into(), folds as usize),
        None if args.calibrate.is_empty() => Parting::AsMarked,
        None => Parting::On(&fitted),
    };
    let evaluation = Evaluation {
        parting,
        compute_given: args.compute_given,
        calibration: &calibration,
    };
    let report = evaluation.run(&runs);
    warn_of(&report);
    if report.verdicts.is_empty() {
        let why = if report.unanswered.is_empty() {
            "there is no run to report on: all are fitted on\n  hint: mark some with `\"split\": \"test\"`, or give --folds"
        } else {
            "no run could be predicted"
        };
        return Err(why.into());
    }
    if let Some(path) = &args.svg {
        std::fs::write(path, plot::scatter(&report, "predicted against measured")?)?;
    }
    match args.output {
        EvaluateFormat::Table => output::print(&table(&report, args.each)),
        EvaluateFormat::Svg => {
            output::print(&plot::scatter(&report, "predicted against measured")?)
        }
        EvaluateFormat::Csv => output::print(&view::csv(&report)),
        EvaluateFormat::Json => {
            let view = ReportView::of(&report, args.each);
            output::print(&output::document(&view, Format::Json)?)
        }
        EvaluateFormat::Yaml => {
            let view = ReportView::of(&report, args.each);
            output::print(&output::document(&view, Format::Yaml)?)
        }
    }
}

fn warn_of(report: &Report<'_>) {
    let mut warnings: Vec<String> = report
        .unanswered
        .iter()
        .map(|(id, why)| format!("{id}: no answer: {why}"))
        .collect();
    if report.fitted_on > 0 {
        warnings.push(format!(
            "{} to report on are among those to fit on, and left out of the report",
            output::count(report.fitted_on, "run")
        ));
    }
    if report.not_unseen > 0 {
        warnings.push(format!(
            "{} are among those that the calibration was fitted on: their error is no forecast; --folds leaves them out in turn",
            output::count(report.not_unseen, "run")
        ));
    }
    if report.from_priors {
        warnings.push(
            "the calibration was fitted on some of these runs, so fits begin from what was believed before any measurement".into(),
        );
    }
    for fit in &report.fits {
        warnings.extend(
            fit.left_out
                .iter()
                .map(|(id, why)| format!("{id}: not fitted on: {why}")),
        );
        if !fit.set_aside.is_empty() {
            let ids = fit.set_aside.join(", ");
            warnings.push(format!("at odds with all others, and not fitted on: {ids}"));
        }
    }
    output::warn(&warnings);
}

fn percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
}

fn table(report: &Report<'_>, each: bool) -> String {
    let mut text = String::new();
    if each {
        let mut table = output::table(&["run", "measured", "predicted", "error"]);
        for v in &report.verdicts {
            table.add_row(vec![
                v.run.id.clone(),
                format!("{:.4} s", v.run.step_time_s),
                format!("{:.4} s", v.predicted),
                format!("{:+.1} %", (v.predicted / v.run.step_time_s - 1.0) * 100.0),
            ]);
        }
        text = format!("{table}\n\n");
    }
    let groups = report.groups();
    let overall = report.overall();
    let mut table = output::table(&[
        "group", "runs", "mean", "median", "worst", "bias", "in 90 %",
    ]);
    let mut add = |judged: &Judged| {
        if let Some(e) = judged.ours {
            table.add_row(vec![
                judged.group.clone(),
                e.runs.to_string(),
                percent(e.mape),
                percent(e.median_ape),
                percent(e.worst_ape),
                format!("{:+.1} %", e.bias * 100.0),
                format!("{:.0} %", judged.coverage * 100.0),
            ]);
        }
    };
    groups.iter().for_each(&mut add);
    if groups.len() > 1 {
        add(&overall);
    }
    text.extend([&table.to_string(), "\n\n"]);
    let ways = report.ways();
    let mut header = vec!["mean error"];
    header.extend(ways.iter().map(|w| w.as_str()));
    let mut rivals = output::table(&header);
    for judged in groups.iter().chain((groups.len() > 1).then_some(&overall)) {
        let mut row = vec![judged.group.clone()];
        row.extend(ways.iter().map(|way| {
            let found = judged.ways.iter().find(|(w, _)| w == way);
            let complete = judged.ours.map_or(0, |e| e.runs);
            found.map_or("–".to_owned(), |(_, e)| {
                let mark = if e.runs < complete { "*" } else { "" };
                format!("{}{mark}", percent(e.mape))
            })
        }));
        rivals.add_row(row);
    }
    text += &rivals.to_string();
    text += "\n* answered some of the runs only\n";
    text
}
