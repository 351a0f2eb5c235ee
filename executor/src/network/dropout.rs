//! Where layers drop numbers out, and which of them: by the seed, the layer, the place in it, the sample's position in
//! the training, and the number's place in the whole tensor, so that every plan drops the same.

use super::Pass;
use crate::kernels::{self, DropoutMask, Every};
use burn::tensor::Tensor;
use trainyard_data::{Purpose, key};
use trainyard_models::Dropout;

/// A place of dropout in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Embedding,
    AttentionWeights,
    Attention,
    FeedForward,
    /// The inputs of the adapter whose first weight has this slot.
    Adapter(u32),
}

impl Place {
    fn number(self) -> u32 {
        match self {
            Self::Embedding => 0,
            Self::AttentionWeights => 1,
            Self::Attention => 2,
            Self::FeedForward => 3,
            Self::Adapter(slot) => 4 + slot,
        }
    }
}

/// The samples of one micro-batch in a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drawn {
    pub(crate) seed: u64,
    /// Index of the layer in the whole model.
    pub(crate) layer: usize,
    /// Position of the first sample in the order of training.
    pub(crate) first_sample: u64,
}

/// The shares that a network drops out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shares {
    pub(super) residual: f64,
    pub(super) attention: f64,
    pub(super) embedding: f64,
}

impl From<Dropout> for Shares {
    fn from(dropout: Dropout) -> Self {
        let [residual, attention, embedding] =
            [dropout.residual, dropout.attention, dropout.embedding].map(|share| share.unwrap_or(0.0));
        Self { residual, attention, embedding }
    }
}

impl Pass {
    fn whole_mask(&self, share: f64, place: Place) -> Option<DropoutMask> {
        let Drawn { seed, layer, first_sample } = self.drawn.filter(|_| share > 0.0)?;
        let purpose = Purpose::Dropout { layer: layer as u32, place: place.number() };
        Some(DropoutMask::new(share, key(seed, purpose), first_sample))
    }

    /// Drops a share of the own tokens' features out, (samples × own tokens, features), in training.
    pub(super) fn dropped(&self, rows: Tensor<2>, share: f64, place: Place, samples: usize) -> Tensor<2> {
        let Some(mask) = self.whole_mask(share, place) else { return rows };
        let own = rows.dims()[0] / samples;
        let start = if self.tensor.shares_tokens() { self.tensor.rank() * own } else { 0 };
        let step = self.context.size();
        let tokens = Every { first: start * step + self.context.first_token(), step };
        kernels::dropout(rows, samples, &DropoutMask { rows: tokens, ..mask })
    }

    /// Returns the mask of rows inside of tensor-parallel parts, where ranks have all tokens.
    pub(super) fn mask_of_all_tokens(&self, share: f64, place: Place) -> Option<DropoutMask> {
        let tokens = Every { first: self.context.first_token(), step: self.context.size() };
        self.whole_mask(share, place).map(|mask| DropoutMask { rows: tokens, ..mask })
    }

    /// Returns the mask of attention's weights for so many own heads of queries, and the own tokens as keys.
    pub(super) fn weights_mask(&self, share: f64, heads: usize) -> Option<DropoutMask> {
        let mask = self.whole_mask(share, Place::AttentionWeights)?;
        let tokens = Every { first: self.context.first_token(), step: self.context.size() };
        Some(DropoutMask { first_head: self.tensor.rank() * heads, rows: tokens, columns: tokens, ..mask })
    }
}
