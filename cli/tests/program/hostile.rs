//! Damaged files of every kind, as the program meets them: whatever the bytes are, it ends by itself with an exit code
//! that it documents, says which file it could not read, and leaves nothing behind. `TRAINYARD_DAMAGES` says how many
//! damages of each file are tried (8), `TRAINYARD_DAMAGES_SEED` which are drawn.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

/// A damaged file may ask for a long search, which is no fault; it is stopped after so many seconds.
const PATIENCE: &str = "20";

/// What a command may end with: done, wrong input, no plan, a goal missed.
const DOCUMENTED: [i32; 4] = [0, 2, 3, 4];

/// A file to damage, and the command that reads it as `FILE`. What it writes goes to `OUT`.
struct Case {
    file: &'static str,
    command: &'static str,
    /// Other files that it reads.
    beside: &'static [&'static str],
}

const fn case(file: &'static str, command: &'static str, beside: &'static [&'static str]) -> Case {
    Case { file, command, beside }
}

const SMALL: &str = "--samples 6400 --global-batch 64 --epochs 1 --instances p3.2xlarge --max-instances 1";

const CASES: [Case; 20] = [
    case("tests/cmd/plan.in/job.toml", "plan FILE --out OUT", &[]),
    case("tests/cmd/plan.in/prices.csv", "plan --model resnet50 SMALL --prices FILE --out OUT", &[]),
    case("../models/catalog/alexnet.toml", "plan job.toml --out OUT", &["model"]),
    case("../examples/cluster-mixed.toml", "plan job.toml --out OUT", &["cluster"]),
    case("tests/cmd/onnx.in/network.onnx", "plan --model FILE SMALL --out OUT", &[]),
    case("tests/cmd/fleet.in/plain.toml", "plan FILE --out OUT", &[]),
    case("tests/cmd/fleet.in/own.toml", "plan FILE --out OUT", &["tests/cmd/fleet.in/lab.toml"]),
    case("tests/cmd/simulate.in/plan.json", "simulate FILE --trace OUT", &[]),
    case("tests/cmd/simulate.in/plan.json", "simulate FILE --plot OUT.svg", &[]),
    case("tests/cmd/export.in/data-parallel.json", "export FILE --to slurm --out OUT", &[]),
    case("tests/cmd/export.in/zero-3.json", "export FILE --to deepspeed --out OUT", &[]),
    case("tests/cmd/explain.in/two.json", "report FILE --runs 5 --out OUT", &[]),
    case("tests/cmd/explain.in/two.json", "explain FILE", &[]),
    case("tests/cmd/queue.in/small.toml", "simulate FILE --plot OUT.svg", &["tests/cmd/queue.in/plan.json"]),
    case("tests/cmd/what_if.in/plan.json", "what-if FILE --vary cluster.network=×0.5,×2 --plot OUT.svg", &[]),
    case("tests/cmd/calibrate.in/mine.csv", "calibrate --from FILE --out OUT", &[]),
    case("tests/cmd/calibrate.in/sweep.txt", "calibrate --from FILE --instance p4d.24xlarge --out OUT", &[]),
    case("tests/cmd/calibrate.in/trace.json", "calibrate --from FILE --stack pytorch --out OUT", &[]),
    case("tests/cmd/validate.in/small.csv", "validate FILE", &[]),
    case("../calibration/tests/runs/profile.toml", "plan job.toml --out OUT", &["profile"]),
];

/// A job that names the file to damage.
fn job_with(what: &str) -> String {
    let model = if what == "model" { "file = \"FILE\"" } else { "name = \"gpt2\"" };
    let cluster = match what {
        "model" => "instances = [\"p3.2xlarge\"]\nmax_instances = 1",
        "cluster" => "file = \"FILE\"",
        _ => "profile = \"FILE\"",
    };
    format!(
        "[model]\n{model}\n[data]\nsamples = 6400\n[training]\nglobal_batch = 16\nsteps = 10\n[cluster]\n{cluster}\n"
    )
}

/// Words that parsers stumble over.
const WORDS: [&str; 14] = [
    "0",
    "-1",
    "1e400",
    "nan",
    "18446744073709551615",
    "99999999999",
    "\"\"",
    "null",
    "[[[[[[[[",
    "{",
    "\u{0}",
    "\u{feff}",
    "../../x",
    "<b>\u{1b}[31m",
];

/// Some bytes with one thing wrong, or a few.
fn damaged(whole: &[u8], draw: &mut StdRng) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..draw.random_range(1..4) {
        let at = draw.random_range(0..bytes.len().max(1)).min(bytes.len());
        let end = (at + draw.random_range(1..40)).min(bytes.len());
        match draw.random_range(0..7) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.iter_mut().skip(at).take(3).for_each(|byte| *byte = draw.random_range(0..=255)),
            3 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
            4 => replace_number(&mut bytes, at, draw),
            5 => drop(bytes.splice(at..end.min(at + 1), WORDS[draw.random_range(0..WORDS.len())].bytes())),
            _ => {
                let copied = bytes.clone();
                let from = draw.random_range(0..copied.len().max(1)).min(copied.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&copied[from..]);
            }
        }
    }
    bytes
}

/// Another number in place of the first one behind `at`.
fn replace_number(bytes: &mut Vec<u8>, at: usize, draw: &mut StdRng) {
    let Some(start) = bytes.iter().skip(at).position(u8::is_ascii_digit).map(|offset| at + offset) else { return };
    let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    bytes.splice(start..start + length, WORDS[draw.random_range(0..6)].bytes());
}

/// What a command says, unless it has to be stopped.
fn output(place: &Path, command: &str) -> Option<Output> {
    let mut limited = Command::new("timeout");
    limited.args(["--signal", "KILL", PATIENCE, env!("CARGO_BIN_EXE_trainyard")]).args(command.split_whitespace());
    limited.current_dir(place).env("NO_COLOR", "1").env("TRAINYARD_HISTORY", "off");
    let output = limited.output().expect("it starts");
    let stopped = output.status.signal() == Some(9) || output.status.code() == Some(128 + 9);
    (!stopped).then_some(output)
}

fn files_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable").file_name());
    entries.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// Tries some damages of one file; says of how many the program ended by itself.
fn endured(case: &Case, damages: usize, draw: &mut StdRng) -> usize {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path();
    let ending = Path::new(case.file).extension().expect("all have one");
    let name = format!("damaged.{}", ending.to_string_lossy());
    for other in case.beside {
        match *other {
            "model" | "cluster" | "profile" => {
                fs::write(place.join("job.toml"), job_with(other).replace("FILE", &name)).expect("room");
            }
            file => drop(fs::copy(file, place.join(Path::new(file).file_name().expect("a name"))).expect("room")),
        }
    }
    let whole = fs::read(case.file).expect("a file to damage");
    let command = case.command.replace("SMALL", SMALL).replace("OUT", "out/result").replace("FILE", &name);
    let mut ended = 0;
    for _ in 0..damages {
        let bytes = damaged(&whole, draw);
        fs::write(place.join(&name), &bytes).expect("room");
        fs::create_dir_all(place.join("out")).expect("room");
        let Some(output) = output(place, &command) else { continue };
        ended += 1;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let about = || {
            let kept = std::env::temp_dir().join("trainyard-damaged");
            fs::write(&kept, &bytes).expect("room");
            format!("{command} with {}: {said}", kept.display())
        };
        let code = output.status.code();
        assert!(code.is_some_and(|code| DOCUMENTED.contains(&code)), "{code:?}, {}", about());
        assert!(!said.contains("panicked"), "{}", about());
        assert!(![&output.stderr, &output.stdout].iter().any(|said| said.contains(&0x1b)), "{}", about());
        if code == Some(2) {
            assert!(said.contains("error: ") && said.contains("damaged"), "the file is not named: {}", about());
            assert!(said.contains("hint: "), "there is no advice: {}", about());
            assert!(said.lines().count() <= 40 && said.len() < 20_000, "the message is long: {}", about());
            assert_eq!(files_in(&place.join("out")), Vec::<String>::new(), "{}", about());
        }
        assert!(files_in(&place.join("out")).iter().all(|name| name.starts_with("result")), "{}", about());
        fs::remove_dir_all(place.join("out")).expect("it was made");
    }
    ended
}

#[test]
fn damaged_files_are_refused_with_their_names_and_leave_nothing() {
    let setting =
        |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let damages = setting("TRAINYARD_DAMAGES", 8) as usize;
    let mut draw = StdRng::seed_from_u64(setting("TRAINYARD_DAMAGES_SEED", 20_261_122));
    for case in &CASES {
        let ended = endured(case, damages, &mut draw);
        assert!(ended * 2 > damages, "{}: only {ended} of {damages} commands ended by themselves", case.command);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_that_standard_output_does_not_take_is_an_error() {
    for command in ["show models", "show models --format json", "completions bash", "man"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has one");
        let mut run = Command::new(env!("CARGO_BIN_EXE_trainyard"));
        run.args(command.split(' ')).env("TRAINYARD_HISTORY", "off").stdout(full);
        let output = run.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("standard output"), "{command}: {said}");
    }
}
