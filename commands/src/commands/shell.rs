//! `trainyard completions` and `trainyard man`.

use crate::arguments::{CompletionsArguments, ManArguments};
use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::Output;
use crate::parsing::program;
use clap::Command;
use clap_mangen::Man;
use std::path::PathBuf;
use trainyard_units::counted;

/// Prints completions for a shell.
#[expect(clippy::unnecessary_wraps, reason = "commands have one form")]
pub(crate) fn completions(arguments: &CompletionsArguments, output: &Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program(), "trainyard", &mut script);
    output.as_it_is(&String::from_utf8_lossy(&script));
    Ok(Exit::Done)
}

/// Prints the manual page, or writes those of all commands.
pub(crate) fn man(arguments: &ManArguments, output: &Output) -> Result<Exit, Failure> {
    let Some(folder) = &arguments.out else {
        output.as_it_is(&String::from_utf8_lossy(&page(&Man::new(program()))?));
        return Ok(Exit::Done);
    };
    let mut pages = Vec::new();
    pages_of(program(), &mut pages)?;
    let written: Vec<(PathBuf, Vec<u8>)> = pages.into_iter().map(|(name, page)| (folder.join(name), page)).collect();
    files::write_all(&written)?;
    output.note(format!("{} written to {}", counted(written.len() as u64, "page"), folder.display()));
    Ok(Exit::Done)
}

/// Adds the pages of a command and of those below it, each under the name of its file.
fn pages_of(command: Command, pages: &mut Vec<(String, Vec<u8>)>) -> Result<(), Failure> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        pages_of(below.clone(), pages)?;
    }
    let man = Man::new(command);
    pages.push((man.get_filename(), page(&man)?));
    Ok(())
}

fn page(man: &Man) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    man.render(&mut page)
        .map_err(|error| Failure::new(Exit::Failed, "cannot make the manual page").because(error.to_string()))?;
    Ok(page)
}
