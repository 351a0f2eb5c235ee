//! Predicted against measured times as an SVG, all axes logarithmic: the times above, their ratio below.

use crate::format::percent;
use crate::palette::{INK, KINDS};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::collections::BTreeMap;
use std::ops::Range;
use trainyard_calibration::RowResult;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

const SIZE: (u32, u32) = (980, 960);
/// Height of the times; the ratios have the rest.
const TIMES: i32 = 620;
/// Ratios farther from one are drawn at the edge.
const FAR: f64 = 3.0;
/// Room for the charts; the suites have the rest, on the right.
const CHARTS: i32 = 750;
const LEGEND_TOP: i32 = 60;
const LEGEND_LINE: i32 = 22;
const SMALL: i32 = 12;
/// The band around equality.
const BAND: f64 = 0.1;
/// Points drawn for one suite; of more, every n-th is.
const POINTS_MAX: usize = 4_000;

/// What is drawn of a suite.
struct Series {
    name: String,
    /// Measured and predicted seconds.
    points: Vec<(f64, f64)>,
    mean_error: f64,
}

/// Predicted against measured times of rows, suite by suite, with the band of ±10 % around equality, as SVG.
///
/// # Errors
///
/// A sentence, if there is nothing to draw: no row was predicted.
pub fn predicted_against_measured(rows: &[RowResult]) -> Result<String, String> {
    let series = series(rows);
    let (low, high) = range(&series).ok_or("no row was predicted")?;
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let draw = || -> Drawn {
            root.fill(&WHITE)?;
            let (left, right) = root.split_horizontally(CHARTS);
            let (upper, lower) = left.split_vertically(TIMES);
            times(&upper, &series, low..high)?;
            ratios(&lower, &series, low..high)?;
            legend(&right, &series)?;
            root.present()?;
            Ok(())
        };
        draw().map_err(|error| error.to_string())?;
    }
    Ok(svg)
}

fn series(rows: &[RowResult]) -> Vec<Series> {
    let mut suites: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for row in rows {
        if let (Some(predicted), Some(measured)) = (row.predicted_step_time_s, row.measured_step_time_s) {
            suites.entry(&row.suite).or_default().push((measured, predicted));
        }
    }
    suites
        .into_iter()
        .map(|(name, points)| {
            let errors: f64 = points.iter().map(|(measured, predicted)| (predicted / measured - 1.0).abs()).sum();
            let step = points.len().div_ceil(POINTS_MAX);
            let mean_error = errors / points.len() as f64;
            Series { name: name.into(), points: points.into_iter().step_by(step).collect(), mean_error }
        })
        .collect()
}

/// The least and the largest time, with some room.
fn range(series: &[Series]) -> Option<(f64, f64)> {
    let times =
        || series.iter().flat_map(|series| &series.points).flat_map(|(measured, predicted)| [measured, predicted]);
    let (low, high) = (times().copied().min_by(f64::total_cmp)?, times().copied().max_by(f64::total_cmp)?);
    Some((low / 1.5, high * 1.5))
}

fn times(area: &Area<'_>, series: &[Series], range: Range<f64>) -> Drawn {
    let (low, high) = (range.start, range.end);
    let mut chart = ChartBuilder::on(area)
        .caption("Predicted against measured", ("sans-serif", 18).into_font().color(&INK))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(76)
        .build_cartesian_2d(range.clone().log_scale(), range.log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(INK.mix(0.12))
        .x_desc("measured time")
        .y_desc("predicted time")
        .x_label_formatter(&|time| power(*time))
        .y_label_formatter(&|time| power(*time))
        .draw()?;
    let corners = [(low, 1.0 - BAND), (high, 1.0 - BAND), (high, 1.0 + BAND), (low, 1.0 + BAND)];
    let inside = corners.map(|(time, ratio)| (time, (time * ratio).clamp(low, high)));
    chart.draw_series([Polygon::new(inside, INK.mix(0.12))])?;
    chart.draw_series(LineSeries::new([(low, low), (high, high)], INK.stroke_width(1)))?;
    for (kind, series) in series.iter().enumerate() {
        let style = colour(kind);
        chart.draw_series(
            series.points.iter().map(|place| EmptyElement::at(*place) + Polygon::new(outline(kind), style)),
        )?;
    }
    Ok(())
}

fn ratios(area: &Area<'_>, series: &[Series], range: Range<f64>) -> Drawn {
    let (low, high) = (range.start, range.end);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(76)
        .build_cartesian_2d(range.log_scale(), -FAR.log2()..FAR.log2())?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(INK.mix(0.12))
        .x_desc("measured time")
        .y_desc("predicted over measured")
        .y_labels(4)
        .x_label_formatter(&|time| power(*time))
        .y_label_formatter(&|ratio| format!("{:.2}", ratio.exp2()))
        .draw()?;
    let band = [(low, (1.0 - BAND).log2()), (high, (1.0 + BAND).log2())];
    chart.draw_series([Rectangle::new(band, INK.mix(0.2).filled())])?;
    chart.draw_series(LineSeries::new([(low, 0.0), (high, 0.0)], INK.stroke_width(1)))?;
    for (kind, series) in series.iter().enumerate() {
        let style = colour(kind);
        let places = series
            .points
            .iter()
            .map(|(measured, predicted)| (*measured, (predicted / measured).clamp(1.0 / FAR, FAR).log2()));
        chart.draw_series(places.map(|place| EmptyElement::at(place) + Polygon::new(outline(kind), style)))?;
    }
    Ok(())
}

/// A mark of an axis: `10 ms`, `1000 s`.
fn power(time: f64) -> String {
    match time {
        short if short < 0.999e-3 => format!("{} µs", (short * 1e6).round()),
        middling if middling < 0.999 => format!("{} ms", (middling * 1e3).round()),
        long => format!("{} s", long.round()),
    }
}

/// Six colours, and then the same again with another shape.
fn colour(kind: usize) -> ShapeStyle {
    KINDS[kind % KINDS.len()].mix(0.7).filled()
}

/// The corners of a mark, relative to its middle: a disc, a diamond, a triangle, a square.
fn outline(kind: usize) -> Vec<(i32, i32)> {
    match kind / KINDS.len() % 4 {
        0 => vec![(-1, -3), (1, -3), (3, -1), (3, 1), (1, 3), (-1, 3), (-3, 1), (-3, -1)],
        1 => vec![(0, -5), (5, 0), (0, 5), (-5, 0)],
        2 => vec![(0, -4), (4, 3), (-4, 3)],
        _ => vec![(-3, -3), (3, -3), (3, 3), (-3, 3)],
    }
}

fn legend(area: &Area<'_>, series: &[Series]) -> Drawn {
    let text = ("sans-serif", SMALL).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    let mut y = LEGEND_TOP;
    area.draw(&Text::new("suite, mean error", (0, y), text.clone()))?;
    for (kind, series) in series.iter().enumerate() {
        y += LEGEND_LINE;
        area.draw(&(EmptyElement::at((6, y)) + Polygon::new(outline(kind), colour(kind))))?;
        area.draw(&Text::new(format!("{}, {}", series.name, percent(series.mean_error)), (18, y), text.clone()))?;
    }
    y += LEGEND_LINE;
    area.draw(&Rectangle::new([(0, y - 5), (12, y + 5)], INK.mix(0.2).filled()))?;
    area.draw(&Text::new("within 10 %", (18, y), text))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_calibration::Status;

    fn row(suite: &str, predicted: Option<f64>) -> RowResult {
        RowResult {
            id: "one".into(),
            suite: suite.into(),
            status: if predicted.is_some() { Status::Ok } else { Status::Unsupported },
            reason: None,
            predicted_step_time_s: predicted,
            interval_s: None,
            measured_step_time_s: Some(2.0),
            error: predicted.map(|predicted| predicted / 2.0 - 1.0),
        }
    }

    #[test]
    fn every_suite_is_named_with_its_error_and_axes_have_words() {
        let rows: Vec<RowResult> = (0..30).map(|suite| row(&format!("suite-{suite}"), Some(2.2))).collect();
        let svg = predicted_against_measured(&rows).expect("points");
        for words in ["measured time", "predicted time", "predicted over measured", "within 10 %", "suite-29, 10.0 %"] {
            assert!(svg.contains(words), "{words}");
        }
        assert!(predicted_against_measured(&[row("mine", None)]).is_err());
    }
}
