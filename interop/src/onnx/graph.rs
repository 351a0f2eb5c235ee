//! The graph of a file with what is known of each of its values: what is constant, what stands beside the samples, and
//! the shape of what flows.

use super::proto::{self, Attribute, Node};
use std::collections::BTreeMap;
use trainyard_units::Invalid;

/// A shape with its batch, which is one sample where the file leaves it open.
pub(super) type Dims = Vec<u64>;

/// Most elements of a value: keeps every count within 64 bits.
const ELEMENTS_MAX: u64 = 1 << 40;

/// The part that a value has in training.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// The same for all samples: weights, shapes, masks. With its values where they are whole numbers and few.
    Known(Option<Vec<i64>>),
    /// It depends on a sample, but not on its first input: masks, positions, segments.
    Aside,
    /// It depends on the first input.
    Flow,
}

/// The facts of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct About {
    pub(super) kind: Kind,
    /// Of what is not known to have a shape, nothing.
    pub(super) dims: Option<Dims>,
    /// `true` if training changes it.
    pub(super) trained: bool,
}

/// The kind of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    Tokens,
    /// Features of a vector, or of each step.
    Values,
}

/// A graph to be turned into layers.
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) about: BTreeMap<String, About>,
    /// For each value, the node that makes it.
    pub(super) makers: BTreeMap<String, usize>,
    /// For each value, the nodes that read it.
    pub(super) readers: BTreeMap<String, Vec<usize>>,
    pub(super) input: String,
    pub(super) sample: Sample,
    pub(super) outputs: Vec<String>,
}

impl Graph {
    /// A graph as it was read, with the shape of every value.
    pub(super) fn new(read: proto::Graph) -> Result<Self, Invalid> {
        let mut about = BTreeMap::new();
        for tensor in &read.tensors {
            let dims: Option<Dims> = tensor.dims.iter().map(|size| u64::try_from(*size).ok()).collect();
            let (dims, values) = (dims.filter(|dims| checked(dims).is_ok()), tensor.values());
            let trained = values.is_none() && is_real(tensor.data_type);
            about.insert(tensor.name.clone(), About { kind: Kind::Known(values), dims, trained });
        }
        let mut inputs = read.inputs.iter().filter(|input| !about.contains_key(&input.name)).collect::<Vec<_>>();
        // Token ids come before masks whatever the exporter's order.
        inputs.sort_by_key(|input| input.name.contains("mask"));
        let Some(first) = inputs.first() else {
            return Err(broken("it has no input"));
        };
        let (input, mut sample) = (first.name.clone(), Sample::Values);
        for (place, value) in inputs.iter().enumerate() {
            let (dims, kind) = declared(value)?;
            if place == 0 && !is_real(kind) {
                sample = Sample::Tokens;
            }
            let kind = if place == 0 { Kind::Flow } else { Kind::Aside };
            about.insert(value.name.clone(), About { kind, dims: Some(dims), trained: false });
        }
        let (mut makers, mut readers) = (BTreeMap::new(), BTreeMap::<String, Vec<usize>>::new());
        for (index, node) in read.nodes.iter().enumerate() {
            for name in node.output.iter().filter(|name| !name.is_empty()) {
                if about.contains_key(name) || makers.insert(name.clone(), index).is_some() {
                    return Err(broken(format!("its value `{name}` is made twice")));
                }
            }
            for name in node.input.iter().filter(|name| !name.is_empty()) {
                readers.entry(name.clone()).or_default().push(index);
            }
        }
        // Nodes stand in the order in which they compute, so that nothing goes round in circles.
        let early = readers.iter().find(|(name, readers)| makers.get(*name).is_some_and(|maker| readers[0] <= *maker));
        if let Some((name, _)) = early {
            return Err(broken(format!("its value `{name}` is read before it is made")));
        }
        let outputs = read.outputs.into_iter().map(|output| output.name).collect();
        let mut graph = Self { nodes: read.nodes, about, makers, readers, input, sample, outputs };
        super::infer::infer(&mut graph)?;
        Ok(graph)
    }

    /// Returns the facts of a value; an input that is left out is a constant without shape.
    pub(super) fn of(&self, name: &str) -> About {
        let nothing = About { kind: Kind::Known(None), dims: None, trained: false };
        self.about.get(name).cloned().unwrap_or(nothing)
    }

    pub(super) fn flows(&self, name: &str) -> bool {
        self.about.get(name).is_some_and(|about| about.kind == Kind::Flow)
    }

    /// The shape of a value that a node reads.
    pub(super) fn dims(&self, node: &Node, name: &str) -> Result<Dims, Invalid> {
        let dims = self.about.get(name).and_then(|about| about.dims.clone());
        dims.ok_or_else(|| unfit(node, format!("the shape of `{name}` is not known")))
    }

    /// The inputs of a node that flow.
    pub(super) fn flowing<'a>(&'a self, node: &'a Node) -> Vec<&'a str> {
        node.input.iter().map(String::as_str).filter(|name| self.flows(name)).collect()
    }

    /// The only reader of a value, if it has one.
    pub(super) fn only_reader(&self, name: &str) -> Option<usize> {
        match self.readers.get(name)?.as_slice() {
            [reader] if !self.outputs.iter().any(|output| output == name) => Some(*reader),
            _ => None,
        }
    }
}

/// Returns `true` if a type of `TensorProto.DataType` holds real numbers: float, float16, double, bfloat16.
fn is_real(kind: i32) -> bool {
    [1, 10, 11, 16].contains(&kind)
}

/// The shape and type that a graph declares for an input; the batch may be open.
fn declared(value: &proto::ValueInfo) -> Result<(Dims, i32), Invalid> {
    let wrong = |problem: String| wrong_input(&value.name, &problem);
    let tensor = value.r#type.as_ref().and_then(|kind| kind.tensor.as_ref());
    let tensor = tensor.ok_or_else(|| wrong("it is no tensor".into()))?;
    let shape = tensor.shape.as_ref().ok_or_else(|| wrong("it has no shape".into()))?;
    let mut dims = Vec::new();
    for (place, dimension) in shape.dim.iter().enumerate() {
        let size = dimension.value.filter(|size| *size > 0).map(i64::unsigned_abs);
        match size {
            Some(size) => dims.push(size),
            None if place == 0 => dims.push(1),
            None => {
                let name = dimension.param.clone().unwrap_or_else(|| "unnamed".into());
                return Err(wrong(format!("dimension {place} ({name}) is not a fixed number")));
            }
        }
    }
    checked(&dims).map_err(wrong)?;
    Ok((dims, tensor.elem_type))
}

/// A shape whose elements can be counted, and those of every part of it: a length of 0 makes the others no shorter.
pub(super) fn checked(dims: &Dims) -> Result<(), String> {
    let elements = dims.iter().try_fold(1u64, |product, size| product.checked_mul((*size).max(1)));
    match elements {
        Some(elements) if elements <= ELEMENTS_MAX && dims.len() <= 8 => Ok(()),
        _ => Err(format!("{} is too large to be counted", shown(dims))),
    }
}

/// Returns the name of a node, or of its output.
pub(super) fn called(node: &Node) -> String {
    let made = node.output.first().cloned().unwrap_or_default();
    if node.name.is_empty() { made } else { node.name.clone() }
}

pub(super) fn unfit(node: &Node, problem: impl Into<String>) -> Invalid {
    let operator = node.op_type.as_str();
    let hint = match operator {
        "MatMul" | "Softmax" => {
            "self-attention is known by the products of one input with its weights, their Softmax between two MatMuls, \
             and the product behind; see docs/onnx.md"
        }
        _ => USES,
    };
    Invalid::inside(format!("node {} ({operator})", called(node)), problem.into()).with_hint(hint)
}

/// Attributes by name.
impl Node {
    pub(super) fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attribute.iter().find(|attribute| attribute.name == name)
    }

    pub(super) fn int(&self, name: &str) -> Option<i64> {
        self.attribute(name)?.i
    }

    pub(super) fn ints(&self, name: &str) -> Option<&[i64]> {
        self.attribute(name).map(|attribute| attribute.ints.as_slice()).filter(|ints| !ints.is_empty())
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        let bytes = self.attribute(name)?.s.as_ref()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    pub(super) fn first_output(&self) -> &str {
        self.output.first().map_or("", String::as_str)
    }

    pub(super) fn input_at(&self, place: usize) -> Option<&str> {
        self.input.get(place).map(String::as_str).filter(|name| !name.is_empty())
    }
}

/// Advice on operators in uses that are not known.
pub(super) const USES: &str = "docs/onnx.md says which uses are known";

/// Returns the error of a file that holds no usable graph.
pub(super) fn broken(problem: impl std::fmt::Display) -> Invalid {
    Invalid::inside("graph", problem).with_hint("export it with torch.onnx.export(model, sample, \"model.onnx\")")
}

/// Returns the error of an input that is none of the kinds that are known.
pub(super) fn wrong_input(name: &str, problem: &str) -> Invalid {
    Invalid::inside(format!("input {name}"), problem).with_hint(
        "export it for fixed sizes: all but the batch, the first dimension, must be numbers; images, volumes, \
         sequences, vectors and tokens are known",
    )
}

/// Formats a shape for messages.
pub(super) fn shown(dims: &Dims) -> String {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(", "))
}
