//! ONNX graphs as models: shapes and operators become layers that are written out. Weights are not read.
//!
//! Each node becomes an operator of the language of `layers`, or a part of one; what goes past others is saved and
//! loaded. A layer ends where one value alone goes on and something with weights follows, so that a pipeline may be cut
//! there. Training adds what the graph does not have: softmax cross-entropy over its output.
//!
//! `docs/onnx.md` says which operators are known and what each becomes.

mod constants;
mod emit;
mod graph;
mod infer;
mod parts;
mod patterns;
mod proto;

use std::io::{Read, Seek};
use trainyard_models::{Model, ModelSpec};
use trainyard_units::Invalid;

/// Longest file: as long as the format lets one be. Weights beyond that stand in files of their own.
pub const ONNX_BYTES_MAX: u64 = 1 << 31;

/// The model that an ONNX file describes, for one sample, under a name. Weights are passed over, so that a file of any
/// length takes the memory of its graph.
///
/// # Errors
///
/// When they are no ONNX file, or one of a model that cannot be written out in layers.
pub fn from_onnx(file: impl Read + Seek, name: &str) -> Result<ModelSpec, Invalid> {
    let read = proto::graph(file).map_err(graph::broken)?;
    let graph = graph::Graph::new(read)?;
    let patterns = patterns::patterns(&graph)?;
    let spec = emit::spec(&graph, &patterns, name)?;
    match Model::try_from(spec.clone()) {
        Ok(_) => Ok(spec),
        Err(error) => {
            Err(Invalid::inside("graph", format!("as layers it does not fit together: {error}")).with_hint(graph::USES))
        }
    }
}

#[cfg(test)]
mod tests;
