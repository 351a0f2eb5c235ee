//! A queue as written becomes one that can be simulated.

use super::QueueError;
use crate::problem::price_not_found;
use crate::problem::{DEFAULT_REGION, MAX_INSTANCES};
use crate::problem::{NoWarmPool, no_warm_pool, price_of, purchase};
use std::collections::BTreeMap;
use trainyard_hardware_profiles::{Price, PriceQuery, Service, catalog};
use trainyard_plan::Pricing;
use trainyard_plan::document::PlanDocument;
use trainyard_plan::queue::{PoolSpec, QueueSpec, QueuedJobSpec};
use trainyard_sim::queue::{Job, Queue, WarmPools, duration_factors};
use trainyard_units::{Bytes, Instant, Seconds, Span};

/// The time for which idle instances are kept: a stated default.
const KEEP_ALIVE: Seconds = Seconds(1800.0);
/// The longest that SageMaker keeps instances after a job (Amazon SageMaker Developer Guide, "Managed Warm Pools").
const KEEP_ALIVE_MOST: Seconds = Seconds(3600.0);
/// The time for which SageMaker reuses instances from job to job (the same, "Maximum warm pool duration").
const WARM_POOL_LIFETIME: Seconds = Seconds(28.0 * 86_400.0);
/// The most jobs: backfilling looks at every waiting job whenever one ends.
const MOST_JOBS: u64 = 10_000;
/// The shortest job: shorter ones are not billed to their length.
pub(crate) const SHORTEST_JOB: Seconds = Seconds(1.0);
/// The longest work of all jobs in sequence that fits the simulation's clock, even if every draw is as long as it may
/// be.
pub(crate) const MOST_WORK: Seconds = Seconds(50.0 * 365.0 * 86_400.0);
/// The widest spread: a log-normal of a standard deviation above its mean is no longer a duration that anybody expects.
const MOST_SPREAD: f64 = 1.0;

/// A queue whose parts fit together, and the names that its jobs have in the file.
#[derive(Clone, Debug)]
pub(crate) struct ValidQueue {
    pub(crate) queue: Queue,
    /// The name of each job, and its number among those with that name, from 1.
    pub(crate) names: Vec<(String, u32)>,
    pub(crate) price: Option<Price>,
}

/// Returns the default time from new instances to the first step.
pub(super) fn cold_start() -> Seconds {
    catalog().operations().cold.total()
}

/// Returns the default time from instances of the warm pool to the first step.
pub(super) fn warm_start() -> Seconds {
    catalog().operations().warm_pool.total()
}

/// The instances and duration of a kind of jobs.
struct Work {
    instances: u32,
    duration: Seconds,
    encrypted: bool,
}

/// The settings, besides type and number, that must match for instances to be reused.
type Environment<'a> = (Option<&'a str>, Option<u64>, Option<&'a str>, bool);

/// Checks a queue and draws its durations. `plans` are the documents that its jobs name, by the path in the file.
pub(crate) fn valid(
    spec: &QueueSpec,
    plans: &BTreeMap<String, PlanDocument>,
    seed: u64,
) -> Result<ValidQueue, QueueError> {
    let service = service(&spec.pool)?;
    let mut queue = pool(spec, service)?;
    let price = price(&spec.pool, service)?;
    let mut names: Vec<(String, u32)> = Vec::new();
    let mut spreads = Vec::new();
    let mut environments = Vec::new();
    count(&spec.jobs)?;
    for (index, kind) in spec.jobs.iter().enumerate() {
        let field = |name: &str| format!("job[{index}].{name}");
        name(kind, &spec.jobs[..index], &field)?;
        let work = work(kind, &spec.pool, plans, &field)?;
        if !(0.0..=MOST_SPREAD).contains(&kind.spread) {
            return Err(invalid(field("spread"), kind.spread, format!("from 0 to {MOST_SPREAD}")));
        }
        let environment = environment(kind, work.encrypted, &field)?;
        let known = environments.iter().position(|known| *known == environment);
        let number = known.unwrap_or(environments.len());
        environments.extend(known.is_none().then_some(environment));
        let expected = Span::from_seconds(work.duration);
        let job = Job {
            submit: Instant::START.after(time(kind.submit.as_deref(), field("submit"), Seconds::ZERO)?),
            instances: work.instances,
            expected,
            actual: expected,
            priority: kind.priority,
            environment: number as u32,
        };
        queue.jobs.extend((0..kind.count).map(|_| job));
        names.extend((1..=kind.count).map(|number| (kind.name.clone(), number)));
        spreads.extend((0..kind.count).map(|_| kind.spread));
    }
    fits_the_clock(&queue)?;
    for (job, factor) in queue.jobs.iter_mut().zip(duration_factors(spreads, seed)) {
        job.actual = Span::from_seconds(job.expected.seconds() * factor);
    }
    Ok(ValidQueue { queue, names, price })
}

fn invalid(field: impl Into<String>, value: impl std::fmt::Display, allowed: impl Into<String>) -> QueueError {
    QueueError::Invalid { field: field.into(), value: value.to_string(), allowed: allowed.into() }
}

fn conflict(first: impl Into<String>, second: impl Into<String>, rule: &'static str) -> QueueError {
    QueueError::Conflict { first: first.into(), second: second.into(), rule }
}

/// Reads a duration, or returns the default.
fn time(text: Option<&str>, field: impl Into<String>, default: Seconds) -> Result<Seconds, QueueError> {
    let Some(text) = text else { return Ok(default) };
    let most = MOST_WORK;
    match text.parse::<Seconds>() {
        Ok(time) if time <= most => Ok(time),
        Ok(_) => Err(invalid(field, format!("`{text}`"), format!("at most {most}"))),
        Err(error) => Err(invalid(field, format!("`{text}`"), format!("a duration such as 30 min: {error}"))),
    }
}

fn count(jobs: &[QueuedJobSpec]) -> Result<(), QueueError> {
    if jobs.is_empty() {
        let why = "write at least one [[job]] with a name and a plan, or a duration and instances";
        return Err(QueueError::Missing { field: "job".into(), why });
    }
    if let Some(index) = jobs.iter().position(|kind| kind.count == 0) {
        return Err(invalid(format!("job[{index}].count"), 0, "at least 1"));
    }
    let all: u64 = jobs.iter().map(|kind| u64::from(kind.count)).sum();
    if all > MOST_JOBS {
        return Err(invalid("job", format!("{all} jobs with all counts"), format!("at most {MOST_JOBS} jobs")));
    }
    Ok(())
}

fn name(kind: &QueuedJobSpec, before: &[QueuedJobSpec], field: &impl Fn(&str) -> String) -> Result<(), QueueError> {
    if kind.name.trim().is_empty() {
        return Err(invalid(field("name"), "empty", "a name"));
    }
    if before.iter().any(|other| other.name == kind.name) {
        return Err(QueueError::SameName { field: field("name"), name: kind.name.clone() });
    }
    Ok(())
}

/// Returns the instances and time of a kind of jobs: those of its plan, or those that are written.
fn work(
    kind: &QueuedJobSpec,
    pool: &PoolSpec,
    plans: &BTreeMap<String, PlanDocument>,
    field: &impl Fn(&str) -> String,
) -> Result<Work, QueueError> {
    let (instances, duration, encrypted, widest) = match (&kind.plan, &kind.duration) {
        (Some(_), Some(_)) => {
            return Err(conflict(field("plan"), field("duration"), "write one of them"));
        }
        (None, None) => {
            let why = "write plan = \"plan.json\", or duration = \"2 h\" and instances = 1";
            return Err(QueueError::Missing { field: field("plan"), why });
        }
        (Some(path), None) => {
            if kind.instances.is_some() {
                let rule = "a plan is for as many instances as it says";
                return Err(conflict(field("plan"), field("instances"), rule));
            }
            let document = plans.get(path).expect("whoever asks has read the plans that the queue names");
            let cluster = &document.plan.cluster;
            if cluster.instance != pool.instance {
                let (found, pool) = (cluster.instance.clone(), pool.instance.clone());
                return Err(QueueError::OtherType { field: field("plan"), found, pool });
            }
            let prediction = &document.prediction;
            let download = prediction.input.map_or(0.0, |input| input.download_s);
            (cluster.instances, Seconds(download + prediction.time_s), cluster.encrypted, field("plan"))
        }
        (None, Some(text)) => {
            let duration = time(Some(text), field("duration"), Seconds::ZERO)?;
            (kind.instances.unwrap_or(1), duration, false, field("instances"))
        }
    };
    if !(SHORTEST_JOB..=MOST_WORK).contains(&duration) {
        let name = if kind.plan.is_some() { "plan" } else { "duration" };
        let allowed = format!("from {SHORTEST_JOB} to {MOST_WORK}");
        return Err(invalid(field(name), format!("a job of {} s", duration.0), allowed));
    }
    if instances == 0 {
        return Err(invalid(widest, 0, "at least 1"));
    }
    if instances > pool.max_instances {
        return Err(QueueError::TooWide { field: widest, instances, quota: pool.max_instances });
    }
    Ok(Work { instances, duration, encrypted })
}

fn environment<'a>(
    kind: &'a QueuedJobSpec,
    encrypted: bool,
    field: &impl Fn(&str) -> String,
) -> Result<Environment<'a>, QueueError> {
    let volume = kind.volume.as_deref().map(|text| {
        let allowed =
            |why: String| invalid(field("volume"), format!("`{text}`"), format!("a size such as 100 GB: {why}"));
        text.parse::<Bytes>().map(|bytes| bytes.0).map_err(|error| allowed(error.to_string()))
    });
    Ok((kind.role.as_deref(), volume.transpose()?, kind.vpc.as_deref(), kind.encryption.unwrap_or(encrypted)))
}

fn service(pool: &PoolSpec) -> Result<Service, QueueError> {
    let name = pool.service.as_deref().unwrap_or("ec2");
    Service::named(name).ok_or_else(|| invalid("pool.service", format!("`{name}`"), "one of ec2, sagemaker"))
}

/// Returns the price of an instance of the pool; `None` for machines that nobody rents out.
fn price(pool: &PoolSpec, service: Service) -> Result<Option<Price>, QueueError> {
    let instance = catalog().instance(&pool.instance).map_err(QueueError::Instance)?;
    let pricing = pool.pricing.unwrap_or(Pricing::OnDemand);
    let region = pool.region.as_deref().unwrap_or(DEFAULT_REGION);
    let query = PriceQuery { region, service, purchase: purchase(pricing) };
    let price = price_of(instance, query).cloned();
    if price.is_none() && !instance.prices.is_empty() {
        let error = price_not_found(catalog(), &[instance], (service, pricing), region);
        return Err(QueueError::PriceNotFound(error.within("pool")));
    }
    Ok(price)
}

/// Builds the pool and its rules, without jobs.
fn pool(spec: &QueueSpec, service: Service) -> Result<Queue, QueueError> {
    let pool = &spec.pool;
    if !(1..=MAX_INSTANCES).contains(&pool.max_instances) {
        return Err(invalid("pool.max_instances", pool.max_instances, format!("from 1 to {MAX_INSTANCES}")));
    }
    let cold = time(pool.start.cold.as_deref(), "pool.start.cold", cold_start())?;
    let warm = time(pool.start.warm.as_deref(), "pool.start.warm", Seconds(warm_start().0.min(cold.0)))?;
    if warm > cold {
        return Err(invalid("pool.start.warm", warm, format!("at most `pool.start.cold`, {cold}")));
    }
    Ok(Queue {
        quota: pool.max_instances,
        cold_start: Span::from_seconds(cold),
        warm_start: Span::from_seconds(warm),
        warm_pools: warm_pools(pool, service)?,
        order: spec.policy.order,
        backfill: spec.policy.backfill,
        jobs: Vec::new(),
    })
}

/// Reads the settings of SageMaker's warm pools.
fn warm_pools(pool: &PoolSpec, service: Service) -> Result<Option<WarmPools>, QueueError> {
    if !pool.warm_pool {
        let rule = "without warm pools no instance is kept; write warm_pool = true";
        let unused = [
            ("pool.keep_alive", pool.keep_alive.is_some()),
            ("pool.max_warm_instances", pool.max_warm_instances.is_some()),
            ("pool.start.warm", pool.start.warm.is_some()),
        ];
        return match unused.into_iter().find(|(_, written)| *written) {
            Some((field, _)) => Err(conflict(field, "pool.warm_pool = false", rule)),
            None => Ok(None),
        };
    }
    match no_warm_pool(service, pool.pricing.unwrap_or(Pricing::OnDemand)) {
        Some(NoWarmPool::Service) => {
            let allowed = "sagemaker where `pool.warm_pool` is true: EC2 has no warm pools of jobs";
            return Err(invalid("pool.service", service.name(), allowed));
        }
        Some(NoWarmPool::Spot) => {
            let rule = "SageMaker keeps no spot instances; write pricing = \"on-demand\" or warm_pool = false";
            return Err(conflict("pool.warm_pool", "pool.pricing = \"spot\"", rule));
        }
        None => {}
    }
    let keep_alive = time(pool.keep_alive.as_deref(), "pool.keep_alive", KEEP_ALIVE)?;
    if !(Seconds(1.0)..=KEEP_ALIVE_MOST).contains(&keep_alive) {
        return Err(invalid(
            "pool.keep_alive",
            keep_alive,
            format!("from 1 s to {KEEP_ALIVE_MOST}, as SageMaker allows"),
        ));
    }
    let quota = pool.max_warm_instances.unwrap_or(pool.max_instances);
    if quota > pool.max_instances {
        let allowed = format!("at most `pool.max_instances`, {}", pool.max_instances);
        return Err(invalid("pool.max_warm_instances", quota, allowed));
    }
    Ok(Some(WarmPools {
        keep_alive: Span::from_seconds(keep_alive),
        lifetime: Span::from_seconds(WARM_POOL_LIFETIME),
        quota,
    }))
}

/// Checks that all jobs end within the simulation's clock, even one after another and each as long as it may be drawn.
fn fits_the_clock(queue: &Queue) -> Result<(), QueueError> {
    let work: Seconds = queue.jobs.iter().map(|job| (queue.cold_start + job.expected).seconds()).sum();
    let last = queue.jobs.iter().map(|job| job.submit.seconds()).fold(Seconds::ZERO, Seconds::max);
    if work + last <= MOST_WORK {
        return Ok(());
    }
    Err(QueueError::TooLong {
        value: format!("jobs that would end {} after the start if they ran one after another", work + last),
    })
}
