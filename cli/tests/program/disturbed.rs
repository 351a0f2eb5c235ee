//! Trainings of a tiny model that something happens to, and what is left of them.

use crate::tiny::write_job;
use crate::trainyard::{document, done};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Steps of a training.
pub(crate) const STEPS: usize = 120;
/// Steps from one checkpoint to the next.
pub(crate) const CHECKPOINT_EVERY: usize = 7;

/// What a checkpoint keeps of the training.
const KEPT: [&str; 3] = ["model.safetensors", "first_moments.safetensors", "second_moments.safetensors"];

/// What the job says besides: where it runs, so that nothing is measured.
const PLACE: &str = r#"
precision = ["fp32"]

[cluster]
profile = "profile.toml"
"#;

/// A plan for two ranks, and what its training comes to when nothing happens.
pub(crate) struct Straight {
    pub(crate) plan: &'static str,
    pub(crate) state: Vec<Vec<u8>>,
}

/// Two plans for the same model in this folder, replicas and stages, each trained to its end.
pub(crate) fn straight(place: &Path) -> [Straight; 2] {
    write_job(place, PLACE);
    fs::copy("../calibration/tests/runs/profile.toml", place.join("profile.toml")).expect("a profile");
    plans(place).map(|plan| {
        let checkpoint = format!("straight-{plan}");
        let arguments = ["--out", &format!("out-{plan}"), "--checkpoint", &checkpoint];
        assert!(training(place, plan, &arguments).status().expect("it starts").success());
        Straight { plan, state: state(&place.join(checkpoint)) }
    })
}

/// The command that trains: its two ranks are threads of one process, or processes.
pub(crate) fn training(place: &Path, plan: &str, arguments: &[&str]) -> Command {
    let program = env!("CARGO_BIN_EXE_trainyard");
    let mut command = if cfg!(feature = "mpi") {
        let mut command = Command::new("mpirun");
        command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "2"]);
        command.args(["--mca", "btl_vader_single_copy_mechanism", "none"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.args(["run", plan, "--data", "text", "-q", "--steps", &STEPS.to_string(), "--keep", "2"]);
    command.args(["--checkpoint-every", &CHECKPOINT_EVERY.to_string()]).args(arguments);
    if cfg!(feature = "mpi") {
        // Longer than a busy machine lets a thread wait.
        command.args(["--launcher", "mpi", "--heartbeat-timeout", "4"]);
    }
    command.current_dir(place).env("TRAINYARD_HISTORY", "off").stdout(Stdio::null());
    command
}

/// The newest checkpoint of a folder, and the steps that its training has done. One that was being written when the run
/// was killed has a hidden name.
pub(crate) fn newest(folder: &Path) -> Option<(u64, PathBuf)> {
    let steps = |path: &Path| -> Option<u64> {
        let text = fs::read_to_string(path.join("manifest.json")).ok()?;
        serde_json::from_str::<Value>(&text).expect("JSON")["progress"]["step"].as_u64()
    };
    let shown = |path: &PathBuf| path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'));
    let folders = fs::read_dir(folder).ok()?.map(|entry| entry.expect("readable").path()).filter(shown);
    folders.filter_map(|path| Some((steps(&path)?, path))).max()
}

/// What the newest checkpoint of a folder keeps, which is the end of its training.
pub(crate) fn state(folder: &Path) -> Vec<Vec<u8>> {
    let (step, newest) = newest(folder).expect("a checkpoint");
    assert_eq!(step, STEPS as u64);
    KEPT.iter().map(|file| fs::read(newest.join(file)).expect("it was kept")).collect()
}

/// Plans for the same model: two replicas, and two stages.
fn plans(place: &Path) -> [&'static str; 2] {
    let found = document(&done(place, &["plan", "job.toml", "--format", "json", "-q"]));
    let write = |name: &str, parallel: Value, batch: Value, schedule: &str, stages: Value| {
        let mut document = found.clone();
        let plan = &mut document["plan"];
        (plan["parallel"], plan["batch"], plan["schedule"], plan["stages"]) =
            (parallel, batch, schedule.into(), stages);
        fs::write(place.join(name), document.to_string()).expect("room");
    };
    let degrees = |data, pipeline| json!({ "data": data, "tensor": 1, "pipeline": pipeline });
    let batch = |accumulation| json!({ "global": 4, "micro": 1, "accumulation": accumulation });
    write("replicas.json", degrees(2, 1), batch(2), "none", json!([{ "first": 0, "layers": 4 }]));
    let halves = json!([{ "first": 0, "layers": 2 }, { "first": 2, "layers": 2 }]);
    write("stages.json", degrees(1, 2), batch(4), "1f1b", halves);
    ["replicas.json", "stages.json"]
}
