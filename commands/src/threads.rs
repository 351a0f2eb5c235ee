//! The threads that searches and simulations of a command share.

use crate::arguments::{Command, Launcher};
use crate::failure::{Exit, Failure};
use rayon::{ThreadPoolBuildError, ThreadPoolBuilder};

/// Starts the threads: as many as the command asks for, else one for each processor. By default the library would start
/// them when they are first needed, and panic where the system gives none.
pub(crate) fn start(command: &Command) -> Result<(), Failure> {
    let Some(threads) = wanted(command) else { return Ok(()) };
    ThreadPoolBuilder::new().num_threads(threads).build_global().map_err(|error| refused(&error))
}

/// Does the work of a command that another program calls: on threads of its own where it asks for a number of them, for
/// those of the process may have been started before. `wanted` is what [`wanted`] says of the command.
pub(crate) fn called<T: Send>(wanted: Option<usize>, work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    match wanted {
        None | Some(0) => Ok(work()),
        Some(threads) => {
            let own = ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| refused(&error))?;
            Ok(own.install(work))
        }
    }
}

/// Returns the number of threads that a command asks for, 0 where the library decides; `None` where it needs none.
pub(crate) fn wanted(command: &Command) -> Option<usize> {
    let wanted = match command {
        Command::Plan(plan) => plan.search.threads,
        Command::WhatIf(what_if) => what_if.search.threads,
        Command::Train(train) => train.search.threads,
        Command::Serve(serve) => serve.threads,
        // Many processes of a host would start many threads that are hardly used: ranks have their own.
        Command::Run(run) if run.launcher == Launcher::Mpi => return None,
        Command::Calibrate(calibrate) if calibrate.launcher == Launcher::Mpi => return None,
        Command::Run(run) => run.threads,
        Command::Show(_)
        | Command::Prices(_)
        | Command::History(_)
        | Command::Schemas(_)
        | Command::Completions(_)
        | Command::Man(_) => {
            return None;
        }
        _ => None,
    };
    Some(wanted.map_or(0, usize::from))
}

fn refused(error: &ThreadPoolBuildError) -> Failure {
    Failure::new(Exit::Failed, "cannot start the threads that compute")
        .because(error.to_string())
        .hint("RAYON_NUM_THREADS=N in the environment, or --threads N where a command has it, asks for fewer")
}
