//! Commands and what they print, word by word: whole pages, one of each kind, the README, and the guide. After a change
//! that is meant, `TRYCMD=overwrite cargo test --release -p trainyard-cli --test transcripts` writes the files anew; read
//! the difference like code.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Held by the test that is in its working folder: a process has one.
static HERE: Mutex<()> = Mutex::new(());

/// Runs transcripts, with paths seen from `folder`.
fn run(folder: &Path, cases: &[&Path]) {
    let _here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
    std::env::set_current_dir(folder).expect("the folder can be entered");
    let tests = trycmd::TestCases::new();
    tests
        .register_bin("trainyard", Path::new(env!("CARGO_BIN_EXE_trainyard")))
        .env("NO_COLOR", "1")
        .env("TRAINYARD_PROFILE", "no-profile-yet.toml")
        // Transcripts that keep something name a history; its times are those of this second.
        .env("TRAINYARD_HISTORY", "off")
        .env("SOURCE_DATE_EPOCH", "1790000000");
    for case in cases {
        tests.case(case);
    }
    tests.run();
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above this crate")
}

#[test]
fn commands_print_what_the_transcripts_say() {
    run(&root().join("cli"), &[Path::new("tests/cmd/*.md")]);
}

#[test]
fn the_readme_shows_what_commands_print() {
    run(root(), &["README.md", "docs/export.md", "docs/whole-training.md", "docs/fleets.md"].map(Path::new));
}

/// Each page, and the one about what-if, which writes a file too, runs in a folder of its own, with `examples/` and the
/// files that the page shows under their names.
#[test]
fn the_guide_shows_what_commands_print() {
    let mut tested = 0;
    let mut pages = inside(&root().join("docs/guide"));
    pages.push(root().join("docs/what-if.md"));
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        if !text.contains("```console") {
            continue;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("examples")).expect("room");
        for example in inside(&root().join("examples")) {
            let name = example.file_name().expect("a file");
            fs::copy(&example, folder.path().join("examples").join(name)).expect("room");
        }
        for (name, content) in shown_files(&text) {
            fs::write(folder.path().join(name), content).expect("room");
        }
        run(folder.path(), &[&page]);
        tested += 1;
    }
    assert!(tested > 3, "{tested} pages have commands");
}

/// The files in a folder, by name.
fn inside(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of the repository");
    let mut paths: Vec<_> =
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()).collect();
    paths.sort();
    paths
}

/// Names and contents of the files of a page: a line that is a name in backquotes and a colon, and the block after it.
fn shown_files(page: &str) -> Vec<(&str, String)> {
    let mut files = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix('`').and_then(|rest| rest.strip_suffix("`:")) else { continue };
        let block = lines.by_ref().skip_while(|line| !line.starts_with("```")).skip(1);
        files.push((name, block.take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect()));
    }
    files
}

#[test]
fn a_page_names_its_files() {
    let page = "Save this:\n\n`a.toml`:\n\n```toml\nb = 1\n\nc = 2\n```\n\n`d` is a word.\n\n```console\n$ e\n```\n";
    assert_eq!(shown_files(page), [("a.toml", "b = 1\n\nc = 2\n".to_owned())]);
}
