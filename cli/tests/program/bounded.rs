//! Files that ask for more than they are worth: each is refused in a moment, with little memory, one screen of text and
//! advice, and writes nothing. Every command runs with a limit on its memory that is 512 MiB above what the same command
//! takes for an honest file.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

/// The address space of the program on small files, in MiB: measured 300, of which most is never touched.
const HONEST: u64 = 400;
/// What a hostile file may make it take besides.
const MORE: u64 = 512;
/// Seconds after which a command is stopped, which is a failure.
const PATIENCE: &str = "60";

/// Runs a command in a folder with a limit on memory and time.
fn run(place: &Path, command: &str) -> Output {
    let limited = format!(
        "ulimit -v {}; exec timeout -s KILL {PATIENCE} {} {command}",
        (HONEST + MORE) * 1024,
        env!("CARGO_BIN_EXE_trainyard")
    );
    let mut shell = Command::new("bash");
    shell.args(["-c", &limited]).current_dir(place).env("NO_COLOR", "1").env("TRAINYARD_HISTORY", "off");
    // Arenas of the allocator reserve addresses that they do not use.
    shell.env("MALLOC_ARENA_MAX", "1").output().expect("it starts")
}

/// Checks that a command refuses its input as documented; returns what it says.
fn refused(place: &Path, command: &str) -> String {
    let before = fs::read_dir(place).expect("a folder").count();
    let output = run(place, command);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let start: String = said.chars().take(3000).collect();
    assert_eq!(output.status.code(), Some(2), "{command}: {:?} {start}", output.status);
    assert!(said.contains("error: ") && said.contains("hint: "), "{command}: {start}");
    assert!(said.lines().count() <= 20 && said.len() < 6000, "{command}: {} bytes: {start}", said.len());
    assert!(output.stdout.is_empty(), "{command}");
    assert_eq!(fs::read_dir(place).expect("a folder").count(), before, "{command} leaves something behind");
    said
}

/// Commands that read a file `FILE`, each of a kind of its own.
const READERS: [&str; 16] = [
    "plan FILE.toml",
    "train FILE.toml",
    "plan --model FILE.toml --samples 640 --global-batch 8",
    "plan --model FILE.json --samples 640 --global-batch 8",
    "plan --model FILE.onnx --samples 640 --global-batch 8",
    "plan --model gpt2 --samples 640 --global-batch 8 --prices FILE.csv",
    "plan --model gpt2 --samples 640 --global-batch 8 --constants FILE.toml",
    "simulate FILE.toml",
    "simulate FILE.json",
    "explain FILE.json",
    "export FILE.json --to slurm",
    "compare FILE.json FILE.json",
    "calibrate --from FILE.csv",
    "calibrate --from FILE.json",
    "validate FILE.csv",
    "show models FILE.json",
];

const ENDINGS: [&str; 4] = ["toml", "json", "onnx", "csv"];

/// Makes a file of each ending with `make`, and gives it to every command.
fn each(make: impl Fn(&Path), words: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for ending in ENDINGS {
        make(&folder.path().join(format!("hostile.{ending}")));
    }
    for reader in READERS {
        let said = refused(folder.path(), &reader.replace("FILE", "hostile"));
        assert!(said.contains("hostile"), "{reader}: {said}");
        assert!(words.is_empty() || words.iter().any(|word| said.contains(word)), "{reader}: {said}");
    }
}

#[test]
fn a_fifo_a_device_and_a_folder_are_refused_at_once() {
    each(
        |path| {
            assert!(Command::new("mkfifo").arg(path).status().expect("every Unix has it").success());
        },
        &["no regular file"],
    );
    each(|path| std::os::unix::fs::symlink("/dev/zero", path).expect("room"), &["no regular file"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    for ending in ENDINGS {
        fs::create_dir(folder.path().join(format!("hostile.{ending}"))).expect("room");
    }
    // Runs, and execution traces, are folders.
    for reader in READERS.iter().filter(|reader| !reader.starts_with("calibrate")) {
        assert!(refused(folder.path(), &reader.replace("FILE", "hostile")).contains("hostile"), "{reader}");
    }
}

#[test]
fn a_file_of_gigabytes_is_not_read() {
    each(|path| File::create(path).and_then(|file| file.set_len(3 << 30)).expect("a sparse file"), &[]);
}

#[test]
fn what_gzip_packed_is_counted_as_it_is_unpacked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path();
    let packed = |name: &str, begin: &[u8], fill: &[u8], megabytes: usize| {
        let mut packed = GzEncoder::new(File::create(place.join(name)).expect("room"), Compression::fast());
        packed.write_all(begin).expect("room");
        let block: Vec<u8> = fill.iter().copied().cycle().take(1 << 20).collect();
        (0..megabytes).for_each(|_| packed.write_all(&block).expect("room"));
        packed.finish().expect("room");
    };
    packed("blank.gz", b"", b" ", 1024);
    packed("table.csv.gz", b"id,suite,step_time_s\n", b"a,b,0.1\n", 1024);
    packed("events.json.gz", b"{\"traceEvents\": [{\"ph\": \"X\"}", b",{}     ", 600);
    packed("numbers.json.gz", b"{\"ph\": 1, \"traceEvents\": [{\"args\": {\"Input Dims\": [0", b",0", 200);
    packed("word.json.gz", b"{\"ph\": 1, \"traceEvents\": [{\"name\": \"", b"x", 600);
    packed("run.json.gz", b"{\"schema\": \"trainyard.measurement/1\", \"steps\": [0", b",0", 600);
    for name in ["blank.gz", "table.csv.gz", "events.json.gz", "numbers.json.gz", "word.json.gz", "run.json.gz"] {
        refused(place, &format!("calibrate --from {name}"));
    }
}

#[test]
fn documents_that_grow_when_they_are_parsed_are_bounded() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path();
    let write = |name: &str, text: String| fs::write(place.join(name), text).expect("room");
    write("list.json", format!("[{}0]", "0,".repeat(7 << 20)));
    write("lists.json", format!("{{\"schema\": \"trainyard.plan/1\", \"job\": [{}[]]}}", "[],".repeat(1_900_000)));
    write("objects.json", format!("{{\"job\": [{}0]}}", "{\"a\":0},".repeat(1_800_000)));
    write("list.toml", format!("a = [{}0]\n", "0,".repeat((4 << 20) / 2 - 10)));
    write("keys.toml", (0..350_000).fold(String::new(), |text, key| text + &format!("k{key} = 0\n")));
    write("tables.toml", (0..400_000).fold(String::new(), |text, key| text + &format!("[t{key:x}]\n")));
    write("inline.toml", format!("a = [{}{{}}]\n", "{},".repeat((4 << 20) / 3 - 10)));
    for name in ["list.json", "lists.json", "objects.json"] {
        for command in ["explain", "simulate", "show models", "calibrate --from"] {
            refused(place, &format!("{command} {name}"));
        }
    }
    for name in ["list.toml", "keys.toml", "tables.toml", "inline.toml"] {
        for command in ["plan", "train", "simulate", "show models"] {
            refused(place, &format!("{command} {name}"));
        }
    }
}

#[test]
fn damage_of_every_usual_form_has_advice() {
    let texts: [(&[u8], &[&str]); 6] = [
        (b"\n[", &[]),
        (b"\xff\xfea\0b\0", &["UTF-16", "UTF-8", "no ONNX file", "no measurements"]),
        (b"\xe4\xf6\xfc", &["UTF-8", "no ONNX file", "no measurements"]),
        (b"\xef\xbb\xbf\xef\xbb\xbf?", &[]),
        (b"{", &[]),
        (b"\x1f\x8b\x08\0\0", &[]),
    ];
    for (bytes, words) in texts {
        each(|path| fs::write(path, bytes).expect("room"), words);
    }
    let deep = "[".repeat(300_000);
    each(|path| fs::write(path, format!("a = {deep}")).expect("room"), &[]);
    each(|path| fs::write(path, &deep).expect("room"), &[]);
    let long = "k".repeat(300_000);
    each(|path| fs::write(path, format!("{long} = 1\n")).expect("room"), &[]);
    each(|path| fs::write(path, format!("{{\"{long}\": \"{long}\"}}")).expect("room"), &[]);
}

#[test]
fn an_empty_file_is_called_empty() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("empty.json"), "").expect("room");
    for command in ["simulate", "explain", "report", "show models", "plan --model gpt2 --constants"] {
        let said = refused(folder.path(), &format!("{command} empty.json"));
        assert!(said.contains("empty.json"), "{command}: {said}");
    }
    assert!(refused(folder.path(), "explain empty.json").contains("the file is empty"));
}

#[test]
fn a_byte_order_mark_says_nothing_and_is_left_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (file, command) in [
        ("tests/cmd/simulate.in/plan.json", "simulate with-mark"),
        ("tests/cmd/plan.in/job.toml", "plan with-mark"),
        ("tests/cmd/calibrate.in/trace.json", "calibrate --from with-mark --stack pytorch --out constants"),
    ] {
        let marked = ["\u{feff}".as_bytes(), &fs::read(file).expect("a file")].concat();
        fs::write(folder.path().join("with-mark"), marked).expect("room");
        let output = run(folder.path(), command);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Commands that read a document of TOML or JSON in which a number stands as `NUMBER`.
const NUMBERS: [(&str, &str); 8] = [
    ("[model]\nname = \"gpt2\"\n[training]\nglobal_batch = 8\nlearning_rate = NUMBER\n", "plan"),
    ("[model]\nname = \"gpt2\"\n[data]\ntokens = NUMBER\n", "plan"),
    ("[model]\nname = \"gpt2\"\n[goal]\nbudget = NUMBER\n", "plan"),
    (
        "name = \"x\"\nfamily = \"layers\"\ninput = { image = 8, channels = 3 }\nlayers = [{ operators = [{ conv = 8, kernel = 3, stride = NUMBER }] }]\n",
        "show models",
    ),
    (
        "name = \"x\"\nfamily = \"layers\"\ninput = { image = 8, channels = 3 }\nlayers = [{ operators = [{ conv = 8, groups = NUMBER }] }]\n",
        "show models",
    ),
    (
        "name = \"rack\"\n[[machines]]\nlike = \"p4d.24xlarge\"\ncount = NUMBER\n",
        "plan --model gpt2 --samples 640 --global-batch 8 --constants",
    ),
    ("[pool]\ninstances = [\"p3.2xlarge\"]\n[[job]]\nname = \"a\"\n[job.training]\nglobal_batch = NUMBER\n", "plan"),
    ("[pool]\ninstances = NUMBER\n", "simulate"),
];

#[test]
fn a_number_that_is_none_is_refused_wherever_it_stands() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (text, command) in NUMBERS {
        for number in ["nan", "-nan", "inf", "-inf", "1e999"] {
            fs::write(folder.path().join("file.toml"), text.replace("NUMBER", number)).expect("room");
            let said = refused(folder.path(), &format!("{command} file.toml"));
            let told = said.contains("no finite number") || said.contains("overflowed");
            assert!(told && said.contains("file.toml"), "{command} {number}: {said}");
        }
    }
}

#[test]
fn a_key_that_stands_twice_is_refused_in_every_document() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path();
    let plan = fs::read_to_string("tests/cmd/simulate.in/plan.json").expect("a plan");
    // Beside a key that is known, and one that nobody reads.
    for key in ["\"schema\"", "\"job\""] {
        let twice = plan.replacen(key, &format!("{key}: null, {key}"), 1);
        fs::write(place.join("plan.json"), twice).expect("room");
        assert!(refused(place, "simulate plan.json").contains("duplicate"), "{key}");
    }
    fs::write(place.join("config.json"), "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"x\": {\"y\": 1, \"y\": 2}}")
        .expect("room");
    assert!(refused(place, "show models config.json").contains("duplicate"));
    fs::write(place.join("job.toml"), "[model]\nname = \"gpt2\"\nname = \"gpt2\"\n").expect("room");
    assert!(refused(place, "plan job.toml").contains("duplicate"));
}
