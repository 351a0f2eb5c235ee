//! A fleet as written becomes a pool and questions that can be solved.

use super::{FleetError, FleetJob};
use crate::problem::{DEFAULT_REGION, inside, price_not_found, problem};
use crate::problem::{Problem, price_of, purchase};
use crate::queue::QueueError;
use crate::queue::valid;
use std::collections::BTreeMap;
use trainyard_hardware_profiles::{Instance, PriceQuery, Service, catalog};
use trainyard_plan::fleet::{FleetJobSpec, FleetPoolSpec, FleetSpec};
use trainyard_plan::queue::{QueueSpec, QueuedJobSpec};
use trainyard_plan::{ClusterChoice, GoalSpec, JobSpec, Objective, Pricing};
use trainyard_units::{Instant, Seconds};

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
    let matching = matching(&spec.pool)?;
    let types = types(&spec.pool, &matching);
    let goal = goal(&spec.goal, "goal")?;
    // That terms contradict each other is told before that nobody offers them.
    let any = types.as_ref().map_or(&matching[0].name, |types| &types[0]);
    let submits = match (entries(spec, any), &types) {
        (Err(FleetError::Field(QueueError::PriceNotFound(_))), Err(unpriced)) => return Err(unpriced.clone()),
        (submits, _) => submits?,
    };
    let types = types?;
    let mut kinds = Vec::new();
    let mut idle = Vec::new();
    for (index, ((entry, job), submit)) in spec.jobs.iter().zip(jobs).zip(submits).enumerate() {
        let field = |name: &str| format!("job[{index}].{name}");
        let own = self::goal(&job.spec.goal, &field("goal"))?;
        if job.spec.goal.objective.is_some_and(|objective| objective != goal.objective) {
            idle.push(format!("`{}` changes nothing: that of the fleet decides", field("goal.objective")));
        }
        let within = JobSpec { cluster: cluster(&spec.pool, &types, &job.spec.cluster, index)?, ..job.spec };
        let asked = problem(&within, job.resources).map_err(|error| FleetError::Job { index, error: error.into() })?;
        kinds.push(ValidKind {
            name: entry.called(index + 1),
            count: entry.count,
            submit,
            priority: entry.priority,
            deadline: own.deadline,
            budget: own.budget,
            job: within,
            problem: Problem { deadline: None, budget: None, objective: goal.objective, ..asked },
        });
    }
    Ok(ValidFleet { goal, kinds, idle })
}

fn invalid(field: impl Into<String>, value: impl std::fmt::Display, allowed: impl Into<String>) -> FleetError {
    FleetError::Field(QueueError::Invalid { field: field.into(), value: value.to_string(), allowed: allowed.into() })
}

fn region(pool: &FleetPoolSpec) -> &str {
    pool.region.as_deref().unwrap_or(DEFAULT_REGION)
}

fn service(pool: &FleetPoolSpec) -> &str {
    pool.service.as_deref().unwrap_or("ec2")
}

/// Returns the instances that the pool names, at least one.
fn matching(pool: &FleetPoolSpec) -> Result<Vec<&'static Instance>, FleetError> {
    if pool.instances.is_empty() {
        return Err(invalid("pool.instances", "[]", "a list with at least one instance type"));
    }
    catalog().matching(&pool.instances).map_err(FleetError::Instances)
}

/// Returns the types of the pool that have a price on its terms, at least one.
fn types(pool: &FleetPoolSpec, matching: &[&Instance]) -> Result<Vec<String>, FleetError> {
    let service = service(pool);
    let rents = Service::named(service)
        .ok_or_else(|| invalid("pool.service", format!("`{service}`"), "one of ec2, sagemaker"))?;
    let pricing = pool.pricing.unwrap_or(Pricing::OnDemand);
    let query = PriceQuery { region: region(pool), service: rents, purchase: purchase(pricing) };
    let priced = matching.iter().filter(|instance| price_of(instance, query).is_some());
    let types: Vec<String> = priced.map(|instance| instance.name.clone()).collect();
    if types.is_empty() {
        let error = price_not_found(catalog(), matching, (rents, pricing), region(pool));
        return Err(FleetError::PriceNotFound(error.within("pool")));
    }
    Ok(types)
}

/// Checks what fleets share with queues, by their rules: the pool, and names, counts and submissions of the entries.
/// Returns the submissions.
fn entries(spec: &FleetSpec, instance: &str) -> Result<Vec<Seconds>, FleetError> {
    if spec.jobs.is_empty() {
        let why = "write at least one [[job]] with a file, or with a model, data and training";
        return Err(FleetError::Field(QueueError::Missing { field: "job".into(), why }));
    }
    if spec.jobs.len() > MOST_KINDS {
        let value = format!("{} kinds of jobs", spec.jobs.len());
        return Err(invalid("job", value, format!("at most {MOST_KINDS} of them; `count` repeats a job")));
    }
    for (index, entry) in spec.jobs.iter().enumerate() {
        if let (Some(_), Some(field)) = (&entry.file, entry.first_in_place()) {
            let (first, second) = (format!("job[{index}].file"), format!("job[{index}].{field}"));
            let rule = "a job is in a file of its own or in place";
            return Err(FleetError::Field(QueueError::Conflict { first, second, rule }));
        }
    }
    let entry = |(index, entry): (usize, &FleetJobSpec)| QueuedJobSpec {
        name: entry.called(index + 1),
        duration: Some("1 s".into()),
        count: entry.count,
        submit: entry.submit.clone(),
        ..QueuedJobSpec::default()
    };
    let queue = QueueSpec {
        pool: spec.pool.of_type(instance),
        policy: spec.policy.unwrap_or_default(),
        jobs: spec.jobs.iter().enumerate().map(entry).collect(),
    };
    let checked = valid::valid(&queue, &BTreeMap::new(), 0)?;
    // The jobs of a kind stand together and come together.
    let mut first = 0;
    let submits = spec.jobs.iter().map(|entry| {
        let submit: Instant = checked.queue.jobs[first].submit;
        first += entry.count as usize;
        submit.seconds()
    });
    Ok(submits.collect())
}

/// Reads the deadline, budget and objective under `table`.
fn goal(spec: &GoalSpec, table: &str) -> Result<Goal, FleetError> {
    let deadline = match &spec.deadline {
        None => None,
        Some(text) => {
            let refused = |why: String| {
                invalid(format!("{table}.deadline"), format!("`{text}`"), format!("a duration such as 3d: {why}"))
            };
            let time = text.parse::<Seconds>().map_err(|error| refused(error.to_string()))?;
            if time.0 <= 0.0 {
                return Err(refused("it is zero".into()));
            }
            Some(time)
        }
    };
    if let Some(budget) = spec.budget.filter(|budget| !(*budget > 0.0 && budget.is_finite())) {
        return Err(invalid(format!("{table}.budget"), budget, "above 0 USD"));
    }
    Ok(Goal { objective: spec.objective.unwrap_or_default(), deadline, budget: spec.budget })
}

/// Returns the machines of a job: those of the pool that it allows.
fn cluster(
    pool: &FleetPoolSpec,
    types: &[String],
    own: &ClusterChoice,
    index: usize,
) -> Result<ClusterChoice, FleetError> {
    let field = |name: &str| format!("job[{index}].cluster.{name}");
    for (name, written) in [("profile", own.profile.is_some()), ("file", own.file.is_some())] {
        if written {
            let rule = "a pool is made of instances to be rented";
            let (first, second) = (field(name), "pool.instances".into());
            return Err(FleetError::Field(QueueError::Conflict { first, second, rule }));
        }
    }
    for (name, written) in [("prices", own.prices.is_some()), ("quotas", own.quotas.is_some())] {
        if written {
            let rule = "a pool is rented at the prices of the catalog, and its instances are its quota";
            let (first, second) = (field(name), "pool.max_instances".into());
            return Err(FleetError::Field(QueueError::Conflict { first, second, rule }));
        }
    }
    let pricing = pool.pricing.unwrap_or(Pricing::OnDemand).to_string();
    let terms = [
        ("region", own.region.clone(), "pool.region", region(pool).to_owned()),
        ("pricing", own.pricing.map(|own| own.to_string()), "pool.pricing", pricing),
        ("service", own.service.clone(), "pool.service", service(pool).to_owned()),
    ];
    for (name, value, pool_field, pool_value) in terms {
        if let Some(value) = value.filter(|value| *value != pool_value) {
            return Err(FleetError::Elsewhere { field: field(name), value, pool_field, pool_value });
        }
    }
    let instances = match &own.instances {
        None => types.to_vec(),
        Some(patterns) => {
            let matching = catalog().matching(patterns).map_err(|error| {
                let error = inside("cluster.instances", &error, error.hint());
                FleetError::Job { index, error: Box::new(error.into()) }
            })?;
            types.iter().filter(|name| matching.iter().any(|own| own.name == **name)).cloned().collect()
        }
    };
    if instances.is_empty() {
        return Err(FleetError::Elsewhere {
            field: field("instances"),
            value: own.instances.iter().flatten().cloned().collect::<Vec<_>>().join(", "),
            pool_field: "pool.instances",
            pool_value: pool.instances.join(", "),
        });
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
