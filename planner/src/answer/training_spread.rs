//! How long a training of a plan may take, as far as predictions may be off.

use super::OnMachines;
use super::solve::prediction;
use crate::cost::{Overheads, TrainingCost, Work, spread_of};
use crate::problem::Problem;
use trainyard_plan::JobSpec;
use trainyard_sim::campaign::SplitLognormal;
use trainyard_units::{Invalid, Seconds};

/// The time of a training by how far its prediction is off. Where a training is to reach a target, its number of steps is the
/// predicted one.
#[derive(Clone, Debug)]
pub struct TrainingSpread {
    spread: SplitLognormal,
    overheads: Option<Overheads>,
    steps: u64,
    work: Work,
}

impl TrainingSpread {
    /// Returns the time of the training on machines that have started, as [`OnMachines::training`] is, if steps take as much longer than
    /// predicted as they do so many standard deviations off.
    pub fn training(&self, deviations: f64) -> Seconds {
        let factor = self.spread.logarithm(deviations).exp();
        let work = Work { steps: Seconds(factor * self.work.steps.0), ..self.work };
        TrainingCost::of(self.overheads.as_ref(), self.steps, work).training()
    }
}

impl OnMachines {
    /// Returns how long the training may take.
    ///
    /// # Errors
    ///
    /// When the plan cannot be predicted.
    pub fn spread(&self, problem: &Problem, job: &JobSpec) -> Result<TrainingSpread, Invalid> {
        let (expected, _) = prediction(problem, job, &self.best)?;
        let plan = &self.best.plan;
        Ok(TrainingSpread {
            spread: spread_of(&expected),
            overheads: Overheads::of_plan(problem, plan, &self.best.machine(problem), self.best.choice),
            steps: problem.training.steps(plan.batch().global),
            work: self.best.work(),
        })
    }
}
