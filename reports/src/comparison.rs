//! Predicted against measured.

use crate::format::{Width, bytes, deviation, facts, rate, seconds, table};
use crate::layout::strategy_and_state;
use trainyard_models::{Model, ModelSpec};
use trainyard_plan::PlanSpec;
use trainyard_plan::document::{ComparisonDocument, Figures, Loss};
use trainyard_units::{counted, human_count};

/// Formats a comparison document for a reader.
pub fn comparison(document: &ComparisonDocument, width: Width) -> String {
    let mut text = format!(
        "{} on {}: {}, {}\n\n",
        document.plan.model.name,
        document.device,
        ran(&document.plan),
        counted(document.steps, "step")
    );
    text += &table(width, ["", ">predicted", ">measured", ">error"], rows(document));
    text.push('\n');
    text += &facts(&outcome(document));
    text
}

/// Tells which plan ran: its strategy, what replicas share out, and what is computed again.
fn ran(plan: &PlanSpec) -> String {
    let recompute = plan.recompute.in_words().map_or_else(String::new, |words| format!(", {words}"));
    strategy_and_state(plan) + &recompute
}

/// Returns the unit of a loss: a prediction for each token, or for each sample.
pub fn loss_unit(model: &ModelSpec) -> &'static str {
    let reads_tokens = Model::try_from(model.clone()).is_ok_and(|model| model.tokens_per_sample().is_some());
    if reads_tokens { "nats per token" } else { "nats per sample" }
}

type Figure = fn(&Figures) -> Option<f64>;
type Print = fn(f64) -> String;

fn rows(document: &ComparisonDocument) -> Vec<[String; 4]> {
    let all = counted(document.steps, "step");
    let measures: [(&str, Figure, Print); 4] = [
        ("step time", |figures| Some(figures.step_time_s), seconds),
        (&all, |figures| figures.all_steps_s, seconds),
        ("samples/s", |figures| Some(figures.samples_per_s), rate),
        ("memory", |figures| figures.memory_bytes.map(|bytes| bytes as f64), |value| bytes(value as u64)),
    ];
    let mut rows: Vec<[String; 4]> = measures
        .into_iter()
        .map(|(name, figure, print)| {
            let predicted = document.predicted.as_ref().and_then(figure);
            let measured = figure(&document.measured);
            let shown = |value: Option<f64>| value.map_or_else(|| "–".into(), print);
            let error = match (predicted, measured) {
                (Some(predicted), Some(measured)) if measured > 0.0 => deviation(predicted / measured - 1.0),
                _ => String::new(),
            };
            [name.into(), shown(predicted), shown(measured), error]
        })
        .collect();
    rows.extend(phases(document));
    rows
}

/// Returns the phases that took time on either side, with the error of those that matter.
fn phases(document: &ComparisonDocument) -> impl Iterator<Item = [String; 4]> {
    let predicted = document.predicted.as_ref().map(|figures| figures.phases.named());
    let measured = document.measured.phases.named().into_iter().enumerate();
    measured.filter_map(move |(index, (name, measured))| {
        let predicted = predicted.map(|phases| phases[index].1);
        if measured <= 0.0 && predicted.unwrap_or(0.0) <= 0.0 {
            return None;
        }
        // A phase predicted to take no time has no relative error: its time is shown instead.
        let expected = predicted.is_some_and(|predicted| predicted > 0.0);
        let error = document.error.as_ref().filter(|_| expected).and_then(|errors| errors.phases.get(name).copied());
        let shown = predicted.map_or_else(|| "–".into(), seconds);
        Some([format!("· {name}"), shown, seconds(measured), error.map_or_else(String::new, deviation)])
    })
}

fn outcome(document: &ComparisonDocument) -> Vec<(&'static str, String)> {
    let loss = document.loss;
    let unit = loss_unit(&document.plan.model);
    let mut rows = vec![("loss", format!("{:.3} → {:.3} {unit}", loss.first, loss.last))];
    if let Some(held_out) = loss.held_out {
        rows.push(("held-out loss", format!("{held_out:.3} {unit}, {}", evaluated(&loss))));
    }
    if let Some(accuracy) = loss.accuracy {
        rows.push(("held-out accuracy", format!("{:.1} %", accuracy * 100.0)));
    }
    if let Some(predicted) = &document.predicted {
        let [low, high] = predicted.interval_s;
        let inside = (low..=high).contains(&document.measured.step_time_s);
        let verdict = if inside { "holds" } else { "does not hold" };
        rows.push(("90 % interval", format!("{} to {} {verdict} the measured step time", seconds(low), seconds(high))));
    }
    if let Some(how) = disturbed(&document.measured) {
        rows.push(("disturbed", format!("{how}: something else was at work on this machine")));
    }
    let files = &document.files;
    let named = [
        ("plan", &files.plan),
        ("trace", &files.trace),
        ("plot", &files.plot),
        ("phases", &files.phases),
        ("checkpoint", &files.checkpoint),
    ];
    rows.extend((!files.measurement.is_empty()).then(|| ("measurements", files.measurement.clone())));
    rows.extend(named.into_iter().filter_map(|(name, path)| Some((name, path.clone()?))));
    rows
}

/// Tells on which samples a model was evaluated.
fn evaluated(loss: &Loss) -> String {
    match (loss.evaluated_samples, loss.held_out_samples) {
        (Some(evaluated), Some(all)) if evaluated < all => {
            format!("on {} of {} held-out samples", human_count(evaluated), human_count(all))
        }
        (Some(evaluated), _) => format!("on {}", counted(evaluated, "held-out sample")),
        (None, _) => "on data that was not trained on".into(),
    }
}

/// Tells by what it is known that something else was at work on the machine; `None` if nothing was.
pub fn disturbed(measured: &Figures) -> Option<String> {
    measured.is_disturbed().then(|| {
        if let Some(share) = measured.processor_share {
            format!("ranks had {:.0} % of the processor time that they needed", share * 100.0)
        } else {
            let [low, high] = measured.interval_s.map(seconds);
            format!("90 % of steps took {low} to {high}")
        }
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn document(predicted: &str) -> ComparisonDocument {
        let figures = |step: f64| {
            format!(
                r#"{{"step_time_s": {step}, "interval_s": [0.9, 1.1], "samples_per_s": 16.0, "memory_bytes": 1048576,
                "phases": {{"forward_s": 0.25, "backward_s": 0.5, "communication_s": 0.125, "wait_s": 0.005,
                    "optimizer_s": 0.0625}}}}"#
            )
        };
        let text = format!(
            r#"{{"schema": "trainyard.comparison/1",
            "plan": {{"model": {{"name": "m", "family": "mlp", "layers": 2, "hidden": 8, "inputs": 4, "outputs": 2}},
                "cluster": {{"instance": "local", "instances": 1, "profile": "p.toml"}},
                "parallel": {{"data": 2, "tensor": 1, "pipeline": 1}},
                "batch": {{"global": 16, "micro": 8, "accumulation": 1}}, "schedule": "none",
                "stages": [{{"first": 0, "layers": 4}}], "precision": "fp32", "recompute": "none",
                "collectives": "nccl", "optimizer": "adamw", "pricing": "on-demand"}},
            "device": "a processor", "steps": 3, {predicted} "measured": {},
            "loss": {{"first": 5.5, "last": 2.25, "held_out": 2.5}},
            "files": {{"measurement": "runs/m-1/measurement.json"}}}}"#,
            figures(1.0)
        );
        serde_json::from_str(&text.replace("PREDICTED", &figures(1.05))).expect("a comparison document")
    }

    #[test]
    fn predicted_stands_beside_measured_with_the_error() {
        let page = comparison(
            &document(
                "\"predicted\": PREDICTED, \"error\": {\"step_time\": 0.05, \"samples_per_s\": 0.0, \"phases\": {\"forward\": -0.03}},",
            ),
            Width(80),
        );
        let row = page.lines().find(|line| line.contains("step time")).expect("a row");
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["step", "time", "1.05", "s", "1.00", "s", "+5.0", "%"]);
        for part in
            ["5.500 → 2.250", "2.500 nats", "250 ms", "1.00 MiB", "holds", "runs/m-1/measurement.json", "data 2"]
        {
            assert!(page.contains(part), "{part} in {page}");
        }
        assert!(page.lines().all(|line| line.chars().count() <= 80));
        let of = |phase: &str| {
            let row = page.lines().find(|line| line.contains(phase)).expect("a row");
            row.split_whitespace().skip(2).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of("· forward"), ["250", "ms", "250", "ms", "-3.0", "%"]);
        // Too short for an error in percent to mean something.
        assert_eq!(of("· wait"), ["5.00", "ms", "5.00", "ms"]);
        assert!(!page.contains("· other"), "{page}");
    }

    #[test]
    fn the_head_tells_which_plan_ran() {
        let mut document = document("");
        document.plan.state_sharding = trainyard_plan::StateSharding::Optimizer;
        document.plan.recompute = trainyard_plan::Recompute::Full;
        let page = comparison(&document, Width(80));
        assert!(page.starts_with("m on a processor: data 2, ZeRO-1, full recomputation, 3 steps\n"), "{page}");
    }

    #[test]
    fn without_a_prediction_only_what_was_measured_is_shown() {
        let page = comparison(&document(""), Width(80));
        let row = page.lines().find(|line| line.contains("step time")).expect("a row");
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["step", "time", "1.00", "s"]);
        assert!(!page.contains("90 %"));
    }
}
