//! Tables of commands: what each must end with, and the words that it must say.

use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// What stands for arguments that many commands share.
const SHARED: [(&str, &str); 3] = [
    ("BUCKETS", "--role arn:aws:iam::111122223333:role/training --data s3://bucket/data --results s3://bucket/results"),
    ("SMALL", "--model gpt2 --samples 640 --global-batch 8"),
    ("ONNX", "--samples 1000000 --global-batch 256 --epochs 1"),
];

/// Commands that run in a folder with the files of a transcript.
pub(crate) struct Commands {
    /// Of the transcript.
    pub(crate) name: String,
    pub(crate) folder: TempDir,
    pub(crate) rows: Vec<Row>,
}

pub(crate) struct Row {
    pub(crate) arguments: String,
    /// With which the command ends.
    pub(crate) code: i32,
    words: Vec<&'static str>,
}

impl Commands {
    /// Reads a table: `[name]` before the commands of a folder, and lines such as `plan a.toml =3> word | two words`,
    /// which go on in indented ones. `=>` is `=2>`. A word behind `?` must stand in the hint.
    pub(crate) fn read(table: &'static str) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for line in table.lines().filter(|line| !line.is_empty()) {
            if let Some(name) = line.strip_prefix('[') {
                let name = name.trim_end_matches(']').to_owned();
                all.push(Self { folder: workplace(&name), name, rows: Vec::new() });
                continue;
            }
            let rows = &mut all.last_mut().expect("a table begins with a folder").rows;
            if let Some(more) = line.strip_prefix("    | ") {
                rows.last_mut().expect("it goes on from a row").words.extend(more.split(" | "));
            } else {
                rows.push(Row::read(line));
            }
        }
        all
    }
}

impl Row {
    fn read(line: &'static str) -> Self {
        let (head, words) = line.split_once('>').expect("a command and words");
        let (arguments, code) = head.rsplit_once(" =").expect("a command and its exit code");
        let arguments = SHARED.iter().fold(arguments.to_owned(), |text, (short, long)| text.replace(short, long));
        let code = if code.is_empty() { 2 } else { code.parse().expect("an exit code") };
        Self { arguments, code, words: words.trim().split(" | ").filter(|word| !word.is_empty()).collect() }
    }

    /// The words that a text does not say, wherever its lines end.
    pub(crate) fn missing(&self, said: &str) -> Vec<&'static str> {
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let hint = said.split_once("hint: ").or_else(|| said.split_once("tip: ")).map_or("", |(_, hint)| hint);
        let tells = |word: &&&str| !word.strip_prefix("? ").map_or_else(|| says(&said, word), |word| says(hint, word));
        self.words.iter().filter(tells).copied().collect()
    }
}

/// Returns `true` if the text has this word, and not only as a part of another.
fn says(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let joins = |outside: Option<char>, inside: Option<char>| {
            outside.is_some_and(char::is_alphanumeric) && inside.is_some_and(char::is_alphanumeric)
        };
        let behind = text[at + word.len()..].chars().next();
        !joins(text[..at].chars().next_back(), word.chars().next()) && !joins(behind, word.chars().next_back())
    })
}

/// A folder with the files of a transcript.
pub(crate) fn workplace(name: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd").join(format!("{name}.in"));
    if files.exists() {
        copy(&files, folder.path());
    }
    folder
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("readable").path();
        let copied = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            fs::create_dir(&copied).expect("room");
            copy(&path, &copied);
        } else {
            fs::copy(&path, &copied).expect("room");
        }
    }
}

/// The program with arguments as a shell takes them, where one has read nothing but quotes.
pub(crate) fn program(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    for (number, part) in arguments.split(['\'', '"']).enumerate() {
        if number % 2 == 1 {
            command.arg(part);
        } else {
            command.args(part.split_whitespace());
        }
    }
    command.current_dir(folder).env("NO_COLOR", "1").env("TRAINYARD_HISTORY", "off");
    command.env("TRAINYARD_PROFILE", "no-profile-yet.toml").env("SOURCE_DATE_EPOCH", "1790000000");
    command.env_remove("TRAINYARD_TOKEN");
    command
}

#[test]
fn words_are_found_where_they_stand_by_themselves() {
    let row = Row::read("plan a.toml =3> a.b | 5 | ? c");
    assert_eq!((row.arguments.as_str(), row.code), ("plan a.toml", 3));
    assert_eq!(row.missing("`a.b` is 5\n\nhint: c"), Vec::<&str>::new());
    assert_eq!(row.missing("`a.bc` is 15 c\n\nhint: d"), ["a.b", "5", "? c"]);
}
