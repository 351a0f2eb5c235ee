//! PyTorch's launcher.
//!
//! # Source
//!
//! PyTorch 2, `torch/distributed/run.py`.

use super::draft::{Draft, Finished};
use super::error::LaunchError;
use super::job::Job;
use super::places::Places;
use super::program::{Program, environment, program};
use super::script::{exports, script};
use super::software::Engine;
use trainyard_plan::LaunchFile;

/// The default port of the first machine: that of torchrun.
pub(super) const PORT: u16 = 29_500;

pub(super) const STARTS: &[Engine] = Engine::SCRIPTS;

/// Writes `torchrun.sh` and the files that must lie beside it.
pub(super) fn files(draft: Draft<'_>) -> Result<Finished, LaunchError> {
    started(draft, "torchrun.sh", program)
}

/// Writes a script of this name that starts a program, and the files that must lie beside it.
pub(super) fn started(
    mut draft: Draft<'_>,
    name: &str,
    program: fn(&mut Draft<'_>, Places) -> Result<Program, LaunchError>,
) -> Result<Finished, LaunchError> {
    let program = program(&mut draft, Places::default())?;
    let body = exports(&environment(&mut draft)) + &program.run(&start(draft.job));
    on_each_machine(&mut draft);
    let head = draft.close(&format!("Starts {} under torchrun.", program.what))?;
    let mut files = vec![LaunchFile { name: name.into(), text: script(&head, &body) }];
    files.extend(program.files());
    Ok(draft.finished(files))
}

/// Tells how a script is started on several machines.
pub(super) fn on_each_machine(draft: &mut Draft<'_>) {
    if draft.job.machines() > 1 {
        draft.remark(format!(
            "start this on each of {} machines, with NODE_RANK from 0 and MASTER_ADDR the name of the first",
            draft.job.machines()
        ));
    }
}

/// Returns the launcher's command with its rendezvous, for a script that runs on each machine.
pub(super) fn start(job: &Job<'_>) -> String {
    start_at(job, "$NODE_RANK", "$MASTER_ADDR", &format!("${{MASTER_PORT:-{PORT}}}"))
}

/// Returns that command with shell expressions for the number of a machine and for the first one's name and port.
pub(super) fn start_at(job: &Job<'_>, node_rank: &str, address: &str, port: &str) -> String {
    let (machines, processes) = (job.machines(), job.processes());
    if machines == 1 {
        return format!("torchrun --standalone --nproc-per-node={processes}");
    }
    format!(
        "torchrun --nnodes={machines} --nproc-per-node={processes} \\\n  --node-rank=\"{node_rank}\" --master-addr=\"{address}\" --master-port=\"{port}\""
    )
}
