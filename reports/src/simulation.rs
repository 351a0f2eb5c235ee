//! A simulated step as a page.

use crate::format::{Width, bullets, facts, percent, seconds, table};
use crate::layout::{cluster, exposed, laid_out};
use crate::plan::{input, memory};
use trainyard_plan::document::{PlanDocument, Prediction};
use trainyard_plan::{Plan, PlanSpec};

/// Formats the results of simulating a plan.
pub fn simulation(document: &PlanDocument, width: Width) -> String {
    let prediction = &document.prediction;
    let phases = &prediction.phases;
    let [low, high] = prediction.interval_s;
    let share = |time: f64| format!("{} ({})", seconds(time), percent(time / prediction.step_time_s));
    let mut rows = vec![
        ("step", format!("{} (90 %: {} to {})", seconds(prediction.step_time_s), seconds(low), seconds(high))),
        ("forward", share(phases.forward_s)),
        ("backward", share(phases.backward_s)),
        ("optimizer", share(phases.optimizer_s)),
        ("waiting and moving", share(phases.communication_s + phases.wait_s + phases.other_s)),
        (exposed(&document.plan), share(prediction.exposed_communication_s)),
        ("bubble", percent(prediction.bubble)),
    ];
    if let Some(mfu) = prediction.mfu {
        rows.push(("MFU", percent(mfu)));
    }
    rows.extend(input(document));
    let mut text =
        format!("{} on {}, {}\n\n", document.plan.model.name, cluster(&document.plan), laid_out(&document.plan));
    text += &facts(&rows);
    text.push('\n');
    text += &stages(&document.plan, prediction, width);
    text.push('\n');
    text += &memory(prediction, width);
    text + &bullets(width, "Beyond the goal", document.missed.as_slice())
}

/// Formats the fraction of the step that each stage computes.
pub(crate) fn stages(plan: &PlanSpec, prediction: &Prediction, width: Width) -> String {
    let Ok(plan) = Plan::try_from(plan.clone()) else { return String::new() };
    let stages = plan.stages().ids().zip(&prediction.utilisation);
    let rows = stages.map(|(stage, used)| [stage.0.to_string(), plan.stage_in_words(stage), percent(*used)]);
    table(width, ["stage", &format!("{}s", plan.stage_unit()), ">utilisation"], rows)
}
