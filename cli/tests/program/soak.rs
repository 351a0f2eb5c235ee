//! A long life of one folder and one history: commands, plans, trainings, kills and writes that are cut off, drawn by
//! chance, some at the same time; in the end everything is readable, and every training goes on to the weights of one
//! that nobody disturbed. Ignored by default because it takes as long as it is told:
//!
//!     TRAINYARD_SOAK_SECONDS=3600 cargo test --release --workspace --test program soak:: -- --ignored --nocapture
//!
//! `TRAINYARD_SOAK_SECONDS` says how long (60), `TRAINYARD_SOAK_SEED` what is drawn.

use crate::disturbed::{STEPS, Straight, newest, state, straight, training};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const HISTORY: &str = "history.db";

/// Commands that may be given at any time. `N` is a number from 0 to 4, so that they meet each other's files; `ID` is an
/// entry of the history.
const COMMANDS: [&str; 20] = [
    "plan job.toml --out plan-N.json",
    "plan --model gpt2 --samples 6400 --global-batch 64 --instances p3.* --max-instances 2 --out plan-N.json",
    "plan --model resnet50 --samples 6400 --global-batch 64 --instances p3.2xlarge --max-instances 1 --out plan-N.json",
    "simulate plan-N.json --trace trace-N.json",
    "simulate plan-N.json --campaign --runs 20",
    "simulate plan-N.json --chakra chakra-N",
    "explain plan-N.json --plot path-N.svg",
    "what-if plan-N.json --vary gpu.memory=×0.5,×2 --out what-if-N.json --csv what-if-N.csv",
    "report plan-N.json --out report-N.html",
    "export plan-N.json --to slurm --out launch-N",
    "show models --format json",
    "validate table.csv",
    "calibrate --from table.csv --out constants-N.toml",
    "history list --format json",
    "history show ID",
    "history tag ID soak-N",
    "history note ID drawn-N",
    "history compare ID ID",
    "history export ID --out kept-entry-N.json",
    "history prune --keep 30",
];

/// What a command may end with: all that is documented, and SIGKILL.
const DOCUMENTED: [i32; 7] = [0, 1, 2, 3, 4, 5, 128 + 9];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// What happens to a command.
enum Disturbance {
    Nothing,
    /// It is killed after so many milliseconds.
    Killed(u32),
    /// No file may be longer than so many KiB, as if the disk was full.
    Full(u32),
}

impl Disturbance {
    fn drawn(draw: &mut StdRng) -> Self {
        match draw.random_range(0..6) {
            0 | 1 => Self::Killed(draw.random_range(1..400)),
            2 => Self::Full(draw.random_range(0..200)),
            _ => Self::Nothing,
        }
    }

    /// The command with it.
    fn wrapped(&self, command: &Command) -> Command {
        let before = match self {
            Self::Nothing => String::new(),
            Self::Killed(after) => format!("timeout -s KILL {}", f64::from(*after) / 1000.0),
            Self::Full(blocks) => format!("bash -c 'trap \"\" XFSZ; ulimit -f {blocks}; exec \"$@\"' bash"),
        };
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("exec {before} \"$@\""), "bash"]);
        shell.arg(command.get_program()).args(command.get_args());
        shell.current_dir(command.get_current_dir().expect("it has a place")).stdin(Stdio::null());
        shell.env("NO_COLOR", "1").env("TRAINYARD_HISTORY", HISTORY);
        shell.stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    }
}

fn trainyard(place: &Path, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    command.args(words.split(' ')).current_dir(place).env("NO_COLOR", "1").env("TRAINYARD_HISTORY", HISTORY);
    command
}

/// The ids of all entries; nothing where the history cannot be read just now.
fn ids(place: &Path) -> Vec<String> {
    let output = trainyard(place, "history list --format json --limit 1000").output().expect("it starts");
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let entries = listed["entries"].as_array().cloned().unwrap_or_default();
    entries.iter().filter_map(|entry| entry["id"].as_str().map(str::to_owned)).collect()
}

/// Draws a command.
fn drawn(place: &Path, straight: &[Straight], draw: &mut StdRng) -> (String, Command) {
    if draw.random_range(0..4) == 0 {
        let plan = straight[draw.random_range(0..straight.len())].plan;
        let kept = format!("kept-{plan}");
        let out = format!("run-{}", draw.random_range(0..1_000_000));
        let mut arguments = vec!["--out", &out, "--checkpoint", &kept];
        if place.join(&kept).exists() {
            arguments.push("--resume");
        }
        return (format!("run {plan} of {kept}"), training(place, plan, &arguments));
    }
    let mut words = COMMANDS[draw.random_range(0..COMMANDS.len())].replace('N', &draw.random_range(0..5).to_string());
    if words.contains("ID") {
        let ids = ids(place);
        if ids.is_empty() {
            words = "history list".into();
        }
        while words.contains("ID") {
            words = words.replacen("ID", &ids[draw.random_range(0..ids.len())], 1);
        }
    }
    let command = trainyard(place, &words);
    (words, command)
}

fn check(words: &str, output: &Output, ends: &mut BTreeMap<i32, usize>) {
    use std::os::unix::process::ExitStatusExt;
    let said = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code().or(output.status.signal().map(|signal| 128 + signal)).expect("it ended");
    assert!(DOCUMENTED.contains(&code) && !said.contains("panicked"), "{words}: {code}, {said}");
    *ends.entry(code).or_default() += 1;
}

/// Everything in the folder is what it says it is, and every training goes on.
fn all_is_readable(place: &Path, straight: &[Straight]) {
    for entry in fs::read_dir(place).expect("a folder") {
        let path = entry.expect("readable").path();
        let named = |ending: &str| path.extension().is_some_and(|own| own == ending);
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() || hidden {
            continue;
        }
        let text = || fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if named("json") {
            serde_json::from_str::<Value>(&text()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        if named("svg") || named("html") {
            let end = if named("svg") { "</svg>" } else { "</html>" };
            assert!(text().trim_end().ends_with(end), "{} is cut short", path.display());
        }
    }
    let ids = ids(place);
    for id in &ids {
        let shown = trainyard(place, &format!("history show {id}")).output().expect("it starts");
        assert!(shown.status.success(), "{id}: {}", String::from_utf8_lossy(&shown.stderr));
    }
    let listed = trainyard(place, "history list").output().expect("it starts");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    for Straight { plan, state: expected } in straight {
        let kept = format!("kept-{plan}");
        if !place.join(&kept).exists() {
            continue;
        }
        let out = format!("last-{plan}");
        let resumed = training(place, plan, &["--out", &out, "--checkpoint", &kept, "--resume"]).output();
        let resumed = resumed.expect("it starts");
        let said = String::from_utf8_lossy(&resumed.stderr);
        // What has ended has nothing to do; what never kept a checkpoint has nothing to go on from.
        if said.contains("no checkpoint") {
            continue;
        }
        assert!(resumed.status.success() || said.contains("--steps"), "{plan}: {said}");
        assert!(state(&place.join(&kept)) == *expected, "{plan}: other weights");
    }
}

#[test]
#[ignore = "takes as long as it is told"]
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "it lasts a time, and tells what it has seen")]
fn a_folder_and_a_history_outlive_whatever_happens_to_commands() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path();
    let straight = straight(place);
    fs::copy("tests/cmd/validate.in/small.csv", place.join("table.csv")).expect("a table");
    let seed = setting("TRAINYARD_SOAK_SEED", 20_261_125);
    let mut draw = StdRng::seed_from_u64(seed);
    let end = Instant::now() + Duration::from_secs(setting("TRAINYARD_SOAK_SECONDS", 60));
    let mut ends = BTreeMap::new();
    let mut rounds = 0;
    while Instant::now() < end {
        let together: Vec<_> = (0..draw.random_range(1..4))
            .map(|_| {
                let (words, command) = drawn(place, &straight, &mut draw);
                let child = Disturbance::drawn(&mut draw).wrapped(&command).spawn().expect("it starts");
                (words, child)
            })
            .collect();
        for (words, child) in together {
            let output = child.wait_with_output().expect("it ends");
            check(&words, &output, &mut ends);
        }
        rounds += 1;
        // A finished training is begun anew, and so is one that was cut off before its first checkpoint.
        for Straight { plan, state: expected } in &straight {
            let kept = place.join(format!("kept-{plan}"));
            let ended = newest(&kept).map(|(step, _)| step == STEPS as u64);
            if ended == Some(true) {
                assert!(state(&kept) == *expected, "{plan}: other weights");
            }
            if kept.exists() && ended != Some(false) {
                fs::remove_dir_all(&kept).expect("it is there");
            }
        }
    }
    println!("seed {seed}: {rounds} rounds; commands by exit code: {ends:?}");
    assert!(ends.values().sum::<usize>() > 0);
    all_is_readable(place, &straight);
}
