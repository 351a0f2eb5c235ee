//! Documents that cannot be read, told by file, line, key, what is allowed, and what was probably meant.

use crate::failure::{Exit, Failure, Fault};
use crate::kinds;
use serde::de::DeserializeOwned;
use std::path::Path;
use trainyard_documents::{plain_words, toml_place};
use trainyard_models::ModelSpec;
use trainyard_plan::document::{PLAN_SCHEMA, PlanDocument};
use trainyard_units::similar;

/// How a message begins that names a key that is not there.
const MISSING: &str = "missing field `";

/// Advice where nothing better is known.
const FORMS_OF_FILES: &str = "`trainyard schemas --out DIR` writes what each kind of file may hold";

/// Parses a value from TOML text.
pub(crate) fn from_toml<T: DeserializeOwned>(what: &str, text: &str, path: &Path) -> Result<T, Failure> {
    trainyard_documents::from_toml(text).map_err(|error| {
        if let Some(misplaced) = kinds::misplaced(what, text, path) {
            return misplaced;
        }
        let at = error.span().map_or(0, |span| span.start);
        let message = plain_words(error.message(), "a table");
        let forms = number_forms(&message).or_else(|| values_of(&message));
        // What lacks in the whole file is at no key of it.
        let key = toml_place(text, at).filter(|_| at > 0 || !message.starts_with(MISSING));
        let failure = unreadable(what, path, line(text, at), key, &message);
        if failure.hint_text().is_some() { failure } else { failure.hint(FORMS_OF_FILES).maybe_hint(forms) }
    })
}

/// Parses a plan document from JSON text; one of another schema gets another error than a damaged one.
pub(crate) fn plan_from_json(text: &str, path: &Path) -> Result<PlanDocument, Failure> {
    let read = from_json::<serde_json::Value>("plan", text, path);
    let value = read.map_err(|failure| kinds::misplaced("plan", text, path).unwrap_or(failure))?;
    let found = match value.get("schema").and_then(serde_json::Value::as_str) {
        Some(PLAN_SCHEMA) => return from_json("plan", text, path),
        Some(other) => other,
        None => {
            let absent = || no_plan(path, format!("`schema` is absent, but this version reads `{PLAN_SCHEMA}`"));
            return Err(kinds::misplaced("plan", text, path).unwrap_or_else(absent));
        }
    };
    let of_another = || {
        let cause = format!("`schema` is `{found}`, but this version reads `{PLAN_SCHEMA}`");
        if version(found) <= version(PLAN_SCHEMA) {
            return no_plan(path, cause);
        }
        no_plan(path, format!("{cause}: a newer version of trainyard wrote it"))
            .hint(format!("read it with that version; {PLAN_WRITTEN} that this one reads"))
    };
    Err(kinds::no_plan(found, path).unwrap_or_else(of_another))
}

fn no_plan(path: &Path, cause: String) -> Failure {
    Failure::input(format!("cannot read plan `{}`", path.display())).because(cause).hint(PLAN_WRITTEN)
}

/// Returns the version of a schema of plans; `None` of others.
fn version(schema: &str) -> Option<u32> {
    let (kind, _) = PLAN_SCHEMA.split_once('/')?;
    schema.strip_prefix(kind)?.strip_prefix('/')?.parse().ok()
}

/// Parses a value from JSON text.
pub(crate) fn from_json<T: DeserializeOwned>(what: &str, text: &str, path: &Path) -> Result<T, Failure> {
    trainyard_documents::from_json(text).map_err(|error| {
        let start = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
        let end = text.floor_char_boundary(start + error.column());
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        let message = plain_words(message, "an object in braces");
        // The message itself names an unknown or a missing key, and the text before it ends with another.
        let names = message.starts_with("unknown key") || message.starts_with(MISSING);
        let key = json_key(&text[..end]).filter(|_| !names);
        let failure = unreadable(what, path, error.line(), key, &message);
        let hint = if what == "plan" && message.starts_with(MISSING) { PLAN_WRITTEN } else { FORMS_OF_FILES };
        if failure.hint_text().is_some() { failure } else { failure.hint(hint) }
    })
}

/// Returns the failure of a file that is wrong in a line, at a key if it is known.
fn unreadable(what: &str, path: &Path, line: usize, key: Option<String>, message: &str) -> Failure {
    let message = message.lines().next().unwrap_or_default();
    let place = key.as_ref().map_or_else(String::new, |key| format!(", `{key}`"));
    let named = |begin| message.strip_prefix(begin).and_then(|rest: &str| rest.split('`').next());
    let unknown = named("unknown key `").or_else(|| named(MISSING));
    Failure::new(Exit::Input, format!("cannot read {what} `{}`", path.display()))
        .because(format!("line {line}{place}: {message}"))
        .maybe_hint(
            known_otherwise(key.as_deref(), message)
                .or_else(|| in_a_model_file(key.as_deref(), message))
                .or_else(|| of_the_catalog(key.as_deref(), message))
                .or_else(|| did_you_mean(message))
                .or_else(|| advice(what, message)),
        )
        .at(Fault {
            field: key.or_else(|| unknown.map(Into::into)),
            value: message
                .split('`')
                .nth(1)
                .filter(|_| unknown.is_none() && !message.starts_with("unclosed"))
                .map(Into::into),
            allowed: message.split_once("expected ").map(|(_, allowed)| allowed.into()),
        })
}

/// Says where a dimension belongs that a job's `[model]` does not take.
fn in_a_model_file(key: Option<&str>, message: &str) -> Option<String> {
    let name = key?.strip_prefix("model.").filter(|_| message.starts_with("unknown key"))?;
    let alone = serde_json::from_value::<ModelSpec>(serde_json::json!({ name: null }));
    let is_known = alone.map_or_else(|error| !error.to_string().starts_with("unknown field"), |_| true);
    is_known
        .then(|| format!("`{name}` stands in a file of the model, which `file = \"MODEL.toml\"` under [model] names"))
}

/// Keys that practitioners know from PEFT's `LoraConfig`, TRL's scripts and transformers' `TrainingArguments`, by the start of the
/// table's path and their name, with what says the same here.
const KNOWN_OTHERWISE: [(&str, &str, &str); 29] = [
    ("training.lora.", "r", "did you mean `rank`?"),
    ("training.lora.", "lora_r", "did you mean `rank`?"),
    ("training.lora.", "lora_rank", "did you mean `rank`?"),
    ("training.lora.", "lora_alpha", "did you mean `alpha`?"),
    ("training.lora.", "lora_dropout", "did you mean `dropout`?"),
    ("training.lora.", "target_modules", "did you mean `targets`?"),
    ("training.lora.", "lora_target_modules", "did you mean `targets`?"),
    ("training.", "lora_rank", "`rank` stands under [training.lora]"),
    ("training.", "lora_alpha", "`alpha` stands under [training.lora]"),
    ("training.", "max_length", "`seq_len` stands under [model]"),
    ("training.", "packing", "`packing` stands under [data], beside `lengths`"),
    ("training.", "batch_size", "did you mean `global_batch`?"),
    ("training.", "train_batch_size", "did you mean `global_batch`?"),
    ("training.", "per_device_train_batch_size", MICRO_BATCH),
    ("training.", "micro_batch", MICRO_BATCH),
    ("training.", "micro_batch_size", MICRO_BATCH),
    ("training.", "gradient_accumulation_steps", "the plan has it; `--fix batch.accumulation=4` holds it"),
    ("training.", "gradient_checkpointing", "the plan has it; `--fix recompute=full` holds it, `none` is without"),
    ("training.", "lr", "did you mean `learning_rate`?"),
    ("training.", "lr_scheduler_type", "did you mean `decay`?"),
    ("training.", "optim", "did you mean `optimizer`?"),
    ("training.", "max_steps", "did you mean `steps`?"),
    ("training.", "num_train_epochs", "did you mean `epochs`?"),
    ("training.", "bf16", "did you mean `precision = \"bf16-mixed\"`?"),
    ("training.", "fp16", "did you mean `precision = \"fp16-mixed\"`?"),
    ("cluster.", "gpu", OWN_MACHINES),
    ("cluster.", "gpus", OWN_MACHINES),
    ("cluster.", "nodes", "did you mean `max_instances`?"),
    ("model.", "layer", "did you mean `layers`?"),
];

const MICRO_BATCH: &str = "the plan has the micro-batch; `--fix batch.micro=2` holds it";

const OWN_MACHINES: &str = "`instances` names types that are rented; machines of your own go into a cluster file, which \
                            `file = \"lab.toml\"` names (docs/guide/own-cluster.md)";

/// Says what a key is called here that other software calls otherwise.
fn known_otherwise(key: Option<&str>, message: &str) -> Option<String> {
    let key = key.filter(|_| message.starts_with("unknown key"))?;
    let (_, _, ours) = KNOWN_OTHERWISE.iter().find(|(table, name, _)| key.strip_prefix(table) == Some(name))?;
    Some((*ours).to_owned())
}

/// Says that a stack of a user's own is told whole: only files of the catalog may state what differs from another stack.
fn of_the_catalog(key: Option<&str>, message: &str) -> Option<String> {
    (key == Some("stacks.like") && message.starts_with("unknown key"))
        .then(|| "write the whole entry: `trainyard show stacks NAME --format json` has all keys of a stack".into())
}

/// Advice about a file that is no plan.
pub(crate) const PLAN_WRITTEN: &str = "`trainyard plan JOB --out PLAN.json` writes one";

/// What to do about a text that is damaged in a way that the message alone does not tell how to mend.
fn advice(what: &str, message: &str) -> Option<String> {
    let known = [
        ("duplicate", "write the key once: programs differ in which of two values they take"),
        ("no finite number", "write a number, or leave the key out"),
        ("overflowed", "write a number that there is, or leave the key out"),
        ("recurs", "values may be nested at most 128 deep, and these are deeper"),
        ("expected value", if what == "plan" { PLAN_WRITTEN } else { "it is no JSON: JSON begins with { or [" }),
        ("the text ends inside", "the file is empty or was cut short: write it again"),
        ("trailing characters", "the file holds one value and then more: it may be two files joined"),
    ];
    known.iter().find(|(words, _)| message.contains(words)).map(|(_, advice)| (*advice).into())
}

/// Returns the allowed forms of numbers, if the message is about a number in none of them.
fn number_forms(message: &str) -> Option<String> {
    let about = ["expected a whole number, at least", "expected a number", "is not a whole number", "is not a suffix"];
    let told = about.iter().any(|words| message.contains(words));
    told.then(|| "a number may be written as 2000, 1e6, 100_000, \"2k\", \"1.5M\" or \"10B\"".into())
}

/// Quantities as errors call them, with values.
const QUANTITIES: [(&str, &str); 5] = [
    ("an amount of data", "500 MB or 80 GiB"),
    ("a data rate", "100 Gb/s or 25 GB/s"),
    ("an amount of arithmetic", "6 GFLOP"),
    ("an arithmetic rate", "312 TFLOP/s"),
    ("a duration", "30 min, 12h or 3d"),
];

/// Returns values of a quantity that a message says is out of range, or has a unit of another.
fn values_of(message: &str) -> Option<String> {
    let wrong = |name: &str| {
        let ways = [format!("is out of range for {name}:"), format!("is not a unit of {name};")];
        ways.iter().any(|words| message.contains(words))
    };
    let (_, values) = QUANTITIES.into_iter().find(|(name, _)| wrong(name))?;
    Some(format!("for example {values}"))
}

/// Returns the number of the line that contains the byte `at`, from 1.
fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// Returns the key whose value ends the text.
fn json_key(text: &str) -> Option<String> {
    let (before, _) = text.rsplit_once("\":")?;
    let (_, key) = before.rsplit_once('"')?;
    Some(key.into())
}

/// Suggests the probable word, if the message has a word in backticks that is not allowed and then the allowed ones.
fn did_you_mean(message: &str) -> Option<String> {
    if !message.starts_with("unknown ") {
        return None;
    }
    let mut words = message.split('`').skip(1).step_by(2);
    let written = words.next()?;
    similar(written, words).map(|meant| format!("did you mean `{meant}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_plan::JobSpec;

    fn toml_failure(text: &str) -> Failure {
        from_toml::<JobSpec>("job", text, Path::new("job.toml")).expect_err("a job with an error")
    }

    #[test]
    fn a_slip_in_a_key_is_told_with_its_line_and_what_was_meant() {
        let failure = toml_failure("[model]\nname = \"gpt2\"\n\n[training]\nglobal_bach = 8\n");
        assert!(failure.causes()[0].starts_with("line 5, `training.global_bach`: unknown key"), "{failure:?}");
        assert_eq!(failure.hint_text(), Some("did you mean `global_batch`?"));
    }

    #[test]
    fn a_dimension_that_a_job_does_not_take_belongs_into_a_file_of_the_model() {
        let hint =
            |key: &str| toml_failure(&format!("[model]\nname = \"own\"\n{key} = 2\n")).hint_text().map(str::to_owned);
        assert!(hint("kv_heads").is_some_and(|hint| hint.starts_with("`kv_heads` stands in a file of the model")));
        assert_eq!(hint("hiden").as_deref(), Some("did you mean `hidden`?"));
    }

    #[test]
    fn a_key_may_be_known_by_the_name_that_other_software_gives_it() {
        let hint = |table: &str, key: &str| {
            toml_failure(&format!("[{table}]\n{key} = 2\n")).hint_text().map(str::to_owned).unwrap_or_default()
        };
        assert_eq!(hint("training.lora", "r"), "did you mean `rank`?");
        assert_eq!(hint("training.lora", "rnk"), "did you mean `rank`?");
        assert_eq!(hint("training", "batch_size"), "did you mean `global_batch`?");
        assert!(hint("training", "gradient_checkpointing").contains("--fix recompute=full"));
        assert!(hint("cluster", "gpus").contains("cluster file"));
        assert_eq!(hint("model", "layer"), "did you mean `layers`?");
        // No key that there is has another name.
        let job: JobSpec = toml::from_str("").expect("an empty job");
        let known = serde_json::to_string(&job).expect("a job is JSON");
        assert!(KNOWN_OTHERWISE.iter().all(|(_, name, _)| !known.contains(&format!("\"{name}\""))));
    }

    #[test]
    fn a_number_that_is_none_says_what_is_expected() {
        let failure = toml_failure("[training]\nsteps = -3\n");
        assert!(failure.causes()[0].contains("`-3`, expected a whole number, at least 0"), "{failure:?}");
        assert!(failure.hint_text().is_some_and(|hint| hint.contains("10B")), "{failure:?}");
        let failure = toml_failure("[training]\nglobal_batch = \"1.5\"\n");
        assert!(
            failure.causes()[0].starts_with("line 2, `training.global_batch`: `1.5` is not a whole"),
            "{failure:?}"
        );
    }

    #[test]
    fn a_quantity_out_of_range_comes_with_values_of_its_kind() {
        let file = "machines = [{ like = \"p3dn.24xlarge\", count = 4, network = { bandwidth = \"-1 Gb/s\" } }]\n";
        let failure = from_toml::<trainyard_hardware_profiles::ClusterFile>("cluster", file, Path::new("c.toml"));
        let failure = failure.expect_err("a negative rate");
        assert!(failure.causes()[0].contains("`-1 Gb/s` is out of range for a data rate"), "{failure:?}");
        assert_eq!(failure.hint_text(), Some("for example 100 Gb/s or 25 GB/s"));
    }

    #[test]
    fn a_plan_of_another_version_is_not_called_damaged() {
        let failure = plan_from_json("{\"schema\": \"trainyard.plan/2\", \"new\": 1}", Path::new("p.json"));
        let failure = failure.expect_err("another version");
        assert!(failure.causes()[0].contains("`trainyard.plan/2`") && failure.causes()[0].contains(PLAN_SCHEMA));
    }

    #[test]
    fn a_plan_of_a_newer_version_is_told_so() {
        let read = |schema: &str| {
            let failure = plan_from_json(&format!("{{\"schema\": \"{schema}\"}}"), Path::new("p.json"));
            failure.expect_err("another version").causes()[0].clone()
        };
        assert!(read("trainyard.plan/9").ends_with("a newer version of trainyard wrote it"));
        assert!(!read("trainyard.plan/0").contains("newer") && !read("other/9").contains("newer"));
    }

    #[test]
    fn a_comment_behind_a_heading_is_no_part_of_a_path() {
        let failure = toml_failure("[goal] # in a week, see https://x.y/z\ndeadline = 7\n");
        assert!(failure.causes()[0].starts_with("line 2, `goal.deadline`: invalid type"), "{failure:?}");
        let failure = toml_failure("model = \"gpt2\"\n");
        assert_eq!(failure.causes()[0], "line 1, `model`: invalid type: string \"gpt2\", expected a table");
    }

    #[test]
    fn what_is_missing_is_at_no_other_key() {
        let text = "{\n\"schema\": \"trainyard.plan/1\",\n\"job\": {}\n}";
        let failure = plan_from_json(text, Path::new("p.json")).expect_err("no plan in it");
        assert_eq!(failure.causes()[0], "line 4: missing field `plan`");
        assert_eq!((failure.fault().field.as_deref(), failure.hint_text()), (Some("plan"), Some(PLAN_WRITTEN)));
    }

    #[test]
    fn damage_in_json_is_told_with_its_line_and_key() {
        let text = "{\n  \"schema\": \"trainyard.plan/1\",\n  \"job\": 3\n}";
        let failure = plan_from_json(text, Path::new("p.json")).expect_err("a job that is a number");
        assert!(failure.causes()[0].starts_with("line 3, `job`: invalid type"), "{failure:?}");
        assert!(plan_from_json("ä{", Path::new("p.json")).is_err() && plan_from_json("", Path::new("p.json")).is_err());
    }
}
