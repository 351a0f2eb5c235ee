//! Slurm jobs in which mpirun starts the ranks of this program's own executor.

use super::site::tells_the_machines;
use super::{again_if_further, directives, environment_line, lead_s, newest, requeue, script};
use crate::launch::draft::{Draft, Finished, Flag};
use crate::launch::ending::WAIT;
use crate::launch::error::LaunchError;
use crate::launch::field::Field;
use crate::launch::program::environment;
use crate::launch::script::{command, exports};
use crate::shell::quoted;
use trainyard_plan::{LaunchFile, REQUEUE, not_executable};

/// mpirun waits before it signals the ranks, and as long again before it kills them.
const WAITS: u32 = 2;

/// The command that has mpirun ask the ranks for a checkpoint, which they write when they are asked to end.
const TELL: &str = "kill -TERM \"$launcher\"";

/// The command that tells the newest of the executor's checkpoints.
const NEWEST: &str = "ls -d \"$RESULTS\"/checkpoint/checkpoint-* 2>/dev/null | sort -V | tail -n 1 || true";

/// The line that passes the first signal of others on to mpirun.
const PASS_ON: &str = "trap 'told=1; trap \"\" TERM; kill -TERM \"$launcher\" || true' TERM\n";

/// Writes `slurm.sh`.
pub(super) fn files(mut draft: Draft<'_>) -> Result<Finished, LaunchError> {
    if let Some(refused) = not_executable(draft.job.plan()) {
        let field = Field::ALL.iter().copied().find(|field| field.path().strip_prefix("plan.") == Some(refused.field));
        let why = format!("this program's own executor runs {}", refused.allowed);
        return Err(match field {
            Some(field) => draft.cannot(field, why),
            None => LaunchError::Inexpressible { field: refused.field, value: refused.value, why, others: Vec::new() },
        });
    }
    told_by_the_document(&mut draft);
    let lead_s = lead_s(&mut draft, WAITS);
    let body = body(&mut draft, lead_s);
    let processes = draft.job.processes();
    let directives = directives(&mut draft, processes, lead_s);
    let loads = environment_line(&mut draft);
    let head = draft.close("Runs the plan with Trainyard itself, a rank in each MPI process: `sbatch slurm.sh`.")?;
    let text = script(&directives, &head, &loads, &body);
    Ok(draft.finished(vec![LaunchFile { name: "slurm.sh".into(), text }]))
}

/// Records the fields that the executor reads from the plan document itself.
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
    for field in Field::ALL.iter().filter(|field| !elsewhere.contains(field)) {
        draft.tells(&[*field]);
    }
    tells_the_machines(draft);
}

/// Returns the lines of the script behind its head. Ranks have a step and a checkpoint from mpirun's SIGTERM to its SIGKILL,
/// instead of a second: both waits are over before the shell stops waiting for it.
fn body(draft: &mut Draft<'_>, lead_s: u64) -> String {
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
    let steps = job.checkpoint_steps();
    words.push(vec!["--checkpoint-every".into(), steps.to_string()]);
    draft.writes(Field::CheckpointInterval, format!("checkpoint-every {steps}"));
    let weights = draft.weights().map(|weights| format!("--weights {}", quoted(&weights))).unwrap_or_default();
    let grace = (lead_s - 2 * REQUEUE.0 as u64) / u64::from(WAITS);
    let start = format!(
        "mpirun -np {} --map-by ppr:{}:node --bind-to none --mca odls_base_sigkill_timeout {grace}",
        job.machines() * job.processes(),
        job.processes()
    );
    let environment = exports(&environment(draft));
    let run = command(&start, &words);
    let run = run.trim_end();
    let requeue = requeue(draft, lead_s, TELL, "");
    let (before, after) = (newest(NEWEST), again_if_further(""));
    format!(
        "{environment}{requeue}RESULTS={}\nmkdir -p \"$RESULTS\"\nSTART=({weights})\nif [ -n \"$(ls -A \"$RESULTS/checkpoint\" 2>/dev/null)\" ]; then\n  START=(--resume)\nfi\n{before}{run} \\\n  --checkpoint \"$RESULTS/checkpoint\" \"${{START[@]}}\" --out \"$RESULTS/run-$SLURM_JOB_ID-${{SLURM_RESTART_COUNT:-0}}\" &\nlauncher=$!\ntrap stop USR1\n{PASS_ON}{WAIT}{after}exit \"$status\"\n",
        quoted(&results)
    )
}
