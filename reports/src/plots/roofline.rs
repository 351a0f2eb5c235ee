//! What operators reach, over how much arithmetic they do for each byte, under the roof of their device.

use crate::chart::{Axis, Breadth, Colour, Label, Line, Panel, Picture, Sample, Scale, Stroke, figure, plain, range};
use trainyard_plan::{OperatorRate, Roofline};

/// Fraction of the total time below which operators are drawn without a name.
const NAMED: f64 = 0.04;
/// Maximum number of names.
const NAMES: usize = 8;

/// Draws the operators of a plan under their roofline: forward and backward passes of one micro-batch on one rank.
///
/// # Errors
///
/// Returns a sentence if no operator has arithmetic.
pub(crate) fn roofline_plot(model: &str, roofline: &Roofline, breadth: Breadth) -> Result<Picture, String> {
    if roofline.operators.is_empty() {
        return Err("there is no operator with arithmetic to draw".into());
    }
    let (peak, memory) = (roofline.peak_flops_per_s, roofline.memory_bytes_per_s);
    let ridge = peak / memory;
    let (low, high) = range(roofline.operators.iter().map(OperatorRate::intensity).chain([ridge]));
    let (least, most) = range(roofline.operators.iter().map(OperatorRate::rate).chain([peak]));
    let (left, right) = (low / 2.0, high * 2.0);
    let tera = |flops: f64| flops / 1e12;
    let x = Axis::of("FLOPs for each byte of memory traffic", Scale::Log(left, right), plain);
    let bottom = tera(least.min(left.max(low) * memory) / 2.0);
    let y = Axis::of("TFLOP/s", Scale::Log(bottom, tera(most) * 1.8), plain);
    let mut panel = Panel { height: 320, ..Panel::new("Attained rate", x, y) };
    let start = left.max(bottom * 1e12 / memory);
    let roof = vec![(start, tera(start * memory)), (ridge, tera(peak)), (right, tera(peak))];
    panel.lines.push(Line::new(Stroke::Plain(Colour::Ink), roof));
    for (series, backward) in [false, true].into_iter().enumerate() {
        let points = roofline.operators.iter().filter(|own| own.backward == backward);
        let points = points.map(|own| (own.intensity(), tera(own.rate()))).collect();
        panel.lines.push(Line::new(Stroke::Marks(series), points));
    }
    panel.labels = labels(&roofline.operators);
    let legend = vec![
        (
            Sample::Line(Colour::Ink),
            format!(
                "roof of {}: {} TFLOP/s, {} GB/s",
                roofline.device,
                plain(tera(peak).round()),
                plain((memory / 1e9).round())
            ),
        ),
        (Sample::Mark(0), "forward".into()),
        (Sample::Mark(1), "backward".into()),
    ];
    Ok(figure(breadth, &format!("{model}: what its operators reach"), legend, &[panel]))
}

/// Returns the names of the operators that take longest, each once.
fn labels(operators: &[OperatorRate]) -> Vec<Label> {
    let time = |own: &OperatorRate| own.seconds * own.times as f64;
    let all: f64 = operators.iter().map(time).sum();
    let mut longest: Vec<&OperatorRate> = operators.iter().filter(|own| time(own) >= NAMED * all).collect();
    longest.sort_by(|a, b| time(b).total_cmp(&time(a)));
    let mut labels: Vec<Label> = Vec::new();
    for own in longest {
        let text = format!("{}, {}", own.layer, own.operator);
        if labels.len() < NAMES && labels.iter().all(|label| label.text != text) {
            labels.push(Label { at: (own.intensity(), own.rate() / 1e12), text, strong: false });
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(name: &str, intensity: f64, rate: f64) -> OperatorRate {
        OperatorRate {
            layer: "block".into(),
            operator: name.into(),
            backward: name == "loss",
            flops: 1e9,
            bytes: 1e9 / intensity,
            seconds: 1e9 / rate,
            times: 12,
        }
    }

    #[test]
    fn operators_lie_under_a_named_roof() {
        let roofline = Roofline {
            device: "a100".into(),
            peak_flops_per_s: 312e12,
            memory_bytes_per_s: 1.555e12,
            operators: vec![operator("linear", 400.0, 2e14), operator("loss", 1.0, 1e12)],
        };
        for breadth in [Breadth::Wide, Breadth::Narrow] {
            let picture = roofline_plot("gpt2", &roofline, breadth).expect("operators");
            for words in ["TFLOP/s", "FLOPs for each byte", "roof of a100: 312", "block, loss", "backward"] {
                assert!(picture.text().contains(words), "{words}: {}", picture.text());
            }
            assert!(picture.outside().is_empty(), "{:?}", picture.outside());
        }
        assert!(roofline_plot("gpt2", &Roofline { operators: Vec::new(), ..roofline }, Breadth::Wide).is_err());
    }
}
