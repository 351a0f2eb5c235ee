//! One stack of transformer blocks over tokens, decoder or encoder, whose parts are chosen one by one.

mod attention;
mod feed_forward;
mod gpt_layers;
mod head;

use super::llama::NORM_EPSILON;
use super::parts::{Experts, FeedForward, Norm, Stream, operator};
use crate::families::dropout::{Dropped, any_dropout};
use crate::families::fields::{
    Dimensions, Field, LAYERS_MAX, SEQUENCE_MAX, VOCABULARY_MAX, WIDTH_MAX, attention_heads, choice, dimensions,
    divisor, equal_groups, head_classes, kernel, needed, optional, or, positions, positive, some_blocks,
};
use crate::families::model::{Architecture, Sample};
use crate::families::rotary::{self, scaling};
use crate::families::{DropoutSpec, Family, HeadKind, ModelSpec, PositionKind, QueryKeyNorm, RotaryScaling, Router};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{AttentionKernel, Operator, OperatorKind, Split};
use std::collections::BTreeMap;
use trainyard_units::Invalid;

const NUMBER_MAX: u64 = 1 << 40;

/// Normalisations that the two parts of a block may have each, or together in front.
const NORMS_MAX: u64 = 2;

dimensions! {
    /// A stack of transformer blocks over tokens. What is left out is as in Llama: root-mean-square normalisation in front
    /// of each part, rotary positions, gated feed-forward parts, no biases, no dropout, a head of its own.
    ///
    /// Sources: those of the parts, beside the fields of [`crate::ModelSpec`] and in the modules of each part.
    pub struct Blocks {
        name,
        hidden: u64 = needed(WIDTH_MAX),
        heads: u64 = attention_heads(hidden),
        head_width: u64 = or(hidden / heads, WIDTH_MAX),
        ffn: u64 = or(4 * hidden, 4 * WIDTH_MAX),
        layers: u32 = needed(LAYERS_MAX),
        kv_heads: u64 = equal_groups(heads),
        vocab: u64 = needed(VOCABULARY_MAX),
        type_vocab: Option<u64> = optional(VOCABULARY_MAX),
        seq_len: u64 = needed(SEQUENCE_MAX),
        attention: AttentionKernel = kernel(),
        causal: bool = choice(true) unless true,
        window: Option<u64> = optional(SEQUENCE_MAX),
        window_blocks: Option<Vec<u32>> = within(window, layers),
        position: PositionKind = choice(PositionKind::Rotary),
        positions: Option<u64> = table(position, seq_len),
        distances: Option<u64> = optional(SEQUENCE_MAX),
        rotary_width: Option<u64> = optional(head_width),
        rotary_base: f64 = positive(rotary::BASE, rotary::BASE_MAX) unless rotary::BASE,
        rotary_scaling: Option<RotaryScaling> = scaling(),
        norm: Norm = choice(Norm::Rms),
        part_norms: u64 = or(1, NORMS_MAX) unless 1,
        parallel_norms: Option<u64> = optional(NORMS_MAX),
        first_norm: bool = choice(true) unless true,
        final_norm: bool = choice(true) unless true,
        norm_epsilon: f64 = positive(NORM_EPSILON, 1) unless NORM_EPSILON,
        embedding_norm: bool = choice(false) unless false,
        query_key_norm: Option<QueryKeyNorm> = maybe(),
        qkv_bias: bool = choice(false),
        output_bias: bool = choice(qkv_bias),
        ffn_bias: bool = choice(false),
        feed_forward: FeedForward = choice(FeedForward::Gated),
        embedding_width: u64 = or(hidden, WIDTH_MAX),
        dropout: DropoutSpec = any_dropout(DropoutSpec::default()),
        attention_dropout: DropoutSpec = any_dropout(dropout),
        score_cap: Option<f64> = bound(),
        logit_cap: Option<f64> = bound(),
        sinks: bool = choice(false) unless false,
        kv_rank: Option<u64> = optional(WIDTH_MAX),
        query_rank: Option<u64> = of_latent_attention(kv_rank, WIDTH_MAX),
        /// No more than of queries and keys.
        value_width: u64 = or(head_width, head_width),
        head: HeadKind = on_top(causal),
        classes: Option<u64> = head_classes(head),
        tied_head: bool = choice(false),
        head_bias: bool = choice(head != HeadKind::LanguageModel),
        head_norm: bool = choice(head == HeadKind::MaskedLanguageModel),
        expert_ffn: Option<u64> = optional(4 * WIDTH_MAX),
        /// The experts, if feed-forward parts have any.
        @part experts: Option<Experts> = (hidden, expert_ffn.unwrap_or(ffn), 1),
        /// How they are chosen, if anything is said of it.
        @part routing: Option<Router> = (),
        shared_ffn: Option<u64> = optional(4 * WIDTH_MAX),
        shared_gate: bool = choice(false) unless false,
        expert_bias: bool = choice(false) unless false,
        dense_blocks: Vec<u32> = some_blocks(layers) unless Vec::new(),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "every reader may fail")]
fn maybe<T>(_: Field, written: Option<T>) -> Result<Option<T>, Invalid> {
    Ok(written)
}

/// Reads the blocks in which a window holds.
pub(super) fn within(
    at: Field,
    written: Option<Vec<u32>>,
    window: Option<u64>,
    layers: u32,
) -> Result<Option<Vec<u32>>, Invalid> {
    match (&written, window) {
        (None, _) => Ok(None),
        (Some(_), None) => Err(Invalid::missing("window", format!("`{}` says where it holds", at.name))),
        (Some(_), Some(_)) => some_blocks(at, written, layers).map(Some),
    }
}

/// Reads the entries of the position table, which learned positions have.
fn table(at: Field, written: Option<u64>, position: PositionKind, seq_len: u64) -> Result<Option<u64>, Invalid> {
    match (position, written) {
        (PositionKind::Learned, written) => positions(at, written, &[("seq_len", seq_len)]).map(Some),
        (_, None) => Ok(None),
        (_, Some(count)) => {
            let rule = "positions are not learned";
            Err(Invalid::breaks(at.name, count, rule).with_hint("set position = \"learned\""))
        }
    }
}

/// Reads what values are bounded by.
pub(super) fn bound(at: Field, written: Option<f64>) -> Result<Option<f64>, Invalid> {
    written.map(|value| positive(at, Some(value), value, NUMBER_MAX)).transpose()
}

fn of_latent_attention(
    at: Field,
    written: Option<u64>,
    kv_rank: Option<u64>,
    maximum: u64,
) -> Result<Option<u64>, Invalid> {
    match (written, kv_rank) {
        (Some(value), None) => Err(Invalid::breaks(at.name, value, "attention is not latent").with_hint("set kv_rank")),
        _ => optional(at, written, maximum),
    }
}

/// Reads what is on top: a decoder predicts next tokens, an encoder masked ones.
fn on_top(at: Field, written: Option<HeadKind>, causal: bool) -> Result<HeadKind, Invalid> {
    let (own, other) = if causal {
        (HeadKind::LanguageModel, HeadKind::MaskedLanguageModel)
    } else {
        (HeadKind::MaskedLanguageModel, HeadKind::LanguageModel)
    };
    match written.unwrap_or(own) {
        head if head == other || matches!(head, HeadKind::Pretraining | HeadKind::Pooler) => {
            let rule = format!("with causal = {causal} it is `{own}` or `{}`", HeadKind::Classifier);
            Err(Invalid::breaks(at.name, format!("`{head}`"), rule))
        }
        head => Ok(head),
    }
}

/// What differs between blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct BlockKind {
    windowed: bool,
    routed: bool,
    normed: bool,
}

impl Architecture for Blocks {
    fn check(&self) -> Result<(), Invalid> {
        if self.kv_rank.is_some() && self.rotated() >= self.head_width {
            return Err(Invalid::value("rotary_width", self.rotated(), "below `head_width` in latent attention"));
        }
        if self.kv_rank.is_some() && self.kv_heads != self.heads {
            return Err(Invalid::value("kv_heads", self.kv_heads, "`heads` in latent attention"));
        }
        if self.part_norms > 1 && self.parallel_norms.is_some() {
            return Err(Invalid::breaks("part_norms", self.part_norms, "the two parts work side by side"));
        }
        let of_experts = [
            ("expert_ffn", self.expert_ffn.is_some()),
            ("shared_ffn", self.shared_ffn.is_some()),
            ("expert_bias", self.expert_bias),
            ("dense_blocks", !self.dense_blocks.is_empty()),
        ];
        if let Some((field, _)) = of_experts.iter().find(|(_, set)| *set).filter(|_| self.experts.is_none()) {
            return Err(Invalid::missing("experts", format!("`{field}` is set")));
        }
        if let Some(routing) = &self.routing {
            routing.check(self.experts)?;
        }
        if self.shared_gate && self.shared_ffn.is_none() {
            return Err(Invalid::missing("shared_ffn", "`shared_gate` is set"));
        }
        divisor("kv_heads", self.kv_heads, (self.heads, "heads")).map(drop)
    }

    fn sample(&self) -> Sample {
        Sample::Tokens(self.seq_len)
    }

    fn tensor_heads(&self) -> Option<u64> {
        Some(self.kv_heads)
    }

    fn graph(&self) -> OperatorGraph {
        self.graph_with(self.dropout.drops())
    }
}

impl Blocks {
    /// Returns the operators of a model of another family whose layers are blocks of its dimensions and of what `assumed` sets
    /// besides.
    ///
    /// # Panics
    ///
    /// When that is no valid stack of blocks.
    pub(super) fn graph_of(own: &impl Architecture, assumed: impl FnOnce(&mut ModelSpec)) -> OperatorGraph {
        let mut spec = ModelSpec::new(own.name(), Family::Blocks);
        own.write(&mut spec);
        assumed(&mut spec);
        let Dropped { residual, attention, embedding } = own.dropout().counted(false);
        [spec.dropout, spec.attention_dropout] = [residual, attention].map(|drops| Some(DropoutSpec::Stated(drops)));
        let blocks = Self::read(&spec, ()).expect("the family has checked its dimensions");
        blocks.graph_with(embedding)
    }

    /// Returns the operators, where something is dropped out of what the first block is given or not.
    fn graph_with(&self, drops_embedding: bool) -> OperatorGraph {
        let mut layers = vec![self.embedding(drops_embedding)];
        let mut order = vec![0];
        let mut known = BTreeMap::new();
        for index in 0..self.layers {
            let kind = self.kind(index);
            let at = *known.entry(kind).or_insert_with(|| {
                layers.push(self.block(kind));
                layers.len() - 1
            });
            order.push(at);
        }
        order.push(layers.len());
        layers.push(self.head_layer());
        OperatorGraph::new(layers, order, if self.tied_head { self.vocab * self.embedding_width } else { 0 })
    }

    /// Returns `true` if attention does to scores what `scaled_dot_product_attention` of PyTorch cannot, or for what the
    /// usual implementations do not call it (Hugging Face transformers, `_supports_sdpa` of Gemma 2, gpt-oss, BLOOM, MPT
    /// and DeBERTa).
    pub fn changes_scores(&self) -> bool {
        let biased = self.position == PositionKind::Alibi || self.distances.is_some();
        biased || self.score_cap.is_some() || self.sinks
    }

    fn stream(&self) -> Stream {
        Stream {
            tokens: self.seq_len,
            hidden: self.hidden,
            norm: self.norm,
            feed_forward: self.feed_forward,
            dropout: self.dropout.drops().into(),
            bias: self.ffn_bias,
        }
    }

    /// Returns the features of a head that are rotated.
    fn rotated(&self) -> u64 {
        self.rotary_width.unwrap_or(self.head_width)
    }

    /// Tells of each block whether a window holds in it.
    pub fn windowed_blocks(&self) -> Vec<bool> {
        (0..self.layers).map(|index| self.kind(index).windowed).collect()
    }

    /// Tells of each block whether it has experts.
    pub fn routed_blocks(&self) -> Vec<bool> {
        (0..self.layers).map(|index| self.kind(index).routed).collect()
    }

    fn kind(&self, index: u32) -> BlockKind {
        let windowed =
            self.window.is_some() && self.window_blocks.as_ref().is_none_or(|blocks| blocks.contains(&index));
        let routed = self.experts.is_some_and(|experts| experts.are_in(index)) && !self.dense_blocks.contains(&index);
        BlockKind { windowed, routed, normed: index > 0 || self.first_norm }
    }

    fn embedding(&self, drops: bool) -> Layer {
        let stream = self.stream();
        let stream = Stream { dropout: Dropped { embedding: drops, ..stream.dropout }, ..stream };
        let table = Stream { hidden: self.embedding_width, ..stream };
        let mut operators = vec![table.lookup(self.vocab, self.positions.unwrap_or(0), self.type_vocab.unwrap_or(0))];
        if self.embedding_width != self.hidden {
            // Learned positions are as wide as the stream, to which they are added behind the product.
            let (vocab, positions) = (self.vocab, self.positions.unwrap_or(0));
            let projected = Stream { bias: false, ..stream };
            operators =
                vec![table.lookup(vocab, 0, 0), projected.linear(self.embedding_width, self.hidden, Split::Tokens)];
            operators
                .extend((positions > 0).then(|| Operator { split: Split::Tokens, ..stream.lookup(positions, 0, 0) }));
        }
        operators.extend(self.embedding_norm.then(|| stream.norm()));
        if let Some(distances) = self.distances {
            let table = Stream { tokens: distances, dropout: false.into(), ..stream };
            operators.extend([table.lookup(distances, 0, 0), table.norm()]);
        }
        stream.input(operators)
    }

    fn block(&self, kind: BlockKind) -> Layer {
        let stream = self.stream();
        let norms = |count| (0..count).map(move |_| stream.norm());
        let feed_forward = if kind.routed { self.routed_feed_forward() } else { stream.feed_forward(self.ffn) };
        let mut operators: Vec<Operator> = norms(u64::from(kind.normed)).collect();
        operators.extend(self.attention_part(kind.windowed));
        let tensor_reductions = if let Some(in_front) = self.parallel_norms {
            operators.extend(norms(in_front - 1));
            operators.extend(feed_forward);
            // What both parts make is added up before it is added to the stream, and reduced at once.
            let joined = OperatorKind::Residual { rows: self.seq_len, width: self.hidden, dropout: false };
            operators.extend([operator(joined, Split::Tokens), stream.residual()]);
            1
        } else {
            operators.extend(norms(self.part_norms - 1));
            operators.push(stream.residual());
            operators.extend(norms(1));
            operators.extend(feed_forward);
            operators.extend(norms(self.part_norms - 1));
            operators.push(stream.residual());
            2
        };
        let exchanged = self.experts.filter(|_| kind.routed).map_or(0, |experts| stream.exchanged(experts));
        Layer {
            tensor_reductions,
            exchanged_elements: exchanged,
            context_elements: self.seq_len * self.key_heads(kind.windowed).kv_width(),
            ..Layer::undivided("block", LayerRole::Block, operators, stream.elements())
        }
    }
}

#[cfg(test)]
mod tests;
