//! The course of a run: loss above, step time with the prediction below.

use crate::chart::{Axis, Breadth, Colour, Line, Panel, Picture, Sample, Scale, Stroke, figure, plain, time_unit};
use trainyard_plan::document::Figures;

/// One step of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepPoint {
    /// Index of the step.
    pub step: u64,
    /// Mean loss of its global batch.
    pub loss: f64,
    /// Seconds it took.
    pub seconds: f64,
}

/// Maximum number of steps that are drawn; of more, every n-th is.
const POINTS_MAX: usize = 2_000;

/// Draws loss, in `unit`, and step time over a run's steps, with the predicted step time and its interval. `held_out`
/// has losses on held-out data, each with the step after which it was taken.
///
/// # Errors
///
/// Returns a sentence if the points cannot be drawn: there are none, or one is not a number.
pub fn training(
    points: &[StepPoint],
    predicted: Option<&Figures>,
    held_out: &[(u64, f64)],
    unit: &str,
) -> Result<Picture, String> {
    if points.is_empty() || points.iter().any(|point| !(point.loss.is_finite() && point.seconds.is_finite())) {
        return Err("there is no step with a finite loss and time to draw".into());
    }
    let mut legend =
        vec![(Sample::Line(Colour::Blue), "training loss".to_owned()), (Sample::Mark(0), "measured step".into())];
    if !held_out.is_empty() {
        legend.push((Sample::Mark(4), "held-out loss".into()));
    }
    legend.extend(
        predicted.map(|_| (Sample::Line(Colour::Green), "predicted before the run, with its 90 % interval".into())),
    );
    let ends = ends(points, held_out);
    let panels = [loss(points, held_out, (unit, ends)), step_time(points, predicted, ends)];
    Ok(figure(Breadth::Wide, "Loss and step time", legend, &panels))
}

/// Returns the first and the last step that are drawn: held-out data may be seen before the first step.
fn ends(points: &[StepPoint], held_out: &[(u64, f64)]) -> [f64; 2] {
    let all = || points.iter().map(|point| point.step).chain(held_out.iter().map(|(step, _)| *step));
    let [first, last] = [all().min(), all().max()].map(|step| step.unwrap_or(0) as f64);
    [first, last.max(first + 1.0)]
}

fn steps([first, last]: [f64; 2]) -> Axis {
    Axis::of("optimizer step", Scale::Linear(first, last), plain)
}

fn shown(points: &[StepPoint]) -> impl Iterator<Item = &StepPoint> {
    points.iter().step_by(points.len().div_ceil(POINTS_MAX))
}

fn loss(points: &[StepPoint], held_out: &[(u64, f64)], (unit, ends): (&str, [f64; 2])) -> Panel {
    let values = || points.iter().map(|point| point.loss).chain(held_out.iter().map(|(_, loss)| *loss));
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let margin = 0.05 * (high - low).max(1e-3);
    let y = Axis::of(unit, Scale::Linear((low - margin).max(0.0), high + margin), plain);
    let mut panel = Panel::new("Loss", steps(ends), y);
    let line = shown(points).map(|point| (point.step as f64, point.loss)).collect();
    panel.lines.push(Line::new(Stroke::Plain(Colour::Blue), line));
    if !held_out.is_empty() {
        let marks = held_out.iter().map(|(step, loss)| (*step as f64, *loss)).collect();
        panel.lines.push(Line::new(Stroke::Marks(4), marks));
    }
    panel
}

fn step_time(points: &[StepPoint], predicted: Option<&Figures>, ends: [f64; 2]) -> Panel {
    let mut times: Vec<f64> = points.iter().map(|point| point.seconds).collect();
    times.sort_by(f64::total_cmp);
    // A single disturbed step must not flatten all others.
    let typical = times[times.len() * 95 / 100] * 1.4;
    let high = predicted.map_or(typical, |figures| typical.max(figures.interval_s[1] * 1.1)).max(f64::MIN_POSITIVE);
    let (unit, name) = time_unit(high);
    let mut panel = Panel::new("Step time", steps(ends), Axis::of(name, Scale::Linear(0.0, high / unit), plain));
    if let Some(figures) = predicted {
        let [low, upper] = figures.interval_s.map(|seconds| seconds / unit);
        let corners = vec![(ends[0], low), (ends[1], low), (ends[1], upper), (ends[0], upper)];
        panel.areas.push((corners, Colour::Green.at(0.2)));
        let level = figures.step_time_s / unit;
        panel.lines.push(Line::new(Stroke::Plain(Colour::Green), ends.map(|step| (step, level)).into()));
    }
    let dots = shown(points).map(|point| (point.step as f64, point.seconds.min(high) / unit)).collect();
    panel.lines.push(Line::new(Stroke::Faint(0), dots));
    panel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_drawn_with_its_axes_named() {
        let points: Vec<StepPoint> =
            (1..20).map(|step| StepPoint { step, loss: 5.0 / step as f64, seconds: 0.1 }).collect();
        let picture = training(&points, None, &[(0, 1.9), (10, 1.5), (19, 1.0)], "nats per token")
            .expect("points that can be drawn");
        assert!(picture.outside().is_empty(), "{:?}", picture.outside());
        for name in ["optimizer step", "nats per token", "ms", "held-out"] {
            assert!(picture.text().contains(name), "{name}");
        }
        assert_eq!(ends(&points, &[(0, 1.9), (19, 1.0)]).map(f64::to_bits), [0.0_f64, 19.0].map(f64::to_bits));
        assert!(training(&[], None, &[], "nats").is_err());
        assert!(training(&[StepPoint { step: 1, loss: f64::NAN, seconds: 1.0 }], None, &[], "nats").is_err());
    }
}
