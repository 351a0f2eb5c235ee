//! Decoders as Llama 2 and 3, Mistral, Mixtral and Qwen 2 and 3: root-mean-square pre-normalisation, rotary positions,
//! grouped-query attention, gated feed-forward parts.
//!
//! Source: Touvron et al., arXiv:2307.09288, section 2.2; Jiang et al., arXiv:2310.06825, for the window, and
//! arXiv:2401.04088 for experts; Qwen team, arXiv:2407.10671, section 2.2.1, for biases, and arXiv:2505.09388, section 2,
//! for normalised heads. Names are those under which transformers saves `LlamaForCausalLM`, `MistralForCausalLM`,
//! `MixtralForCausalLM`, `Qwen2ForCausalLM` and `Qwen3ForCausalLM`.

use super::attention::{HeadShape, Mask, attention};
use super::dropout::{Place, Shares};
use super::experts::{self, Expert, ExpertPart};
use super::parts::{Cut, DEVIATION, Linear, RmsNorm, Slots, silu_gated};
use super::rotation::{self, Rotation};
use super::vocabulary::Vocabulary;
use super::{Initial, Layer, Parameter, Pass, Weights, rows};
use burn::tensor::Tensor;
use std::sync::Arc;
use trainyard_data::MicroBatch;
use trainyard_models::Llama;
use trainyard_units::Invalid;

const NORMAL: Initial = Initial::Normal(DEVIATION);

/// Returns the layers of a model, as its description counts them.
///
/// # Errors
///
/// When its experts are routed in groups of tokens, or it has heads whose features are not pairs.
pub(super) fn layers(llama: &Llama) -> Result<Vec<Arc<dyn Layer>>, Invalid> {
    if let Some(experts) = llama.experts {
        experts::check(experts)?;
    }
    rotation::check("model.head_width", llama.head_width)?;
    let vocabulary = Vocabulary {
        entries: llama.vocab as usize,
        hidden: llama.hidden as usize,
        tokens: "model.embed_tokens.weight",
        scores: (!llama.tied_head).then_some("lm_head.weight"),
    };
    let mut layers = vec![vocabulary.embedding(None, Shares::from(llama.dropout).embedding)];
    let rotation =
        Arc::new(Rotation::new(llama.seq_len, llama.head_width, llama.rotary_base, llama.rotary_scaling.as_ref()));
    layers.extend((0..llama.layers).map(|index| Arc::new(Block::new(llama, index, &rotation)) as Arc<dyn Layer>));
    let mut slots = Slots::new("");
    let norm = slots.rms_norm("model.norm", vocabulary.hidden, llama.norm_epsilon);
    layers.push(vocabulary.head(slots, move |weights, rows| norm.forward(weights, rows), None));
    Ok(layers)
}

/// Attention, then the feed-forward part, each on a normalised copy of the residual stream.
struct Block {
    parameters: Vec<Parameter>,
    heads: HeadShape,
    mask: Mask,
    rotation: Arc<Rotation>,
    norm_1: RmsNorm,
    queries: Linear,
    keys: Linear,
    values: Linear,
    /// Those of each head of queries and of keys, if they have any.
    head_norms: Option<[RmsNorm; 2]>,
    projection: Linear,
    norm_2: RmsNorm,
    feed_forward: FeedForward,
    dropout: f64,
}

/// What follows attention.
enum FeedForward {
    Dense { gate: Linear, up: Linear, down: Linear },
    Experts(ExpertPart),
}

impl FeedForward {
    fn new(slots: &mut Slots, llama: &Llama, index: u32) -> Self {
        let (hidden, ffn) = (llama.hidden as usize, llama.ffn as usize);
        let routed = llama.experts.filter(|experts| experts.are_in(index));
        let gated = |slots: &mut Slots, [gate, up, down]: [String; 3]| {
            let gate = slots.product(&gate, hidden, ffn, NORMAL, Cut::Columns);
            let up = slots.product(&up, hidden, ffn, NORMAL, Cut::Columns);
            (gate, up, slots.product(&down, ffn, hidden, NORMAL, Cut::Rows))
        };
        let Some(experts) = routed else {
            let (gate, up, down) = gated(slots, ["gate", "up", "down"].map(|name| format!("mlp.{name}_proj")));
            return Self::Dense { gate, up, down };
        };
        let expert = |slots: &mut Slots, number: usize| {
            let names = ["w1", "w3", "w2"].map(|name| format!("block_sparse_moe.experts.{number}.{name}"));
            let (gate, up, down) = gated(slots, names);
            Expert::Gated { gate, up, down }
        };
        Self::Experts(ExpertPart::new(slots, "block_sparse_moe.gate", (hidden, experts), expert))
    }

    /// (own tokens, hidden), normalised → the same.
    fn forward(&self, pass: &Pass, weights: &Weights, rows: Tensor<2>, samples: usize) -> Tensor<2> {
        match self {
            Self::Experts(part) => part.forward(pass, weights, rows, samples),
            Self::Dense { gate, up, down } => {
                let rows = pass.tensor.enter(rows, samples);
                let gated = silu_gated(gate.forward(weights, rows.clone()), up.forward(weights, rows));
                down.summed(pass, weights, gated, samples)
            }
        }
    }
}

impl Block {
    fn new(llama: &Llama, index: u32, rotation: &Arc<Rotation>) -> Self {
        let (hidden, shares) = (llama.hidden as usize, Shares::from(llama.dropout));
        let heads = HeadShape {
            keys: llama.kv_heads as usize,
            ..HeadShape::equal(llama.heads as usize, llama.head_width as usize, shares.attention)
        };
        let (wide, narrow) = (heads.queries * heads.width, heads.keys * heads.width);
        let mut slots = Slots::new(format!("model.layers.{index}."));
        let norm_1 = slots.rms_norm("input_layernorm", hidden, llama.norm_epsilon);
        let declare = if llama.qkv_bias { Slots::linear } else { Slots::product };
        let mut projected = |name, width| declare(&mut slots, name, hidden, width, NORMAL, Cut::Columns);
        let queries = projected("self_attn.q_proj", wide);
        let keys = projected("self_attn.k_proj", narrow);
        let values = projected("self_attn.v_proj", narrow);
        let mut head_norm = |name| slots.rms_norm(name, heads.width, llama.norm_epsilon);
        let head_norms = llama.query_key_norm.map(|_| ["self_attn.q_norm", "self_attn.k_norm"].map(&mut head_norm));
        let projection = slots.product("self_attn.o_proj", wide, hidden, NORMAL, Cut::Rows);
        let norm_2 = slots.rms_norm("post_attention_layernorm", hidden, llama.norm_epsilon);
        let feed_forward = FeedForward::new(&mut slots, llama, index);
        let mask = llama.window.map_or(Mask::Causal, |window| Mask::Window(window as usize));
        let (rotation, parameters) = (rotation.clone(), slots.parameters());
        Self {
            parameters,
            heads,
            mask,
            rotation,
            norm_1,
            queries,
            keys,
            values,
            head_norms,
            projection,
            norm_2,
            feed_forward,
            dropout: shares.residual,
        }
    }

    /// (tokens, hidden), normalised, all tokens → (tokens, own part of the heads).
    fn attention(&self, pass: &Pass, weights: &Weights, rows: Tensor<2>, samples: usize) -> Tensor<2> {
        let heads = self.heads.on_rank(pass);
        let queries = self.queries.forward(weights, rows.clone());
        let keys = self.keys.forward(weights, rows.clone());
        let values = self.values.forward(weights, rows);
        let (queries, keys) = match self.head_norms {
            Some([of_queries, of_keys]) => {
                (of_queries.by_head(pass, weights, queries), of_keys.by_head(pass, weights, keys))
            }
            None => (queries, keys),
        };
        let queries = self.rotation.apply(pass, queries, heads.queries);
        let keys = self.rotation.apply(pass, keys, heads.keys);
        attention(pass, [queries, keys, values], samples, heads, self.mask)
    }
}

impl Layer for Block {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, input: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let (stream, samples) = (rows::from_before(input), batch.samples);
        let rows = pass.tensor.enter(self.norm_1.forward(weights, stream.clone()), samples);
        let context = self.attention(pass, weights, rows, samples);
        let attended = self.projection.summed(pass, weights, context, samples);
        let stream = stream + pass.dropped(attended, self.dropout, Place::Attention, samples);
        let rows = self.norm_2.forward(weights, stream.clone());
        let transformed = self.feed_forward.forward(pass, weights, rows, samples);
        stream + pass.dropped(transformed, self.dropout, Place::FeedForward, samples)
    }
}
