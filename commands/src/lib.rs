//! The commands of Trainyard: arguments, files and terminals around the libraries.
//!
//! Every command reads what the user names, calls public functions of the libraries, and shows what they return.
//! Only this crate knows exit codes and terminals. The program is [`main`]; other programs make a [`Call`], and get the
//! document that the command line prints, to the byte.

#![cfg_attr(not(feature = "run"), allow(dead_code, reason = "some of it serves only commands that compute here"))]

// The process and the machine, and how commands fail.
mod allocator;
mod caller;
mod failure;
mod interrupt;
mod listener;
mod machine;

// Files that users name.
mod advice;
mod diagnose;
mod files;
mod kinds;
mod marks;
mod read;
mod traces;

// The command line.
mod arguments;
mod examples;
mod flags;
mod history_arguments;
mod misused;
mod parsing;
mod plot;
mod printed;
mod shown;
mod values;

// What commands share.
mod headline;
mod history;
mod job;
mod output;
mod places;
mod quotas;
mod streams;
mod threads;

// The commands.
mod commands;

// Commands that other programs call.
mod call;

pub use call::{Answer, Call, Refusal};
pub use listener::{Event, Listener};
pub use shown::{Form, shown};
pub use trainyard_planner::Cancellation;

use crate::arguments::{Arguments, Command, Format, Global, PricesCommand};
use crate::caller::{Caller, on_behalf_of};
use crate::failure::{Exit, Failure};
use crate::history::History;
use crate::output::Output;
use clap::error::ErrorKind;
use std::ffi::OsString;

/// Runs the program with these words, of which the first is its name, and returns its exit code.
pub fn main(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    let arguments = match parsing::parse(&words) {
        Ok(arguments) => arguments,
        Err(told) if asks_for_help(&told) => {
            // The streams may be closed: there is nobody left to tell.
            let _ = told.print();
            return if told.use_stderr() { Exit::Input as u8 } else { Exit::Done as u8 };
        }
        Err(error) => {
            Output::new(&asked_for(&words)).failure(&misused::misused(&error, &words));
            return Exit::Input as u8;
        }
    };
    if matches!(arguments.command, Command::Train(_) | Command::Run(_) | Command::Calibrate(_)) {
        allocator::keep_freed_memory();
    }
    let arguments = match printed::resolved(arguments) {
        Ok(arguments) => arguments,
        Err(failure) => {
            Output::new(&asked_for(&words)).failure(&failure);
            return failure.code() as u8;
        }
    };
    let output = Output::new(&arguments.global);
    let ended = checked(&arguments, &words).and_then(|history| {
        threads::start(&arguments.command)?;
        let streams = streams::read(&arguments.command)?;
        on_behalf_of(Caller { streams, ..Caller::default() }, || dispatch(arguments.command, &history, &output))
    });
    match ended.and_then(|code| output.unwritten().map_or(Ok(code), Err)) {
        Ok(code) => code as u8,
        Err(failure) => {
            output.failure(&failure);
            failure.code() as u8
        }
    }
}

/// Returns the form of output that words ask for which are no arguments.
fn asked_for(words: &[OsString]) -> Global {
    let asked = words.windows(2).any(|pair| pair[0] == "--format" && pair[1] == "json");
    let format = if asked || words.iter().any(|word| word == "--format=json") { Format::Json } else { Format::Table };
    Global { format, ..Global::default() }
}

/// Returns `true` if the words lack a command or ask for help or the version: all that is printed as it is.
fn asks_for_help(told: &clap::Error) -> bool {
    use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    matches!(told.kind(), DisplayHelp | DisplayVersion | DisplayHelpOnMissingArgumentOrSubcommand)
}

/// Checks what can be checked before the work of a command; returns the history that it names.
fn checked(arguments: &Arguments, words: &[OsString]) -> Result<History, Failure> {
    let history = History::new(&arguments.global, words);
    history.check()?;
    places::check(&arguments.command, history.place())?;
    Ok(history)
}

fn dispatch(command: Command, history: &History, output: &Output) -> Result<Exit, Failure> {
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
        Command::Prices(PricesCommand::Import(arguments)) => commands::prices::import(&arguments, output),
        Command::Show(arguments) => commands::show::show(&arguments, output),
        Command::Schemas(arguments) => commands::schemas::schemas(&arguments, output),
        Command::Completions(arguments) => commands::shell::completions(&arguments, output),
        Command::Man(arguments) => commands::shell::man(&arguments, output),
    }
}
