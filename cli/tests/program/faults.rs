//! What may happen to a run besides being killed: the disk is full, the clock is set, a signal comes in the middle of a
//! checkpoint, a link is slow. Ignored by default because it takes a Linux that lets users have namespaces (`unshare`),
//! and programs that set the clock of another (`faketime`) and slow a link down (`tc`, `mpirun`):
//!
//!     cargo test --release --workspace --test program faults:: -- --ignored
//!     cargo test --release --workspace --features trainyard-cli/mpi --test program faults:: -- --ignored

use crate::disturbed::{state, straight, training};
use std::fs;
use std::process::{Command, Output};

/// Runs `command` after these words of a shell, in namespaces of its own.
fn within(namespaces: &str, before: &str, after: &str, command: &Command) -> Output {
    let mut wrapped = Command::new("unshare");
    let script = format!("set -e; {before}; set +e; \"$@\"; code=$?; {after}; exit $code");
    wrapped.args([namespaces, "sh", "-c", &script, "sh"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        wrapped.env(name, value.unwrap_or_default());
    }
    wrapped.current_dir(command.get_current_dir().expect("it has a place"));
    wrapped.output().expect("unshare is there")
}

#[cfg(not(feature = "mpi"))]
mod of_one_process {
    use super::*;
    use crate::disturbed::{STEPS, Straight};
    use crate::trainyard::trainyard;
    use std::path::{Path, PathBuf};
    use std::process::Child;

    /// Trains on to the end from what is left, and compares.
    fn goes_on(place: &Path, straight: &Straight, kept: &str) {
        let again = training(place, straight.plan, &["--out", "more", "--checkpoint", kept, "--resume"]).output();
        let again = again.expect("it starts");
        assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
        assert!(state(&place.join(kept)) == straight.state, "{}: other weights", straight.plan);
        let _ = fs::remove_dir_all(place.join("more"));
    }

    /// The checkpoints of a folder, and whether one is half done.
    fn checkpoints(folder: &Path) -> (usize, bool) {
        let Ok(entries) = fs::read_dir(folder) else { return (0, false) };
        let names = entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned());
        let (hidden, whole): (Vec<_>, Vec<_>) = names.partition(|name| name.starts_with('.'));
        (whole.len(), !hidden.is_empty())
    }

    #[test]
    #[ignore = "takes a file system of its own"]
    fn a_run_on_a_full_disk_leaves_what_it_can_go_on_from() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path();
        let straight = straight(place);
        fs::create_dir(place.join("small")).expect("room");
        let (mut none, mut some) = (0, 0);
        // A checkpoint is 150 kB.
        for kilobytes in [60, 100, 180, 260, 340, 400, 460] {
            for straight in &straight {
                let before = format!("mount -t tmpfs -o size={kilobytes}k none small");
                let run = training(place, straight.plan, &["--out", "out", "--checkpoint", "small"]);
                let output = within("-rm", &before, "cp -r small kept", &run);
                let told = String::from_utf8_lossy(&output.stderr);
                let (whole, half_done) = checkpoints(&place.join("kept"));
                assert!(!half_done, "{kilobytes} kB: something half done is left");
                assert!(told.contains("free some space") && !told.contains("panicked"), "{kilobytes} kB: {told}");
                if whole == 0 {
                    none += 1;
                    assert!(!told.contains("last whole one"), "{kilobytes} kB: there is none: {told}");
                    assert_eq!(output.status.code(), Some(1), "{kilobytes} kB: {told}");
                } else {
                    some += 1;
                    assert_eq!(output.status.code(), Some(5), "{kilobytes} kB: {told}");
                    goes_on(place, straight, "kept");
                }
                for gone in ["kept", "out"] {
                    fs::remove_dir_all(place.join(gone)).expect("it is there");
                }
            }
        }
        assert!(none > 0 && some > 0, "{none} without a checkpoint, {some} with one");
    }

    #[test]
    #[ignore = "takes a file system of its own"]
    fn files_on_a_full_disk_are_written_whole_or_not_at_all() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path();
        straight(place);
        fs::create_dir(place.join("small")).expect("room");
        let outputs = [
            vec!["plan", "job.toml", "--out", "small/plan.json"],
            vec!["simulate", "replicas.json", "--trace", "small/trace.json"],
            vec!["run", "replicas.json", "--data", "text", "--steps", "3", "--out", "small/run"],
        ];
        for arguments in outputs {
            let command = trainyard(place, &arguments);
            let before = "mount -t tmpfs -o size=4k none small";
            let after = "find small -type f > left; find small -name '.*' >> left";
            let output = within("-rm", before, after, &command);
            let told = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {told}");
            assert!(told.contains("No space left") && !told.contains("panicked"), "{arguments:?}: {told}");
            let left = fs::read_to_string(place.join("left")).expect("a list");
            let document =
                |path: &str| Path::new(path).extension().is_some_and(|ending| ending == "json") || path.contains("/.");
            assert!(!left.lines().any(document), "{arguments:?}: {left}");
        }
        // A history is a help, not a result: what was asked for is there without it.
        let mut command = trainyard(place, &["plan", "job.toml"]);
        command.env("TRAINYARD_HISTORY", "small/history.db");
        let output = within("-rm", "mount -t tmpfs -o size=4k none small", "true", &command);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && told.contains("history"), "{told}");
    }

    #[test]
    #[ignore = "takes faketime"]
    fn a_clock_that_is_set_while_a_run_trains_changes_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path();
        let [straight, _] = straight(place);
        let library = Command::new("faketime").args(["-f", "+0", "sh", "-c", "echo $LD_PRELOAD"]).output();
        let library = String::from_utf8(library.expect("faketime is there").stdout).expect("a path");
        let clock = place.join("clock");
        fs::write(&clock, "+0").expect("room");
        let mut child = training(place, straight.plan, &["--out", "out", "--checkpoint", "kept"])
            .env("LD_PRELOAD", library.trim())
            .env("FAKETIME_TIMESTAMP_FILE", &clock)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("TRAINYARD_HISTORY", "history.db")
            .spawn()
            .expect("it starts");
        let mut jumps = 0;
        while child.try_wait().expect("it is known").is_none() {
            // Back before the time that computers count from, and on beyond what 32 bits hold.
            let offset = ["-30000d", "+0", "+40000d", "-1d"][jumps % 4];
            fs::write(place.join("next"), offset).and_then(|()| fs::rename(place.join("next"), &clock)).expect("room");
            jumps += 1;
            std::thread::yield_now();
        }
        assert!(child.wait().expect("it ends").success());
        assert!(state(&place.join("kept")) == straight.state);
        let metrics = fs::read_to_string(place.join("out/metrics.jsonl")).expect("metrics");
        assert_eq!(metrics.lines().count(), STEPS);
        for line in metrics.lines() {
            let step: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let seconds = step["seconds"].as_f64().expect("a time");
            assert!(seconds > 0.0 && seconds < 60.0, "{line}");
        }
        let mut list = trainyard(place, &["history", "list"]);
        list.env("TRAINYARD_HISTORY", "history.db");
        assert!(list.output().expect("it starts").status.success());
    }

    /// The checkpoint that is being written.
    fn under_way(folder: &Path) -> Option<PathBuf> {
        let mut entries = fs::read_dir(folder).ok()?.filter_map(Result::ok);
        entries.find(|entry| entry.file_name().to_string_lossy().starts_with('.')).map(|entry| entry.path())
    }

    /// The first checkpoint but one, or a later one, while it is being written; none if the run ended before one was seen.
    /// The very first is left alone, so that there is always one to go on from.
    fn caught(run: &mut Child, folder: &Path) -> Option<PathBuf> {
        while run.try_wait().expect("it is known").is_none() {
            let first = folder.join("checkpoint-1").exists();
            if let Some(found) = under_way(folder).filter(|_| first) {
                return Some(found);
            }
        }
        None
    }

    #[test]
    #[ignore = "takes a minute"]
    fn a_signal_in_the_middle_of_a_checkpoint_leaves_it_whole() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path();
        let straight = straight(place);
        let (mut in_the_middle, mut stopped) = (0, 0);
        for number in 0..20 {
            let straight = &straight[number % 2];
            let twice = number % 4 > 1;
            let run = training(place, straight.plan, &["--out", "out", "--checkpoint", "kept"]).spawn();
            let mut child = run.expect("it starts");
            let checkpoint = caught(&mut child, &place.join("kept"));
            let signals = if checkpoint.is_none() { 0 } else { 1 + usize::from(twice) };
            for _ in 0..signals {
                Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill is there");
            }
            in_the_middle += usize::from(checkpoint.is_some_and(|checkpoint| checkpoint.exists()));
            let code = child.wait().expect("it ends").code();
            // The last checkpoint may be one that was caught: then the run may be done before it hears anything.
            let codes: &[i32] = [&[0][..], &[0, 5], &[0, 5, 130]][signals];
            assert!(code.is_some_and(|code| codes.contains(&code)), "{code:?} after {signals}");
            let (whole, half_done) = checkpoints(&place.join("kept"));
            assert!(whole > 0 && (signals == 2 || !half_done), "{whole} are whole");
            if code == Some(0) {
                assert!(state(&place.join("kept")) == straight.state, "{}: other weights", straight.plan);
            } else {
                stopped += 1;
                goes_on(place, straight, "kept");
            }
            for gone in ["kept", "out"] {
                fs::remove_dir_all(place.join(gone)).expect("it is there");
            }
        }
        assert!(in_the_middle > 0 && stopped > 0, "no signal came while a checkpoint was written");
    }
}

/// `TRAINYARD_CUTS` says how often.
#[cfg(feature = "mpi")]
#[test]
#[ignore = "takes root and minutes"]
fn ranks_whose_network_is_gone_end_and_go_on_from_whole_checkpoints() {
    use std::process::Stdio;

    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path();
    let straight = straight(place);
    let cuts = std::env::var("TRAINYARD_CUTS").map_or(4, |text| text.parse().expect("a number"));
    for number in 0..cuts {
        let straight = &straight[number % 2];
        let cut = place.join("cut");
        let run = training(place, straight.plan, &["--out", "out", "--checkpoint", "kept"]);
        // The words of the program itself, behind those of the launcher: the script has a launcher of its own.
        let words = run.get_args().skip_while(|word| *word != env!("CARGO_BIN_EXE_trainyard"));
        let mut hosts = Command::new("timeout");
        hosts.args(["120", "../tests/mpi/two_hosts.sh", "-c"]).arg(&cut).arg("sh").arg("-c");
        hosts.arg(format!("cd {} && exec \"$@\"", place.display())).arg("sh").args(words);
        let child = hosts.env("TRAINYARD_HISTORY", "off").stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("it starts");
        while !place.join("kept/checkpoint-2").exists() && child.try_wait().expect("it is known").is_none() {
            std::thread::yield_now();
        }
        fs::write(&cut, "").expect("room");
        let output = child.wait_with_output().expect("it ends");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{told}");
        assert!(told.contains("rank 1 failed: no sign of life from its process on host trainyard-"), "{told}");
        fs::remove_file(cut).expect("it is there");
        let again = training(place, straight.plan, &["--out", "more", "--checkpoint", "kept", "--resume"]).output();
        let again = again.expect("it starts");
        assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
        assert!(state(&place.join("kept")) == straight.state, "{}: other weights", straight.plan);
        for gone in ["kept", "out", "more"] {
            fs::remove_dir_all(place.join(gone)).expect("it is there");
        }
    }
}

#[cfg(feature = "mpi")]
#[test]
#[ignore = "takes a network of its own"]
fn a_slow_link_changes_no_weight() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path();
    for straight in straight(place) {
        let (out, kept) = (format!("slow-{}", straight.plan), format!("kept-{}", straight.plan));
        let mut run = training(place, straight.plan, &["--out", &out, "--checkpoint", &kept]);
        // Messages between processes of one machine would go through its memory.
        run.env("OMPI_MCA_btl", "tcp,self").env("OMPI_MCA_pml", "ob1").env("OMPI_MCA_btl_tcp_if_include", "lo");
        let slow = "ip link set lo mtu 1500 up; tc qdisc add dev lo root tbf rate 20mbit burst 64kb latency 400ms";
        let output = within("-rn", slow, "tc -s qdisc show dev lo > sent", &run);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(state(&place.join(&kept)) == straight.state, "{}: other weights", straight.plan);
        let sent = fs::read_to_string(place.join("sent")).expect("it was told");
        let bytes =
            sent.split_whitespace().skip_while(|word| *word != "Sent").nth(1).and_then(|word| word.parse().ok());
        assert!(bytes.is_some_and(|bytes: u64| bytes > 1 << 20), "the ranks talked past the link: {sent}");
    }
}
