//! Decoders as Gemma 2: root-mean-square normalisation in front of each part and behind it, grouped-query attention with
//! bounded scores and a window in some blocks, feed-forward parts gated by GELU, scaled rows of tokens, bounded logits.
//!
//! Source: Gemma Team, arXiv:2408.00118, section 2. Names are those of transformers' `Gemma2ForCausalLM`.

use super::attention::{HeadShape, Mask, attention};
use super::dropout::{Place, Shares};
use super::parts::{CentredRmsNorm, Cut, DEVIATION, Linear, Slots, gelu_gated};
use super::rotation::{self, Rotation};
use super::vocabulary::Vocabulary;
use super::{Initial, Layer, Parameter, Pass, Weights, rows};
use crate::kernels::Scores;
use burn::tensor::Tensor;
use std::sync::Arc;
use trainyard_data::MicroBatch;
use trainyard_models::Gemma2;
use trainyard_units::Invalid;

const NORMAL: Initial = Initial::Normal(DEVIATION);

/// Returns the layers of a model, as its description counts them.
///
/// # Errors
///
/// When it has heads whose features are not pairs.
pub(super) fn layers(gemma: &Gemma2) -> Result<Vec<Arc<dyn Layer>>, Invalid> {
    rotation::check("model.head_width", gemma.head_width)?;
    let rotation = Arc::new(Rotation::new(gemma.seq_len, gemma.head_width, gemma.rotary_base, None));
    let vocabulary = Vocabulary {
        entries: gemma.vocab as usize,
        hidden: gemma.hidden as usize,
        tokens: "model.embed_tokens.weight",
        scores: (!gemma.tied_head).then_some("lm_head.weight"),
    };
    let scale = (gemma.hidden as f64).sqrt();
    let mut layers = vec![vocabulary.embedding(Some(scale), Shares::from(gemma.dropout).embedding)];
    layers.extend((0..gemma.layers).map(|index| Arc::new(Block::new(gemma, index, &rotation)) as Arc<dyn Layer>));
    let mut slots = Slots::new("");
    let norm = slots.centred_rms_norm("model.norm", vocabulary.hidden, gemma.norm_epsilon);
    layers.push(vocabulary.head(slots, move |weights, rows| norm.forward(weights, rows), gemma.logit_cap));
    Ok(layers)
}

/// Attention, then the feed-forward part, each between two normalisations.
struct Block {
    parameters: Vec<Parameter>,
    heads: HeadShape,
    mask: Mask,
    rotation: Arc<Rotation>,
    before_attention: CentredRmsNorm,
    queries: Linear,
    keys: Linear,
    values: Linear,
    projection: Linear,
    behind_attention: CentredRmsNorm,
    before_feed_forward: CentredRmsNorm,
    gate: Linear,
    up: Linear,
    down: Linear,
    behind_feed_forward: CentredRmsNorm,
    dropout: f64,
}

impl Block {
    fn new(gemma: &Gemma2, index: u32, rotation: &Arc<Rotation>) -> Self {
        let (hidden, ffn) = (gemma.hidden as usize, gemma.ffn as usize);
        let shares = Shares::from(gemma.dropout);
        let cap = gemma.score_cap.map(|cap| cap as f32);
        let heads = HeadShape {
            keys: gemma.kv_heads as usize,
            scores: Scores { cap, ..Scores::of_width(gemma.query_scalar as usize) },
            ..HeadShape::equal(gemma.heads as usize, gemma.head_width as usize, shares.attention)
        };
        let (wide, narrow) = (heads.queries * heads.width, heads.keys * heads.width);
        let mut slots = Slots::new(format!("model.layers.{index}."));
        let norm = |slots: &mut Slots, name: &str| slots.centred_rms_norm(name, hidden, gemma.norm_epsilon);
        let columns = |slots: &mut Slots, name: &str, width| slots.product(name, hidden, width, NORMAL, Cut::Columns);
        let before_attention = norm(&mut slots, "input_layernorm");
        let queries = columns(&mut slots, "self_attn.q_proj", wide);
        let keys = columns(&mut slots, "self_attn.k_proj", narrow);
        let values = columns(&mut slots, "self_attn.v_proj", narrow);
        let projection = slots.product("self_attn.o_proj", wide, hidden, NORMAL, Cut::Rows);
        let behind_attention = norm(&mut slots, "post_attention_layernorm");
        let before_feed_forward = norm(&mut slots, "pre_feedforward_layernorm");
        let gate = columns(&mut slots, "mlp.gate_proj", ffn);
        let up = columns(&mut slots, "mlp.up_proj", ffn);
        let down = slots.product("mlp.down_proj", ffn, hidden, NORMAL, Cut::Rows);
        let behind_feed_forward = norm(&mut slots, "post_feedforward_layernorm");
        Self {
            parameters: slots.parameters(),
            heads,
            mask: gemma.window_of(index).map_or(Mask::Causal, |window| Mask::Window(window as usize)),
            rotation: rotation.clone(),
            before_attention,
            queries,
            keys,
            values,
            projection,
            behind_attention,
            before_feed_forward,
            gate,
            up,
            down,
            behind_feed_forward,
            dropout: shares.residual,
        }
    }

    /// (own tokens, hidden), normalised → the same.
    fn attention(&self, pass: &Pass, weights: &Weights, rows: Tensor<2>, samples: usize) -> Tensor<2> {
        let heads = self.heads.on_rank(pass);
        let rows = pass.tensor.enter(rows, samples);
        let queries = self.rotation.apply(pass, self.queries.forward(weights, rows.clone()), heads.queries);
        let keys = self.rotation.apply(pass, self.keys.forward(weights, rows.clone()), heads.keys);
        let values = self.values.forward(weights, rows);
        let context = attention(pass, [queries, keys, values], samples, heads, self.mask);
        self.projection.summed(pass, weights, context, samples)
    }

    /// (own tokens, hidden), normalised → the same.
    fn feed_forward(&self, pass: &Pass, weights: &Weights, rows: Tensor<2>, samples: usize) -> Tensor<2> {
        let rows = pass.tensor.enter(rows, samples);
        let gated = gelu_gated(self.gate.forward(weights, rows.clone()), self.up.forward(weights, rows));
        self.down.summed(pass, weights, gated, samples)
    }
}

impl Layer for Block {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, input: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let (stream, samples) = (rows::from_before(input), batch.samples);
        let rows = self.before_attention.forward(weights, stream.clone());
        let attended = self.behind_attention.forward(weights, self.attention(pass, weights, rows, samples));
        let stream = stream + pass.dropped(attended, self.dropout, Place::Attention, samples);
        let rows = self.before_feed_forward.forward(weights, stream.clone());
        let transformed = self.behind_feed_forward.forward(weights, self.feed_forward(pass, weights, rows, samples));
        stream + pass.dropped(transformed, self.dropout, Place::FeedForward, samples)
    }
}
