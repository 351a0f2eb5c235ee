//! YAML from JSON values.
//!
//! # Source
//!
//! YAML 1.2, sections 7.3.1 (double-quoted scalars, of which JSON's strings are a part), 8.1.2 (literal scalars) and 8.2
//! (block collections).

use serde_json::Value;

/// Formats a value as a YAML document. Text of several lines becomes a literal block; other text is quoted unless it is
/// plainly a word.
pub(super) fn yaml(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

fn block(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                *text += &format!("{}{}:", " ".repeat(indent), scalar(&Value::String(key.clone())));
                nested(value, indent + 2, text);
            }
        }
        Value::Array(items) => {
            for item in items {
                *text += &format!("{}-", " ".repeat(indent));
                if matches!(item, Value::Object(fields) if !fields.is_empty()) {
                    // The first key stands beside the hyphen.
                    let mut inner = String::new();
                    block(item, indent + 2, &mut inner);
                    *text += &format!(" {}", inner.trim_start());
                } else {
                    nested(item, indent + 2, text);
                }
            }
        }
        scalar_value => *text += &format!("{}\n", scalar(scalar_value)),
    }
}

fn nested(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(fields) if fields.is_empty() => *text += " {}\n",
        Value::Array(items) if items.is_empty() => *text += " []\n",
        Value::Object(_) | Value::Array(_) => {
            text.push('\n');
            block(value, indent, text);
        }
        Value::String(lines) if is_literal(lines) => {
            *text += " |\n";
            for line in lines.lines() {
                let indented = if line.is_empty() { String::new() } else { format!("{}{line}", " ".repeat(indent)) };
                *text += &format!("{indented}\n");
            }
        }
        value => *text += &format!(" {}\n", scalar(value)),
    }
}

/// Returns `true` if text can be a literal block: several lines, the first not indented, the last ended once, nothing
/// that YAML takes for a line break of its own.
fn is_literal(text: &str) -> bool {
    let plain = |c: char| c == '\n' || !leaves_the_line(c);
    text.ends_with('\n') && !text.ends_with("\n\n") && !text.starts_with([' ', '\n']) && text.chars().all(plain)
}

/// Returns `true` if a character may end a line, or be left out, for some program that reads it: the control characters,
/// what older versions of YAML take for line breaks besides, and the byte-order mark.
///
/// # Source
///
/// YAML 1.1, sections 5.1 and 5.4.
pub(super) fn leaves_the_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_word(text) => text.clone(),
        value => escaped(&value.to_string()),
    }
}

/// Writes what leaves the line, and JSON's strings may hold as it is, as numbers.
fn escaped(json: &str) -> String {
    let escape = |c: char| if leaves_the_line(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    json.chars().map(escape).collect()
}

/// Returns `true` if text needs no quotes in any version of YAML: it is no number, no truth value, and has no syntax
/// characters.
fn is_word(text: &str) -> bool {
    let reserved = ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"];
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
        && !reserved.contains(&text.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn collections_are_blocks_and_text_is_quoted_where_it_must_be() {
        let value = json!({
            "name": "plain-word", "number": "8", "truth": "no", "count": 8, "empty": {}, "none": [],
            "list": [{ "a": 1, "b": [true, null] }, "x: y"],
            "script": "set -e\n\necho hi\n",
            "deep": { "node.kubernetes.io/instance-type": "p4d.24xlarge" },
        });
        let expected = "\
name: plain-word
number: \"8\"
truth: \"no\"
count: 8
empty: {}
none: []
list:
  - a: 1
    b:
      - true
      - null
  - \"x: y\"
script: |
  set -e

  echo hi
deep:
  node.kubernetes.io/instance-type: p4d.24xlarge
";
        assert_eq!(yaml(&value), expected);
    }

    #[test]
    fn text_that_a_literal_would_change_is_quoted() {
        for text in ["no end", " indented\n", "two ends\n\n", "tab\tinside\n", "return\r\n"] {
            assert_eq!(yaml(&json!({ "t": text })), format!("t: {}\n", Value::from(text)));
        }
    }

    #[test]
    fn what_ends_a_line_for_older_parsers_is_written_as_a_number() {
        let written = yaml(&json!({ "t": "a\u{2028}b\u{85}c\u{feff}\n" }));
        assert_eq!(written, "t: \"a\\u2028b\\u0085c\\ufeff\\n\"\n");
    }
}
