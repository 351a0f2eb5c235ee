//! Traces as tools read them: on a row, events nest or follow each other. What overlaps otherwise Perfetto drops.

use crate::trainyard::{done, path};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

const PLAN: &str = "tests/cmd/export.in/tensor-pipeline-data.json";

/// Simulates the plan with some fields of it changed, and returns the events of its trace.
fn trace(folder: &Path, changed: &Value) -> Vec<Value> {
    let mut document: Value = serde_json::from_slice(&std::fs::read(PLAN).expect("a plan")).expect("JSON");
    for (field, value) in changed.as_object().expect("fields") {
        document["plan"][field] = value.clone();
    }
    let (plan, trace) = (path(folder, "plan.json"), path(folder, "trace.json"));
    std::fs::write(&plan, document.to_string()).expect("room");
    done(".", &["simulate", &plan, "-q", "--trace", &trace]);
    let trace: Value = serde_json::from_slice(&std::fs::read(&trace).expect("it was written")).expect("JSON");
    trace["traceEvents"].as_array().expect("a list of events").clone()
}

/// From and to in nanoseconds, and the name.
type Span<'a> = (u64, u64, &'a str);

/// Spans by process and thread.
fn rows(events: &[Value]) -> BTreeMap<(u64, u64), Vec<Span<'_>>> {
    let mut rows: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let number = |field: &str| event[field].as_u64().expect("a number");
        let nanoseconds = |field: &str| (event[field].as_f64().expect("microseconds") * 1e3).round() as u64;
        let (start, name) = (nanoseconds("ts"), event["name"].as_str().expect("a name"));
        rows.entry((number("pid"), number("tid"))).or_default().push((start, start + nanoseconds("dur"), name));
    }
    rows
}

/// Spans that reach out of the one in which they begin.
fn overlapping<'a>(spans: &mut [Span<'a>]) -> Vec<[&'a str; 2]> {
    spans.sort_by_key(|(start, end, _)| (*start, u64::MAX - end));
    let (mut open, mut found) = (Vec::<(u64, &str)>::new(), Vec::new());
    for (start, end, name) in spans {
        while open.last().is_some_and(|(until, _)| until <= start) {
            open.pop();
        }
        found.extend(open.last().filter(|(until, _)| *until < *end).map(|(_, within)| [*within, *name]));
        open.push((*end, name));
    }
    found
}

#[test]
fn spans_of_a_row_nest_or_follow_each_other_whatever_the_schedule() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let document: Value = serde_json::from_slice(&std::fs::read(PLAN).expect("a plan")).expect("JSON");
    let stages = document["plan"]["parallel"]["pipeline"].as_u64().expect("a degree");
    let layers: u64 = document["plan"]["stages"]
        .as_array()
        .expect("stages")
        .iter()
        .map(|stage| stage["layers"].as_u64().expect("a number"))
        .sum();
    let of = |runs: u64| -> Vec<Value> {
        let first = |run: u64| run * layers / runs;
        (0..runs).map(|run| json!({ "first": first(run), "layers": first(run + 1) - first(run) })).collect()
    };
    let (whole, halves) = (of(stages), of(2 * stages));
    let batch = json!({ "global": 8, "micro": 1, "accumulation": 4 });
    for changed in [
        json!({ "schedule": "gpipe", "virtual_stages": 1, "stages": whole }),
        json!({ "schedule": "zb-h1", "virtual_stages": 1, "stages": whole }),
        json!({ "schedule": "2bw", "virtual_stages": 1, "stages": whole, "state_sharding": "none" }),
        json!({ "schedule": "interleaved-1f1b", "virtual_stages": 2, "stages": halves }),
        json!({ "schedule": "zb-v", "virtual_stages": 2, "stages": halves }),
        json!({ "schedule": "1f1b", "virtual_stages": 1, "stages": whole, "state_sharding": "parameters" }),
        json!({ "schedule": "1f1b", "virtual_stages": 1, "stages": whole, "recompute": "full",
            "state_sharding": "none", "gradient_reduction": "micro-batch" }),
    ] {
        let mut changed = changed;
        changed["batch"] = batch.clone();
        let events = trace(folder.path(), &changed);
        let mut rows = rows(&events);
        assert!(rows.len() > 4, "{changed}");
        for (row, spans) in &mut rows {
            assert_eq!(overlapping(spans), Vec::<[&str; 2]>::new(), "{changed}: row {row:?}");
        }
    }
}

#[test]
fn spans_that_overlap_are_found() {
    assert_eq!(overlapping(&mut [(0, 9, "a"), (1, 3, "b"), (3, 9, "c"), (9, 12, "d")]), Vec::<[&str; 2]>::new());
    assert_eq!(overlapping(&mut [(0, 9, "a"), (4, 10, "b"), (1, 5, "c")]), [["c", "b"]]);
}
