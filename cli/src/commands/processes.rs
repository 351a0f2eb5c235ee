//! The processes of a job that a launcher started.

use crate::arguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use trainyard_executor::process_group::{LaunchError, Launcher, Processes};

/// Joins the processes that were started. Only the first of them says more than errors.
pub(super) fn join(launcher: arguments::Launcher, output: &Output) -> Result<(Processes, Output), Failure> {
    let launcher = match launcher {
        arguments::Launcher::Threads => Launcher::Threads,
        arguments::Launcher::Mpi => Launcher::Mpi,
    };
    let processes = launcher.join().map_err(|error| failure(&error))?;
    let output = if processes.is_root() { output.clone() } else { output.muted() };
    Ok((processes, output))
}

/// What a user is told whose job cannot start.
pub(super) fn failure(error: &LaunchError) -> Failure {
    Failure::of(Exit::Input, error).hint(error.hint())
}
