//! Evaluates the model on samples that are held out from training.

use super::{Job, WorkerError, WorkerOutcome};
use crate::loader::LoaderError;
use crate::process_group::Reduction;
use crate::report::{HeldOutReport, RunEvent};
use crate::trainer::{Evaluated, Trainer};
use trainyard_data::MicroBatch;
use trainyard_plan::Rank;

/// Evaluations of the model while it is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// Steps from one to the next, at least one.
    pub every: u64,
    /// Held-out samples of each, those at both ends included; all of them if there are fewer, no evaluation if it is 0.
    pub samples: u64,
}

/// Samples of an evaluation, if nobody says how many: always the same ones of a data set, so that trainings of any length are
/// compared by them.
pub(super) const USUAL_SAMPLES: u64 = 128;

/// The part of a training's time that the evaluations before its first and after its last step may take together, for there to be
/// one before. Forward passes alone take a third of a step.
const PART: f64 = 0.1;

/// Returns `true` if a training is evaluated before its first step: where the user asks for evaluations, or they are cheap.
pub(super) fn begins(evaluation: Option<Evaluation>, evaluated: usize, trained: u64) -> bool {
    evaluation.is_some() || 2.0 / 3.0 * evaluated as f64 <= PART * trained as f64
}

/// Evaluates the model after a step, where samples are held out, and tells the observer.
pub(super) fn evaluate(
    job: &Job<'_>,
    outcome: &mut WorkerOutcome,
    trainer: &mut Trainer,
    step: u64,
) -> Result<(), WorkerError> {
    let start = trainer.now();
    let Some(Evaluated { loss, right }) = held_out(job, trainer)? else { return Ok(()) };
    let report = HeldOutReport { step, loss, accuracy: right, seconds: trainer.now() - start };
    outcome.evaluations.push(report);
    if trainer.world().rank() == 0 {
        (job.observer)(RunEvent::HeldOut(report));
    }
    Ok(())
}

/// Returns the means over the held-out samples, if there are any. They are divided among replicas.
fn held_out(job: &Job<'_>, trainer: &mut Trainer) -> Result<Option<Evaluated>, WorkerError> {
    let count = job.data.held_out_samples();
    if count == 0 {
        return Ok(None);
    }
    trainer.share_statistics(job.plan)?;
    let mesh = job.plan.mesh();
    let at = mesh.coordinates(Rank(trainer.world().rank() as u32));
    let own: Vec<usize> = (at.data as usize..count).step_by(mesh.data() as usize).collect();
    let micro = job.plan.batch().micro as usize;
    let reads = trainer.reads_data();
    let read = |indices: &[usize]| {
        let batch = if reads { job.data.held_out(indices) } else { Ok(MicroBatch::unread(indices.len())) };
        batch.map_err(LoaderError::Data)
    };
    let beside = (mesh.parallel().expert > 1).then(|| read(&[0])).transpose()?;
    let mut batches = own.chunks(micro);
    // Losses, samples that were right, and how many ranks know of these.
    let mut sums = [0.0; 3];
    for _ in 0..count.div_ceil(mesh.data() as usize).div_ceil(micro) {
        let batch = batches.next().map(read).transpose()?;
        let Evaluated { loss, right } = trainer.evaluate(batch.as_ref(), beside.as_ref())?;
        sums[0] += loss;
        sums[1] += right.unwrap_or(0.0);
        sums[2] += f64::from(u8::from(right.is_some()));
    }
    let mut sums = sums.map(|sum| sum as f32).to_vec();
    trainer.world().all_reduce(&mut sums, Reduction::Sum)?;
    let mean = |sum: f32| f64::from(sum) / count as f64;
    Ok(Some(Evaluated { loss: mean(sums[0]), right: (sums[2] > 0.0).then_some(mean(sums[1])) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_training_is_evaluated_at_its_end_only() {
        assert!(!begins(None, 128, 853) && begins(None, 128, 854) && begins(None, 0, 1));
        assert!(begins(Some(Evaluation { every: 1, samples: 128 }), 128, 4));
    }
}
