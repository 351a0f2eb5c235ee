//! Runs that are killed at any moment and gone on from: the weights and the state of the optimizer at the end are those of
//! a run that nobody disturbed, to the last bit. Ignored by default because it takes minutes:
//!
//!     cargo test --release --workspace --test program kills:: -- --ignored
//!     cargo test --release --workspace --features trainyard-cli/mpi --test program kills:: -- --ignored
//!
//! With the feature `mpi` every rank is a process of its own, and one of them is killed or, every other time, stopped,
//! which the others must notice and name; without it all ranks are killed. `TRAINYARD_KILLS` says how often (50),
//! `TRAINYARD_KILLS_SEED` which moments are drawn.

use crate::disturbed::{CHECKPOINT_EVERY, STEPS, Straight, state, straight, training};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
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

/// Sends a signal to a run once it has done so many steps; returns what it said, if it was still there to hear it.
fn disturbed(mut child: Child, log: &Path, steps: usize, signal: &str, moments: &mut StdRng) -> Option<String> {
    loop {
        if child.try_wait().expect("it is known").is_some() {
            return None;
        }
        let done = fs::read_to_string(log).map_or(0, |text| text.lines().count());
        if done >= steps {
            break;
        }
        std::thread::yield_now();
    }
    let victim = victim(&child, moments)?;
    Command::new("kill").args([signal, &victim.to_string()]).status().expect("kill is there");
    let output = child.wait_with_output().expect("it ends");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
#[ignore = "takes minutes"]
fn killed_runs_end_with_the_weights_of_one_that_nobody_disturbed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path();
    let straight = straight(place);
    let mut moments = StdRng::seed_from_u64(setting("TRAINYARD_KILLS_SEED", 20_261_122));
    let kills = setting("TRAINYARD_KILLS", 50) as usize;
    let mut times = 0;
    for number in 0..kills {
        let Straight { plan, state: expected } = &straight[number % 2];
        let (out, kept, more) = (format!("out-{number}"), format!("kept-{number}"), format!("more-{number}"));
        let mut run = training(place, plan, &["--out", &out, "--checkpoint", &kept]);
        let child = run.stderr(Stdio::piped()).spawn().expect("it starts");
        let steps = moments.random_range(CHECKPOINT_EVERY + 1..STEPS - 1);
        let signal = if cfg!(feature = "mpi") && number % 4 > 1 { "-STOP" } else { "-KILL" };
        let log = place.join(&out).join("metrics.jsonl");
        if let Some(told) = disturbed(child, &log, steps, signal, &mut moments) {
            times += 1;
            if signal == "-STOP" {
                assert!(told.contains(" failed: no sign of life from its process on host "), "{told}");
            }
            let again = training(place, plan, &["--out", &more, "--checkpoint", &kept, "--resume"]).status();
            assert!(again.expect("it starts").success(), "{plan}, killed after {steps} steps: it does not go on");
        }
        assert!(state(&place.join(&kept)) == *expected, "{plan}, killed after {steps} steps: other weights");
        for gone in [&out, &kept, &more] {
            let _ = fs::remove_dir_all(place.join(gone));
        }
    }
    assert!(times * 10 >= kills * 8, "only {times} of {kills} were killed before their end");
}

/// With `mpi`, a process that finds the folder in use would otherwise leave the other waiting for it.
#[test]
#[ignore = "trains"]
fn a_run_that_cannot_begin_ends_for_all_its_processes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path();
    let [Straight { plan, .. }, _] = straight(place);
    let again = training(place, plan, &["--out", &format!("out-{plan}"), "--checkpoint", "other"]).output();
    let again = again.expect("it starts");
    let told = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(2), "{told}");
    assert!(told.contains("not empty"), "{told}");
}

/// With `mpi` only the first process knows the folder that it made: all must name the checkpoints in it, whatever lies
/// where they were started.
#[test]
#[ignore = "trains"]
fn a_run_without_a_name_keeps_its_checkpoints_in_a_folder_of_its_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path();
    let [Straight { plan, state: expected }, _] = straight(place);
    fs::rename(place.join(format!("straight-{plan}")), place.join("checkpoint")).expect("both are here");
    let run = training(place, plan, &[]).stderr(Stdio::piped()).output().expect("it starts");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let made = fs::read_dir(place.join("runs")).expect("runs").map(|entry| entry.expect("readable").path());
    let made: Vec<_> = made.collect();
    assert_eq!(made.len(), 1, "{made:?}");
    assert!(state(&made[0].join("checkpoint")) == expected, "other weights");
}
