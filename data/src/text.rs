//! Text as a stream of tokens: bytes, or what a tokenizer makes of it.

use crate::error::DataError;
use crate::files;
use crate::tokenizer::Tokenizer;
use rayon::prelude::*;
use serde_json::Value;
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// Entries of the byte vocabulary.
pub(crate) const BYTE_VOCABULARY: u64 = 256;

/// The byte that separates two files read as bytes: a zero, which text files do not hold.
const SEPARATOR: u8 = 0;

/// Tokens, one file's after another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// One token for each byte.
    Bytes(Vec<u8>),
    /// Ids of a tokenizer.
    Ids(Vec<u32>),
}

impl Stream {
    /// Returns the number of tokens.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Ids(ids) => ids.len(),
        }
    }

    /// Returns `count` tokens from `first`.
    pub(crate) fn tokens(&self, first: usize, count: usize) -> Vec<i32> {
        match self {
            Self::Bytes(bytes) => bytes[first..first + count].iter().map(|byte| i32::from(*byte)).collect(),
            // Ids are below the model's vocabulary, which is below 2^31.
            Self::Ids(ids) => ids[first..first + count].iter().map(|id| *id as i32).collect(),
        }
    }

    /// Returns a token.
    pub(crate) fn at(&self, index: usize) -> u32 {
        match self {
            Self::Bytes(bytes) => bytes[index].into(),
            Self::Ids(ids) => ids[index],
        }
    }

    /// Returns the name of its tokens in messages.
    pub(crate) fn unit(&self) -> &'static str {
        match self {
            Self::Bytes(_) => "bytes",
            Self::Ids(_) => "tokens",
        }
    }
}

/// A text that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    /// Its tokens.
    pub stream: Stream,
    /// Text files read.
    pub files: usize,
    /// Files that are not text.
    pub skipped: usize,
    /// Bytes of text, separators included.
    pub bytes: u64,
    /// Of the text and the tokenizer: XXH3, 64 bits, hexadecimal.
    pub checksum: String,
}

impl Text {
    /// Reads a file, or all text files of a folder and its sub-folders in the order of their paths. Hidden files and
    /// folders, `target`, `runs`, links and files that are not UTF-8 are left out of a folder. All of it is held in
    /// memory. A tokenizer reads each file as a whole; its end-of-text token, if it has one, stands between two. Of JSON
    /// Lines the field `text` of each line is a text of its own.
    pub(crate) fn read(path: &Path, tokenizer: Option<&Tokenizer>) -> Result<Self, DataError> {
        let (mut texts, mut skipped, mut read) = (Vec::new(), 0, 1);
        if files::is_folder(path)? {
            read = 0;
            for file in files::all(path)? {
                let Some(text) = text(files::bytes(&file)?) else {
                    skipped += 1;
                    continue;
                };
                read += 1;
                texts.extend(texts_of(&file, text)?);
            }
            if texts.is_empty() {
                return Err(DataError::NoText { path: path.to_owned(), skipped });
            }
        } else {
            if TABLES.contains(&files::ending(path).as_str()) {
                return Err(DataError::Table { path: path.to_owned() });
            }
            let text = text(files::bytes(path)?).ok_or_else(|| DataError::NotText { path: path.to_owned() })?;
            texts = texts_of(path, text)?;
        }
        let mut checksum = Xxh3::new();
        let mut bytes = texts.len() as u64 - 1;
        for (number, text) in texts.iter().enumerate() {
            checksum.update(if number > 0 { &[SEPARATOR] } else { &[] });
            checksum.update(text.as_bytes());
            bytes += text.len() as u64;
        }
        let stream = match tokenizer {
            None => Stream::Bytes(texts.join("\0").into_bytes()),
            Some(tokenizer) => {
                checksum.update(&tokenizer.content);
                Stream::Ids(encode(&texts, tokenizer)?)
            }
        };
        Ok(Self { stream, files: read, skipped, bytes, checksum: format!("{:016x}", checksum.digest()) })
    }
}

/// Endings of tables and records whose texts nobody named: trained on as they are, a model would learn their syntax.
const TABLES: [&str; 3] = ["csv", "tsv", "json"];

/// Endings of JSON Lines.
const LINES: [&str; 2] = ["jsonl", "ndjson"];

/// Returns the texts of a file: the field `text` of each line of JSON Lines, and otherwise all of it.
fn texts_of(path: &Path, text: String) -> Result<Vec<String>, DataError> {
    if !LINES.contains(&files::ending(path).as_str()) {
        return Ok(vec![text]);
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let field = |(number, line): (usize, &str)| {
        let wrong = |problem| DataError::Line { path: path.to_owned(), line: number + 1, problem };
        let record: serde_json::Map<String, Value> =
            serde_json::from_str(line).map_err(|error| wrong(format!("it is no JSON object: {error}")))?;
        match record.get("text") {
            Some(Value::String(text)) if text.contains(char::from(SEPARATOR)) => {
                Err(wrong("its `text` holds a NUL, which stands between two texts".into()))
            }
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(wrong("its `text` is no string".into())),
            None => {
                let fields: Vec<&str> = record.keys().map(String::as_str).collect();
                Err(wrong(format!("it has no `text`, but {}", fields.join(", "))))
            }
        }
    };
    let texts: Vec<String> = lines.map(field).collect::<Result<_, _>>()?;
    if texts.is_empty() { Err(DataError::NoText { path: path.to_owned(), skipped: 0 }) } else { Ok(texts) }
}

/// Returns the text of a file, if it is one.
fn text(bytes: Vec<u8>) -> Option<String> {
    if bytes.contains(&SEPARATOR) { None } else { String::from_utf8(bytes).ok() }
}

fn encode(texts: &[String], tokenizer: &Tokenizer) -> Result<Vec<u32>, DataError> {
    let encoded: Vec<Vec<u32>> = texts.par_iter().map(|text| tokenizer.encode(text)).collect::<Result<_, _>>()?;
    let mut ids = Vec::with_capacity(encoded.iter().map(|ids| ids.len() + 1).sum());
    for (number, text) in encoded.into_iter().enumerate() {
        ids.extend(if number > 0 { tokenizer.end() } else { None });
        ids.extend(text);
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::of_words;
    use std::fs;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let put = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("inside the folder")).expect("a folder");
            fs::write(path, bytes).expect("a file");
        };
        put("text/b.txt", b"second");
        put("text/a/x.md", b"first");
        put("text/picture.png", &[0x89, 0x50, 0xff]);
        put("text/.git/config", b"hidden");
        put("text/target/out.txt", b"built");
        put("text/runs/loss.txt", b"ran");
        put("tokenizer.json", of_words(&["<unk>", "first", "second", "</s>"]).as_bytes());
        folder
    }

    #[test]
    fn a_folder_is_read_in_order_without_what_is_not_text() {
        let folder = folder();
        let text = Text::read(&folder.path().join("text"), None).expect("two text files");
        assert_eq!(text.stream, Stream::Bytes(b"first\0second".into()));
        assert_eq!((text.files, text.skipped, text.bytes), (2, 1, 12));
        assert_eq!(text.checksum, format!("{:016x}", xxhash_rust::xxh3::xxh3_64(b"first\0second")));
    }

    #[test]
    fn each_line_of_json_lines_is_a_text_and_tables_are_not_taken_for_one() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let read = |name: &str, content: &str| {
            let path = folder.path().join(name);
            fs::write(&path, content).expect("a file");
            Text::read(&path, None)
        };
        let text = read("a.jsonl", "{\"text\": \"one\", \"id\": 1}\n\n{\"text\": \"two\"}\n").expect("two texts");
        assert_eq!((text.stream, text.files), (Stream::Bytes(b"one\0two".into()), 1));
        let refused = |name, content| read(name, content).expect_err("no texts").to_string();
        assert!(
            refused("b.jsonl", "{\"text\": \"one\"}\n{\"body\": \"two\"}")
                .ends_with("line 2: it has no `text`, but body")
        );
        assert!(refused("c.jsonl", "plain").contains("line 1: it is no JSON object"));
        assert!(refused("d.jsonl", "\n").contains("no text files"));
        assert!(refused("e.csv", "text\none").contains("is a table"));
    }

    #[test]
    fn a_tokenizer_reads_files_one_by_one_and_changes_the_checksum() {
        let folder = folder();
        let path = folder.path().join("text");
        let tokenizer = Tokenizer::read(&folder.path().join("tokenizer.json"), 4).expect("four words");
        let text = Text::read(&path, Some(&tokenizer)).expect("two text files");
        assert_eq!(text.stream, Stream::Ids(vec![1, 3, 2]));
        assert_ne!(text.checksum, Text::read(&path, None).expect("two text files").checksum);
    }

    #[test]
    fn wrong_paths_are_named() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert!(matches!(Text::read(folder.path(), None), Err(DataError::NoText { skipped: 0, .. })));
        let missing = folder.path().join("missing.txt");
        let error = Text::read(&missing, None).expect_err("no such file").to_string();
        assert!(error.contains("missing.txt"), "{error}");
        let binary = folder.path().join("binary");
        fs::write(&binary, [0xff, 0xfe]).expect("a file");
        assert!(matches!(Text::read(&binary, None), Err(DataError::NotText { .. })));
    }
}
