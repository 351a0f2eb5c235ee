//! The threads that searches and simulations of a command share.

use crate::arguments::{Command, Launcher};
use crate::failure::{Exit, Failure};
use rayon::ThreadPoolBuilder;

/// Starts the threads: as many as the command asks for, else one for each processor. By default the library would start
/// them when they are first needed, and panic where the system gives none.
pub(crate) fn start(command: &Command) -> Result<(), Failure> {
    let wanted = match command {
        Command::Plan(plan) => plan.search.threads,
        Command::WhatIf(what_if) => what_if.search.threads,
        Command::Train(train) => train.search.threads,
        Command::Serve(serve) => serve.threads,
        // Many processes of a host would start many threads that are hardly used: ranks have their own.
        Command::Run(run) if run.launcher == Launcher::Mpi => return Ok(()),
        Command::Calibrate(calibrate) if calibrate.launcher == Launcher::Mpi => return Ok(()),
        Command::Run(run) => run.threads,
        Command::Show(_)
        | Command::Prices(_)
        | Command::History(_)
        | Command::Schemas(_)
        | Command::Completions(_)
        | Command::Man(_) => {
            return Ok(());
        }
        _ => None,
    };
    // With 0 the library decides.
    let threads = wanted.map_or(0, usize::from);
    ThreadPoolBuilder::new().num_threads(threads).build_global().map_err(|error| {
        Failure::new(Exit::Failed, "cannot start the threads that compute")
            .because(error.to_string())
            .hint("RAYON_NUM_THREADS=N in the environment, or --threads N where a command has it, asks for fewer")
    })
}
