//! Slurm jobs that start torchrun on each of their machines.

use super::container::Container;
use super::site::tells_the_machines;
use super::{again_if_further, directives, environment_line, lead_s, newest, requeue, script};
use crate::launch::draft::{Draft, Finished};
use crate::launch::ending::{END, WAIT};
use crate::launch::error::LaunchError;
use crate::launch::job::Job;
use crate::launch::places::Places;
use crate::launch::program::{environment, program};
use crate::launch::script::exports;
use crate::launch::torchrun::PORT;
use trainyard_plan::LaunchFile;

/// The command that asks the ranks of all machines for a checkpoint: SIGTERM to the processes that torchrun started,
/// which write one and end. torchrun itself is left alone: it would kill them 30 seconds after a SIGTERM of its own.
const TELL: &str = "srun --overlap --ntasks-per-node=1 bash -c 'pkill -TERM -P \"$(pgrep -d, -f \"[b]in/torchrun \")\" || { echo \"$(hostname) has no ranks of torchrun to stop\" >&2; false; }'";

/// The line that sets the address at which ranks of several machines meet: the first machine of the job.
const FIRST_HOST: &str = "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | sed -n 1p)\n";

/// Ranks may have been told by someone else.
const STOPPED_BY_OTHERS: &str = "if [ \"$status$told\" = 0 ] && ! finished; then again; fi\n";

/// Writes `slurm.sh` and the files that must lie beside it.
pub(super) fn files(mut draft: Draft<'_>) -> Result<Finished, LaunchError> {
    let job = draft.job;
    let program = program(&mut draft, Places::default())?;
    let variables = environment(&mut draft);
    let container = Container::of(&mut draft, &variables);
    let run = program.command(&start(job, container.as_ref()));
    let first_host = if job.machines() > 1 { FIRST_HOST } else { "" };
    let environment = exports(&variables);
    let (loads, folder) = match &container {
        Some(container) => (String::new(), container.mkdir()),
        None => (environment_line(&mut draft), String::new()),
    };
    let lead_s = lead_s(&mut draft, 1);
    let requeue = requeue(&draft, lead_s, TELL, "finished || ");
    // Of a script of one's own nobody knows whether it has come further.
    let (before, after) = match program.completion.newest() {
        Some(command) => {
            draft.remark(
                "a rank that fails before the first checkpoint of a start ends the job, for a mistake would fail again: sbatch \
                 starts it again",
            );
            (newest(command), again_if_further("finished || "))
        }
        None => (String::new(), String::new()),
    };
    let body = format!(
        "{}{folder}{environment}{first_host}{requeue}{before}{} &\nlauncher=$!\ntrap stop USR1\n{WAIT}{STOPPED_BY_OTHERS}{after}{END}",
        program.completion.begin(),
        run.trim_end()
    );
    tells_the_machines(&mut draft);
    if job.machines() == 1 {
        draft.remark("the folder for checkpoints must be one that the next machine reaches too");
    }
    // The directives are for one task, the launcher, which starts the ranks of its machine.
    let directives = directives(&mut draft, 1, lead_s);
    let head = draft.close(&format!(
        "Starts {} under torchrun on each machine: `sbatch slurm.sh`. Queued again, it goes on from its newest checkpoint.",
        program.what
    ))?;
    let text = script(&directives, &head, &loads, &body);
    let mut files = vec![LaunchFile { name: "slurm.sh".into(), text }];
    files.extend(program.files());
    Ok(draft.finished(files))
}

/// Returns the command that starts the launcher as a step of the job. By default Slurm would bind it and its children
/// to one processor.
fn start(job: &Job<'_>, container: Option<&Container>) -> String {
    let (machines, processes) = (job.machines(), job.processes());
    let inside = container.map(Container::arguments).unwrap_or_default();
    let step = format!("srun --cpu-bind=none --kill-on-bad-exit=1 {inside}torchrun");
    if machines == 1 {
        return format!("{step} --standalone --nproc-per-node={processes}");
    }
    format!(
        "{step} --nnodes={machines} --nproc-per-node={processes} \\\n  --rdzv-id=\"$SLURM_JOB_ID-${{SLURM_RESTART_COUNT:-0}}\" --rdzv-backend=c10d --rdzv-endpoint=\"$MASTER_ADDR:{PORT}\""
    )
}
