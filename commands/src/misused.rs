//! Words that are no command: which flag, which value, what is allowed, and what was probably meant.

use crate::failure::{Failure, Fault};
use crate::parsing::program;
use crate::values::Refused;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};
use std::error::Error as _;
use std::ffi::OsString;
use trainyard_units::similar;

/// Flags of other programs, and what says the same here.
const MEANT: [(&str, &str); 20] = [
    ("--batch", "--global-batch"),
    ("--bf16", "--fix precision=bf16-mixed"),
    ("--gradient-accumulation-steps", "--fix batch.accumulation=4"),
    ("--max-length", "--seq-len"),
    ("--max-seq-length", "--seq-len"),
    ("--method", "--fine-tune"),
    ("--micro-batch-size", "--fix batch.micro=2"),
    ("--num-train-epochs", "--epochs"),
    ("--per-device-train-batch-size", "--fix batch.micro=2"),
    ("--batch-size", "--global-batch"),
    ("--gpu", "--instances"),
    ("--gpus", "--instances"),
    ("--instance-type", "--instances"),
    ("--spot", "--pricing spot"),
    ("--machines", "--cluster"),
    ("--cluster-file", "--cluster"),
    ("--lr", "--learning-rate"),
    ("--nodes", "--max-instances"),
    ("--precision", "--fix precision=bf16-mixed"),
    ("--seq-length", "--seq-len"),
];

/// Returns the failure of these words, of which the first is the program's name.
pub(crate) fn misused(error: &Error, words: &[OsString]) -> Failure {
    let command = named(words);
    let flag = told(error, ContextKind::InvalidArg).map(|flag| bare(&flag).to_owned());
    let value = told(error, ContextKind::InvalidValue).filter(|value| !value.is_empty());
    let allowed = allowed(error);
    let sentence = sentence(error, flag.as_deref(), value.as_deref(), allowed.as_deref());
    let hint = meant(error, &command, flag.as_deref())
        .map_or_else(|| help(error, &command, flag.as_deref()), |meant| format!("did you mean `{meant}`?"));
    Failure::input(sentence).hint(hint).at(Fault { field: flag, value, allowed })
}

/// The command that the words name, as far as they name one, with the names of the commands it is in.
fn named(words: &[OsString]) -> Command {
    let command = program();
    let texts = words.iter().skip(1).filter_map(|word| word.to_str());
    texts.fold(command, |command, word| command.find_subcommand(word).cloned().unwrap_or(command))
}

fn told(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => Some(texts.join(", ")),
        ContextValue::StyledStr(text) => Some(text.to_string()),
        _ => None,
    }
}

/// A flag without the name of its value: `--region <REGION>`, `--dpo[=<REFERENCE>]`.
fn bare(flag: &str) -> &str {
    flag.split([' ', '[', '=']).next().filter(|name| name.starts_with('-')).unwrap_or(flag)
}

fn allowed(error: &Error) -> Option<String> {
    let names = told(error, ContextKind::ValidValue).filter(|names| !names.is_empty());
    let rule = || Some(error.source()?.downcast_ref::<Refused>()?.allowed.clone());
    names.or_else(rule)
}

fn sentence(error: &Error, flag: Option<&str>, value: Option<&str>, allowed: Option<&str>) -> String {
    let flag = flag.unwrap_or_default();
    match (error.kind(), value) {
        (ErrorKind::ValueValidation, Some(value)) => match error.source().map(ToString::to_string) {
            Some(why) if why.contains(&format!("`{value}`")) => format!("`{flag}`: {why}"),
            Some(why) => format!("`{flag}`: `{value}` is not allowed: {why}"),
            None => format!("`{flag}`: `{value}` is not allowed"),
        },
        (ErrorKind::InvalidValue, Some(value)) => match allowed {
            Some(names) => format!("`{flag}`: `{value}` is none of {names}"),
            None => format!("`{flag}`: `{value}` is not allowed"),
        },
        (ErrorKind::InvalidValue, None) => match allowed {
            Some(names) => format!("`{flag}` needs a value: one of {names}"),
            None => format!("`{flag}` needs a value"),
        },
        (ErrorKind::UnknownArgument, _) => format!("there is no flag `{flag}` here"),
        (ErrorKind::InvalidSubcommand, _) => {
            format!("there is no command `{}`", told(error, ContextKind::InvalidSubcommand).unwrap_or_default())
        }
        (ErrorKind::MissingRequiredArgument, _) => {
            format!("missing: {}", told(error, ContextKind::InvalidArg).unwrap_or_default())
        }
        (ErrorKind::ArgumentConflict, _) => match told(error, ContextKind::PriorArg) {
            Some(other) if bare(&other) == flag => format!("`{flag}` is given twice"),
            Some(other) => format!("`{flag}` and `{}` exclude each other", bare(&other)),
            None => format!("`{flag}` excludes other flags"),
        },
        _ => {
            let text = error.to_string();
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
    }
}

/// What was probably meant: a name that is spelled nearly so, or this program's name of the same thing.
fn meant(error: &Error, command: &Command, flag: Option<&str>) -> Option<String> {
    let ours = || {
        let unknown = flag.filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
        let (_, ours) = MEANT.iter().find(|(theirs, _)| *theirs == unknown)?;
        Some((*ours).to_owned()).filter(|ours| argument(command, ours).is_some())
    };
    let near = [
        (ContextKind::SuggestedArg, ContextKind::InvalidArg),
        (ContextKind::SuggestedValue, ContextKind::InvalidValue),
        (ContextKind::SuggestedSubcommand, ContextKind::InvalidSubcommand),
    ];
    // What clap suggests may have no more than a letter in common.
    let alike = |(suggested, written): (ContextKind, ContextKind)| {
        let (suggested, written) = (told(error, suggested)?, told(error, written)?);
        let bare = |word: &str| word.trim_start_matches('-').to_lowercase();
        similar(&bare(&written), [bare(&suggested).as_str()]).is_some().then_some(suggested)
    };
    ours().or_else(|| near.into_iter().find_map(alike))
}

/// Where the user finds what may be typed.
fn help(error: &Error, command: &Command, flag: Option<&str>) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    match error.kind() {
        ErrorKind::ArgumentConflict => "leave one of them out".into(),
        ErrorKind::MissingRequiredArgument => {
            let usage = told(error, ContextKind::Usage).unwrap_or_default();
            format!("{}; `{name} --help` explains each", usage.trim_start_matches("Usage: ").trim())
        }
        ErrorKind::InvalidSubcommand => format!("`{name} --help` lists the commands"),
        // `train` begins a training.
        ErrorKind::UnknownArgument if flag == Some("--resume") => {
            "`trainyard run PLAN --data PATH --checkpoint FOLDER --resume` goes on with a training; PLAN is plan.json of the \
             run's folder, FOLDER the run's folder"
                .into()
        }
        ErrorKind::UnknownArgument => format!("`{name} --help` lists the flags"),
        _ => match flag.and_then(|flag| purpose(command, flag)) {
            Some(purpose) => format!("{purpose} (`{name} --help`)"),
            None => format!("see `{name} --help`"),
        },
    }
}

/// The argument of a command that a flag is, whatever value follows it.
fn argument<'a>(command: &'a Command, flag: &str) -> Option<&'a Arg> {
    let long = flag.trim_start_matches("--").split(' ').next();
    command.get_arguments().find(|argument| argument.get_long() == long)
}

/// A flag with the name of its value and what it is for: `--keep <N>: How many checkpoints stay`.
fn purpose(command: &Command, flag: &str) -> Option<String> {
    let argument = argument(command, flag)?;
    Some(format!("{argument}: {}", argument.get_help()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsing::parse;

    fn refusal(words: &str) -> Failure {
        let words: Vec<OsString> = words.split(' ').map(Into::into).collect();
        misused(&parse(&words).expect_err("no command"), &words)
    }

    fn told(words: &str) -> (String, String) {
        let failure = refusal(words);
        (failure.message().into(), failure.hint_text().expect("every refusal has a hint").into())
    }

    fn commands(command: &Command, words: &str, all: &mut Vec<(String, Command)>) {
        let nested: Vec<_> = command.get_subcommands().filter(|nested| nested.get_name() != "help").collect();
        if nested.is_empty() {
            all.push((words.to_owned(), command.clone()));
        }
        for nested in nested {
            commands(nested, &format!("{words} {}", nested.get_name()), all);
        }
    }

    /// Whatever a flag does not take is refused with the flag, the value, what is allowed, and a hint.
    #[test]
    fn every_flag_says_what_it_takes() {
        let program = program();
        let mut all = Vec::new();
        commands(&program, "trainyard", &mut all);
        let mut refused = 0;
        for (words, command) in &all {
            for flag in command.get_arguments().filter_map(|argument| argument.get_long()) {
                let words: Vec<OsString> = format!("{words} --{flag}=\u{a7}").split(' ').map(Into::into).collect();
                let Err(error) = parse(&words) else { continue };
                if !matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) {
                    continue;
                }
                refused += 1;
                let failure = misused(&error, &words);
                let fault = failure.fault();
                assert_eq!(fault.field.as_deref(), Some(&*format!("--{flag}")), "{failure:?}");
                assert_eq!(fault.value.as_deref(), Some("\u{a7}"), "{failure:?}");
                assert!(failure.message().contains("`\u{a7}`"), "{failure:?}");
                assert!(!failure.message().contains("invalid"), "a library's words: {failure:?}");
                assert!(failure.hint_text().is_some_and(|hint| hint.contains("trainyard ")), "{failure:?}");
            }
        }
        assert!(refused > 100, "{refused} flags refused a value");
    }

    #[test]
    fn a_slip_gets_what_was_meant() {
        let unknown = |words| (refusal(words).fault().field.clone(), told(words).1);
        assert_eq!(
            unknown("trainyard plan --batch 8"),
            (Some("--batch".into()), "did you mean `--global-batch`?".into())
        );
        assert!(!told("trainyard plan --lr 1").1.contains("--learning-rate"), "a plan has no learning rate");
        assert_eq!(told("trainyard pln"), ("there is no command `pln`".into(), "did you mean `plan`?".into()));
        assert_eq!(told("trainyard plan --bogus").1, "`trainyard plan --help` lists the flags");
        assert_eq!(told("trainyard plan --format tabel").1, "did you mean `table`?");
    }

    #[test]
    fn what_is_missing_and_what_excludes_each_other_is_named() {
        let (message, hint) = told("trainyard run plan.json");
        assert_eq!(message, "missing: --data <PATH>");
        assert!(hint.starts_with("trainyard run --data <PATH> <PLAN.json>"), "{hint}");
        assert_eq!(
            told("trainyard plan --tokens 1B --samples 5"),
            ("`--tokens` and `--samples` exclude each other".into(), "leave one of them out".into())
        );
        assert_eq!(told("trainyard plan --model a --model b").0, "`--model` is given twice");
    }

    /// Each name that is offered for another program's is one of this program.
    #[test]
    fn what_is_meant_exists() {
        let program = program();
        let mut all = Vec::new();
        commands(&program, "trainyard", &mut all);
        for (theirs, ours) in MEANT {
            let has = |name: &str| all.iter().any(|(_, command)| argument(command, name).is_some());
            assert!(has(ours) && !has(theirs), "{theirs}: {ours}");
        }
    }
}
