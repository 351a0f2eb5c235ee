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
use super::job::Job;
use super::software::Engine;

/// Ratio of the time after which Slurm ends a job to the slow end of its prediction.
const PATIENCE: f64 = 1.5;

pub(super) const STARTS: &[Engine] = Engine::ALL;

/// Writes `slurm.sh` and the files that must lie beside it.
pub(super) fn files(draft: Draft<'_>) -> Result<Finished, LaunchError> {
    match draft.engine {
        Engine::Executor => executor::files(draft),
        _ => launcher::files(draft),
    }
}

/// Returns the directives of a script for `tasks` tasks on each machine, whose shell gets a signal before its time is
/// over.
fn directives(job: &Job<'_>, tasks: u32, signal: &str) -> String {
    let minutes = (job.elapsed_at_most().0 * PATIENCE / 60.0).ceil().max(60.0) as u64;
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    let mut lines = vec![
        format!("--job-name={}", job.name()),
        format!("--nodes={}", job.machines()),
        format!("--ntasks-per-node={tasks}"),
        "--exclusive".into(),
        format!("--time={days}-{hours:02}:{minutes:02}:00"),
        "--output=%x-%j.log".into(),
        // A requeued job appends to the same file.
        "--open-mode=append".into(),
        format!("--signal=B:{signal}"),
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
