//! Where in a text something stands, told by the keys that lead there.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Returns the keys that lead to what stands at a byte of a TOML text, with dots between: `job.model.layers`, whatever
/// comments stand beside headings. `None` where no key and no value stands.
///
/// ```
/// let text = "[goal] # in a week, see https://x.y/z\ndeadline = 7\n";
/// let at = text.find('7').unwrap();
/// assert_eq!(trainyard_documents::toml_place(text, at).as_deref(), Some("goal.deadline"));
/// ```
pub fn toml_place(text: &str, at: usize) -> Option<String> {
    let (table, broken) = DeTable::parse_recoverable(text);
    let mut path = Vec::new();
    if leads(table.get_ref(), at, &mut path) {
        return Some(path.join("."));
    }
    // What cannot be parsed is in no table: the line tells its key, and the last heading above it the table.
    if broken.is_empty() { None } else { of_line(text, at) }
}

/// Follows the keys of a table to a byte; `path` is then where they lead.
fn leads(table: &DeTable<'_>, at: usize, path: &mut Vec<String>) -> bool {
    table.iter().any(|(key, value)| {
        path.push(key.get_ref().to_string());
        let found = is_inside(value, at, path) || key.span().contains(&at);
        if !found {
            path.pop();
        }
        found
    })
}

fn is_inside(value: &Spanned<DeValue<'_>>, at: usize, path: &mut Vec<String>) -> bool {
    let deeper = match value.get_ref() {
        DeValue::Table(table) => leads(table, at, path),
        DeValue::Array(values) => values.iter().any(|value| is_inside(value, at, path)),
        _ => false,
    };
    deeper || value.span().contains(&at)
}

fn of_line(text: &str, at: usize) -> Option<String> {
    let start = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let own = text[start..].lines().next()?;
    let key = own.split_once('=').map(|(key, _)| key.trim()).filter(|key| !key.is_empty())?;
    let heading = text[..start].lines().rfind(|line| line.trim_start().starts_with('['));
    let mut path = heading.map_or_else(Vec::new, named);
    path.push(key.into());
    Some(path.join("."))
}

/// Returns the keys of a heading: `[job.model] # which` has `job` and `model`.
fn named(heading: &str) -> Vec<String> {
    let (table, _) = DeTable::parse_recoverable(heading);
    let mut keys = Vec::new();
    let mut inner = Some(table.get_ref());
    while let Some((key, value)) = inner.and_then(|table| table.iter().next()) {
        keys.push(key.get_ref().to_string());
        inner = match value.get_ref() {
            DeValue::Table(table) => Some(table),
            DeValue::Array(values) => values.first().and_then(|value| value.get_ref().as_table()),
            _ => None,
        };
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str, word: &str) -> Option<String> {
        toml_place(text, text.find(word).expect("it stands there"))
    }

    #[test]
    fn comments_and_brackets_beside_headings_are_no_keys() {
        let text = "top = 0\n[goal] # a [week], x = y, https://x.y/z\ndeadline = 71\n\
                    [[job]]   # or file = [...]\npriority = 1.5 # = 2\n[ job . \"model\" ] # [model]\nlayers = 72\n\
                    list = [\n  [73],\n  { deep = 74 },\n]\ntext = '''\n[none]\nno = 75'''\n";
        for (word, path) in [
            ("0\n", Some("top")),
            ("71", Some("goal.deadline")),
            ("1.5", Some("job.priority")),
            ("priority", Some("job.priority")),
            ("72", Some("job.model.layers")),
            ("73", Some("job.model.list")),
            ("74", Some("job.model.list.deep")),
            ("75", Some("job.model.text")),
            ("# = 2", None),
        ] {
            assert_eq!(place(text, word).as_deref(), path, "{word}");
        }
    }

    #[test]
    fn the_line_tells_what_cannot_be_parsed() {
        let twice = "[model] # = []\nname = \"a\"\nname = \"b\"\n";
        assert_eq!(place(twice, "name = \"b\"").as_deref(), Some("model.name"));
        assert_eq!(place("[[job]] # ]\nname = ]\n", "= ]").as_deref(), Some("job.name"));
        assert_eq!(toml_place("a = 1", 99), None);
        assert_eq!(toml_place("", 0), None);
    }
}
