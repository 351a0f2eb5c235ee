//! `trainyard completions` and `trainyard man`.

use crate::arguments::{Arguments, CompletionsArguments};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use clap::CommandFactory;

/// Prints completions for a shell.
#[expect(clippy::unnecessary_wraps, reason = "commands have one form")]
pub(crate) fn completions(arguments: &CompletionsArguments, output: &Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "trainyard", &mut script);
    output.as_it_is(&String::from_utf8_lossy(&script));
    Ok(Exit::Done)
}

/// Prints the manual page.
pub(crate) fn man(output: &Output) -> Result<Exit, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Arguments::command())
        .render(&mut page)
        .map_err(|error| Failure::new(Exit::Failed, "cannot make the manual page").because(error.to_string()))?;
    output.as_it_is(&String::from_utf8_lossy(&page));
    Ok(Exit::Done)
}
