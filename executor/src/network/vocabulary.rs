//! The two ends of a decoder: the table of its tokens, and the scores of its vocabulary, which may be the same table.

use super::dropout::Place;
use super::operators::single;
use super::parts::{DEVIATION, Slots, soft_cap};
use super::{Initial, Layer, Parameter, ParameterKey, Pass, Weights, rows};
use burn::tensor::Tensor;
use std::sync::Arc;
use trainyard_data::MicroBatch;

/// The slot of the token table, which is all that its layer has.
const TABLE: usize = 0;

/// A vocabulary with its tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vocabulary {
    /// Entries of a table.
    pub(super) entries: usize,
    /// Features of an entry.
    pub(super) hidden: usize,
    /// The name of the token table.
    pub(super) tokens: &'static str,
    /// The name of the table of the scores; that of the tokens if there is none.
    pub(super) scores: Option<&'static str>,
}

impl Vocabulary {
    /// Declares a table of (vocabulary, hidden), of which each rank has some entries.
    fn table(self, name: &str) -> Parameter {
        Parameter::new(name, &[self.entries, self.hidden], Initial::Normal(DEVIATION)).split(0, 1)
    }

    /// Returns the first layer, whose rows are multiplied by `scale` if there is one.
    pub(super) fn embedding(self, scale: Option<f64>, dropout: f64) -> Arc<dyn Layer> {
        Arc::new(Embedding { parameters: vec![self.table(self.tokens)], entries: self.entries, scale, dropout })
    }

    /// Returns the last layer, whose scores are bounded by `cap` if there is one. The final normalisation is that of
    /// `slots`, which has nothing else.
    pub(super) fn head<N>(self, mut slots: Slots, norm: N, cap: Option<f64>) -> Arc<dyn Layer>
    where
        N: Fn(&Weights, Tensor<2>) -> Tensor<2> + Send + Sync + 'static,
    {
        let table = slots.add(match self.scores {
            Some(name) => self.table(name),
            None => Parameter { tied_to: Some(ParameterKey::new(0, TABLE)), ..self.table(self.tokens) },
        });
        Arc::new(Head { parameters: slots.parameters(), norm, table, entries: self.entries, cap })
    }
}

/// The token table.
struct Embedding {
    parameters: Vec<Parameter>,
    entries: usize,
    scale: Option<f64>,
    dropout: f64,
}

impl Layer for Embedding {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, _: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let rows = rows::embed(pass, weights.get(TABLE), self.entries, batch);
        let rows = match self.scale {
            Some(scale) => rows * scale,
            None => rows,
        };
        pass.dropped(rows, self.dropout, Place::Embedding, batch.samples)
    }
}

/// The final normalisation and the scores of the vocabulary.
struct Head<N> {
    parameters: Vec<Parameter>,
    norm: N,
    /// The slot of the table of the scores.
    table: usize,
    entries: usize,
    cap: Option<f64>,
}

impl<N: Fn(&Weights, Tensor<2>) -> Tensor<2> + Send + Sync> Layer for Head<N> {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, input: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let rows = (self.norm)(weights, rows::from_before(input));
        let rows = pass.tensor.enter(rows, batch.samples);
        let scores = weights.tied_head(rows, self.table);
        let scores = match self.cap {
            Some(cap) => soft_cap(single(scores), cap),
            None => scores,
        };
        rows::scores_loss(pass, scores, self.entries, batch)
    }
}
