//! A fleet as written becomes a pool and questions that can be solved.

use super::{FleetError, FleetJob, FleetJobSpec, FleetPoolSpec, FleetSpec};
use crate::queue::valid::{self, Terms};
use crate::queue::{PoolSpec, QueueSpec, QueuedJobSpec};
use std::collections::BTreeMap;
use trainyard_hardware_profiles::{Instance, catalog};
use trainyard_plan::{ClusterChoice, GoalSpec, JobSpec, Objective, Pricing};
use trainyard_planner::{Problem, deadline_and_budget, problem};
use trainyard_units::{Instant, Invalid, Seconds};

/// The most kinds of jobs: each is a search of its own.
const MOST_KINDS: usize = 100;

/// The goal of all jobs together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Goal {
    pub(super) objective: Objective,
    /// The longest makespan.
    pub(super) deadline: Option<Seconds>,
    /// The most money, in USD.
    pub(super) budget: Option<f64>,
}

impl Goal {
    /// Returns `true` if it has a deadline or a budget.
    pub(super) fn is_limited(&self) -> bool {
        self.deadline.is_some() || self.budget.is_some()
    }
}

/// A kind of jobs that is known to fit into its fleet.
#[derive(Clone, Debug)]
pub(super) struct ValidKind {
    pub(super) name: String,
    pub(super) count: u32,
    pub(super) submit: Seconds,
    pub(super) priority: i32,
    /// The longest time from the submission of a job to its end.
    pub(super) deadline: Option<Seconds>,
    /// The most money for each job, in USD.
    pub(super) budget: Option<f64>,
    /// The job, with the machines of the pool.
    pub(super) job: JobSpec,
    /// The problem of the job, without deadline and budget, which depend on the schedule.
    pub(super) problem: Problem,
}

/// A fleet whose parts fit together.
#[derive(Clone, Debug)]
pub(super) struct ValidFleet {
    pub(super) goal: Goal,
    pub(super) kinds: Vec<ValidKind>,
    /// Settings that are written but change nothing.
    pub(super) idle: Vec<String>,
}

/// Checks a fleet. `jobs` are the jobs of its entries, in their order.
pub(super) fn valid_fleet(spec: &FleetSpec, jobs: Vec<FleetJob>) -> Result<ValidFleet, FleetError> {
    if spec.pool.instances.is_empty() {
        return Err(Invalid::value("pool.instances", "[]", "a list with at least one instance type").into());
    }
    let matching = matching(&spec.pool.instances, "pool.instances")?;
    let pool = spec.pool.of_type(&matching[0].name);
    let terms = Terms::of(&pool)?;
    let goal = goal(&spec.goal)?;
    // That terms contradict each other is told before that nobody offers them.
    valid::pool(&queue_of(pool.clone(), spec), &terms)?;
    let types = types(&terms, &matching)?;
    let mut idle: Vec<String> = without_price(&terms, &matching).into_iter().collect();
    let submits = entries(spec, &types[0])?;
    let mut kinds = Vec::new();
    for (index, ((entry, job), submit)) in spec.jobs.iter().zip(jobs).zip(submits).enumerate() {
        let field = |name: &str| format!("job[{index}].{name}");
        let own = self::goal(&job.spec.goal).map_err(|invalid| invalid.within(&format!("job[{index}]")))?;
        if job.spec.goal.objective.is_some_and(|objective| objective != goal.objective) {
            idle.push(format!("`{}` changes nothing: that of the fleet decides", field("goal.objective")));
        }
        if job.spec.campaign.as_ref().is_some_and(|own| own.start.is_some()) {
            idle.push(format!("`{}` changes nothing: the pool decides who starts cold", field("campaign.start")));
        }
        let within = JobSpec { cluster: cluster(&spec.pool, &terms, &types, &job.spec.cluster, index)?, ..job.spec };
        let mut problem =
            problem(&within, job.resources).map_err(|error| FleetError::Job { index, error: error.into() })?;
        (problem.deadline, problem.budget, problem.objective) = (None, None, goal.objective);
        kinds.push(ValidKind {
            name: entry.called(index + 1),
            count: entry.count,
            submit,
            priority: entry.priority,
            deadline: own.deadline,
            budget: own.budget,
            job: within,
            problem,
        });
    }
    Ok(ValidFleet { goal, kinds, idle })
}

/// Returns the instances that a field names, at least one.
fn matching(patterns: &[String], field: &str) -> Result<Vec<&'static Instance>, Invalid> {
    catalog().matching(patterns).map_err(|error| Invalid::inside(field, &error).with_hint(error.hint()))
}

/// Returns the types of the pool that have a price on its terms, at least one.
fn types(terms: &Terms<'_>, matching: &[&Instance]) -> Result<Vec<String>, Invalid> {
    let priced = matching.iter().filter(|instance| terms.price(instance).is_some());
    let types: Vec<String> = priced.map(|instance| instance.name.clone()).collect();
    if types.is_empty() { Err(terms.without_price(matching)) } else { Ok(types) }
}

/// Tells which types of the pool are left out because they have no price on its terms, if any are.
fn without_price(terms: &Terms<'_>, matching: &[&Instance]) -> Option<String> {
    let unpriced = matching.iter().filter(|instance| terms.price(instance).is_none());
    let names: Vec<&str> = unpriced.map(|instance| instance.name.as_str()).collect();
    let Terms { region, service, pricing } = terms;
    (!names.is_empty()).then(|| {
        format!("without a price, and so left out: {} ({} {pricing} in {region})", names.join(", "), service.name())
    })
}

/// Returns a fleet's entries as jobs of a queue, as far as they are known before they are planned.
fn queue_of(pool: PoolSpec, spec: &FleetSpec) -> QueueSpec {
    let entry = |(index, entry): (usize, &FleetJobSpec)| QueuedJobSpec {
        name: entry.called(index + 1),
        duration: Some("1 s".into()),
        count: entry.count,
        submit: entry.submit.clone(),
        ..QueuedJobSpec::default()
    };
    let jobs = spec.jobs.iter().enumerate().map(entry).collect();
    QueueSpec { pool, policy: spec.policy.unwrap_or_default(), jobs }
}

/// Checks what fleets share with queues, by their rules: the pool, and names, counts and submissions of the entries.
/// Returns the submissions.
fn entries(spec: &FleetSpec, instance: &str) -> Result<Vec<Seconds>, Invalid> {
    if spec.jobs.is_empty() {
        let why = "write at least one [[job]] with a file, or with a model, data and training";
        return Err(Invalid::missing("job", why));
    }
    if spec.jobs.len() > MOST_KINDS {
        let value = format!("{} kinds of jobs", spec.jobs.len());
        return Err(Invalid::value("job", value, format!("at most {MOST_KINDS} of them; `count` repeats a job")));
    }
    for (index, entry) in spec.jobs.iter().enumerate() {
        if let (Some(_), Some(field)) = (&entry.file, entry.first_in_place()) {
            let rule = "a job is in a file of its own or in place";
            return Err(Invalid::conflict("file", field, rule).within(&format!("job[{index}]")));
        }
    }
    let checked = valid::valid(&queue_of(spec.pool.of_type(instance), spec), &BTreeMap::new(), 0)?;
    // The jobs of a kind stand together and come together.
    let mut first = 0;
    let submits = spec.jobs.iter().map(|entry| {
        let submit: Instant = checked.queue.jobs[first].submit;
        first += entry.count as usize;
        submit.seconds()
    });
    Ok(submits.collect())
}

/// Reads deadline, budget and objective.
fn goal(spec: &GoalSpec) -> Result<Goal, Invalid> {
    let (deadline, budget) = deadline_and_budget(spec)?;
    Ok(Goal { objective: spec.objective.unwrap_or_default(), deadline, budget })
}

/// Returns the machines of a job: those of the pool that it allows.
fn cluster(
    pool: &FleetPoolSpec,
    terms: &Terms<'_>,
    types: &[String],
    own: &ClusterChoice,
    index: usize,
) -> Result<ClusterChoice, Invalid> {
    let field = |name: &str| format!("job[{index}].cluster.{name}");
    let rented = "a pool is made of instances to be rented";
    let limited = "a pool is rented at the prices of the catalog, and its instances are its quota";
    for (name, written, other, rule) in [
        ("profile", own.profile.is_some(), "pool.instances", rented),
        ("file", own.file.is_some(), "pool.instances", rented),
        ("prices", own.prices.is_some(), "pool.max_instances", limited),
        ("quotas", own.quotas.is_some(), "pool.max_instances", limited),
    ] {
        if written {
            return Err(Invalid::conflict(field(name), other, rule));
        }
    }
    let elsewhere = |name: &str, value: &str, of_pool: &str| {
        let rule = format!("`pool.{name}` is {of_pool}: jobs of a fleet run in its pool");
        let hint = format!("leave `{}` out, or plan the job by itself", field(name));
        Err(Invalid::breaks(field(name), value, rule).with_hint(hint))
    };
    for (name, value, of_pool) in [
        ("region", own.region.as_deref(), terms.region),
        ("pricing", own.pricing.map(Pricing::name), terms.pricing.name()),
        ("service", own.service.as_deref(), terms.service.name()),
    ] {
        if let Some(value) = value.filter(|value| *value != of_pool) {
            return elsewhere(name, value, of_pool);
        }
    }
    let instances = match &own.instances {
        None => types.to_vec(),
        Some(patterns) => {
            let matching = matching(patterns, &field("instances"))?;
            types.iter().filter(|name| matching.iter().any(|own| own.name == **name)).cloned().collect()
        }
    };
    if instances.is_empty() {
        let wanted = own.instances.iter().flatten().cloned().collect::<Vec<_>>().join(", ");
        return elsewhere("instances", &wanted, &pool.instances.join(", "));
    }
    // None at all is an error that the job tells.
    let most = own.max_instances.map_or(pool.max_instances, |own| own.min(pool.max_instances));
    Ok(ClusterChoice {
        instances: Some(instances),
        max_instances: Some(most),
        region: pool.region.clone(),
        pricing: pool.pricing,
        service: pool.service.clone(),
        ..own.clone()
    })
}
