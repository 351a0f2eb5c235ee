//! A planned fleet as a page.

use super::{FleetDocument, FleetPlan};
use crate::queue::{QueueDocument, of_it_warm, runs, time, use_of_pool};
use std::collections::BTreeMap;
use trainyard_plan::Objective;
use trainyard_plan::document::PriceUsed;
use trainyard_planner::usd;
use trainyard_reports::format::{bullets, facts, percent, table};
use trainyard_reports::{Width, cluster, strategy_and_state};
use trainyard_units::{counted, human_count, human_duration};

/// Formats a fleet for a reader: time and cost, the plan of each kind of jobs, and the pools. `each` lists the jobs one
/// by one.
pub fn page(document: &FleetDocument, width: Width, each: bool) -> String {
    let mut text = format!("{}\n\n", title(document));
    text += &facts(&headline(document));
    text.push('\n');
    text += &plans(document, width);
    text.push('\n');
    text += &pools(document, width);
    if each {
        for pool in &document.pools {
            text += "\non ";
            text += &pool.queue.pool.instance;
            text.push('\n');
            text += &runs(pool, width);
        }
    }
    text += &bullets(width, "Software", &software(document));
    text += &bullets(width, "To meet the goal", &document.to_meet_goal);
    text += &bullets(width, "Why", &document.reasons);
    text += &bullets(width, "Caveats", &document.warnings);
    text + &bullets(width, "Search", &search(document))
}

fn title(document: &FleetDocument) -> String {
    let jobs: u64 = document.plans.iter().map(|plan| u64::from(plan.count)).sum();
    let kinds = document.plans.len() as u64;
    let types = document.pools.iter().map(|pool| pool.queue.pool.instance.as_str()).collect::<Vec<_>>().join(", ");
    let each = |pool: &QueueDocument| format!("{} × {}", pool.queue.pool.quota(), pool.queue.pool.instance);
    let on = match document.fleet.pool.max_instances.filter(|_| document.fleet.pool.quotas.is_none()) {
        Some(quota) => format!("{quota} × {types}"),
        None => document.pools.iter().map(each).collect::<Vec<_>>().join(", "),
    };
    format!("{} of {} on up to {on}", counted(jobs, "job"), counted(kinds, "kind"))
}

fn headline(document: &FleetDocument) -> Vec<(&'static str, String)> {
    let (prediction, goal) = (&document.prediction, &document.fleet.goal);
    let cost = prediction.cost;
    let deadline = goal.deadline();
    let range = |[low, high]: [f64; 2], told: fn(f64) -> String| format!("90 %: {} to {}", told(low), told(high));
    // Older documents have no interval.
    let makespans = Some(prediction.makespan_interval_s).filter(|[_, late]| *late > 0.0).map(|own| range(own, time));
    let costs = prediction.cost_interval_usd.map(|own| range(own, usd));
    let deadline = in_brackets([makespans, deadline.map(|own| format!("deadline {}", human_duration(own)))]);
    let budget = in_brackets([costs, goal.budget.map(|own| format!("budget {}", usd(own)))]);
    let mut rows = vec![
        ("makespan", format!("{}{deadline}", time(prediction.makespan_s))),
        (
            "no schedule beats",
            format!("{} with these plans; gap {}", time(prediction.bound_s), percent(prediction.gap)),
        ),
    ];
    rows.extend(cost.map(|cost| ("cost", format!("{}{budget}{}", usd(cost.total_usd), of_it_warm(cost)))));
    let starts = (prediction.cold_starts, prediction.warm_starts);
    let any = document.pools.first().map(|pool| pool.queue.pool.clone()).unwrap_or_default();
    rows.extend(use_of_pool(&any, prediction.waiting_s, starts, prediction.instance_seconds));
    if let (Some(cold), Some(cost)) = (prediction.without_warm_pool, cost) {
        let later = cold.makespan_s - prediction.makespan_s;
        let more = cold.cost_usd - cost.total_usd;
        let took = if later >= 0.0 { "longer" } else { "shorter" };
        let cost = if more >= 0.0 { "more" } else { "less" };
        let goal = match (cold.misses_goal, document.missed.is_some()) {
            (true, false) => ", but misses the goal",
            (false, true) => ", and meets the goal",
            _ => "",
        };
        let text = format!("{} {took} and {} {cost}, planned for that{goal}", time(later.abs()), usd(more.abs()));
        rows.push(("without warm pool", text));
    } else if !any.is_owned() {
        rows.pop();
    }
    rows
}

/// Formats what there is of these in brackets.
fn in_brackets(parts: [Option<String>; 2]) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}

fn plans(document: &FleetDocument, width: Width) -> String {
    let rows = document.plans.iter().map(|plan: &FleetPlan| {
        [
            plan.name.clone(),
            plan.count.to_string(),
            cluster(&plan.plan),
            strategy_and_state(&plan.plan),
            time(plan.time_s),
            mean_cost(document, plan).map_or_else(|| "–".into(), usd),
            time(plan.start_s),
            time(plan.end_s),
        ]
    });
    let header = ["job", ">count", "on", "split", ">training", ">mean cost", ">first start", ">last end"];
    table(width, header, rows)
}

/// Lists the software of the plans, with the kinds of jobs that run with it.
fn software(document: &FleetDocument) -> Vec<String> {
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for plan in &document.plans {
        kinds.entry(plan.plan.stack.as_deref().unwrap_or_default()).or_default().push(&plan.name);
    }
    kinds.into_iter().map(|(stack, kinds)| format!("{stack}: {}", kinds.join(", "))).collect()
}

/// Returns the cost of a job of a kind on average, in USD: those that start on new instances cost more. `None` where they have
/// none.
fn mean_cost(document: &FleetDocument, plan: &FleetPlan) -> Option<f64> {
    let runs = document.pools.iter().flat_map(|pool| &pool.jobs).filter(|run| run.name == plan.name);
    let all = runs.map(|run| run.cost_usd).sum::<Option<f64>>()?;
    Some(all / f64::from(plan.count))
}

fn pools(document: &FleetDocument, width: Width) -> String {
    let rows = document.pools.iter().map(|pool| {
        let prediction = &pool.prediction;
        // Utilisation is relative to the time that the whole fleet takes.
        let quota = f64::from(pool.queue.pool.quota()) * document.prediction.makespan_s;
        let price = prediction.price.as_ref();
        [
            pool.queue.pool.instance.clone(),
            pool.jobs.len().to_string(),
            pool.queue.pool.quota().to_string(),
            percent(prediction.instance_seconds.busy / quota),
            prediction.cost.map_or_else(|| "–".into(), |cost| usd(cost.total_usd)),
            price.map_or_else(|| "–".into(), |price| format!("{:.2} USD/h", price.usd_per_hour)),
            price.map_or_else(String::new, terms),
        ]
    });
    table(width, ["pool", ">jobs", ">at most", ">training", ">cost", ">price each", "terms"], rows)
}

/// Names who says a price.
fn terms(price: &PriceUsed) -> String {
    let offered = price.offered().map(|own| format!("{} in {}, {}", own.service, own.region, own.date));
    offered.unwrap_or_else(|| price.source.clone())
}

fn search(document: &FleetDocument) -> Vec<String> {
    let search = document.search;
    let each =
        if document.fleet.pool.file.is_some() { "kind and number of machines" } else { "type and number of instances" };
    let plans = format!(
        "{} considered, {} simulated: the one to recommend and the best one on each {each}",
        counted(search.candidates, "plan"),
        human_count(search.simulated)
    );
    let choices = if search.choices < 1e15 { human_count(search.choices as u64) } else { "over 10^15".into() };
    let bound = match document.objective() {
        Objective::Cost => format!("costs less than {}", usd(search.bound)),
        Objective::Time => format!("takes less than {}", time(search.bound)),
    };
    let all = if search.complete { "the rest is proved no better in any of these orders" } else { "stopped early" };
    let proof = if search.impossible {
        "it is proved that no schedule of these plans meets the goal".into()
    } else {
        format!("no choice of these plans and no schedule {bound}; gap {}", percent(search.gap))
    };
    vec![
        plans,
        format!(
            "{choices} choices of a plan for each kind, {} simulated; {all}",
            counted(search.schedules, "schedule")
        ),
        proof,
    ]
}
