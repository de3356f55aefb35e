//! The scaling curve as a picture, for eyes: SVG or PNG, the same drawing.

use crate::evaluate::{Report, Verdict};
use crate::plan::Curve;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use std::error::Error;
use std::sync::Once;

/// Size of the picture in pixels.
const SIZE: (u32, u32) = (900, 560);

/// Size of a square one.
const SQUARE: (u32, u32) = (640, 640);

const PALETTE: [RGBColor; 6] = [
    RGBColor(22, 105, 178),
    RGBColor(200, 80, 30),
    RGBColor(46, 125, 80),
    RGBColor(140, 80, 160),
    RGBColor(190, 150, 20),
    RGBColor(90, 100, 110),
];

const INK: RGBColor = RGBColor(38, 50, 66);
const LINE: RGBColor = RGBColor(22, 105, 178);
const IDEAL: RGBColor = RGBColor(150, 158, 168);
const KNEE: RGBColor = RGBColor(200, 80, 30);
const GRID: RGBColor = RGBColor(228, 232, 237);

/// Why nothing was drawn.
pub type PlotError = Box<dyn Error>;

/// The curve as SVG.
pub fn svg(curve: &Curve, title: &str) -> Result<String, PlotError> {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    draw(&area, curve, title)?;
    drop(area);
    Ok(text)
}

/// The curve as PNG.
pub fn png(curve: &Curve, title: &str) -> Result<Vec<u8>, PlotError> {
    let mut pixels = vec![0; (SIZE.0 * SIZE.1 * 3) as usize];
    let area = BitMapBackend::with_buffer(&mut pixels, SIZE).into_drawing_area();
    draw(&area, curve, title)?;
    drop(area);
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, SIZE.0, SIZE.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(file)
}

/// Predicted against measured as SVG: every run a dot, logarithmic, with the
/// diagonal and ten percent to either side.
pub fn scatter(report: &Report<'_>, title: &str) -> Result<String, PlotError> {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, SQUARE).into_drawing_area();
    draw_scatter(&area, report, title)?;
    drop(area);
    Ok(text)
}

fn draw_scatter<B: DrawingBackend>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    report: &Report<'_>,
    title: &str,
) -> Result<(), PlotError>
where
    B::ErrorType: 'static,
{
    const TOLERANCE: f64 = 1.1;
    register();
    area.fill(&WHITE)?;
    let both = |v: &Verdict<'_>| [v.run.step_time_s, v.predicted];
    let all = || report.verdicts.iter().flat_map(both);
    let low = all().fold(f64::INFINITY, f64::min) / 1.3;
    let high = all().fold(0.0, f64::max) * 1.3;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20).into_font().color(&INK))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d((low..high).log_scale(), (low..high).log_scale())?;
    let label = ("sans-serif", 14).into_font().color(&INK);
    chart
        .configure_mesh()
        .x_desc("measured step time in seconds")
        .y_desc("predicted")
        .axis_desc_style(label.clone())
        .label_style(label)
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .x_label_formatter(&|v| short(*v))
        .y_label_formatter(&|v| short(*v))
        .draw()?;
    for factor in [1.0 / TOLERANCE, 1.0, TOLERANCE] {
        let ends = [(low, low * factor), (high, high * factor)];
        let inside = |p: &(f64, f64)| p.1 >= low && p.1 <= high;
        let ends = ends.map(|p| {
            if inside(&p) {
                p
            } else {
                let y = p.1.clamp(low, high);
                (y / factor, y)
            }
        });
        chart.draw_series(LineSeries::new(ends, IDEAL.stroke_width(1)))?;
    }
    let mut groups: Vec<&str> = report
        .verdicts
        .iter()
        .map(|v| v.run.group.as_str())
        .collect();
    groups.dedup();
    for (i, group) in groups.iter().enumerate() {
        let colour = PALETTE[i % PALETTE.len()];
        let own = report.verdicts.iter().filter(|v| v.run.group == *group);
        chart
            .draw_series(own.map(|v| {
                Circle::new(
                    (v.run.step_time_s, v.predicted),
                    3,
                    colour.mix(0.6).filled(),
                )
            }))?
            .label(*group)
            .legend(move |(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(("sans-serif", 14).into_font().color(&INK))
        .background_style(WHITE.mix(0.8))
        .draw()?;
    area.present()?;
    Ok(())
}

/// A number of seconds in as few characters as it takes; only 1, 2 and 5 of
/// each power, so that labels do not meet.
fn short(seconds: f64) -> String {
    let digit = (seconds / 10_f64.powf(seconds.log10().floor() + 1e-9)).round();
    if ![1.0, 2.0, 5.0, 10.0].contains(&digit) {
        return String::new();
    }
    if seconds >= 0.1 {
        format!("{seconds:.1}")
    } else if seconds >= 0.01 {
        format!("{seconds:.2}")
    } else {
        format!("{seconds:.3}")
    }
}

/// The program brings its font: servers and CI have none.
fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let font = epaint_default_fonts::UBUNTU_LIGHT;
        let _ = register_font("sans-serif", FontStyle::Normal, font);
    });
}

fn draw<B: DrawingBackend>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    curve: &Curve,
    title: &str,
) -> Result<(), PlotError>
where
    B::ErrorType: 'static,
{
    register();
    let points = &curve.points;
    let workers = points.len().max(2) as f64;
    // How much the interval of the step moves the speedup.
    let band = |p: &crate::model::Prediction| {
        let scale = |step: crate::units::Seconds| p.speedup * (p.step.time / step);
        (scale(p.interval.high), scale(p.interval.low))
    };
    let highest = points.iter().map(|p| band(p).1).fold(1.0, f64::max);
    // The ideal line may leave the picture; the curve may not.
    let top = (highest * 1.12).min(workers * 1.05).max(highest * 1.02);
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .margin(18)
        .caption(title, ("sans-serif", 22).into_font().color(&INK))
        .x_label_area_size(48)
        .y_label_area_size(58)
        .build_cartesian_2d(1.0..workers, 0.0..top)?;
    let steps = points.len().clamp(2, 11);
    chart
        .configure_mesh()
        .x_desc("workers")
        .y_desc("speedup over one worker")
        .x_labels(steps)
        .y_labels(8)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| {
            if top < 4.0 {
                format!("{y:.1}")
            } else {
                format!("{y:.0}")
            }
        })
        .axis_style(INK)
        .label_style(("sans-serif", 16).into_font().color(&INK))
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    let at = |i: usize| i as f64 + 1.0;
    let lower = points
        .iter()
        .enumerate()
        .map(|(i, p)| (at(i), band(p).0.min(top)));
    let upper = points
        .iter()
        .enumerate()
        .rev()
        .map(|(i, p)| (at(i), band(p).1.min(top)));
    let outline: Vec<(f64, f64)> = lower.chain(upper).collect();
    chart
        .draw_series(std::iter::once(Polygon::new(
            outline,
            LINE.mix(0.14).filled(),
        )))?
        .label("90 % interval")
        .legend(|(x, y)| Rectangle::new([(x, y - 5), (x + 20, y + 5)], LINE.mix(0.2).filled()));
    let reach = workers.min(top);
    chart
        .draw_series(DashedLineSeries::new(
            vec![(1.0, 1.0), (reach, reach)],
            6,
            5,
            IDEAL.stroke_width(2),
        ))?
        .label("ideal")
        .legend(|(x, y)| PathElement::new(vec![(x, y), (x + 20, y)], IDEAL.stroke_width(2)));
    let line = points.iter().enumerate().map(|(i, p)| (at(i), p.speedup));
    chart
        .draw_series(LineSeries::new(line, LINE.stroke_width(3)))?
        .label("predicted")
        .legend(|(x, y)| PathElement::new(vec![(x, y), (x + 20, y)], LINE.stroke_width(3)));
    if points.len() <= 40 {
        let dots = points.iter().enumerate();
        chart.draw_series(dots.map(|(i, p)| Circle::new((at(i), p.speedup), 4, LINE.filled())))?;
    }
    if let Some(knee) = points.get(curve.knee.wrapping_sub(1)) {
        let place = (at(curve.knee - 1), knee.speedup);
        chart
            .draw_series(std::iter::once(Circle::new(place, 8, KNEE.stroke_width(3))))?
            .label(format!(
                "knee: {} workers, {:.2}×",
                curve.knee, knee.speedup
            ))
            .legend(|(x, y)| Circle::new((x + 10, y), 6, KNEE.stroke_width(3)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(GRID)
        .label_font(("sans-serif", 16).into_font().color(&INK))
        .draw()?;
    area.present()?;
    Ok(())
}
