//! Predicted against measured times, all axes logarithmic: the times above, their ratio below.

use crate::chart::{Axis, Breadth, Colour, Line, Panel, Picture, Sample, Scale, Stroke, figure, range};
use crate::format::percent;
use std::collections::BTreeMap;
use trainyard_calibration::RowResult;

/// Ratio beyond which points are drawn at the edge.
const FAR: f64 = 3.0;
/// Half width of the band around equality, as a fraction.
const BAND: f64 = 0.1;
/// Maximum number of points of a suite; of more, every n-th is drawn.
const POINTS_MAX: usize = 4_000;

/// The points of a suite.
struct Suite {
    name: String,
    /// Measured and predicted seconds.
    points: Vec<(f64, f64)>,
    mean_error: f64,
}

/// Draws predicted against measured times of rows, suite by suite, with the band of ±10 % around equality.
///
/// # Errors
///
/// Returns a sentence if there is nothing to draw: no row was predicted.
pub fn predicted_against_measured(rows: &[RowResult]) -> Result<Picture, String> {
    let suites = suites(rows);
    if suites.is_empty() {
        return Err("no row was predicted".into());
    }
    let (low, high) = range(suites.iter().flat_map(|suite| &suite.points).flat_map(|(a, b)| [*a, *b]));
    let (low, high) = (low / 1.5, high * 1.5);
    let legend = suites.iter().enumerate();
    let legend =
        legend.map(|(index, suite)| (Sample::Mark(index), format!("{}, {}", suite.name, percent(suite.mean_error))));
    let mut legend: Vec<(Sample, String)> = legend.collect();
    legend.push((Sample::Block(Colour::Grid.into()), "within 10 %".into()));
    legend.push((Sample::Words, "beside each suite: its mean error".into()));
    let panels = [times(&suites, [low, high]), ratios(&suites, [low, high])];
    Ok(figure(Breadth::Wide, "Predicted against measured", legend, &panels))
}

fn suites(rows: &[RowResult]) -> Vec<Suite> {
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
            Suite { name: name.into(), points: points.into_iter().step_by(step).collect(), mean_error }
        })
        .collect()
}

fn times(suites: &[Suite], [low, high]: [f64; 2]) -> Panel {
    let axis = |name: &str| Axis::of(name, Scale::Log(low, high), power);
    let mut panel = Panel { height: 460, ..Panel::new("Predicted time", axis("measured time"), axis("")) };
    let corners = [(low, 1.0 - BAND), (high, 1.0 - BAND), (high, 1.0 + BAND), (low, 1.0 + BAND)];
    let inside = corners.map(|(time, ratio)| (time, (time * ratio).clamp(low, high)));
    panel.areas.push((inside.into(), Colour::Grid.into()));
    panel.lines.push(Line::new(Stroke::Plain(Colour::Muted), vec![(low, low), (high, high)]));
    let suites = suites.iter().enumerate();
    panel.lines.extend(suites.map(|(index, suite)| Line::new(Stroke::Faint(index), suite.points.clone())));
    panel
}

fn ratios(suites: &[Suite], [low, high]: [f64; 2]) -> Panel {
    let x = Axis::of("measured time", Scale::Log(low, high), power);
    let marks = [0.5, 0.67, 1.0, 1.5, 2.0].map(|ratio| (ratio, format!("{ratio}")));
    let y = Axis { name: String::new(), scale: Scale::Log(1.0 / FAR, FAR), marks: marks.into() };
    let mut panel = Panel { height: 260, ..Panel::new("Predicted over measured", x, y) };
    let corners = vec![(low, 1.0 - BAND), (high, 1.0 - BAND), (high, 1.0 + BAND), (low, 1.0 + BAND)];
    panel.areas.push((corners, Colour::Grid.into()));
    panel.lines.push(Line::new(Stroke::Plain(Colour::Muted), vec![(low, 1.0), (high, 1.0)]));
    for (index, suite) in suites.iter().enumerate() {
        let places = suite.points.iter();
        let places = places.map(|(measured, predicted)| (*measured, (predicted / measured).clamp(1.0 / FAR, FAR)));
        panel.lines.push(Line::new(Stroke::Faint(index), places.collect()));
    }
    panel
}

/// Formats a mark of an axis: `10 ms`, `1000 s`.
fn power(time: f64) -> String {
    match time {
        short if short < 0.999e-3 => format!("{} µs", (short * 1e6).round()),
        middling if middling < 0.999 => format!("{} ms", (middling * 1e3).round()),
        long => format!("{} s", long.round()),
    }
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
            message_bytes: None,
            devices: None,
        }
    }

    #[test]
    fn every_suite_is_named_with_its_error_and_axes_have_words() {
        let rows: Vec<RowResult> = (0..30).map(|suite| row(&format!("suite-{suite}"), Some(2.2))).collect();
        let picture = predicted_against_measured(&rows).expect("points");
        assert!(picture.outside().is_empty(), "{:?}", picture.outside());
        for words in ["measured time", "Predicted time", "Predicted over measured", "within 10 %", "suite-29, 10.0 %"] {
            assert!(picture.text().contains(words), "{words}");
        }
        assert!(predicted_against_measured(&[row("mine", None)]).is_err());
    }
}
