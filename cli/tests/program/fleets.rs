//! What planning a fleet writes: all of it, or nothing.

use crate::trainyard::{document, done, ended, path};
use std::path::Path;

const FLEET: &str = "tests/cmd/fleet.in/plain.toml";

#[test]
fn plans_of_a_fleet_are_plans_as_any_other() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [out, plot, plans] = ["fleet.json", "gantt.svg", "plans"].map(|name| path(folder.path(), name));
    let planned =
        done(".", &["plan", FLEET, "--out", &out, "--plot", &plot, "--plans", &plans, "-q", "--format", "json"]);
    let read = |path: &str| std::fs::read_to_string(path).expect("it was written");
    assert_eq!(read(&out), String::from_utf8_lossy(&planned.stdout));
    assert!(read(&plot).starts_with("<svg ") && read(&plot).contains("trial"));
    done(".", &["simulate", &path(Path::new(&plans), "trial.json"), "-q"]);
    let document = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    let (fleet, trial) = (document(&read(&out)), document(&read(&path(Path::new(&plans), "trial.json"))));
    assert_eq!(fleet["plans"][0]["plan"], trial["plan"]);
}

/// A fleet on machines of one's own, whose plans a queue on the same machines takes.
#[test]
fn a_fleet_of_ones_own_machines_is_planned_drawn_and_queued() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = |name: &str| path(folder.path(), name);
    for name in ["own.toml", "lab.toml"] {
        std::fs::copy(Path::new("tests/cmd/fleet.in").join(name), place(name)).expect("room");
    }
    let (fleet, plans, plot) = (place("own.toml"), place("new/plans"), place("gantt.svg"));
    let plan = |threads: &str| {
        let written = ["plan", &fleet, "--plans", &plans, "--plot", &plot, "-q", "--format", "json"];
        let done = done(".", &[&written[..], &["--threads", threads]].concat());
        String::from_utf8(done.stdout).expect("JSON is UTF-8")
    };
    let text = plan("1");
    assert_eq!(text, plan("2"));
    assert!(!text.contains("usd"), "{text}");
    let planned: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(planned["plans"][0]["plan"]["cluster"]["file"], "../../lab.toml");
    let picture = std::fs::read_to_string(&plot).expect("it was written");
    assert!(picture.contains("3 machines, one lane each") && !picture.contains("USD"));
    let written = path(Path::new(&plans), "trial.json");
    done(".", &["simulate", &written, "-q"]);
    let queue = "[pool]\nfile = \"lab.toml\"\ninstance = \"v100\"\n[[job]]\nname = \"trial\"\ncount = 6\n\
                 plan = \"new/plans/trial.json\"\n";
    std::fs::write(place("queue.toml"), queue).expect("room");
    let queued = document(&done(".", &["simulate", &place("queue.toml"), "-q", "--format", "json"]));
    let trials =
        planned["pools"].as_array().expect("pools").iter().find(|pool| pool["queue"]["pool"]["instance"] == "v100");
    let makespan = |queue: &serde_json::Value| queue["prediction"]["makespan_s"].as_f64().expect("a time");
    let (of_fleet, of_queue) = (makespan(trials.expect("a pool")), makespan(&queued));
    assert!((of_fleet / of_queue - 1.0).abs() < 1e-9, "{of_fleet} {of_queue}");
}

#[test]
fn nothing_is_written_where_something_cannot_be() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = path(folder.path(), "fleet.json");
    // A folder stands where the picture should be.
    let picture = path(folder.path(), "picture.svg");
    std::fs::create_dir(&picture).expect("room");
    let failed = ended(".", &["plan", FLEET, "--out", &out, "--plot", &picture, "-q"]);
    assert_eq!(failed.status.code(), Some(2));
    std::fs::remove_dir(&picture).expect("it is empty");
    let refused = ended(".", &["plan", "tests/cmd/fleet.in/no-trials.toml", "--out", &out]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0);
}

#[test]
fn a_fleet_is_the_same_whatever_the_number_of_threads() {
    let plan = |threads| ended(".", &["plan", FLEET, "--threads", threads, "--format", "json", "-q"]).stdout;
    assert_eq!(plan("1"), plan("2"));
}
