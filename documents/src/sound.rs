//! JSON and TOML in which every key stands once and every number is one.

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt;

/// The largest number of values of a document: a value takes up to 72 bytes as it is parsed, and grows by doubling.
pub const VALUES_MAX: usize = 2_000_000;

/// Parses a JSON text.
///
/// # Errors
///
/// Fails when the text is no JSON or not that of a `T`; and when a key stands twice in an object, whether or not `T`
/// has a field for it, or there are more than [`VALUES_MAX`] values.
pub fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    check_json(&mut serde_json::Deserializer::from_str(text))?;
    serde_json::from_str(text)
}

/// Parses a JSON text that is still bytes.
///
/// # Errors
///
/// As [`from_json`], and when the bytes are no UTF-8.
pub fn from_json_bytes<T: DeserializeOwned>(text: &[u8]) -> Result<T, serde_json::Error> {
    check_json(&mut serde_json::Deserializer::from_slice(text))?;
    serde_json::from_slice(text)
}

/// Parses a TOML text.
///
/// # Errors
///
/// Fails when the text is no TOML or not that of a `T`; and when a number is `nan` or `inf`, or there are more than
/// [`VALUES_MAX`] values.
pub fn from_toml<T: DeserializeOwned>(text: &str) -> Result<T, toml::de::Error> {
    let mut values = 0;
    Sound { values: &mut values }.deserialize(toml::Deserializer::parse(text)?)?;
    toml::from_str(text)
}

fn check_json<'de, R: serde_json::de::Read<'de>>(
    document: &mut serde_json::Deserializer<R>,
) -> Result<(), serde_json::Error> {
    let mut values = 0;
    Sound { values: &mut values }.deserialize(document)
}

/// Goes through a document and keeps nothing of it but the keys of the objects that it is in.
struct Sound<'a> {
    values: &'a mut usize,
}

impl Sound<'_> {
    fn inner(&mut self) -> Sound<'_> {
        Sound { values: self.values }
    }
}

impl<'de> DeserializeSeed<'de> for Sound<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, document: D) -> Result<(), D::Error> {
        *self.values += 1;
        if *self.values > VALUES_MAX {
            return Err(D::Error::custom(format!("there are more than {VALUES_MAX} values")));
        }
        document.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Sound<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        if value.is_finite() {
            return Ok(());
        }
        let written = if value.is_nan() { "nan" } else { "inf" };
        Err(E::custom(format!("`{written}` is no finite number")))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut keys = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if keys.contains(&key) {
                return Err(A::Error::custom(format!("duplicate field `{key}`")));
            }
            keys.insert(key);
            map.next_value_seed(self.inner())?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut sequence: A) -> Result<(), A::Error> {
        while sequence.next_element_seed(self.inner())?.is_some() {}
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<(), E> {
        Ok(())
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_key_that_stands_twice_is_refused_wherever_it_stands() {
        for text in [r#"{"a": 1, "a": 1}"#, r#"[{"b": {"a": 1, "\u0061": 2}}]"#, r#"{"a": {}, "b": 0, "a": {}}"#] {
            for error in [
                from_json::<Value>(text).expect_err(text),
                from_json_bytes::<Value>(text.as_bytes()).expect_err(text),
                from_json::<serde::de::IgnoredAny>(text).expect_err(text),
            ] {
                assert!(error.to_string().contains("duplicate field `a` at line 1"), "{error}");
            }
        }
        let same_names_apart = r#"{"a": {"a": [{"a": 1}, {"a": 1}]}, "b": {"a": null}}"#;
        assert!(from_json::<Value>(same_names_apart).is_ok());
        assert!(from_toml::<toml::Table>("[a]\nb = 1\nb = 2").is_err());
    }

    #[test]
    fn numbers_that_are_none_are_refused_with_their_place() {
        for text in ["a = nan", "a = -nan", "a = inf", "a = -inf", "[x]\nb = [{ c = [1.0, nan] }]", "a = 1e999"] {
            let error = from_toml::<toml::Table>(text).expect_err(text);
            let place = error.span().expect("a place").start;
            assert!(text[place..].starts_with(['n', 'i', '-', '1']), "{text}: {error}");
        }
        assert!(from_toml::<toml::Table>("a = 1e308\nb = 2026-07-20\nc = 'nan'\n[d]\ne = true").is_ok());
        // Whoever reads a number says whether it is too large.
        assert!(
            !from_toml::<toml::Table>("a = 99999999999999999999").expect_err("large").to_string().contains("a value")
        );
        assert!(from_json::<Value>("1e999").is_err() && from_json::<Value>("NaN").is_err());
    }

    #[test]
    fn the_number_of_values_is_bounded() {
        let many = format!("[{}0]", "0,".repeat(VALUES_MAX));
        assert!(from_json::<Value>(&many).expect_err("too many").to_string().contains("more than 2000000 values"));
        assert!(from_json::<Value>("[0,0,0]").is_ok());
    }
}
