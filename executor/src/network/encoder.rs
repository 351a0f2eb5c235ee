//! What encoders have in common: self-attention over all tokens and a feed-forward part, under transformers' names.

use super::attention::{HeadShape, Mask, attention};
use super::parts::{Cut, DEVIATION, Linear, Slots, gelu};
use super::{Initial, Pass, Weights};
use burn::tensor::Tensor;

/// The epsilon of the layer norms of BERT and of vision transformers.
pub(super) const EPSILON: f64 = 1e-12;

const NORMAL: Initial = Initial::Normal(DEVIATION);

/// Attention of every token to every token, with biases.
#[derive(Clone, Copy, Debug)]
pub(super) struct SelfAttention {
    heads: HeadShape,
    queries: Linear,
    keys: Linear,
    values: Linear,
    projection: Linear,
}

impl SelfAttention {
    /// Declares its products: those of queries, keys and values under `inner`. A share of the heads' weights is dropped out.
    pub(super) fn new(slots: &mut Slots, inner: &str, hidden: usize, (heads, dropout): (usize, f64)) -> Self {
        let heads = HeadShape::equal(heads, hidden / heads, dropout);
        let mut product = |name: &str| slots.linear(&format!("{inner}.{name}"), hidden, hidden, NORMAL, Cut::Columns);
        let (queries, keys, values) = (product("query"), product("key"), product("value"));
        let projection = slots.linear("attention.output.dense", hidden, hidden, NORMAL, Cut::Rows);
        Self { heads, queries, keys, values, projection }
    }

    /// (own tokens, hidden) → the same.
    pub(super) fn forward(self, pass: &Pass, weights: &Weights, rows: Tensor<2>, samples: usize) -> Tensor<2> {
        let rows = pass.tensor.enter(rows, samples);
        let queries = self.queries.forward(weights, rows.clone());
        let keys = self.keys.forward(weights, rows.clone());
        let values = self.values.forward(weights, rows);
        let heads = self.heads.on_rank(pass);
        let context = attention(pass, [queries, keys, values], samples, heads, Mask::Full);
        self.projection.summed(pass, weights, context, samples)
    }
}

/// Two products with a GELU between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct FeedForward {
    expand: Linear,
    contract: Linear,
}

impl FeedForward {
    pub(super) fn new(slots: &mut Slots, hidden: usize, ffn: usize) -> Self {
        Self {
            expand: slots.linear("intermediate.dense", hidden, ffn, NORMAL, Cut::Columns),
            contract: slots.linear("output.dense", ffn, hidden, NORMAL, Cut::Rows),
        }
    }

    /// (own tokens, hidden) → the same.
    pub(super) fn forward(self, pass: &Pass, weights: &Weights, rows: Tensor<2>, samples: usize) -> Tensor<2> {
        let rows = pass.tensor.enter(rows, samples);
        let expanded = gelu(self.expand.forward(weights, rows));
        self.contract.summed(pass, weights, expanded, samples)
    }
}
