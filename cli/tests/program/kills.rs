//! Runs that are killed at any moment and gone on from: the weights and the state of the optimizer at the end are those of
//! a run that nobody disturbed, to the last bit. Ignored by default because it takes minutes:
//!
//!     cargo test --release --workspace --test program kills:: -- --ignored
//!     cargo test --release --workspace --features trainyard-cli/mpi --test program kills:: -- --ignored
//!
//! With the feature `mpi` every rank is a process of its own, and one of them is killed; without it all ranks are.
//! `TRAINYARD_KILLS` says how often (50), `TRAINYARD_KILLS_SEED` which moments are drawn.

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

#[test]
#[ignore = "takes minutes"]
fn killed_runs_end_with_the_weights_of_one_that_nobody_disturbed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path();
    let straight = straight(place);
    let mut moments = StdRng::seed_from_u64(setting("TRAINYARD_KILLS_SEED", 20_261_122));
    let kills = setting("TRAINYARD_KILLS", 50) as usize;
    let mut disturbed = 0;
    for number in 0..kills {
        let Straight { plan, state: expected } = &straight[number % 2];
        let (out, kept, more) = (format!("out-{number}"), format!("kept-{number}"), format!("more-{number}"));
        let child = training(place, plan, &["--out", &out, "--checkpoint", &kept]).spawn().expect("it starts");
        let steps = moments.random_range(CHECKPOINT_EVERY + 1..STEPS - 1);
        let was_killed = killed(child, &place.join(&out).join("metrics.jsonl"), steps, &mut moments);
        if was_killed {
            disturbed += 1;
            let again = training(place, plan, &["--out", &more, "--checkpoint", &kept, "--resume"]).status();
            assert!(again.expect("it starts").success(), "{plan}, killed after {steps} steps: it does not go on");
        }
        assert!(state(&place.join(&kept)) == *expected, "{plan}, killed after {steps} steps: other weights");
        for gone in [&out, &kept, &more] {
            let _ = fs::remove_dir_all(place.join(gone));
        }
    }
    assert!(disturbed * 10 >= kills * 8, "only {disturbed} of {kills} were killed before their end");
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
