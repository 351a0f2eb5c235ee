//! Slurm: torchrun on each machine of a job, or mpirun for this program's own executor.
//!
//! # Source
//!
//! Slurm 24.05, `sbatch(1)`, `srun(1)` and `scontrol(1)`; Open MPI 4.1, `mpirun(1)`; PyTorch 2,
//! `torch/distributed/run.py`.

mod executor;
mod launcher;

use super::draft::{Draft, Finished, Head};
use super::error::LaunchError;
use super::software::Engine;
use trainyard_units::human_duration;

/// Ratio of the time after which Slurm ends a job to the slow end of its prediction.
const PATIENCE: f64 = 1.5;

/// The longest time that a job asks for, in minutes: a day, which most partitions allow (`MaxTime`). A longer run queues
/// itself again.
const LONGEST_MIN: u64 = 24 * 60;

/// Seconds before the end of its time at which Slurm signals the shell, besides those of a step: for a checkpoint.
const CHECKPOINT_S: f64 = 600.0;

/// Seconds of that which are left for queueing the job again.
const REQUEUE_S: u64 = 60;

/// The end of a script: waits on although a signal ends a wait, and exits as what it started does.
const WAIT: &str = "wait \"$!\" || true\nwait \"$!\"\n";

pub(super) const STARTS: &[Engine] = Engine::ALL;

/// Writes `slurm.sh` and the files that must lie beside it.
pub(super) fn files(draft: Draft<'_>) -> Result<Finished, LaunchError> {
    match draft.engine {
        Engine::Executor => executor::files(draft),
        _ => launcher::files(draft),
    }
}

/// Returns the `--time` of the job: that of the run with room, at most a day; says what happens to a longer run.
fn time(draft: &mut Draft<'_>) -> String {
    let run = draft.job.elapsed_at_most();
    let wanted = (run.0 * PATIENCE / 60.0).ceil().max(60.0);
    let minutes = if wanted > LONGEST_MIN as f64 { LONGEST_MIN } else { wanted as u64 };
    let (days, hours, rest) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    let time = format!("--time={days}-{hours:02}:{rest:02}:00");
    if wanted > LONGEST_MIN as f64 {
        let run = human_duration(run);
        draft.leaves(
            &time,
            format!(
                "limit of one job, of a run that takes up to {run}: the job queues itself again before that and goes on from its last checkpoint; raise it to the MaxTime of your partition (`scontrol show partition`)"
            ),
        );
    }
    time
}

/// Returns the seconds before the end of its time at which Slurm signals the shell: enough for a slow step, after which
/// a checkpoint is written, and for the checkpoint; in whole minutes.
fn warning_s(draft: &Draft<'_>) -> u64 {
    let step = draft.job.document().prediction.interval_s[1];
    // A document may hold any time: it is compared before it becomes a whole number.
    let wanted = ((step.max(0.0) + CHECKPOINT_S) / 60.0).ceil() * 60.0;
    let most = 30 * 60;
    if wanted < most as f64 { wanted as u64 } else { most }
}

/// Returns the lines before the start that queue the job again when its time is nearly over: `tell` has the ranks write
/// a checkpoint and end, for which they have the time of the warning.
fn requeue(draft: &Draft<'_>, tell: &str) -> String {
    let patience = warning_s(draft) - REQUEUE_S;
    format!(
        "requeue() {{\n  {tell} || true\n  timeout {patience} tail --pid=\"$!\" -f /dev/null || true\n  scontrol requeue \"$SLURM_JOB_ID\" || true\n}}\ntrap requeue USR1\n"
    )
}

/// Returns the directives of a script for `tasks` tasks on each machine, whose shell gets a signal before its time is
/// over.
fn directives(draft: &mut Draft<'_>, tasks: u32) -> String {
    let (time, warning) = (time(draft), warning_s(draft));
    let job = draft.job;
    let mut lines = vec![
        format!("--job-name={}", job.name()),
        format!("--nodes={}", job.machines()),
        format!("--ntasks-per-node={tasks}"),
        "--exclusive".into(),
        time,
        "--output=%x-%j.log".into(),
        // A requeued job appends to the same file.
        "--open-mode=append".into(),
        format!("--signal=B:USR1@{warning}"),
        "--requeue".into(),
    ];
    if job.has_gpus() {
        lines.insert(3, format!("--gpus-per-node={}", job.processes()));
    }
    lines.iter().map(|line| format!("#SBATCH {line}\n")).collect()
}

/// Returns the whole script.
fn script(directives: &str, head: &Head, body: &str) -> String {
    format!("#!/usr/bin/env bash\n{directives}{}set -euo pipefail\n\n{body}", head.comment())
}
