//! `stepcast curve`.

use super::args::{CurveArgs, CurveFormat, Format};
use super::files::Failure;
use super::output;
use super::view::PredictionView;
use crate::plan::{Curve, curve};
use crate::plot;
use serde::Serialize;
use std::io::IsTerminal;

#[derive(Serialize)]
struct CurveView {
    points: Vec<PredictionView>,
    knee: usize,
    saturation: Option<usize>,
}

pub(super) fn run(args: CurveArgs) -> Result<(), Failure> {
    let CurveArgs {
        question,
        model,
        max_workers,
        output: format,
    } = args;
    let asked = question.read()?;
    let ask = asked.ask(model, max_workers)?;
    let curve = curve(ask)?;
    let workload = &asked.job.workload.name;
    let title = format!(
        "{workload}, {}, {}",
        asked.job.precision, asked.job.strategy
    );
    let warnings = curve.points.last().map_or(&[][..], |p| &p.warnings);
    if matches!(format, CurveFormat::Svg | CurveFormat::Png) {
        output::warn(warnings);
    }
    match format {
        CurveFormat::Svg => output::print(&plot::svg(&curve, &title)?),
        CurveFormat::Png => {
            if std::io::stdout().is_terminal() {
                return Err(
                    "a PNG is not for a terminal\n  hint: redirect it, `> curve.png`".into(),
                );
            }
            output::print_bytes(&plot::png(&curve, &title)?)
        }
        CurveFormat::Table => {
            output::warn(warnings);
            output::print(&format!("{title}\n\n{}", sheet(&curve)))
        }
        CurveFormat::Csv => {
            output::warn(warnings);
            let rows: Vec<Vec<String>> = views(&curve).iter().map(PredictionView::row).collect();
            output::print(&output::csv(&PredictionView::COLUMNS, &rows))
        }
        CurveFormat::Json | CurveFormat::Yaml => {
            let view = CurveView {
                points: views(&curve),
                knee: curve.knee,
                saturation: curve.saturation,
            };
            let format = if format == CurveFormat::Json {
                Format::Json
            } else {
                Format::Yaml
            };
            output::print(&output::document(&view, format)?)
        }
    }
}

fn views(curve: &Curve) -> Vec<PredictionView> {
    curve.points.iter().map(PredictionView::from).collect()
}

fn sheet(curve: &Curve) -> String {
    let mut table = output::table(&[
        "workers",
        "step time",
        "samples/s",
        "speedup",
        "scaling",
        "",
    ]);
    for point in &curve.points {
        let mark = if point.workers == curve.knee {
            "◄ knee"
        } else if Some(point.workers) == curve.saturation {
            "◄ saturated"
        } else {
            ""
        };
        table.add_row(vec![
            point.workers.to_string(),
            point.step.time.to_string(),
            format!("{:.1}", point.throughput()),
            format!("{:.2}×", point.speedup),
            format!("{:.2}", point.scaling_factor()),
            mark.to_owned(),
        ]);
    }
    let last = curve.points.last().map_or("", |p| &p.bottleneck);
    let limit = format!("what limits the last: {last}");
    format!("{table}\n{}", output::wrapped(&limit, 78).join("\n  "))
}
