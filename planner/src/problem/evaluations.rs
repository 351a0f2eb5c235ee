//! Forward passes of a training besides its steps: evaluations, and the scores of a reference model.

use super::training::epoch;
use trainyard_models::Model;
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{JobSpec, Plan, Reference, TuningObjective};
use trainyard_sim::{Machine, MachineError, evaluation_time};
use trainyard_units::{Invalid, Seconds};

/// By which part of itself a product of floats may be off.
const ROUNDING: f64 = 1e-9;

/// The interval and size of evaluations.
#[derive(Clone, Copy, Debug, PartialEq)]
struct EvaluationPlan {
    every: Every,
    samples: Amount,
}

/// The interval of evaluations.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Every {
    Steps(u64),
    Passes(f64, DataPass),
}

/// The samples of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Amount {
    Samples(u64),
    Share(f64, DataPass),
}

/// A pass over the data set.
#[derive(Clone, Copy, Debug, PartialEq)]
enum DataPass {
    /// So many samples.
    Samples(u64),
    /// This part of the training.
    Part(f64),
}

impl EvaluationPlan {
    /// Returns the steps from one evaluation to the next in a training of `steps` steps of `batch` samples, at least one.
    fn interval(&self, steps: u64, batch: u64) -> u64 {
        match self.every {
            Every::Steps(steps) => steps,
            Every::Passes(passes, pass) => {
                let of_pass = match pass {
                    DataPass::Samples(samples) => samples.div_ceil(batch) as f64,
                    DataPass::Part(part) => part * steps as f64,
                };
                ((passes * of_pass * (1.0 + ROUNDING)).floor() as u64).max(1)
            }
        }
    }

    /// Returns the samples of an evaluation, at least one.
    fn samples(&self, steps: u64, batch: u64) -> u64 {
        match self.samples {
            Amount::Samples(samples) => samples,
            Amount::Share(share, pass) => {
                ((share * pass.samples(steps, batch) as f64 * (1.0 - ROUNDING)).ceil() as u64).max(1)
            }
        }
    }
}

impl DataPass {
    fn samples(self, steps: u64, batch: u64) -> u64 {
        match self {
            Self::Samples(samples) => samples,
            Self::Part(part) => (part * steps as f64 * batch as f64).ceil() as u64,
        }
    }
}

/// What a job says of forward passes besides its steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ForwardPlan {
    evaluation: Option<EvaluationPlan>,
    /// The pass in which the scores of a reference model are computed before the first step.
    reference: Option<DataPass>,
}

impl ForwardPlan {
    /// Returns the forward passes of a training of `steps` steps of `batch` samples.
    pub(crate) fn passes(&self, steps: u64, batch: u64) -> ForwardPasses {
        let evaluations = self.evaluation.map(|own| Evaluations::new(own, steps, batch));
        // What the model is evaluated on is scored as well.
        let scored = |pass: DataPass| pass.samples(steps, batch) + evaluations.map_or(0, |own| own.samples);
        ForwardPasses { evaluations, reference: self.reference.map(scored) }
    }
}

/// Forward passes of a training besides its steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardPasses {
    pub evaluations: Option<Evaluations>,
    /// Samples that a reference model scores before the first step, where it does not in every step.
    pub reference: Option<u64>,
}

/// The time of these passes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ForwardTimes {
    /// All evaluations.
    pub evaluations: Seconds,
    /// The scores of the reference model.
    pub reference: Seconds,
}

impl ForwardTimes {
    pub(crate) fn total(self) -> Seconds {
        self.evaluations + self.reference
    }
}

impl ForwardPasses {
    /// Returns the time of all of them, if `once` is the time of a pass over so many samples.
    ///
    /// # Errors
    ///
    /// When `once` fails.
    pub(crate) fn times<E>(self, once: impl Fn(u64) -> Result<Seconds, E>) -> Result<ForwardTimes, E> {
        let none = || Ok(Seconds::ZERO);
        let evaluations = self.evaluations.map_or_else(none, |own| Ok(once(own.samples)? * own.count as f64))?;
        Ok(ForwardTimes { evaluations, reference: self.reference.map_or_else(none, once)? })
    }

    /// Returns the time of all of them with a plan on its machine.
    ///
    /// # Errors
    ///
    /// When the machine was not measured for the plan.
    pub(crate) fn times_of(self, plan: &Plan, machine: &Machine) -> Result<ForwardTimes, MachineError> {
        if self == Self::default() {
            return Ok(ForwardTimes::default());
        }
        self.times(|samples| evaluation_time(plan, machine, samples))
    }
}

/// Evaluations in the course of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evaluations {
    /// Steps from one to the next.
    pub interval: u64,
    /// How many there are.
    pub count: u64,
    /// Samples of each.
    pub samples: u64,
}

impl Evaluations {
    /// Returns the evaluations of a training of `steps` steps of `batch` samples: one after each whole interval.
    fn new(plan: EvaluationPlan, steps: u64, batch: u64) -> Self {
        let interval = plan.interval(steps, batch);
        Self { interval, count: steps / interval, samples: plan.samples(steps, batch) }
    }
}

/// Returns the forward passes that a job has besides its steps.
///
/// # Errors
///
/// When a value is out of range or contradicts another.
pub(crate) fn forward_plan(job: &JobSpec, model: &Model) -> Result<ForwardPlan, Invalid> {
    let epoch = epoch(job, model)?;
    let training = &job.training;
    let precomputed = training.dpo.and_then(|dpo| dpo.reference) == Some(Reference::Precomputed);
    let reference = precomputed && training.objective == Some(TuningObjective::Dpo);
    Ok(ForwardPlan {
        evaluation: evaluation(job, epoch)?,
        reference: reference.then(|| data_pass(job, epoch, "training.dpo.reference")).transpose()?,
    })
}

/// Returns the forward passes of a document's training besides its steps.
///
/// # Errors
///
/// When what its job says of them is out of range or contradicts itself.
pub fn forward_passes(document: &PlanDocument, plan: &Plan) -> Result<ForwardPasses, Invalid> {
    Ok(forward_plan(&document.job, plan.model())?.passes(document.prediction.steps, plan.batch().global))
}

/// Reads when and on how much the model is evaluated, if the job says so.
fn evaluation(job: &JobSpec, epoch: Option<u64>) -> Result<Option<EvaluationPlan>, Invalid> {
    let Some(spec) = job.campaign.as_ref().and_then(|campaign| campaign.evaluation.as_ref()) else { return Ok(None) };
    let field = |name: &str| format!("campaign.evaluation.{name}");
    let one_of = |first: &str, second: &str| Err(Invalid::conflict(field(first), field(second), "write one of them"));
    let every = match (spec.every_epochs, spec.every_steps) {
        (Some(_), Some(_)) => return one_of("every_epochs", "every_steps"),
        (None, None) => return Err(Invalid::missing(field("every_epochs"), "write every_epochs or every_steps")),
        (None, Some(0)) => return Err(Invalid::value(field("every_steps"), 0, "at least 1")),
        (None, Some(steps)) => Every::Steps(steps),
        (Some(epochs), None) if !(epochs > 0.0 && epochs <= 1e6) => {
            return Err(Invalid::value(field("every_epochs"), epochs, "above 0 and at most 1000000"));
        }
        (Some(epochs), None) => Every::Passes(epochs, data_pass(job, epoch, &field("every_epochs"))?),
    };
    let samples = match (spec.samples, spec.share) {
        (Some(_), Some(_)) => return one_of("samples", "share"),
        (None, None) => return Err(Invalid::missing(field("samples"), "write samples or share")),
        (Some(0), None) => return Err(Invalid::value(field("samples"), 0, "at least 1")),
        (Some(samples), None) => Amount::Samples(samples),
        (None, Some(share)) if !(share > 0.0 && share <= 1.0) => {
            return Err(Invalid::value(field("share"), share, "above 0 and at most 1"));
        }
        (None, Some(share)) => Amount::Share(share, data_pass(job, epoch, &field("share"))?),
    };
    Ok(Some(EvaluationPlan { every, samples }))
}

/// Returns a pass over the data set. Where a file of lengths makes its samples, it is a part of the training, because that
/// file is not read again with a document.
fn data_pass(job: &JobSpec, epoch: Option<u64>, field: &str) -> Result<DataPass, Invalid> {
    if job.data.lengths.is_some() {
        if job.training.steps.is_some() {
            let rule = "with data.lengths an epoch is known where training.epochs counts them";
            return Err(Invalid::conflict(field, "training.steps", rule)
                .with_hint("write every_steps and samples, or training.epochs"));
        }
        return Ok(DataPass::Part(1.0 / job.training.epochs.unwrap_or(1.0)));
    }
    let why = "write samples or tokens, the size of the data set, so that an epoch is known";
    epoch.map(DataPass::Samples).ok_or(Invalid::missing("data", why))
}
