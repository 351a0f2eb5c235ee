//! Models as written: every field that a file or a plan may hold, before anything is checked.

use crate::families::Family;
use crate::layers::{InputSpec, LayerSpec, LayersError};
use crate::operator::AttentionKernel;
use serde::{Deserialize, Serialize};

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

/// The reasons for which a model description is not a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A field that the family needs is absent.
    #[error("model `{model}` of family `{family}` needs the field `{field}`")]
    Missing {
        /// The model's name.
        model: String,
        /// Its family.
        family: Family,
        /// The absent field.
        field: &'static str,
    },
    /// A field that the family does not have is set.
    #[error("model `{model}` of family `{family}` has no field `{field}`")]
    Foreign {
        /// The model's name.
        model: String,
        /// Its family.
        family: Family,
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
        /// The written value.
        value: u64,
        /// The largest value accepted.
        maximum: u64,
    },
    /// A sequence has tokens for which the table of positions has no entry.
    #[error("model `{model}`: `{field}` is {tokens}, but it must be at most the {positions} of `positions`")]
    TooFewPositions {
        /// The model's name.
        model: String,
        /// The field of the sequence.
        field: &'static str,
        /// Its tokens.
        tokens: u64,
        /// Entries of the table.
        positions: u64,
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
    /// The heads of queries do not share those of keys and values evenly.
    #[error("model `{model}`: `heads` {heads} is not divisible by `kv_heads` {kv_heads}")]
    UnequalGroups {
        /// The model's name.
        model: String,
        /// Heads of queries.
        heads: u64,
        /// Heads of keys and values.
        kv_heads: u64,
    },
    /// The patches do not cover the image.
    #[error("model `{model}`: `image_size` {image_size} is not divisible by `patch_size` {patch_size}")]
    IndivisiblePatches {
        /// The model's name.
        model: String,
        /// Height and width of an image.
        image_size: u64,
        /// Height and width of a patch.
        patch_size: u64,
    },
    /// A number of experts' places that is none.
    #[error("model `{model}`: `capacity_factor` is {value}, but it must be above 0 and at most {maximum}")]
    CapacityFactor {
        /// The model's name.
        model: String,
        /// The written value.
        value: String,
        /// The largest value accepted.
        maximum: u64,
    },
    /// A number that must be above zero and below a limit is not.
    #[error("model `{model}`: `{field}` is {value}, but it must be above 0 and at most {maximum}")]
    NotPositive {
        /// The model's name.
        model: String,
        /// The field.
        field: &'static str,
        /// The written value.
        value: String,
        /// The largest value accepted.
        maximum: u64,
    },
    /// The family has no such head.
    #[error("model `{model}` of family `{family}` has no head `{head}`")]
    ForeignHead {
        /// The model's name.
        model: String,
        /// Its family.
        family: Family,
        /// The head that does not belong.
        head: HeadKind,
    },
    /// Classes are given to a head that does not classify.
    #[error("model `{model}`: `classes` is set, but the head is `{head}`")]
    ClassesWithoutClassifier {
        /// The model's name.
        model: String,
        /// The head.
        head: HeadKind,
    },
    /// Only bottlenecks have this.
    #[error("model `{model}`: `{field}` is set, but blocks are `basic`")]
    BottleneckOnly {
        /// The model's name.
        model: String,
        /// The field.
        field: &'static str,
    },
    /// Groups do not share the channels evenly.
    #[error("model `{model}`: {channels} channels of a block are not divisible by `groups` {groups}")]
    IndivisibleChannels {
        /// The model's name.
        model: String,
        /// Channels of the 3 × 3 convolution of a stage.
        channels: u64,
        /// Groups.
        groups: u64,
    },
    /// The layers that are written out are not a model.
    #[error("model `{model}`, {error}")]
    Layers {
        /// The model's name.
        model: String,
        /// The place and the problem.
        error: Box<LayersError>,
    },
    /// Depths and widths are not of the same stages.
    #[error("model `{model}`: `depths` are of {depths} stages, but `widths` of {widths}")]
    UnequalStages {
        /// The model's name.
        model: String,
        /// Stages with a depth.
        depths: usize,
        /// Stages with a width.
        widths: usize,
    },
    /// The generator's heads are not as wide as the discriminator's.
    #[error(
        "model `{model}`: `generator_hidden` {generator_hidden} is not divisible by the {head_width} features of a head"
    )]
    IndivisibleGenerator {
        /// The model's name.
        model: String,
        /// Width of the generator's residual stream.
        generator_hidden: u64,
        /// Features of a head: `hidden` / `heads`.
        head_width: u64,
    },
    /// Clusters of a vocabulary do not follow one another.
    #[error("model `{model}`: the cutoff {cutoff} is not below {end}, where its cluster ends")]
    UnorderedCutoffs {
        /// The model's name.
        model: String,
        /// The first token of the cluster.
        cutoff: u64,
        /// The next cutoff, or the size of the vocabulary.
        end: u64,
    },
    /// No catalog entry has this name.
    #[error("no model is called `{name}`")]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The most similar name of the catalog, if one is close.
        similar: Option<String>,
    },
}

impl ModelError {
    /// Returns advice, if there is more to say than the message does.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { similar: Some(similar), .. } => Some(format!("did you mean `{similar}`?")),
            Self::Unknown { similar: None, .. } => Some("`trainyard show models` lists the catalog".into()),
            Self::TooFewPositions { field, tokens, .. } => {
                Some(format!("a model that is trained anew may have `positions` = {tokens}; else lower `{field}`"))
            }
            Self::IndivisibleHeads { hidden, heads, .. } => {
                let below = (1..=*heads).rev().find(|h| hidden % h == 0).unwrap_or(1);
                Some(format!("{below} heads divide it"))
            }
            Self::IndivisibleGenerator { generator_hidden, head_width, .. } => {
                Some(format!("generator_hidden {} is divisible", generator_hidden.next_multiple_of(*head_width)))
            }
            Self::UnorderedCutoffs { .. } => Some("write cutoffs in ascending order, below vocab".into()),
            Self::ForeignHead { .. } => Some("set head = \"classifier\" or head = \"pooler\"".into()),
            Self::ClassesWithoutClassifier { .. } => Some("set head = \"classifier\"".into()),
            Self::UnequalGroups { heads, kv_heads, .. } => {
                let below = (1..=*kv_heads).rev().find(|kv_heads| heads % kv_heads == 0).unwrap_or(1);
                Some(format!("kv_heads {below} divides them"))
            }
            Self::BottleneckOnly { .. } => Some("set block = \"bottleneck\"".into()),
            Self::IndivisibleChannels { channels, groups, .. } => {
                let below = (1..=*groups).rev().find(|groups| channels % groups == 0).unwrap_or(1);
                Some(format!("groups {below} divides them"))
            }
            Self::Layers { error, .. } => error.hint(),
            Self::IndivisiblePatches { image_size, patch_size, .. } => {
                Some(format!("image_size {} is divisible", image_size / patch_size * patch_size))
            }
            _ => None,
        }
    }
}
