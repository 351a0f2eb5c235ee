//! What a file holds when it is not what a command takes: named for what it is, with the command that takes it.

use crate::failure::{Failure, Fault};
use std::path::Path;
use toml::{Table, Value};
use trainyard_reports::file_argument;

/// Tables of a job file.
const OF_JOB: [&str; 6] = ["model", "data", "training", "cluster", "goal", "campaign"];
/// Keys that say what each job of a fleet trains, or on what.
const OF_FLEET: [&str; 7] = ["file", "model", "data", "training", "cluster", "goal", "campaign"];
/// Keys that only jobs of a queue have.
const OF_QUEUE: [&str; 4] = ["duration", "plan", "instances", "spread"];
/// Keys that only jobs of a list have.
const OF_LIST: [&str; 3] = ["vary", "devices", "seed"];

/// A kind of file: its name, and what takes it. `FILE` stands for its path.
type Kind = (&'static str, &'static str);

/// The kinds of files that people write.
const JOB: Kind = ("job", "`trainyard plan FILE --out plan.json` makes a plan of it, which other commands take");
const FLEET: Kind =
    ("fleet", "`trainyard plan FILE --plans DIR` plans it, and writes a plan for each kind of its jobs");
const QUEUE: Kind = ("queue", "`trainyard simulate FILE` simulates it");
const LIST: Kind = ("list of jobs", "`trainyard train FILE` trains them side by side");
const CLUSTER: Kind = ("cluster", "a job names it: `file = \"FILE\"` under [cluster], a fleet or a queue under [pool]");
const MODEL: Kind = ("model", "`trainyard plan --model FILE` plans its training");
const QUOTAS: Kind = ("quotas", "`trainyard plan --quotas FILE` takes it");
const PROFILE: Kind = ("profile", "a job names it: `profile = \"FILE\"` under [cluster]");
const CONSTANTS: Kind = ("constants", "`trainyard plan --constants FILE` takes it");

const PLAN: Kind = (
    "plan",
    "`trainyard simulate FILE`, `explain`, `report`, `export`, `what-if` and `run` take it; `plan` makes one of a job",
);

/// Advice where a document is given in place of a file that people write.
const WRITTEN_BY_HAND: &str = "commands print it; `trainyard schemas --out DIR` writes what each kind of file may hold";

/// How advice begins that is a command, in which a file is a word of a shell.
const COMMAND: &str = "`trainyard ";

/// The kinds of documents by the word in their `schema`, behind `trainyard.`.
const DOCUMENTS: [(&str, Kind); 14] = [
    (
        "fleet",
        ("fleet that was planned", "`trainyard plan FLEET.toml --plans DIR` writes a plan for each kind of its jobs"),
    ),
    ("queue", ("queue that was simulated", "the jobs of a queue may name plans: those are taken here")),
    ("what-if", ("answer of `trainyard what-if`", "the plan that was varied is taken here")),
    ("campaign", ("answer of `trainyard simulate --campaign`", "the plan that it was drawn from is taken here")),
    ("explanation", ("answer of `trainyard explain`", "the plan that was explained is taken here")),
    (
        "replay",
        (
            "answer of `trainyard simulate` for execution traces",
            "they are no plan: `trainyard plan JOB --out PLAN.json` writes one",
        ),
    ),
    ("launch", ("answer of `trainyard export`", "the plan that was exported is taken here")),
    ("comparison", ("comparison of runs", "the plan that ran is taken here")),
    ("measurement", ("measurement of a run", "`trainyard compare PLAN.json FILE` compares it with its plan")),
    ("jobs", ("result of a list of jobs", "its plans are in the folder `plans` beside it")),
    ("validation", ("answer of `trainyard validate`", "`trainyard plan JOB --out PLAN.json` writes a plan")),
    ("refit", ("answer of `trainyard calibrate`", "`trainyard plan JOB --out PLAN.json` writes a plan")),
    ("history", ("list of the history", "`trainyard history export ID --out PLAN.json` writes a plan that is kept")),
    ("history-entry", ("entry of the history", "`trainyard history export ID --out PLAN.json` writes its plan")),
];

/// Returns the failure of a text that is of another kind than `what` was expected; `None` if it is not known to be.
pub(crate) fn misplaced(what: &str, text: &str, path: &Path) -> Option<Failure> {
    let kind = of_toml(text).or_else(|| of_json(text))?;
    (kind.0 != what).then(|| refused(what, kind, path))
}

/// Returns the failure of a document by its `schema`, if that is of another kind than a plan.
pub(crate) fn no_plan(schema: &str, path: &Path) -> Option<Failure> {
    let told = refused("plan", of_schema(schema)?, path);
    Some(told.at(Fault { field: Some("schema".into()), value: Some(schema.into()), allowed: Some("a plan".into()) }))
}

/// Returns the failure of a document of this program, whose `schema` names it, in place of a file that people write.
pub(crate) fn document(what: &str, text: &str, path: &Path) -> Option<Failure> {
    let value: serde_json::Value = trainyard_documents::from_json(text).ok()?;
    let schema = value.get("schema")?.as_str()?;
    let kind = if is_plan(schema) { PLAN } else { (of_schema(schema)?.0, WRITTEN_BY_HAND) };
    let told = refused(what, kind, path);
    Some(told.at(Fault { field: Some("schema".into()), value: Some(schema.into()), allowed: Some(one(what)) }))
}

/// Returns the kind of a document other than a plan by its `schema`.
fn of_schema(schema: &str) -> Option<Kind> {
    let (name, _) = schema.strip_prefix("trainyard.")?.split_once('/')?;
    DOCUMENTS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}

/// Returns `true` for the `schema` of a plan of any version.
fn is_plan(schema: &str) -> bool {
    schema.starts_with("trainyard.plan/")
}

fn refused(what: &str, (name, hint): Kind, path: &Path) -> Failure {
    let file = if hint.starts_with(COMMAND) { file_argument(path) } else { path.display().to_string() };
    Failure::input(format!("cannot read {what} `{}`", path.display()))
        .because(format!("it is {}, not {}", one(name), one(what)))
        .hint(hint.replace("FILE", &file))
        .at(Fault { field: None, value: Some(name.into()), allowed: Some(what.into()) })
}

/// Puts the article before a name.
fn one(name: &str) -> String {
    match name {
        "constants" | "prices" | "quotas" => name.into(),
        name if name.starts_with(['a', 'e', 'i', 'o', 'u']) => format!("an {name}"),
        name => format!("a {name}"),
    }
}

/// Tells the kind of a file that a person wrote by its tables, where they leave no doubt.
fn of_toml(text: &str) -> Option<Kind> {
    let table: Table = trainyard_documents::from_toml(text).ok()?;
    let has = |key: &str| table.contains_key(key);
    if let Some(schema) = table.get("schema").and_then(Value::as_str) {
        let kinds = [("trainyard.profile/", PROFILE), ("trainyard.constants/", CONSTANTS)];
        return kinds.into_iter().find(|(begin, _)| schema.starts_with(begin)).map(|(_, kind)| kind);
    }
    if has("pool") || has("job") {
        return of_jobs(&table);
    }
    let only_of_job = !table.is_empty() && table.keys().all(|key| OF_JOB.contains(&key.as_str()));
    let kinds = [
        (only_of_job, JOB),
        (table.get("machines").is_some_and(Value::is_array), CLUSTER),
        (has("family"), MODEL),
        (has("model") && has("source"), MODEL),
        (has("regions") && has("date"), QUOTAS),
    ];
    kinds.into_iter().find(|(is, _)| *is).map(|(_, kind)| kind)
}

/// Tells lists of jobs apart by what their jobs say.
fn of_jobs(table: &Table) -> Option<Kind> {
    let jobs: Vec<&Table> =
        table.get("job").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table).collect();
    let say = |keys: &[&str]| jobs.iter().any(|job| keys.iter().any(|key| job.contains_key(*key)));
    let pooled = table.contains_key("pool");
    let kinds = [
        (pooled && say(&OF_QUEUE) && !say(&OF_FLEET) && !say(&OF_LIST), QUEUE),
        (pooled && say(&OF_FLEET) && !say(&OF_QUEUE) && !say(&OF_LIST), FLEET),
        (!pooled && (say(&OF_LIST) || table.contains_key("devices")), LIST),
    ];
    kinds.into_iter().find(|(is, _)| *is).map(|(_, kind)| kind)
}

/// Tells a configuration of Hugging Face.
fn of_json(text: &str) -> Option<Kind> {
    let value: serde_json::Value = trainyard_documents::from_json(text).ok()?;
    value.get("model_type")?.as_str().map(|_| MODEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Option<&'static str> {
        of_toml(text).map(|(name, _)| name)
    }

    #[test]
    fn every_example_is_known_for_what_it_is() {
        for (text, name) in [
            (include_str!("../../examples/gpt2-xl-aws.toml"), "job"),
            (include_str!("../../examples/quickstart.toml"), "job"),
            (include_str!("../../examples/resnet50-spot.toml"), "job"),
            (include_str!("../../examples/fleet.toml"), "fleet"),
            (include_str!("../../examples/fleet-lab.toml"), "fleet"),
            (include_str!("../../examples/queue.toml"), "queue"),
            (include_str!("../../examples/trials.toml"), "list of jobs"),
            (include_str!("../../examples/cluster-mixed.toml"), "cluster"),
        ] {
            assert_eq!(kind(text), Some(name));
        }
    }

    #[test]
    fn what_may_be_a_slip_is_left_to_whoever_reads_the_file() {
        for text in [
            "",
            "[modle]\nname = \"gpt2\"\n[data]\nsamples = 1",
            "[pool]\ninstance = \"p3.2xlarge\"\n[[job]]\nname = \"a\"\nduraton = \"1 h\"",
            "[pool]\ninstances = [\"p3.*\"]\n[[job]]\nmodel = { name = \"gpt2\" }\nduration = \"1 h\"",
            "[[job]]\nfile = \"job.toml\"",
            "not toml",
        ] {
            assert_eq!(kind(text), None, "{text}");
        }
    }

    #[test]
    fn a_file_of_the_expected_kind_is_not_misplaced() {
        let job = "[model]\nname = \"gpt2\"\n";
        assert!(misplaced("job", job, Path::new("job.toml")).is_none());
        let told = misplaced("queue", job, Path::new("job.toml")).expect("another kind");
        assert_eq!(told.causes(), ["it is a job, not a queue"]);
        assert!(told.hint_text().is_some_and(|hint| hint.starts_with("`trainyard plan job.toml --out plan.json`")));
        let plan = "{\"schema\": \"trainyard.plan/1\"}";
        let told = document("job", plan, Path::new("my plan.json")).expect("another kind");
        assert_eq!(told.causes(), ["it is a plan, not a job"]);
        assert!(told.hint_text().is_some_and(|hint| hint.starts_with("`trainyard simulate 'my plan.json'`")));
        assert!(document("job", "{\"model_type\": \"gpt2\"}", Path::new("config.json")).is_none());
        let fleet = no_plan("trainyard.fleet/1", Path::new("f.json")).expect("no plan");
        assert_eq!(fleet.causes(), ["it is a fleet that was planned, not a plan"]);
        assert!(
            no_plan("trainyard.plan/9", Path::new("p.json")).is_none() && no_plan("x", Path::new("p.json")).is_none()
        );
    }
}
