//! The time and cost of a plan that is laid out, on some machines.

use crate::cost::{Overheads, Work};
use crate::problem::{ForwardTimes, Problem};
use std::sync::Arc;
use trainyard_plan::document::CostParts;
use trainyard_plan::{Plan, StepSize};
use trainyard_sim::{Intake, LoaderRates, Machine, Outcome, step_time};
use trainyard_units::{Bytes, Seconds, UsdPerHour, human_count};

/// Plans with longer simulations than this are not simulated again: together they would take as long as a search.
const TASKS_MAX: u64 = 8192;

const RANKS_MAX: u32 = 4096;

/// The time and cost of a training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Totals {
    /// Seconds of a step, including waiting for samples.
    pub(crate) step_time_s: f64,
    /// Seconds of all steps.
    pub(crate) time_s: f64,
    /// Seconds from the request for machines to the last checkpoint.
    pub(crate) elapsed_s: f64,
    /// Price of the training and its overheads, in USD.
    pub(crate) cost_usd: Option<f64>,
}

impl Totals {
    /// Returns the totals of a plan that a search found.
    pub(crate) fn found(evaluated: &Evaluated) -> Self {
        let Evaluated { step_time_s, time_s, elapsed_s, cost_usd, .. } = *evaluated;
        Self { step_time_s, time_s, elapsed_s, cost_usd }
    }

    /// Simulates any plan on any machines of a type of the problem; `None` if the machine does not admit the plan, or
    /// cannot load its samples.
    pub(crate) fn simulated(problem: &Problem, plan: &Plan, choice: usize, machine: &Machine) -> Option<Self> {
        let step = step_time(plan, machine).ok()?;
        let steps = problem.training.steps(plan.batch().global);
        let (step_time_s, time_s, download) = match (plan.input(), &problem.data) {
            (Some(input), Some(data)) => {
                let intake = Intake { mesh: plan.mesh(), global_batch: plan.batch().global };
                let supply = LoaderRates::new(intake, machine, &data.set, input).ok()?.of_equal_samples();
                let feed = supply.feed(step, steps);
                (feed.step_time.0, feed.time.0, feed.download)
            }
            _ => (step.0, step.0 * steps as f64, Seconds(0.0)),
        };
        let forward = problem.forward_passes(plan.batch().global).times_of(plan, machine).ok()?;
        let Some(price) = problem.place.price(choice) else {
            return Some(Self { step_time_s, time_s, elapsed_s: time_s + forward.total().0, cost_usd: None });
        };
        let overheads = Overheads::of_plan(problem, plan, machine, price);
        let spent = overheads.training_cost(steps, Work { steps: Seconds(time_s), forward, download });
        let storage = plan.input().map(|input| input.storage);
        let cost_usd = Some(overheads.cost(&spent, price.hourly(), storage).total());
        Some(Self { step_time_s, time_s, elapsed_s: spent.elapsed().0, cost_usd })
    }

    /// Returns the smaller of the two in each figure.
    pub(crate) fn least(self, other: Self) -> Self {
        let cost_usd = [self.cost_usd, other.cost_usd].into_iter().flatten().min_by(f64::total_cmp);
        Self {
            step_time_s: self.step_time_s.min(other.step_time_s),
            time_s: self.time_s.min(other.time_s),
            elapsed_s: self.elapsed_s.min(other.elapsed_s),
            cost_usd,
        }
    }
}

impl Evaluated {
    /// Computes the cost over `steps` steps, with overheads at a price of one machine.
    pub(crate) fn cost(&self, overheads: &Overheads, steps: u64, hourly: UsdPerHour) -> CostParts {
        let spent = overheads.training_cost(steps, self.work());
        overheads.cost(&spent, hourly, self.plan.input().map(|input| input.storage))
    }

    /// Returns the work of the training.
    pub(crate) fn work(&self) -> Work {
        Work { steps: Seconds(self.time_s), forward: self.forward, download: Seconds(self.download_s) }
    }

    /// Returns the machines that the plan is for.
    pub(crate) fn machine(&self, problem: &Problem) -> Machine {
        problem.place.machine_of(self.choice, &self.plan)
    }

    /// Names those machines: `48 × p4d.24xlarge`.
    pub(crate) fn machines(&self) -> String {
        let cluster = self.plan.cluster();
        format!("{} × {}", human_count(cluster.instances.into()), cluster.instance)
    }
}

/// Returns `true` if simulating a plan a few more times is quick.
pub(crate) fn is_quick(plan: &Plan) -> bool {
    let tasks = StepSize::of(plan.spec(), plan.graph().len()).tasks();
    tasks <= TASKS_MAX && plan.mesh().ranks() <= RANKS_MAX
}

/// A plan with what it takes.
#[derive(Clone, Debug)]
pub struct Evaluated {
    pub plan: Plan,
    /// Index among the choices of the place: a type of machine with a stack.
    pub(crate) choice: usize,
    /// Seconds of a step, including waiting for samples.
    pub step_time_s: f64,
    /// Seconds of all steps.
    pub time_s: f64,
    /// Seconds from the request for machines to the last checkpoint.
    pub elapsed_s: f64,
    /// Forward passes besides the steps.
    pub(crate) forward: ForwardTimes,
    /// Seconds of downloading before the first step.
    pub download_s: f64,
    /// Price of the training and its overheads, in USD.
    pub cost_usd: Option<f64>,
    /// Memory needed by the rank that needs most.
    pub memory_peak: Bytes,
    /// The whole simulated step, if a search kept it.
    pub(crate) outcome: Option<Arc<Outcome>>,
}
