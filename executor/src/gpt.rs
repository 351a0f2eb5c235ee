//! The decoder in Burn modules, as pipeline stages.
//!
//! A stage holds a run of the model's layers. The last of several stages holds a copy of the token table, because the
//! head is tied to it; the trainer sums the gradients of both copies, as Megatron-LM does, so that they stay equal.

use crate::kernels::{self, AttentionShape};
use crate::parameters::{ParameterKey, block, embedding, head};
use burn::module::{Module, Param};
use burn::nn::{LayerNorm, LayerNormConfig, Linear};
use burn::tensor::activation::{log_softmax, softmax};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use std::ops::Range;
use trainyard_models::Gpt;

/// GPT-2's layer norm epsilon.
const EPSILON: f64 = 1e-5;

/// Values of parameters by key: from a seed or from a checkpoint.
pub(crate) trait Values {
    /// The values of one parameter, outermost dimension first.
    fn of(&self, key: ParameterKey) -> Vec<f32>;
}

impl<F: Fn(ParameterKey) -> Vec<f32>> Values for F {
    fn of(&self, key: ParameterKey) -> Vec<f32> {
        self(key)
    }
}

/// What a stage works on.
#[derive(Clone, Debug)]
pub(crate) enum StageInput {
    /// Token ids, (samples, sequence), for the stage with the embedding.
    Tokens(Tensor<2, Int>),
    /// What the stage before computed, (samples, sequence, hidden).
    Activations(Tensor<3>),
}

/// A run of layers.
#[derive(Module, Debug)]
pub(crate) struct Stage {
    pub(crate) embedding: Option<Embedding>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) head: Option<Head>,
}

/// Token and position tables.
#[derive(Module, Debug)]
pub(crate) struct Embedding {
    tokens: Param<Tensor<2>>,
    positions: Param<Tensor<2>>,
}

/// Attention, then the feed-forward part, each on a normalised copy of the residual stream.
#[derive(Module, Debug)]
pub(crate) struct Block {
    norm_1: LayerNorm,
    qkv: Linear,
    projection: Linear,
    norm_2: LayerNorm,
    expand: Linear,
    contract: Linear,
    heads: usize,
}

/// Final normalisation and the head, which is tied to the token table.
#[derive(Module, Debug)]
pub(crate) struct Head {
    norm: LayerNorm,
    /// The copy of the token table; absent where the stage holds the table itself.
    table: Option<Param<Tensor<2>>>,
}

/// Makes modules from values.
pub(crate) struct Builder<'a, V> {
    pub(crate) gpt: &'a Gpt,
    pub(crate) device: &'a Device,
    pub(crate) values: V,
}

impl<V: Values> Builder<'_, V> {
    /// The stage with these layers of the model.
    pub(crate) fn stage(&self, layers: Range<usize>) -> Stage {
        let last = self.gpt.layers as usize + 1;
        Stage {
            embedding: layers.contains(&0).then(|| self.embedding()),
            blocks: layers.clone().filter(|layer| (1..last).contains(layer)).map(|layer| self.block(layer)).collect(),
            head: layers.contains(&last).then(|| self.head(!layers.contains(&0))),
        }
    }

    fn embedding(&self) -> Embedding {
        Embedding {
            tokens: self.parameter(ParameterKey::new(0, embedding::TOKENS)),
            positions: self.parameter(ParameterKey::new(0, embedding::POSITIONS)),
        }
    }

    fn block(&self, layer: usize) -> Block {
        let key = |slot| ParameterKey::new(layer, slot);
        Block {
            norm_1: self.norm(key(block::NORM_1)),
            qkv: self.linear(key(block::QKV)),
            projection: self.linear(key(block::PROJECTION)),
            norm_2: self.norm(key(block::NORM_2)),
            expand: self.linear(key(block::EXPAND)),
            contract: self.linear(key(block::CONTRACT)),
            heads: self.gpt.heads as usize,
        }
    }

    fn head(&self, copy: bool) -> Head {
        let key = |slot| ParameterKey::new(self.gpt.layers as usize + 1, slot);
        Head { norm: self.norm(key(head::NORM)), table: copy.then(|| self.parameter(key(head::TIED))) }
    }

    fn linear(&self, weight: ParameterKey) -> Linear {
        let bias = ParameterKey { slot: weight.slot + 1, ..weight };
        Linear { weight: self.parameter(weight), bias: Some(self.parameter(bias)) }
    }

    fn norm(&self, scale: ParameterKey) -> LayerNorm {
        let mut norm = LayerNormConfig::new(self.gpt.hidden as usize).with_epsilon(EPSILON).init(self.device);
        norm.gamma = self.parameter(scale);
        norm.beta = Some(self.parameter(ParameterKey { slot: scale.slot + 1, ..scale }));
        norm
    }

    fn parameter<const D: usize>(&self, key: ParameterKey) -> Param<Tensor<D>> {
        let shape = key.describe(self.gpt).shape;
        let tensor = Tensor::from_data(TensorData::new(self.values.of(key), shape), self.device);
        Param::initialized(key.id(), tensor.require_grad())
    }
}

impl Stage {
    /// The activations behind the stage's embedding and blocks, (samples, sequence, hidden).
    pub(crate) fn activations(&self, input: StageInput, _mask: &Tensor<4, Bool>) -> Tensor<3> {
        let stream = match (input, &self.embedding) {
            (StageInput::Tokens(tokens), Some(embedding)) => embedding.forward(tokens),
            (StageInput::Activations(activations), None) => activations,
            _ => unreachable!("the first stage, and no other, reads tokens"),
        };
        let [samples, sequence, hidden] = stream.dims();
        let mut rows = stream.flatten::<2>(0, 1);
        for block in &self.blocks {
            rows = block.forward(rows, samples);
        }
        rows.reshape([samples, sequence, hidden])
    }

    /// The mean loss over all tokens, for the stage with the head.
    pub(crate) fn loss(&self, activations: Tensor<3>, targets: Tensor<1, Int>) -> Tensor<1> {
        let head = self.head.as_ref().expect("the last stage has the head");
        let own = head.table.as_ref().map(Param::val);
        let table = own.unwrap_or_else(|| self.tokens().expect("a head without a copy stands beside the table"));
        let rows = norm(activations.flatten::<2>(0, 1), &head.norm);
        kernels::cross_entropy(kernels::linear_transposed(rows, table), targets).reshape([1])
    }

    /// The token table, where the stage has the embedding.
    fn tokens(&self) -> Option<Tensor<2>> {
        self.embedding.as_ref().map(|embedding| embedding.tokens.val())
    }
}

impl Embedding {
    /// (samples, sequence) → (samples, sequence, hidden).
    pub(crate) fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        embed(tokens, self.tokens.val(), self.positions.val())
    }
}

impl Block {
    /// (samples × sequence, hidden) → the same.
    pub(crate) fn forward(&self, stream: Tensor<2>, samples: usize) -> Tensor<2> {
        let sequence = stream.dims()[0] / samples;
        let shape = AttentionShape { samples, sequence, heads: self.heads, groups: self.heads, causal: true };
        let context = kernels::packed_attention(linear(norm(stream.clone(), &self.norm_1), &self.qkv), &shape);
        let stream = stream + linear(context, &self.projection);
        let expanded = kernels::gelu(linear(norm(stream.clone(), &self.norm_2), &self.expand));
        stream + linear(expanded, &self.contract)
    }
}

fn norm(x: Tensor<2>, norm: &LayerNorm) -> Tensor<2> {
    kernels::layer_norm(x, norm.gamma.val(), norm.beta.as_ref().expect("GPT-2's norms shift").val(), EPSILON)
}

fn linear(x: Tensor<2>, linear: &Linear) -> Tensor<2> {
    kernels::linear(x, linear.weight.val(), linear.bias.as_ref().map(Param::val))
}

/// Rows of the token table plus positions.
pub(crate) fn embed(tokens: Tensor<2, Int>, table: Tensor<2>, positions: Tensor<2>) -> Tensor<3> {
    burn::tensor::module::embedding(table, tokens) + positions.unsqueeze::<3>()
}

/// `true` where attention must not look: at later tokens. (1, 1, sequence, sequence)
pub(crate) fn causal_mask(sequence: usize, device: &Device) -> Tensor<4, Bool> {
    // `tril_mask` is false on and below the diagonal.
    Tensor::<2, Bool>::tril_mask([sequence, sequence], 0, device).unsqueeze::<4>()
}

/// Causal scaled dot-product attention: (samples, sequence, 3 × hidden) → (samples, sequence, hidden).
pub(crate) fn attention(qkv: Tensor<3>, heads: usize, mask: &Tensor<4, Bool>) -> Tensor<3> {
    let [samples, sequence, width] = qkv.dims();
    let hidden = width / 3;
    let head_width = hidden / heads;
    let part = move |index: usize| {
        qkv.clone().narrow(2, index * hidden, hidden).reshape([samples, sequence, heads, head_width]).swap_dims(1, 2)
    };
    // Scaling the queries is cheaper than scaling the scores.
    let queries = part(0) * (1.0 / (head_width as f64).sqrt());
    let scores = queries.matmul(part(1).transpose()).mask_fill(mask.clone(), f32::NEG_INFINITY);
    softmax(scores, 3).matmul(part(2)).swap_dims(1, 2).reshape([samples, sequence, hidden])
}

/// Logits: (rows, hidden) · (vocabulary, hidden)ᵀ.
pub(crate) fn tied_head(rows: Tensor<2>, table: Tensor<2>) -> Tensor<2> {
    rows.matmul(table.transpose())
}

/// Mean softmax cross-entropy of (rows, vocabulary) logits, in nats.
pub(crate) fn cross_entropy(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    log_softmax(logits, 1).gather(1, targets.unsqueeze_dim(1)).mean().neg()
}
