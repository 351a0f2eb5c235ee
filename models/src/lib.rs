//! Descriptions of neural networks and the operators they are made of.
//!
//! A [`ModelSpec`] is a model as a person writes it (TOML, or the `model` of a plan); a [`Model`] is one that is
//! known to be valid; its [`OperatorGraph`] lists, layer by layer, the operators of one training sample with their
//! shapes, from which FLOPs, bytes moved, parameters and stored activations follow. Nothing here knows seconds,
//! GPUs, or how a model is split over them beyond what each operator permits.

mod catalog;
mod graph;
mod model;
mod operator;
mod spec;
mod tokens;

pub use catalog::{CatalogEntry, catalog, find};
pub use graph::{Layer, LayerRole, OperatorGraph};
pub use model::{Gpt, Mlp, Model};
pub use operator::{Attention, AttentionKernel, Gemm, Mask, Operator, OperatorKind, Pass, Sharing, Split, Storage};
pub use spec::{Family, ModelError, ModelSpec};
pub use tokens::{PerSample, samples_in};
