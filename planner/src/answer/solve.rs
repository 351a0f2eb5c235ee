//! The search for the plan to recommend.

use super::limits::Limits;
use super::no_plan::{NoPlan, no_plan};
use crate::cost::{Overheads, Rent};
use crate::predict::{predict, predict_of};
use crate::problem::{Effort, Place, Problem, Rental};
use crate::search::{
    Aim, Evaluated, Found, Prepared, Space, Within, choose, choose_briefly, nearest, other, search, simplest_of_best,
};
use crate::shortfall::TooLarge;
use std::sync::Arc;
use trainyard_plan::document::{Alternative, PLAN_SCHEMA, PlanDocument, Prediction, Search};
use trainyard_plan::{Fixed, JobSpec, Objective, Plan};
use trainyard_sim::Outcome;
use trainyard_units::{Invalid, Seconds};

/// The largest space of plans of the job's own search with which other questions about its types, and the types that it
/// leaves out, are searched too. A stated default: that takes about as long as the job's own search.
pub(crate) const SEARCHED_MAX: u64 = 300_000;

/// The largest space of plans that is searched to the end although only a comparison is drawn from it: a stated default.
/// A short search missed the best of 90 plans by 44 %, and that of 20 000 by 32 %.
const SEARCHED_TO_THE_END_MAX: u64 = 100_000;

/// Returns the problem with the effort that a comparison is worth: searched to the end if its space is small, otherwise as
/// for a draft.
pub(super) fn worth_the_effort(problem: &Problem, fixed: &Fixed) -> Problem {
    let whole = Problem { effort: None, ..problem.clone() };
    let plans: u64 = Space::new(&whole, fixed).candidates().iter().map(|own| u64::from(own.plans)).sum();
    Problem { effort: (plans > SEARCHED_TO_THE_END_MAX).then_some(Effort::DRAFT), ..whole }
}

pub(crate) fn aim(problem: &Problem, limits: &Limits) -> Aim {
    Aim {
        top: limits.top.max(1),
        max_simulations: limits.max_simulations,
        within: Within::Goal,
        ..Aim::best(problem.objective)
    }
}

/// Computes the plan that minimizes the job's objective to the last digit. [`crate::recommend`] may prefer another plan
/// whose predicted difference from it is too small to be certain.
///
/// # Errors
///
/// When there is no plan at all.
pub fn optimum(problem: &Problem, limits: &Limits) -> Result<Alternative, NoPlan> {
    let prepared = Prepared::new(problem, &limits.fixed);
    let (found, _) = best_found(&prepared, problem, aim(problem, limits));
    found.best.first().map(alternative).ok_or_else(|| no_plan(problem, limits, &found))
}

/// Returns the plan that [`crate::recommend`] recommends, without the document.
pub(crate) fn best(problem: &Problem, limits: &Limits) -> Result<Evaluated, NoPlan> {
    best_and_optimum(problem, limits).map(|(best, _)| best)
}

/// Does the same, and returns the plan with the lowest objective too if that is another.
pub(crate) fn best_and_optimum(
    problem: &Problem,
    limits: &Limits,
) -> Result<(Evaluated, Option<Box<Evaluated>>), NoPlan> {
    let found = solve(problem, limits).found;
    let best = found.best.first().cloned().ok_or_else(|| no_plan(problem, limits, &found))?;
    if let Some(refused) = short_jobs(problem, &best) {
        return Err(refused);
    }
    Ok((best, found.optimum))
}

/// The plans that a search found, with the space and the aim.
pub(crate) struct Solved<'a> {
    pub(crate) prepared: Prepared<'a>,
    /// The recommended plan first, then the best on other machines.
    pub(crate) found: Found,
    /// The aim with which it was found: where nothing meets the deadline and the budget, that of the nearest miss.
    pub(super) aim: Aim,
    /// The plans found for the other objective, if it was searched at the same time.
    other: Option<Found>,
}

/// Searches with `aim`; if it is certain that no plan meets the deadline and the budget, searches for the nearest miss until
/// an aim finds a plan. Returns the plans with the aim that found them.
fn best_found(prepared: &Prepared<'_>, problem: &Problem, aim: Aim) -> (Found, Aim) {
    let mut found = (prepared.search(aim), aim);
    if problem.deadline.is_none() && problem.budget.is_none() {
        return found;
    }
    let mut nearest = nearest(problem.deadline, problem.budget).iter();
    // A search that was cut short says nothing about the plans that it did not see.
    while found.0.best.is_empty()
        && found.0.gap == 0.0
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
    let ((found, aim), other) = match problem.effort {
        None => (seek(), None),
        Some(_) => rayon::join(seek, || search_for_front(&prepared, problem, limits)),
    };
    let found = chosen(&prepared, problem, aim, found);
    Solved { prepared, found, aim, other }
}

/// Chooses among the plans near the best. Where none meets the goal the best is the nearest miss, and no other comes as
/// near.
pub(super) fn chosen(prepared: &Prepared<'_>, problem: &Problem, aim: Aim, found: Found) -> Found {
    let has_goal = problem.deadline.is_some() || problem.budget.is_some();
    if has_goal && aim.within != Within::Goal { found } else { choose(prepared, problem, aim, found) }
}

/// Predicts a plan that a search found, and returns its simulated step too.
pub(crate) fn prediction(
    problem: &Problem,
    job: &JobSpec,
    chosen: &Evaluated,
) -> Result<(Prediction, Arc<Outcome>), Invalid> {
    let (plan, machine) = (&chosen.plan, chosen.machine(problem));
    let steps = problem.training.steps(plan.batch().global);
    let data = problem.data.as_ref().map(|data| &data.set);
    let rent = Rent::new(job, plan, &machine, problem.place.price_used(chosen.choice))?;
    match &chosen.outcome {
        Some(outcome) => Ok((predict_of(plan, &machine, steps, job, rent.as_ref(), data, outcome)?, outcome.clone())),
        None => predict(plan, &machine, steps, job, rent.as_ref(), data)
            .map(|(prediction, outcome)| (prediction, Arc::new(outcome))),
    }
}

/// Returns the error for a limit of the scheduler's jobs in which even the best plan does not get on.
pub(crate) fn short_jobs(problem: &Problem, chosen: &Evaluated) -> Option<NoPlan> {
    problem.settings.job_limit?;
    let limit = problem.settings.job_limit_text.trim().to_owned();
    let overheads = Overheads::of_plan(problem, &chosen.plan, &chosen.machine(problem), chosen.choice)?;
    let least = overheads.least_limit(Seconds(chosen.step_time_s), chosen.work().download)?;
    Some(NoPlan::ShortJobs { limit, least })
}

/// Converts a plan into its form in a document.
pub(crate) fn alternative(evaluated: &Evaluated) -> Alternative {
    Alternative {
        plan: evaluated.plan.spec().clone(),
        step_time_s: evaluated.step_time_s,
        time_s: evaluated.elapsed_s,
        cost_usd: evaluated.cost_usd,
        price: None,
        memory_peak_bytes: evaluated.memory_peak.0,
    }
}

/// Returns the document of a plan that is not compared with others.
pub(crate) fn alone(job: JobSpec, plan: &Plan, prediction: Prediction, search: Search) -> PlanDocument {
    PlanDocument {
        schema: PLAN_SCHEMA.into(),
        job,
        plan: plan.spec().clone(),
        prediction,
        search,
        warnings: Vec::new(),
        reasons: Vec::new(),
        evidence: Vec::new(),
        missed: None,
        to_meet_goal: None,
        alternatives: Vec::new(),
        optimum: None,
        stacks: Vec::new(),
        pareto: Vec::new(),
        rejected: Vec::new(),
        changes: Vec::new(),
        remedies: Vec::new(),
        precisions: Vec::new(),
        methods: Vec::new(),
        batches: Vec::new(),
    }
}

/// Searches for the objective that is not the job's; `None` for machines without a price, where both objectives are the
/// same.
fn search_for_front(prepared: &Prepared<'_>, problem: &Problem, limits: &Limits) -> Option<Found> {
    if !problem.place.is_priced() {
        return None;
    }
    let max_simulations = limits.max_simulations;
    Some(prepared.search(Aim { max_simulations, ..Aim::best(other(problem.objective)) }))
}

/// Returns the plan of the fewest GPU-hours within the deadline on machines of a cluster file that have no price; `None` of
/// others, for which the front says it, and without a deadline.
pub(super) fn fewest_gpu_hours(prepared: &Prepared<'_>, problem: &Problem, limits: &Limits) -> Option<Evaluated> {
    problem.place.cluster_file().filter(|_| !problem.place.is_priced() && problem.deadline.is_some())?;
    let aim = Aim { max_simulations: limits.max_simulations, within: Within::Deadline, ..Aim::best(Objective::Cost) };
    simplest_of_best(prepared, aim)
}

/// Collects plans among which is the Pareto front of time and cost: of this search and of one for the other objective,
/// the fastest and the best of each number of machines.
pub(crate) fn candidates_of_front(problem: &Problem, solved: &Solved<'_>, limits: &Limits) -> Vec<Evaluated> {
    let Solved { prepared, found, other, .. } = solved;
    let later = other.is_none().then(|| search_for_front(prepared, problem, limits)).flatten();
    let all = [Some(found), other.as_ref(), later.as_ref()].into_iter().flatten();
    all.flat_map(|found| found.best.iter().chain(&found.fastest).chain(found.optimum.as_deref())).cloned().collect()
}

/// Searches with these fields held, without deadline and budget: what would be recommended comes first.
pub(crate) fn found_with(problem: &Problem, fixed: &Fixed) -> Found {
    let (prepared, aim) = (Prepared::new(problem, fixed), Aim::best(problem.objective));
    choose(&prepared, problem, aim, prepared.search(aim))
}

/// Returns the plan that would be recommended with these fields held, without deadline and budget, and the plans that do
/// not fit.
pub(crate) fn recommended(problem: &Problem, fixed: &Fixed) -> (Option<Evaluated>, Option<TooLarge>) {
    let found = found_with(problem, fixed);
    let too_large = found.too_large.into_values().next();
    (found.best.into_iter().next(), too_large)
}

/// Returns the plan that would be recommended on one type of other machines: the type on which a brief search finds the
/// best plan within the goal, in the number format of a plan.
pub(crate) fn recommended_on(
    problem: &Problem,
    limits: &Limits,
    others: &Rental,
    like: &Evaluated,
) -> Option<Evaluated> {
    let on = |rental: Rental| Problem { place: Place::Rented(Box::new(rental)), ..problem.clone() };
    let briefly = Problem { precisions: vec![like.plan.precision()], ..on(others.clone()).briefly() };
    let prepared = Prepared::new(&briefly, &limits.fixed);
    let found = choose_briefly(&prepared, Aim { top: 1, ..aim(&briefly, limits) })?;
    let kind = others.kind(found.choice);
    let (instances, most) = (vec![others.instances[kind].clone()], vec![others.most[kind]]);
    best(&on(Rental { instances, most, ..others.clone() }), &Limits { top: 1, ..limits.clone() }).ok()
}

/// Searches briefly for the best plan on other machines within the goal, in the number format of a plan.
pub(crate) fn briefly(problem: &Problem, limits: &Limits, others: Rental, like: &Evaluated) -> Option<Evaluated> {
    let problem = Problem {
        place: Place::Rented(Box::new(others)),
        precisions: vec![like.plan.precision()],
        ..problem.briefly()
    };
    let (objective, max_simulations) = (problem.objective, limits.max_simulations);
    let aim = Aim { max_simulations, within: Within::Goal, ..Aim::best(objective) };
    search(&problem, &limits.fixed, aim).best.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::recommend;
    use crate::asking;
    use trainyard_plan::{CampaignSpec, Method};

    fn job(objective: Objective, deadline: Option<f64>) -> JobSpec {
        let mut job = asking::job("gpt2-large", 64, &["p3.*", "g4dn.12xlarge"], 4);
        job.data.samples = Some(100_000);
        job.goal.objective = Some(objective);
        job.goal.deadline = deadline.map(|seconds| format!("{seconds} s"));
        job
    }

    #[test]
    fn a_plan_and_its_prediction_agree_on_the_time_of_the_training() {
        for method in [None, Some(Method::Lora)] {
            agree_on_the_time_of_the_training(method);
        }
    }

    fn agree_on_the_time_of_the_training(method: Option<Method>) {
        let mut job = job(Objective::Cost, None);
        job.training.method = method;
        let (node_mtbf, checkpoint_interval) = (Some("100 h".into()), Some("5 min".into()));
        job.campaign = Some(CampaignSpec { node_mtbf, checkpoint_interval, ..CampaignSpec::default() });
        let asked = asking::solvable(&job);
        let found = best(&asked, &Limits::default()).expect("a plan");
        let (predicted, _) = prediction(&asked, &job, &found).expect("a plan that was found is predicted");
        let (training, in_time) = (found.training(&asked).0, predicted.training_s());
        assert!(training > predicted.time_s && (training / in_time - 1.0).abs() < 1e-9, "{training} {in_time}");
        // Trained weights are read in two bytes each, which no storage does in a millisecond.
        assert_eq!(predicted.weights_s.is_some_and(|read| read > 1e-3), method.is_some(), "{:?}", predicted.weights_s);
    }

    #[test]
    fn a_search_that_is_cut_short_does_not_say_that_no_plan_meets_the_goal() {
        let limits = |max_simulations| Limits { max_simulations, ..Limits::default() };
        let asked = |job: &JobSpec| asking::solvable(job);
        let fastest = optimum(&asked(&job(Objective::Time, None)), &limits(None)).expect("a plan");
        let job = job(Objective::Cost, Some(1.001 * fastest.time_s));
        let whole = recommend(&asked(&job), &limits(None), &job).expect("the fastest plan meets the deadline");
        assert!(!whole.reasons[0].contains("stopped"), "{}", whole.reasons[0]);
        match recommend(&asked(&job), &limits(Some(1)), &job) {
            Err(error) => assert_eq!(error, NoPlan::Limited { limit: 1 }),
            Ok(found) => assert!(found.prediction.elapsed_s() <= 1.001 * fastest.time_s),
        }
        let job = self::job(Objective::Cost, None);
        let cut_short = recommend(&asked(&job), &limits(Some(1)), &job).expect("a plan");
        let told = &cut_short.reasons[0];
        assert!(told.contains("; stopped after 1 simulation: another plan could be "), "{told}");
    }
}
