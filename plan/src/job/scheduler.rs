//! Jobs of a scheduler that ends each after some time: how long before that a job is told, so that it ends with a
//! checkpoint and is queued again.

use trainyard_units::Seconds;

/// The least time for a checkpoint between a scheduler's signal and the end of a job.
const CHECKPOINT: Seconds = Seconds(600.0);

/// Ratio of the time that is left for a checkpoint to its predicted one: storage that others use too may be slower.
pub const CHECKPOINT_MARGIN: f64 = 1.5;

/// The part of the time after a scheduler's signal that is left for queueing the job again, and as much for the signal to
/// arrive.
pub const REQUEUE: Seconds = Seconds(60.0);

/// The greatest time before the end of a job at which Slurm signals it, in whole minutes: `--signal`, `sbatch(1)` of
/// Slurm 24.05.
const LEAD_MAX: Seconds = Seconds(65_520.0);

/// Returns how long before the end of a job the scheduler signals it, in whole minutes, if ranks may need `saving` to end
/// with a checkpoint, with a step that takes `step` under way.
pub fn signal_lead(step: Seconds, saving: Seconds) -> Seconds {
    let lead = (saving.0 + 2.0 * REQUEUE.0).max(step.0 + CHECKPOINT.0);
    Seconds((lead / 60.0).ceil() * 60.0)
}

/// Returns the greatest lead of the signal to a job that may run for so long: half of that, in whole minutes.
pub fn longest_lead(job: Seconds) -> Seconds {
    Seconds(((job.0 / 120.0).floor() * 60.0).min(LEAD_MAX.0))
}
