//! The parts that transformers of all families are built from.
//!
//! Attention and feed-forward part each end in a row-split product, whose sum over ranks tensor parallelism reduces
//! (Shoeybi et al., arXiv:1909.08053, section 3).

use super::dropout::Dropped;
use crate::families::fields::{Dimensions, Field, LAYERS_MAX, SEQUENCE_MAX, needed, optional, or, positive};
use crate::families::{ModelError, ModelSpec};
use crate::graph::{Layer, LayerRole};
use crate::operator::{
    Attention, AttentionKernel, Convolution, Image, Mask, Operator, OperatorKind, Places, Routing, Split, replicated,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest product of experts and the weights of one of an expert's matrices.
const EXPERT_WEIGHTS_MAX: u64 = 1 << 46;

const CAPACITY_FACTOR_MAX: u64 = 64;

/// A normalisation of activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Norm {
    /// By mean and variance, with scale and shift.
    Layer,
    /// By the root mean square, with scale.
    Rms,
    /// By mean and variance, with scale alone.
    LayerWithoutShift,
    /// By mean and variance, with nothing that is trained.
    LayerWithoutWeights,
}

impl Norm {
    pub(super) fn over(self, rows: u64, width: u64) -> OperatorKind {
        match self {
            Self::Layer => OperatorKind::LayerNorm { rows, width },
            Self::Rms => OperatorKind::RmsNorm { rows, width },
            Self::LayerWithoutShift => OperatorKind::CentredNorm { rows, width, scale: true },
            Self::LayerWithoutWeights => OperatorKind::CentredNorm { rows, width, scale: false },
        }
    }
}

/// The activation between the two products of a feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FeedForward {
    /// GELU or another smooth function.
    Smooth,
    /// The positive part.
    Relu,
    /// A gate of a product of its own.
    Gated,
}

/// The residual stream of a stack of blocks and what its blocks have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Tokens of a sample.
    pub(super) tokens: u64,
    /// Features of a token.
    pub(super) hidden: u64,
    pub(super) norm: Norm,
    pub(super) feed_forward: FeedForward,
    pub(super) dropout: Dropped,
    /// Products have biases.
    pub(super) bias: bool,
}

/// The heads of an attention part.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each tells of one thing that is done to heads or scores")]
pub(super) struct Heads {
    pub(super) queries: u64,
    /// Heads of keys and values.
    pub(super) keys: u64,
    /// Features of a head of queries or keys.
    pub(super) width: u64,
    /// Features of a head of values.
    pub(super) value_width: u64,
    pub(super) kernel: AttentionKernel,
    pub(super) mask: Mask,
    /// A bias is added to the scores.
    pub(super) biased: bool,
    /// Queries and keys are rotated.
    pub(super) rotary: bool,
    /// Scores are bounded by a hyperbolic tangent.
    pub(super) soft_cap: bool,
    /// Each head has a trained score of its own beside those of keys.
    pub(super) sinks: bool,
    /// The projection of keys has biases if those of queries and values have.
    pub(super) key_bias: bool,
    /// The projections of queries, keys and values have biases, whatever other products have.
    pub(super) qkv_bias: bool,
    /// Each head of queries and keys is normalised.
    pub(super) normed: bool,
}

impl Heads {
    /// Returns as many heads of keys and values as of queries, without rotation.
    pub(super) fn equal(heads: u64, width: u64, kernel: AttentionKernel, mask: Mask) -> Self {
        Self {
            queries: heads,
            keys: heads,
            width,
            value_width: width,
            kernel,
            mask,
            biased: false,
            rotary: false,
            soft_cap: false,
            sinks: false,
            key_bias: true,
            qkv_bias: false,
            normed: false,
        }
    }

    /// Returns the features of the keys and values of a token.
    pub(super) fn kv_width(self) -> u64 {
        self.keys * (self.width + self.value_width)
    }
}

/// The experts of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experts {
    /// Experts of a layer.
    pub count: u64,
    /// Experts that a token is sent to.
    pub per_token: u64,
    /// Every so many blocks there are experts, in the last block of each run.
    pub interval: u64,
    /// Places that experts hold, relative to what tokens need; if left out as many as tokens need, and none is dropped.
    pub capacity_factor: Option<f64>,
    /// Tokens that are routed together by products with masks; otherwise tokens are copied by index.
    pub group: Option<u64>,
}

/// Read given the (hidden, ffn) of an expert's matrices and the interval where none is written.
impl Dimensions for Experts {
    type Given = (u64, u64, u64);

    fn has(field: &str) -> bool {
        ["experts", "experts_per_token", "expert_interval", "capacity_factor", "expert_group"].contains(&field)
    }

    fn read(spec: &ModelSpec, (hidden, ffn, interval): Self::Given) -> Result<Self, ModelError> {
        let at = |name| Field { spec, name };
        let count = needed(at("experts"), spec.experts, (EXPERT_WEIGHTS_MAX / (hidden * ffn)).max(1))?;
        positive(at("capacity_factor"), spec.capacity_factor, 1.0, CAPACITY_FACTOR_MAX)?;
        Ok(Self {
            count,
            per_token: or(at("experts_per_token"), spec.experts_per_token, count.min(2), count)?,
            interval: or(at("expert_interval"), spec.expert_interval, interval, LAYERS_MAX)?,
            capacity_factor: spec.capacity_factor,
            group: optional(at("expert_group"), spec.expert_group, SEQUENCE_MAX)?,
        })
    }

    fn write(&self, spec: &mut ModelSpec) {
        spec.experts = Some(self.count);
        spec.experts_per_token = Some(self.per_token);
        spec.expert_interval = Some(self.interval);
        spec.capacity_factor = self.capacity_factor;
        spec.expert_group = self.group;
    }
}

impl Experts {
    /// Returns `true` for a block, counted from 0, that has experts.
    pub fn are_in(self, block: u32) -> bool {
        (u64::from(block) + 1).is_multiple_of(self.interval)
    }

    fn places(self, stream: Stream) -> Places {
        let places = (stream.tokens * self.per_token) as f64 * self.capacity_factor.unwrap_or(1.0);
        Places {
            tokens: stream.tokens,
            places: places.ceil() as u64,
            width: stream.hidden,
            experts: self.count,
            ranks: 1,
            group: self.group,
        }
    }
}

pub(super) fn operator(kind: OperatorKind, split: Split) -> Operator {
    Operator::new(kind, split)
}

impl Stream {
    /// Layer normalisation, GELU and biases, as in most encoders.
    pub(super) fn gelu(tokens: u64, hidden: u64, dropout: impl Into<Dropped>) -> Self {
        let dropout = dropout.into();
        Self { tokens, hidden, norm: Norm::Layer, feed_forward: FeedForward::Smooth, dropout, bias: true }
    }

    /// Root-mean-square normalisation, gates and no biases, as in Llama.
    pub(super) fn gated(tokens: u64, hidden: u64, dropout: impl Into<Dropped>) -> Self {
        let dropout = dropout.into();
        Self { tokens, hidden, norm: Norm::Rms, feed_forward: FeedForward::Gated, dropout, bias: false }
    }

    pub(super) fn elements(self) -> u64 {
        self.tokens * self.hidden
    }

    /// Returns the stream's tokens, looked up in a table of `vocab`, with learned positions and segments where there
    /// are any.
    pub(super) fn lookup(self, vocab: u64, positions: u64, segments: u64) -> Operator {
        let Self { tokens: rows, hidden: width, dropout: Dropped { embedding: dropout, .. }, .. } = self;
        operator(OperatorKind::Embedding { rows, vocab, positions, segments, width, dropout }, Split::Width)
    }

    pub(super) fn norm(self) -> Operator {
        operator(self.norm.over(self.tokens, self.hidden), Split::Tokens)
    }

    pub(super) fn residual(self) -> Operator {
        let kind = OperatorKind::Residual { rows: self.tokens, width: self.hidden, dropout: self.dropout.residual };
        operator(kind, Split::Tokens)
    }

    pub(super) fn linear(self, inputs: u64, outputs: u64, split: Split) -> Operator {
        operator(OperatorKind::Linear { rows: self.tokens, inputs, outputs, bias: self.bias }, split)
    }

    pub(super) fn core(self, heads: Heads, keys: u64) -> Operator {
        let attention = Attention {
            samples: 1,
            heads: heads.queries,
            kv_heads: heads.keys,
            queries: self.tokens,
            keys,
            own_keys: keys,
            head_width: heads.width,
            value_width: heads.value_width,
            kernel: heads.kernel,
            mask: heads.mask,
            dropout: self.dropout.attention,
            biased: heads.biased,
            soft_cap: heads.soft_cap,
            sinks: heads.sinks,
        };
        operator(OperatorKind::Attention(attention), Split::Width)
    }

    /// The projection of keys and values, together with so many features of queries: one product, or two if that of keys
    /// has no biases.
    fn projections(self, heads: Heads, queries: u64) -> Vec<Operator> {
        if heads.key_bias || !self.bias {
            return vec![self.linear(self.hidden, queries + heads.kv_width(), Split::Columns)];
        }
        let keys = heads.keys * heads.width;
        let without = Self { bias: false, ..self }.linear(self.hidden, keys, Split::Columns);
        // Both read the same, which is kept once.
        let without = Operator { kept_elsewhere: true, ..without };
        vec![self.linear(self.hidden, queries + heads.kv_width() - keys, Split::Columns), without]
    }

    /// Projection of queries, keys and values, attention, output projection.
    pub(super) fn attention(self, heads: Heads) -> Vec<Operator> {
        let width = heads.queries * heads.width;
        let rotated = OperatorKind::Rotary { rows: self.tokens, width: width + heads.keys * heads.width };
        let mut operators = Self { bias: self.bias || heads.qkv_bias, ..self }.projections(heads, width);
        if heads.normed {
            operators.extend([heads.queries, heads.keys].map(|count| self.head_norm(count, heads.width)));
        }
        operators.extend(heads.rotary.then(|| operator(rotated, Split::Width)));
        operators.extend([self.core(heads, self.tokens), self.linear(width, self.hidden, Split::Rows)]);
        operators
    }

    /// The normalisation of so many heads, each by itself.
    pub(super) fn head_norm(self, heads: u64, width: u64) -> Operator {
        operator(self.norm.over(self.tokens * heads, width), Split::Rows)
    }

    /// Attention to the tokens of another stream, whose activations are kept once for all layers.
    pub(super) fn cross_attention(self, heads: Heads, memory: Self, keeps_memory: bool) -> Vec<Operator> {
        let width = heads.queries * heads.width;
        let projected = memory.projections(heads, 0).into_iter();
        let mut operators = vec![self.linear(self.hidden, width, Split::Columns)];
        operators.extend(
            projected.map(|product| Operator { kept_elsewhere: product.kept_elsewhere || !keeps_memory, ..product }),
        );
        operators.extend([self.core(heads, memory.tokens), self.linear(width, self.hidden, Split::Rows)]);
        operators
    }

    /// Returns the features of the first product's result for `ffn` features of the second's input.
    fn widened(self, ffn: u64) -> u64 {
        if self.feed_forward == FeedForward::Gated { 2 * ffn } else { ffn }
    }

    fn activation(self, rows: u64, width: u64) -> Operator {
        let kind = match self.feed_forward {
            FeedForward::Smooth => OperatorKind::Activation { rows, width },
            FeedForward::Relu => OperatorKind::Relu { rows, width },
            FeedForward::Gated => OperatorKind::GatedActivation { rows, width },
        };
        operator(kind, Split::Width)
    }

    /// Two products with an activation between them.
    pub(super) fn feed_forward(self, ffn: u64) -> Vec<Operator> {
        vec![
            self.linear(self.hidden, self.widened(ffn), Split::Columns),
            self.activation(self.tokens, ffn),
            self.linear(ffn, self.hidden, Split::Rows),
        ]
    }

    /// The same in each of a number of experts, between dispatch and combination; `bias` tells whether router and experts
    /// have biases.
    pub(super) fn expert_feed_forward(self, experts: Experts, ffn: u64, bias: bool) -> Vec<Operator> {
        let places = experts.places(self);
        let linear = |inputs, outputs, split| {
            let (experts, rows) = (experts.count, places.places);
            operator(OperatorKind::ExpertLinear { experts, rows, inputs, outputs, bias }, split)
        };
        let routing = |kind| operator(OperatorKind::Routing(kind), Split::Tokens);
        vec![
            routing(Routing::Router {
                places,
                per_token: experts.capacity_factor.is_none().then_some(experts.per_token),
                bias,
            }),
            routing(Routing::Dispatch(places)),
            linear(self.hidden, self.widened(ffn), Split::Columns),
            self.activation(places.places, ffn),
            linear(ffn, self.hidden, Split::Rows),
            routing(Routing::Combine(places)),
        ]
    }

    /// Returns the elements that one all-to-all moves from a rank for each sample.
    pub(super) fn exchanged(self, experts: Experts) -> u64 {
        experts.places(self).places * self.hidden
    }

    /// Returns a block of self-attention and a feed-forward part, each with its normalisation and residual connection.
    pub(super) fn block(self, heads: Heads, feed_forward: Vec<Operator>, exchanged: u64) -> Layer {
        let block = self.block_of(self.attention(heads), feed_forward);
        Layer { exchanged_elements: exchanged, context_elements: self.tokens * heads.kv_width(), ..block }
    }

    /// The same of an attention part of its own kind.
    pub(super) fn block_of(self, attention: Vec<Operator>, feed_forward: Vec<Operator>) -> Layer {
        let mut operators = vec![self.norm()];
        operators.extend(attention);
        operators.extend([self.residual(), self.norm()]);
        operators.extend(feed_forward);
        operators.push(self.residual());
        let layer = Layer::undivided("block", LayerRole::Block, operators, self.elements());
        Layer { tensor_reductions: 2, ..layer }
    }

    /// Patches of an image as the stream's tokens, behind one of the class, with learned positions.
    pub(super) fn patch_embedding(self, image_size: u64, patch_size: u64, channels: u64, bias: bool) -> Vec<Operator> {
        let convolution = Convolution {
            samples: 1,
            input: [1, image_size, image_size],
            output: [1, image_size / patch_size, image_size / patch_size],
            inputs: channels,
            outputs: self.hidden,
            kernel: [1, patch_size, patch_size],
            groups: 1,
            bias,
            transposed: false,
        };
        let rows = self.tokens;
        let tokens = OperatorKind::ClassToken { rows, learned: 1, positions: rows, width: self.hidden };
        vec![replicated(OperatorKind::Image(Image::Convolution(convolution))), operator(tokens, Split::Tokens)]
    }

    /// Returns a layer that makes the stream from tokens.
    pub(super) fn input(self, operators: Vec<Operator>) -> Layer {
        let layer = Layer::undivided("embedding", LayerRole::Input, operators, self.elements());
        Layer { tensor_reductions: 1, ..layer }
    }

    /// Returns a layer that ends in a loss over `rows` rows.
    pub(super) fn head(rows: u64, operators: Vec<Operator>) -> Layer {
        let layer = Layer::undivided("head", LayerRole::Output, operators, rows);
        Layer { tensor_reductions: 1, ..layer }
    }

    /// The last layer of a language model: normalisation, logits and loss, from the token table if it is tied.
    pub(super) fn language_model_head(self, vocab: u64, tied: bool) -> Layer {
        let mut operators = vec![self.norm()];
        operators.extend(self.logits(vocab, tied, false));
        Self::head(self.tokens, operators)
    }

    /// The prediction of masked tokens from so many features, from the token table.
    pub(super) fn masked_tokens(self, inputs: u64, vocab: u64) -> Vec<Operator> {
        let activation = OperatorKind::Activation { rows: self.tokens, width: self.hidden };
        let mut operators =
            vec![self.linear(inputs, self.hidden, Split::Tokens), operator(activation, Split::Tokens), self.norm()];
        operators.extend(self.logits(vocab, true, true));
        operators
    }

    /// Logits and loss of a language model, from the token table if it is tied.
    pub(super) fn logits(self, vocab: u64, tied: bool, bias: bool) -> [Operator; 2] {
        let (rows, width) = (self.tokens, self.hidden);
        let head = if tied {
            OperatorKind::TiedHead { rows, width, vocab, bias }
        } else {
            OperatorKind::Linear { rows, inputs: width, outputs: vocab, bias }
        };
        [operator(head, Split::Columns), operator(OperatorKind::CrossEntropy { rows, vocab }, Split::Width)]
    }
}

/// Patches of a square image.
pub(super) fn patches(image_size: u64, patch_size: u64) -> u64 {
    (image_size / patch_size).pow(2)
}

/// Returns a classifier of one vector for each sample, with its loss.
pub(super) fn classifier(inputs: u64, classes: u64) -> [Operator; 2] {
    let linear = OperatorKind::Linear { rows: 1, inputs, outputs: classes, bias: true };
    [replicated(linear), replicated(OperatorKind::CrossEntropy { rows: 1, vocab: classes })]
}

/// Returns a product and an activation over the first token of each sample.
pub(super) fn pooler(hidden: u64) -> [Operator; 2] {
    let linear = OperatorKind::Linear { rows: 1, inputs: hidden, outputs: hidden, bias: true };
    [replicated(linear), replicated(OperatorKind::Activation { rows: 1, width: hidden })]
}
