//! Models as written: every field that a file or a plan may hold, before anything is checked.

use crate::families::Family;
use crate::layers::{InputSpec, LayerSpec};
use crate::operator::AttentionKernel;
use serde::{Deserialize, Serialize};
use trainyard_units::Invalid;

/// What is on top of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HeadKind {
    /// Masked tokens and, from the pooled first token, whether two segments follow each other.
    Pretraining,
    /// Masked tokens.
    MaskedLanguageModel,
    /// A product and an activation over the first token.
    Pooler,
    /// Classes of the first token.
    Classifier,
}

impl std::fmt::Display for HeadKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pretraining => "pretraining",
            Self::MaskedLanguageModel => "masked-language-model",
            Self::Pooler => "pooler",
            Self::Classifier => "classifier",
        })
    }
}

/// What the blocks of a residual network are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BlockKind {
    /// Two 3 × 3 convolutions.
    Basic,
    /// A 3 × 3 convolution of fewer channels between two of 1 × 1.
    Bottleneck,
}

/// Makes [`ModelSpec`] of the fields that families have, each of which a specification may leave out.
macro_rules! specification {
    ($($(#[$doc:meta])* $field:ident: $type:ty,)*) => {
        /// A model as a person writes it. Which fields are needed depends on the family; [`crate::Model`] checks them.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct ModelSpec {
            /// The catalog id, or any name for a model of one's own.
            pub name: String,
            /// The architecture.
            pub family: Family,
            $(
                $(#[$doc])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
        }

        impl ModelSpec {
            /// Returns a specification that says nothing but name and family.
            pub fn new(name: &str, family: Family) -> Self {
                Self { name: name.into(), family, $($field: None,)* }
            }

            /// Returns the names of the fields that are set, besides name and family.
            pub(crate) fn set_fields(&self) -> impl Iterator<Item = &'static str> {
                let all = [$((stringify!($field), self.$field.is_some()),)*];
                all.into_iter().filter_map(|(field, set)| set.then_some(field))
            }
        }
    };
}

specification! {
    /// Transformer blocks or recurrent layers (of the encoder, if there is a decoder), or hidden layers of an MLP.
    layers: u32,
    /// Width of the residual stream, or of each hidden layer of an MLP.
    hidden: u64,
    /// Attention heads (transformers).
    heads: u64,
    /// Heads of keys and values (llama); as many as `heads` if left out.
    kv_heads: u64,
    /// Features of a head (llama, t5, transformer-xl); hidden / heads if left out.
    head_width: u64,
    /// Width inside the feed-forward part (transformers); 4 × hidden if left out.
    ffn: u64,
    /// Whether feed-forward parts are gated (t5); `false` if left out.
    gated: bool,
    /// Vocabulary size (language models).
    vocab: u64,
    /// Kinds of segments (bert, electra); 2 if left out.
    type_vocab: u64,
    /// Entries of the position table (bert, electra, bart); `seq_len` if left out.
    positions: u64,
    /// Tokens in one sample (language models), or frames of features (rnn-t).
    seq_len: u64,
    /// Blocks or layers of the decoder; `layers` if left out.
    decoder_layers: u32,
    /// Tokens that the decoder writes; `seq_len` if left out.
    decoder_seq_len: u64,
    /// How attention is computed (transformers); `unfused` if left out.
    attention: AttentionKernel,
    /// Tokens that a query sees at most (llama); all if left out.
    window: u64,
    /// Base of the frequencies by which positions turn queries and keys (llama); 10000 if left out. It does not change
    /// what a model costs, only what it computes.
    rotary_base: f64,
    /// What is added to mean squares before their root (llama); 0.00001 if left out. It does not change what a model
    /// costs, only what it computes.
    norm_epsilon: f64,
    /// Whether the head's weight is the token table; `true` for gpt-moe and t5, `false` for llama if left out.
    tied_head: bool,
    /// What is on top (bert, vit); `pretraining` for bert, `classifier` for vit if left out.
    head: HeadKind,
    /// Experts of a layer (gpt-moe, llama).
    experts: u64,
    /// Experts that a token is sent to; 2 if left out.
    experts_per_token: u64,
    /// Every how many blocks there are experts; 2 for gpt-moe, 1 for llama if left out.
    expert_interval: u64,
    /// Places that experts hold, relative to what tokens need; 1 if left out.
    capacity_factor: f64,
    /// Tokens that are routed together by products with masks, as in GShard; copied by index if left out.
    expert_group: u64,
    /// Masked tokens of a sample, for which alone the vocabulary is scored (bert); all tokens if left out.
    predictions: u64,
    /// Height and width of an image (vit, resnet); 224 if left out.
    image_size: u64,
    /// Height and width of a patch (vit).
    patch_size: u64,
    /// Channels of an image (vit, resnet); 3 if left out.
    channels: u64,
    /// Classes (vit, resnet, and bert with a classifier).
    classes: u64,
    /// Blocks of each stage (resnet).
    depths: Vec<u32>,
    /// Channels that the blocks of each stage hand on (resnet); doubled from stage to stage if left out.
    widths: Vec<u64>,
    /// What blocks are (resnet); `bottleneck` if left out.
    block: BlockKind,
    /// Channels after the stem (resnet); 64 if left out.
    base_channels: u64,
    /// Factor of the channels inside a bottleneck (resnet); 1 if left out.
    width_factor: u64,
    /// Factor of the channels of a bottleneck's 3 × 3 convolution alone (resnet); 1 if left out.
    kernel_factor: u64,
    /// Groups of a bottleneck's 3 × 3 convolution (resnet); 1 if left out.
    groups: u64,
    /// Channels of a block over those of its squeeze and excitation (resnet); none if left out.
    squeeze_excite: u64,
    /// What one sample is (layers).
    input: InputSpec,
    /// Layers of operators, in order (layers).
    layer: Vec<LayerSpec>,
    /// Input features (mlp, rnn-t), or dense features (dlrm).
    inputs: u64,
    /// Output features (mlp).
    outputs: u64,
    /// Tokens kept of the segment before (transformer-xl).
    memory: u64,
    /// Where the clusters of an adaptive vocabulary begin, most frequent tokens first (transformer-xl).
    cutoffs: Vec<u64>,
    /// How much narrower the embeddings of each cluster are than those of the one before (transformer-xl); 1 if left
    /// out.
    cluster_divisor: u64,
    /// Width of the generator's residual stream (electra); a quarter of `hidden` if left out.
    generator_hidden: u64,
    /// Features of the prediction network's states (rnn-t); half of `hidden` if left out.
    decoder_hidden: u64,
    /// Layers of the encoder behind the stacking of frames (rnn-t).
    stacked_layers: u32,
    /// Neighbouring frames that are stacked (rnn-t); 2 if left out.
    stack: u64,
    /// Features of the joint network (rnn-t); `decoder_hidden` if left out.
    joint: u64,
    /// Rows of each embedding table (dlrm).
    tables: Vec<u64>,
    /// Widths of the products over dense features (dlrm); the last is that of the tables.
    bottom: Vec<u64>,
    /// Widths of the products over interactions (dlrm); a last one of width 1 follows.
    top: Vec<u64>,
}

/// What is wrong with a model description, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {invalid}")]
pub struct ModelError {
    /// The model and, in layers that are written out, what is nearer: "model `x`, layer `stem`, operator 3 (`conv`)".
    place: String,
    invalid: Box<Invalid>,
}

impl ModelError {
    /// Tells what is wrong at a place inside a model.
    pub(crate) fn new(place: impl Into<String>, invalid: Invalid) -> Self {
        Self { place: place.into(), invalid: Box::new(invalid) }
    }

    /// Names the model.
    pub(crate) fn of(mut self, model: &str) -> Self {
        let separator = if self.place.is_empty() { "" } else { ", " };
        self.place = format!("model `{model}`{separator}{}", self.place);
        self
    }

    /// Returns advice, if there is more to say than the message does.
    pub fn hint(&self) -> Option<String> {
        self.invalid.hint()
    }
}

impl From<Invalid> for ModelError {
    fn from(invalid: Invalid) -> Self {
        Self::new("", invalid)
    }
}
