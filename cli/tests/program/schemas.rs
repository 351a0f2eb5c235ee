//! The schemas that `trainyard schemas` writes describe what the program reads and prints.

use crate::schema::problem;
use crate::trainyard::{ended, trainyard};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// The names of all of them. Those of files, and of the API, are of no document that says in `schema` what it is.
const NAMES: [&str; 22] = [
    "campaign",
    "cluster-file",
    "comparison",
    "error",
    "explanation",
    "fleet",
    "fleet-file",
    "history",
    "history-comparison",
    "history-entry",
    "job",
    "jobs",
    "jobs-file",
    "launch",
    "openapi",
    "plan",
    "queue",
    "queue-file",
    "refit",
    "replay",
    "validation",
    "what-if",
];

/// A folder with the schemas, and with copies of what commands read.
fn workplace(copied: &[&str]) -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a temporary folder");
    printed(place.path(), "schemas --out schemas");
    for file in copied {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd").join(file);
        fs::copy(&from, place.path().join(from.file_name().expect("a file"))).expect("room");
    }
    place
}

fn printed(folder: &Path, arguments: &str) -> String {
    let mut command = trainyard(folder, &arguments.split(' ').collect::<Vec<_>>());
    command.arg("--quiet").env("TRAINYARD_PROFILE", "none.toml").env("TRAINYARD_HISTORY", "history.db");
    let output = command.output().expect("the binary starts");
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn schema(place: &Path, name: &str) -> Value {
    let text = fs::read_to_string(place.join(format!("schemas/{name}.json"))).expect(name);
    serde_json::from_str(&text).expect("JSON")
}

/// What a command prints, which must be what the schema of its name describes.
fn document(place: &Path, arguments: &str) -> Value {
    let document: Value =
        serde_json::from_str(&printed(place, &format!("{arguments} --format json"))).expect("a document");
    let name = document["schema"].as_str().and_then(|name| name.strip_prefix("trainyard.")).expect("a name");
    let (name, _) = name.split_once('/').expect("a version");
    assert_eq!(problem(&document, &schema(place, name)), None, "{arguments} against {name}.json");
    document
}

#[test]
fn all_schemas_are_written_and_each_is_one() {
    let place = workplace(&[]);
    let mut names: Vec<PathBuf> = fs::read_dir(place.path().join("schemas"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path().with_extension("").file_name().expect("a name").into())
        .collect();
    names.sort();
    assert_eq!(names, NAMES.map(PathBuf::from));
    for name in NAMES.into_iter().filter(|name| *name != "openapi") {
        let schema = schema(place.path(), name);
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
        // Every file and document needs some field, or knows all of its fields.
        assert!(problem(&json!({ "no such field": 1 }), &schema).is_some(), "{name}");
        assert!(schema["properties"].as_object().is_some_and(|fields| !fields.is_empty()), "{name}");
    }
    assert_eq!(schema(place.path(), "openapi")["openapi"], "3.1.0");
}

#[test]
fn what_the_examples_hold_is_described() {
    let place = workplace(&[]);
    for (file, name) in [
        ("cluster-mixed.toml", "cluster-file"),
        ("fleet.toml", "fleet-file"),
        ("fleet-lab.toml", "fleet-file"),
        ("gpt2-xl-aws.toml", "job"),
        ("own-gpt.toml", "job"),
        ("own-layers.toml", "job"),
        ("queue.toml", "queue-file"),
        ("quickstart.toml", "job"),
        ("resnet50-spot.toml", "job"),
        ("trials.toml", "jobs-file"),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(file);
        let read: Value = toml::from_str(&fs::read_to_string(path).expect(file)).expect("TOML");
        assert_eq!(problem(&read, &schema(place.path(), name)), None, "{file} against {name}.json");
    }
}

#[test]
fn what_a_job_may_say_is_described_and_what_is_always_refused_is_not() {
    let place = workplace(&[]);
    let job = schema(place.path(), "job");
    let told = |table: &str, key: &str, value: &Value| problem(&json!({ table: { key: value } }), &job);
    for (table, key, value) in [
        ("data", "tokens", json!("10B")),
        ("data", "tokens", json!(1e10)),
        ("data", "bytes_per_sample", json!("110 kB")),
        ("model", "seq_len", json!("8k")),
        ("training", "global_batch", json!("512")),
        ("training", "global_batch", json!({ "min": "256", "max": 1024 })),
        ("training", "dropout", json!("0.1")),
        ("training", "epochs", json!(0.5)),
        ("cluster", "quotas", json!({ "P": "2k" })),
        ("goal", "budget", json!("1k")),
        ("campaign", "straggler", json!("0.05")),
        ("campaign", "monthly_reclaims", json!("5%")),
        ("cluster", "memory_margin", json!("8%")),
        ("cluster", "memory_margin", json!(0.08)),
        ("training", "lora", json!({ "rank": "8", "dropout": "5%" })),
    ] {
        assert_eq!(told(table, key, &value), None, "{table}.{key}");
    }
    for (table, key, value) in [
        ("data", "tokens", json!(-1)),
        ("data", "samples", json!(0)),
        ("data", "workers", json!(0)),
        ("training", "global_batch", json!(0)),
        ("training", "global_batch", json!({ "min": 0, "max": 8 })),
        ("training", "epochs", json!(0)),
        ("training", "steps", json!(0)),
        ("training", "betas", json!(["0.9", 0.95])),
        ("training", "betas", json!([0.9, 0.95, 0.9])),
        ("cluster", "max_instances", json!(0)),
        ("cluster", "instances", json!([])),
        ("goal", "budget", json!(-1)),
    ] {
        assert!(told(table, key, &value).is_some(), "{table}.{key} {value}");
        let mut sound =
            json!({ "model": { "name": "gpt2" }, "data": { "samples": 64 }, "training": { "global_batch": 8 } });
        sound[table][key] = value;
        if key == "tokens" {
            sound["data"].as_object_mut().expect("a table").remove("samples");
        }
        fs::write(place.path().join("job.toml"), toml::to_string(&sound).expect("TOML")).expect("room");
        let output = ended(place.path(), &["plan", "job.toml"]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(&format!("{table}.{key}")), "{table}.{key}: {told}");
    }
}

#[test]
fn what_a_cluster_file_may_say_is_described_and_what_is_always_refused_is_not() {
    let place = workplace(&[]);
    let cluster = schema(place.path(), "cluster-file");
    let with = |key: &str, value: Value| {
        let mut file = json!({ "machines": [{ "like": "p3dn.24xlarge", "count": 4 }] });
        match key.split_once('.') {
            Some(("machines", key)) => file["machines"][0][key] = value,
            _ => file[key] = value,
        }
        file
    };
    let read = |file: &Value| {
        let job = json!({ "model": { "name": "gpt2" }, "data": { "samples": 64 }, "training": { "global_batch": 32 },
            "cluster": { "file": "cluster.toml" } });
        for (name, value) in [("cluster.toml", file), ("job.toml", &job)] {
            fs::write(place.path().join(name), toml::to_string(value).expect("TOML")).expect("room");
        }
        ended(place.path(), &["plan", "job.toml", "--max-simulations", "1"])
    };
    for (key, value) in [
        ("machines.count", json!("4")),
        ("machines.gpu", json!("a100-sxm4-40gb")),
        ("machines.gpu", json!({ "memory": "48 GB", "multiprocessors": "80" })),
        ("machines.link", json!({ "kind": "nvswitch", "bandwidth": "300 GB/s", "reached": "80%" })),
        ("machines.network", json!({ "cards": 4, "bandwidth": "100 Gbit/s", "transport": "roce" })),
        ("switches", json!([{ "ports": 8, "oversubscription": "2" }])),
        ("shared_storage", json!({ "read": "10 GB/s", "open": "1 ms" })),
        ("slurm", json!({ "partition": "a100,long", "constraint": "[rack1|rack2]" })),
        ("machines.slurm", json!({ "gpu_type": "a100" })),
        ("environment", json!({ "NCCL_SOCKET_IFNAME": "^lo,docker0" })),
    ] {
        let file = with(key, value);
        assert_eq!(problem(&file, &cluster), None, "{file}");
        let output = read(&file);
        assert_ne!(output.status.code(), Some(2), "{file}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for (key, value, named) in [
        ("machines", json!([]), "machines"),
        ("machines.count", json!(0), "machines[0].count"),
        ("machines.gpus", json!(257), "machines[0].gpus"),
        ("machines.usd_per_hour", json!(0), "machines[0].usd_per_hour"),
        ("machines.link", json!({ "reached": 1.5 }), "machines[0].link.reached"),
        ("machines.link", json!({ "kind": "nvlink", "links": [[0, 1, 2, 3]] }), "machines.link.links"),
        ("machines.network", json!({ "cards": 65 }), "machines[0].network.cards"),
        ("machines.host", json!({ "memory": 512 }), "machines.host.memory"),
        ("machines.hots", json!({}), "machines.hots"),
        ("switches", json!([{ "ports": 0 }]), "switches[0].ports"),
        ("slurm", json!({ "partitoin": "a100" }), "slurm.partitoin"),
        ("environment", json!({ "NCCL_IB_GID_INDEX": 3 }), "environment.NCCL_IB_GID_INDEX"),
    ] {
        let file = with(key, value);
        assert!(problem(&file, &cluster).is_some(), "{file}");
        let output = read(&file);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(named), "{named}: {told}");
    }
}

#[test]
fn what_is_printed_of_a_plan_is_described() {
    let place =
        workplace(&["campaign.in/plan.json", "explain.in/one.json", "explain.in/two.json", "what_if.in/job.toml"]);
    let place = place.path();
    let plan = document(place, "plan job.toml --out planned.json");
    document(place, "simulate one.json");
    document(place, "explain two.json");
    document(place, "explain one.json --against two.json");
    document(place, "what-if one.json --vary instances=1,2");
    document(place, "export two.json --to torchrun");
    document(place, "simulate plan.json --campaign --runs 10");
    printed(place, "simulate one.json --chakra et");
    document(place, "simulate et --on p3.16xlarge");
    let listed = document(place, "history list");
    let id = |index: usize| listed["entries"][index]["id"].as_str().expect("an id");
    document(place, &format!("history show {}", id(0)));
    document(place, &format!("history compare {} {}", id(0), id(1)));
    // One field less, one more, one of another type.
    let schema = schema(place, "plan");
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut changed = plan.clone();
        change(&mut changed);
        problem(&changed, &schema).expect("it is refused")
    };
    assert!(refused(&|plan| plan["prediction"]["step_time_s"] = "soon".into()).contains("step_time_s"));
    assert!(refused(&|plan| drop(plan.as_object_mut().and_then(|fields| fields.remove("plan")))).contains("required"));
    assert!(refused(&|plan| plan["job"]["modle"] = json!({})).contains("modle"));
}

#[test]
fn what_is_printed_of_pools_and_tables_is_described() {
    let place = workplace(&[
        "fleet.in/plain.toml",
        "fleet.in/own.toml",
        "fleet.in/lab.toml",
        "queue.in/small.toml",
        "queue.in/plan.json",
        "calibrate.in/mine.csv",
    ]);
    let place = place.path();
    document(place, "plan plain.toml");
    document(place, "plan own.toml");
    document(place, "simulate small.toml");
    document(place, "validate mine.csv");
    document(place, "calibrate --from mine.csv --out mine.toml");
}
