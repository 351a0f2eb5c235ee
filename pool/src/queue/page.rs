//! A simulated queue as a page.

use super::{InstanceSeconds, JobRun, PoolSpec, QueueCost, QueueDocument, QueueOrder, Waiting};
use trainyard_plan::Pricing;
use trainyard_planner::usd;
use trainyard_reports::Width;
use trainyard_reports::format::{bullets, facts, percent, table};
use trainyard_units::{Seconds, counted, human_duration};

/// Formats a queue for a reader: how long it takes and what it costs, and how each kind of jobs fared. `each` lists the
/// jobs one by one.
pub fn page(document: &QueueDocument, width: Width, each: bool) -> String {
    let mut text = format!("{}\n\n", title(document));
    text += &facts(&headline(document));
    text.push('\n');
    text += &kinds(document, width);
    if each {
        text.push('\n');
        text += &runs(document, width);
    }
    text + &bullets(width, "Caveats", &document.warnings)
}

/// Formats a time in a queue, in which less than a second is nothing.
pub(crate) fn time(seconds: f64) -> String {
    if seconds < 0.5 { "0 s".into() } else { human_duration(Seconds(seconds)) }
}

/// Formats the title: `50 jobs on up to 8 × g4dn.xlarge, shortest-first with backfilling`.
pub(crate) fn title(document: &QueueDocument) -> String {
    let (PoolSpec { instance, .. }, quota) = (&document.queue.pool, document.queue.pool.quota());
    let policy = document.queue.policy;
    let order = match policy.order {
        QueueOrder::Priority => "by priority".into(),
        order => order.to_string(),
    };
    let backfill = if policy.backfill { " with backfilling" } else { "" };
    let jobs = counted(document.jobs.len() as u64, "job");
    format!("{jobs} on up to {quota} × {instance}, {order}{backfill}")
}

fn headline(document: &QueueDocument) -> Vec<(&'static str, String)> {
    let prediction = &document.prediction;
    let mut rows = vec![
        ("makespan", time(prediction.makespan_s)),
        (
            "no schedule beats",
            format!("{} ({}); gap {}", time(prediction.bound.largest_s()), why(document), percent(prediction.gap)),
        ),
    ];
    let starts = (prediction.cold_starts, prediction.warm_starts);
    let pool = &document.queue.pool;
    rows.extend(use_of_pool(pool, prediction.waiting_s, starts, prediction.instance_seconds));
    let in_use = if pool.is_owned() { "machines in use" } else { "quota in use" };
    rows.push((in_use, percent(prediction.utilisation_of_quota)));
    if let (Some(cost), Some(price)) = (prediction.cost, &prediction.price) {
        rows.push(("cost", format!("{}{}", usd(cost.total_usd), of_it_warm(cost))));
        let pricing = pool.pricing.unwrap_or(Pricing::OnDemand);
        let terms = match price.offered() {
            Some(own) => format!("{} {pricing} in {}, as of {}", own.service, own.region, own.date),
            None => price.source.clone(),
        };
        rows.push(("price", format!("{:.2} USD/h each, {terms}", price.usd_per_hour)));
    }
    rows
}

/// Formats how long jobs wait, their starts, cold and warm, and what instances do. Machines of one's own all start alike, and
/// none of them has to be kept.
pub(crate) fn use_of_pool(
    pool: &PoolSpec,
    waiting: Waiting,
    (cold, warm): (u32, u32),
    spent: InstanceSeconds,
) -> Vec<(&'static str, String)> {
    let noun = pool.noun();
    let hours = |time: f64| format!("{:.1} {noun}-hours", time / 3600.0);
    let part = |time: f64| format!("{} ({})", hours(time), percent(time / spent.held));
    let mut rows = vec![(
        "waiting",
        format!("{} on average, 95 %: {}, at most {}", time(waiting.mean), time(waiting.p95), time(waiting.max)),
    )];
    if !pool.is_owned() {
        rows.push(("starts", format!("{cold} cold, {warm} warm")));
    }
    let (held, paid) = (hours(spent.held), hours(spent.paid));
    let unpaid = !pool.is_owned() && spent.paid > 0.0 && paid != held;
    let held = if unpaid { format!("{held}, {:.1} of them paid", spent.paid / 3600.0) } else { held };
    rows.extend([("held", held), ("training", part(spent.busy)), ("start-up", part(spent.startup))]);
    if !pool.is_owned() {
        rows.push(("kept warm", part(spent.idle)));
    }
    rows
}

/// Formats the part of a cost that is for instances kept warm, if there is one.
pub(crate) fn of_it_warm(cost: QueueCost) -> String {
    if cost.warm_usd > 0.0 { format!(", {} of it kept warm", usd(cost.warm_usd)) } else { String::new() }
}

/// Tells which of the lower bounds is the binding one.
fn why(document: &QueueDocument) -> &'static str {
    let bound = document.prediction.bound;
    if bound.largest_s() <= bound.longest_s {
        "the longest job"
    } else if bound.largest_s() <= bound.work_s {
        if document.queue.pool.is_owned() { "all work over the machines" } else { "all work over the quota" }
    } else {
        "wide jobs one after another"
    }
}

/// Formats a line for each kind of jobs, in the order of the file.
fn kinds(document: &QueueDocument, width: Width) -> String {
    let pool = &document.queue.pool;
    let nouns = format!(">{}s", pool.noun());
    let rows = document.queue.jobs.iter().map(|kind| {
        let runs: Vec<&JobRun> = document.jobs.iter().filter(|run| run.name == kind.name).collect();
        let most = |value: fn(&JobRun) -> f64| runs.iter().map(|run| value(run)).fold(0.0, f64::max);
        let mean = |value: fn(&JobRun) -> f64| runs.iter().map(|run| value(run)).sum::<f64>() / runs.len() as f64;
        [
            kind.name.clone(),
            runs.len().to_string(),
            runs.first().map_or(0, |run| run.instances.len()).to_string(),
            time(mean(|run| run.end_s - run.ready_s)),
            time(mean(|run| run.start_s - run.submit_s)),
            warm(pool, || runs.iter().filter(|run| run.warm).count().to_string()),
            time(most(|run| run.end_s)),
        ]
    });
    table(width, ["job", ">count", &nouns, ">mean training", ">mean waiting", ">warm", ">last end"], rows)
}

/// Formats what there is to tell of warm instances; nothing of machines of one's own.
fn warm(pool: &PoolSpec, told: impl FnOnce() -> String) -> String {
    if pool.is_owned() { String::new() } else { told() }
}

pub(crate) fn runs(document: &QueueDocument, width: Width) -> String {
    let pool = &document.queue.pool;
    let rows = document.jobs.iter().map(|run| {
        [
            format!("{} {}", run.name, run.number),
            time(run.submit_s),
            time(run.start_s),
            time(run.end_s),
            warm(pool, || if run.warm { "warm" } else { "cold" }.into()),
            places(&run.instances),
        ]
    });
    table(width, ["job", ">submitted", ">start", ">end", "start-up", &format!("{}s", pool.noun())], rows)
}

/// Formats places as ranges: `0–3, 6`.
fn places(places: &[u32]) -> String {
    let runs = places.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let text = |run: &[u32]| match run {
        [first, .., last] => format!("{first}–{last}"),
        [only] => only.to_string(),
        [] => String::new(),
    };
    runs.map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::queue::{PolicySpec, QueueFiles, QueueSpec, QueuedJobSpec, predict_queue};

    /// Returns `trials` trials and a gang of four, on eight instances that are kept warm.
    pub(crate) fn document(trials: u32) -> QueueDocument {
        let pool = PoolSpec {
            instance: "g4dn.xlarge".into(),
            max_instances: Some(8),
            service: Some("sagemaker".into()),
            warm_pool: true,
            ..PoolSpec::default()
        };
        let job = |name: &str| QueuedJobSpec {
            name: name.into(),
            duration: Some("1 h".into()),
            count: 1,
            ..QueuedJobSpec::default()
        };
        let trial = QueuedJobSpec { count: trials, spread: 0.2, ..job("trial") };
        let gang = QueuedJobSpec { instances: Some(4), submit: Some("90 min".into()), ..job("gang") };
        let queue = QueueSpec { pool, policy: PolicySpec::default(), jobs: vec![trial, gang] };
        predict_queue(&queue, &QueueFiles::default(), 1).expect("a queue without mistakes")
    }

    #[test]
    fn a_page_names_every_kind_and_with_each_every_job() {
        let document = document(5);
        let text = page(&document, Width(100), false);
        assert!(text.contains("6 jobs on up to 8 × g4dn.xlarge, fifo") && text.contains("gang"), "{text}");
        assert!(!text.contains("trial 5") && page(&document, Width(100), true).contains("trial 5"));
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn neighbouring_places_are_a_range() {
        assert_eq!(places(&[0, 1, 2, 3, 6, 8, 9]), "0–3, 6, 8–9");
        assert_eq!(places(&[]), "");
    }
}
