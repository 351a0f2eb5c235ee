//! The fields of a configuration, and what configurations of all types have in common.

use crate::families::{DropoutSpec, Family, ModelSpec, RotaryScaling, check_dropout};
use serde_json::{Map, Value};
use std::fmt::Display;
use trainyard_units::Invalid;

/// Advice where a field is absent, or holds what transformers does not write.
const WHOLE_FILE: &str = "transformers writes every field when it saves a checkpoint; take that file whole";

pub(super) fn wrong(field: &str, value: &Value, expected: &str) -> Invalid {
    Invalid::value(field, shortened(value), expected).with_hint(WHOLE_FILE)
}

pub(super) fn unsupported(field: &str, found: impl Display, allowed: &str) -> Invalid {
    Invalid::breaks(field, found, format!("only {allowed} is built"))
        .with_hint("a TOML file with the family and dimensions describes what comes near")
}

/// Returns a value as text that fits into a message.
fn shortened(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        other => other.to_string().chars().take(40).collect(),
    }
}

/// The fields of one configuration. A field that is null is absent.
pub(super) struct Config<'a> {
    pub(super) fields: &'a Map<String, Value>,
    pub(super) model_type: &'static str,
    pub(super) name: &'a str,
}

impl Config<'_> {
    /// Returns the value of the first of several names for the same field.
    pub(super) fn get(&self, names: &[&'static str]) -> Option<(&'static str, &Value)> {
        names.iter().find_map(|name| {
            let value = self.fields.get(*name).filter(|value| !value.is_null())?;
            Some((*name, value))
        })
    }

    pub(super) fn missing(&self, field: &str) -> Invalid {
        Invalid::missing(field, format!("model type `{}` needs it", self.model_type)).with_hint(WHOLE_FILE)
    }

    /// The same for a field of several names, of which types differ in which they write.
    fn missing_under(&self, names: &[&'static str]) -> Invalid {
        match names {
            [name] => self.missing(name),
            [name, others @ ..] => {
                self.missing(name).with_hint(format!("{WHOLE_FILE}; other names for it are {}", others.join(", ")))
            }
            [] => unreachable!("a field has a name"),
        }
    }

    pub(super) fn count(&self, names: &[&'static str]) -> Result<Option<u64>, Invalid> {
        let Some((name, value)) = self.get(names) else { return Ok(None) };
        value.as_u64().map(Some).ok_or_else(|| wrong(name, value, "a whole number, at least 0"))
    }

    pub(super) fn needed(&self, names: &[&'static str]) -> Result<Option<u64>, Invalid> {
        match self.count(names)? {
            None => Err(self.missing_under(names)),
            count => Ok(count),
        }
    }

    pub(super) fn depth(&self, names: &[&'static str]) -> Result<Option<u32>, Invalid> {
        self.needed(names)?.map(|count| small(names[0], count)).transpose()
    }

    pub(super) fn number(&self, name: &'static str) -> Result<Option<f64>, Invalid> {
        let Some((name, value)) = self.get(&[name]) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| wrong(name, value, "a number"))
    }

    /// Returns a parameter of the rotation of queries and keys: transformers writes it as a field of its own until version
    /// 4, among `rope_parameters` since, which may have a set for each kind of attention.
    fn rotation(&self, name: &'static str) -> Result<Option<f64>, Invalid> {
        let sets = self.get(&["rope_parameters"]).map(|(_, value)| value);
        let stated = sets.and_then(|sets| sets.get(name).or_else(|| sets.get("full_attention")?.get(name)));
        match stated.filter(|value| !value.is_null()) {
            Some(value) => value.as_f64().map(Some).ok_or_else(|| wrong(name, value, "a number")),
            None => self.number(name),
        }
    }

    /// Returns the base of rotary positions.
    pub(super) fn rotary_base(&self) -> Result<f64, Invalid> {
        Ok(self.rotation("rope_theta")?.or(self.number("rotary_emb_base")?).unwrap_or(10_000.0))
    }

    /// Returns how the frequencies of rotary positions are changed: a field of its own until version 4 of transformers, among
    /// the parameters of the rotation since.
    pub(super) fn rotary_scaling(&self) -> Result<Option<RotaryScaling>, Invalid> {
        let Some((field, sets)) = self.get(&["rope_scaling", "rope_parameters"]) else { return Ok(None) };
        let set = sets.get("full_attention").unwrap_or(sets);
        let stated = |name: &str| set.get(name).filter(|value| !value.is_null());
        let Some(kind) = stated("rope_type").or(stated("type")) else { return Ok(None) };
        let kind = kind.as_str().ok_or_else(|| wrong(field, kind, "a method by its name"))?;
        let number = |name: &'static str| {
            let read = |value: &Value| value.as_f64().ok_or_else(|| wrong(name, value, "a number"));
            stated(name).map(read).transpose()
        };
        let original = "original_max_position_embeddings";
        let tokens = |value: &Value| value.as_u64().ok_or_else(|| wrong(original, value, "a whole number"));
        let scaling = RotaryScaling {
            kind: kind.into(),
            factor: number("factor")?,
            low_frequency_factor: number("low_freq_factor")?,
            high_frequency_factor: number("high_freq_factor")?,
            original_tokens: stated(original).map(tokens).transpose()?,
        };
        Ok((kind != "default").then_some(scaling))
    }

    /// Returns the features of a head that are rotated, of which files state the part.
    pub(super) fn rotary_width(&self, spec: &ModelSpec, assumed: f64) -> Result<Option<u64>, Invalid> {
        let name = "partial_rotary_factor";
        let part = self.rotation(name)?.or(self.number("rotary_pct")?).unwrap_or(assumed);
        if !(0.0..=1.0).contains(&part) {
            return Err(Invalid::value(name, part, "from 0 to 1"));
        }
        let shared = || Some(spec.hidden? / spec.heads.filter(|heads| *heads > 0)?);
        let width = spec.head_width.or_else(shared).unwrap_or(1);
        // All of a head is what is assumed where nothing is said.
        Ok((part < 1.0).then_some((width as f64 * part) as u64))
    }

    pub(super) fn flag(&self, name: &'static str) -> Result<Option<bool>, Invalid> {
        let Some((name, value)) = self.get(&[name]) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| wrong(name, value, "true or false"))
    }

    pub(super) fn text(&self, name: &'static str) -> Result<Option<&str>, Invalid> {
        let Some((name, value)) = self.get(&[name]) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| wrong(name, value, "a text"))
    }

    pub(super) fn counts(&self, name: &'static str) -> Result<Vec<u64>, Invalid> {
        let Some((name, value)) = self.get(&[name]) else {
            return Err(self.missing(name));
        };
        let counts = value.as_array().and_then(|items| items.iter().map(Value::as_u64).collect());
        counts.ok_or_else(|| wrong(name, value, "a list of whole numbers"))
    }

    /// A flag that must have this value where it is set.
    pub(super) fn only(&self, field: &'static str, value: bool, allowed: &'static str) -> Result<(), Invalid> {
        match self.flag(field)? {
            Some(found) if found != value => Err(unsupported(field, found, allowed)),
            _ => Ok(()),
        }
    }

    /// Returns what a configuration says of a part of the model, as fields of its own.
    pub(super) fn part<'b>(&'b self, name: &'static str) -> Result<Option<Config<'b>>, Invalid> {
        match self.get(&[name]) {
            None => Ok(None),
            Some((_, Value::Object(fields))) => Ok(Some(Config { fields, ..*self })),
            Some((name, other)) => Err(wrong(name, other, "an object")),
        }
    }

    /// A field that must be absent, null or false, because it asks for what is not built.
    pub(super) fn without(&self, field: &'static str, allowed: &'static str) -> Result<(), Invalid> {
        match self.get(&[field]) {
            None | Some((_, Value::Bool(false))) => Ok(()),
            Some((_, value)) => Err(unsupported(field, shortened(value), allowed)),
        }
    }

    /// Returns the largest share that is dropped out under any of these names, or what transformers assumes.
    pub(super) fn dropped(&self, names: &[&'static str], assumed: f64) -> Result<DropoutSpec, Invalid> {
        let mut largest: Option<f64> = None;
        for name in names {
            if let Some(share) = self.number(name)? {
                largest = Some(check_dropout(name, share)?.max(largest.unwrap_or(0.0)));
            }
        }
        Ok(DropoutSpec::Share(largest.unwrap_or(assumed)))
    }

    pub(super) fn architecture(&self) -> &str {
        self.fields.get("architectures").and_then(|list| list.get(0)).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn spec(&self, family: Family) -> ModelSpec {
        ModelSpec::new(self.name, family)
    }

    /// Classes: the entries of `id2label`, `num_labels`, or the two that transformers assume.
    pub(super) fn labels(&self) -> Result<Option<u64>, Invalid> {
        match self.get(&["id2label"]) {
            Some((_, Value::Object(labels))) => Ok(Some(labels.len() as u64)),
            Some((name, other)) => Err(wrong(name, other, "an object")),
            None => Ok(Some(self.count(&["num_labels"])?.unwrap_or(2))),
        }
    }
}

pub(super) fn small(field: &'static str, count: u64) -> Result<u32, Invalid> {
    u32::try_from(count).map_err(|_| wrong(field, &count.into(), "a whole number below 4294967296"))
}
