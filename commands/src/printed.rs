//! `-` in place of a file: the result goes to standard output, and nothing else does.

use crate::arguments::{Arguments, Command, Format, PricesCommand};
use crate::failure::Failure;
use crate::history_arguments::HistoryCommand;
use std::path::{Path, PathBuf};

/// What stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// Returns `true` if a path stands for standard output.
pub(crate) fn is_printed(path: &Path) -> bool {
    path == Path::new(STANDARD_OUTPUT)
}

/// Prints what commands print that write no file: `plan --out -` is `plan --format json`.
///
/// # Errors
///
/// When `-` stands for a folder or for what is not printed, or when two results would go to standard output.
pub(crate) fn resolved(mut arguments: Arguments) -> Result<Arguments, Failure> {
    let format = &mut arguments.global.format;
    let (mut document, mut rows) = (false, false);
    match &mut arguments.command {
        Command::Plan(plan) => document = left_out(&mut plan.out),
        Command::WhatIf(what_if) => {
            document = left_out(&mut what_if.out);
            rows = what_if.csv.as_deref().is_some_and(is_printed);
        }
        Command::Report(report) => drop(left_out(&mut report.out)),
        Command::Export(export) => drop(left_out(&mut export.out)),
        Command::Man(man) => drop(left_out(&mut man.out)),
        Command::Prices(PricesCommand::Import(import)) => drop(left_out(&mut import.out)),
        _ => {}
    }
    if rows && (document || *format == Format::Json) {
        let other = if document { "`--out -`" } else { "`--format json`" };
        return Err(Failure::input(format!("`--csv -` and {other} both go to standard output"))
            .hint("name a file for one of them"));
    }
    if document {
        *format = Format::Json;
    }
    match unprinted(&arguments) {
        Some((flag, hint)) => {
            Err(Failure::input(format!("`{flag} -`: this does not go to standard output")).hint(hint))
        }
        None => Ok(arguments),
    }
}

/// Leaves out a file that stands for standard output; returns `true` if it does.
fn left_out(file: &mut Option<PathBuf>) -> bool {
    file.take_if(|path| is_printed(path)).is_some()
}

/// Returns the flag of a place that cannot be printed and is `-` all the same, with advice.
fn unprinted(arguments: &Arguments) -> Option<(&'static str, &'static str)> {
    const FILE: &str = "name a file; `./-` is one of that name";
    const FOLDER: &str = "name a folder; `./-` is one of that name";
    let places = match &arguments.command {
        Command::Plan(plan) => vec![("--plans", plan.plans.as_deref(), FOLDER)],
        Command::Simulate(simulate) => {
            vec![("--trace", simulate.trace.as_deref(), FILE), ("--chakra", simulate.chakra.as_deref(), FOLDER)]
        }
        Command::Report(report) => vec![("--plots", report.plots.as_deref(), FOLDER)],
        Command::Calibrate(calibrate) => vec![("--out", calibrate.out.as_deref(), FILE)],
        Command::Prices(PricesCommand::Import(import)) => vec![("--quotas", import.quotas.as_deref(), FILE)],
        Command::History(HistoryCommand::Export(export)) => {
            vec![("--out", Some(&*export.out), "`trainyard history show ID --document` prints a document")]
        }
        Command::Schemas(schemas) => vec![("--out", Some(&*schemas.out), FOLDER)],
        Command::Train(train) => vec![("--out", train.out.as_deref(), FOLDER)],
        Command::Run(run) => vec![("--out", run.out.as_deref(), FOLDER)],
        _ => Vec::new(),
    };
    let history = ("--history", arguments.global.history.as_deref(), "name a file; `--history off` keeps nothing");
    let mut places = places.into_iter().chain([history]);
    places.find(|(_, path, _)| path.is_some_and(is_printed)).map(|(flag, _, hint)| (flag, hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsing::parse;

    fn of(words: &str) -> Result<Arguments, Failure> {
        let words: Vec<_> = format!("trainyard {words}").split(' ').map(Into::into).collect();
        resolved(parse(&words).expect("words of the program"))
    }

    #[test]
    fn a_hyphen_is_standard_output() {
        for words in ["plan --out -", "what-if --tornado --out -"] {
            assert_eq!(of(words).expect("it is printed").global.format, Format::Json, "{words}");
        }
        for words in
            ["report a.json --out -", "export a.json --to slurm --out -", "man --out -", "prices import a --out -"]
        {
            let arguments = of(words).expect("it is printed");
            assert_eq!(arguments.global.format, Format::Table, "{words}");
            let (Command::Report(_) | Command::Export(_) | Command::Man(_) | Command::Prices(_)) = arguments.command
            else {
                panic!("{words}")
            };
        }
        let Command::WhatIf(rows) = of("what-if --tornado --csv -").expect("it is printed").command else { panic!() };
        assert!(rows.csv.is_some());
    }

    #[test]
    fn what_is_not_printed_is_refused_with_advice() {
        for words in [
            "plan fleet.toml --plans -",
            "simulate plan.json --trace -",
            "simulate plan.json --chakra -",
            "report plan.json --plots -",
            "calibrate --out -",
            "prices import a.json --quotas -",
            "history export --out -",
            "schemas --out -",
            "run plan.json --data synthetic --out -",
            "plan --history -",
            "what-if --tornado --out - --csv -",
            "what-if --tornado --csv - --format json",
        ] {
            let refused = of(words).expect_err("it does not go to standard output");
            assert!(refused.message().contains("standard output") && refused.hint_text().is_some(), "{words}");
        }
    }
}
