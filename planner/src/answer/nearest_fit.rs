//! The plan that comes nearest to fitting into memory, where none does. A search only knows bounds of what plans need; with
//! larger devices it finds a plan, and that is what the smallest amount of memory is told from.

use crate::edits::{MachineChange, Part, Setting};
use crate::problem::Problem;
use crate::search::{Aim, Evaluated, search};
use crate::shortfall::Shortfall;
use trainyard_plan::Fixed;
use trainyard_sim::footprint;

/// Multiples of the memory below which nothing fits that are tried until a plan fits.
const TIMES_TRIED: [f64; 6] = [1.0, 1.05, 1.2, 1.6, 3.0, 10.0];

/// How often the memory between what fits and what does not is halved then, at most.
const HALVINGS: usize = 4;

/// The ratio of the two at which that is near enough.
const NEAR_ENOUGH: f64 = 1.01;

/// Returns the plan that the search of a draft finds, whatever the deadline and the budget.
pub(super) fn fitting(problem: &Problem, fixed: &Fixed) -> Option<Evaluated> {
    let problem = Problem { deadline: None, budget: None, ..problem.briefly() };
    search(&problem, fixed, Aim::best(problem.objective)).best.into_iter().next()
}

/// Returns what the plan needs that comes nearest to fitting, to about a percent, given lower bounds of all plans; `None` if
/// no device is large enough.
pub(super) fn nearest_fit(problem: &Problem, fixed: &Fixed, bound: Shortfall) -> Option<Shortfall> {
    let mut below = bound.ratio();
    let mut nearest = None;
    for times in TIMES_TRIED {
        let larger = times * bound.ratio();
        nearest = on_larger(problem, fixed, larger);
        if nearest.is_some() {
            break;
        }
        below = larger;
    }
    let mut nearest = nearest?;
    for _ in 0..HALVINGS {
        if nearest.ratio() < NEAR_ENOUGH * below {
            break;
        }
        let middle = (below * nearest.ratio()).sqrt();
        match on_larger(problem, fixed, middle) {
            Some(nearer) => nearest = nearer,
            None => below = middle,
        }
    }
    Some(nearest)
}

/// Returns what a plan needs that fits on devices with so many times the memory, and what may be used of its own device.
fn on_larger(problem: &Problem, fixed: &Fixed, times: f64) -> Option<Shortfall> {
    let larger = MachineChange { part: Part::Memory, setting: Setting::Factor(times) };
    let place = problem.place.clone().changed(&[larger]);
    let found = fitting(&Problem { place, ..problem.clone() }, fixed)?;
    footprint(&found.plan, &found.machine(problem)).fits().err().map(Shortfall::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::NoPlan;
    use crate::asking;

    /// Larger devices by what is said, and not by two per cent less.
    #[test]
    fn with_the_memory_that_is_said_a_plan_fits() {
        let mut job = asking::job("llama-3-8b", 64, &["p5.48xlarge"], 1);
        job.data.tokens = Some(1e9);
        let problem = asking::solvable(&job);
        let fix = ["tp=2", "pp=1", "cp=1", "recompute=none", "micro_batch=2", "zero=optimizer"];
        let fixed = asking::held(&fix);
        let error = asking::answered(&problem, &job, &fix).expect_err("too much without recomputation");
        let NoPlan::OutOfMemory { bound, nearest: Some(nearest), .. } = error else { panic!("{error}") };
        assert!(nearest.needed >= bound.needed && nearest.available == bound.available, "{nearest:?}");
        let said: f64 = nearest.times().parse().expect("a number");
        assert!(on_larger(&problem, &fixed, said).is_some());
        assert!(on_larger(&problem, &fixed, said - 0.03).is_none());
    }
}
