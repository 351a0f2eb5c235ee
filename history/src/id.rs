//! Names of entries: short, easy to read out and to type.

use crate::entry::NewEntry;
use xxhash_rust::xxh3::xxh3_64;

/// The digits and letters of ids, without those that look alike.
///
/// # Source
///
/// Crockford, "Base 32", in lower case.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Number of letters of an id: a thousand million ids, so that a few thousand entries rarely collide.
const LENGTH: usize = 6;

/// Returns the id that an entry gets if it is free; after `refusals` ids that were not, another one. It is computed
/// from the command and its time.
pub(crate) fn candidate(entry: &NewEntry, refusals: u64) -> String {
    let mut text = format!("{}\0{}\0{refusals}", entry.at.unix_seconds(), entry.kind.name());
    for argument in &entry.arguments {
        text.push('\0');
        text.push_str(argument);
    }
    short_name(&text)
}

/// Returns six digits and letters, without those that look alike, that follow from a text.
pub fn short_name(text: &str) -> String {
    let mut bits = xxh3_64(text.as_bytes());
    let mut name = String::new();
    for _ in 0..LENGTH {
        name.push(char::from(ALPHABET[(bits % 32) as usize]));
        bits /= 32;
    }
    name
}

/// Normalizes the start of an id as it was typed; `None` if no id can start so.
pub(crate) fn typed(text: &str) -> Option<String> {
    let letter = |letter: char| {
        let letter = match letter.to_ascii_lowercase() {
            'o' => '0',
            'i' | 'l' => '1',
            other => other,
        };
        u8::try_from(letter).ok().filter(|byte| ALPHABET.contains(byte)).map(char::from)
    };
    let id: String = text.chars().map(letter).collect::<Option<_>>()?;
    (1..=LENGTH).contains(&id.len()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Figures, Kind};
    use crate::time::UtcTime;

    fn entry(arguments: &[&str]) -> NewEntry {
        NewEntry {
            kind: Kind::Plan,
            at: UtcTime::of_unix_seconds(1),
            program: String::new(),
            arguments: arguments.iter().map(|word| (*word).into()).collect(),
            model: None,
            machines: None,
            figures: Figures::default(),
            documents: Vec::new(),
        }
    }

    #[test]
    fn an_id_follows_from_the_command_and_can_be_typed() {
        let id = candidate(&entry(&["plan", "a"]), 0);
        assert_eq!(candidate(&entry(&["plan", "a"]), 0), id);
        for other in [candidate(&entry(&["plan", "a"]), 1), candidate(&entry(&["plana"]), 0)] {
            assert_ne!(other, id);
        }
        assert_eq!(typed(&id), Some(id));
    }

    #[test]
    fn letters_that_look_alike_are_one() {
        assert_eq!(typed("OIl").as_deref(), Some("011"));
        assert_eq!(typed("ABC").as_deref(), Some("abc"));
        for none in ["", "u", "../x", "ä", "1234567", "%", "a b"] {
            assert_eq!(typed(none), None, "{none}");
        }
    }
}
