//! Lines in a frame, as SVG.

use std::error::Error;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::failure::{Failure, Result};

/// Size of a picture without its legend, in px.
const SIZE: (u32, u32) = (900, 380);

/// Left edge of the legend, under that of the plot; height of a line of it, and of what follows the last one; in px.
const LEGEND_LEFT: i32 = 90;
const LEGEND_LINE: u32 = 20;
const LEGEND_MARGIN: u32 = 10;

/// Longest name of a legend, in characters: what fits beside the sample of its line.
const NAME_MAX: usize = 110;

/// Colours of curves: Okabe and Ito's, which those who see fewer colours tell apart too, without its yellow.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(230, 159, 0),
];

/// Curves with no more points than these show each of them.
const MARKED_MAX: usize = 24;

/// A line, and its name.
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// What a picture shows.
#[derive(Clone, Copy)]
pub(super) struct Axes {
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    /// Whether equal steps to the right are equal factors.
    pub(super) is_log: bool,
    /// Upper end of the y axis; without it that of the curves.
    pub(super) y_max: Option<f64>,
}

/// A picture of curves; `None` without any point.
pub(super) fn svg(axes: Axes, curves: &[Curve]) -> Result<Option<String>> {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let bounds = |of: fn(&(f64, f64)) -> f64| {
        all()
            .map(of)
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)))
    };
    if all().next().is_none() {
        return Ok(None);
    }
    let ((left, right), (_, top)) = (bounds(|point| point.0), bounds(|point| point.1));
    let y = 0.0..axes.y_max.unwrap_or_else(|| (top * 1.05).max(1e-9));
    let mut text = String::new();
    let names = if curves.len() > 1 { u32::try_from(curves.len()).unwrap_or(u32::MAX) } else { 0 };
    let legend = if names > 0 { names * LEGEND_LINE + LEGEND_MARGIN } else { 0 };
    let size = (SIZE.0, SIZE.1 + legend);
    let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
    let drawn = if axes.is_log {
        let left = left.max(1e-3);
        draw(&area, (left..right.max(left * 1.01)).log_scale(), y, axes, curves)
    } else {
        draw(&area, left..right.max(left + 1e-9), y, axes, curves)
    };
    drop(area);
    drawn.map_err(|error| Failure::new(format!("draw a picture: {error}")))?;
    Ok(Some(text))
}

fn draw<X>(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    x: X,
    y: Range<f64>,
    axes: Axes,
    curves: &[Curve],
) -> std::result::Result<(), Box<dyn Error>>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    area.fill(&WHITE).map_err(told)?;
    let (plot, legend) = area.split_vertically(SIZE.1);
    let mut builder = ChartBuilder::on(&plot);
    builder.margin(12).x_label_area_size(42).y_label_area_size(78);
    let mut chart = builder.build_cartesian_2d(x, y).map_err(told)?;
    chart
        .configure_mesh()
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_label_formatter(&|value| label(*value))
        .y_label_formatter(&|value| label(*value))
        .light_line_style(WHITE)
        .draw()
        .map_err(told)?;
    for (index, curve) in curves.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let style = colour.stroke_width(2);
        let line = LineSeries::new(curve.points.iter().copied(), style);
        chart.draw_series(line).map_err(told)?;
        if curve.points.len() <= MARKED_MAX {
            let marks = curve.points.iter().map(|point| Circle::new(*point, 3, colour.filled()));
            chart.draw_series(marks).map_err(told)?;
        }
    }
    if curves.len() > 1 {
        draw_legend(&legend, curves)?;
    }
    area.present().map_err(told)
}

/// A line for each curve, below the plot, where it covers nothing.
fn draw_legend(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    curves: &[Curve],
) -> std::result::Result<(), Box<dyn Error>> {
    let mut top = 0;
    for (index, curve) in curves.iter().enumerate() {
        let style = COLOURS[index % COLOURS.len()].stroke_width(2);
        let middle = top + LEGEND_LINE.cast_signed() / 2;
        let sample = vec![(LEGEND_LEFT, middle), (LEGEND_LEFT + 18, middle)];
        area.draw(&PathElement::new(sample, style)).map_err(told)?;
        let place = (LEGEND_LEFT + 26, top + 3);
        let name = Text::new(shortened(&curve.name), place, ("sans-serif", 13).into_font());
        area.draw(&name).map_err(told)?;
        top += LEGEND_LINE.cast_signed();
    }
    Ok(())
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_MAX {
        return name.to_owned();
    }
    name.chars().take(NAME_MAX - 1).chain(['…']).collect()
}

/// A number of an axis: 0.5, 20, 1.5k, 300k, 2M.
fn label(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{value:.2}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn told<E: Error + Send + Sync + 'static>(error: DrawingAreaErrorKind<E>) -> Box<dyn Error> {
    error.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXES: Axes = Axes { x: "µs", y: "%", is_log: true, y_max: Some(100.0) };

    fn curve(points: &[(f64, f64)]) -> Curve {
        Curve { name: "a <b>".to_owned(), points: points.to_vec() }
    }

    #[test]
    fn pictures_have_every_curve_and_escaped_names() {
        let curves = [curve(&[(1.0, 0.0), (1000.0, 100.0)]), curve(&[(5.0, 50.0), (7.0, 60.0)])];
        let text = svg(AXES, &curves).unwrap().unwrap();
        assert!(text.starts_with("<svg"), "{text}");
        assert!(text.matches("<polyline").count() >= 2 && text.contains("a &lt;b&gt;"), "{text}");
    }

    #[test]
    fn names_stand_below_the_plot() {
        let mut curves = [curve(&[(1.0, 0.0), (9.0, 9.0)]), curve(&[(1.0, 1.0)])];
        let (plain, long) = ("plain".to_owned(), "n".repeat(NAME_MAX + 1));
        (curves[0].name, curves[1].name) = (plain, long);
        let text = svg(AXES, &curves).unwrap().unwrap();
        let height = SIZE.1 + 2 * LEGEND_LINE + LEGEND_MARGIN;
        assert!(text.contains(&format!("height=\"{height}\"")), "{text}");
        assert!(text.contains(&format!("{}…", "n".repeat(NAME_MAX - 1))), "{text}");
        let before = text.split("plain").next().unwrap();
        let y = before.rsplit(" y=\"").next().unwrap().split('"').next().unwrap();
        assert!(y.parse::<u32>().unwrap() >= SIZE.1, "{y}");
        let alone = svg(AXES, &curves[..1]).unwrap().unwrap();
        assert!(alone.contains(&format!("height=\"{}\"", SIZE.1)) && !alone.contains("plain"));
    }

    #[test]
    fn numbers_of_axes_are_short() {
        let labels = [0.0, 0.5, 20.0, 1500.0, 300_000.0, 1_250_000.0, 0.25].map(label);
        assert_eq!(labels, ["0", "0.5", "20", "1500", "300k", "1.25M", "0.25"]);
    }

    #[test]
    fn nothing_and_single_points_are_no_trouble() {
        assert_eq!(svg(AXES, &[]).unwrap(), None);
        for is_log in [true, false] {
            let axes = Axes { is_log, y_max: None, ..AXES };
            let text = svg(axes, &[curve(&[(0.0, 0.0)])]).unwrap().unwrap();
            assert!(text.contains("<circle"), "a single point shows: {text}");
        }
    }
}
