//! What a model drops out: as it is written, as a family has it, and whether the cost of operators counts it.
//!
//! Source: Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 15, 2014; where
//! transformers have it: Vaswani et al., arXiv:1706.03762, section 5.4, and transformers' configuration classes.

use crate::families::fields::{Dimensions, Field};
use crate::families::{ModelError, ModelSpec};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use trainyard_units::{Invalid, Written};

/// What becomes of activations at one place: the share that is dropped out, or only whether any is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum DropoutSpec {
    /// This share, at least 0 and below 1.
    Share(f64),
    /// Some share or none.
    Stated(bool),
}

impl DropoutSpec {
    /// Returns `true` if anything is dropped out.
    pub fn drops(self) -> bool {
        match self {
            Self::Share(share) => share > 0.0,
            Self::Stated(drops) => drops,
        }
    }
}

impl Default for DropoutSpec {
    fn default() -> Self {
        Self::Stated(false)
    }
}

impl<'de> Deserialize<'de> for DropoutSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = DropoutSpec;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a share, at least 0 and below 1, or true or false")
            }

            fn visit_bool<E: Error>(self, drops: bool) -> Result<DropoutSpec, E> {
                Ok(DropoutSpec::Stated(drops))
            }

            fn visit_f64<E: Error>(self, share: f64) -> Result<DropoutSpec, E> {
                Ok(DropoutSpec::Share(share))
            }

            fn visit_u64<E: Error>(self, share: u64) -> Result<DropoutSpec, E> {
                Ok(DropoutSpec::Share(share as f64))
            }

            fn visit_i64<E: Error>(self, share: i64) -> Result<DropoutSpec, E> {
                Ok(DropoutSpec::Share(share as f64))
            }

            fn visit_str<E: Error>(self, share: &str) -> Result<DropoutSpec, E> {
                f64::of_text(share).map(DropoutSpec::Share).map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// Checks a share that is dropped out.
///
/// # Errors
///
/// When it is not at least 0 and below 1.
pub fn check_dropout(field: &str, share: f64) -> Result<f64, Invalid> {
    if (0.0..1.0).contains(&share) {
        return Ok(share);
    }
    Err(Invalid::value(field, share, "at least 0 and below 1")
        .with_hint(format!("{field} = 0.1 drops out a tenth, {field} = 0 nothing")))
}

/// Reads what a family drops out that is described, but not run here.
pub(super) fn any_dropout(
    at: Field,
    written: Option<DropoutSpec>,
    assumed: DropoutSpec,
) -> Result<DropoutSpec, Invalid> {
    if let Some(DropoutSpec::Share(share)) = written {
        check_dropout(at.name, share)?;
    }
    Ok(written.unwrap_or(assumed))
}

/// The shares that a transformer drops out; `None` where its description says nothing: then its training here drops
/// nothing out, and its cost is that of its published training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dropout {
    /// Of what attention and feed-forward part add to the residual stream.
    pub residual: Option<f64>,
    /// Of the weights of attention.
    pub attention: Option<f64>,
    /// Of what the first block is given.
    pub embedding: Option<f64>,
}

impl Dropout {
    /// Returns `true` if a training here drops anything out.
    pub fn is_on(self) -> bool {
        [self.residual, self.attention, self.embedding].into_iter().flatten().any(|share| share > 0.0)
    }

    /// Returns what the cost counts, where a description without a word is one with dropout or one without.
    pub(super) fn counted(self, assumed: bool) -> Dropped {
        // Who says something of one place has not left the others to the published training.
        let assumed = assumed && self == Self::default();
        let drops = |share: Option<f64>| share.map_or(assumed, |share| share > 0.0);
        Dropped { residual: drops(self.residual), attention: drops(self.attention), embedding: drops(self.embedding) }
    }
}

impl fmt::Display for Dropout {
    /// One number if all shares are the same.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [attention, residual, embedding] =
            [self.attention, self.residual, self.embedding].map(|share| share.unwrap_or(0.0).to_string());
        if attention == residual && embedding == residual {
            return formatter.write_str(&residual);
        }
        write!(formatter, "{{ attention = {attention}, residual = {residual}, embedding = {embedding} }}")
    }
}

impl Dimensions for Dropout {
    type Given = ();

    fn has(field: &str) -> bool {
        ["dropout", "attention_dropout", "embedding_dropout"].contains(&field)
    }

    fn read(spec: &ModelSpec, (): ()) -> Result<Self, ModelError> {
        let share = |field, written: Option<DropoutSpec>| match written {
            None => Ok(None),
            Some(DropoutSpec::Stated(false)) => Ok(Some(0.0)),
            Some(DropoutSpec::Share(share)) => check_dropout(field, share).map(Some),
            Some(DropoutSpec::Stated(true)) => Err(Invalid::value(field, true, "a share, at least 0 and below 1")
                .with_hint(format!("{field} = 0.1 drops out a tenth"))),
        };
        let residual = share("dropout", spec.dropout)?;
        Ok(Self {
            residual,
            attention: share("attention_dropout", spec.attention_dropout)?.or(residual),
            embedding: share("embedding_dropout", spec.embedding_dropout)?.or(residual),
        })
    }

    fn write(&self, spec: &mut ModelSpec) {
        spec.dropout = self.residual.map(DropoutSpec::Share);
        spec.attention_dropout = self.attention.map(DropoutSpec::Share);
        spec.embedding_dropout = self.embedding.map(DropoutSpec::Share);
    }
}

/// Where the cost of a stack of blocks counts dropout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dropped {
    pub(super) residual: bool,
    pub(super) attention: bool,
    pub(super) embedding: bool,
}

impl From<bool> for Dropped {
    /// Everywhere or nowhere.
    fn from(drops: bool) -> Self {
        Self { residual: drops, attention: drops, embedding: drops }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Sharing;
    use crate::{Model, OperatorGraph, find};

    fn with(name: &str, change: impl Fn(&mut ModelSpec)) -> Result<Model, ModelError> {
        let mut spec = find(name).expect("in the catalog").model.spec();
        change(&mut spec);
        Model::try_from(spec)
    }

    fn masks(graph: &OperatorGraph) -> u64 {
        graph.layers().map(|layer| layer.stored(1, Sharing::WHOLE).masks).sum()
    }

    #[test]
    fn what_is_not_said_costs_what_the_published_training_costs_and_trains_without() {
        for (name, has_masks) in [("gpt2", true), ("bert-base", true), ("llama-2-7b", false), ("vit-b-16", false)] {
            let model = &find(name).expect("in the catalog").model;
            assert_eq!(masks(&model.graph()) > 0, has_masks, "{name}");
            assert!(!model.dropout().is_on(), "{name}");
            let tenth = with(name, |spec| spec.dropout = Some(DropoutSpec::Share(0.1))).expect("valid");
            assert!(masks(&tenth.graph()) > 0 && tenth.dropout().is_on(), "{name}");
            assert!(!has_masks || tenth.graph().distinct() == model.graph().distinct(), "{name}");
            let none = with(name, |spec| spec.dropout = Some(DropoutSpec::Stated(false))).expect("valid");
            assert_eq!(masks(&none.graph()), 0, "{name}");
            assert!(has_masks || none.graph() == model.graph(), "{name}");
            assert_eq!([model, &tenth, &none].map(|model| model.graph().drops_out()), [false, true, false]);
        }
    }

    #[test]
    fn one_share_is_that_of_every_place_unless_said() {
        let shares = with("gpt2", |spec| {
            spec.dropout = Some(DropoutSpec::Share(0.1));
            spec.attention_dropout = Some(DropoutSpec::Share(0.2));
        });
        let found = shares.expect("valid").dropout();
        assert_eq!(found, Dropout { residual: Some(0.1), attention: Some(0.2), embedding: Some(0.1) });
        let only_attention = with("llama-2-7b", |spec| spec.attention_dropout = Some(DropoutSpec::Share(0.2)));
        let found = only_attention.expect("valid").dropout();
        assert_eq!(found, Dropout { attention: Some(0.2), ..Dropout::default() });
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for share in [1.0, -0.1, f64::NAN] {
            let refused = with("bert-base", |spec| spec.attention_dropout = Some(DropoutSpec::Share(share)));
            let error = refused.expect_err("refused");
            let expected = format!("`attention_dropout` is {share}, but it must be at least 0 and below 1");
            assert!(error.to_string().ends_with(&expected), "{error}");
            assert!(error.hint().expect("a hint").contains("attention_dropout = 0.1"));
        }
        let error = with("gpt2", |spec| spec.dropout = Some(DropoutSpec::Stated(true))).expect_err("no share");
        assert!(error.to_string().contains("`dropout` is true, but it must be a share"), "{error}");
    }

    #[test]
    fn shares_are_read_as_they_are_written() {
        let read = |text: &str| toml::from_str::<ModelSpec>(&format!("name = \"m\"\nfamily = \"gpt\"\n{text}"));
        for (text, expected) in [
            ("dropout = 0.1", DropoutSpec::Share(0.1)),
            ("dropout = 0", DropoutSpec::Share(0.0)),
            ("dropout = true", DropoutSpec::Stated(true)),
        ] {
            let spec = read(text).expect("it is one");
            assert_eq!(spec.dropout, Some(expected));
            let json = serde_json::to_string(&spec).expect("it is written");
            assert_eq!(serde_json::from_str::<ModelSpec>(&json).expect("and read").dropout, Some(expected));
        }
        assert!(read("dropout = []").expect_err("no share").to_string().contains("a share, at least 0 and below 1"));
    }
}
