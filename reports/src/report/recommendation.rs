//! What is recommended, in words; what it rests on; and how to find it again.

use super::html::{facts, list, table};
use crate::decision::rejected;
use crate::format::{bytes, percent, seconds, usd};
use crate::layout::{cluster, strategy};
use crate::plan::{headline, in_all, proof};
use crate::shell::file_argument;
use maud::{Markup, html};
use std::path::Path;
use trainyard_plan::PlanSpec;
use trainyard_plan::document::{PlanDocument, PriceUsed};
use trainyard_planner::{ReportContent, SourcedConstant, likely, missed_goal};
use trainyard_units::{counted, human_count};

/// Returns the headline figures.
pub(super) fn tiles(document: &PlanDocument) -> Markup {
    let prediction = &document.prediction;
    let range = |[low, high]: [f64; 2], shown: fn(f64) -> String| format!("90 %: {} to {}", shown(low), shown(high));
    let per_step = prediction.time_s / prediction.step_time_s;
    let whole = prediction.interval_s.map(|step| prediction.elapsed_s() + (step - prediction.step_time_s) * per_step);
    let mut tiles = vec![("time of the training", seconds(prediction.elapsed_s()), range(whole, seconds))];
    if let Some(cost) = prediction.cost_usd {
        let spread = prediction.cost_interval_usd.map_or_else(String::new, |interval| range(interval, usd));
        tiles.push(("cost", usd(cost), spread));
    }
    tiles.push(("a step", seconds(prediction.step_time_s), range(prediction.interval_s, seconds)));
    if let Some(mfu) = prediction.mfu {
        let bubble = format!("bubble {}", percent(prediction.bubble));
        tiles.push(("MFU", percent(mfu), bubble));
    }
    let memory = &prediction.memory_bytes;
    let (peak, limit) = memory.fullest();
    tiles.push(("memory of the fullest device", bytes(peak), format!("of {}", bytes(limit))));
    html! { dl.tiles { @for (name, value, more) in &tiles { div { dt { (name) } dd { (value) small { (more) } } } } } }
}

pub(super) fn recommendation(content: &ReportContent) -> Markup {
    let document = &content.document;
    let mind = &content.explanation.plan.warnings;
    html! {
        p.lead { (sentence(document)) }
        @if let Some(goal) = goal(document) { p { (goal) } }
        (facts(&headline(document)))
        @if !document.reasons.is_empty() { h3 { "Why" } (list(&document.reasons)) }
        h3 { "How the work is laid out" }
        (list(&content.explanation.plan.description))
        @if !mind.is_empty() { div.mind { h3 { "Caveats" } (list(mind)) } }
        @if !content.explanation.notes.is_empty() { h3 { "Note" } (list(&content.explanation.notes)) }
    }
}

/// Summarizes the plan in a sentence or two.
pub(super) fn sentence(document: &PlanDocument) -> String {
    let (plan, prediction) = (&document.plan, &document.prediction);
    let place = match prediction.price.as_ref().and_then(PriceUsed::offered) {
        Some(offered) => {
            format!("Rent {} in {} ({}, {})", cluster(plan), offered.region, offered.service, plan.pricing)
        }
        None => format!("Use {}", cluster(plan)),
    };
    let way = match strategy(plan).as_str() {
        "one device" => "on one device".to_owned(),
        way => format!("split as {way}"),
    };
    let cost = prediction.cost_usd.map_or_else(String::new, |cost| format!(", and costs {}", usd(cost)));
    let takes = in_all(prediction).unwrap_or_else(|| seconds(prediction.elapsed_s()));
    format!(
        "{place} and train {} {way}, in {}, at {} a step. The training of {} takes {takes}{cost}.",
        plan.model.name,
        plan.precision,
        counted(plan.batch.global, "sample"),
        counted(prediction.steps, "step"),
    )
}

/// Tells the job's goal, and whether the plan meets it.
pub(super) fn goal(document: &PlanDocument) -> Option<String> {
    let goal = &document.job.goal;
    let deadline = goal.deadline.as_ref().map(|deadline| format!("a deadline of {deadline}"));
    let budget = goal.budget.map(|budget| format!("a budget of {}", usd(budget)));
    let asked: Vec<String> = [deadline, budget].into_iter().flatten().collect();
    if asked.is_empty() {
        return None;
    }
    let kept = || match likely(&document.job, &document.prediction) {
        Some(likely) => format!("By its prediction the plan keeps to it, and is {likely}."),
        None => "The plan keeps to it.".to_owned(),
    };
    let kept = missed_goal(document).map_or_else(kept, |why| format!("It is missed: {why}."));
    Some(format!("The job has {}. {kept}", asked.join(" and ")))
}

pub(super) fn assumptions(content: &ReportContent) -> Markup {
    let mut constants = content.constants.clone();
    constants.extend(content.document.prediction.price.as_ref().map(|price| SourcedConstant {
        what: "price of a machine".into(),
        value: {
            let seen = price.offered().map_or_else(String::new, |offered| format!(", seen {}", offered.date));
            format!("{:.2} USD/h{seen}", price.usd_per_hour)
        },
        source: price.source.clone(),
    }));
    let campaign = content.campaign.as_ref().map_or_else(|_| Vec::new(), |found| found.assumptions.clone());
    let basis: Vec<[String; 3]> = content
        .sensitivities
        .iter()
        .flat_map(|found| &found.sensitivities)
        .map(|own| {
            let factors = own.factors.map(crate::what_if::factor).join(" to ");
            [own.what.clone(), factors, own.basis.clone()]
        })
        .collect();
    html! {
        p { "Constants of the machines and of their software, with where each comes from:" }
        div.scroll tabindex="0" role="group" aria-label="Constants" { table {
            thead { tr { th scope="col" { "constant" } th.number scope="col" { "value" } th scope="col" { "source" } } }
            tbody { @for constant in &constants { tr {
                td { (constant.what) } td.number { (constant.value) } td.source { (constant.source) }
            } } }
        } }
        (table("How sure the assumptions are", &["assumption", ">varied by", "why"], &basis))
        @if !campaign.is_empty() { h3 { "Around the steps" } (list(&campaign)) }
        h3 { "The search" }
        (list(&search(&content.document)))
    }
}

/// Tells how the plan was found, and what was not possible.
fn search(document: &PlanDocument) -> Vec<String> {
    let found = &document.search;
    let proof = if found.gap > 0.0 {
        format!("the search stopped early: another plan could be {} better", percent(found.gap))
    } else {
        proof(document).into()
    };
    let first = format!(
        "{} plans were considered and {} simulated; {proof}.",
        human_count(found.candidates),
        human_count(found.simulated)
    );
    std::iter::once(first).chain(rejected(document)).collect()
}

/// Returns the command that runs the plan: a machine that was measured is one that this program runs on.
fn run(plan: &PlanSpec, file: &str) -> String {
    if plan.cluster.profile.is_some() { format!("trainyard run {file} --data PATH\n") } else { String::new() }
}

pub(super) fn reproduce(content: &ReportContent) -> Markup {
    let file = file_argument(Path::new(&content.explanation.plan.file));
    let drawn = content
        .campaign
        .as_ref()
        .map_or_else(|_| String::new(), |found| format!(" --runs {} --seed {}", found.runs, found.seed));
    let commands = format!(
        "trainyard plan job.toml --out {file}\n\
         trainyard report {file}{drawn} --out report.html\n\
         trainyard simulate {file} --trace step.json\n\
         trainyard explain {file}\n{}",
        run(&content.document.plan, &file)
    );
    let job = toml::to_string(&content.document.job).unwrap_or_default();
    html! {
        p { "With Trainyard " (env!("CARGO_PKG_VERSION")) " the same files give the same figures, to the last digit:" }
        pre { (commands) }
        @if !job.is_empty() { p { "The job, as " code { "job.toml" } ":" } pre { (job) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::tests::plan_document;

    #[test]
    fn a_plan_is_run_on_a_machine_that_was_measured() {
        let mut plan = plan_document().plan;
        assert_eq!(run(&plan, "plan.json"), "");
        plan.cluster.profile = Some("here.json".into());
        assert_eq!(run(&plan, "plan.json"), "trainyard run plan.json --data PATH\n");
    }

    #[test]
    fn one_step_is_no_steps() {
        let mut document = plan_document();
        document.prediction.steps = 1;
        document.plan.batch.global = 1;
        let text = sentence(&document);
        assert!(text.contains("at 1 sample a step. The training of 1 step takes"), "{text}");
    }

    #[test]
    fn the_recommendation_is_a_sentence_with_what_it_takes() {
        let document = plan_document();
        let text = sentence(&document);
        for words in ["Rent 2 × p4d.24xlarge in us-east-1", "on-demand", "gpt2", "1,830 USD", "1,000,000 steps"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let text = goal(&document).expect("a deadline and a budget");
        assert!(
            text.contains("a deadline of 3 d and a budget of 2,500 USD. By its prediction the plan keeps to it"),
            "{text}"
        );
        assert!(text.contains("likely to cost at most 2,500 USD"), "{text}");
    }
}
