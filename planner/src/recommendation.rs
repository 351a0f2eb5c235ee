//! The recommendation: the best plan, its reasons, its runners-up, and what was not possible.

use crate::advice::Advice;
use crate::amount::usd;
use crate::bound_by::bound_by;
use crate::changes::Changes;
use crate::fix::Fixed;
use crate::front::{alternative, front};
use crate::guidance::Guidance;
use crate::overheads::Rent;
use crate::predict::{predict, predict_of};
use crate::problem::{Place, Problem, price_used};
use crate::reasons::{Reasons, other_gpu};
use crate::rejected::Rejections;
use crate::remedies::{Remedies, remedy_reason};
use crate::search::{Aim, Evaluated, Found, Prepared, Within, search};
use crate::space::Space;
use crate::totals::nearest;
use crate::tuning::{Tuning, batch_reason};
use crate::warnings::Warnings;
use rayon::prelude::*;
use std::borrow::Cow;
use trainyard_plan::document::{
    BatchChoice, Change, PLAN_SCHEMA, PlanDocument, PrecisionChoice, Prediction, Remedy, Search,
};
use trainyard_plan::{JobSpec, Objective, Offload, Store};
use trainyard_sim::Outcome;
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
    /// Nobody waits for the answer any more.
    #[error("the search was cancelled before it ended")]
    Cancelled,
    /// Plans fit, but the machine was not measured for them.
    #[error("no plan can be priced: the machine's profile lacks the measurements")]
    Unmeasured,
}

impl NoPlan {
    /// Which limit to relax.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::EmptySpace { .. } => Some(
                "parallel.tensor divides the model's heads, parallel.data the global batch, and all degrees together \
                 are the devices of at most cluster.max_instances instances; hold fewer fields, or change one of these"
                    .into(),
            ),
            Self::OutOfMemory { needed, available, instances, .. } => Some(format!(
                "allow more than {instances} instances or GPUs with {:.1} times the memory, or take a smaller model",
                needed.as_f64() / available.as_f64().max(1.0)
            )),
            Self::Limited { .. } => Some("raise --max-simulations".into()),
            Self::Cancelled => None,
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
    let solved = solve_with_offload(problem, limits);
    let Solved { prepared, found, limits, .. } = &solved;
    let limits = limits.as_ref();
    let Some(chosen) = found.best.first().cloned() else { return Err(no_plan(problem, limits, found)) };
    let (prediction, outcome) = prediction(problem, job, &chosen).ok_or(NoPlan::Unmeasured)?;
    let told = Told::new(prepared, problem, limits, found, (&prediction, &outcome));
    let (changes, mut reasons) = (told.changes, told.reasons);
    let advice = Advice::new(problem, &chosen, &prediction);
    reasons.extend(advice.as_ref().map(Advice::reason));
    reasons.extend(told.bounds);
    reasons.extend(Guidance { problem, fixed: &limits.fixed, chosen: &chosen, found }.reason());
    let warnings = Warnings { problem, job, plan: &chosen.plan, choice: chosen.choice, prediction: &prediction };
    let warnings: Vec<String> = advice.and_then(|advice| advice.warning()).into_iter().chain(warnings.all()).collect();
    let rejections = Rejections { problem, fixed: &limits.fixed, found, chosen: &chosen, top: limits.top.max(1) };
    let rejected = rejections.all(job);
    let pareto = front(problem, job, candidates_of_front(problem, &solved));
    if problem.is_cancelled() {
        return Err(NoPlan::Cancelled);
    }
    Ok(PlanDocument {
        schema: PLAN_SCHEMA.into(),
        job: job.clone(),
        warnings,
        plan: chosen.plan.spec(),
        prediction,
        reasons,
        alternatives: found.best.iter().skip(1).map(alternative).collect(),
        pareto,
        rejected,
        changes,
        remedies: told.remedies,
        precisions: told.precisions,
        batches: told.batches,
        search: Search { candidates: found.candidates, simulated: found.simulated, gap: found.gap },
    })
}

/// What there is to tell of a decision, besides the plan.
struct Told {
    /// Why this plan and not another.
    reasons: Vec<String>,
    /// What bounds it, what made it fit, and what would change it.
    bounds: Vec<String>,
    changes: Vec<Change>,
    remedies: Vec<Remedy>,
    precisions: Vec<PrecisionChoice>,
    batches: Vec<BatchChoice>,
}

impl Told {
    /// Of the first of the plans found.
    fn new(
        prepared: &Prepared<'_>,
        problem: &Problem,
        limits: &Limits,
        found: &Found,
        (prediction, outcome): (&Prediction, &Outcome),
    ) -> Self {
        let (fixed, chosen) = (&limits.fixed, &found.best[0]);
        let tuning = Tuning { problem, fixed, chosen, prediction };
        let (tried, batches) = (tuning.tried(), tuning.batches());
        let other_gpu = other_gpu(prepared, problem, fixed, found);
        let reasons = Reasons { problem, fixed, chosen, found, other_gpu: other_gpu.as_ref(), tried: &tried }.all();
        let remedies = Remedies::new(problem, fixed, chosen).all();
        let (changes, would_change) = Changes::new(problem, chosen, found, other_gpu.as_ref()).all();
        let open = problem.global_batches.len() > 1;
        let bounds = [
            remedy_reason(&remedies),
            batch_reason(&batches, problem.training).filter(|_| open),
            Some(bound_by(&chosen.plan, &chosen.machine(problem), outcome, prediction)),
        ];
        let bounds = bounds.into_iter().flatten().chain(would_change).collect();
        Self { reasons, bounds, changes, remedies, precisions: tuning.precisions(&tried), batches }
    }
}

fn aim(problem: &Problem, limits: &Limits) -> Aim {
    Aim {
        objective: problem.objective,
        top: limits.top.max(1),
        max_simulations: limits.max_simulations,
        within: Within::Goal,
        without_gpu: None,
    }
}

/// The plan that [`recommend`] recommends, and nothing else.
pub(crate) fn best(problem: &Problem, limits: &Limits) -> Result<Evaluated, NoPlan> {
    let Solved { found, limits, .. } = solve_with_offload(problem, limits);
    found.best.first().cloned().ok_or_else(|| no_plan(problem, limits.as_ref(), &found))
}

/// The best plan on each type and number of machines on which it is worth while, and what finding them took.
#[derive(Clone, Debug)]
pub(crate) struct OnEach {
    /// By type, then by number.
    pub(crate) best: Vec<Evaluated>,
    pub(crate) candidates: u64,
    pub(crate) simulated: u64,
    /// Fields that were held, those included that had to be for anything to fit.
    pub(crate) limits: Limits,
}

/// More machines of a type are worth while if they take at most this much of the time of fewer.
const WORTH_WHILE: f64 = 0.95;

/// The best plan on each type and number of machines, whatever deadline and budget are. Those on more machines of a type
/// that are hardly faster than on fewer are left out: they cost more and leave less to others. Where twice as many are
/// not worth while, no more are tried: there communication takes what they save, and it grows with them.
pub(crate) fn on_each(problem: &Problem, limits: &Limits) -> Result<OnEach, NoPlan> {
    let plain = on_each_within(problem, limits);
    if !plain.best.is_empty() {
        return Ok(plain);
    }
    let aim = Aim { within: Within::Anything, ..aim(problem, limits) };
    let Solved { found, limits: held, .. } = solve_with_offload_for(problem, limits, aim);
    let with_offload = on_each_within(problem, held.as_ref());
    if with_offload.best.is_empty() {
        return Err(no_plan(problem, held.as_ref(), &found));
    }
    Ok(with_offload)
}

fn on_each_within(problem: &Problem, limits: &Limits) -> OnEach {
    let choices = problem.place.choices();
    let wanted = |name: &String| limits.fixed.instance.as_ref().is_none_or(|held| held == name);
    let types: Vec<OnEach> =
        choices.par_iter().filter(|(name, _)| wanted(name)).map(|own| on_type(problem, limits, own)).collect();
    let none = OnEach { best: Vec::new(), candidates: 0, simulated: 0, limits: limits.clone() };
    types.into_iter().fold(none, |mut all, own| {
        all.best.extend(own.best);
        all.candidates += own.candidates;
        all.simulated += own.simulated;
        all
    })
}

/// The same of one type: a search for each number, within the time that it must take at most.
fn on_type(problem: &Problem, limits: &Limits, (name, most): &(String, u32)) -> OnEach {
    let mut all = OnEach { best: Vec::new(), candidates: 0, simulated: 0, limits: limits.clone() };
    let mut problem = Problem { deadline: None, budget: None, ..problem.clone() };
    let held = limits.fixed.instances;
    for instances in (1..=*most).filter(|count| held.is_none_or(|held| held == *count)) {
        let fixed = Fixed { instance: Some(name.clone()), instances: Some(instances), ..limits.fixed.clone() };
        let found = search(&problem, &fixed, Aim { top: 1, ..aim(&problem, limits) });
        all.candidates += found.candidates;
        all.simulated += found.simulated;
        if let Some(best) = found.best.into_iter().next() {
            // What surrounds the steps hardly depends on the number of machines.
            problem.deadline = Some(Seconds(best.elapsed_s - best.time_s * (1.0 - WORTH_WHILE)));
            all.best.push(best);
        } else if found.candidates > 0
            && all.best.last().is_some_and(|last| 2 * last.plan.cluster().instances <= instances)
        {
            break;
        }
    }
    all
}

/// What is kept in main memory when nothing fits without it, from the least.
const OFFLOADS: [Offload; 3] = [
    Offload { optimizer: Some(Store::Host), ..Offload::NONE },
    Offload { optimizer: Some(Store::Host), activations: Some(Store::Host), ..Offload::NONE },
    Offload { optimizer: Some(Store::Host), activations: Some(Store::Host), parameters: Some(Store::Host) },
];

/// What a search found, and where.
pub(crate) struct Solved<'a, 'b> {
    pub(crate) prepared: Prepared<'a>,
    pub(crate) found: Found,
    /// What was found for the other objective, if that was searched at the same time.
    other: Option<Found>,
    /// The limits that the search had in the end.
    pub(crate) limits: Cow<'b, Limits>,
}

/// What a search finds, or, if nothing meets deadline and budget, the first for the nearest that finds something.
fn solve(prepared: &Prepared<'_>, problem: &Problem, aim: Aim) -> Found {
    let mut found = prepared.search(aim);
    if problem.deadline.is_none() && problem.budget.is_none() {
        return found;
    }
    let mut nearest = nearest(problem.deadline, problem.budget).iter();
    while found.best.is_empty()
        && let Some(&(objective, within)) = nearest.next()
    {
        found = prepared.search(Aim { objective, within, ..aim });
    }
    found
}

/// What a search finds, and, where both are soon done, what one for the other objective finds at the same time.
fn solve_both(prepared: &Prepared<'_>, problem: &Problem, limits: &Limits, aim: Aim) -> (Found, Option<Found>) {
    match problem.enough {
        None => (solve(prepared, problem, aim), None),
        Some(_) => rayon::join(|| solve(prepared, problem, aim), || search_for_front(prepared, problem, limits)),
    }
}

/// What a job seeks, and, if nothing fits, the same with the least offloading with which something does. What is held
/// stays held.
pub(crate) fn solve_with_offload<'a, 'b>(problem: &'a Problem, limits: &'b Limits) -> Solved<'a, 'b> {
    solve_with_offload_for(problem, limits, aim(problem, limits))
}

fn solve_with_offload_for<'a, 'b>(problem: &'a Problem, limits: &'b Limits, aim: Aim) -> Solved<'a, 'b> {
    let prepared = Prepared::new(problem, &limits.fixed);
    let (found, other) = solve_both(&prepared, problem, limits, aim);
    let fits = !found.best.is_empty() || found.simulated > 0 || found.too_large.is_empty();
    if !fits && limits.fixed.offload.is_none() {
        for offload in OFFLOADS {
            let fixed = Fixed { offload: Some(offload), ..limits.fixed.clone() };
            let prepared = Prepared::new(problem, &fixed);
            let (found, other) = solve_both(&prepared, problem, limits, aim);
            if !found.best.is_empty() {
                return Solved { prepared, found, other, limits: Cow::Owned(Limits { fixed, ..limits.clone() }) };
            }
        }
    }
    Solved { prepared, found, other, limits: Cow::Borrowed(limits) }
}

/// By how much a plan misses deadline or budget, and what is set for the other: for a deadline that is missed a budget
/// with what the plan costs, for a budget a deadline that is kept.
enum Missed {
    Deadline { deadline: Seconds, time: Seconds, surrounded: bool, other: Option<(f64, f64)> },
    Budget { budget: f64, cost: f64, kept: Option<Seconds> },
}

fn missed(document: &PlanDocument) -> Option<Missed> {
    let deadline = document.job.goal.deadline.as_deref().and_then(|text| text.parse::<Seconds>().ok());
    let time = Seconds(document.prediction.elapsed_s());
    let money = document.job.goal.budget.zip(document.prediction.cost_usd);
    if let Some(deadline) = deadline.filter(|deadline| time > *deadline) {
        let surrounded = time.0 > document.prediction.time_s;
        return Some(Missed::Deadline { deadline, time, surrounded, other: money });
    }
    let (budget, cost) = money?;
    (cost > budget).then_some(Missed::Budget { budget, cost, kept: deadline })
}

/// Why the recommended plan is not within deadline or budget; nothing if it is.
pub fn missed_goal(document: &PlanDocument) -> Option<String> {
    Some(match missed(document)? {
        Missed::Deadline { deadline, time, surrounded, other } => {
            let (nothing, nearest, costs) = match other {
                None => (String::new(), String::new(), String::new()),
                Some((budget, cost)) if cost <= budget => {
                    (String::new(), format!(" that costs at most {}", usd(budget)), String::new())
                }
                Some((budget, cost)) => (
                    format!(", and none costs at most {}", usd(budget)),
                    String::new(),
                    format!(", and costs {}", usd(cost)),
                ),
            };
            format!(
                "no plan ends within {}{nothing}: the nearest{nearest} takes {}{}, {:.2} times as long{costs}",
                human_duration(deadline),
                human_duration(time),
                if surrounded { " with start-up and checkpoints" } else { "" },
                time.0 / deadline.0
            )
        }
        Missed::Budget { budget, cost, kept } => format!(
            "no plan {}costs at most {}: the nearest costs {}, {:.2} times as much",
            kept.map_or_else(String::new, |deadline| format!("that ends within {} ", human_duration(deadline))),
            usd(budget),
            usd(cost),
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
        Missed::Budget { budget, cost, .. } => {
            format!("the chosen plan costs {}, {:.2} times the budget of {}", usd(cost), cost / budget, usd(budget))
        }
    })
}

pub(crate) fn prediction(problem: &Problem, job: &JobSpec, chosen: &Evaluated) -> Option<(Prediction, Outcome)> {
    let cluster = chosen.plan.cluster();
    let machine = problem.place.machine(chosen.choice, cluster.instances, Some(cluster.encrypted));
    let steps = problem.training.steps(chosen.plan.batch().global);
    let data = problem.data.as_ref().map(|data| &data.set);
    let price = problem.place.price(chosen.choice).map(price_used);
    let rent = price.map(|price| Rent::new(job, &chosen.plan, &machine, price)).transpose().ok()?;
    match &chosen.outcome {
        Some(outcome) => predict_of(&chosen.plan, &machine, steps, rent, data, Outcome::clone(outcome)).ok(),
        None => predict(&chosen.plan, &machine, steps, rent, data).ok(),
    }
}

/// A search for the objective that is not the job's; nothing where machines are not rented, and the other is the same.
fn search_for_front(prepared: &Prepared<'_>, problem: &Problem, limits: &Limits) -> Option<Found> {
    if !matches!(problem.place, Place::Rented(_)) {
        return None;
    }
    let objective = match problem.objective {
        Objective::Cost => Objective::Time,
        Objective::Time => Objective::Cost,
    };
    let max_simulations = limits.max_simulations;
    Some(prepared.search(Aim { objective, top: 1, max_simulations, within: Within::Anything, without_gpu: None }))
}

/// Plans among which those are that none beats in both time and cost: of this search and of one for the other objective,
/// the fastest and the best of each number of machines.
pub(crate) fn candidates_of_front(problem: &Problem, solved: &Solved<'_, '_>) -> Vec<Evaluated> {
    let Solved { prepared, found, other, limits } = solved;
    let later = other.is_none().then(|| search_for_front(prepared, problem, limits)).flatten();
    let all = [Some(found), other.as_ref(), later.as_ref()].into_iter().flatten();
    all.flat_map(|found| found.best.iter().chain(&found.fastest)).cloned().collect()
}

pub(crate) fn no_plan(problem: &Problem, limits: &Limits, found: &Found) -> NoPlan {
    if problem.is_cancelled() {
        return NoPlan::Cancelled;
    }
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
    let batches: Vec<String> = problem.global_batches.iter().map(u64::to_string).collect();
    if let Some((key, value, _)) = fixed.each().into_iter().find(|(_, _, rest)| excludes(rest)) {
        // A range is tried at its lower end and at doublings of it, which the user may not expect.
        let tried = match batches.len() {
            0 | 1 => String::new(),
            _ => format!("; of the range, global batches {} were tried", batches.join(", ")),
        };
        return format!(
            "without {key} {value} there would be plans, but with it nothing divides evenly or is left{tried}"
        );
    }
    format!(
        "with global batch {} and the held fields, data × tensor × pipeline × context cannot use every device evenly",
        batches.join(", ")
    )
}
