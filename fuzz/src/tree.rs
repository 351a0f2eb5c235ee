//! Changes to JSON and TOML: values replaced, removed, repeated, and moved to other places.

use crate::{Dice, EDGES, mutate};
use serde_json::{Map, Value};

/// Words that mean something in many places.
const WORDS: [&str; 24] = [
    "",
    "0 s",
    "1 ns",
    "1e-300 s",
    "3 d",
    "1e9 d",
    "1e300 s",
    "0 B",
    "1 B",
    "9e15 B",
    "25 GB/s",
    "1e-300 GB/s",
    "1e300 GB/s",
    "1e300 TFLOP/s",
    "0 FLOP/s",
    "1e300 USD",
    "0 USD",
    "1e300 USD/h",
    "auto",
    "none",
    "full",
    "*",
    "\u{0}",
    "ä€😀",
];

/// Changes a JSON text.
pub fn mutate_json(data: &mut [u8], size: usize, max: usize, seed: u32) -> usize {
    mutate(data, size, max, seed, |text, dice| {
        let mut value: Value = serde_json::from_slice(text).ok()?;
        change(&mut value, dice);
        serde_json::to_vec(&value).ok()
    })
}

/// Changes a TOML text.
pub fn mutate_toml(data: &mut [u8], size: usize, max: usize, seed: u32) -> usize {
    mutate(data, size, max, seed, |text, dice| {
        let table: toml::Table = toml::from_str(std::str::from_utf8(text).ok()?).ok()?;
        let mut value = serde_json::to_value(table).ok()?;
        change(&mut value, dice);
        toml::to_string(&value).ok().map(String::into_bytes)
    })
}

/// Changes a text that is one or the other.
pub fn mutate_any(data: &mut [u8], size: usize, max: usize, seed: u32) -> usize {
    let json = data[..size].trim_ascii_start().first() == Some(&b'{');
    let change = if json { mutate_json } else { mutate_toml };
    change(data, size, max, seed)
}

/// Changes the JSON text behind the first line.
pub fn mutate_request(data: &mut [u8], size: usize, max: usize, seed: u32) -> usize {
    mutate(data, size, max, seed, |text, dice| {
        let line = text.iter().position(|byte| *byte == b'\n')? + 1;
        let mut value: Value = serde_json::from_slice(&text[line..]).ok()?;
        change(&mut value, dice);
        Some([&text[..line], &serde_json::to_vec(&value).ok()?].concat())
    })
}

fn change(value: &mut Value, dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let count = nodes(value);
        let other = at(value, &mut dice.below(count)).map(|other| other.clone());
        let mut place = dice.below(count);
        if let Some(node) = at(value, &mut place) {
            edit(node, other, dice);
        }
    }
}

fn nodes(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nodes).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(nodes).sum::<usize>(),
        _ => 1,
    }
}

/// The node of this number; those before it are counted off.
fn at<'a>(value: &'a mut Value, number: &mut usize) -> Option<&'a mut Value> {
    if *number == 0 {
        return Some(value);
    }
    *number -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| at(item, number)),
        Value::Object(fields) => fields.values_mut().find_map(|field| at(field, number)),
        _ => None,
    }
}

fn edit(node: &mut Value, other: Option<Value>, dice: &mut Dice) {
    match (node, dice.below(8)) {
        (node, 0) => *node = other.unwrap_or_default(),
        (Value::Object(fields), 1..6) => edit_fields(fields, dice),
        (Value::Array(items), 1..3) if !items.is_empty() => {
            let item = items[dice.below(items.len())].clone();
            items.extend(std::iter::repeat_n(item, dice.pick(&[1, 2, 7])));
        }
        (Value::Array(items), 3..6) if !items.is_empty() => {
            items.remove(dice.below(items.len()));
        }
        (Value::Bool(truth), _) => *truth = !*truth,
        (Value::Number(number), 1..4) => {
            // Near what it is: what has to divide something else often still does.
            let scaled = number.as_u64().map(|whole| {
                dice.pick(&[
                    whole / 2,
                    whole.saturating_mul(2),
                    whole.saturating_add(1),
                    whole.saturating_sub(1),
                    whole.saturating_mul(1 << 20),
                ])
            });
            *number = scaled.map_or_else(|| number.clone(), Into::into);
        }
        (Value::String(text), 1) => *text = dice.pick(&WORDS).into(),
        (Value::String(text), 2) => text.truncate(text.floor_char_boundary(dice.below(text.len() + 1))),
        (Value::String(text), 3..7) => *text = with_number(text, dice),
        (node, _) => *node = serde_json::from_str(dice.pick(&EDGES)).unwrap_or_default(),
    }
}

fn edit_fields(fields: &mut Map<String, Value>, dice: &mut Dice) {
    let keys: Vec<String> = fields.keys().cloned().collect();
    if keys.is_empty() {
        return;
    }
    let key = &keys[dice.below(keys.len())];
    let other = &keys[dice.below(keys.len())];
    match dice.below(3) {
        0 => {
            fields.remove(key);
        }
        1 => {
            let value = fields[other].clone();
            fields.insert(key.clone(), value);
        }
        _ => fields[key] = serde_json::from_str(dice.pick(&EDGES)).unwrap_or_default(),
    }
}

/// The text with another number before its unit.
fn with_number(text: &str, dice: &mut Dice) -> String {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || ".-+_".contains(c));
    format!("{}{unit}", dice.pick(&EDGES))
}
