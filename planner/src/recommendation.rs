//! The recommendation: the best plan, its reasons, its runners-up, and what was not possible.

use crate::advice::Advice;
use crate::campaign::extrapolated;
use crate::fix::Fixed;
use crate::front::{alternative, front};
use crate::overheads::Rent;
use crate::predict::predict;
use crate::problem::{Place, Problem, Training, price_used};
use crate::reasons::Reasons;
use crate::search::{Aim, Evaluated, Found, search};
use crate::space::Space;
use crate::terms::{terms, unpriced_copies};
use std::borrow::Cow;
use trainyard_hardware_profiles::Device;
use trainyard_plan::document::{PLAN_SCHEMA, PlanDocument, Prediction, Rejected, Search};
use trainyard_plan::{JobSpec, Objective, Offload, Plan, Store};
use trainyard_units::{Bytes, Seconds, human_bytes, human_duration};

/// How a search is limited and which plans it may consider.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// How many clusters to rank: the recommended one and the runners-up.
    pub top: usize,
    /// Stop after this many simulations; the report then states the gap.
    pub max_simulations: Option<u64>,
    /// Fields that every plan must have.
    pub fixed: Fixed,
}

/// Why there is no plan at all.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoPlan {
    /// Nothing in the space: the held fields or the batch exclude everything.
    #[error("no plan has the wanted degrees: {why}")]
    EmptySpace {
        /// What excludes everything.
        why: String,
    },
    /// Nothing fits into memory.
    #[error("no plan of {candidates} fits into memory: the least that any needs is {} on a device with {}", human_bytes(*needed), human_bytes(*available))]
    OutOfMemory {
        /// Plans in the space.
        candidates: u64,
        /// What the smallest needs.
        needed: Bytes,
        /// What its device has.
        available: Bytes,
        /// How many machines were allowed.
        instances: u32,
    },
    /// The search was stopped before it simulated anything.
    #[error("the search was limited to {limit} simulations and ended before it found a plan")]
    Limited {
        /// The limit.
        limit: u64,
    },
    /// Plans fit, but the machine was not measured for them.
    #[error("no plan can be priced: the machine's profile lacks the measurements")]
    Unmeasured,
}

impl NoPlan {
    /// Which limit to relax.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::EmptySpace { .. } => Some("choose a global batch with more divisors, or hold fewer fields".into()),
            Self::OutOfMemory { needed, available, instances, .. } => Some(format!(
                "allow more than {instances} instances or GPUs with {:.1} times the memory, or take a smaller model",
                needed.as_f64() / available.as_f64().max(1.0)
            )),
            Self::Limited { .. } => Some("raise --max-simulations".into()),
            Self::Unmeasured => Some("measure again with `trainyard calibrate`".into()),
        }
    }
}

/// The best plan for a problem, with everything a reader needs to believe it. `job` is carried into the document.
///
/// If no plan meets deadline and budget, the document holds the one that comes nearest, and [`missed_goal`] says so.
///
/// # Errors
///
/// When there is no plan at all.
pub fn recommend(problem: &Problem, limits: &Limits, job: &JobSpec) -> Result<PlanDocument, NoPlan> {
    let (found, limits) = solve_with_offload(problem, limits, aim(problem, limits));
    let limits = limits.as_ref();
    let Some(chosen) = found.best.first().cloned() else { return Err(no_plan(problem, limits, &found)) };
    let (prediction, _) = prediction(problem, job, &chosen).ok_or(NoPlan::Unmeasured)?;
    let mut reasons = Reasons { problem, fixed: &limits.fixed, chosen: &chosen, found: &found }.all();
    let advice = Advice::new(problem, &chosen, &prediction);
    reasons.extend(advice.as_ref().map(Advice::reason));
    let warnings: Vec<String> = advice
        .and_then(|advice| advice.warning())
        .into_iter()
        .chain(warnings(problem, job, &prediction, &chosen.plan, chosen.choice))
        .collect();
    let pareto = front(problem, job, candidates_of_front(problem, limits, &found));
    Ok(PlanDocument {
        schema: PLAN_SCHEMA.into(),
        job: job.clone(),
        warnings,
        plan: chosen.plan.spec(),
        prediction,
        reasons,
        alternatives: found.best.iter().skip(1).map(alternative).collect(),
        pareto,
        rejected: rejected(problem, &limits.fixed, &found),
        search: Search { candidates: found.candidates, simulated: found.simulated, gap: found.gap },
    })
}

fn aim(problem: &Problem, limits: &Limits) -> Aim {
    Aim {
        objective: problem.objective,
        top: limits.top.max(1),
        max_simulations: limits.max_simulations,
        within_goal: true,
        without_gpu: None,
    }
}

/// The plan that [`recommend`] recommends, and nothing else.
pub(crate) fn best(problem: &Problem, limits: &Limits) -> Result<Evaluated, NoPlan> {
    let (found, limits) = solve_with_offload(problem, limits, aim(problem, limits));
    found.best.first().cloned().ok_or_else(|| no_plan(problem, limits.as_ref(), &found))
}

/// What is kept in main memory when nothing fits without it, from the least.
const OFFLOADS: [Offload; 3] = [
    Offload { optimizer: Some(Store::Host), ..Offload::NONE },
    Offload { optimizer: Some(Store::Host), activations: Some(Store::Host), ..Offload::NONE },
    Offload { optimizer: Some(Store::Host), activations: Some(Store::Host), parameters: Some(Store::Host) },
];

/// What a search finds, or, if nothing meets deadline and budget, one for the nearest.
fn solve(problem: &Problem, fixed: &Fixed, aim: Aim) -> Found {
    let found = search(problem, fixed, aim);
    if found.best.is_empty() && (problem.deadline.is_some() || problem.budget.is_some()) {
        return search(problem, fixed, nearest(problem, aim));
    }
    found
}

/// The same, and, if nothing fits, with the least offloading with which something does; with the limits that it then
/// had. What is held stays held.
fn solve_with_offload<'a>(problem: &Problem, limits: &'a Limits, aim: Aim) -> (Found, Cow<'a, Limits>) {
    let found = solve(problem, &limits.fixed, aim);
    let fits = !found.best.is_empty() || found.simulated > 0 || found.too_large.is_empty();
    if fits || limits.fixed.offload.is_some() {
        return (found, Cow::Borrowed(limits));
    }
    for offload in OFFLOADS {
        let fixed = Fixed { offload: Some(offload), ..limits.fixed.clone() };
        let with = solve(problem, &fixed, aim);
        if !with.best.is_empty() {
            return (with, Cow::Owned(Limits { fixed, ..limits.clone() }));
        }
    }
    (found, Cow::Borrowed(limits))
}

/// The aim of a search for the plan that misses the goal by least: the fastest if there is a deadline, else the
/// cheapest.
fn nearest(problem: &Problem, aim: Aim) -> Aim {
    let objective = if problem.deadline.is_some() { Objective::Time } else { Objective::Cost };
    Aim { objective, within_goal: false, ..aim }
}

/// By how much a plan misses deadline or budget.
enum Missed {
    Deadline { deadline: Seconds, time: Seconds, surrounded: bool },
    Budget { budget: f64, cost: f64 },
}

fn missed(document: &PlanDocument) -> Option<Missed> {
    let deadline = document.job.goal.deadline.as_deref().and_then(|text| text.parse::<Seconds>().ok());
    let time = Seconds(document.prediction.elapsed_s());
    if let Some(deadline) = deadline.filter(|deadline| time > *deadline) {
        return Some(Missed::Deadline { deadline, time, surrounded: time.0 > document.prediction.time_s });
    }
    let (budget, cost) = (document.job.goal.budget?, document.prediction.cost_usd?);
    (cost > budget).then_some(Missed::Budget { budget, cost })
}

/// Why the recommended plan is not within deadline or budget; nothing if it is.
pub fn missed_goal(document: &PlanDocument) -> Option<String> {
    Some(match missed(document)? {
        Missed::Deadline { deadline, time, surrounded } => format!(
            "no plan ends within {}: the nearest takes {}{}, {:.2} times as long",
            human_duration(deadline),
            human_duration(time),
            if surrounded { " with start-up and checkpoints" } else { "" },
            time.0 / deadline.0
        ),
        Missed::Budget { budget, cost } => format!(
            "no plan costs at most {budget:.2} USD: the nearest costs {cost:.2}, {:.2} times as much",
            cost / budget
        ),
    })
}

/// Why a plan that was chosen by hand is not within deadline or budget; nothing if it is.
pub fn missed_by_choice(document: &PlanDocument) -> Option<String> {
    Some(match missed(document)? {
        Missed::Deadline { deadline, time, .. } => format!(
            "the chosen plan takes {}, {:.2} times the deadline of {}",
            human_duration(time),
            time.0 / deadline.0,
            human_duration(deadline)
        ),
        Missed::Budget { budget, cost } => {
            format!("the chosen plan costs {cost:.2} USD, {:.2} times the budget of {budget:.2} USD", cost / budget)
        }
    })
}

fn prediction(problem: &Problem, job: &JobSpec, chosen: &Evaluated) -> Option<(Prediction, trainyard_sim::Outcome)> {
    let cluster = chosen.plan.cluster();
    let machine = problem.place.machine(chosen.choice, cluster.instances, Some(cluster.encrypted));
    let steps = problem.training.steps(chosen.plan.batch().global);
    let data = problem.data.as_ref().map(|data| &data.set);
    let price = problem.place.price(chosen.choice).map(price_used);
    let rent = price.map(|price| Rent::new(job, &chosen.plan, &machine, price)).transpose().ok()?;
    predict(&chosen.plan, &machine, steps, rent, data).ok()
}

/// Plans among which those are that none beats in both time and cost: of this search and of one for the other objective,
/// the fastest and the best of each number of machines.
fn candidates_of_front(problem: &Problem, limits: &Limits, found: &Found) -> Vec<Evaluated> {
    let mut all: Vec<Evaluated> = found.best.iter().chain(&found.fastest).cloned().collect();
    if matches!(problem.place, Place::Rented(_)) {
        let objective = match problem.objective {
            Objective::Cost => Objective::Time,
            Objective::Time => Objective::Cost,
        };
        let aim =
            Aim { objective, top: 1, max_simulations: limits.max_simulations, within_goal: false, without_gpu: None };
        let other = search(problem, &limits.fixed, aim);
        all.extend(other.best.into_iter().chain(other.fastest));
    }
    all
}

fn rejected(problem: &Problem, fixed: &Fixed, found: &Found) -> Vec<Rejected> {
    let choices = problem.place.choices();
    let mut all = Vec::new();
    let mut elsewhere = 0;
    for (choice, (count, needed, available)) in &found.too_large {
        if found.plans.get(choice).is_some_and(|plans| count < plans) {
            elsewhere += count;
            continue;
        }
        let (needed, available) = (human_bytes(*needed), human_bytes(*available));
        let why = format!("does not fit: the smallest needs {needed} of {available} on a device");
        all.push(Rejected { what: choices[*choice].0.clone(), why, count: *count });
    }
    if elsewhere > 0 {
        let what = "plans on instances where others fit".into();
        all.push(Rejected { what, why: "need more than a device has".into(), count: elsewhere });
    }
    if let Some(data) = &problem.data {
        all.extend(choices.iter().enumerate().filter_map(|(choice, (name, _))| {
            let error = data.refusal(fixed, &problem.place.machine(choice, 1, None))?;
            Some(Rejected { what: name.clone(), why: format!("cannot bring in samples: {error}"), count: 0 })
        }));
    }
    if let Place::Rented(rental) = &problem.place {
        all.extend(rental.unpriced.iter().map(|name| Rejected {
            what: name.clone(),
            why: "has no price on these terms".into(),
            count: 0,
        }));
        all.extend(rental.over_quota.iter().map(|(name, why)| Rejected {
            what: name.clone(),
            why: why.clone(),
            count: 0,
        }));
    }
    let proved = found.candidates - found.simulated - found.count_too_large();
    if proved > 0 {
        all.push(Rejected {
            what: "other plans".into(),
            why: "a lower bound, or that of a plainer plan that fits, is no better".into(),
            count: proved,
        });
    }
    all
}

/// What to be careful about with a plan on machines of a type.
pub(crate) fn warnings(
    problem: &Problem,
    job: &JobSpec,
    prediction: &Prediction,
    plan: &Plan,
    choice: usize,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Place::Rented(rental) = &problem.place {
        let machine = problem.place.machine(choice, 1, None);
        if let Device::Gpu(gpu) = &machine.cluster.first().device
            && gpu.achieved.uncertainty.value >= 0.4
        {
            let why = &gpu.achieved.uncertainty.source;
            warnings.push(format!("{}: {why}; the interval is wide", gpu.name));
        }
        let mut dates: Vec<&str> = rental.instances.iter().map(|(_, price)| price.date.as_str()).collect();
        dates.sort_unstable();
        dates.dedup();
        if dates.len() > 1 {
            warnings.push(format!("prices of the instance types were seen at different times: {}", dates.join(", ")));
        }
        warnings.extend(terms(rental, prediction, plan, choice));
        warnings.extend(unpriced_copies(job, prediction, plan, &problem.place, choice));
    }
    if prediction.memory_bytes.peak() as f64 > 0.92 * prediction.memory_bytes.limit as f64 {
        warnings.push("less than 8 % of the device memory stays free".into());
    }
    for precision in &problem.unusable_precisions {
        warnings.push(format!(
            "training.precision {precision} is left out: no machine that may be chosen has units for it"
        ));
    }
    if let Training::Target(curve) = problem.training {
        warnings.extend(extrapolated(curve, &problem.model, plan.batch().global));
    } else if problem.global_batches.len() > 1 {
        warnings.push(
            "how many samples convergence needs at each global batch is not modelled: the data volume decides".into(),
        );
    }
    warnings
}

fn no_plan(problem: &Problem, limits: &Limits, found: &Found) -> NoPlan {
    if found.candidates == 0 {
        return NoPlan::EmptySpace { why: empty_space(problem, &limits.fixed) };
    }
    if let Some(limit) = limits.max_simulations.filter(|limit| found.simulated >= *limit) {
        return NoPlan::Limited { limit };
    }
    let least = found.too_large.values().min_by(|a, b| {
        let share = |entry: &(u64, Bytes, Bytes)| entry.1.as_f64() / entry.2.as_f64().max(1.0);
        share(a).total_cmp(&share(b))
    });
    match least {
        Some((_, needed, available)) => NoPlan::OutOfMemory {
            candidates: found.candidates,
            needed: *needed,
            available: *available,
            instances: problem.place.choices().iter().map(|(_, most)| *most).max().unwrap_or(1),
        },
        None => NoPlan::Unmeasured,
    }
}

/// What excludes everything: the machines, one of the held fields, or the batch.
fn empty_space(problem: &Problem, fixed: &Fixed) -> String {
    let choices = problem.place.choices();
    let wanted = |name: &String| fixed.instance.as_ref().is_none_or(|held| held == name);
    let chosen: Vec<usize> = (0..choices.len()).filter(|choice| wanted(&choices[*choice].0)).collect();
    if let (true, Some(instance)) = (chosen.is_empty(), &fixed.instance) {
        return format!("instance {instance} is not among those of the job");
    }
    let space = Space::new(problem, fixed);
    let refusals: Vec<String> = chosen.iter().filter_map(|choice| space.refusal(*choice)).collect();
    if let (true, Some(refusal)) = (refusals.len() == chosen.len(), refusals.first()) {
        return refusal.clone();
    }
    let excludes = |rest: &Fixed| !Space::new(problem, rest).candidates().is_empty();
    if let Some((key, value, _)) = fixed.each().into_iter().find(|(_, _, rest)| excludes(rest)) {
        return format!("without {key} {value} there would be plans, but with it nothing divides evenly or is left");
    }
    let batches: Vec<String> = problem.global_batches.iter().map(u64::to_string).collect();
    format!(
        "with global batch {} and the held fields, data × tensor × pipeline × context cannot use every device evenly",
        batches.join(", ")
    )
}
