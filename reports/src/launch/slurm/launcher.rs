//! Slurm jobs that start torchrun on each of their machines.

use super::{directives, script};
use crate::launch::draft::{Draft, Finished};
use crate::launch::error::LaunchError;
use crate::launch::field::Field;
use crate::launch::job::Job;
use crate::launch::program::{Places, environment, program};
use crate::launch::script::exports;
use crate::launch::torchrun::PORT;
use trainyard_plan::LaunchFile;

/// Seconds before the end of its time at which Slurm signals the shell, which then requeues the job.
const WARNING_S: u32 = 120;

/// The lines before the start: requeue the job when its time is nearly over.
const REQUEUE: &str = "trap 'scontrol requeue \"$SLURM_JOB_ID\" || true' USR1\n";

/// The lines after the start: wait on although a signal ends a wait, and exit as the launcher does.
const WAIT: &str = "wait \"$!\" || true\nwait \"$!\"\n";

/// The line that sets the address at which ranks of several machines meet: the first machine of the job.
const FIRST_HOST: &str = "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | sed -n 1p)\n";

/// Writes `slurm.sh` and the files that must lie beside it.
pub(super) fn files(mut draft: Draft<'_>) -> Result<Finished, LaunchError> {
    let job = draft.job;
    let program = program(&mut draft, Places::default())?;
    let run = program.command(&start(job));
    let first_host = if job.machines() > 1 { FIRST_HOST } else { "" };
    let body = format!("{}{first_host}{REQUEUE}{} &\n{WAIT}", exports(&environment(&mut draft)), run.trim_end());
    draft.note(Field::Instance, "Slurm's partition must be of these machines");
    if job.machines() == 1 {
        draft.remark("the folder for checkpoints must be one that the next machine reaches too");
    }
    let head = draft.close(&format!(
        "Starts {} under torchrun on each machine: `sbatch slurm.sh`. Queued again, it goes on from its newest checkpoint.",
        program.what
    ))?;
    // The directives are for one task, the launcher, which starts the ranks of its machine.
    let text = script(&directives(job, 1, &format!("USR1@{WARNING_S}")), &head, &body);
    let mut files = vec![LaunchFile { name: "slurm.sh".into(), text }];
    files.extend(program.files);
    Ok(draft.finished(files))
}

/// Returns the command that starts the launcher as a step of the job. By default Slurm would bind it and its children
/// to one processor.
fn start(job: &Job<'_>) -> String {
    let (machines, processes) = (job.machines(), job.processes());
    let step = "srun --cpu-bind=none --kill-on-bad-exit=1 torchrun";
    if machines == 1 {
        return format!("{step} --standalone --nproc-per-node={processes}");
    }
    format!(
        "{step} --nnodes={machines} --nproc-per-node={processes} \\\n  --rdzv-id=\"$SLURM_JOB_ID-${{SLURM_RESTART_COUNT:-0}}\" --rdzv-backend=c10d --rdzv-endpoint=\"$MASTER_ADDR:{PORT}\""
    )
}
