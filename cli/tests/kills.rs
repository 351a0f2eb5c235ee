//! Runs that are killed at any moment and gone on from: the weights and the state of the optimizer at the end are those of
//! a run that nobody disturbed, to the last bit. Ignored by default because it takes minutes:
//!
//!     cargo test --release --workspace --test kills -- --ignored
//!     cargo test --release --workspace --features trainyard-cli/mpi --test kills -- --ignored
//!
//! With the feature `mpi` every rank is a process of its own, and one of them is killed; without it all ranks are.
//! `TRAINYARD_KILLS` says how often (50), `TRAINYARD_KILLS_SEED` which moments are drawn.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const STEPS: usize = 120;
const CHECKPOINT_EVERY: usize = 7;

/// What a checkpoint keeps of the training.
const KEPT: [&str; 3] = ["model.safetensors", "first_moments.safetensors", "second_moments.safetensors"];

const JOB: &str = r#"
[model]
family = "gpt"
name = "tiny"
layers = 2
hidden = 16
heads = 2
vocab = 256
seq_len = 16

[data]
path = "text"

[training]
global_batch = 4
steps = 12
learning_rate = 1e-2
precision = ["fp32"]

[cluster]
profile = "profile.toml"
"#;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// How a plan's two or four ranks are started: as threads of one process, or as processes.
fn run(place: &Path, plan: &str, ranks: usize, arguments: &[&str]) -> Child {
    let program = env!("CARGO_BIN_EXE_trainyard");
    let mut command = if cfg!(feature = "mpi") {
        let mut command = Command::new("mpirun");
        command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", &ranks.to_string()]);
        command.args(["--mca", "btl_vader_single_copy_mechanism", "none"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.args(["run", plan, "--data", "text", "-q", "--steps", &STEPS.to_string(), "--keep", "2"]);
    command.args(["--checkpoint-every", &CHECKPOINT_EVERY.to_string()]).args(arguments);
    if cfg!(feature = "mpi") {
        command.args(["--launcher", "mpi"]);
    }
    command.current_dir(place).env("TRAINYARD_HISTORY", "off").stdout(Stdio::null());
    command.spawn().expect("it starts")
}

/// The process to kill: one of the ranks, or that which holds all of them.
fn victim(child: &Child, moments: &mut StdRng) -> Option<u32> {
    if !cfg!(feature = "mpi") {
        return Some(child.id());
    }
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).ok()?;
    let ranks: Vec<u32> = children.split_whitespace().filter_map(|id| id.parse().ok()).collect();
    let chosen = ranks.get(moments.random_range(0..ranks.len().max(1)))?;
    Some(*chosen)
}

/// Kills a run once it has done so many steps; says whether it was still there to be killed.
fn killed(mut child: Child, log: &Path, steps: usize, moments: &mut StdRng) -> bool {
    loop {
        if child.try_wait().expect("it is known").is_some() {
            return false;
        }
        let done = fs::read_to_string(log).map_or(0, |text| text.lines().count());
        if done >= steps {
            break;
        }
        std::thread::yield_now();
    }
    let Some(victim) = victim(&child, moments) else { return false };
    Command::new("kill").args(["-KILL", &victim.to_string()]).status().expect("kill is there");
    !child.wait().expect("it ends").success()
}

/// What the newest checkpoint of a folder keeps.
fn state(folder: &Path) -> Vec<Vec<u8>> {
    let step = |path: &PathBuf| -> Option<u64> {
        let text = fs::read_to_string(path.join("manifest.json")).ok()?;
        serde_json::from_str::<Value>(&text).expect("JSON")["progress"]["step"].as_u64()
    };
    let folders = fs::read_dir(folder).expect("checkpoints").map(|entry| entry.expect("readable").path());
    let newest = folders.filter(|path| step(path).is_some()).max_by_key(step).expect("a checkpoint");
    assert_eq!(step(&newest), Some(STEPS as u64));
    KEPT.iter().map(|file| fs::read(newest.join(file)).expect("it was kept")).collect()
}

/// Plans for the same model: replicas, and replicas of two stages.
fn plans(place: &Path) -> [(&'static str, usize); 2] {
    let output = Command::new(env!("CARGO_BIN_EXE_trainyard"))
        .args(["plan", "job.toml", "--format", "json", "-q"])
        .current_dir(place)
        .env("TRAINYARD_HISTORY", "off")
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("a plan");
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
    [("replicas.json", 2), ("stages.json", 2)]
}

#[test]
#[ignore = "takes minutes"]
fn killed_runs_end_with_the_weights_of_one_that_nobody_disturbed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path();
    fs::write(place.join("job.toml"), JOB).expect("room");
    fs::copy("../calibration/tests/runs/profile.toml", place.join("profile.toml")).expect("a profile");
    fs::create_dir(place.join("text")).expect("room");
    let text = "All that glitters is not gold; often have you heard that told. ".repeat(60);
    fs::write(place.join("text/proverbs.txt"), text).expect("room");
    let plans = plans(place);
    let expected = plans.map(|(plan, ranks)| {
        let checkpoint = format!("straight-{plan}");
        let mut child = run(place, plan, ranks, &["--out", &format!("out-{plan}"), "--checkpoint", &checkpoint]);
        assert!(child.wait().expect("it ends").success());
        state(&place.join(checkpoint))
    });
    let mut moments = StdRng::seed_from_u64(setting("TRAINYARD_KILLS_SEED", 20_261_122));
    let kills = setting("TRAINYARD_KILLS", 50) as usize;
    let mut disturbed = 0;
    for number in 0..kills {
        let ((plan, ranks), expected) = (plans[number % 2], &expected[number % 2]);
        let (out, kept, more) = (format!("out-{number}"), format!("kept-{number}"), format!("more-{number}"));
        let child = run(place, plan, ranks, &["--out", &out, "--checkpoint", &kept]);
        let steps = moments.random_range(CHECKPOINT_EVERY + 1..STEPS - 1);
        let was_killed = killed(child, &place.join(&out).join("metrics.jsonl"), steps, &mut moments);
        if was_killed {
            disturbed += 1;
            let mut again = run(place, plan, ranks, &["--out", &more, "--checkpoint", &kept, "--resume"]);
            assert!(again.wait().expect("it ends").success(), "{plan}, killed after {steps} steps: it does not go on");
        }
        assert!(state(&place.join(&kept)) == *expected, "{plan}, killed after {steps} steps: other weights");
        for gone in [&out, &kept, &more] {
            let _ = fs::remove_dir_all(place.join(gone));
        }
    }
    assert!(disturbed * 10 >= kills * 8, "only {disturbed} of {kills} were killed before their end");
}
