//! A fleet as written becomes a pool and questions that can be solved.

use super::machines::{Machines, Shared};
use super::{FleetError, FleetJob, FleetJobSpec, FleetSpec};
use crate::queue::{PoolSpec, QueueSpec, QueuedJobSpec, valid};
use trainyard_plan::{GoalSpec, JobSpec, Objective};
use trainyard_planner::{Problem, Resources, deadline_and_budget};
use trainyard_units::{Instant, Invalid, Seconds, human_duration};

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
    pub(super) shared: Shared,
    pub(super) kinds: Vec<ValidKind>,
    /// Settings that are written but change nothing.
    pub(super) idle: Vec<String>,
}

/// Checks a fleet. `pool` is the content of the files that its pool names; `jobs` are the jobs of its entries, in their order.
pub(super) fn valid_fleet(spec: &FleetSpec, pool: Resources, jobs: Vec<FleetJob>) -> Result<ValidFleet, FleetError> {
    let machines = Machines::of(spec, pool)?;
    let (shared, mut idle) = (machines.shared(), machines.left_out());
    let goal = goal(&spec.goal, &machines)?;
    if spec.goal.objective.is_some_and(|objective| objective != goal.objective) {
        idle.push("`goal.objective` changes nothing: the machines have no price, so time is minimized".into());
    }
    let submits = entries(spec, &shared)?;
    come_in_time(spec, &submits, goal.deadline)?;
    let mut kinds = Vec::new();
    for (index, ((entry, mut job), submit)) in spec.jobs.iter().zip(jobs).zip(submits).enumerate() {
        let field = |name: &str| format!("job[{index}].{name}");
        let own = self::goal(&job.spec.goal, &machines).map_err(|invalid| invalid.within(&format!("job[{index}]")))?;
        if job.spec.goal.objective.is_some_and(|objective| objective != goal.objective) {
            idle.push(format!("`{}` changes nothing: that of the fleet decides", field("goal.objective")));
        }
        if job.spec.campaign.as_ref().is_some_and(|own| own.start.is_some()) {
            let decides = machines.who_starts();
            idle.push(format!("`{}` changes nothing: {decides}", field("campaign.start")));
        }
        idle.extend(of_scheduler(&job.spec).map(|(key, why)| format!("`{}` changes nothing: {why}", field(key))));
        if let Some(campaign) = &mut job.spec.campaign {
            (campaign.job_limit, campaign.queue_wait) = (None, None);
        }
        let (job, mut problem) = machines.problem(job, index)?;
        (problem.deadline, problem.budget, problem.objective) = (None, None, goal.objective);
        kinds.push(ValidKind {
            name: entry.called(index + 1),
            count: entry.count,
            submit,
            priority: entry.priority,
            deadline: own.deadline,
            budget: own.budget,
            job,
            problem,
        });
    }
    Ok(ValidFleet { goal, shared, kinds, idle })
}

/// Refuses jobs that come when all have to be done.
fn come_in_time(spec: &FleetSpec, submits: &[Seconds], deadline: Option<Seconds>) -> Result<(), Invalid> {
    let (Some(deadline), Some(first)) = (deadline, submits.iter().map(|own| own.0).reduce(f64::min)) else {
        return Ok(());
    };
    let late = submits.iter().position(|own| own.0 - first >= deadline.0);
    late.map_or(Ok(()), |index| {
        let rule = format!("`goal.deadline` is {}, by which all jobs have to end", human_duration(deadline));
        let submit = spec.jobs[index].submit.as_deref().unwrap_or_default();
        let hint = "a deadline of a job of its own, in [job.goal], counts from its submission";
        Err(Invalid::breaks(format!("job[{index}].submit"), submit, rule).with_hint(hint))
    })
}

/// Returns what a job says of the scheduler under which it would run by itself, with why that does not count.
fn of_scheduler(job: &JobSpec) -> Option<(&'static str, &'static str)> {
    let campaign = job.campaign.as_ref()?;
    let whole = "a job of a fleet runs from its first step to its last; one in several jobs of a scheduler is planned by itself";
    let limit = campaign.job_limit.is_some().then_some(("campaign.job_limit", whole));
    let waits = "the schedule says when jobs wait";
    limit.or_else(|| campaign.queue_wait.is_some().then_some(("campaign.queue_wait", waits)))
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
fn entries(spec: &FleetSpec, shared: &Shared) -> Result<Vec<Seconds>, Invalid> {
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
    let any = shared.pools.values().next().expect("a pool has at least one type");
    let checked = valid::valid(&queue_of(any.clone(), spec), &shared.files, 0)?;
    // The jobs of a kind stand together and come together.
    let mut first = 0;
    let submits = spec.jobs.iter().map(|entry| {
        let submit: Instant = checked.queue.jobs[first].submit;
        first += entry.count as usize;
        submit.seconds()
    });
    Ok(submits.collect())
}

/// Reads deadline, budget and objective: time, where machines have no price.
fn goal(spec: &GoalSpec, machines: &Machines<'_>) -> Result<Goal, Invalid> {
    let (deadline, budget) = deadline_and_budget(spec)?;
    if machines.are_priced() {
        return Ok(Goal { objective: spec.objective.unwrap_or_default(), deadline, budget });
    }
    if budget.is_some() {
        let rule = "machines without a price cost nothing";
        let hint = "`usd_per_hour = 24.0` in [[machines]] of the file says what an hour of one machine costs";
        return Err(Invalid::conflict("goal.budget", "pool.file", rule).with_hint(hint));
    }
    Ok(Goal { objective: Objective::Time, deadline, budget })
}
