//! The recommendation: the best plan, its reasons, its runners-up, and what was not possible.

use crate::advice::Advice;
use crate::amount::usd;
use crate::bound_by::bound_by;
use crate::changes::Changes;
use crate::front::{alternative, front, runner_up};
use crate::goal::to_meet_goal;
use crate::left_out::left_out;
use crate::overheads::Rent;
use crate::predict::{predict, predict_of};
use crate::price_dates::price_dates;
use crate::problem::{Place, Problem, price_used};
use crate::reasons::{Reasons, other_gpu};
use crate::rejected::Rejections;
use crate::remedies::{Remedies, remedy_reason};
use crate::robust::{choose, preferred};
use crate::search::{Aim, Evaluated, Found, Prepared, Within, search};
use crate::software::{executable_on, names_of_those_that, refused, trains};
use crate::space::Space;
use crate::totals::nearest;
use crate::tuning::{Tuning, batch_reason};
use crate::warnings::Warnings;
use rayon::prelude::*;
use std::cell::RefCell;
use trainyard_hardware_profiles::Stack;
use trainyard_plan::document::{
    Alternative, BatchChoice, Change, Evidence, PLAN_SCHEMA, PlanDocument, PrecisionChoice, Prediction, Remedy, Search,
    StackChoice,
};
use trainyard_plan::{Executable, Fixed, JobSpec, NotExecutable, Objective};
use trainyard_sim::Outcome;
use trainyard_units::{Bytes, Seconds, human_bytes, human_duration};

/// Limits of a search and the fields that its plans must have.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Number of clusters to rank: the recommended one and the runners-up.
    pub top: usize,
    /// Stop after this many simulations; the report then states the gap.
    pub max_simulations: Option<u64>,
    /// Fields that every plan must have.
    pub fixed: Fixed,
}

/// The reason why there is no plan at all.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoPlan {
    /// The space of plans is empty: the held fields or the batch exclude everything.
    #[error("no plan has the wanted degrees: {why}")]
    EmptySpace {
        /// The fields that exclude every plan.
        why: String,
    },
    /// A held field that none of the stacks of the job runs.
    #[error("`{field}` is {value}, which {stacks}")]
    Unable {
        /// The held field.
        field: String,
        /// Its value.
        value: String,
        /// A sentence part: the stacks of the job cannot run it.
        stacks: String,
        /// Stacks of the catalog that run it.
        others: Vec<String>,
    },
    /// Nothing fits into memory.
    #[error("no plan of {candidates} fits into memory: the least that any needs is {}, and {} may be used of a device", human_bytes(*needed), human_bytes(*available))]
    OutOfMemory {
        /// Plans in the space.
        candidates: u64,
        /// Memory needed by the smallest plan.
        needed: Bytes,
        /// Memory that may be used of its device.
        available: Bytes,
        /// Number of machines that were allowed.
        instances: u32,
    },
    /// The search was stopped before it simulated anything.
    #[error("the search was limited to {limit} simulations and ended before it found a plan")]
    Limited {
        /// The limit.
        limit: u64,
    },
    /// The search was cancelled.
    #[error("the search was cancelled before it ended")]
    Cancelled,
    /// Plans fit, but the machine was not measured for them.
    #[error("no plan can be priced: the machine's profile lacks the measurements")]
    Unmeasured,
}

impl NoPlan {
    /// Returns the limit that the user could relax.
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
            Self::Unable { others, .. } if others.is_empty() => Some("leave the field free".into()),
            Self::Unable { others, .. } => {
                Some(format!("stacks that run it: {}; choose one with --stack", others.join(", ")))
            }
            Self::Limited { .. } => Some("raise --max-simulations".into()),
            Self::Cancelled => None,
            Self::Unmeasured => Some("measure again with `trainyard calibrate`".into()),
        }
    }
}

/// Computes the best plan for a problem, with everything a reader needs to believe it. `job` is copied into the
/// document.
///
/// If no plan meets the deadline and the budget, the document holds the one that comes nearest, and [`missed_goal`]
/// says so.
///
/// # Errors
///
/// When there is no plan at all.
pub fn recommend(problem: &Problem, limits: &Limits, job: &JobSpec) -> Result<PlanDocument, NoPlan> {
    if let Some(unable) = unable(problem, &limits.fixed) {
        return Err(unable);
    }
    let solved = solve(problem, limits);
    let Solved { prepared, found, .. } = &solved;
    let Some(chosen) = found.best.first().cloned() else { return Err(no_plan(problem, limits, found)) };
    let (prediction, outcome) = prediction(problem, job, &chosen).ok_or(NoPlan::Unmeasured)?;
    let told = Told::new(prepared, problem, limits, found, (&prediction, &outcome));
    let preferred = found.optimum.as_deref().map(|optimum| (preferred(problem, &chosen, optimum), None));
    let mut told_reasons = told.reasons;
    told_reasons.splice(1..1, preferred);
    let evidence = evidence_of(&told_reasons);
    let mut reasons: Vec<String> = told_reasons.into_iter().map(|(text, _)| text).collect();
    let changes = told.changes;
    let advice = Advice::new(problem, &chosen, &prediction);
    reasons.extend(advice.as_ref().map(Advice::reason));
    reasons.extend(told.bounds);
    let warnings = Warnings { problem, job, plan: &chosen.plan, choice: chosen.choice, prediction: &prediction };
    let advised = advice.and_then(|advice| advice.warning()).into_iter();
    let warnings: Vec<String> =
        advised.chain(warnings.all()).chain(price_dates(problem, limits, (found, &chosen))).collect();
    let rejections = Rejections { problem, fixed: &limits.fixed, found, chosen: &chosen, top: limits.top.max(1) };
    let rejected = rejections.all(job);
    let pareto = front(problem, job, candidates_of_front(problem, &solved, limits));
    if problem.is_cancelled() {
        return Err(NoPlan::Cancelled);
    }
    Ok(PlanDocument {
        schema: PLAN_SCHEMA.into(),
        job: job.clone(),
        warnings,
        plan: chosen.plan.spec().clone(),
        prediction,
        reasons,
        evidence,
        to_meet_goal: to_meet_goal(problem, limits, &chosen),
        alternatives: found.best.iter().skip(1).map(|other| runner_up(problem, job, other)).collect(),
        optimum: found.optimum.as_deref().map(|optimum| runner_up(problem, job, optimum)),
        stacks: stack_choices(problem, job, &solved),
        pareto,
        rejected,
        changes,
        remedies: told.remedies,
        precisions: told.precisions,
        batches: told.batches,
        search: Search {
            candidates: found.candidates,
            simulated: found.simulated,
            gap: found.gap,
            left_out: left_out(problem, limits, job, (found, &chosen)),
        },
    })
}

/// Lists the searches of reasons, each with the index of its reason.
fn evidence_of(reasons: &[(String, Option<Evidence>)]) -> Vec<Evidence> {
    let placed = |(reason, (_, own)): (usize, &(String, Option<Evidence>))| Some(Evidence { reason, ..own.clone()? });
    reasons.iter().enumerate().filter_map(placed).collect()
}

/// Returns the best plan on each of the stacks that the problem compares.
fn stack_choices(problem: &Problem, job: &JobSpec, solved: &Solved<'_>) -> Vec<StackChoice> {
    let Solved { prepared, found, aim, .. } = solved;
    let stacks = problem.place.stacks();
    if stacks.len() < 2 {
        return Vec::new();
    }
    let own = found.best.first().map(|plan| &problem.place.software(plan.choice).name);
    let choice = |(index, stack): (usize, &Stack)| {
        let recommended = own == Some(&stack.name);
        let best = if recommended {
            found.best.first().cloned()
        } else {
            let of_stack = Aim { top: 1, stack: Some(index), ..*aim };
            choose(prepared, problem, of_stack, prepared.search(of_stack)).best.into_iter().next()
        };
        let reason = best.is_none().then(|| "no plan of it fits, or meets deadline and budget".into());
        StackChoice {
            stack: stack.name.clone(),
            best: best.as_ref().map(|best| runner_up(problem, job, best)),
            reason,
            recommended,
        }
    };
    stacks.iter().enumerate().map(choice).collect()
}

/// Returns the error for a held field that none of the job's stacks can run.
fn unable(problem: &Problem, fixed: &Fixed) -> Option<NoPlan> {
    let divisible = problem.model.graph().divisible();
    let stacks = problem.place.stacks();
    if let Some(held) = fixed.stack.as_ref().filter(|held| stacks.iter().all(|stack| stack.name != **held)) {
        let known = problem.place.catalog().stacks().iter().any(|stack| stack.name == *held);
        let others = if known { vec![held.clone()] } else { Vec::new() };
        let stacks = "is none of the stacks of this job".into();
        return Some(NoPlan::Unable { field: "stack".into(), value: held.clone(), stacks, others });
    }
    let machines = (0..problem.place.choices().len()).map(|choice| problem.place.machine(choice, 1, None));
    let softwares = machines.map(|machine| executable_on(&machine).expect("stacks are checked where a job is read"));
    let refusals: Option<Vec<NotExecutable>> = softwares.map(|software| refused(fixed, &software, divisible)).collect();
    let NotExecutable { field, value, allowed } = refusals?.into_iter().next()?;
    let able =
        |software: &Executable| refused(fixed, software, divisible).is_none() && trains(software, &problem.model);
    let names: Vec<&str> = stacks.iter().map(|stack| stack.name.as_str()).collect();
    let others = names_of_those_that(problem.place.catalog().stacks(), able);
    let stacks = match names.as_slice() {
        [one] => format!("{one} does not run: it runs {allowed}"),
        several => format!("none of the stacks of this job runs: {}", several.join(", ")),
    };
    Some(NoPlan::Unable { field: field.into(), value, stacks, others })
}

/// The explanation of a recommendation: everything that is reported of it besides the plan.
struct Told {
    /// Reasons for this plan over others, each with the search that it rests on.
    reasons: Vec<(String, Option<Evidence>)>,
    /// Sentences on what bounds the plan, what made it fit, and what would change the decision.
    bounds: Vec<String>,
    changes: Vec<Change>,
    remedies: Vec<Remedy>,
    precisions: Vec<PrecisionChoice>,
    batches: Vec<BatchChoice>,
}

impl Told {
    /// Explains the first of the plans found.
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
        let reasons = Reasons {
            problem,
            fixed,
            chosen,
            found,
            other_gpu: other_gpu.as_ref(),
            tried: &tried,
            asked: RefCell::default(),
        }
        .all();
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
        top: limits.top.max(1),
        max_simulations: limits.max_simulations,
        within: Within::Goal,
        ..Aim::best(problem.objective)
    }
}

/// Computes the plan that minimizes the job's objective to the last digit. [`recommend`] may prefer another plan whose
/// predicted difference from it is too small to be certain.
///
/// # Errors
///
/// When there is no plan at all.
pub fn optimum(problem: &Problem, limits: &Limits) -> Result<Alternative, NoPlan> {
    let prepared = Prepared::new(problem, &limits.fixed);
    let (found, _) = best_found(&prepared, problem, aim(problem, limits));
    found.best.first().map(alternative).ok_or_else(|| no_plan(problem, limits, &found))
}

/// Returns the plan that [`recommend`] recommends, without the document.
pub(crate) fn best(problem: &Problem, limits: &Limits) -> Result<Evaluated, NoPlan> {
    let found = solve(problem, limits).found;
    found.best.first().cloned().ok_or_else(|| no_plan(problem, limits, &found))
}

/// The best plan on each type and number of machines that pays off, and the effort of finding them.
#[derive(Clone, Debug)]
pub struct OnEach {
    /// By type, then by number.
    pub best: Vec<Evaluated>,
    /// Plans in the spaces that were searched.
    pub candidates: u64,
    /// Plans that were simulated.
    pub simulated: u64,
    /// Fields that were held.
    pub limits: Limits,
}

/// More machines of a type pay off if they take at most this much of the time of fewer.
const WORTH_WHILE: f64 = 0.95;

/// Finds the best plan on each type and number of machines, without deadline and budget. Larger numbers that are hardly
/// faster than smaller ones are left out: they cost more and leave less to other jobs. Where twice as many do not pay
/// off, no more are tried: there communication takes what they save, and it grows with them.
///
/// # Errors
///
/// When there is no plan on any of them.
pub fn on_each(problem: &Problem, limits: &Limits) -> Result<OnEach, NoPlan> {
    let wanted = |name: &String| limits.fixed.instance.as_ref().is_none_or(|held| held == name);
    let types = problem.place.types();
    let types: Vec<OnEach> =
        types.par_iter().filter(|(name, _)| wanted(name)).map(|own| on_type(problem, limits, own)).collect();
    let none = OnEach { best: Vec::new(), candidates: 0, simulated: 0, limits: limits.clone() };
    let all = types.into_iter().fold(none, |mut all, own| {
        all.best.extend(own.best);
        all.candidates += own.candidates;
        all.simulated += own.simulated;
        all
    });
    if all.best.is_empty() {
        let found = search(problem, &limits.fixed, aim(problem, limits));
        return Err(no_plan(problem, limits, &found));
    }
    Ok(all)
}

/// Does the same for one type: a search for each number, within the time that it may take at most.
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
            // The time around the steps hardly depends on the number of machines.
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

/// The plans that a search found, with the space and the aim.
pub(crate) struct Solved<'a> {
    pub(crate) prepared: Prepared<'a>,
    /// The recommended plan first, then the best on other machines.
    pub(crate) found: Found,
    /// The aim with which it was found: where nothing meets the deadline and the budget, that of the nearest miss.
    aim: Aim,
    /// The plans found for the other objective, if it was searched at the same time.
    other: Option<Found>,
}

/// Searches with `aim`; if no plan meets the deadline and the budget, searches for the nearest miss until an aim finds
/// a plan. Returns the plans with the aim that found them.
fn best_found(prepared: &Prepared<'_>, problem: &Problem, aim: Aim) -> (Found, Aim) {
    let mut found = (prepared.search(aim), aim);
    if problem.deadline.is_none() && problem.budget.is_none() {
        return found;
    }
    let mut nearest = nearest(problem.deadline, problem.budget).iter();
    while found.0.best.is_empty()
        && let Some(&(objective, within)) = nearest.next()
    {
        let aim = Aim { objective, within, ..aim };
        found = (prepared.search(aim), aim);
    }
    found
}

/// Searches for the job's objective and, if a search may stop without a proof (a draft), for the other objective at the
/// same time.
pub(crate) fn solve<'a>(problem: &'a Problem, limits: &Limits) -> Solved<'a> {
    let prepared = Prepared::new(problem, &limits.fixed);
    let seek = || best_found(&prepared, problem, aim(problem, limits));
    let ((found, aim), other) = match problem.enough {
        None => (seek(), None),
        Some(_) => rayon::join(seek, || search_for_front(&prepared, problem, limits)),
    };
    let found = choose(&prepared, problem, aim, found);
    Solved { prepared, found, aim, other }
}

/// The amount by which a plan misses the deadline or the budget, and the other of the two: for a missed deadline the
/// budget with the plan's cost, for a missed budget the deadline, which is kept.
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

/// Explains why the recommended plan misses the deadline or the budget; `None` if it meets them.
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

/// Explains why a plan chosen by hand misses the deadline or the budget; `None` if it meets them.
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

/// Searches for the objective that is not the job's; `None` for owned machines, where both objectives are the same.
fn search_for_front(prepared: &Prepared<'_>, problem: &Problem, limits: &Limits) -> Option<Found> {
    if !matches!(problem.place, Place::Rented(_)) {
        return None;
    }
    let objective = match problem.objective {
        Objective::Cost => Objective::Time,
        Objective::Time => Objective::Cost,
    };
    let max_simulations = limits.max_simulations;
    Some(prepared.search(Aim { max_simulations, ..Aim::best(objective) }))
}

/// Collects plans among which is the Pareto front of time and cost: of this search and of one for the other objective,
/// the fastest and the best of each number of machines.
pub(crate) fn candidates_of_front(problem: &Problem, solved: &Solved<'_>, limits: &Limits) -> Vec<Evaluated> {
    let Solved { prepared, found, other, .. } = solved;
    let later = other.is_none().then(|| search_for_front(prepared, problem, limits)).flatten();
    let all = [Some(found), other.as_ref(), later.as_ref()].into_iter().flatten();
    all.flat_map(|found| found.best.iter().chain(&found.fastest).chain(found.optimum.as_deref())).cloned().collect()
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
            instances: problem.place.types().iter().map(|(_, most)| *most).max().unwrap_or(1),
        },
        None => NoPlan::Unmeasured,
    }
}

/// Says what excludes every plan: the machines, one of the held fields, or the batch.
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
    if let Some((field, value, _)) = fixed.each().into_iter().find(|(_, _, rest)| excludes(rest)) {
        // A range is tried at its lower end and at doublings of it, which the user may not expect.
        let tried = match batches.len() {
            0 | 1 => String::new(),
            _ => format!("; of the range, global batches {} were tried", batches.join(", ")),
        };
        let key = field.name();
        return format!(
            "without {key} {value} there would be plans, but with it nothing divides evenly or is left{tried}"
        );
    }
    format!(
        "with global batch {} and the held fields, data × tensor × pipeline × context cannot use every device evenly",
        batches.join(", ")
    )
}
