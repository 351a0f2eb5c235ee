//! The amount of training that a job asks for.

use super::hyper_parameters::check_hyper_parameters;
use super::stored::named_set;
use trainyard_models::{ConvergenceCurve, Model, convergence_curve, samples_in};
use trainyard_plan::{DataSpec, JobSpec, Optimizer, TrainingSpec, Volume};
use trainyard_units::Invalid;

const MAX_TOKENS: f64 = 1e18;

/// Above it floats do not hold every whole number.
const MAX_SAMPLES: u64 = 1 << 53;

/// Passes over the data set of a job that does not say how many.
const EPOCHS: f64 = 1.0;

const MAX_STEPS: u64 = 1_000_000_000_000;

/// Returns the samples of a pass over the data set, if the job or its target states them.
pub(crate) fn epoch(job: &JobSpec, model: &Model) -> Result<Option<u64>, Invalid> {
    let of_target = target(&job.training, model)?.and_then(|curve| curve.epoch.as_ref()).map(|epoch| epoch.samples);
    Ok(samples(&job.data, model)?.or(of_target))
}

/// Returns the measurements of the target that the training shall reach, if it names one.
pub(crate) fn target(spec: &TrainingSpec, model: &Model) -> Result<Option<&'static ConvergenceCurve>, Invalid> {
    let curve = spec.target.as_deref().map(|target| convergence_curve(target, model)).transpose();
    curve.map_err(|error| error.within("training"))
}

/// The amount of training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Training {
    /// A number of optimizer steps.
    Steps(u64),
    /// Passes over a data set.
    Passes(Volume),
    /// Until a target is reached.
    Target(&'static ConvergenceCurve),
}

impl Training {
    /// Returns the optimizer steps at this global batch.
    pub fn steps(self, global_batch: u64) -> u64 {
        match self {
            Self::Steps(steps) => steps,
            Self::Passes(volume) => volume.steps(global_batch),
            Self::Target(curve) => (curve.samples(global_batch) / global_batch as f64).ceil() as u64,
        }
    }
}

/// Returns the passes over a data set of known size that a job asks for; `None` of one that states steps or a target.
pub fn passes(job: &JobSpec, model: &Model) -> Option<Volume> {
    let spec = &job.training;
    if spec.steps.is_some() || spec.target.is_some() {
        return None;
    }
    let samples = samples(&job.data, model).ok().flatten()?;
    Some(Volume { samples, epochs: spec.epochs.unwrap_or(EPOCHS) })
}

/// Returns the amount of training that the job asks for.
pub(crate) fn training(
    spec: &TrainingSpec,
    optimizer: Optimizer,
    data: &DataSpec,
    model: &Model,
) -> Result<Training, Invalid> {
    let amounts = [
        ("training.epochs", spec.epochs.is_some()),
        ("training.steps", spec.steps.is_some()),
        ("training.target", spec.target.is_some()),
    ];
    let mut written = amounts.into_iter().filter(|(_, is_set)| *is_set).map(|(field, _)| field);
    if let (Some(first), Some(second)) = (written.next(), written.next()) {
        return Err(Invalid::conflict(first, second, "write one of them"));
    }
    check_hyper_parameters(spec, optimizer)?;
    let samples = samples(data, model)?;
    if let Some(curve) = target(spec, model)? {
        return Ok(Training::Target(curve));
    }
    match (spec.steps, samples) {
        (Some(steps), _) if !(1..=MAX_STEPS).contains(&steps) => {
            Err(Invalid::range("training.steps", steps, 1..=MAX_STEPS))
        }
        (Some(steps), _) => Ok(Training::Steps(steps)),
        (None, None) => Err(Invalid::missing(
            "data",
            "write samples or tokens, the size of the data set, or training.steps or training.target",
        )),
        (None, Some(samples)) => {
            let epochs = spec.epochs.unwrap_or(EPOCHS);
            if !(epochs > 0.0 && epochs <= 1e6) {
                return Err(Invalid::value("training.epochs", epochs, "above 0 and at most 1000000"));
            }
            Ok(Training::Passes(Volume { samples, epochs }))
        }
    }
}

pub(crate) fn samples(data: &DataSpec, model: &Model) -> Result<Option<u64>, Invalid> {
    match (data.samples, data.tokens) {
        (Some(_), Some(_)) => Err(Invalid::conflict("data.samples", "data.tokens", "write one of them")),
        (Some(samples), None) if !(1..=MAX_SAMPLES).contains(&samples) => {
            Err(Invalid::range("data.samples", samples, 1..=MAX_SAMPLES))
        }
        (Some(samples), None) => Ok(Some(samples)),
        (None, Some(tokens)) if !(1.0..=MAX_TOKENS).contains(&tokens) => {
            Err(Invalid::value("data.tokens", tokens, "from 1 to 1e18"))
        }
        (None, Some(tokens)) => samples_in(model, tokens.round() as u64).map(Some).ok_or(Invalid::conflict(
            "data.tokens",
            "model",
            "this model reads no tokens; write samples",
        )),
        (None, None) => Ok(named_set(data)?.and_then(|set| set.samples.as_ref()).map(|samples| samples.value)),
    }
}
