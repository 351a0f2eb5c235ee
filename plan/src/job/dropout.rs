//! What a job drops out in training.

use schemars::JsonSchema;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use trainyard_models::{DropoutSpec, Family, ModelSpec, check_dropout};
use trainyard_units::{Invalid, numbers_or_texts, share, written_share};

/// Shares that are dropped out in training: one for all places, or some of their own.
///
/// Source: Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 15, 2014.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(transform = numbers_or_texts)]
pub enum DropoutShares {
    /// This share everywhere.
    Everywhere(f64),
    /// These; what is left out is as the model says.
    Each {
        /// Share of the weights of attention.
        #[serde(skip_serializing_if = "Option::is_none")]
        attention: Option<f64>,
        /// Share of what attention and feed-forward part add to the residual stream.
        #[serde(skip_serializing_if = "Option::is_none")]
        residual: Option<f64>,
        /// Share of what the first block is given.
        #[serde(skip_serializing_if = "Option::is_none")]
        embedding: Option<f64>,
    },
}

/// Families whose description has the shares.
const FAMILIES: [Family; 8] = [
    Family::Gpt,
    Family::GptMoe,
    Family::Llama,
    Family::GptNeox,
    Family::Gemma2,
    Family::Bert,
    Family::Vit,
    Family::Blocks,
];

impl DropoutShares {
    /// Writes the shares into a model, whose operators and costs follow from them.
    ///
    /// # Errors
    ///
    /// When a share is not at least 0 and below 1, or the model's family has none.
    pub fn write(self, spec: &mut ModelSpec) -> Result<(), Invalid> {
        let field = "training.dropout";
        let checked = |name: &str, share: Option<f64>| {
            share.map(|share| check_dropout(name, share).map(DropoutSpec::Share)).transpose()
        };
        let [attention, residual, embedding] = match self {
            Self::Everywhere(share) => [checked(field, Some(share))?; 3],
            Self::Each { attention, residual, embedding } => [
                checked("training.dropout.attention", attention)?,
                checked("training.dropout.residual", residual)?,
                checked("training.dropout.embedding", embedding)?,
            ],
        };
        if !FAMILIES.contains(&spec.family) {
            let rule = format!("a model of family `{}` has no shares of its own", spec.family);
            return Err(Invalid::conflict(field, "model", rule)
                .with_hint("leave it out: gpt, gpt-moe, llama, gpt-neox, gemma2, bert, vit and blocks have them"));
        }
        if let (Family::Blocks, Self::Each { embedding: Some(_), .. }) = (spec.family, self) {
            let rule = "a model of family `blocks` drops nothing out before its first block";
            return Err(Invalid::conflict("training.dropout.embedding", "model", rule)
                .with_hint("leave it out; attention and residual are its places"));
        }
        // Places that say nothing of their own have the share of the residual stream.
        let before = [spec.attention_dropout, spec.embedding_dropout].map(|own| own.or(spec.dropout));
        spec.attention_dropout = attention.or(before[0]);
        spec.dropout = residual.or(spec.dropout);
        if spec.family != Family::Blocks {
            spec.embedding_dropout = embedding.or(before[1]);
        }
        Ok(())
    }
}

// By hand, because serde's untagged enums answer a wrong value with "did not match any variant".
impl<'de> Deserialize<'de> for DropoutShares {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        #[derive(Deserialize)]
        struct Share(#[serde(deserialize_with = "written_share")] f64);

        const PLACES: &[&str] = &["attention", "residual", "embedding"];

        impl<'de> Visitor<'de> for Either {
            type Value = DropoutShares;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a share such as 0.1, or { attention = 0.1, residual = 0.1, embedding = 0.1 }")
            }

            fn visit_f64<E: Error>(self, share: f64) -> Result<DropoutShares, E> {
                Ok(DropoutShares::Everywhere(share))
            }

            fn visit_u64<E: Error>(self, share: u64) -> Result<DropoutShares, E> {
                Ok(DropoutShares::Everywhere(share as f64))
            }

            fn visit_i64<E: Error>(self, share: i64) -> Result<DropoutShares, E> {
                Ok(DropoutShares::Everywhere(share as f64))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<DropoutShares, E> {
                share(text).map(DropoutShares::Everywhere).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DropoutShares, A::Error> {
                let (mut attention, mut residual, mut embedding) = (None, None, None);
                while let Some(key) = map.next_key::<String>()? {
                    let place = match key.as_str() {
                        "attention" => &mut attention,
                        "residual" => &mut residual,
                        "embedding" => &mut embedding,
                        _ => return Err(A::Error::unknown_field(&key, PLACES)),
                    };
                    let Share(share) = map.next_value()?;
                    *place = Some(share);
                }
                Ok(DropoutShares::Each { attention, residual, embedding })
            }
        }

        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrainingSpec;
    use trainyard_models::{Dropout, Model};

    fn shares(text: &str) -> DropoutShares {
        serde_json::from_str::<TrainingSpec>(text).expect("it is one").dropout.expect("it is said")
    }

    fn written(model: &str, text: &str) -> Result<Dropout, Invalid> {
        let mut spec = trainyard_models::find(model).expect("in the catalog").model.spec();
        shares(text).write(&mut spec)?;
        Ok(Model::try_from(spec).expect("valid").dropout())
    }

    #[test]
    fn one_number_is_the_share_of_every_place_and_a_table_those_of_some() {
        let all = Dropout { residual: Some(0.1), attention: Some(0.1), embedding: Some(0.1) };
        for text in [r#"{ "dropout": 0.1 }"#, r#"{ "dropout": "0.1" }"#] {
            assert_eq!(written("gpt2", text).expect("a share"), all);
        }
        let attention = written("llama-2-7b", r#"{ "dropout": { "attention": 0.2 } }"#).expect("a share");
        assert_eq!(attention, Dropout { attention: Some(0.2), ..Dropout::default() });
        let json = serde_json::to_string(&shares(r#"{ "dropout": { "attention": 0.2 } }"#)).expect("written");
        assert_eq!(json, r#"{"attention":0.2}"#);
    }

    #[test]
    fn what_a_table_leaves_out_is_as_the_model_says() {
        let mut spec = trainyard_models::find("bert-base").expect("in the catalog").model.spec();
        spec.dropout = Some(DropoutSpec::Share(0.1));
        shares(r#"{ "dropout": { "residual": 0 } }"#).write(&mut spec).expect("a share");
        let found = Model::try_from(spec).expect("valid").dropout();
        assert_eq!(found, Dropout { residual: Some(0.0), attention: Some(0.1), embedding: Some(0.1) });
    }

    #[test]
    fn shares_out_of_range_and_models_without_any_are_refused() {
        for (text, field) in [
            (r#"{ "dropout": 1.0 }"#, "training.dropout"),
            (r#"{ "dropout": -0.1 }"#, "training.dropout"),
            (r#"{ "dropout": { "attention": 1.5 } }"#, "training.dropout.attention"),
        ] {
            let error = written("gpt2", text).expect_err("refused");
            assert!(error.to_string().contains(&format!("`{field}` is")), "{error}");
            assert!(error.to_string().contains("at least 0 and below 1"), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("0.1")));
        }
        let error = written("resnet50", r#"{ "dropout": 0.1 }"#).expect_err("refused").to_string();
        assert!(error.contains("family `resnet`"), "{error}");
        let error = written("qwen3-30b-a3b", r#"{ "dropout": { "embedding": 0.1 } }"#).expect_err("no such place");
        assert!(error.to_string().contains("training.dropout.embedding"), "{error}");
        let unknown =
            serde_json::from_str::<TrainingSpec>(r#"{ "dropout": { "hidden": 0.1 } }"#).expect_err("no such place");
        assert!(unknown.to_string().contains("`attention`, `residual`, `embedding`"), "{unknown}");
    }
}
