//! Attention with as many heads of keys and values as a model has, and with any of the masks that models use.

use super::Pass;
use super::operators::single;
use crate::kernels::{self, AttentionShape, DropoutMask, Scores, Sees};
use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Device, FloatDType, Tensor, TensorData};

/// The heads of an attention part.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadShape {
    pub(super) queries: usize,
    /// Heads of keys and of values, each shared by equally many heads of queries.
    pub(super) keys: usize,
    /// Features of a head.
    pub(super) width: usize,
    pub(super) scores: Scores,
    /// Share of the weights that is dropped out.
    pub(super) dropout: f64,
}

impl HeadShape {
    /// Returns as many heads of queries as of keys, whose scores are products over √width.
    pub(super) fn equal(heads: usize, width: usize, dropout: f64) -> Self {
        Self { queries: heads, keys: heads, width, scores: Scores::of_width(width), dropout }
    }

    /// Returns the heads of one of the ranks that share the layer's weights.
    pub(super) fn on_rank(self, pass: &Pass) -> Self {
        let ranks = pass.tensor.size();
        Self { queries: self.queries / ranks, keys: self.keys / ranks, ..self }
    }

    fn in_samples(self, samples: usize, sequence: usize, sees: Sees, dropout: Option<DropoutMask>) -> AttentionShape {
        let Self { queries, keys, scores, .. } = self;
        AttentionShape { samples, sequence, heads: queries, groups: keys, scores, sees, dropout }
    }
}

/// The tokens that a query attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mask {
    /// Every token.
    Full,
    /// Its own token and those before it.
    Causal,
    /// Of those only the last so many, its own included (Beltagy et al., arXiv:2004.05150, section 3.1).
    Window(usize),
}

impl Mask {
    /// Returns the mask, `true` where attention must not look: (1, 1, sequence, sequence).
    fn hidden(self, sequence: usize, device: &Device) -> Option<Tensor<4, Bool>> {
        let reach = match self {
            Self::Full => return None,
            Self::Causal => sequence,
            Self::Window(tokens) => tokens,
        };
        let sees = |query: usize, key: usize| key <= query && query - key < reach;
        let hidden: Vec<bool> =
            (0..sequence).flat_map(|query| (0..sequence).map(move |key| !sees(query, key))).collect();
        Some(Tensor::from_data(TensorData::new(hidden, [1, 1, sequence, sequence]), device))
    }
}

/// Computes scaled dot-product attention of `samples` samples: queries (tokens, heads × width), keys and values
/// (tokens, heads of keys × width) → (tokens, heads × width). Scores are normalised in single precision. Where ranks
/// share the tokens of a sample, these are the own ones of each.
///
/// Source: Vaswani et al., arXiv:1706.03762, section 3.2.1; Ainslie et al., arXiv:2305.13245, for shared keys.
pub(super) fn attention(
    pass: &Pass,
    operands: [Tensor<2>; 3],
    samples: usize,
    heads: HeadShape,
    mask: Mask,
) -> Tensor<2> {
    let dropout = pass.weights_mask(heads.dropout, heads.queries);
    if pass.context.size() == 1 {
        return pass.core(operands, move |operands| core(operands, samples, heads, (mask, dropout)));
    }
    let group = pass.context.clone();
    let sequence = operands[0].dims()[0] / samples;
    let shape = heads.in_samples(samples, sequence, Sees::All, dropout);
    pass.core(operands, move |operands| group.attention(operands, shape, mask))
}

fn core(
    [queries, keys, values]: [Tensor<2>; 3],
    samples: usize,
    heads: HeadShape,
    (mask, dropout): (Mask, Option<DropoutMask>),
) -> Tensor<2> {
    let tokens = queries.dims()[0];
    let sees = match mask {
        Mask::Full => Some(Sees::All),
        Mask::Causal => Some(Sees::PAST),
        Mask::Window(reach) => (reach >= tokens / samples).then_some(Sees::PAST),
    };
    if let Some(sees) = sees {
        let sequence = tokens / samples;
        let shape = heads.in_samples(samples, sequence, sees, dropout);
        return kernels::attention(queries, keys, values, &shape);
    }
    let (sequence, group) = (tokens / samples, heads.queries / heads.keys);
    let dtype = FloatDType::from(queries.dtype());
    // The queries of a group are rows of one product with the keys that they share.
    let scaled = queries * heads.scores.scale;
    let scaled = scaled.reshape([samples, sequence, heads.keys, group, heads.width]).permute([0, 2, 3, 1, 4]);
    let scaled = scaled.reshape([samples, heads.keys, group * sequence, heads.width]);
    let apart = |rows: Tensor<2>| rows.reshape([samples, sequence, heads.keys, heads.width]).swap_dims(1, 2);
    let scores = heads.scores.bounded(single(kernels::matrix_product(scaled, apart(keys).transpose())));
    let scores = scores.reshape([samples * heads.keys, group, sequence, sequence]);
    let scores = match mask.hidden(sequence, &scores.device()) {
        Some(hidden) => {
            scores.mask_fill(hidden.expand([samples * heads.keys, group, sequence, sequence]), f32::NEG_INFINITY)
        }
        None => scores,
    };
    let mut shares = softmax(scores, 3);
    if let Some(mask) = dropout {
        shares = kernels::drop_weights(shares, [samples, heads.queries, sequence, sequence], &mask);
    }
    let shares = shares.cast(dtype).reshape([samples, heads.keys, group * sequence, sequence]);
    let context = kernels::matrix_product(shares, apart(values));
    let context = context.reshape([samples, heads.keys, group, sequence, heads.width]).permute([0, 3, 1, 2, 4]);
    context.reshape([tokens, heads.queries * heads.width])
}
