//! Lines in a frame, as SVG.

use std::error::Error;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use varve_client::{Failure, Result};

/// Size of a picture without its legend, in px.
const SIZE: (u32, u32) = (900, 380);

/// Left edge of the legend, under that of the plot; height of a line of it, and of what follows the last one; in px.
const LEGEND_LEFT: i32 = 90;
const LEGEND_LINE: u32 = 20;
const LEGEND_MARGIN: u32 = 10;

/// Characters of a line of a legend: what fits beside the sample of its curve. Longer names take several lines.
const NAME_LINE: usize = 100;

/// Ticks of a logarithmic axis at least, where its decades alone are fewer.
const TICKS_MIN: usize = 4;

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

/// Dashes and the gaps behind them, in px: once all colours are taken, curves are told apart by these.
const DASHES: [Option<(u32, u32)>; 4] = [None, Some((9, 5)), Some((3, 4)), Some((16, 6))];

/// Length of the sample of a curve in a legend, in px.
const SAMPLE_PX: u32 = 30;

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
    let lines: usize = match curves {
        [] | [_] => 0,
        curves => curves.iter().map(|curve| lines_of(&curve.name).len()).sum(),
    };
    let lines = u32::try_from(lines).unwrap_or(0);
    let legend = if lines > 0 { lines * LEGEND_LINE + LEGEND_MARGIN } else { 0 };
    let size = (SIZE.0, SIZE.1 + legend);
    let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
    let drawn = if axes.is_log {
        let left = left.max(1e-3);
        let right = right.max(left * 1.01);
        let x = (left..right).log_scale().with_key_points(log_ticks(left, right));
        draw(&area, x, y, axes, curves)
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
    area.fill(&WHITE).map_err(drawing_error)?;
    let (plot, legend) = area.split_vertically(SIZE.1);
    let mut builder = ChartBuilder::on(&plot);
    builder.margin(12).x_label_area_size(42).y_label_area_size(78);
    let mut chart = builder.build_cartesian_2d(x, y).map_err(drawing_error)?;
    chart
        .configure_mesh()
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_label_formatter(&|value| label(*value))
        .y_label_formatter(&|value| label(*value))
        .light_line_style(WHITE)
        .draw()
        .map_err(drawing_error)?;
    for (index, curve) in curves.iter().enumerate() {
        let (colour, dashes) = look(index);
        let style = colour.stroke_width(2);
        let points = curve.points.iter().copied();
        match dashes {
            None => chart.draw_series(LineSeries::new(points, style)).map_err(drawing_error)?,
            Some((dash, gap)) => {
                let line = DashedLineSeries::new(points, dash, gap, style);
                chart.draw_series(line).map_err(drawing_error)?
            }
        };
        if curve.points.len() <= MARKED_MAX {
            let marks = curve.points.iter().map(|point| Circle::new(*point, 3, colour.filled()));
            chart.draw_series(marks).map_err(drawing_error)?;
        }
    }
    if curves.len() > 1 {
        draw_legend(&legend, curves)?;
    }
    area.present().map_err(drawing_error)
}

/// A line for each curve, below the plot, where it covers nothing.
fn draw_legend(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    curves: &[Curve],
) -> std::result::Result<(), Box<dyn Error>> {
    let mut top = 0;
    for (index, curve) in curves.iter().enumerate() {
        let (colour, dashes) = look(index);
        let middle = top + LEGEND_LINE.cast_signed() / 2;
        // As the curve is drawn: whole, or in dashes.
        let (dash, gap) = dashes.unwrap_or((SAMPLE_PX, 0));
        let mut from = 0;
        while from < SAMPLE_PX {
            let (begin, end) = (from.cast_signed(), SAMPLE_PX.min(from + dash).cast_signed());
            let sample = vec![(LEGEND_LEFT - 12 + begin, middle), (LEGEND_LEFT - 12 + end, middle)];
            area.draw(&PathElement::new(sample, colour.stroke_width(2))).map_err(drawing_error)?;
            from += dash + gap;
        }
        for line in lines_of(&curve.name) {
            let place = (LEGEND_LEFT + 26, top + 3);
            let name = Text::new(line, place, ("sans-serif", 13).into_font());
            area.draw(&name).map_err(drawing_error)?;
            top += LEGEND_LINE.cast_signed();
        }
    }
    Ok(())
}

/// Colour and dashes of a curve: no two of the first 28 look alike.
fn look(index: usize) -> (RGBColor, Option<(u32, u32)>) {
    (COLOURS[index % COLOURS.len()], DASHES[index / COLOURS.len() % DASHES.len()])
}

/// A name in lines that fit, broken between words where it has any.
fn lines_of(name: &str) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in name.split(' ') {
        let has_room = line.chars().count() + 1 + word.chars().count() <= NAME_LINE;
        if !line.is_empty() && !has_room {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if line.chars().count() == NAME_LINE {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines
}

/// Places of ticks between two ends: decades, with their halves and fifths, or all of their tenths, where these are
/// few.
fn log_ticks(left: f64, right: f64) -> Vec<f64> {
    let of = |steps: &[f64]| -> Vec<f64> {
        let mut ticks = Vec::new();
        let mut decade = 10_f64.powf(left.log10().floor());
        while decade <= right {
            ticks.extend(steps.iter().map(|step| step * decade));
            decade *= 10.0;
        }
        ticks.retain(|tick| (left..=right).contains(tick));
        ticks
    };
    let tenths: Vec<f64> = (10..100).map(|tenth| f64::from(tenth) / 10.0).collect();
    let finer = [&[1.0][..], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]];
    let enough = finer.into_iter().map(of).find(|ticks| ticks.len() >= TICKS_MIN);
    enough.unwrap_or_else(|| of(&tenths))
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

fn drawing_error<E: Error + Send + Sync + 'static>(
    error: DrawingAreaErrorKind<E>,
) -> Box<dyn Error> {
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
        let long = format!("{} what tells it apart", "n".repeat(NAME_LINE));
        (curves[0].name, curves[1].name) = ("plain".to_owned(), long);
        let text = svg(AXES, &curves).unwrap().unwrap();
        let height = SIZE.1 + 3 * LEGEND_LINE + LEGEND_MARGIN;
        assert!(text.contains(&format!("height=\"{height}\"")), "{text}");
        // Nothing is cut.
        assert!(text.contains("what tells it apart"), "{text}");
        let before = text.split("plain").next().unwrap();
        let y = before.rsplit(" y=\"").next().unwrap().split('"').next().unwrap();
        assert!(y.parse::<u32>().unwrap() >= SIZE.1, "{y}");
        let alone = svg(AXES, &curves[..1]).unwrap().unwrap();
        assert!(alone.contains(&format!("height=\"{}\"", SIZE.1)) && !alone.contains("plain"));
    }

    #[test]
    fn many_curves_look_different() {
        let looks: std::collections::BTreeSet<_> = (0..28)
            .map(|index| {
                let (RGBColor(red, green, blue), dashes) = look(index);
                (red, green, blue, dashes)
            })
            .collect();
        assert_eq!(looks.len(), 28);
    }

    #[test]
    fn short_ranges_have_ticks_too() {
        assert_eq!(log_ticks(20e3, 130e3), [2e4, 3e4, 4e4, 5e4, 6e4, 8e4, 1e5]);
        assert_eq!(log_ticks(1.0, 10_000.0).len(), 5);
        assert!(log_ticks(90.0, 99.0).len() >= 4);
        assert!(log_ticks(1.0, 1.01).len() <= 1, "and where there is no room for any, none");
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
