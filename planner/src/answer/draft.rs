//! A plan without its reasons: what is shown while a job is still being changed.

use super::limits::Limits;
use super::no_plan::{NoPlan, no_plan};
use super::pareto::front;
use super::solve::{alone, candidates_of_front, prediction, short_jobs, solve};
use super::warnings::Warnings;
use crate::missed::missed_goal;
use crate::problem::Problem;
use trainyard_plan::document::{PlanDocument, Search};
use trainyard_plan::{JobSpec, Timeline};

/// A plan without reasons, with its simulated step.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The plan, its prediction, and the Pareto front of time and cost as far as the search met it.
    pub document: PlanDocument,
    /// One step, on the first rank of each stage.
    pub timeline: Timeline,
}

/// Finds a plan near the one that [`crate::recommend`] recommends, in a small part of the time, without runners-up,
/// reasons, remedies, and what would change the decision. The search ends when it has found a good plan; `search.gap`
/// says how much better one could still be among the plans that it considers: those on the most machines allowed, on
/// powers of two, and on half as many again, with micro-batches of powers of two.
///
/// # Errors
///
/// As [`crate::recommend`].
pub fn draft(problem: &Problem, limits: &Limits, job: &JobSpec) -> Result<Draft, NoPlan> {
    let problem = &problem.briefly();
    let limits = &Limits { top: 1, ..limits.clone() };
    let solved = solve(problem, limits);
    let found = &solved.found;
    let Some(chosen) = found.best.first() else { return Err(no_plan(problem, limits, found)) };
    let (prediction, outcome) = prediction(problem, job, chosen).map_err(NoPlan::Unpriced)?;
    if let Some(refused) = short_jobs(problem, chosen) {
        return Err(refused);
    }
    let warnings =
        Warnings { problem, job, plan: &chosen.plan, choice: chosen.choice, prediction: &prediction, limits: None }
            .all();
    let pareto = front(problem, job, candidates_of_front(problem, &solved, limits));
    if problem.is_cancelled() {
        return Err(NoPlan::Cancelled);
    }
    let search = Search { candidates: found.candidates, simulated: found.simulated, gap: found.gap, left_out: None };
    let document = PlanDocument { warnings, pareto, ..alone(job.clone(), &chosen.plan, prediction, search) };
    let document = PlanDocument { missed: missed_goal(&document), ..document };
    Ok(Draft { document, timeline: outcome.timeline().into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::recommend;
    use crate::asking;
    use crate::cancellation::Cancellation;
    use trainyard_plan::Objective;

    fn job(model: &str, most: u32) -> JobSpec {
        let mut job = asking::job(model, 64, &["p3.*", "g4dn.12xlarge"], most);
        job.data.samples = Some(100_000);
        job
    }

    #[test]
    fn a_draft_is_as_near_to_the_best_plan_as_its_gap_says() {
        for objective in [Objective::Cost, Objective::Time] {
            let mut job = job("gpt2-large", 4);
            job.goal.objective = Some(objective);
            let problem = asking::solvable(&job);
            let draft = draft(&problem, &Limits::default(), &job).expect("a plan").document;
            let best = recommend(&problem, &Limits { top: 1, ..Limits::default() }, &job).expect("a plan");
            let worth = |time_s: f64, cost_usd: Option<f64>| match objective {
                Objective::Cost => cost_usd.expect("rented machines cost"),
                Objective::Time => time_s,
            };
            let found = worth(draft.prediction.elapsed_s(), draft.prediction.cost_usd);
            let least = best.optimum.as_ref().map_or_else(
                || worth(best.prediction.elapsed_s(), best.prediction.cost_usd),
                |optimum| worth(optimum.time_s, optimum.cost_usd),
            );
            assert!(least <= found * (1.0 + 1e-9), "{objective:?}");
            assert!(found * (1.0 - draft.search.gap) <= least * (1.0 + 1e-9), "{objective:?}");
            assert!(draft.search.simulated <= best.search.simulated.max(4));
        }
    }

    #[test]
    fn a_draft_finds_a_plan_where_few_are_within_the_goal() {
        let mut job = job("gpt2-large", 4);
        let free = asking::solvable(&job);
        job.goal.objective = Some(Objective::Time);
        let fast = asking::solvable(&job);
        let fastest = recommend(&fast, &Limits { top: 1, ..Limits::default() }, &job).expect("a plan");
        job.goal.objective = None;
        job.goal.deadline = Some(format!("{} s", fastest.prediction.elapsed_s() * 1.01));
        let tight = asking::solvable(&job);
        assert!(free.deadline.is_none() && tight.deadline.is_some());
        let found = draft(&tight, &Limits::default(), &job).expect("a plan");
        assert_eq!(found.document.missed, None);
    }

    #[test]
    fn a_cancelled_search_finds_nothing() {
        let job = job("gpt2", 2);
        let cancellation = Cancellation::default();
        let problem = asking::solvable(&job).until(cancellation.clone());
        assert!(draft(&problem, &Limits::default(), &job).is_ok());
        cancellation.cancel();
        assert_eq!(draft(&problem, &Limits::default(), &job).err(), Some(NoPlan::Cancelled));
        assert_eq!(recommend(&problem, &Limits::default(), &job).err(), Some(NoPlan::Cancelled));
    }
}
