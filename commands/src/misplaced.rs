//! Flags that do not apply to what a file holds.

use crate::arguments::JobArguments;
use crate::failure::Failure;

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
    let JobArguments {
        job: _,
        constants: _,
        prices: _,
        model,
        tokens,
        samples,
        lengths,
        dataset,
        bytes_per_sample,
        storage,
        global_batch,
        epochs,
        steps,
        seq_len,
        fine_tune,
        dpo,
        lora_rank,
    } = arguments;
    let flags = [
        ("--model", model.is_some(), "model"),
        ("--tokens", tokens.is_some(), "data.tokens"),
        ("--samples", samples.is_some(), "data.samples"),
        ("--lengths", lengths.is_some(), "data.lengths"),
        ("--dataset", dataset.is_some(), "data.dataset"),
        ("--bytes-per-sample", bytes_per_sample.is_some(), "data.bytes_per_sample"),
        ("--storage", storage.is_some(), "data.storage"),
        ("--global-batch", global_batch.is_some(), "training.global_batch"),
        ("--epochs", epochs.is_some(), "training.epochs"),
        ("--steps", steps.is_some(), "training.steps"),
        ("--seq-len", seq_len.is_some(), "model.seq_len"),
        ("--fine-tune", fine_tune.is_some(), "training.method"),
        ("--dpo", dpo.is_some(), "training.objective"),
        ("--lora-rank", lora_rank.is_some(), "training.lora.rank"),
    ];
    flags.into_iter().map(move |(flag, given, field)| (flag, given, advice(field)))
}

/// Advises where a field of a job belongs in a file of several jobs.
pub(crate) fn in_each_job(field: &str) -> String {
    let table = field.split('.').next().unwrap_or(field);
    format!("each [[job]] has its own `{table}`")
}
