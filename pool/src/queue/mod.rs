//! Queues: many independent jobs on one pool of instances, as written, simulated, and as page and plot.

mod document;
pub(crate) mod owned;
mod page;
pub(crate) mod plot;
pub(crate) mod simulation;
mod spec;
pub(crate) mod valid;

pub use document::{
    InstanceSeconds, JobRun, MakespanBound, PoolState, QUEUE_SCHEMA, QueueCost, QueueDocument, QueuePrediction,
    Waiting, WarmEnd, WarmWait,
};
pub use owned::{OwnMachines, QueueFiles};
pub use page::page;
pub(crate) use page::{of_it_warm, runs, time, use_of_pool};
pub use plot::gantt;
pub use spec::{PolicySpec, PoolSpec, QueueOrder, QueueSpec, QueuedJobSpec, StartSpec};

use owned::resolved;
use simulation::{Kept, Queue, QueueOutcome, State, makespan_bound, simulate_planned, simulate_queue};
use trainyard_plan::Pricing;
use trainyard_plan::document::PriceUsed;
use trainyard_planner::{purchase, usd};
use trainyard_units::{Instant, Invalid, Seconds, Span, human_duration};
use valid::{ValidQueue, valid};

/// Simulates a queue; `seed` is for durations that have a spread.
///
/// # Errors
///
/// When something is missing, contradictory, out of range or unknown; fields are paths in the file, jobs counted from
/// 0: `job[0].duration`.
///
/// # Panics
///
/// When a plan that the queue names is not among the `files`.
pub fn predict_queue(spec: &QueueSpec, files: &QueueFiles, seed: u64) -> Result<QueueDocument, Invalid> {
    predicted(spec, files, (seed, simulate_queue))
}

/// Does the same of a queue that is part of a plan: no instance is kept for nobody.
pub(crate) fn predict_planned(spec: &QueueSpec, files: &QueueFiles) -> Result<QueueDocument, Invalid> {
    predicted(spec, files, (0, simulate_planned))
}

fn predicted(
    spec: &QueueSpec,
    files: &QueueFiles,
    (seed, simulate): (u64, fn(&Queue) -> QueueOutcome),
) -> Result<QueueDocument, Invalid> {
    let spec = &resolved(spec, files.machines.as_ref())?;
    let checked = valid(spec, files, seed)?;
    let outcome = simulate(&checked.queue);
    Ok(QueueDocument {
        schema: QUEUE_SCHEMA.into(),
        queue: spec.clone(),
        seed,
        prediction: prediction(&spec.pool, &checked, &outcome),
        jobs: jobs(&spec.pool, &checked, &outcome),
        warm: outcome.kept.iter().map(warm).collect(),
        timeline: outcome.states.iter().map(state).collect(),
        warnings: warnings(spec, &checked, files),
    })
}

fn seconds(instant: Instant) -> f64 {
    instant.seconds().0
}

fn prediction(pool: &PoolSpec, checked: &ValidQueue, outcome: &QueueOutcome) -> QueuePrediction {
    let queue = &checked.queue;
    let bound = makespan_bound(queue);
    let makespan = outcome.makespan(queue).seconds().0;
    let usage = outcome.usage();
    let (busy, held) = (usage.busy.seconds().0, usage.held().seconds().0);
    let warm_starts = outcome.runs.iter().filter(|run| run.warm || pool.is_owned()).count();
    QueuePrediction {
        makespan_s: makespan,
        bound,
        gap: (makespan / bound.largest_s() - 1.0).max(0.0),
        waiting_s: waiting(outcome.waiting(queue)),
        cold_starts: (outcome.runs.len() - warm_starts) as u32,
        warm_starts: warm_starts as u32,
        instance_seconds: InstanceSeconds {
            busy,
            startup: usage.startup.seconds().0,
            idle: usage.idle.seconds().0,
            held,
            paid: (outcome.billed_jobs() + outcome.billed_warm()).0,
        },
        utilisation_of_held: busy / held,
        utilisation_of_quota: busy / (f64::from(queue.quota) * makespan),
        cost: checked.price.as_ref().map(|price| {
            let cost = |time: Seconds| (price.hourly * time).0;
            let (jobs, warm) = (outcome.billed_jobs(), outcome.billed_warm());
            QueueCost { jobs_usd: cost(jobs), warm_usd: cost(warm), total_usd: cost(jobs + warm) }
        }),
        price: checked.price.as_ref().map(|price| price.used.clone()),
    }
}

/// Computes the mean, the quantile by the nearest rank, and the maximum; a queue has at least one job.
pub(crate) fn waiting(mut spans: Vec<Span>) -> Waiting {
    spans.sort_unstable();
    let at = |index: usize| spans[index].seconds().0;
    // Together they may wait for longer than a span can be.
    let all: u128 = spans.iter().map(|span| u128::from(span.nanoseconds())).sum();
    Waiting {
        mean: all as f64 / 1e9 / spans.len() as f64,
        p95: at((spans.len() * 95).div_ceil(100) - 1),
        max: at(spans.len() - 1),
    }
}

fn jobs(pool: &PoolSpec, checked: &ValidQueue, outcome: &QueueOutcome) -> Vec<JobRun> {
    let jobs = checked.names.iter().zip(&checked.queue.jobs).zip(&outcome.runs);
    jobs.map(|(((name, number), job), run)| JobRun {
        name: name.clone(),
        number: *number,
        submit_s: seconds(job.submit),
        start_s: seconds(run.start),
        ready_s: seconds(run.ready),
        end_s: seconds(run.end),
        warm: run.warm || pool.is_owned(),
        instances: run.places.clone(),
        cost_usd: checked.price.as_ref().map(|price| (price.hourly * run.billed()).0),
    })
    .collect()
}

fn warm(kept: &Kept) -> WarmWait {
    let (start_s, end_s) = (seconds(kept.since), seconds(kept.until));
    WarmWait { start_s, end_s, end: kept.ended, instances: kept.places.clone() }
}

fn state(state: &State) -> PoolState {
    let State { at, waiting, starting, busy, idle } = *state;
    PoolState { time_s: seconds(at), waiting, starting, busy, idle }
}

/// What queues say of their terms; plans of fleets say more.
pub(crate) const RESERVED: &str = "reserved instances are paid for their whole term, used or not; the cost here is of the hours that instances are held";
pub(crate) const SPOT: &str = "spot instances may be reclaimed, which this simulation of a queue leaves out";

fn warnings(spec: &QueueSpec, checked: &ValidQueue, files: &QueueFiles) -> Vec<String> {
    let pool = &spec.pool;
    let mut warnings = Vec::new();
    if pool.is_owned() {
        if pool.start.cold.is_none() {
            let start = valid::warm_start();
            warnings.push(format!("start-up is a stated default, {start}: `pool.start.cold` sets your own"));
        }
    } else if pool.start.cold.is_none() || (pool.warm_pool && pool.start.warm.is_none()) {
        warnings.push(format!(
            "start-up is a stated default, {} cold and {} warm: no figures are published; `pool.start` sets your own",
            human_duration(valid::cold_start()),
            valid::warm_start()
        ));
    }
    if pool.warm_pool && pool.max_warm_instances.is_none() {
        warnings.push(format!(
            "SageMaker's quota of warm instances is 0 until it is raised; {} × {} are assumed",
            pool.quota(),
            pool.instance
        ));
    }
    if !pool.warm_pool {
        warnings.extend(unmatched(&spec.jobs));
    }
    if let Some(price) = &checked.price {
        warnings.extend(otherwise_priced(spec, &price.used, files));
    }
    warnings.extend(of_another_file(spec, files));
    if pool.pricing.is_some_and(|pricing| purchase(pricing).term().is_some()) {
        warnings.push(RESERVED.into());
    }
    if pool.pricing == Some(Pricing::Spot) {
        warnings.push(SPOT.into());
    }
    if spec.policy.order != QueueOrder::Priority && spec.jobs.iter().any(|job| job.priority != 0) {
        warnings.push(format!(
            "`priority` changes nothing: `policy.order` is {}, not {}",
            spec.policy.order,
            QueueOrder::Priority
        ));
    }
    warnings
}

/// Warns of plans that were made at another price, or on other terms, than the pool is rented at.
fn otherwise_priced(spec: &QueueSpec, of_pool: &PriceUsed, files: &QueueFiles) -> Vec<String> {
    let are = if spec.pool.is_owned() { "machines cost" } else { "instances are rented at" };
    let told = |price: &PriceUsed| {
        let each = usd(price.usd_per_hour);
        let terms = price.pricing.unwrap_or(Pricing::OnDemand);
        let offered = price.offered().map(|own| format!(" ({} {terms} in {})", own.service, own.region));
        format!("{each} an hour{}", offered.unwrap_or_default())
    };
    let of_plan = |kind: &QueuedJobSpec| {
        let own = told(files.plans.get(kind.plan.as_ref()?)?.prediction.price.as_ref()?);
        let of_pool = told(of_pool);
        (own != of_pool).then(|| format!("the plan of {} was made at {own}; here its {are} {of_pool}", kind.name))
    };
    spec.jobs.iter().filter_map(of_plan).collect()
}

/// Warns of plans for machines of one's own that a file of another name describes.
fn of_another_file(spec: &QueueSpec, files: &QueueFiles) -> Vec<String> {
    let name = |path: &str| path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned();
    let of_plan = |kind: &QueuedJobSpec| {
        let of_plan = files.plans.get(kind.plan.as_ref()?)?.plan.cluster.file.as_ref()?;
        let of_pool = spec.pool.file.as_ref()?;
        (name(of_plan) != name(of_pool)).then(|| {
            let (job, instance) = (&kind.name, &spec.pool.instance);
            format!("the plan of {job} was made for {instance} of {of_plan}; its time is taken to be that on {instance} of {of_pool}")
        })
    };
    spec.jobs.iter().filter_map(of_plan).collect()
}

/// Warns of fields of jobs that have no effect without a warm pool, because they only decide which jobs may reuse
/// instances.
fn unmatched(jobs: &[QueuedJobSpec]) -> Option<String> {
    let written = |is_set: fn(&QueuedJobSpec) -> bool| jobs.iter().any(is_set);
    let fields = [
        ("role", written(|job| job.role.is_some())),
        ("volume", written(|job| job.volume.is_some())),
        ("vpc", written(|job| job.vpc.is_some())),
        ("encryption", written(|job| job.encryption.is_some())),
    ];
    let fields: Vec<&str> = fields.into_iter().filter(|(_, is_set)| *is_set).map(|(field, _)| field).collect();
    (!fields.is_empty()).then(|| format!("without a warm pool these change nothing: {}", fields.join(", ")))
}

#[cfg(test)]
mod tests;
