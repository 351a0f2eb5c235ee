//! The recommendation: the best plan, its reasons, its runners-up, and what was not possible.

use super::advice::Advice;
use super::bound_by::bound_by;
use super::changes::Changes;
use super::goal::to_meet_goal;
use super::left_out::left_out;
use super::limits::Limits;
use super::methods::methods;
use super::no_plan::{NoPlan, no_plan};
use super::own_machines::unused;
use super::pareto::front;
use super::price_dates::price_dates;
use super::reasons::{Reasons, other_gpu};
use super::rejected::Rejections;
use super::remedies::{Remedies, remedy_reason};
use super::solve::{Solved, alternative, candidates_of_front, chosen, fewest_gpu_hours, prediction, short_jobs, solve};
use super::tuning::{Tuning, batch_reason};
use super::unlikely::Unlikely;
use super::warnings::Warnings;
use crate::missed::missed_goal;
use crate::problem::{Problem, executable};
use crate::search::{Aim, Evaluated, Found, Prepared, preferred};
use std::sync::Arc;
use std::sync::Mutex;
use trainyard_hardware_profiles::Stack;
use trainyard_plan::JobSpec;
use trainyard_plan::document::{
    BatchChoice, Change, Evidence, PLAN_SCHEMA, PlanDocument, PrecisionChoice, Prediction, Remedy, Search, StackChoice,
};
use trainyard_sim::Outcome;

/// Computes the best plan for a problem, with everything a reader needs to believe it. `job` is copied into the
/// document.
///
/// If no plan meets the deadline and the budget, the document holds the one that comes nearest, and [`crate::missed_goal`]
/// says so.
///
/// # Errors
///
/// When there is no plan at all.
pub fn recommend(problem: &Problem, limits: &Limits, job: &JobSpec) -> Result<PlanDocument, NoPlan> {
    let solved = solve(problem, limits);
    let Solved { prepared, found, .. } = &solved;
    let Some(chosen) = found.best.first().cloned() else { return Err(no_plan(problem, limits, found)) };
    let (prediction, outcome) = prediction(problem, job, &chosen).map_err(NoPlan::Unpriced)?;
    if !prediction.makes_progress() {
        return Err(NoPlan::NoProgress);
    }
    if let Some(refused) = short_jobs(problem, &chosen) {
        return Err(refused);
    }
    // Searches that do not need each other.
    let pareto = || {
        let unlikely = Unlikely { problem, job, chosen: &chosen, own: &prediction };
        let mut all = candidates_of_front(problem, &solved, limits);
        all.extend(unlikely.surer(prepared));
        let front = front(problem, job, all.clone());
        let warning = unlikely.warning(all, &front);
        (front, warning)
    };
    let stacks = || stack_choices(problem, &solved);
    let methods = || methods(problem, limits, job, &chosen);
    let left_out = || left_out(problem, limits, job, (found, &chosen));
    let ((told, thrifty), (((pareto, unlikely), stacks), (methods, left_out))) = rayon::join(
        || {
            let told = || Told::new(prepared, problem, limits, found, (&prediction, &outcome));
            rayon::join(told, || fewest_gpu_hours(prepared, problem, limits))
        },
        || rayon::join(|| rayon::join(pareto, stacks), || rayon::join(methods, left_out)),
    );
    let is_new = |plan: &Evaluated| found.best.iter().all(|other| other.plan != plan.plan);
    let others = found.best.iter().skip(1).chain(thrifty.as_ref().filter(|plan| is_new(plan)));
    let evidence = evidence_of(&told.reasons);
    let mut reasons: Vec<String> = told.reasons.into_iter().map(|(text, _)| text).collect();
    let changes = told.changes;
    let advice = Advice::new(problem, &chosen, &prediction);
    reasons.extend(advice.as_ref().and_then(Advice::reason));
    reasons.extend(told.further);
    let first = advice.and_then(|advice| advice.warning()).into_iter().chain(unlikely);
    let warnings = first.chain(warnings(problem, limits, job, (found, &chosen, &prediction))).collect();
    let (fixed, least, top) = (&limits.fixed, &prepared.least_by_kind(), limits.top.max(1));
    let rejections = Rejections { problem, fixed, found, least, chosen: &chosen, top };
    let rejected = rejections.all(job);
    if problem.is_cancelled() {
        return Err(NoPlan::Cancelled);
    }
    let document = PlanDocument {
        schema: PLAN_SCHEMA.into(),
        job: job.clone(),
        warnings,
        plan: chosen.plan.spec().clone(),
        prediction,
        reasons,
        evidence,
        missed: None,
        to_meet_goal: to_meet_goal(problem, limits, job, &chosen),
        alternatives: others.map(alternative).collect(),
        optimum: found.optimum.as_deref().map(alternative),
        stacks,
        pareto,
        rejected,
        changes,
        remedies: told.remedies,
        precisions: told.precisions,
        methods,
        batches: told.batches,
        search: Search { candidates: found.candidates, simulated: found.simulated, gap: found.gap, left_out },
    };
    Ok(PlanDocument { missed: missed_goal(&document), ..document })
}

/// Lists what to be careful about with a plan that was found, and with what it was chosen from.
fn warnings(
    problem: &Problem,
    limits: &Limits,
    job: &JobSpec,
    (found, chosen, prediction): (&Found, &Evaluated, &Prediction),
) -> Vec<String> {
    let of_plan =
        Warnings { problem, job, plan: &chosen.plan, choice: chosen.choice, prediction, limits: Some(limits) };
    let of_search = unused(problem, limits, chosen).into_iter().chain(price_dates(problem, limits, (found, chosen)));
    of_search.chain(of_plan.all()).collect()
}

/// Lists the searches of reasons, each with the index of its reason.
fn evidence_of(reasons: &[(String, Option<Evidence>)]) -> Vec<Evidence> {
    let placed = |(reason, (_, own)): (usize, &(String, Option<Evidence>))| Some(Evidence { reason, ..own.clone()? });
    reasons.iter().enumerate().filter_map(placed).collect()
}

/// Returns the best plan on each of the stacks that the problem compares.
fn stack_choices(problem: &Problem, solved: &Solved<'_>) -> Vec<StackChoice> {
    let Solved { prepared, found, aim, .. } = solved;
    let stacks = problem.place.stacks();
    if stacks.len() < 2 {
        return Vec::new();
    }
    let own = found.best.first().map(|plan| &problem.place.software(plan.choice).name);
    let choice = |(index, stack): (usize, &Arc<Stack>)| {
        let recommended = own == Some(&stack.name);
        let (best, is_certain) = if recommended {
            (found.best.first().cloned(), true)
        } else {
            let of_stack = Aim { top: 1, stack: Some(index), ..*aim };
            let own = chosen(prepared, problem, of_stack, prepared.search(of_stack));
            (own.best.into_iter().next(), own.gap == 0.0)
        };
        let reason = best.is_none().then(|| {
            if prepared.loads_too_much(&stack.name) {
                "its ranks load more than fits into main memory".into()
            } else if is_certain {
                format!("no plan of it fits{}", problem.and_meets_goal())
            } else {
                "the search stopped before it found a plan of it".into()
            }
        });
        StackChoice { stack: stack.name.clone(), best: best.as_ref().map(alternative), reason, recommended }
    };
    let runs =
        |(_, stack): &(usize, &Arc<Stack>)| executable(stack).is_ok_and(|software| software.trains(problem.kind()));
    stacks.iter().enumerate().filter(runs).map(choice).collect()
}

/// The explanation of a recommendation: everything that is reported of it besides the plan.
struct Told {
    /// Reasons for this plan over others, each with the search that it rests on.
    reasons: Vec<(String, Option<Evidence>)>,
    /// Sentences on what made the plan fit, and what would change the decision.
    further: Vec<String>,
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
        let ((tried, batches), other_gpu) =
            rayon::join(|| (tuning.tried(), tuning.batches()), || other_gpu(prepared, problem, fixed, found));
        let reasons = Reasons {
            problem,
            fixed,
            chosen,
            found,
            other_gpu: other_gpu.as_ref(),
            tried: &tried,
            preferred: found.optimum.as_deref().and_then(|optimum| preferred(problem, chosen, optimum)),
            bound: bound_by(
                &chosen.plan,
                &chosen.machine(problem),
                outcome,
                prediction,
                problem.data.as_ref().map(|data| &data.set),
            ),
            asked: Mutex::default(),
        }
        .all();
        let remedies = Remedies::new(problem, fixed, chosen).all();
        let (changes, would_change) = Changes::new(problem, chosen, found, other_gpu.as_ref()).all();
        let open = problem.global_batches.are_open();
        let further = [remedy_reason(&remedies), batch_reason(&batches, problem.training).filter(|_| open)];
        let further = further.into_iter().flatten().chain(would_change).collect();
        Self { reasons, further, changes, remedies, precisions: tuning.precisions(&tried), batches }
    }
}
