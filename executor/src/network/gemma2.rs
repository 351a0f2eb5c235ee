//! Decoders as Gemma 2: root-mean-square normalisation in front of each part and behind it, grouped-query attention with
//! bounded scores and a window in some blocks, feed-forward parts gated by GELU, bounded logits.
//!
//! Source: Gemma Team, arXiv:2408.00118, section 2. Names are those of transformers' `Gemma2ForCausalLM`.

use super::attention::{HeadShape, Mask, attention};
use super::dropout::{Place, Shares};
use super::operators::single;
use super::parts::{CentredRmsNorm, Cut, DEVIATION, Linear, Slots, gelu_gated, soft_cap};
use super::rotation::{self, Rotation};
use super::{Initial, Layer, Parameter, ParameterKey, Pass, Weights, rows};
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
    let mut layers: Vec<Arc<dyn Layer>> = vec![Arc::new(Embedding::new(gemma))];
    layers.extend((0..gemma.layers).map(|index| Arc::new(Block::new(gemma, index, &rotation)) as Arc<dyn Layer>));
    layers.push(Arc::new(Head::new(gemma)));
    Ok(layers)
}

/// The token table, whose rows are scaled up.
struct Embedding {
    parameters: Vec<Parameter>,
    vocabulary: usize,
    /// √hidden.
    scale: f64,
    dropout: f64,
}

const TABLE: usize = 0;
const TABLE_NAME: &str = "model.embed_tokens.weight";

impl Embedding {
    fn new(gemma: &Gemma2) -> Self {
        Self {
            parameters: vec![table(TABLE_NAME, gemma)],
            vocabulary: gemma.vocab as usize,
            scale: (gemma.hidden as f64).sqrt(),
            dropout: Shares::from(gemma.dropout).embedding,
        }
    }
}

/// Declares a table of (vocabulary, hidden), of which each rank has some entries.
fn table(name: &str, gemma: &Gemma2) -> Parameter {
    Parameter::new(name, &[gemma.vocab as usize, gemma.hidden as usize], NORMAL).split(0, 1)
}

impl Layer for Embedding {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, _: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let rows = rows::embed(pass, weights.get(TABLE), self.vocabulary, batch) * self.scale;
        pass.dropped(rows, self.dropout, Place::Embedding, batch.samples)
    }
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

/// The final normalisation and the bounded scores of the vocabulary.
struct Head {
    parameters: Vec<Parameter>,
    norm: CentredRmsNorm,
    /// (vocabulary, hidden), as the token table.
    table: usize,
    vocabulary: usize,
    cap: Option<f64>,
}

impl Head {
    fn new(gemma: &Gemma2) -> Self {
        let mut slots = Slots::new("");
        let norm = slots.centred_rms_norm("model.norm", gemma.hidden as usize, gemma.norm_epsilon);
        let table = slots.add(if gemma.tied_head {
            Parameter { tied_to: Some(ParameterKey::new(0, TABLE)), ..table(TABLE_NAME, gemma) }
        } else {
            table("lm_head.weight", gemma)
        });
        let (vocabulary, cap) = (gemma.vocab as usize, gemma.logit_cap);
        Self { parameters: slots.parameters(), norm, table, vocabulary, cap }
    }
}

impl Layer for Head {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, input: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let rows = self.norm.forward(weights, rows::from_before(input));
        let rows = pass.tensor.enter(rows, batch.samples);
        let scores = weights.tied_head(rows, self.table);
        let scores = match self.cap {
            Some(cap) => soft_cap(single(scores), cap),
            None => scores,
        };
        rows::scores_loss(pass, scores, self.vocabulary, batch)
    }
}
