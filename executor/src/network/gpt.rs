//! Decoders as GPT-2, with the parameters of Hugging Face's `GPT2LMHeadModel`.
//!
//! Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, section 2.3; how tensor
//! parallelism cuts them: Shoeybi et al., arXiv:1909.08053, section 3.

use super::attention::{HeadShape, Mask, attention};
use super::dropout::{Place, Shares};
use super::experts::{self, Expert, ExpertPart};
use super::operators::{self, Heads, cross_entropy, gelu, layer_norm};
use super::parameter::{Initial, Parameter, ParameterKey};
use super::parts::{Cut, Slots};
use super::{Layer, Pass, Weights, rows};
use crate::process_group::share;
use burn::tensor::Tensor;
use std::sync::Arc;
use trainyard_data::MicroBatch;
use trainyard_models::{Experts, Gpt, GptMoe};
use trainyard_units::Invalid;

/// GPT-2's layer norm epsilon.
const EPSILON: f64 = 1e-5;

/// Standard deviation of first values (Radford et al., 2019, section 2.3 and the published code).
const NORMAL: Initial = Initial::Normal(0.02);

/// Returns the layers of a decoder: embedding, blocks, head.
pub(super) fn layers(gpt: &Gpt) -> Vec<Arc<dyn Layer>> {
    layers_of(gpt, None, true)
}

/// Returns the layers of a decoder with experts in some of its blocks (Lepikhin et al., arXiv:2006.16668, section 2).
///
/// # Errors
///
/// When its experts are routed in groups of tokens.
pub(super) fn layers_with_experts(routed: &GptMoe) -> Result<Vec<Arc<dyn Layer>>, Invalid> {
    experts::check(routed.experts)?;
    Ok(layers_of(&routed.dense, Some(routed.experts), routed.tied_head))
}

fn layers_of(gpt: &Gpt, experts: Option<Experts>, tied_head: bool) -> Vec<Arc<dyn Layer>> {
    let embedding: Arc<dyn Layer> = Arc::new(Embedding(gpt.clone()));
    let block = |index| Arc::new(Block::new(gpt, index, experts)) as Arc<dyn Layer>;
    let head: Arc<dyn Layer> = Arc::new(Head { gpt: gpt.clone(), tied: tied_head });
    std::iter::once(embedding).chain((0..gpt.layers).map(block)).chain(std::iter::once(head)).collect()
}

/// Token and position tables.
struct Embedding(Gpt);

/// Attention, then the feed-forward part, each on a normalised copy of the residual stream.
struct Block {
    gpt: Gpt,
    parameters: Vec<Parameter>,
    /// In place of the feed-forward part.
    experts: Option<ExpertPart>,
}

/// Final normalisation and the head, which may be tied to the token table.
struct Head {
    gpt: Gpt,
    tied: bool,
}

fn norm(name: &str, width: usize) -> [Parameter; 2] {
    [
        Parameter::new(format!("{name}.weight"), &[width], Initial::Ones).single(),
        Parameter::new(format!("{name}.bias"), &[width], Initial::Zeros).single(),
    ]
}

impl Layer for Embedding {
    fn parameters(&self) -> Vec<Parameter> {
        let Gpt { vocab, seq_len, hidden, .. } = self.0;
        vec![
            Parameter::new("wte.weight", &[vocab as usize, hidden as usize], NORMAL).split(0, 1),
            Parameter::new("wpe.weight", &[seq_len as usize, hidden as usize], NORMAL),
        ]
    }

    fn forward(&self, pass: &Pass, weights: &Weights, _: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let rows = rows::embed(pass, weights.get(0), self.0.vocab as usize, batch);
        let rows = rows::add_positions(pass, rows, weights.get(1), batch);
        pass.dropped(rows, Shares::from(self.0.dropout).embedding, Place::Embedding, batch.samples)
    }
}

impl Block {
    fn new(gpt: &Gpt, index: u32, experts: Option<Experts>) -> Self {
        let (hidden, ffn) = (gpt.hidden as usize, gpt.ffn as usize);
        let mut parameters = dense_parameters(gpt, index);
        let experts = experts.filter(|experts| experts.are_in(index)).map(|experts| {
            parameters.truncate(FEED_FORWARD);
            let mut slots = Slots::behind(std::mem::take(&mut parameters), format!("h.{index}.moe."));
            let expert = |slots: &mut Slots, number: usize| Expert::Relu {
                expand: slots.product(&format!("experts.{number}.c_fc"), hidden, ffn, NORMAL, Cut::Columns),
                contract: slots.product(&format!("experts.{number}.c_proj"), ffn, hidden, residual(gpt), Cut::Rows),
            };
            let part = ExpertPart::new(&mut slots, "gate", (hidden, experts), expert);
            parameters = slots.parameters();
            part
        });
        Self { gpt: gpt.clone(), parameters, experts }
    }
}

/// The first slot of the feed-forward part.
const FEED_FORWARD: usize = 8;

/// The residual stream sums one projection per half block; scaling them keeps its variance (GPT-2, section 2.3).
fn residual(gpt: &Gpt) -> Initial {
    Initial::Normal(0.02 / (2.0 * f64::from(gpt.layers)).sqrt())
}

/// Declares the parameters of a block without experts.
fn dense_parameters(gpt: &Gpt, index: u32) -> Vec<Parameter> {
    let (hidden, ffn) = (gpt.hidden as usize, gpt.ffn as usize);
    let prefix = format!("h.{index}");
    let residual = residual(gpt);
    let weight = |name: &str, inputs, outputs, initial| {
        Parameter::new(format!("{prefix}.{name}.weight"), &[inputs, outputs], initial)
    };
    let bias = |name: &str, outputs| Parameter::new(format!("{prefix}.{name}.bias"), &[outputs], Initial::Zeros);
    let [scale_1, shift_1] = norm(&format!("{prefix}.ln_1"), hidden);
    let [scale_2, shift_2] = norm(&format!("{prefix}.ln_2"), hidden);
    vec![
        scale_1,
        shift_1,
        weight("attn.c_attn", hidden, 3 * hidden, NORMAL).split(1, 3),
        bias("attn.c_attn", 3 * hidden).split(0, 3),
        weight("attn.c_proj", hidden, hidden, residual).split(0, 1),
        bias("attn.c_proj", hidden),
        scale_2,
        shift_2,
        weight("mlp.c_fc", hidden, ffn, NORMAL).split(1, 1),
        bias("mlp.c_fc", ffn).split(0, 1),
        weight("mlp.c_proj", ffn, hidden, residual).split(0, 1),
        bias("mlp.c_proj", hidden),
    ]
}

impl Layer for Block {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, input: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let stream = input.expect("a block follows another layer");
        let (group, samples) = (&pass.tensor, batch.samples);
        let normal = layer_norm(stream.clone(), weights.get(0), weights.get(1), EPSILON);
        let qkv = weights.linear(group.enter(normal, samples), 2, Some(3));
        let context = self.attention(pass, qkv, samples);
        let Shares { residual, .. } = self.gpt.dropout.into();
        let attended = project(group, context, weights, 4, samples);
        let stream = stream + pass.dropped(attended, residual, Place::Attention, samples);
        let normal = layer_norm(stream.clone(), weights.get(6), weights.get(7), EPSILON);
        let transformed = if let Some(experts) = &self.experts {
            experts.forward(pass, weights, normal, samples)
        } else {
            let expanded = gelu(weights.linear(group.enter(normal, samples), FEED_FORWARD, Some(FEED_FORWARD + 1)));
            project(group, expanded, weights, 10, samples)
        };
        stream + pass.dropped(transformed, residual, Place::FeedForward, samples)
    }
}

impl Block {
    /// (tokens, 3 × width), queries, keys and values side by side → (tokens, width).
    fn attention(&self, pass: &Pass, qkv: Tensor<2>, samples: usize) -> Tensor<2> {
        let heads = self.gpt.heads as usize / pass.tensor.size();
        let Shares { attention: share, .. } = self.gpt.dropout.into();
        if pass.context.size() == 1 {
            let heads = Heads { samples, count: heads, dropout: pass.weights_mask(share, heads) };
            return pass.core([qkv], move |[qkv]| operators::attention(qkv, heads));
        }
        let width = qkv.dims()[1] / 3;
        let parts = [0, 1, 2].map(|part| qkv.clone().narrow(1, part * width, width));
        let shape = HeadShape::equal(heads, width / heads, share);
        attention(pass, parts, samples, shape, Mask::Causal)
    }
}

/// Computes a product whose partial sums the ranks add up; the bias is added once, afterwards.
fn project(group: &super::TensorGroup, rows: Tensor<2>, weights: &Weights, slot: usize, samples: usize) -> Tensor<2> {
    if group.size() == 1 {
        return weights.linear(rows, slot, Some(slot + 1));
    }
    group.leave(weights.linear(rows, slot, None), samples) + weights.get::<1>(slot + 1).unsqueeze::<2>()
}

impl Layer for Head {
    fn parameters(&self) -> Vec<Parameter> {
        let Gpt { vocab, hidden, .. } = self.gpt;
        let [scale, shift] = norm("ln_f", hidden as usize);
        let table = Parameter::new("lm_head.weight", &[vocab as usize, hidden as usize], NORMAL).split(0, 1);
        vec![scale, shift, Parameter { tied_to: self.tied.then(|| ParameterKey::new(0, 0)), ..table }]
    }

    fn forward(&self, pass: &Pass, weights: &Weights, input: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let stream = input.expect("the head follows another layer");
        let normal = layer_norm(stream, weights.get(0), weights.get(1), EPSILON);
        let logits = weights.tied_head(pass.tensor.enter(normal, batch.samples), 2);
        let first = share(self.gpt.vocab as usize, pass.tensor.size(), pass.tensor.rank()).start;
        cross_entropy(logits, &batch.targets, first, &pass.tensor)
    }
}

#[cfg(test)]
mod tests {
    use crate::network::Network;
    use trainyard_models::{AttentionKernel, Dropout, Gpt, Model};

    #[test]
    fn the_parameters_are_those_that_the_description_counts() {
        let gpt = Gpt {
            name: "test".into(),
            layers: 3,
            hidden: 8,
            heads: 2,
            ffn: 24,
            vocab: 256,
            seq_len: 16,
            attention: AttentionKernel::Unfused,
            dropout: Dropout::default(),
        };
        let model = Model::Gpt(gpt);
        let (network, graph) = (Network::new(&model).expect("it is built"), model.graph());
        assert_eq!(network.len(), graph.len());
        let count: usize = network.keys().map(|key| network.parameter(key).elements()).sum();
        assert_eq!(count as u64, graph.parameters());
        let mut names: Vec<_> = network.keys().map(|key| network.parameter(key).name.clone()).collect();
        let tensors: u32 = graph.layers().map(trainyard_models::Layer::parameter_tensors).sum();
        assert_eq!(names.len() as u32, tensors);
        assert!(names.contains(&"h.2.mlp.c_proj.weight".into()), "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len() as u32, tensors);
    }
}
