//! Flags that set fields of a job: what is wrong in such a field is told in the words that were typed, and where a file
//! holds something else, these flags are refused.

use crate::arguments::{GoalArguments, JobArguments};
use crate::failure::Failure;
use trainyard_units::Invalid;

/// A flag that sets a field of a job.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    /// The field, `goal.deadline`.
    pub(crate) field: String,
    pub(crate) flag: &'static str,
    /// The flag with a value that it may have.
    example: &'static str,
}

/// A flag with the field that it sets, `true` if it is given, and an example.
type Row = (&'static str, &'static str, bool, &'static str);

/// Returns the flags that describe a job.
fn flags_of_job(arguments: &JobArguments) -> [Row; 16] {
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
        decoder_seq_len,
        fine_tune,
        dpo,
        lora_rank,
        optimizer,
    } = arguments;
    [
        ("--model", "model", model.is_some(), "--model gpt2"),
        ("--tokens", "data.tokens", tokens.is_some(), "--tokens 10B"),
        ("--samples", "data.samples", samples.is_some(), "--samples 1M"),
        ("--lengths", "data.lengths", lengths.is_some(), "--lengths lengths.txt"),
        ("--dataset", "data.dataset", dataset.is_some(), "--dataset none"),
        ("--bytes-per-sample", "data.bytes_per_sample", bytes_per_sample.is_some(), "--bytes-per-sample 110kB"),
        ("--storage", "data.storage", storage.is_some(), "--storage s3-fastfile"),
        ("--global-batch", "training.global_batch", global_batch.is_some(), "--global-batch 512"),
        ("--epochs", "training.epochs", epochs.is_some(), "--epochs 3"),
        ("--steps", "training.steps", steps.is_some(), "--steps 10k"),
        ("--seq-len", "model.seq_len", seq_len.is_some(), "--seq-len 2k"),
        ("--decoder-seq-len", "model.decoder_seq_len", decoder_seq_len.is_some(), "--decoder-seq-len 128"),
        ("--fine-tune", "training.method", fine_tune.is_some(), "--fine-tune lora"),
        ("--dpo", "training.objective", dpo.is_some(), "--dpo"),
        ("--lora-rank", "training.lora.rank", lora_rank.is_some(), "--lora-rank 16"),
        ("--optimizer", "training.optimizer", optimizer.is_some(), "--optimizer adamw"),
    ]
}

/// Returns the flags that say where and to what end.
fn flags_of_goal(arguments: &GoalArguments) -> [Row; 13] {
    let GoalArguments {
        objective,
        deadline,
        budget,
        cluster,
        instances,
        max_instances,
        region,
        pricing,
        service,
        transport,
        stack,
        quotas,
        memory_margin,
    } = arguments;
    [
        ("--objective", "goal.objective", objective.is_some(), "--objective cost"),
        ("--deadline", "goal.deadline", deadline.is_some(), "--deadline 3d"),
        ("--budget", "goal.budget", budget.is_some(), "--budget 5000"),
        ("--cluster", "cluster.file", cluster.is_some(), "--cluster lab.toml"),
        (
            "--instances",
            "cluster.instances",
            instances.is_some(),
            "--instances p4d.24xlarge; `trainyard show instances` lists them",
        ),
        ("--max-instances", "cluster.max_instances", max_instances.is_some(), "--max-instances 16"),
        ("--region", "cluster.region", region.is_some(), "--region us-east-1"),
        ("--pricing", "cluster.pricing", pricing.is_some(), "--pricing on-demand"),
        ("--service", "cluster.service", service.is_some(), "--service ec2"),
        ("--transport", "cluster.transport", transport.is_some(), "--transport tcp"),
        ("--stack", "cluster.stack", stack.is_some(), "--stack auto"),
        ("--quotas", "cluster.quotas", quotas.is_some(), "--quotas quotas.toml"),
        ("--memory-margin", "cluster.memory_margin", memory_margin.is_some(), "--memory-margin 8%"),
    ]
}

fn given(rows: impl IntoIterator<Item = Row>) -> Vec<Typed> {
    let given = rows.into_iter().filter(|(_, _, given, _)| *given);
    given.map(|(flag, field, _, example)| Typed { field: field.into(), flag, example }).collect()
}

/// Returns those flags of a job that were given.
pub(crate) fn of_job(arguments: &JobArguments) -> Vec<Typed> {
    let mut typed = given(flags_of_job(arguments));
    // A rank alone makes no adapters.
    if arguments.lora_rank.is_some() {
        typed.push(Typed { field: "training.lora".into(), flag: "--lora-rank", example: "--fine-tune lora" });
    }
    typed
}

/// Returns those flags of machines and goal that were given.
pub(crate) fn of_goal(arguments: &GoalArguments) -> Vec<Typed> {
    given(flags_of_goal(arguments))
}

/// Returns those flags of machines and goal that were given, with the fields of a fleet of so many jobs that they set.
pub(crate) fn of_fleet(arguments: &GoalArguments, jobs: usize) -> Vec<Typed> {
    let mut all = Vec::new();
    for own in of_goal(arguments) {
        let Some(key) = own.field.strip_prefix("cluster.") else {
            all.push(own);
            continue;
        };
        // What the machines of every job run with; all else is of the pool.
        let of_each = ["transport", "stack", "memory_margin"].contains(&key);
        let fields: Vec<String> = if of_each {
            let in_lists = (0..jobs).map(|index| format!("job[{index}].{}", own.field));
            in_lists.chain([own.field.clone()]).collect()
        } else {
            vec![format!("pool.{key}")]
        };
        all.extend(fields.into_iter().map(|field| Typed { field, ..own.clone() }));
    }
    all
}

/// Names fields in a text by the flags that set them.
pub(crate) fn as_typed(text: &str, typed: &[Typed]) -> String {
    let named = |text: String, own: &Typed| text.replace(&format!("`{}`", own.field), &format!("`{}`", own.flag));
    typed.iter().fold(text.to_owned(), named)
}

/// Writes lines of files as the flags that say the same: `method = "lora" or "qlora"` is `--fine-tune lora or qlora`.
fn as_flags(hint: &str) -> String {
    let [job, goal] = [&flags_of_job(&JobArguments::default())[..], &flags_of_goal(&GoalArguments::default())];
    // Two fields are called so, of which one is no value of its flag.
    let rows = job.iter().chain(goal).filter(|(_, field, ..)| !field.ends_with(".objective"));
    rows.fold(hint.to_owned(), |hint, (flag, field, ..)| {
        let key = field.rsplit('.').next().unwrap_or(field);
        match hint.split_once(&format!("{key} = ")) {
            Some((before, after)) if before.is_empty() || before.ends_with(' ') => {
                format!("{before}{flag} {}", after.replace('"', ""))
            }
            _ => hint,
        }
    })
}

/// Returns an error with its field and its advice as they were typed.
pub(crate) fn invalid(error: &Invalid, typed: &[Typed]) -> (Invalid, Option<String>) {
    let hint = error.hint().map(|hint| as_typed(&hint, typed));
    let Some(own) = typed.iter().find(|own| own.field == error.field()) else { return (error.clone(), hint) };
    let hint = hint.map_or_else(|| format!("for example {}", own.example), |hint| as_flags(&hint));
    (error.clone().called(own.flag), Some(hint))
}

/// A flag that may not apply to what a file holds, `true` if it is given, and advice.
pub(crate) type Misplaced = (&'static str, bool, String);

/// Refuses the first flag that is given. `why` ends the sentence: `is for jobs, but this is a fleet`.
pub(crate) fn refuse(flags: impl IntoIterator<Item = Misplaced>, why: &str) -> Result<(), Failure> {
    match flags.into_iter().find(|(_, given, _)| *given) {
        Some((flag, _, advice)) => Err(Failure::input(format!("`{flag}` {why}")).hint(advice)),
        None => Ok(()),
    }
}

/// Returns the flags that describe a job, with advice made of the field of the job that each sets.
pub(crate) fn misplaced_of_job(
    arguments: &JobArguments,
    advice: fn(&str) -> String,
) -> impl Iterator<Item = Misplaced> {
    flags_of_job(arguments).into_iter().map(move |(flag, field, given, _)| (flag, given, advice(field)))
}

/// Returns the flags of machines and goal, with advice made of the field that each sets.
pub(crate) fn misplaced_of_goal(
    arguments: &GoalArguments,
    advice: fn(&str) -> String,
) -> impl Iterator<Item = Misplaced> {
    flags_of_goal(arguments).into_iter().map(move |(flag, field, given, _)| (flag, given, advice(field)))
}

/// Advises where a field of a job belongs in a file of several jobs.
pub(crate) fn in_each_job(field: &str) -> String {
    let table = field.split('.').next().unwrap_or(field);
    format!("each [[job]] has its own `{table}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_a_flag_set_is_called_by_the_flag() {
        let arguments = GoalArguments {
            deadline: Some("7".into()),
            region: Some("us-esat-1".into()),
            memory_margin: Some("90%".into()),
            ..GoalArguments::default()
        };
        let typed = of_goal(&arguments);
        let told = |error: Invalid| {
            let (error, hint) = invalid(&error, &typed);
            (as_typed(&error.to_string(), &typed), hint)
        };
        let some = |text: &str| Some(text.to_owned());
        let margin =
            Invalid::value("cluster.memory_margin", "`90%`", "from 0% to 50%").with_hint("memory_margin = \"8%\"");
        assert_eq!(
            told(margin),
            ("`--memory-margin` is `90%`, but it must be from 0% to 50%".into(), some("--memory-margin 8%"))
        );
        let region = Invalid::inside("cluster.region", "no price").with_hint("did you mean `us-east-1`?");
        assert_eq!(told(region), ("in `--region`: no price".into(), some("did you mean `us-east-1`?")));
        let both = Invalid::conflict("data.region", "cluster.region", "write one");
        assert_eq!(
            told(both),
            (
                "`data.region` and `--region` exclude each other: write one".into(),
                some("leave `data.region` or `--region` out, or change one of them")
            )
        );
        assert_eq!(told(Invalid::value("goal.deadline", "`7`", "a duration")).1, some("for example --deadline 3d"));
        assert_eq!(told(Invalid::value("goal.budget", 0, "above 0")).1, None);
    }

    #[test]
    fn a_rank_without_adapters_is_advised_about_by_flags() {
        let typed = of_job(&JobArguments { lora_rank: Some(4), ..JobArguments::default() });
        let error = Invalid::breaks("training.lora", "set", "the method is full")
            .with_hint("use method = \"lora\" or \"qlora\"");
        let (error, hint) = invalid(&error, &typed);
        assert_eq!((error.field(), hint.as_deref()), ("--lora-rank", Some("use --fine-tune lora or qlora")));
    }

    #[test]
    fn flags_of_a_fleet_set_its_pool_or_each_job() {
        let arguments = GoalArguments { region: Some("x".into()), stack: Some("y".into()), ..GoalArguments::default() };
        let fields: Vec<String> = of_fleet(&arguments, 2).into_iter().map(|own| own.field).collect();
        assert_eq!(fields, ["pool.region", "job[0].cluster.stack", "job[1].cluster.stack", "cluster.stack"]);
    }
}
