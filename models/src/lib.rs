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
//! # Ok::<(), trainyard_models::ModelError>(())
//! ```

mod catalog;
mod convergence;
mod dataset;
mod families;
mod fields;
mod graph;
mod hugging_face;
pub mod layers;
mod model;
mod operator;
mod spec;
mod tokens;

pub use catalog::{CatalogEntry, ModelFile, catalog, find};
pub use convergence::{
    ConvergenceCurve, ConvergenceError, ConvergencePoint, Epoch, Fit, Seeds, convergence_curve, convergence_curves,
};
pub use dataset::{Fact, StoredDataSet, StoredFormat, UnknownDataSet, data_sets, find_data_set};
pub use families::*;
pub use graph::{Layer, LayerRole, OperatorGraph};
pub use hugging_face::{ConfigError, from_hugging_face, hugging_face_name, to_hugging_face};
pub use model::Sample;
pub use operator::{
    AdditiveAttention, Attention, AttentionKernel, Cell, Convolution, Divisible, Extent, Gemm, Image, Mask, Operator,
    OperatorKind, Pass, Places, Pool, Recommendation, Recurrent, RelativePositions, Routing, Sequential, Sharing,
    Split, Storage,
};
pub use spec::{BlockKind, HeadKind, ModelError, ModelSpec};
pub use tokens::{PerSample, samples_in};
