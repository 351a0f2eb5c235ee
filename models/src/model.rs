//! Valid models. A [`Model`] that exists can be trained; nothing downstream checks its dimensions again.

use crate::graph::OperatorGraph;
use crate::operator::AttentionKernel;
use crate::spec::{Family, ModelError, ModelSpec};

/// Upper limits that keep every product of dimensions within 64 bits and catch a slipped decimal.
const LAYERS_MAX: u64 = 10_000;
const WIDTH_MAX: u64 = 1 << 20;
const VOCABULARY_MAX: u64 = 1 << 24;
const SEQUENCE_MAX: u64 = 1 << 22;

/// A model whose dimensions fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Model {
    /// A decoder-only transformer.
    Gpt(Gpt),
    /// A multi-layer perceptron.
    Mlp(Mlp),
}

/// A decoder-only transformer as GPT-2: learned positions, pre-normalisation, GELU, head tied to the token table.
///
/// Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, section 2.3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpt {
    /// Catalog id or the user's name.
    pub name: String,
    /// Blocks.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Attention heads.
    pub heads: u64,
    /// Width inside the feed-forward part.
    pub ffn: u64,
    /// Entries of the token table.
    pub vocab: u64,
    /// Tokens of a sample, and entries of the position table.
    pub seq_len: u64,
    /// How attention is computed.
    pub attention: AttentionKernel,
}

/// Linear layers with an activation between them: inputs → hidden × `layers` → outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mlp {
    /// Catalog id or the user's name.
    pub name: String,
    /// Hidden layers.
    pub layers: u32,
    /// Width of each hidden layer.
    pub hidden: u64,
    /// Input features.
    pub inputs: u64,
    /// Output features: classes.
    pub outputs: u64,
}

impl Model {
    /// Catalog id or the user's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Gpt(gpt) => &gpt.name,
            Self::Mlp(mlp) => &mlp.name,
        }
    }

    /// Tokens of one sample; nothing for models that do not read tokens.
    pub fn tokens_per_sample(&self) -> Option<u64> {
        match self {
            Self::Gpt(gpt) => Some(gpt.seq_len),
            Self::Mlp(_) => None,
        }
    }

    /// The operators, layer by layer.
    pub fn graph(&self) -> OperatorGraph {
        match self {
            Self::Gpt(gpt) => OperatorGraph::of_gpt(gpt),
            Self::Mlp(mlp) => OperatorGraph::of_mlp(mlp),
        }
    }

    /// The model as it is written, with every default filled in.
    pub fn spec(&self) -> ModelSpec {
        match self {
            Self::Gpt(gpt) => ModelSpec {
                name: gpt.name.clone(),
                family: Family::Gpt,
                layers: gpt.layers,
                hidden: gpt.hidden,
                heads: Some(gpt.heads),
                ffn: Some(gpt.ffn),
                vocab: Some(gpt.vocab),
                seq_len: Some(gpt.seq_len),
                attention: Some(gpt.attention),
                inputs: None,
                outputs: None,
            },
            Self::Mlp(mlp) => ModelSpec {
                name: mlp.name.clone(),
                family: Family::Mlp,
                layers: mlp.layers,
                hidden: mlp.hidden,
                heads: None,
                ffn: None,
                vocab: None,
                seq_len: None,
                attention: None,
                inputs: Some(mlp.inputs),
                outputs: Some(mlp.outputs),
            },
        }
    }
}

impl TryFrom<ModelSpec> for Model {
    type Error = ModelError;

    fn try_from(spec: ModelSpec) -> Result<Self, ModelError> {
        let checked = Checked { spec: &spec };
        match spec.family {
            Family::Gpt => checked.gpt().map(Self::Gpt),
            Family::Mlp => checked.mlp().map(Self::Mlp),
        }
    }
}

/// Reads the fields of one specification with range checks.
struct Checked<'a> {
    spec: &'a ModelSpec,
}

impl Checked<'_> {
    fn family(&self) -> &'static str {
        match self.spec.family {
            Family::Gpt => "gpt",
            Family::Mlp => "mlp",
        }
    }

    fn range(&self, field: &'static str, value: u64, maximum: u64) -> Result<u64, ModelError> {
        if (1..=maximum).contains(&value) {
            Ok(value)
        } else {
            Err(ModelError::OutOfRange { model: self.spec.name.clone(), field, value, maximum })
        }
    }

    fn needed(&self, field: &'static str, value: Option<u64>, maximum: u64) -> Result<u64, ModelError> {
        let value =
            value.ok_or_else(|| ModelError::Missing { model: self.spec.name.clone(), family: self.family(), field })?;
        self.range(field, value, maximum)
    }

    fn foreign(&self, fields: &[(&'static str, bool)]) -> Result<(), ModelError> {
        match fields.iter().find(|(_, set)| *set) {
            None => Ok(()),
            Some((field, _)) => {
                Err(ModelError::Foreign { model: self.spec.name.clone(), family: self.family(), field })
            }
        }
    }

    fn gpt(&self) -> Result<Gpt, ModelError> {
        let spec = self.spec;
        self.foreign(&[("inputs", spec.inputs.is_some()), ("outputs", spec.outputs.is_some())])?;
        let hidden = self.range("hidden", spec.hidden, WIDTH_MAX)?;
        let heads = self.needed("heads", spec.heads, WIDTH_MAX)?;
        if !hidden.is_multiple_of(heads) {
            return Err(ModelError::IndivisibleHeads { model: spec.name.clone(), hidden, heads });
        }
        Ok(Gpt {
            name: spec.name.clone(),
            layers: self.range("layers", u64::from(spec.layers), LAYERS_MAX)? as u32,
            hidden,
            heads,
            ffn: self.needed("ffn", spec.ffn.or(Some(4 * hidden)), 4 * WIDTH_MAX)?,
            vocab: self.needed("vocab", spec.vocab, VOCABULARY_MAX)?,
            seq_len: self.needed("seq_len", spec.seq_len, SEQUENCE_MAX)?,
            attention: spec.attention.unwrap_or(AttentionKernel::Unfused),
        })
    }

    fn mlp(&self) -> Result<Mlp, ModelError> {
        let spec = self.spec;
        self.foreign(&[
            ("heads", spec.heads.is_some()),
            ("ffn", spec.ffn.is_some()),
            ("vocab", spec.vocab.is_some()),
            ("seq_len", spec.seq_len.is_some()),
            ("attention", spec.attention.is_some()),
        ])?;
        Ok(Mlp {
            name: spec.name.clone(),
            layers: self.range("layers", u64::from(spec.layers), LAYERS_MAX)? as u32,
            hidden: self.range("hidden", spec.hidden, WIDTH_MAX)?,
            inputs: self.needed("inputs", spec.inputs, VOCABULARY_MAX)?,
            outputs: self.needed("outputs", spec.outputs, VOCABULARY_MAX)?,
        })
    }
}
