//! Models as written: every field that a file or a plan may hold, before anything is checked.

use crate::families::{DropoutSpec, Family, FeedForward, Norm, RotaryScaling, RouterScores};
use crate::layers::{InputSpec, LayerSpec};
use crate::operator::AttentionKernel;
use crate::traced::TracedLayer;
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
    /// Classes of the first token, or of the last one of a decoder.
    Classifier,
    /// The next token after each.
    LanguageModel,
}

impl std::fmt::Display for HeadKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pretraining => "pretraining",
            Self::MaskedLanguageModel => "masked-language-model",
            Self::Pooler => "pooler",
            Self::Classifier => "classifier",
            Self::LanguageModel => "language-model",
        })
    }
}

/// How a model knows where a token stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PositionKind {
    /// Queries and keys are rotated (Su et al., arXiv:2104.09864).
    Rotary,
    /// A table of learned positions is added to that of tokens.
    Learned,
    /// A bias that grows with the distance is added to scores (Press et al., arXiv:2108.12409).
    Alibi,
    /// It does not.
    None,
}

/// How queries and keys are normalised before they are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueryKeyNorm {
    /// Each head by itself, all with the same weights.
    Head,
    /// With weights for every feature of every head.
    Features,
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
    /// Heads of keys and values (llama, gemma2, blocks); as many as `heads` if left out.
    kv_heads: u64,
    /// Features of a head (llama, gemma2, blocks, t5, transformer-xl, mamba2); hidden / heads if left out.
    head_width: u64,
    /// Width inside the feed-forward part (transformers); if left out 4 × hidden, of llama 8/3 × hidden, to a multiple of 256.
    ffn: u64,
    /// Whether feed-forward parts are gated (t5); `false` if left out.
    gated: bool,
    /// Vocabulary size (language models).
    vocab: u64,
    /// Kinds of segments (bert, electra, blocks); 2 if left out, none for blocks.
    type_vocab: u64,
    /// Entries of the position table (bert, electra, bart, and blocks with learned positions), or of that of the
    /// decoder (whisper); as many as there are tokens if left out.
    positions: u64,
    /// Rows of a table of distances, shared by all blocks, against which queries and keys are scored besides (blocks); none
    /// if left out (He et al., arXiv:2006.03654, section 3).
    distances: u64,
    /// Tokens in one sample (language models), or frames of features (rnn-t, whisper).
    seq_len: u64,
    /// Blocks or layers of the decoder; `layers` if left out.
    decoder_layers: u32,
    /// Tokens that the decoder writes; `seq_len` if left out.
    decoder_seq_len: u64,
    /// How attention is computed (transformers); `unfused` if left out.
    attention: AttentionKernel,
    /// Tokens that a query sees at most (llama, gemma2, blocks), in an encoder half of them on each side; all if left out.
    window: u64,
    /// Blocks, counted from 0, in which the window holds (gemma2, blocks); all if left out.
    window_blocks: Vec<u32>,
    /// Base of the frequencies by which positions turn queries and keys (llama, gpt-neox, gemma2, blocks); 10000 if left out.
    /// It does not change what a model costs, only what it computes.
    rotary_base: f64,
    /// How those frequencies are changed for longer samples than those of the first training (llama, blocks); not at all if
    /// left out. It does not change what a model costs, only what it computes.
    rotary_scaling: RotaryScaling,
    /// What is added to mean squares or variances before their root (llama, gpt-neox, gemma2, blocks); 0.00001, for gemma2
    /// 0.000001 if left out. It does not change what a model costs, only what it computes.
    norm_epsilon: f64,
    /// The number by whose square root scores of attention are divided (gemma2); `head_width` if left out. It does not
    /// change what a model costs, only what it computes.
    query_scalar: u64,
    /// Whether the head's weight is the token table; `true` for gpt-moe, gemma2 and t5, `false` for llama, gpt-neox, blocks
    /// and mamba2 if left out.
    tied_head: bool,
    /// What is on top (bert, vit, blocks); `pretraining` for bert, `classifier` for vit, `language-model` for blocks if left
    /// out.
    head: HeadKind,
    /// Whether what is before the vocabulary or the classes of an encoder ends in a normalisation (blocks); as `head`
    /// says if left out: `true` for masked tokens.
    head_norm: bool,
    /// Whether the head has a bias (blocks); `false` for a language model, else `true` if left out.
    head_bias: bool,
    /// Whether tokens attend to earlier ones only (blocks); `true` if left out.
    causal: bool,
    /// How a model knows where a token stands (blocks); `rotary` if left out.
    position: PositionKind,
    /// Features of a head that are rotated (gpt-neox, blocks); all if left out.
    rotary_width: u64,
    /// What normalises (blocks); `rms` if left out.
    norm: Norm,
    /// Normalisations of each of a block's two parts (blocks): 1, or 2, in front and behind; 1 if left out.
    part_norms: u64,
    /// Normalisations in front of attention and feed-forward part, if these work side by side on the same input
    /// (blocks: 1 or 2, gpt-neox: 2); one part follows the other if left out.
    parallel_norms: u64,
    /// Whether attention of the first block has a normalisation in front (blocks); `true` if left out.
    first_norm: bool,
    /// Whether a normalisation follows the last block (blocks); `true` if left out.
    final_norm: bool,
    /// Whether a normalisation follows the look-up of tokens (blocks); `false` if left out.
    embedding_norm: bool,
    /// How queries and keys are normalised (llama, blocks); not at all if left out.
    query_key_norm: QueryKeyNorm,
    /// Whether the projections of queries, keys and values have biases (llama, blocks); `false` if left out.
    qkv_bias: bool,
    /// Whether the projection behind attention has a bias (blocks); `qkv_bias` if left out.
    output_bias: bool,
    /// Whether the products of feed-forward parts have biases (blocks); `false` if left out.
    ffn_bias: bool,
    /// What is between the products of feed-forward parts (blocks); `gated` if left out.
    feed_forward: FeedForward,
    /// Features of the token table where they are not those of the residual stream, to which a product brings them, and from
    /// which another brings them back in front of the vocabulary (blocks).
    embedding_width: u64,
    /// Share of what is added to the residual stream that is dropped out (gpt, gpt-moe, llama, gpt-neox, gemma2, bert,
    /// vit, blocks), or for
    /// blocks whether any is. If left out a training here drops nothing out; costs are those of the published training,
    /// which is one with dropout for gpt, gpt-moe and bert.
    dropout: DropoutSpec,
    /// The same of the weights of attention; `dropout` if left out.
    attention_dropout: DropoutSpec,
    /// The same of what the first block is given (not blocks); `dropout` if left out.
    embedding_dropout: DropoutSpec,
    /// What scores of attention are bounded by (gemma2, blocks); nothing if left out. The value does not change what a
    /// model costs.
    score_cap: f64,
    /// What logits are bounded by (gemma2, blocks); nothing if left out. The value does not change what a model costs.
    logit_cap: f64,
    /// Whether each head has a trained score beside those of keys (blocks); `false` if left out.
    sinks: bool,
    /// Features to which keys and values of latent attention are narrowed (blocks); attention is not latent if left out.
    kv_rank: u64,
    /// Features to which queries of latent attention are narrowed (blocks); they are not if left out.
    query_rank: u64,
    /// Features of a head of values in latent attention (blocks); `head_width` if left out.
    value_width: u64,
    /// Experts of a layer (gpt-moe, llama, blocks).
    experts: u64,
    /// Experts that a token is sent to; 2 if left out.
    experts_per_token: u64,
    /// Every how many blocks there are experts; 2 for gpt-moe, 1 for llama and blocks if left out.
    expert_interval: u64,
    /// Places that experts hold, relative to what tokens need; 1 if left out.
    capacity_factor: f64,
    /// Tokens that are routed together by products with masks, as in GShard; copied by index if left out.
    expert_group: u64,
    /// Width inside an expert (blocks); `ffn` if left out.
    expert_ffn: u64,
    /// Width inside the expert that every token goes to (blocks); none if left out.
    shared_ffn: u64,
    /// Whether what that expert makes is weighted by a gate of its own (blocks); `false` if left out.
    shared_gate: bool,
    /// Whether router and experts have biases (blocks); `false` if left out.
    expert_bias: bool,
    /// What makes scores of what routers compute (blocks); not known if left out. Neither this nor the next four change what
    /// a model costs, only what it computes.
    router: RouterScores,
    /// Groups of as many experts each, of which the best for a token are chosen first (blocks); 1 if left out.
    router_groups: u64,
    /// Groups to which a token is sent (blocks); `router_groups` if left out.
    router_groups_per_token: u64,
    /// What the sum of a token's routed experts is multiplied by (blocks); 1 if left out.
    routed_scale: f64,
    /// Whether experts are chosen by scores with a bias that follows their load and no gradient (blocks; Wang et al.,
    /// arXiv:2408.15664); `false` if left out.
    correction_bias: bool,
    /// Blocks, counted from 0, that have no experts whatever `expert_interval` says (blocks); none if left out.
    dense_blocks: Vec<u32>,
    /// Masked tokens of a sample, for which alone the vocabulary is scored (bert); all tokens if left out.
    predictions: u64,
    /// Height and width of an image (vit, clip, resnet); 224 if left out.
    image_size: u64,
    /// Height and width of a patch (vit, clip).
    patch_size: u64,
    /// Channels of an image (vit, clip, resnet); 3 if left out.
    channels: u64,
    /// Width of the encoder of images (clip).
    vision_hidden: u64,
    /// Heads of the encoder of images (clip).
    vision_heads: u64,
    /// Blocks of the encoder of images (clip).
    vision_layers: u32,
    /// Width inside the feed-forward parts of the encoder of images (clip); 4 × vision_hidden if left out.
    vision_ffn: u64,
    /// Classes (vit, resnet, and bert or blocks with a classifier).
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
    /// Groups of a bottleneck's 3 × 3 convolution (resnet), or of heads that share inputs and outputs of states
    /// (mamba2); 1 if left out.
    groups: u64,
    /// Channels of a block over those of its squeeze and excitation (resnet); none if left out.
    squeeze_excite: u64,
    /// What one sample is (layers, traced).
    input: InputSpec,
    /// Layers of operators, in order (layers).
    layer: Vec<LayerSpec>,
    /// Layers of operators with their sizes, in order (traced).
    traced: Vec<TracedLayer>,
    /// Input features (mlp, rnn-t, whisper), or dense features (dlrm).
    inputs: u64,
    /// Output features (mlp).
    outputs: u64,
    /// Features of a state for each feature of a head (mamba2); 128 if left out.
    state_width: u64,
    /// Tokens whose states are computed at once (mamba2); 256 if left out.
    chunk: u64,
    /// Tokens that the convolution of a block sees at once (mamba2); 4 if left out.
    taps: u64,
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
    /// Features of the joint network (rnn-t), `decoder_hidden` if left out; of the vectors of texts and images that are
    /// compared (clip), `hidden` if left out.
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

    /// Returns what is wrong, without the place.
    pub fn invalid(&self) -> &Invalid {
        &self.invalid
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
