//! Reading operators, with messages that name the operator, its option and the value.

use super::spec::{Joined, OperatorSpec};
use serde::de::{DeserializeOwned, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor, value};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::fmt;
use trainyard_units::similar;

/// Words that may stand alone.
const WORDS: [&str; 17] = [
    "relu",
    "swish",
    "gelu",
    "sigmoid",
    "tanh",
    "hard_swish",
    "hard_sigmoid",
    "batch_norm",
    "instance_norm",
    "layer_norm",
    "scale",
    "dropout",
    "flatten",
    "global_pool",
    "first_token",
    "dot_interaction",
    "cross_entropy",
];

/// Reads a table that begins with a known word.
type Read = fn(Value) -> Result<OperatorSpec, serde_json::Error>;

/// Words that begin a table, and how the table is read.
const TABLES: [(&str, Read); 24] = [
    ("conv", |table| table_of(table, OperatorSpec::Conv)),
    ("depthwise", |table| table_of(table, OperatorSpec::Depthwise)),
    ("transposed_conv", |table| table_of(table, OperatorSpec::TransposedConv)),
    ("group_norm", |table| table_of(table, OperatorSpec::GroupNorm)),
    ("max_pool", |table| table_of(table, OperatorSpec::MaxPool)),
    ("mean_pool", |table| table_of(table, OperatorSpec::MeanPool)),
    ("adaptive_pool", |table| table_of(table, OperatorSpec::AdaptivePool)),
    ("upsample", |table| table_of(table, OperatorSpec::Upsample)),
    ("linear", |table| table_of(table, OperatorSpec::Linear)),
    ("attention", |table| table_of(table, OperatorSpec::Attention)),
    ("class_tokens", |table| table_of(table, OperatorSpec::ClassTokens)),
    ("space_to_depth", |table| table_of(table, OperatorSpec::SpaceToDepth)),
    ("embedding", |table| table_of(table, OperatorSpec::Embedding)),
    ("lstm", |table| table_of(table, OperatorSpec::Lstm)),
    ("gru", |table| table_of(table, OperatorSpec::Gru)),
    ("tables", |table| table_of(table, OperatorSpec::Tables)),
    ("squeeze_excite", |table| table_of(table, OperatorSpec::SqueezeExcite)),
    ("roi_align", |table| table_of(table, OperatorSpec::RoiAlign)),
    ("add", |table| table_of(table, OperatorSpec::Add)),
    ("concat", |table| table_of(table, OperatorSpec::Concat)),
    ("save", |table| table_of(table, OperatorSpec::Save)),
    ("load", |table| table_of(table, OperatorSpec::Load)),
    ("side", |table| table_of(table, OperatorSpec::Side)),
    ("cross_entropy", |table| table_of(table, OperatorSpec::CrossEntropy)),
];

fn table_of<T: DeserializeOwned>(
    table: Value,
    operator: impl Fn(T) -> OperatorSpec,
) -> Result<OperatorSpec, serde_json::Error> {
    serde_json::from_value(table).map(operator)
}

impl OperatorSpec {
    /// Returns the word by which it is written.
    pub(crate) fn word(&self) -> String {
        match serde_json::to_value(self) {
            Ok(Value::String(word)) => word,
            Ok(Value::Object(table)) => table.keys().next().cloned().unwrap_or_default(),
            other => unreachable!("an operator is written as a word or a table, not {other:?}"),
        }
    }
}

fn is_table(word: &str) -> bool {
    TABLES.iter().any(|(known, _)| *known == word)
}

fn from_word(word: &str) -> Result<OperatorSpec, String> {
    let deserializer = || -> value::StrDeserializer<'_, value::Error> { word.into_deserializer() };
    let activation = super::spec::Activation::deserialize(deserializer()).map(OperatorSpec::Activation);
    let found = activation.or_else(|_| super::spec::Word::deserialize(deserializer()).map(OperatorSpec::Word));
    found.map_err(|_| {
        if is_table(word) {
            format!("the operator `{word}` needs a value: write {{ {word} = … }}")
        } else {
            unknown(&[word])
        }
    })
}

fn from_table(table: &Map<String, Value>) -> Result<OperatorSpec, String> {
    let found: Vec<_> = TABLES.iter().filter(|(word, _)| table.contains_key(*word)).collect();
    match found.as_slice() {
        [(word, read)] => read(Value::Object(table.clone())).map_err(|error| blame(table, word, *read, &error)),
        [] => Err(unknown(&table.keys().map(String::as_str).collect::<Vec<_>>())),
        [(first, _), (second, _), ..] => {
            Err(format!("`{first}` and `{second}` are two operators; write each as a table of its own"))
        }
    }
}

/// Which option is wrong: the one with which alone the operator cannot be read either.
fn blame(table: &Map<String, Value>, word: &str, read: Read, error: &serde_json::Error) -> String {
    let alone = |option: &str| {
        let kept = table.iter().filter(|(key, _)| *key == word || *key == option);
        read(Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect()))
    };
    let options = std::iter::once(word).chain(table.keys().map(String::as_str).filter(|key| *key != word));
    for option in options {
        match alone(option) {
            Err(error) if error.to_string().starts_with("missing field") => {}
            // What is wrong inside a list of operators says so itself.
            Err(error) if table[option].is_array() => return format!("in `{word}`: {error}"),
            Err(error) => return format!("operator `{word}`, `{option} = {}`: {error}", table[option]),
            Ok(_) => {}
        }
    }
    format!("operator `{word}`: {error}")
}

fn unknown(keys: &[&str]) -> String {
    let known = || WORDS.into_iter().chain(TABLES.iter().map(|(word, _)| *word));
    let meant = keys.iter().find_map(|key| similar(key, known()));
    let keys = keys.join("`, `");
    let advice = meant.map_or_else(
        || format!("there are {}", known().collect::<Vec<_>>().join(", ")),
        |word| format!("did you mean `{word}`?"),
    );
    format!("no operator is called `{keys}`; {advice}")
}

impl<'de> Deserialize<'de> for OperatorSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Operator;
        impl<'de> Visitor<'de> for Operator {
            type Value = OperatorSpec;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an operator: a word as \"relu\", or a table as { conv = 64, kernel = 3 }")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<OperatorSpec, E> {
                from_word(word).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OperatorSpec, A::Error> {
                let mut table = Map::new();
                while let Some((key, value)) = map.next_entry::<String, Value>()? {
                    table.insert(key, value);
                }
                from_table(&table).map_err(A::Error::custom)
            }
        }
        deserializer.deserialize_any(Operator)
    }
}

impl<'de> Deserialize<'de> for Joined {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Branches;
        impl<'de> Visitor<'de> for Branches {
            type Value = Joined;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of branches, each a list of operators, or the name of something saved")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Joined, E> {
                Ok(Joined::Saved(name.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Joined, A::Error> {
                let mut branches = Vec::new();
                while let Some(branch) = sequence.next_element()? {
                    branches.push(branch);
                }
                Ok(Joined::Branches(branches))
            }
        }
        deserializer.deserialize_any(Branches)
    }
}
