//! Encoders as BERT, trained on masked tokens: learned positions and segments, normalisation after each part.
//!
//! Source: Devlin et al., arXiv:1810.04805, sections 3 and 3.1. Names are those of transformers' `BertForMaskedLM`.

use super::dropout::{Place, Shares};
use super::encoder::{EPSILON, FeedForward, SelfAttention};
use super::parts::{Cut, DEVIATION, LayerNorm, Linear, Slots, gelu};
use super::{Initial, Layer, Parameter, ParameterKey, Pass, Weights, rows};
use burn::tensor::Tensor;
use std::sync::Arc;
use trainyard_data::MicroBatch;
use trainyard_models::{Bert, HeadKind};
use trainyard_units::Invalid;

const NORMAL: Initial = Initial::Normal(DEVIATION);

/// Returns the layers of an encoder with the head of masked tokens, as its description counts them.
///
/// # Errors
///
/// When it has another head.
pub(super) fn layers(bert: &Bert) -> Result<Vec<Arc<dyn Layer>>, Invalid> {
    if bert.head != HeadKind::MaskedLanguageModel {
        return Err(Invalid::breaks("model.head", bert.head, "encoders of text are trained on masked tokens only")
            .with_hint("set head = \"masked-language-model\""));
    }
    let mut layers: Vec<Arc<dyn Layer>> = vec![Arc::new(Embedding::new(bert))];
    layers.extend((0..bert.layers).map(|index| Arc::new(Block::new(bert, index)) as Arc<dyn Layer>));
    layers.push(Arc::new(Head::new(bert)));
    Ok(layers)
}

/// Token, position and segment tables, of whose segments only the first is used.
struct Embedding {
    parameters: Vec<Parameter>,
    vocabulary: usize,
    positions: usize,
    segments: usize,
    norm: LayerNorm,
    dropout: f64,
}

/// The slot of the token table, to which the head is tied.
const TABLE: usize = 0;

fn table(bert: &Bert) -> Parameter {
    let shape = [bert.vocab as usize, bert.hidden as usize];
    Parameter::new("bert.embeddings.word_embeddings.weight", &shape, NORMAL).split(0, 1)
}

impl Embedding {
    fn new(bert: &Bert) -> Self {
        let hidden = bert.hidden as usize;
        let mut slots = Slots::new("bert.embeddings.");
        slots.add(table(bert));
        let mut add = |name: &str, entries: u64| {
            let name = slots.name(name);
            slots.add(Parameter::new(name, &[entries as usize, hidden], NORMAL))
        };
        let positions = add("position_embeddings.weight", bert.positions);
        let segments = add("token_type_embeddings.weight", bert.type_vocab);
        let norm = slots.layer_norm("LayerNorm", hidden, EPSILON);
        Self {
            parameters: slots.parameters(),
            vocabulary: bert.vocab as usize,
            positions,
            segments,
            norm,
            dropout: Shares::from(bert.dropout).embedding,
        }
    }
}

impl Layer for Embedding {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, _: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let rows = rows::embed(pass, weights.get(TABLE), self.vocabulary, batch);
        let segment = weights.get::<2>(self.segments).narrow(0, 0, 1);
        let rows = rows::add_positions(pass, rows, weights.get(self.positions), batch) + segment;
        pass.dropped(self.norm.forward(weights, rows), self.dropout, Place::Embedding, batch.samples)
    }
}

/// Attention and the feed-forward part; what each adds to the residual stream is normalised together with it.
struct Block {
    parameters: Vec<Parameter>,
    attention: SelfAttention,
    norm_1: LayerNorm,
    feed_forward: FeedForward,
    norm_2: LayerNorm,
    dropout: f64,
}

impl Block {
    fn new(bert: &Bert, index: u32) -> Self {
        let (hidden, dropout) = (bert.hidden as usize, Shares::from(bert.dropout));
        let mut slots = Slots::new(format!("bert.encoder.layer.{index}."));
        let attention =
            SelfAttention::new(&mut slots, "attention.self", hidden, (bert.heads as usize, dropout.attention));
        let norm_1 = slots.layer_norm("attention.output.LayerNorm", hidden, EPSILON);
        let feed_forward = FeedForward::new(&mut slots, hidden, bert.ffn as usize);
        let norm_2 = slots.layer_norm("output.LayerNorm", hidden, EPSILON);
        let dropout = dropout.residual;
        Self { parameters: slots.parameters(), attention, norm_1, feed_forward, norm_2, dropout }
    }
}

impl Layer for Block {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, input: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let (stream, samples) = (rows::from_before(input), batch.samples);
        let attended = self.attention.forward(pass, weights, stream.clone(), samples);
        let attended = pass.dropped(attended, self.dropout, Place::Attention, samples);
        let stream = self.norm_1.forward(weights, stream + attended);
        let transformed = self.feed_forward.forward(pass, weights, stream.clone(), samples);
        let transformed = pass.dropped(transformed, self.dropout, Place::FeedForward, samples);
        self.norm_2.forward(weights, stream + transformed)
    }
}

/// A product, a GELU and a normalisation of the masked tokens, then their scores from the token table.
struct Head {
    parameters: Vec<Parameter>,
    transform: Linear,
    norm: LayerNorm,
    bias: usize,
    table: usize,
    vocabulary: usize,
}

impl Head {
    fn new(bert: &Bert) -> Self {
        let hidden = bert.hidden as usize;
        let mut slots = Slots::new("cls.predictions.");
        let transform = slots.linear("transform.dense", hidden, hidden, NORMAL, Cut::Whole);
        let norm = slots.layer_norm("transform.LayerNorm", hidden, EPSILON);
        let bias = Parameter::new(slots.name("bias"), &[bert.vocab as usize], Initial::Zeros).split(0, 1);
        let bias = slots.add(bias);
        let table = slots.add(Parameter { tied_to: Some(ParameterKey::new(0, TABLE)), ..table(bert) });
        Self { parameters: slots.parameters(), transform, norm, bias, table, vocabulary: bert.vocab as usize }
    }

    fn transformed(&self, weights: &Weights, rows: Tensor<2>) -> Tensor<2> {
        self.norm.forward(weights, gelu(self.transform.forward(weights, rows)))
    }
}

impl Layer for Head {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, input: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let rows = rows::from_before(input);
        let rows = if pass.tensor.shares_tokens() {
            // No rank has all masked tokens before the tokens are gathered.
            let rows = pass.tensor.enter(self.transformed(weights, rows), batch.samples);
            rows::scored_rows(pass, rows, batch)
        } else {
            let rows = self.transformed(weights, rows::scored_rows(pass, rows, batch));
            pass.tensor.enter(rows, batch.samples)
        };
        let scores = weights.tied_head(rows, self.table) + weights.get::<1>(self.bias).unsqueeze::<2>();
        rows::scores_loss(pass, scores, self.vocabulary, batch)
    }
}
