//! The scaling curve as a picture, for eyes: SVG or PNG, the same drawing.

use crate::plan::Curve;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use std::error::Error;
use std::sync::Once;

/// Size of the picture in pixels.
const SIZE: (u32, u32) = (900, 560);

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
