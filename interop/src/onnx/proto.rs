//! The parts of an ONNX file that say what is computed. Weights are not among them: what is not named is skipped.
//!
//! # Source
//!
//! onnx/onnx, `onnx/onnx.proto`, IR version 10. Numbers of fields are those of that file.

use prost::Message;
use prost::bytes::{Buf, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// Most nodes of a graph: those of the largest published models are some ten thousand.
pub(super) const NODES_MAX: usize = 100_000;

/// Most tensors that stand in a graph.
const TENSORS_MAX: usize = 100_000;

/// Longest description of one node, value or tensor without its data.
const PART_MAX: usize = 1 << 20;

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
const GRAPH: u32 = 7;
const NODE: u32 = 1;
const TENSOR: u32 = 5;
const INPUT: u32 = 11;
const OUTPUT: u32 = 12;

/// The graph of a model file; else what is wrong with it. The file is gone through part by part and none is kept that
/// is not needed, so that what is kept is bounded whatever the file says.
pub(super) fn graph(file: Bytes) -> Result<Graph, String> {
    let mut found = None;
    each_part(file, |tag, part| {
        if tag == GRAPH {
            found = Some(part);
        }
        Ok(())
    })?;
    let Some(part) = found else { return Err("there is no graph in it".into()) };
    let (mut graph, mut names) = (Graph::default(), 0);
    each_part(part, |tag, part| {
        match tag {
            NODE => {
                let node: Node = decoded("node", graph.nodes.len(), part, NODES_MAX)?;
                names += node.input.len() + node.output.len();
                if names > NAMES_MAX {
                    return Err(format!("nodes read and write more than {NAMES_MAX} names"));
                }
                graph.nodes.push(node);
            }
            TENSOR => graph.tensors.push(tensor(graph.tensors.len(), part)?),
            INPUT => graph.inputs.push(decoded("input", graph.inputs.len(), part, TENSORS_MAX)?),
            OUTPUT => graph.outputs.push(decoded("output", graph.outputs.len(), part, TENSORS_MAX)?),
            _ => {}
        }
        Ok(())
    })?;
    if graph.nodes.is_empty() { Err("it has no nodes".into()) } else { Ok(graph) }
}

/// A tensor, whose data may be long and stays where it is.
fn tensor(index: usize, part: Bytes) -> Result<Tensor, String> {
    if index >= TENSORS_MAX {
        return Err(format!("there are more than {TENSORS_MAX} tensors"));
    }
    let mut tensor = Tensor::decode(part).map_err(|error| format!("tensor {index}: {error}"))?;
    if tensor.dims.len() > 16 {
        return Err(format!("tensor {index} has {} dimensions", tensor.dims.len()));
    }
    // Values are shapes and axes; weights would hold on to the whole file.
    if tensor.values().is_none() {
        (tensor.raw_data, tensor.int64_data) = (None, None);
    }
    Ok(tensor)
}

fn decoded<M: Message + Default>(what: &str, index: usize, part: Bytes, most: usize) -> Result<M, String> {
    if index >= most {
        return Err(format!("there are more than {most} {what}s"));
    }
    // A node may hold a tensor, but none as long as weights are.
    if part.len() > PART_MAX {
        return Err(format!("{what} {index} takes {} bytes, more than {PART_MAX}", part.len()));
    }
    M::decode(part).map_err(|error| format!("{what} {index}: {error}"))
}

/// Goes through the fields of a message that are messages themselves.
fn each_part(mut message: Bytes, mut take: impl FnMut(u32, Bytes) -> Result<(), String>) -> Result<(), String> {
    let broken = |error: prost::DecodeError| format!("it is no ONNX file, or cut short: {error}");
    while message.has_remaining() {
        let (tag, wire) = decode_key(&mut message).map_err(broken)?;
        if wire != WireType::LengthDelimited {
            skip_field(wire, tag, &mut message, DecodeContext::default()).map_err(broken)?;
            continue;
        }
        let length = usize::try_from(decode_varint(&mut message).map_err(broken)?).unwrap_or(usize::MAX);
        if length > message.remaining() {
            let left = message.remaining();
            return Err(format!(
                "it is no ONNX file, or cut short: {length} bytes are announced where {left} are left"
            ));
        }
        take(tag, message.split_to(length))?;
    }
    Ok(())
}
