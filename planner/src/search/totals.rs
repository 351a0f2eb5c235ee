//! The time and cost of a plan that is laid out, on some machines.

use crate::cost::{Overheads, TrainingCost, Work};
use crate::problem::{ForwardTimes, Hourly, Problem};
use std::sync::Arc;
use trainyard_plan::document::CostParts;
use trainyard_plan::{BatchSpec, Plan, StepSize, StorageMode};
use trainyard_sim::{Intake, LoaderRates, Machine, Outcome, step_time};
use trainyard_units::{Bytes, Seconds};

/// Plans with longer simulations than this are not simulated again: together they would take as long as a search.
const TASKS_MAX: u64 = 8192;

const RANKS_MAX: u32 = 4096;

/// What an hour of a GPU is worth in USD where machines have no price, so that more of them are not used for nothing: a
/// stated default, of the order of what large GPUs are rented for. It is never told.
const GPU_HOUR_USD: f64 = 2.0;

/// The time and cost of a training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Totals {
    /// Seconds of a step, including waiting for samples.
    pub(crate) step_time_s: f64,
    /// Seconds of all steps.
    pub(crate) time_s: f64,
    /// Seconds from the request for machines to the last checkpoint.
    pub(crate) elapsed_s: f64,
    /// Those of them in the scheduler's queue.
    pub(crate) queued_s: f64,
    /// Price of the training and its overheads, in USD.
    pub(crate) cost_usd: Option<f64>,
    /// That price or, without one, what the time is worth during which the GPUs are held, in USD.
    pub(crate) worth_usd: f64,
}

/// Time and cost of a plan's steps and of what surrounds them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Surrounded {
    pub(crate) elapsed_s: f64,
    /// Seconds in the scheduler's queue.
    pub(crate) queued_s: f64,
    pub(crate) cost_usd: Option<f64>,
}

impl Totals {
    /// Returns the totals of a plan that a search found.
    pub(crate) fn found(evaluated: &Evaluated) -> Self {
        let Evaluated { step_time_s, time_s, elapsed_s, queued_s, cost_usd, .. } = *evaluated;
        Self::new((step_time_s, time_s), Surrounded { elapsed_s, queued_s, cost_usd }, devices(&evaluated.plan))
    }

    /// Returns the totals of a training on so many devices, with the seconds of a step and of all steps.
    pub(crate) fn new((step_time_s, time_s): (f64, f64), surrounded: Surrounded, devices: u64) -> Self {
        let Surrounded { elapsed_s, queued_s, cost_usd } = surrounded;
        let held_s = elapsed_s - queued_s;
        let worth_usd = cost_usd.unwrap_or(devices as f64 * held_s / 3600.0 * GPU_HOUR_USD);
        Self { step_time_s, time_s, elapsed_s, queued_s, cost_usd, worth_usd }
    }

    /// Returns how many times as long as another one a training takes, without the time in the scheduler's queue that both
    /// wait: the choice between them does not change it.
    pub(crate) fn times_as_long_as(self, other: Self) -> f64 {
        let waited = self.queued_s.min(other.queued_s);
        (self.elapsed_s - waited) / (other.elapsed_s - waited)
    }

    /// Simulates any plan on any machines of a type of the problem; `None` if the machine does not admit the plan, or
    /// cannot load its samples.
    pub(crate) fn simulated(problem: &Problem, plan: &Plan, choice: usize, machine: &Machine) -> Option<Self> {
        let step = step_time(plan, machine).ok()?;
        let steps = problem.training.steps(plan.batch().global);
        let (step_time_s, time_s, download, requests) = match (plan.input(), &problem.data) {
            (Some(input), Some(data)) => {
                let BatchSpec { global: global_batch, micro: micro_batch, .. } = plan.batch();
                let intake = Intake { mesh: plan.mesh(), global_batch, micro_batch };
                let supply = LoaderRates::new(intake, machine, &data.set, input).ok()?.of_equal_samples();
                let feed = supply.feed(step, steps);
                (feed.step_time.0, feed.time.0, feed.download, feed.requests)
            }
            _ => (step.0, step.0 * steps as f64, Seconds(0.0), 0.0),
        };
        let forward = problem.forward_passes(plan.batch().global).times_of(plan, machine).ok()?;
        let overheads = Overheads::of_plan(problem, plan, machine, choice);
        let hourly = problem.place.hourly(choice, plan.cluster().instances);
        let storage = plan.input().map(|input| input.storage);
        let work = Work { steps: Seconds(time_s), forward, download, requests };
        let surrounded = Surrounded::of(overheads.as_ref(), hourly, steps, work, storage);
        Some(Self::new((step_time_s, time_s), surrounded, devices(plan)))
    }

    /// Returns the smaller of the two in each figure.
    pub(crate) fn least(self, other: Self) -> Self {
        let cost_usd = [self.cost_usd, other.cost_usd].into_iter().flatten().min_by(f64::total_cmp);
        Self {
            step_time_s: self.step_time_s.min(other.step_time_s),
            time_s: self.time_s.min(other.time_s),
            elapsed_s: self.elapsed_s.min(other.elapsed_s),
            queued_s: self.queued_s.min(other.queued_s),
            cost_usd,
            worth_usd: self.worth_usd.min(other.worth_usd),
        }
    }
}

impl Surrounded {
    /// Computes both for a training of so many steps, with overheads where they are known.
    pub(crate) fn of(
        overheads: Option<&Overheads>,
        hourly: Option<Hourly>,
        steps: u64,
        work: Work,
        storage: Option<StorageMode>,
    ) -> Self {
        let spent = TrainingCost::of(overheads, steps, work);
        let cost = hourly.map(|hourly| spent.cost(hourly, overheads, storage).total());
        Self { elapsed_s: spent.elapsed().0, queued_s: spent.queued.0, cost_usd: cost }
    }
}

impl Evaluated {
    /// Computes the cost over `steps` steps; `None` where machines have no price.
    pub(crate) fn cost(&self, problem: &Problem, overheads: Option<&Overheads>, steps: u64) -> Option<CostParts> {
        let hourly = problem.place.hourly(self.choice, self.plan.cluster().instances)?;
        let spent = TrainingCost::of(overheads, steps, self.work());
        Some(spent.cost(hourly, overheads, self.plan.input().map(|input| input.storage)))
    }

    /// Returns the work of the training.
    pub(crate) fn work(&self) -> Work {
        let (steps, download) = (Seconds(self.time_s), Seconds(self.download_s));
        Work { steps, forward: self.forward, download, requests: self.requests }
    }

    /// Returns the time of the training on machines that have started, to the last checkpoint, without reclaims: what
    /// [`trainyard_plan::document::Prediction::training_s`] is of a prediction.
    pub(crate) fn training(&self, problem: &Problem) -> Seconds {
        let work = self.work();
        let steps = problem.training.steps(self.plan.batch().global);
        let overheads = Overheads::of_plan(problem, &self.plan, &self.machine(problem), self.choice);
        TrainingCost::of(overheads.as_ref(), steps, work).training()
    }

    /// Returns the machines that the plan is for.
    pub(crate) fn machine(&self, problem: &Problem) -> Machine {
        problem.place.machine_of(self.choice, &self.plan)
    }

    /// Names those machines: `48 × p4d.24xlarge`.
    pub fn machines(&self) -> String {
        self.plan.cluster().to_string()
    }
}

/// Returns `true` if simulating a plan a few more times is quick.
pub(crate) fn is_quick(plan: &Plan) -> bool {
    let tasks = StepSize::of(plan.spec(), plan.graph().len()).tasks();
    tasks <= TASKS_MAX && plan.mesh().ranks() <= RANKS_MAX
}

/// Counts the devices that a plan keeps from other work: a measured machine is one, whatever its ranks share out.
fn devices(plan: &Plan) -> u64 {
    if plan.cluster().profile.is_some() { 1 } else { plan.mesh().ranks().into() }
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
    /// Those of them in the scheduler's queue.
    pub(crate) queued_s: f64,
    /// Forward passes besides the steps.
    pub(crate) forward: ForwardTimes,
    /// Seconds of downloading before the first step.
    pub download_s: f64,
    /// Requests that read samples from S3.
    pub(crate) requests: f64,
    /// Price of the training and its overheads, in USD.
    pub cost_usd: Option<f64>,
    /// Memory needed by the rank that needs most.
    pub memory_peak: Bytes,
    /// The whole simulated step, if a search kept it.
    pub(crate) outcome: Option<Arc<Outcome>>,
}
