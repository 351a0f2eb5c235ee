//! When a model is evaluated in the course of a training, and how long that takes.

use super::training::epoch;
use trainyard_models::Model;
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{JobSpec, Plan};
use trainyard_sim::{Machine, MachineError, evaluation_time};
use trainyard_units::{Invalid, Seconds};

/// By which part of itself a product of floats may be off.
const ROUNDING: f64 = 1e-9;

/// The interval and size of evaluations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EvaluationPlan {
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
    pub(crate) fn interval(&self, steps: u64, batch: u64) -> u64 {
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
    pub(crate) fn samples(&self, steps: u64, batch: u64) -> u64 {
        match self.samples {
            Amount::Samples(samples) => samples,
            Amount::Share(share, pass) => {
                let of_pass = match pass {
                    DataPass::Samples(samples) => samples as f64,
                    DataPass::Part(part) => part * steps as f64 * batch as f64,
                };
                ((share * of_pass * (1.0 - ROUNDING)).ceil() as u64).max(1)
            }
        }
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
    pub(crate) fn new(plan: EvaluationPlan, steps: u64, batch: u64) -> Self {
        let interval = plan.interval(steps, batch);
        Self { interval, count: steps / interval, samples: plan.samples(steps, batch) }
    }

    /// Returns the time of all of them, of which one takes `each`.
    pub(crate) fn time(self, each: Seconds) -> Seconds {
        each * self.count as f64
    }

    /// Returns the time of all of them with a plan on its machine.
    ///
    /// # Errors
    ///
    /// When the machine was not measured for the plan.
    pub(crate) fn time_of(self, plan: &Plan, machine: &Machine) -> Result<Seconds, MachineError> {
        Ok(self.time(evaluation_time(plan, machine, self.samples)?))
    }
}

/// Returns when and on how much a job evaluates the model, if it says so.
///
/// # Errors
///
/// When a value is out of range or contradicts another.
pub(crate) fn evaluation_of(job: &JobSpec, model: &Model) -> Result<Option<EvaluationPlan>, Invalid> {
    evaluation(job, epoch(job, model)?)
}

/// Returns the evaluations of a document's training, if its job asks for some.
///
/// # Errors
///
/// When the job's evaluation is out of range or contradicts itself.
pub fn evaluations(document: &PlanDocument, plan: &Plan) -> Result<Option<Evaluations>, Invalid> {
    let evaluation = evaluation_of(&document.job, plan.model())?;
    Ok(evaluation.map(|own| Evaluations::new(own, document.prediction.steps, plan.batch().global)))
}

/// Reads when and on how much the model is evaluated, if the job says so.
pub(super) fn evaluation(job: &JobSpec, epoch: Option<u64>) -> Result<Option<EvaluationPlan>, Invalid> {
    let Some(spec) = job.campaign.as_ref().and_then(|campaign| campaign.evaluation.as_ref()) else { return Ok(None) };
    let field = |name: &str| format!("campaign.evaluation.{name}");
    let one_of = |first: &str, second: &str| Err(Invalid::conflict(&field(first), &field(second), "write one of them"));
    let every = match (spec.every_epochs, spec.every_steps) {
        (Some(_), Some(_)) => return one_of("every_epochs", "every_steps"),
        (None, None) => return Err(Invalid::missing(&field("every_epochs"), "write every_epochs or every_steps")),
        (None, Some(0)) => return Err(Invalid::value(&field("every_steps"), 0, "at least 1")),
        (None, Some(steps)) => Every::Steps(steps),
        (Some(epochs), None) if !(epochs > 0.0 && epochs <= 1e6) => {
            return Err(Invalid::value(&field("every_epochs"), epochs, "above 0 and at most 1000000"));
        }
        (Some(epochs), None) => Every::Passes(epochs, data_pass(job, epoch, &field("every_epochs"))?),
    };
    let samples = match (spec.samples, spec.share) {
        (Some(_), Some(_)) => return one_of("samples", "share"),
        (None, None) => return Err(Invalid::missing(&field("samples"), "write samples or share")),
        (Some(0), None) => return Err(Invalid::value(&field("samples"), 0, "at least 1")),
        (Some(samples), None) => Amount::Samples(samples),
        (None, Some(share)) if !(share > 0.0 && share <= 1.0) => {
            return Err(Invalid::value(&field("share"), share, "above 0 and at most 1"));
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
