//! Constants as text: every number on a line of its own, with its source beside it, as the catalog's files have it.

use super::{CONSTANTS_SCHEMA, Constants};
use serde::Serialize;
use std::fmt::Write;
use toml::{Table, Value};

/// Returns the text of a constants file.
pub(super) fn document(constants: &Constants) -> String {
    let mut text = format!("schema = {}\n", Value::from(CONSTANTS_SCHEMA));
    if let Some(description) = &constants.description {
        line(&mut text, "description", &Value::from(description.as_str()));
    }
    entries(&mut text, "gpus", &constants.gpus);
    entries(&mut text, "links", &constants.links);
    entries(&mut text, "stacks", &constants.stacks);
    entries(&mut text, "fabrics", &constants.fabrics);
    text
}

fn entries<T: Serialize>(text: &mut String, list: &str, entries: &[T]) {
    for entry in entries {
        let table = Table::try_from(entry).expect("what was read from TOML can be written as TOML");
        text.push('\n');
        writeln!(text, "[[{list}]]").expect("text can be written to");
        // The name first, then numbers, then tables of numbers, which must come last.
        let (parts, numbers): (Vec<_>, Vec<_>) = table.iter().partition(|(_, value)| is_part(value));
        let (names, others): (Vec<_>, Vec<_>) = numbers.into_iter().partition(|(key, _)| is_heading(key));
        for (key, value) in names.into_iter().rev().chain(others) {
            line(text, key, value);
        }
        for (key, value) in parts {
            text.push('\n');
            writeln!(text, "[{list}.{key}]").expect("text can be written to");
            for (key, value) in value.as_table().into_iter().flatten() {
                line(text, key, value);
            }
        }
    }
}

/// Returns `true` if a value is a table of numbers rather than one number with its source.
fn is_part(value: &Value) -> bool {
    value.as_table().is_some_and(|table| !table.contains_key("value"))
}

fn is_heading(key: &str) -> bool {
    key == "name" || key == "description"
}

fn line(text: &mut String, key: &str, value: &Value) {
    writeln!(text, "{key} = {}", inline(value)).expect("text can be written to");
}

/// Writes a value on one line; of a number with its source, the number comes first, as in the catalog.
fn inline(value: &Value) -> String {
    const ORDER: [&str; 7] = ["value", "source", "fitted", "on", "rows", "date", "deviation"];
    let Some(table) = value.as_table().filter(|table| ORDER.iter().any(|key| table.contains_key(*key))) else {
        return value.to_string();
    };
    let place = |key: &str| ORDER.iter().position(|own| *own == key).unwrap_or(ORDER.len());
    let mut entries: Vec<(&String, &Value)> = table.iter().collect();
    entries.sort_by_key(|(key, _)| place(key));
    let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key} = {}", inline(value))).collect();
    format!("{{ {} }}", entries.join(", "))
}
