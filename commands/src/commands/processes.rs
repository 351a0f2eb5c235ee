//! The processes of a job that a launcher started.

use crate::arguments;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::flags;
use crate::output::Output;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trainyard_executor::process_group::{LaunchError, Launcher, Processes, World};

/// Seconds without a sign of life after which a process counts as lost, unless told otherwise.
const HEARTBEAT_TIMEOUT_S: u32 = 20;

/// Joins the processes of the launcher, each of which counts as lost after so many seconds without a sign of life. Only
/// the first of them prints more than errors.
pub(super) fn join(
    launcher: arguments::Launcher,
    heartbeat_timeout_s: Option<u32>,
    output: &Output,
) -> Result<(Processes, Output), Failure> {
    let launcher = match launcher {
        arguments::Launcher::Threads => {
            let advice = "leave it out, or start the job with mpirun and --launcher mpi";
            let flag = ("--heartbeat-timeout", heartbeat_timeout_s.is_some(), advice.into());
            flags::refuse([flag], "is for several processes, but the ranks are threads of this one")?;
            Launcher::Threads
        }
        arguments::Launcher::Mpi => {
            let seconds = heartbeat_timeout_s.unwrap_or(HEARTBEAT_TIMEOUT_S);
            Launcher::Mpi { heartbeat_timeout: Duration::from_secs(seconds.into()) }
        }
    };
    let processes = launcher.join().map_err(|error| failure(&error))?;
    let output = if processes.is_root() { output.clone() } else { output.muted() };
    Ok((processes, output))
}

/// Returns what this process has prepared, once all processes are ready: one that went on alone would wait for the
/// others for ever.
pub(super) fn all_ready<T>(processes: &Processes, own: Result<T, Failure>) -> Result<T, Failure> {
    let all = processes.all_ready(own.is_ok());
    let own = own?;
    if all {
        Ok(own)
    } else {
        Err(Failure::input("another process of the job cannot go on")
            .hint("look for the error of that process in the launcher's output"))
    }
}

/// Returns the folder of a run, which the first process makes, by the same path in all of them.
pub(super) fn run_folder(processes: &Processes, wanted: Option<&Path>, model: &str) -> Result<PathBuf, Failure> {
    let made = match wanted {
        _ if processes.is_root() => files::run_folder(wanted, model),
        folder => Ok(folder.map(Into::into).unwrap_or_default()),
    };
    let folder = all_ready(processes, made)?;
    if wanted.is_some() {
        return Ok(folder);
    }
    Ok(processes.told(&folder.to_string_lossy()).into())
}

/// Returns the result of a process. If it failed, others may wait for it for ever: the job is then ended here.
pub(super) fn ended<T>(world: &World, own: Result<T, Failure>, output: &Output) -> Result<T, Failure> {
    if world.processes() > 1
        && let Err(failure) = &own
        && failure.code() != Exit::Interrupted
    {
        output.failure(failure);
        world.abort(failure.code() as i32);
    }
    own
}

/// Returns the failure of a job that cannot start.
pub(super) fn failure(error: &LaunchError) -> Failure {
    Failure::of(Exit::Input, error).hint(error.hint())
}
