//! The course of a run as an SVG: loss above, step time with the prediction below.

use crate::palette::{BLUE, GREEN, INK, ORANGE};
use plotters::coord::Shift;
use plotters::prelude::*;
use trainyard_plan::document::Figures;

/// One step of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepPoint {
    /// Which step.
    pub step: u64,
    /// Mean loss of its global batch.
    pub loss: f64,
    /// Seconds it took.
    pub seconds: f64,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Loss and step time over a run's steps, with the predicted step time and its interval, as SVG. `held_out` is the
/// loss on text that was not trained on, after the last step.
///
/// # Errors
///
/// A sentence, if the points cannot be drawn: there are none, or one is not a number.
pub fn training(points: &[StepPoint], predicted: Option<&Figures>, held_out: Option<f64>) -> Result<String, String> {
    if points.is_empty() || points.iter().any(|point| !(point.loss.is_finite() && point.seconds.is_finite())) {
        return Err("there is no step with a finite loss and time to draw".into());
    }
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (820, 620)).into_drawing_area();
        let draw = || -> Result<(), Box<dyn std::error::Error>> {
            root.fill(&WHITE)?;
            let (upper, lower) = root.split_vertically(310);
            loss(&upper, points, held_out)?;
            step_time(&lower, points, predicted)?;
            root.present()?;
            Ok(())
        };
        draw().map_err(|error| error.to_string())?;
    }
    Ok(svg)
}

fn steps(points: &[StepPoint]) -> std::ops::Range<f64> {
    let last = points.last().map_or(1, |point| point.step);
    points[0].step as f64..(last as f64).max(points[0].step as f64 + 1.0)
}

fn loss(area: &Area<'_>, points: &[StepPoint], held_out: Option<f64>) -> Result<(), Box<dyn std::error::Error>> {
    let values = || points.iter().map(|point| point.loss).chain(held_out);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let margin = 0.05 * (high - low).max(1e-3);
    let mut chart = ChartBuilder::on(area)
        .caption("Loss", ("sans-serif", 18).into_font().color(&INK))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(steps(points), (low - margin).max(0.0)..high + margin)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(INK.mix(0.12))
        .x_desc("optimizer step")
        .y_desc("nats per token")
        .x_label_formatter(&|step| format!("{step:.0}"))
        .draw()?;
    let line = points.iter().map(|point| (point.step as f64, point.loss));
    chart
        .draw_series(LineSeries::new(line, BLUE.stroke_width(2)))?
        .label("training")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], BLUE.stroke_width(2)));
    if let Some(held_out) = held_out {
        let last = points[points.len() - 1].step as f64;
        chart
            .draw_series([Circle::new((last, held_out), 5, ORANGE.filled())])?
            .label("held out, at the end")
            .legend(|(x, y)| Circle::new((x + 9, y), 5, ORANGE.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .border_style(INK.mix(0.3))
        .background_style(WHITE)
        .draw()?;
    Ok(())
}

fn step_time(
    area: &Area<'_>,
    points: &[StepPoint],
    predicted: Option<&Figures>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut times: Vec<f64> = points.iter().map(|point| point.seconds * 1e3).collect();
    times.sort_by(f64::total_cmp);
    // One step that was disturbed must not flatten all others.
    let typical = times[times.len() * 95 / 100] * 1.4;
    let shown = predicted.map_or(typical, |figures| typical.max(figures.interval_s[1] * 1.1e3));
    // Room for the legend above the points.
    let high = shown * 1.3;
    let mut chart = ChartBuilder::on(area)
        .caption("Step time", ("sans-serif", 18).into_font().color(&INK))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(steps(points), 0.0..high)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(INK.mix(0.12))
        .x_desc("optimizer step")
        .y_desc("milliseconds")
        .y_label_formatter(&|milliseconds| format!("{milliseconds:.0}"))
        .x_label_formatter(&|step| format!("{step:.0}"))
        .draw()?;
    let range = steps(points);
    if let Some(figures) = predicted {
        let [low, upper] = figures.interval_s.map(|seconds| seconds * 1e3);
        let band = Rectangle::new([(range.start, low), (range.end, upper)], GREEN.mix(0.15).filled());
        chart.draw_series([band])?;
        let level = figures.step_time_s * 1e3;
        chart
            .draw_series(LineSeries::new([(range.start, level), (range.end, level)], GREEN.stroke_width(2)))?
            .label("predicted before the run, with its 90 % interval")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], GREEN.stroke_width(2)));
    }
    let dots =
        points.iter().map(|point| Circle::new((point.step as f64, (point.seconds * 1e3).min(shown)), 2, BLUE.filled()));
    chart.draw_series(dots)?.label("measured").legend(|(x, y)| Circle::new((x + 9, y), 3, BLUE.filled()));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .border_style(INK.mix(0.3))
        .background_style(WHITE)
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_drawn_with_its_axes_named() {
        let points: Vec<StepPoint> =
            (1..20).map(|step| StepPoint { step, loss: 5.0 / step as f64, seconds: 0.1 }).collect();
        let svg = training(&points, None, Some(1.0)).expect("points that can be drawn");
        for name in ["optimizer step", "nats per token", "milliseconds", "held out"] {
            assert!(svg.contains(name), "{name}");
        }
        assert!(training(&[], None, None).is_err());
        assert!(training(&[StepPoint { step: 1, loss: f64::NAN, seconds: 1.0 }], None, None).is_err());
    }
}
