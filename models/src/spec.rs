//! Models as written: every field that a file or a plan may hold, before anything is checked.

use crate::operator::AttentionKernel;
use serde::{Deserialize, Serialize};

/// The architecture of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// A decoder-only transformer with learned positions, as GPT-2.
    Gpt,
    /// A stack of linear layers with an activation between them.
    Mlp,
}

/// A model as a person writes it. Which fields are needed depends on the family; [`crate::Model`] checks them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// The catalog id, or any name for a model of one's own.
    pub name: String,
    /// The architecture.
    pub family: Family,
    /// Transformer blocks, or hidden layers of an MLP.
    pub layers: u32,
    /// Width of the residual stream, or of each hidden layer of an MLP.
    pub hidden: u64,
    /// Attention heads (gpt).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads: Option<u64>,
    /// Width inside the feed-forward part (gpt); 4 × hidden if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ffn: Option<u64>,
    /// Vocabulary size (gpt).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocab: Option<u64>,
    /// Tokens in one sample (gpt).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq_len: Option<u64>,
    /// How attention is computed (gpt); `unfused` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention: Option<AttentionKernel>,
    /// Input features (mlp).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<u64>,
    /// Output features (mlp).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<u64>,
}

/// Why a model description is not a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A field that the family needs is absent.
    #[error("model `{model}` of family `{family}` needs the field `{field}`")]
    Missing {
        /// The model's name.
        model: String,
        /// Its family.
        family: &'static str,
        /// The absent field.
        field: &'static str,
    },
    /// A field that the family does not have is set.
    #[error("model `{model}` of family `{family}` has no field `{field}`")]
    Foreign {
        /// The model's name.
        model: String,
        /// Its family.
        family: &'static str,
        /// The field that does not belong.
        field: &'static str,
    },
    /// A dimension is zero or absurdly large.
    #[error("model `{model}`: `{field}` is {value}, but it must be from 1 to {maximum}")]
    OutOfRange {
        /// The model's name.
        model: String,
        /// The dimension.
        field: &'static str,
        /// What was written.
        value: u64,
        /// The largest value accepted.
        maximum: u64,
    },
    /// The heads do not share the hidden width evenly.
    #[error("model `{model}`: `hidden` {hidden} is not divisible by `heads` {heads}")]
    IndivisibleHeads {
        /// The model's name.
        model: String,
        /// Width of the residual stream.
        hidden: u64,
        /// Attention heads.
        heads: u64,
    },
    /// No catalog entry has this name.
    #[error("no model is called `{name}`")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The most similar name of the catalog, if one is close.
        similar: Option<String>,
    },
}

impl ModelError {
    /// What the user may do about it, if there is more to say than the message does.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { similar: Some(similar), .. } => Some(format!("did you mean `{similar}`?")),
            Self::Unknown { similar: None, .. } => Some("`trainyard show models` lists the catalog".into()),
            Self::IndivisibleHeads { hidden, heads, .. } => {
                let below = (1..=*heads).rev().find(|h| hidden % h == 0).unwrap_or(1);
                Some(format!("{below} heads divide it"))
            }
            _ => None,
        }
    }
}
