//! The `trainyard` command: arguments, files and terminals around the libraries.
//!
//! Every command reads what the user names, calls public functions of the libraries, and shows what they return.
//! Only this crate knows exit codes and terminals.

#![cfg_attr(not(feature = "run"), allow(dead_code, reason = "some of it serves only commands that compute here"))]

// The process and the machine, and how commands fail.
mod allocator;
mod failure;
mod interrupt;
mod machine;

// Files that users name.
mod diagnose;
mod files;
mod traces;

// The command line.
mod arguments;
mod examples;
mod history_arguments;
mod plot;

// What commands share.
mod headline;
mod history;
mod job;
mod misplaced;
mod output;
mod places;
mod threads;

// The commands.
mod commands;

use crate::arguments::{Arguments, Command};
use crate::failure::Failure;
use crate::history::History;
use crate::output::Output;
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let output = Output::new(&arguments.global);
    let history = History::new(&arguments.global);
    let ended = dispatch(arguments.command, &history, &output);
    match ended.and_then(|code| output.unwritten().map_or(Ok(code), Err)) {
        Ok(code) => code.into(),
        Err(failure) => {
            output.failure(&failure);
            failure.code().into()
        }
    }
}

fn dispatch(command: Command, history: &History, output: &Output) -> Result<failure::Exit, Failure> {
    places::check(&command, history.place())?;
    threads::start(&command)?;
    if matches!(command, Command::Train(_) | Command::Run(_) | Command::Calibrate(_)) {
        allocator::keep_freed_memory();
    }
    match command {
        Command::Train(arguments) => commands::train::train(&arguments, history, output),
        Command::Plan(arguments) => commands::plan::plan(&arguments, history, output),
        Command::WhatIf(arguments) => commands::what_if::what_if(&arguments, history, output),
        Command::Simulate(arguments) => commands::simulate::simulate(&arguments, history, output),
        Command::Report(arguments) => commands::report::report(&arguments, output),
        Command::Explain(arguments) => commands::explain::explain(&arguments, output),
        Command::Export(arguments) => commands::export::export(&arguments, output),
        Command::Run(arguments) => commands::run::run(&arguments, history, output),
        Command::Compare(arguments) => commands::compare::compare(&arguments, output),
        Command::Calibrate(arguments) => commands::calibrate::calibrate(&arguments, output),
        Command::Validate(arguments) => commands::validate::validate(&arguments, output),
        Command::Serve(arguments) => commands::serve::serve(&arguments, history, output),
        Command::History(command) => commands::history::history(&command, history, output),
        Command::Show(arguments) => commands::show::show(&arguments, output),
        Command::Schemas(arguments) => commands::schemas::schemas(&arguments, output),
        Command::Completions(arguments) => commands::shell::completions(&arguments, output),
        Command::Man => commands::shell::man(output),
    }
}
