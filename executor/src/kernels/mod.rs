//! Differentiable operators with hand-written forward and backward passes, for the processors of this machine.
//!
//! Each replaces a chain of Burn operators and gives the same results, to rounding. It goes through memory once where
//! the chain goes through it many times, saves for backward what cannot be recomputed cheaply, and writes a gradient
//! over the one it came from where nobody else holds that. On GPUs the chain itself runs, or an operator of `gpu`.
//!
//! All take rows of features, one row per token (transformers) or per sample, or images with the channels of a sample
//! one after another.

#![allow(clippy::inline_always, reason = "callers choose the vector instructions that these are compiled for")]
#![allow(clippy::excessive_precision, reason = "constants are those of their sources")]

mod activation;
mod attention;
mod batch_norm;
mod convolution;
mod dropout;
#[cfg(feature = "gpu")]
mod gpu;
mod halves;
mod linear;
mod loss;
mod normalization;
mod operation;
mod philox;
mod places;
mod pooling;
mod product;
mod rotation;
#[cfg(test)]
pub(crate) mod testing;
mod update;
mod vector;

pub(crate) use activation::{geglu_tanh, gelu, gelu_tanh, relu, soft_cap, swiglu};
pub(crate) use attention::{
    AttentionShape, Partial, Scores, Sees, attention, packed_attention, partial_attention, partial_gradients,
};
pub(crate) use batch_norm::batch_norm;
pub(crate) use convolution::{Strides, convolution};
pub(crate) use dropout::{DropoutMask, Every, drop_weights, dropout};
pub(crate) use linear::{linear, linear_transposed, matrix_product};
pub(crate) use loss::{cross_entropy, share_of_loss};
pub(crate) use normalization::{layer_norm, rms_norm};
pub(crate) use operation::lies_on_host;
pub(crate) use places::sums_by_place;
pub(crate) use pooling::max_pool;
pub(crate) use rotation::{Angles, rotate};
pub(crate) use update::{AdamWStep, MomentumStep, adamw, has_adamw, is_plain, momentum, square_sum, square_sum_there};
