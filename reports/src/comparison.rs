//! Predicted against measured.

use crate::format::{Width, bytes, deviation, facts, rate, seconds, table};
use crate::plan::strategy;
use trainyard_plan::document::{ComparisonDocument, Figures};

/// A comparison document for a reader.
pub fn comparison(document: &ComparisonDocument, width: Width) -> String {
    let mut text = format!(
        "{} on {}: {}, {} steps\n\n",
        document.plan.model.name,
        document.device,
        strategy(&document.plan),
        document.steps
    );
    text += &table(width, ["", ">predicted", ">measured", ">error"], rows(document));
    text.push('\n');
    text += &facts(&outcome(document));
    text
}

type Figure = fn(&Figures) -> Option<f64>;
type Print = fn(f64) -> String;

fn rows(document: &ComparisonDocument) -> Vec<[String; 4]> {
    let measures: [(&str, Figure, Print); 7] = [
        ("step time", |figures| Some(figures.step_time_s), seconds),
        ("samples/s", |figures| Some(figures.samples_per_s), rate),
        ("memory", |figures| figures.memory_bytes.map(|bytes| bytes as f64), |value| bytes(value as u64)),
        ("· forward", |figures| Some(figures.phases.forward_s), seconds),
        ("· backward", |figures| Some(figures.phases.backward_s), seconds),
        ("· waiting and moving", |figures| Some(figures.phases.communication_s), seconds),
        ("· optimizer", |figures| Some(figures.phases.optimizer_s), seconds),
    ];
    measures
        .into_iter()
        .map(|(name, figure, print)| {
            let predicted = document.predicted.as_ref().and_then(figure);
            let measured = figure(&document.measured);
            let shown = |value: Option<f64>| value.map_or_else(|| "–".into(), print);
            let error = match (predicted, measured) {
                (Some(predicted), Some(measured)) if measured > 0.0 && !name.starts_with('·') => {
                    deviation(predicted / measured - 1.0)
                }
                _ => String::new(),
            };
            [name.into(), shown(predicted), shown(measured), error]
        })
        .collect()
}

fn outcome(document: &ComparisonDocument) -> Vec<(&'static str, String)> {
    let loss = document.loss;
    let mut rows = vec![("loss", format!("{:.3} → {:.3} nats per token", loss.first, loss.last))];
    if let Some(held_out) = loss.held_out {
        rows.push(("held-out loss", format!("{held_out:.3} nats per token, on text that was not trained on")));
    }
    if let Some(predicted) = &document.predicted {
        let [low, high] = predicted.interval_s;
        let inside = (low..=high).contains(&document.measured.step_time_s);
        let verdict = if inside { "holds" } else { "does not hold" };
        rows.push(("90 % interval", format!("{} to {} {verdict} the measured step time", seconds(low), seconds(high))));
    }
    let files = &document.files;
    let named =
        [("plan", &files.plan), ("trace", &files.trace), ("plot", &files.plot), ("checkpoint", &files.checkpoint)];
    rows.push(("measurements", files.measurement.clone()));
    rows.extend(named.into_iter().filter_map(|(name, path)| Some((name, path.clone()?))));
    rows
}
