//! Slurm and mpirun, for this program's own executor.
//!
//! # Source
//!
//! Slurm 24.05, `sbatch(1)`; Open MPI 4.1, `mpirun(1)`.

use super::draft::{Draft, Finished, Flag};
use super::error::LaunchError;
use super::field::Field;
use super::program::environment;
use super::script::{command, exports};
use trainyard_plan::{LaunchFile, not_executable};

/// How much longer than predicted at most a job may take before Slurm ends it.
const PATIENCE: f64 = 1.5;

/// Seconds that mpirun gives ranks for a step and a checkpoint, from telling them to end to killing them, instead of one.
const GRACE_S: u32 = 270;

/// Seconds before the end of its time at which Slurm tells the shell. mpirun waits as long before it tells the ranks, and a
/// minute is for mpirun itself.
const WARNING_S: u32 = 2 * GRACE_S + 60;

/// The end of the script: hands the first signal on to mpirun, waits on although a signal ends a wait, and ends as mpirun
/// does.
const WAIT: &str = "trap 'trap \"\" TERM; kill -TERM \"$!\" || true' TERM\nwait \"$!\" || true\nwait \"$!\"\n";

/// `slurm.sh`.
pub(super) fn files(mut draft: Draft<'_>) -> Result<Finished, LaunchError> {
    if let Some(refused) = not_executable(draft.job.plan()) {
        let field = Field::ALL.into_iter().find(|field| field.path().strip_prefix("plan.") == Some(refused.field));
        let why = format!("this program's own executor runs {}", refused.allowed);
        return Err(match field {
            Some(field) => draft.cannot(field, why),
            None => LaunchError::Inexpressible { field: refused.field, value: refused.value, why, others: Vec::new() },
        });
    }
    told_by_the_document(&mut draft);
    let body = body(&mut draft);
    let head = draft.close("Runs the plan with Trainyard itself, a rank in each MPI process: `sbatch slurm.sh`.")?;
    let text = format!("#!/usr/bin/env bash\n{}{}{}", directives(&draft), head.comment(), body);
    Ok(draft.finished(vec![LaunchFile { name: "slurm.sh".into(), text }]))
}

/// Everything that the executor reads from the plan document itself.
fn told_by_the_document(draft: &mut Draft<'_>) {
    let elsewhere = [
        Field::Instance,
        Field::Encrypted,
        Field::Placement,
        Field::Collectives,
        Field::Storage,
        Field::Decode,
        Field::Workers,
        Field::Prefetch,
        Field::Cache,
        Field::Pricing,
        Field::Service,
        Field::Start,
        Field::CheckpointInterval,
        Field::CheckpointStorage,
        Field::Evaluation,
    ];
    for field in Field::ALL {
        if !elsewhere.contains(&field) {
            draft.tells(&[field]);
        }
    }
    draft.note(Field::Instance, "Slurm's partition must be of these machines");
}

fn directives(draft: &Draft<'_>) -> String {
    let job = draft.job;
    let minutes = (job.elapsed_at_most().0 * PATIENCE / 60.0).ceil().max(60.0) as u64;
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    let mut lines = vec![
        format!("--job-name={}", job.name()),
        format!("--nodes={}", job.machines()),
        format!("--ntasks-per-node={}", job.processes()),
        "--exclusive".into(),
        format!("--time={days}-{hours:02}:{minutes:02}:00"),
        "--output=%x-%j.log".into(),
        // The executor writes a checkpoint when it is asked to end; the shell hands the signal on.
        format!("--signal=B:TERM@{WARNING_S}"),
        "--requeue".into(),
    ];
    if job.has_gpus() {
        lines.insert(3, format!("--gpus-per-node={}", job.processes()));
    }
    lines.iter().map(|line| format!("#SBATCH {line}\n")).collect()
}

fn body(draft: &mut Draft<'_>) -> String {
    let job = draft.job;
    let data = draft.asks(Flag::Data, "DATA", "file or folder to train on, at the same path on all machines");
    let results = draft.asks(Flag::Results, "RESULTS", "folder that all machines share, for checkpoints and results");
    let plan = draft.plan_file();
    let device = if job.has_gpus() { "cuda" } else { "cpu" };
    if job.has_gpus() {
        draft.remark("ranks compute on GPUs, which Trainyard must have been built for");
    }
    let mut words = vec![
        vec!["trainyard".into(), "run".into(), plan],
        vec!["--launcher".into(), "mpi".into(), "--device".into(), device.into()],
        vec!["--data".into(), data],
    ];
    if let Some(steps) = job.checkpoint_steps() {
        words.push(vec!["--checkpoint-every".into(), steps.to_string()]);
        draft.tells(&[Field::CheckpointInterval]);
    }
    let start = format!(
        "mpirun -np {} --map-by ppr:{}:node --bind-to none --mca odls_base_sigkill_timeout {GRACE_S}",
        job.machines() * job.processes(),
        job.processes()
    );
    let environment = exports(&environment(draft));
    let run = command(&start, &words);
    let run = run.trim_end();
    format!(
        "set -euo pipefail\n\n{environment}RESULTS={}\nmkdir -p \"$RESULTS\"\nRESUME=\nif [ -n \"$(ls -A \"$RESULTS/checkpoint\" 2>/dev/null)\" ]; then\n  RESUME=--resume\nfi\n{run} \\\n  --checkpoint \"$RESULTS/checkpoint\" $RESUME --out \"$RESULTS/run-$SLURM_JOB_ID-${{SLURM_RESTART_COUNT:-0}}\" &\n{WAIT}",
        crate::shell::quoted(&results)
    )
}
