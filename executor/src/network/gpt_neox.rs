//! Decoders as GPT-NeoX and Pythia: layer normalisation, rotary positions for a part of each head, attention and
//! feed-forward part side by side or one after the other.
//!
//! Source: Black et al., arXiv:2204.06745, section 2; Biderman et al., arXiv:2304.01373, section 2. Names and layouts are
//! those of transformers' `GPTNeoXForCausalLM`.

use super::attention::{HeadShape, Mask, attention};
use super::dropout::{Place, Shares};
use super::parts::{Cut, DEVIATION, LayerNorm, Linear, Slots, gelu, summed_together};
use super::rotation::{self, Rotation};
use super::vocabulary::Vocabulary;
use super::{Initial, Layer, Parameter, Pass, Weights, rows};
use burn::tensor::Tensor;
use std::sync::Arc;
use trainyard_data::MicroBatch;
use trainyard_models::GptNeox;
use trainyard_units::Invalid;

const NORMAL: Initial = Initial::Normal(DEVIATION);

/// Returns the layers of a model, as its description counts them.
///
/// # Errors
///
/// When the features that are rotated are not pairs.
pub(super) fn layers(neox: &GptNeox) -> Result<Vec<Arc<dyn Layer>>, Invalid> {
    let rotated = neox.rotary_width.unwrap_or(neox.head_width());
    rotation::check("model.rotary_width", rotated)?;
    let rotation = Arc::new(Rotation::new(neox.seq_len, rotated, neox.rotary_base, None));
    let vocabulary = Vocabulary {
        entries: neox.vocab as usize,
        hidden: neox.hidden as usize,
        tokens: "gpt_neox.embed_in.weight",
        scores: (!neox.tied_head).then_some("embed_out.weight"),
    };
    let mut layers = vec![vocabulary.embedding(None, Shares::from(neox.dropout).embedding)];
    layers.extend((0..neox.layers).map(|index| Arc::new(Block::new(neox, index, &rotation)) as Arc<dyn Layer>));
    let mut slots = Slots::new("");
    let norm = slots.layer_norm("gpt_neox.final_layer_norm", vocabulary.hidden, neox.norm_epsilon);
    layers.push(vocabulary.head(slots, move |weights, rows| norm.forward(weights, rows), None));
    Ok(layers)
}

/// Attention and the feed-forward part, each on a normalised copy of the residual stream.
struct Block {
    parameters: Vec<Parameter>,
    heads: HeadShape,
    rotation: Arc<Rotation>,
    norm_1: LayerNorm,
    /// Queries, keys and values, head by head.
    packed: Linear,
    projection: Linear,
    norm_2: LayerNorm,
    expand: Linear,
    contract: Linear,
    /// `true` if both parts read the same stream.
    side_by_side: bool,
    dropout: f64,
}

impl Block {
    fn new(neox: &GptNeox, index: u32, rotation: &Arc<Rotation>) -> Self {
        let (hidden, ffn) = (neox.hidden as usize, neox.ffn as usize);
        let shares = Shares::from(neox.dropout);
        let mut slots = Slots::new(format!("gpt_neox.layers.{index}."));
        let norm_1 = slots.layer_norm("input_layernorm", hidden, neox.norm_epsilon);
        let packed = slots.linear("attention.query_key_value", hidden, 3 * hidden, NORMAL, Cut::Columns);
        let projection = slots.linear("attention.dense", hidden, hidden, NORMAL, Cut::Rows);
        let norm_2 = slots.layer_norm("post_attention_layernorm", hidden, neox.norm_epsilon);
        let expand = slots.linear("mlp.dense_h_to_4h", hidden, ffn, NORMAL, Cut::Columns);
        let contract = slots.linear("mlp.dense_4h_to_h", ffn, hidden, NORMAL, Cut::Rows);
        let side_by_side = neox.parallel_norms.is_some();
        let mut parameters = slots.parameters();
        for slot in [norm_1, norm_2].into_iter().flat_map(LayerNorm::slots) {
            parameters[slot].has_partial_gradient = side_by_side;
        }
        Self {
            parameters,
            heads: HeadShape::equal(neox.heads as usize, neox.head_width() as usize, shares.attention),
            rotation: rotation.clone(),
            norm_1,
            packed,
            projection,
            norm_2,
            expand,
            contract,
            side_by_side,
            dropout: shares.residual,
        }
    }

    /// Normalises the stream and enters a tensor-parallel part. Parts side by side enter it once, in front of their
    /// normalisations, unless ranks share tokens outside of it: each rank normalises for its own heads and features.
    fn normal(&self, norm: LayerNorm, pass: &Pass, weights: &Weights, stream: Tensor<2>, samples: usize) -> Tensor<2> {
        let rows = norm.forward(weights, stream);
        if self.enters_once(pass) { rows } else { pass.tensor.enter(rows, samples) }
    }

    fn enters_once(&self, pass: &Pass) -> bool {
        self.side_by_side && !pass.tensor.shares_tokens()
    }

    /// (own tokens, hidden) of the stream → (all tokens, own part of the heads), in front of the projection.
    fn attention(&self, pass: &Pass, weights: &Weights, stream: Tensor<2>, samples: usize) -> Tensor<2> {
        let rows = self.normal(self.norm_1, pass, weights, stream, samples);
        let heads = self.heads.on_rank(pass);
        let packed = self.packed.forward(weights, rows);
        let tokens = packed.dims()[0];
        let packed = packed.reshape([tokens, heads.queries, 3 * heads.width]);
        let part = |part: usize| {
            let own = packed.clone().narrow(2, part * heads.width, heads.width);
            own.reshape([tokens, heads.queries * heads.width])
        };
        let [queries, keys] = [0, 1].map(|at| self.rotation.apply(pass, part(at), heads.queries));
        attention(pass, [queries, keys, part(2)], samples, heads, Mask::Causal)
    }

    /// (own tokens, hidden) of the stream → (all tokens, own part of the features), in front of the second product.
    fn expanded(&self, pass: &Pass, weights: &Weights, stream: Tensor<2>, samples: usize) -> Tensor<2> {
        let rows = self.normal(self.norm_2, pass, weights, stream, samples);
        gelu(self.expand.forward(weights, rows))
    }
}

impl Layer for Block {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, input: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let (stream, samples) = (rows::from_before(input), batch.samples);
        let entered = if self.enters_once(pass) { pass.tensor.enter(stream.clone(), samples) } else { stream.clone() };
        let context = self.attention(pass, weights, entered.clone(), samples);
        let drops = pass.drawn.is_some() && self.dropout > 0.0;
        if self.side_by_side && !drops {
            let expanded = self.expanded(pass, weights, entered, samples);
            let parts = [(self.projection, context), (self.contract, expanded)];
            return stream + summed_together(pass, weights, parts, samples);
        }
        let attended = self.projection.summed(pass, weights, context, samples);
        let attended = stream + pass.dropped(attended, self.dropout, Place::Attention, samples);
        let read = if self.side_by_side { entered } else { attended.clone() };
        let expanded = self.expanded(pass, weights, read, samples);
        let transformed = self.contract.summed(pass, weights, expanded, samples);
        attended + pass.dropped(transformed, self.dropout, Place::FeedForward, samples)
    }
}
