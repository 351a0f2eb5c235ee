//! The parts of an ONNX file that say what is computed. Weights are not among them: what is not named is skipped.
//!
//! # Source
//!
//! onnx/onnx, `onnx/onnx.proto`, IR version 10. Numbers of fields are those of that file.

use super::parts::{Field, Parts};
use prost::Message;
use prost::bytes::{Buf, Bytes};
use prost::encoding::decode_varint;
use std::io::{Read, Seek};

/// Most nodes of a graph: those of the largest published models are some ten thousand.
pub(super) const NODES_MAX: usize = 100_000;

/// Most tensors that stand in a graph.
const TENSORS_MAX: usize = 100_000;

/// Longest description of one node, value or tensor without its data.
const PART_MAX: u64 = 1 << 20;

/// Longest data of a tensor that is read: that of [`VALUES_MAX`] values, however they are written.
const DATA_MAX: u64 = 10 * VALUES_MAX as u64;

/// Longest graph without weights, in bytes. Its parts take up to some ten times that in memory.
const KEPT_MAX: u64 = 32 << 20;

/// Most attributes of a node, and most dimensions of a tensor.
const ATTRIBUTES_MAX: usize = 256;
const SIDES_MAX: usize = 16;

/// Most names that nodes read and write, all together.
const NAMES_MAX: usize = 2_000_000;

/// Most values of a tensor that are looked at: shapes and axes have a handful.
const VALUES_MAX: usize = 4096;

/// `NodeProto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Node {
    #[prost(string, repeated, tag = "1")]
    pub(super) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(super) output: Vec<String>,
    #[prost(string, tag = "3")]
    pub(super) name: String,
    #[prost(string, tag = "4")]
    pub(super) op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) attribute: Vec<Attribute>,
    #[prost(string, tag = "7")]
    pub(super) domain: String,
}

/// `AttributeProto`, without its graphs.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Attribute {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(float, optional, tag = "2")]
    pub(super) f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub(super) i: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub(super) s: Option<Bytes>,
    #[prost(message, optional, tag = "5")]
    pub(super) t: Option<Tensor>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub(super) ints: Vec<i64>,
}

/// `TensorProto`, with the data of whole numbers only.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Tensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub(super) dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub(super) data_type: i32,
    /// Packed, as the format asks for.
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub(super) int64_data: Option<Bytes>,
    #[prost(string, tag = "8")]
    pub(super) name: String,
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub(super) raw_data: Option<Bytes>,
}

/// `TensorProto.DataType` of 64-bit whole numbers.
const INT64: i32 = 7;

/// The same of 32 bits.
const INT32: i32 = 6;

impl Tensor {
    /// The values of a small tensor of whole numbers.
    pub(super) fn values(&self) -> Option<Vec<i64>> {
        let width = match self.data_type {
            INT64 => 8,
            INT32 => 4,
            _ => return None,
        };
        if let Some(raw) = self.raw_data.as_ref().filter(|raw| !raw.is_empty()) {
            if raw.len() > VALUES_MAX * width {
                return None;
            }
            let of = |bytes: &[u8]| match bytes.try_into() {
                Ok(eight) => i64::from_le_bytes(eight),
                Err(_) => bytes.try_into().map_or(0, |four| i64::from(i32::from_le_bytes(four))),
            };
            return Some(raw.chunks_exact(width).map(of).collect());
        }
        let mut packed = self.int64_data.clone()?;
        let mut values = Vec::new();
        while packed.has_remaining() && values.len() <= VALUES_MAX {
            values.push(decode_varint(&mut packed).ok()?.cast_signed());
        }
        (values.len() <= VALUES_MAX).then_some(values)
    }
}

/// `ValueInfoProto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueInfo {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, optional, tag = "2")]
    pub(super) r#type: Option<Type>,
}

/// `TypeProto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Type {
    #[prost(message, optional, tag = "1")]
    pub(super) tensor: Option<TensorType>,
}

/// `TypeProto.Tensor`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorType {
    #[prost(int32, tag = "1")]
    pub(super) elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) shape: Option<TensorShape>,
}

/// `TensorShapeProto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorShape {
    #[prost(message, repeated, tag = "1")]
    pub(super) dim: Vec<Dimension>,
}

/// `TensorShapeProto.Dimension`: a size or a name.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Dimension {
    #[prost(int64, optional, tag = "1")]
    pub(super) value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub(super) param: Option<String>,
}

/// `GraphProto`, part by part.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) tensors: Vec<Tensor>,
    pub(super) inputs: Vec<ValueInfo>,
    pub(super) outputs: Vec<ValueInfo>,
}

/// Tags of the graph in a model, and of its parts in a graph.
const GRAPH: u64 = 7;
const NODE: u64 = 1;
const TENSOR: u64 = 5;
const INPUT: u64 = 11;
const OUTPUT: u64 = 12;

/// The graph of a model file; else what is wrong with it. The file is gone through part by part and none is read that
/// is not needed, so that what is kept is bounded whatever the file says.
pub(super) fn graph(file: impl Read + Seek) -> Result<Graph, String> {
    let (mut parts, length) = Parts::new(file)?;
    let mut found = None;
    parts.each(length, |_, field| {
        if field.tag == GRAPH && field.is_message {
            found = Some(field);
        }
        Ok(())
    })?;
    let Some(whole) = found else { return Err("there is no graph in it".into()) };
    parts.go_to(whole.value)?;
    let (mut graph, mut names, mut kept) = (Graph::default(), 0, 0);
    parts.each(whole.end(), |parts, field| {
        if !field.is_message {
            return Ok(());
        }
        let kept = &mut kept;
        match field.tag {
            NODE => {
                let node: Node = decoded("node", graph.nodes.len(), message(parts, field, kept)?, NODES_MAX)?;
                names += node.input.len() + node.output.len();
                if names > NAMES_MAX {
                    return Err(format!("nodes read and write more than {NAMES_MAX} names"));
                }
                if node.attribute.len() > ATTRIBUTES_MAX {
                    return Err(format!("node {} has more than {ATTRIBUTES_MAX} attributes", graph.nodes.len()));
                }
                graph.nodes.push(node);
            }
            TENSOR => {
                let bytes = without_data(parts, field, kept)?;
                graph.tensors.push(tensor(decoded("tensor", graph.tensors.len(), bytes, TENSORS_MAX)?)?);
            }
            INPUT => graph.inputs.push(value("input", graph.inputs.len(), message(parts, field, kept)?)?),
            OUTPUT => graph.outputs.push(value("output", graph.outputs.len(), message(parts, field, kept)?)?),
            _ => {}
        }
        Ok(())
    })?;
    if graph.nodes.is_empty() { Err("it has no nodes".into()) } else { Ok(graph) }
}

/// Counts bytes that are kept of a file.
fn count(kept: &mut u64, length: u64) -> Result<(), String> {
    *kept += length;
    if *kept > KEPT_MAX {
        return Err(format!("the graph takes more than {KEPT_MAX} bytes without its weights"));
    }
    Ok(())
}

/// Reads a message, which may hold a tensor, but none as long as weights are.
fn message<R: Read + Seek>(parts: &mut Parts<R>, field: Field, kept: &mut u64) -> Result<Vec<u8>, String> {
    if field.length > PART_MAX {
        return Err(format!("a part of the graph takes {} bytes, more than {PART_MAX}", field.length));
    }
    count(kept, field.length)?;
    parts.bytes(field.length)
}

/// Reads a tensor without data that is too long to be a shape or axes.
fn without_data<R: Read + Seek>(parts: &mut Parts<R>, tensor: Field, kept: &mut u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    parts.each(tensor.end(), |parts, field| {
        if field.is_message && field.length > DATA_MAX {
            return Ok(());
        }
        let length = field.end() - field.start;
        count(kept, length)?;
        parts.go_to(field.start)?;
        bytes.extend(parts.bytes(length)?);
        Ok(())
    })?;
    Ok(bytes)
}

/// A tensor with its values, if it may be a shape or axes.
fn tensor(mut tensor: Tensor) -> Result<Tensor, String> {
    if tensor.dims.len() > SIDES_MAX {
        return Err(format!("tensor `{}` has {} dimensions", tensor.name, tensor.dims.len()));
    }
    if tensor.values().is_none() {
        (tensor.raw_data, tensor.int64_data) = (None, None);
    }
    Ok(tensor)
}

fn value(what: &str, index: usize, message: Vec<u8>) -> Result<ValueInfo, String> {
    let value: ValueInfo = decoded(what, index, message, TENSORS_MAX)?;
    let shape = value.r#type.as_ref().and_then(|of| of.tensor.as_ref()?.shape.as_ref());
    match shape {
        Some(shape) if shape.dim.len() > SIDES_MAX => Err(format!("{what} {index} has {} dimensions", shape.dim.len())),
        _ => Ok(value),
    }
}

fn decoded<M: Message + Default>(what: &str, index: usize, message: Vec<u8>, most: usize) -> Result<M, String> {
    if index >= most {
        return Err(format!("there are more than {most} {what}s"));
    }
    M::decode(Bytes::from(message)).map_err(|error| format!("{what} {index}: {error}"))
}
