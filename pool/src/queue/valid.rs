//! A queue as written becomes one that can be simulated.

use super::owned::described;
use super::{PoolSpec, QueueFiles, QueueSpec, QueuedJobSpec};
use crate::queue::simulation::{Job, Queue, WarmPools, duration_factors};
use trainyard_hardware_profiles::{Instance, Price, PriceQuery, Service, catalog};
use trainyard_plan::Pricing;
use trainyard_plan::document::{PlanDocument, PriceUsed};
use trainyard_planner::{
    DEFAULT_REGION, MAX_INSTANCES, NoWarmPool, no_warm_pool, price_not_found, price_of, price_used, purchase,
};
use trainyard_units::{Bytes, Instant, Invalid, Seconds, Span, UsdPerHour};

/// The time for which idle instances are kept: a stated default.
const KEEP_ALIVE: Seconds = Seconds(1800.0);
/// The longest that SageMaker keeps instances after a job (Amazon SageMaker Developer Guide, "Managed Warm Pools").
const KEEP_ALIVE_MOST: Seconds = Seconds(3600.0);
/// The time for which SageMaker reuses instances from job to job (the same, "Maximum warm pool duration").
const WARM_POOL_LIFETIME: Seconds = Seconds(28.0 * 86_400.0);
/// The most jobs: backfilling looks at every waiting job whenever one ends.
const MOST_JOBS: u64 = 10_000;

/// The most characters of a job's name, which tables show.
const LONGEST_NAME: usize = 100;
/// The shortest job: shorter ones are not billed to their length.
pub(crate) const SHORTEST_JOB: Seconds = Seconds(1.0);
/// The longest work of all jobs in sequence that fits the simulation's clock, even if every draw is as long as it may
/// be.
pub(crate) const MOST_WORK: Seconds = Seconds(50.0 * 365.0 * 86_400.0);
/// The widest spread: a log-normal of a standard deviation above its mean is no longer a duration that anybody expects.
const MOST_SPREAD: f64 = 1.0;

/// Advice for the name of a type that the catalog does not have.
const RENTED_OUT: &str = "a pool is of a type that is rented out, as in instance = \"p5.48xlarge\"; `trainyard show instances` \
     lists them. For machines of your own write file = \"cluster.toml\" beside it, the cluster file that describes them";

/// A queue whose parts fit together, and the names that its jobs have in the file.
#[derive(Clone, Debug)]
pub(crate) struct ValidQueue {
    pub(crate) queue: Queue,
    /// The name of each job, and its number among those with that name, from 1.
    pub(crate) names: Vec<(String, u32)>,
    /// The price of one instance; `None` for machines that have none.
    pub(crate) price: Option<PriceOfOne>,
}

/// The price of one instance, for sums and for documents.
#[derive(Clone, Debug)]
pub(crate) struct PriceOfOne {
    pub(crate) hourly: UsdPerHour,
    pub(crate) used: PriceUsed,
}

/// Returns the default time from new instances to the first step.
pub(super) fn cold_start() -> Seconds {
    catalog().operations().cold.total()
}

/// Returns the default time from instances of the warm pool to the first step.
pub(super) fn warm_start() -> Seconds {
    catalog().operations().warm_pool.total()
}

/// Returns the default time from taking instances of a pool that is not warm to the first step: machines of one's own are
/// there.
fn start(pool: &PoolSpec) -> Seconds {
    if pool.is_owned() { warm_start() } else { cold_start() }
}

/// Returns the part of a cold start until the instances are there, which is not paid for: of one that a pool states, the
/// share that it has of the default.
fn unpaid(cold: Seconds) -> Seconds {
    cold * (catalog().operations().cold.machines.value.0 / cold_start().0)
}

/// The instances and duration of a kind of jobs.
struct Work {
    instances: u32,
    duration: Seconds,
    encrypted: bool,
}

/// The settings, besides type and number, that must match for instances to be reused.
type Environment<'a> = (Option<&'a str>, Option<u64>, Option<&'a str>, bool);

/// Checks a queue, whose pool says how many machines there are, and draws its durations.
pub(crate) fn valid(spec: &QueueSpec, files: &QueueFiles, seed: u64) -> Result<ValidQueue, Invalid> {
    let terms = Terms::of(&spec.pool)?;
    let mut queue = pool(spec, &terms)?;
    let price = price(&spec.pool, &terms, files)?;
    let mut names: Vec<(String, u32)> = Vec::new();
    let mut spreads = Vec::new();
    let mut environments = Vec::new();
    count(&spec.jobs)?;
    for (index, kind) in spec.jobs.iter().enumerate() {
        let placed = |invalid: Invalid| invalid.within(&format!("job[{index}]"));
        name(kind, &spec.jobs[..index]).map_err(placed)?;
        let work = work(kind, &spec.pool, files).map_err(placed)?;
        if !(0.0..=MOST_SPREAD).contains(&kind.spread) {
            return Err(placed(Invalid::range("spread", kind.spread, 0.0..=MOST_SPREAD)));
        }
        let environment = environment(kind, work.encrypted).map_err(placed)?;
        let known = environments.iter().position(|known| *known == environment);
        let number = known.unwrap_or(environments.len());
        environments.extend(known.is_none().then_some(environment));
        let expected = Span::from_seconds(work.duration);
        let job = Job {
            submit: Instant::START.after(time(kind.submit.as_deref(), "submit", Seconds::ZERO).map_err(placed)?),
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

/// Reads a duration, or returns the default.
fn time(text: Option<&str>, field: &str, default: Seconds) -> Result<Seconds, Invalid> {
    let Some(text) = text else { return Ok(default) };
    let wrong = |allowed: String| Invalid::value(field, format!("`{text}`"), allowed);
    match text.parse::<Seconds>() {
        Ok(time) if time <= MOST_WORK => Ok(time),
        Ok(_) => Err(wrong(format!("at most {MOST_WORK}"))),
        Err(error) => Err(wrong("a duration such as 30 min".into()).because(error)),
    }
}

fn count(jobs: &[QueuedJobSpec]) -> Result<(), Invalid> {
    if jobs.is_empty() {
        let why = "write at least one [[job]] with a name and a plan, or a duration and instances";
        return Err(Invalid::missing("job", why));
    }
    let most = MOST_JOBS as u32;
    if let Some((index, kind)) = jobs.iter().enumerate().find(|(_, kind)| !(1..=most).contains(&kind.count)) {
        return Err(Invalid::range(format!("job[{index}].count"), kind.count, 1..=most));
    }
    let all: u64 = jobs.iter().map(|kind| u64::from(kind.count)).sum();
    if all > MOST_JOBS {
        return Err(Invalid::value("job", format!("{all} jobs with all counts"), format!("at most {MOST_JOBS} jobs"))
            .with_hint("lower `count` of some, or simulate them in parts"));
    }
    Ok(())
}

fn name(kind: &QueuedJobSpec, before: &[QueuedJobSpec]) -> Result<(), Invalid> {
    if kind.name.trim().is_empty() {
        return Err(Invalid::value("name", "empty", "a name"));
    }
    let length = kind.name.chars().count();
    if length > LONGEST_NAME {
        return Err(Invalid::value("name", format!("{length} characters"), format!("at most {LONGEST_NAME}")));
    }
    if before.iter().any(|other| other.name == kind.name) {
        let hint = "write count = N for several jobs of a kind, or call them differently";
        return Err(
            Invalid::breaks("name", format!("`{}`", kind.name), "another job is called so already").with_hint(hint)
        );
    }
    Ok(())
}

/// Returns the instances and time of a kind of jobs: those of its plan, or those that are written.
fn work(kind: &QueuedJobSpec, pool: &PoolSpec, files: &QueueFiles) -> Result<Work, Invalid> {
    let (instances, duration, encrypted, widest) = match (&kind.plan, &kind.duration) {
        (Some(_), Some(_)) => return Err(Invalid::conflict("plan", "duration", "write one of them")),
        (None, None) => {
            let why = "write plan = \"plan.json\", or duration = \"2 h\" and instances = 1";
            return Err(Invalid::missing("plan", why));
        }
        (Some(path), None) => {
            if kind.instances.is_some() {
                return Err(Invalid::conflict("plan", "instances", "a plan is for as many instances as it says"));
            }
            let document = files.plans.get(path).expect("whoever asks has read the plans that the queue names");
            let cluster = &document.plan.cluster;
            if cluster.instance != pool.instance || cluster.file.is_some() != pool.is_owned() {
                return Err(for_other_machines(document, pool, files));
            }
            // Reclaims are left out, as they are of all queues.
            let duration = Seconds(document.prediction.training_s());
            (cluster.instances, duration, cluster.encrypted, "plan")
        }
        (None, Some(text)) => {
            (kind.instances.unwrap_or(1), time(Some(text), "duration", Seconds::ZERO)?, false, "instances")
        }
    };
    if !(SHORTEST_JOB..=MOST_WORK).contains(&duration) {
        let (name, value) = match &kind.duration {
            Some(text) => ("duration", format!("`{text}`")),
            None => ("plan", format!("a job of {duration}")),
        };
        return Err(Invalid::range(name, value, SHORTEST_JOB..=MOST_WORK));
    }
    if instances == 0 {
        return Err(Invalid::value(widest, 0, "at least 1"));
    }
    if instances > pool.quota() {
        return Err(too_wide(widest, instances, pool));
    }
    Ok(Work { instances, duration, encrypted })
}

/// Returns the error of a plan for other machines than those of the pool.
fn for_other_machines(document: &PlanDocument, pool: &PoolSpec, files: &QueueFiles) -> Invalid {
    let (cluster, wanted) = (&document.plan.cluster, &pool.instance);
    let found = &cluster.instance;
    let whose = cluster.file.as_ref().map_or_else(String::new, |file| format!(" of {file}"));
    let again = match &pool.file {
        Some(file) => format!("plan the job again with cluster.file = \"{file}\" and --fix instance={wanted}"),
        None => format!("plan the job again with --instances {wanted}"),
    };
    let there_too = files.machines.as_ref().is_some_and(|machines| machines.kind(found).is_some());
    let hint = match &cluster.file {
        Some(_) if there_too => format!("a queue is for one kind of machines: write another for {found}, or {again}"),
        Some(file) if !pool.is_owned() => {
            format!("a queue with file = \"{file}\" and instance = \"{found}\" in [pool] takes it; or {again}")
        }
        None if catalog().instance(found).is_ok() && !pool.is_owned() => {
            format!("a pool has one type of instances: write a queue for {found}, or {again}")
        }
        _ => {
            let took = document.prediction.time_s.ceil().max(1.0);
            let instances = cluster.instances;
            format!("write duration = \"{took} s\" and instances = {instances} instead of `plan`, or {again}")
        }
    };
    let rule = match &pool.file {
        Some(file) => format!("the pool is of {wanted} of {file}"),
        None => format!("`pool.instance` is {wanted}"),
    };
    Invalid::breaks("plan", format!("a plan for {found}{whose}"), rule).with_hint(hint)
}

/// Returns the error of a job that never fits into the pool.
pub(crate) fn too_wide(field: &str, instances: u32, pool: &PoolSpec) -> Invalid {
    let (nouns, quota) = (format!("{instances} {}s", pool.noun()), pool.quota());
    let (rule, hint) = match &pool.file {
        Some(file) => (format!("the pool has {quota} of {} ({file})", pool.instance), "give the job fewer machines"),
        None => (format!("`pool.max_instances` is {quota}"), "raise the quota, or give the job fewer instances"),
    };
    Invalid::breaks(field, nouns, format!("{rule}: the job could never start")).with_hint(hint)
}

fn environment(kind: &QueuedJobSpec, encrypted: bool) -> Result<Environment<'_>, Invalid> {
    let volume = kind.volume.as_deref().map(|text| {
        let size = text.parse::<Bytes>().map(|bytes| bytes.0);
        size.map_err(|why| Invalid::value("volume", format!("`{text}`"), "a size such as 100 GB").because(why))
    });
    Ok((kind.role.as_deref(), volume.transpose()?, kind.vpc.as_deref(), kind.encryption.unwrap_or(encrypted)))
}

/// The terms on which the instances of a pool are rented.
pub(crate) struct Terms<'a> {
    pub(crate) region: &'a str,
    pub(crate) service: Service,
    pub(crate) pricing: Pricing,
}

impl<'a> Terms<'a> {
    pub(crate) fn of(pool: &'a PoolSpec) -> Result<Self, Invalid> {
        let name = pool.service.as_deref().unwrap_or("ec2");
        let service = Service::exactly(name).map_err(|unknown| unknown.in_field("pool.service"))?;
        if pool.pricing == Some(Pricing::CapacityBlock) {
            let allowed = "on-demand, spot, reserved or reserved-3y";
            let hint =
                "a block is booked for one training: `trainyard plan --pricing capacity-block` plans each by itself";
            return Err(Invalid::value("pool.pricing", "capacity-block", allowed).with_hint(hint));
        }
        let region = pool.region.as_deref().unwrap_or(DEFAULT_REGION);
        Ok(Self { region, service, pricing: pool.pricing.unwrap_or(Pricing::OnDemand) })
    }

    pub(crate) fn price<'i>(&self, instance: &'i Instance) -> Option<&'i Price> {
        let Self { region, service, pricing } = *self;
        price_of(instance, PriceQuery { region, service, purchase: purchase(pricing) })
    }

    /// Returns the error of instances of which none has a price on these terms.
    pub(crate) fn without_price(&self, instances: &[&Instance]) -> Invalid {
        price_not_found(catalog(), instances, (self.service, self.pricing), self.region).within("pool")
    }
}

/// Returns the price of an instance of the pool; `None` for machines that nobody rents out, and for those of one's own
/// whose file says none.
pub(crate) fn price(pool: &PoolSpec, terms: &Terms<'_>, files: &QueueFiles) -> Result<Option<PriceOfOne>, Invalid> {
    if let Some(file) = &pool.file {
        let machines = described(files.machines.as_ref())?;
        let kind =
            machines.kind(&pool.instance).ok_or_else(|| machines.no_kind("pool.instance", &pool.instance, file))?;
        return Ok(kind.price(file).map(|(hourly, used)| PriceOfOne { hourly, used }));
    }
    if pool.instance.is_empty() {
        let why = "write instance = \"p5.48xlarge\", or file = \"cluster.toml\" for machines of one's own";
        return Err(Invalid::missing("pool.instance", why));
    }
    let instance = catalog().instance(&pool.instance).map_err(|error| {
        let error = error.with_advice(RENTED_OUT);
        Invalid::inside("pool.instance", &error).with_hint(error.hint())
    })?;
    let price = terms.price(instance).map(|price| PriceOfOne { hourly: price.hourly(), used: price_used(price) });
    if price.is_none() && !instance.prices.is_empty() {
        return Err(terms.without_price(&[instance]));
    }
    Ok(price)
}

/// Builds the pool and its rules, without jobs.
pub(crate) fn pool(spec: &QueueSpec, terms: &Terms<'_>) -> Result<Queue, Invalid> {
    let pool = &spec.pool;
    let Some(quota) = pool.max_instances else {
        let why = "write how many instances there may be at once, as in max_instances = 8";
        return Err(Invalid::missing("pool.max_instances", why));
    };
    if !(1..=MAX_INSTANCES).contains(&quota) {
        return Err(Invalid::range("pool.max_instances", quota, 1..=MAX_INSTANCES));
    }
    let cold = time(pool.start.cold.as_deref(), "pool.start.cold", start(pool))?;
    let warm = time(pool.start.warm.as_deref(), "pool.start.warm", Seconds(warm_start().0.min(cold.0)))?;
    if warm > cold {
        return Err(Invalid::value("pool.start.warm", warm, format!("at most `pool.start.cold`, {cold}")));
    }
    Ok(Queue {
        quota,
        cold_start: Span::from_seconds(cold),
        unpaid_start: Span::from_seconds(if pool.is_owned() { Seconds::ZERO } else { unpaid(cold) }),
        warm_start: Span::from_seconds(warm),
        warm_pools: warm_pools(pool, terms)?,
        order: spec.policy.order,
        backfill: spec.policy.backfill,
        jobs: Vec::new(),
    })
}

/// Reads the settings of SageMaker's warm pools.
fn warm_pools(pool: &PoolSpec, terms: &Terms<'_>) -> Result<Option<WarmPools>, Invalid> {
    if !pool.warm_pool {
        let rule = "without warm pools no instance is kept; write warm_pool = true";
        let unused = [
            ("pool.keep_alive", pool.keep_alive.is_some()),
            ("pool.max_warm_instances", pool.max_warm_instances.is_some()),
            ("pool.start.warm", pool.start.warm.is_some()),
        ];
        return match unused.into_iter().find(|(_, written)| *written) {
            Some((field, _)) => Err(Invalid::conflict(field, "pool.warm_pool = false", rule)),
            None => Ok(None),
        };
    }
    match no_warm_pool(terms.service, terms.pricing) {
        Some(NoWarmPool::Service) => {
            let allowed = "sagemaker where `pool.warm_pool` is true: EC2 has no warm pools of jobs";
            return Err(Invalid::value("pool.service", terms.service.name(), allowed));
        }
        Some(NoWarmPool::Spot) => {
            let rule = "SageMaker keeps no spot instances; write pricing = \"on-demand\" or warm_pool = false";
            return Err(Invalid::conflict("pool.warm_pool", "pool.pricing = \"spot\"", rule));
        }
        None => {}
    }
    let keep_alive = time(pool.keep_alive.as_deref(), "pool.keep_alive", KEEP_ALIVE)?;
    if !(Seconds(1.0)..=KEEP_ALIVE_MOST).contains(&keep_alive) {
        let allowed = format!("from 1 s to {KEEP_ALIVE_MOST}, as SageMaker allows");
        return Err(Invalid::value("pool.keep_alive", keep_alive, allowed));
    }
    let quota = pool.max_warm_instances.unwrap_or(pool.quota());
    if quota > pool.quota() {
        let allowed = format!("at most `pool.max_instances`, {}", pool.quota());
        return Err(Invalid::value("pool.max_warm_instances", quota, allowed));
    }
    Ok(Some(WarmPools {
        keep_alive: Span::from_seconds(keep_alive),
        lifetime: Span::from_seconds(WARM_POOL_LIFETIME),
        quota,
    }))
}

/// Checks that all jobs end within the simulation's clock, even one after another and each as long as it may be drawn.
fn fits_the_clock(queue: &Queue) -> Result<(), Invalid> {
    let work: Seconds = queue.jobs.iter().map(|job| (queue.cold_start + job.expected).seconds()).sum();
    let last = queue.jobs.iter().map(|job| job.submit.seconds()).fold(Seconds::ZERO, Seconds::max);
    if work + last <= MOST_WORK {
        return Ok(());
    }
    Err(too_long(format!("jobs that would end {} after the start if they ran one after another", work + last)))
}

/// Returns the error of jobs, in words, that would outlast the simulation's clock.
pub(crate) fn too_long(jobs: impl std::fmt::Display) -> Invalid {
    Invalid::breaks("job", jobs, format!("at most {MOST_WORK} can be simulated"))
        .with_hint("lower the number of jobs, or what each of them is trained on")
}
