//! Checksums of what is kept. SQLite has none: bytes that a disk changes inside a text or a number go unnoticed there.

use crate::entry::{Document, Entry};
use xxhash_rust::xxh3::xxh3_64;

/// Returns the checksum of what of an entry never changes: all but its note and its tags, with the names of its
/// documents.
pub(crate) fn of_entry(entry: &Entry) -> i64 {
    let mut text = format!("{}\0{}\0{}\0{}\0", entry.id, entry.kind.name(), entry.at.unix_seconds(), entry.program);
    for words in [&entry.arguments, &entry.documents] {
        text += &serde_json::to_string(words).expect("words are JSON");
    }
    for word in [&entry.model, &entry.machines] {
        text.push('\0');
        text += word.as_deref().unwrap_or("\0");
    }
    let figures = &entry.figures;
    for figure in [figures.step_time_s, figures.predicted_step_time_s, figures.time_s, figures.cost_usd, figures.loss] {
        text.push('\0');
        // SQLite knows one zero.
        text += &figure.map_or_else(String::new, |figure| (figure + 0.0).to_bits().to_string());
    }
    xxh3_64(text.as_bytes()).cast_signed()
}

/// Returns the checksum of a document.
pub(crate) fn of_document(document: &Document) -> i64 {
    xxh3_64(format!("{}\0{}", document.name, document.text).as_bytes()).cast_signed()
}
