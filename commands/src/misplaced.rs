//! Flags that do not apply to what a file holds.

use crate::arguments::{GoalArguments, JobArguments};
use crate::failure::Failure;
use crate::typed;

/// A flag, `true` if it is given, and advice.
pub(crate) type Flag = (&'static str, bool, String);

/// Refuses the first flag that is given. `why` ends the sentence: `is for jobs, but this is a fleet`.
pub(crate) fn refuse(flags: impl IntoIterator<Item = Flag>, why: &str) -> Result<(), Failure> {
    match flags.into_iter().find(|(_, given, _)| *given) {
        Some((flag, _, advice)) => Err(Failure::input(format!("`{flag}` {why}")).hint(advice)),
        None => Ok(()),
    }
}

/// Returns the flags that describe a job, with advice made of the field of the job that each sets.
pub(crate) fn of_job(arguments: &JobArguments, advice: fn(&str) -> String) -> impl Iterator<Item = Flag> {
    typed::flags_of_job(arguments).into_iter().map(move |(flag, field, given, _)| (flag, given, advice(field)))
}

/// Returns the flags of machines and goal, with advice made of the field that each sets.
pub(crate) fn of_goal(arguments: &GoalArguments, advice: fn(&str) -> String) -> impl Iterator<Item = Flag> {
    typed::flags_of_goal(arguments).into_iter().map(move |(flag, field, given, _)| (flag, given, advice(field)))
}

/// Advises where a field of a job belongs in a file of several jobs.
pub(crate) fn in_each_job(field: &str) -> String {
    let table = field.split('.').next().unwrap_or(field);
    format!("each [[job]] has its own `{table}`")
}
