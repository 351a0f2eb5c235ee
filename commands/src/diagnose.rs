//! Documents that cannot be read, told by file, line, key, what is allowed, and what was probably meant.

use crate::failure::{Exit, Failure, Fault};
use serde::de::DeserializeOwned;
use std::path::Path;
use trainyard_models::ModelSpec;
use trainyard_plan::document::{PLAN_SCHEMA, PlanDocument};
use trainyard_units::similar;

/// Advice where nothing better is known.
const FORMS_OF_FILES: &str = "`trainyard schemas --out DIR` writes what each kind of file may hold";

/// Parses a value from TOML text.
pub(crate) fn from_toml<T: DeserializeOwned>(what: &str, text: &str, path: &Path) -> Result<T, Failure> {
    trainyard_documents::from_toml(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let forms = number_forms(&plain(error.message()));
        let failure = unreadable(what, path, line(text, at), toml_key(text, at), error.message());
        if failure.hint_text().is_some() { failure } else { failure.hint(FORMS_OF_FILES).maybe_hint(forms) }
    })
}

/// Parses a plan document from JSON text; one of another schema gets another error than a damaged one.
pub(crate) fn plan_from_json(text: &str, path: &Path) -> Result<PlanDocument, Failure> {
    let value: serde_json::Value = from_json("plan", text, path)?;
    match value.get("schema").and_then(serde_json::Value::as_str) {
        Some(PLAN_SCHEMA) => from_json("plan", text, path),
        found => {
            let found = found.map_or_else(|| "absent".into(), |schema| format!("`{schema}`"));
            let cause = format!("`schema` is {found}, but this version reads `{PLAN_SCHEMA}`");
            Err(Failure::input(format!("cannot read plan `{}`", path.display())).because(cause).hint(PLAN_WRITTEN))
        }
    }
}

/// Parses a value from JSON text.
pub(crate) fn from_json<T: DeserializeOwned>(what: &str, text: &str, path: &Path) -> Result<T, Failure> {
    trainyard_documents::from_json(text).map_err(|error| {
        let start = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
        let end = text.floor_char_boundary(start + error.column());
        let message = error.to_string();
        // The message itself names an unknown key, and the text before it ends with another.
        let key = json_key(&text[..end]).filter(|_| !message.starts_with("unknown field"));
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        let failure = unreadable(what, path, error.line(), key, message);
        if failure.hint_text().is_some() { failure } else { failure.hint(FORMS_OF_FILES) }
    })
}

/// Returns the failure of a file that is wrong in a line, at a key if it is known.
fn unreadable(what: &str, path: &Path, line: usize, key: Option<String>, message: &str) -> Failure {
    let message = plain(message.lines().next().unwrap_or_default());
    let place = key.as_ref().map_or_else(String::new, |key| format!(", `{key}`"));
    let unknown = message.strip_prefix("unknown key `").and_then(|rest| rest.split('`').next());
    Failure::new(Exit::Input, format!("cannot read {what} `{}`", path.display()))
        .because(format!("line {line}{place}: {message}"))
        .maybe_hint(
            in_a_model_file(key.as_deref(), &message)
                .or_else(|| did_you_mean(&message))
                .or_else(|| advice(what, &message)),
        )
        .at(Fault {
            field: key.or_else(|| unknown.map(Into::into)),
            value: message.split('`').nth(1).filter(|_| unknown.is_none()).map(Into::into),
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
    let about = ["expected a whole number", "expected a number", "is not a whole number", "is not a suffix"];
    let told = about.iter().any(|words| message.contains(words));
    told.then(|| "a number may be written as 2000, 1e6, 100_000, \"2k\", \"1.5M\" or \"10B\"".into())
}

/// Returns the number of the line that contains the byte `at`, from 1.
fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// Returns the key, with its table, of the line that contains the byte `at`.
fn toml_key(text: &str, at: usize) -> Option<String> {
    let lines: Vec<&str> = text.lines().take(line(text, at)).collect();
    let (own, above) = lines.split_last()?;
    let table = above.iter().rfind(|line| line.trim_start().starts_with('['));
    let table = table.map(|line| line.trim().trim_matches(['[', ']'])).filter(|table| !table.is_empty());
    let key = own.split_once('=').map(|(key, _)| key.trim()).filter(|key| !key.is_empty())?;
    Some(table.map_or_else(|| key.into(), |table| format!("{table}.{key}")))
}

/// Returns the key whose value ends the text.
fn json_key(text: &str) -> Option<String> {
    let (before, _) = text.rsplit_once("\":")?;
    let (_, key) = before.rsplit_once('"')?;
    Some(key.into())
}

/// Rewrites a message of serde in the words of Trainyard.
fn plain(message: &str) -> String {
    let numbers = ["u8", "u16", "u32", "u64", "usize"];
    let mut text = message
        .replace("unknown field", "unknown key")
        .replace("unknown variant", "unknown value")
        .replace(" as i128", "")
        .replace("EOF while parsing", "the text ends inside");
    for number in numbers {
        if let Some(head) = text.strip_suffix(&format!("expected {number}")) {
            text = format!("{head}expected a whole number, at least 0");
        }
    }
    let others = [("f64", "a number"), ("a string", "text in quotes"), ("a sequence", "a list in brackets")];
    for (word, shown) in others {
        if let Some(head) = text.strip_suffix(&format!("expected {word}")) {
            text = format!("{head}expected {shown}");
        }
    }
    text
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
    fn a_plan_of_another_version_is_not_called_damaged() {
        let failure = plan_from_json("{\"schema\": \"trainyard.plan/2\", \"new\": 1}", Path::new("p.json"));
        let failure = failure.expect_err("another version");
        assert!(failure.causes()[0].contains("`trainyard.plan/2`") && failure.causes()[0].contains(PLAN_SCHEMA));
    }

    #[test]
    fn damage_in_json_is_told_with_its_line_and_key() {
        let text = "{\n  \"schema\": \"trainyard.plan/1\",\n  \"job\": 3\n}";
        let failure = plan_from_json(text, Path::new("p.json")).expect_err("a job that is a number");
        assert!(failure.causes()[0].starts_with("line 3, `job`: invalid type"), "{failure:?}");
        assert!(plan_from_json("ä{", Path::new("p.json")).is_err() && plan_from_json("", Path::new("p.json")).is_err());
    }
}
