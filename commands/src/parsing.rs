//! Words become arguments: what help shows of each command, and what asks for help.

use crate::arguments::Arguments;
use clap::{Arg, Command, CommandFactory, Error, FromArgMatches};
use std::ffi::{OsStr, OsString};

/// Commands that keep a result in the history, or read it. Others take `--history` without effect, so that it may stand
/// in front of any command, and do not show it.
const OF_HISTORY: [&str; 7] = ["train", "plan", "simulate", "what-if", "run", "serve", "history"];

/// Returns the program with all of its commands.
pub(crate) fn program() -> Command {
    let mut program = Arguments::command();
    // Global flags reach the commands only now.
    program.build();
    for command in program.get_subcommands_mut() {
        if !OF_HISTORY.contains(&command.get_name()) {
            hide_history(command);
        }
    }
    program
}

fn hide_history(command: &mut Command) {
    let hidden = |argument: Arg| if argument.get_id() == "history" { argument.hide(true) } else { argument };
    *command = std::mem::take(command).mut_args(hidden);
    command.get_subcommands_mut().for_each(hide_history);
}

/// Reads the words that were typed, of which the first is the program's name.
///
/// # Errors
///
/// What is wrong with them, or the help or version that they ask for.
pub(crate) fn parse(words: &[OsString]) -> Result<Arguments, Error> {
    let mut program = program();
    let matches = program.try_get_matches_from_mut(without_help_of_help(words))?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut program))
}

/// `help --help` asks for what `help` prints, which clap takes for the name of a command.
fn without_help_of_help(words: &[OsString]) -> impl Iterator<Item = &OsString> {
    let is_help = words.get(1).is_some_and(|word| word == "help");
    let asks_again = |word: &OsStr| word == "--help" || word == "-h";
    words.iter().filter(move |word| !(is_help && asks_again(word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;

    fn told(words: &str) -> (ErrorKind, String) {
        let words: Vec<OsString> = words.split(' ').map(Into::into).collect();
        let told = parse(&words).expect_err("help is no command");
        (told.kind(), told.to_string())
    }

    #[test]
    fn help_of_help_is_help() {
        for (words, plain) in [
            ("trainyard help --help", "trainyard help"),
            ("trainyard help -h", "trainyard help"),
            ("trainyard help plan --help", "trainyard help plan"),
        ] {
            let (kind, text) = told(words);
            assert_eq!((kind, &text), (ErrorKind::DisplayHelp, &told(plain).1), "{words}");
        }
        assert_eq!(told("trainyard help pln").0, ErrorKind::InvalidSubcommand);
    }

    #[test]
    fn the_history_is_shown_where_results_are_kept() {
        for (command, shown) in [("plan", true), ("history list", true), ("explain", false), ("export", false)] {
            let (_, text) = told(&format!("trainyard {command} --help"));
            assert_eq!(text.contains("--history"), shown, "{command}");
        }
        let words = ["trainyard", "--history", "off", "explain", "plan.json", "--history", "off"].map(OsString::from);
        assert!(parse(&words).is_ok(), "it may be said everywhere");
    }

    /// Flags stand under the heading of what they are about, not under that of the group before them.
    #[test]
    fn no_heading_reaches_further_than_its_flags() {
        let program = program();
        let search = ["fix", "max-simulations", "threads"];
        for command in program.get_subcommands() {
            for flag in command.get_arguments().filter(|flag| flag.get_help_heading() == Some("Search")) {
                let name = flag.get_long().expect("a flag");
                assert!(search.contains(&name), "{}: --{name}", command.get_name());
            }
        }
    }
}
