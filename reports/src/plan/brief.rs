//! The short report on a plan: one screen with the decision, five reasons, other plans, caveats and what to type next.

use super::methods::methods;
use super::{
    alternative, cost_title, gpu_hours, headline, memory_share, not_considered, optimum, own_gpu_hours, title,
};
use crate::format::{Width, bullets, facts, table, wrap};
use crate::layout::{cluster, recomputed};
use trainyard_hardware_profiles::catalog;
use trainyard_plan::document::{Alternative, PlanDocument};
use trainyard_plan::{Plan, PlanSpec};
use trainyard_planner::has_uneven_stages;
use trainyard_units::counted;

/// Numbers of reasons and of caveats that are shown: as many as fit a screen beside the rest.
const TOLD: [(usize, usize); 6] = [(5, 3), (4, 3), (4, 2), (3, 2), (3, 1), (2, 1)];
/// Lines of a screen.
const SCREEN: usize = 40;
/// Number of other plans that are shown.
const OTHERS: usize = 3;
/// Ratios of cost and of time below which another plan is not worth a line.
const CHEAPER: f64 = 1.02;
const FASTER: f64 = 1.1;
/// Ratio of cost or of time above which nobody takes a simpler plan for being simpler.
const TOO_DEAR: f64 = 3.0;

/// What a plan of fewer GPU-hours is called.
const THRIFTY: &str = "fewer GPU-hours";

/// A command to type next, and what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextStep {
    pub command: String,
    pub does: &'static str,
}

/// Formats the short report: one screen of 40 lines.
pub(crate) fn brief(document: &PlanDocument, next: &[NextStep], width: Width) -> String {
    let mut pages = TOLD.iter().map(|told| page(document, next, width, *told));
    let mut page = pages.next().unwrap_or_default();
    // Where methods are compared there is a table besides.
    while !document.methods.is_empty() && page.lines().count() > SCREEN {
        let Some(shorter) = pages.next() else { break };
        page = shorter;
    }
    page
}

fn page(
    document: &PlanDocument,
    next: &[NextStep],
    width: Width,
    (reasons_told, caveats_told): (usize, usize),
) -> String {
    let mut text = title(document);
    let (searched, reasons) = document.reasons.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
    for line in wrap(searched, usize::from(width.0)).iter().filter(|line| !line.is_empty()) {
        text += line;
        text.push('\n');
    }
    text.push('\n');
    let mut rows = headline(document);
    rows.push(("memory", memory_share(&document.prediction)));
    text += &facts(&rows);
    text += &bullets(width, "Why", &reasons[..reasons.len().min(reasons_told)]);
    if let Some(advice) = &document.to_meet_goal {
        text += &bullets(width, "To meet the goal", std::slice::from_ref(advice));
    }
    text += &methods(document, width);
    text += &others(document, width);
    text += &bullets(width, "Caveats", &caveats(document, caveats_told));
    text + &steps(next)
}

/// Returns the first caveats, how many more there are, and the machines that were not considered.
fn caveats(document: &PlanDocument, told: usize) -> Vec<String> {
    let all = &document.warnings;
    let mut shown: Vec<String> = all.iter().take(told).cloned().collect();
    let more = all.len().saturating_sub(told) as u64;
    if more > 0 {
        shown.push(format!("{} with -v", counted(more, "more caveat")));
    }
    shown.extend(document.search.left_out.as_ref().map(|left_out| not_considered(left_out, document)));
    shown
}

/// Formats what to type next.
fn steps(next: &[NextStep]) -> String {
    if next.is_empty() {
        return String::new();
    }
    let rows: Vec<(&str, String)> = next.iter().map(|step| (step.command.as_str(), step.does.into())).collect();
    format!("\nNext\n{}", facts(&rows))
}

/// Formats a table of a cheaper plan (without prices, of fewer GPU-hours), a faster one and a simpler one; and, where there
/// are not all of these, of the runners-up.
fn others(document: &PlanDocument, width: Width) -> String {
    let mut chosen = choose(document);
    // Beside a table of methods there is room for one row.
    chosen.retain(|(name, _)| document.methods.is_empty() || *name == THRIFTY);
    if chosen.is_empty() {
        return String::new();
    }
    let header = ["alternatives", "on", "strategy", ">in all", cost_title(document), ">memory"];
    let rows = chosen.into_iter().map(|(name, other)| {
        let [_, strategy, _, time, cost, memory] = alternative(other, document);
        let batch = other.plan.batch.global;
        let batch = if batch == document.plan.batch.global { String::new() } else { format!(", batch {batch}") };
        let strategy = format!("{strategy}{}{batch}", recomputed(&other.plan));
        let stack = other.plan.stack.as_ref().filter(|stack| Some(*stack) != document.plan.stack.as_ref());
        let with = stack.map_or_else(String::new, |stack| format!(" with {stack}"));
        [name.to_owned(), format!("{}{with}", cluster(&other.plan)), strategy, time, cost, memory]
    });
    format!("\n{}", table(width, header, rows))
}

/// Picks other plans worth knowing of: the best one by what is sought where another is recommended, the cheapest one that
/// is cheaper, without prices the one of the fewest GPU-hours, the faster one that costs least, and the best one with fewer
/// kinds of parallelism, or as many and fewer features of the software, on no more machines, unless it is much worse or
/// converts models and data; then runners-up, those with stages of different sizes last. Where the plan keeps to the deadline
/// and the budget, so do they.
fn choose(document: &PlanDocument) -> Vec<(&'static str, &Alternative)> {
    let (own, terms, goal) = (&document.prediction, document.plan.pricing, &document.job.goal);
    let deadline = goal.deadline();
    let misses = |time_s: f64, cost_usd: Option<f64>| {
        let late = deadline.is_some_and(|most| time_s > most.0);
        late || goal.budget.zip(cost_usd).is_some_and(|(most, cost)| cost > most)
    };
    let of_stacks = document.stacks.iter().filter_map(|choice| choice.best.as_ref());
    let known: Vec<&Alternative> = (document.alternatives.iter().chain(&document.optimum).chain(of_stacks))
        .chain(document.pareto.iter().filter(|point| point.plan.pricing == terms))
        .filter(|other| {
            other.plan != document.plan
                && (misses(own.elapsed_s(), own.cost_usd) || !misses(other.time_s, other.cost_usd))
        })
        .collect();
    let cost = |other: &Alternative| other.cost_usd.unwrap_or(f64::INFINITY);
    let own_cost = own.cost_usd.unwrap_or(f64::INFINITY);
    let least =
        |those: &mut dyn Iterator<Item = &&'_ Alternative>, by: &dyn Fn(&Alternative) -> f64| -> Option<usize> {
            let best = those.min_by(|a, b| by(a).total_cmp(&by(b)))?;
            known.iter().position(|other| std::ptr::eq(*other, *best))
        };
    // Of what a document tells of a plan: how the search weighs it (its class of complexity) is not kept.
    let complexity = |plan: &PlanSpec| (plan.parallel.kinds(), plan.features().len());
    let own_complexity = complexity(&document.plan);
    let cheaper = least(&mut known.iter().filter(|other| cost(other) * CHEAPER < own_cost), &cost);
    let own_hours = own_gpu_hours(&document.plan, own);
    let hours = |other: &Alternative| gpu_hours(other, document).unwrap_or(f64::INFINITY);
    let fewer = if deadline.is_some() { 1.0 } else { FASTER };
    let is_thrifty = |other: &&&Alternative| own_hours.is_some_and(|own| hours(other) * fewer < own);
    let thrifty = least(&mut known.iter().filter(is_thrifty), &hours);
    let faster = |other: &&&Alternative| other.time_s * FASTER < own.elapsed_s();
    let price = |other: &Alternative| if other.cost_usd.is_some() { cost(other) } else { other.time_s };
    let faster = least(&mut known.iter().filter(faster), &price);
    let is_simpler = |other: &&&Alternative| {
        let is_near = other.time_s <= TOO_DEAR * own.elapsed_s() && cost(other) <= TOO_DEAR * own_cost;
        let as_many = other.plan.cluster.instances <= document.plan.cluster.instances;
        let more_converted = converts(&other.plan) && !converts(&document.plan);
        is_near && as_many && !more_converted && complexity(&other.plan) < own_complexity
    };
    let simpler = least(&mut known.iter().filter(is_simpler), &price);
    let mut chosen: Vec<(&'static str, &Alternative)> = Vec::new();
    let labelled = [("cheaper", cheaper), (THRIFTY, thrifty), ("faster", faster), ("simpler", simpler)];
    let labelled = labelled.into_iter().filter_map(|(name, index)| Some((name, known[index?])));
    let is_usual = |other: &&Alternative| has_even_stages(&other.plan) || !has_even_stages(&document.plan);
    let (usual, unusual): (Vec<_>, Vec<_>) = document.alternatives.iter().partition(is_usual);
    let runners_up = usual.into_iter().chain(unusual).map(|other| ("next best", other));
    for (name, other) in optimum(document).into_iter().chain(labelled).chain(runners_up) {
        if chosen.len() < OTHERS && chosen.iter().all(|(_, known)| known.plan != other.plan) {
            chosen.push((name, other));
        }
    }
    chosen
}

/// Returns `true` if the stages of a plan have as many repeated layers each.
fn has_even_stages(spec: &PlanSpec) -> bool {
    spec.parallel.pipeline == 1 || Plan::try_from(spec.clone()).is_ok_and(|plan| !has_uneven_stages(&plan))
}

/// Returns `true` if models and data have to be converted for the software of a plan.
fn converts(plan: &PlanSpec) -> bool {
    plan.stack.as_ref().is_some_and(|name| catalog().stack(name).is_ok_and(|stack| stack.runs.own_models))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::tests::{methods, plan_document};
    use trainyard_plan::{GoalSpec, Objective, Recompute, ScheduleName, StageSpec, StateSharding};

    #[test]
    fn waits_in_the_queue_are_told_apart_from_start_up() {
        let mut document = plan_document();
        let page = |document: &_| brief(document, &[], Width(160));
        assert!(!page(&document).contains("queue"));
        let prediction = &mut document.prediction;
        (prediction.start_up_s, prediction.queued_s) = (Some(14_800.0), Some(14_400.0));
        prediction.in_all_s = Some(prediction.time_s + 14_900.0);
        let page = page(&document);
        assert!(page.contains("with waits in the queue, start-up and checkpoints"), "{page}");
    }

    #[test]
    fn the_best_plan_is_told_first_where_a_simpler_one_is_recommended() {
        let mut document = plan_document();
        let mut best = document.alternatives[0].clone();
        best.plan.batch.micro += 1;
        let cost = document.prediction.cost_usd.expect("rented");
        best.cost_usd = Some(0.99 * cost);
        (best.plan.state_sharding, best.plan.recompute) = (StateSharding::Parameters, Recompute::Full);
        best.plan.offload = "optimizer".parse().expect("an offload");
        document.optimum = Some(best.clone());
        let first = |document: &_| choose(document).first().map(|(name, _)| *name);
        assert_eq!(first(&document), Some("cheapest"));
        let page = brief(&document, &[], Width(160));
        assert!(page.contains("ZeRO-3, offload optimizer, recompute"), "{page}");
        document.job.goal.objective = Some(Objective::Time);
        assert_ne!(first(&document), Some("cheapest"));
        // What comes to the same is no other plan worth a line.
        document.job.goal.objective = None;
        document.optimum = Some(Alternative { cost_usd: Some(0.9999 * cost), ..best });
        assert_ne!(first(&document), Some("cheapest"));
    }

    #[test]
    fn plans_on_machines_without_a_price_tell_gpu_hours() {
        let mut document = plan_document();
        document.plan.parallel.data = 16;
        document.plan.cluster.file = Some("own.toml".into());
        let prediction = &mut document.prediction;
        (prediction.cost_usd, prediction.cost_interval_usd, prediction.price) = (None, None, None);
        (prediction.time_s, prediction.in_all_s, prediction.start_up_s) = (7_200.0, None, None);
        let mut other = document.alternatives[0].clone();
        (other.plan.cluster.file, other.plan.cluster.instances) = (Some("own.toml".into()), 1);
        (other.plan.parallel.data, other.cost_usd, other.time_s) = (2, None, 9_000.0);
        document.alternatives = vec![other];
        (document.pareto, document.job.goal) = (Vec::new(), GoalSpec::default());
        let page = |document: &_| brief(document, &[], Width(160));
        let told = page(&document);
        assert!(told.contains(" 32.4: 16 GPUs for "), "{told}");
        let row = told.lines().find(|line| line.starts_with("  fewer GPU-hours")).expect("a row");
        assert!(row.contains("  5.0  "), "{row}");
        assert!(told.lines().any(|line| line.contains("in all  GPU-hours")), "{told}");
        // Methods of fine-tuning are compared in a table, behind which it stays.
        document.methods = methods();
        assert!(page(&document).contains("\n  fewer GPU-hours  "), "{}", page(&document));
        document.methods.clear();
        // Of a wait in the queue nobody knows the part of each plan.
        document.prediction.queued_s = Some(3_600.0);
        let told = page(&document);
        assert!(told.contains(" 16.4: 16 GPUs for ") && !told.contains("fewer GPU-hours"), "{told}");
    }

    #[test]
    fn a_simpler_plan_that_is_much_worse_or_on_more_machines_is_no_alternative() {
        let mut document = plan_document();
        document.plan.parallel.pipeline = 2;
        let mut plain = document.alternatives[0].clone();
        plain.plan.parallel.pipeline = 1;
        let (time, cost) = (document.prediction.time_s, document.prediction.cost_usd.expect("rented"));
        document.alternatives.clear();
        document.pareto.clear();
        document.job.goal = GoalSpec::default();
        let own = document.plan.cluster.instances;
        let cases = [([2.9, 2.9], own, true), ([3.1, 2.9], own, false), ([2.9, 3.1], own, false)];
        for (times, machines, shown) in cases.into_iter().chain([([2.9, 2.9], own + 1, false)]) {
            plain.plan.cluster.instances = machines;
            plain.plan.batch.micro += 1;
            (plain.time_s, plain.cost_usd) = (times[0] * time, Some(times[1] * cost));
            document.pareto = vec![plain.clone()];
            let names: Vec<&str> = choose(&document).into_iter().map(|(name, _)| name).collect();
            assert_eq!(names.contains(&"simpler"), shown, "{times:?}: {names:?}");
        }
    }

    #[test]
    fn runners_up_with_stages_of_different_sizes_come_last() {
        let mut document = plan_document();
        let plan = |blocks: &[usize], machines: u32| {
            let mut other = document.alternatives[0].clone();
            (other.plan.parallel.pipeline, other.plan.schedule) =
                (blocks.len() as u32, ScheduleName::OneForwardOneBackward);
            let mut first = 0;
            let mut stage = |(index, blocks): (usize, &usize)| {
                // The embedding is on the first stage, the head on the last.
                let layers = blocks + usize::from(index == 0) + usize::from(first + blocks == 13);
                first += layers;
                StageSpec { first: first - layers, layers }
            };
            other.plan.stages = blocks.iter().enumerate().map(&mut stage).collect();
            other.plan.cluster.instances = machines;
            (other.cost_usd, other.time_s) = (Some(9_999.0), 9e4);
            assert!(Plan::try_from(other.plan.clone()).is_ok(), "{:?}", Plan::try_from(other.plan.clone()).err());
            other
        };
        let (uneven, even) = (plan(&[3, 3, 3, 2, 1], 5), plan(&[3, 3, 3, 3], 4));
        document.pareto.clear();
        document.alternatives = vec![uneven, even];
        let machines = |document: &_| {
            choose(document).into_iter().map(|(_, other)| other.plan.cluster.instances).collect::<Vec<_>>()
        };
        assert_eq!(machines(&document), [4, 5]);
        // Nor is the recommended plan even here.
        document.plan = document.alternatives[0].plan.clone();
        document.plan.batch.micro += 1;
        assert_eq!(machines(&document), [5, 4]);
    }

    #[test]
    fn a_table_of_methods_leaves_a_screen() {
        let sentence = |number: usize| format!("{number} {}", "words that fill a line and more ".repeat(4));
        let mut document = plan_document();
        document.reasons = (0..8).map(sentence).collect();
        document.warnings = (0..6).map(sentence).collect();
        let next = [NextStep { command: "trainyard".into(), does: "says how" }; 1];
        let long = brief(&document, &next, Width(100)).lines().count();
        document.methods = methods();
        let page = brief(&document, &next, Width(100));
        assert!(page.lines().count() <= SCREEN && long > 0, "{page}");
        // The first line of reasons is the summary.
        assert!(page.contains("  · 1 words") && page.contains("  · 2 words") && page.contains("  · 0 words"), "{page}");
        assert!(page.contains("more caveats with -v") && page.contains("QLoRA"), "{page}");
    }
}
