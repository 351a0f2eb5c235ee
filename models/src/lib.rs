//! Descriptions of neural networks and the operators they are made of.
//!
//! A [`ModelSpec`] is a model as a person writes it (TOML, or the `model` of a plan); a [`Model`] is one that is
//! known to be valid; its [`OperatorGraph`] lists, layer by layer, the operators of one training sample with their
//! shapes, from which FLOPs, bytes moved, parameters and stored activations follow. Nothing here knows seconds,
//! GPUs, or how a model is split over them beyond what each operator permits.
//!
//! ```
//! use trainyard_models::{Pass, find};
//!
//! let model = &find("gpt2-xl")?.model;
//! let graph = model.graph();
//! assert_eq!((graph.len(), model.tokens_per_sample()), (50, Some(1024)));
//! // Two operations for each weight and token, and what attention adds.
//! let forward = graph.flops(Pass::Forward).0 / 1024.0;
//! assert!(forward > 2.0 * 1.55e9 && forward < 2.2 * 1.6e9, "{forward}");
//! # Ok::<(), trainyard_units::CatalogError>(())
//! ```

// Operators with their shapes, and what they cost.
mod graph;
mod operator;

// Models: the languages of written and of traced layers, and the families.
mod families;
pub mod layers;
pub mod traced;

// Models of which a part is trained.
mod tuning;

// The models, data sets and targets that come with the program, and the formats of others.
mod catalog;
mod convergence;
mod dataset;
mod hugging_face;

pub use catalog::{CatalogEntry, ModelFile, PublishedRate, PublishedWeights, catalog, find, find_published};
pub use convergence::{ConvergenceCurve, ConvergencePoint, Epoch, Fit, Seeds, convergence_curve};
pub use dataset::{Fact, Seen, StoredDataSet, StoredFormat, data_sets, example_for, find_data_set};
pub use families::*;
pub use graph::{Layer, LayerRole, OperatorGraph};
pub use hugging_face::{from_hugging_face, hugging_face_name, to_hugging_face};
pub use operator::{
    AdditiveAttention, Attention, AttentionKernel, Cell, Convolution, Divisible, Extent, FrozenWeights, Gemm, Generic,
    Image, Mask, Operator, OperatorKind, Pass, Places, Pool, Quantization, Recommendation, Recurrent,
    RelativePositions, Routing, Scan, Sequential, Sharing, Split, StateSpace, Storage, Tuned, Weights, nf4_bytes,
};
pub use tuning::{AdapterTarget, Adapters, RANK_MAX, Tuning, on_pairs, predicts_next_token, tuned};
