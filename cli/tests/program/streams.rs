//! Commands that read standard input and pipes in place of files.

use crate::commands::{program, workplace};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

/// Runs a command to which this is written.
fn given(folder: &Path, arguments: &str, text: &[u8]) -> Output {
    let mut command = program(folder, arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // A command that refuses what it reads may end before it has read it all.
    let _ = child.stdin.take().expect("piped").write_all(text);
    child.wait_with_output().expect("it ends")
}

/// What a command prints that ends well.
fn printed(folder: &Path, arguments: &str, text: &[u8]) -> Vec<u8> {
    let output = given(folder, arguments, text);
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn a_plan_goes_from_one_command_to_the_next() {
    let folder = workplace("plan");
    let place = folder.path();
    let job = fs::read(place.join("job.toml")).expect("a job");
    let plan = printed(place, "plan - --top 1 --out -", &job);
    assert_eq!(printed(place, "plan job.toml --top 1 --out -", b""), plan);
    fs::write(place.join("kept.json"), &plan).expect("room");
    for command in ["simulate FILE", "explain FILE --format json", "report FILE", "what-if FILE --vary instances=1"] {
        let read = printed(place, &command.replace("FILE", "-"), &plan);
        let of_file = printed(place, &command.replace("FILE", "kept.json"), b"");
        let named = |text: &[u8]| String::from_utf8_lossy(text).replace("kept.json", "./-").replace("./-", "-");
        assert_eq!(named(&read), named(&of_file), "{command}");
    }
    let launched = String::from_utf8(printed(place, "export - --to torchrun", &plan)).expect("text");
    assert!(launched.contains("torchrun"), "{launched}");
    let varied = printed(place, "what-if - --vary instances=1,2 --format json", &job);
    assert!(String::from_utf8_lossy(&varied).contains("\"held\": false"));
}

#[test]
fn files_that_a_job_names_are_beside_where_the_command_runs() {
    let folder = workplace("onnx");
    let job = fs::read(folder.path().join("job.toml")).expect("a job that names the file of its model");
    printed(folder.path(), "plan - --top 1 -q", &job);
}

#[cfg(unix)]
#[test]
fn a_pipe_of_the_shell_is_read_and_one_of_another_name_is_not() {
    let folder = workplace("plan");
    let place = folder.path();
    let job = fs::read(place.join("job.toml")).expect("a job");
    assert_eq!(printed(place, "plan /dev/stdin --out -", &job), printed(place, "plan job.toml --out -", b""));
    let made = std::process::Command::new("mkfifo").arg(place.join("fifo")).status().expect("every Unix has it");
    assert!(made.success());
    assert_eq!(given(place, "plan fifo", b"").status.code(), Some(2));
}

#[test]
fn what_cannot_be_read_from_a_stream_is_told() {
    let folder = workplace("plan");
    for (arguments, text, words) in [
        ("plan -", vec![b' '; (16 << 20) + 1], "more than 16 MiB"),
        ("plan -", b"\xff\xfe".to_vec(), "not UTF-8"),
        ("simulate -", Vec::new(), "cannot read plan `-`"),
        ("simulate ./-", b"{}".to_vec(), "No such file"),
        ("explain - --against -", b"{}".to_vec(), "given twice"),
    ] {
        let output = given(folder.path(), arguments, &text);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(words), "{arguments}: {told}");
    }
}
