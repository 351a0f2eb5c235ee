//! Operators that exporters write as several nodes: attention, normalisations and functions of each element. Each is
//! found from the node that nothing else has: its Softmax, its Erf, its first mean.

use super::graph::{Graph, Kind, shown, unfit};
use super::proto::Node;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_models::layers::{Activation, AttentionSpec, OperatorSpec, Word};
use trainyard_units::Invalid;

/// Several nodes that are one operator.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The value that it reads.
    pub(super) input: String,
    /// The value that it makes.
    pub(super) output: String,
    pub(super) operator: OperatorSpec,
}

/// The operators found in a graph, by the node that makes their output, and the other nodes that they cover.
#[derive(Default)]
pub(super) struct Patterns {
    pub(super) found: BTreeMap<usize, Found>,
    pub(super) covered: BTreeSet<usize>,
}

/// Nodes that only let a value be seen in another way.
const VIEWS: [&str; 8] = ["Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Cast", "Dropout", "Flatten"];

/// Everything in a graph that is known.
pub(super) fn patterns(graph: &Graph) -> Result<Patterns, Invalid> {
    let mut patterns = Patterns::default();
    for (index, node) in graph.nodes.iter().enumerate() {
        if !graph.flows(node.first_output()) || patterns.covered.contains(&index) {
            continue;
        }
        let found = match node.op_type.as_str() {
            "Softmax" if graph.only_reader(node.first_output()).is_some() => Some(attention(graph, index)?),
            "Erf" => gelu(graph, index, false),
            "Tanh" => gelu(graph, index, true),
            "Sigmoid" => swish(graph, index),
            "ReduceMean" => layer_norm(graph, index),
            _ => None,
        };
        // What comes out without a name is not read.
        let named = found.and_then(|(found, nodes)| Some((*graph.makers.get(&found.output)?, found, nodes)));
        if let Some((last, found, nodes)) = named {
            patterns.covered.extend(nodes.into_iter().filter(|node| *node != last));
            patterns.found.insert(last, found);
        }
    }
    Ok(patterns)
}

type Match = (Found, Vec<usize>);

/// A walk through a graph that notes where it was.
struct Walk<'a> {
    graph: &'a Graph,
    nodes: Vec<usize>,
}

impl<'a> Walk<'a> {
    /// The node that makes a value, which must flow.
    fn up(&mut self, name: &str) -> Option<&'a Node> {
        let index = *self.graph.makers.get(name).filter(|_| self.graph.flows(name))?;
        self.nodes.push(index);
        Some(&self.graph.nodes[index])
    }

    /// The only node that reads a value.
    fn down(&mut self, name: &str) -> Option<&'a Node> {
        let index = self.graph.only_reader(name)?;
        self.nodes.push(index);
        Some(&self.graph.nodes[index])
    }

    /// Down through a node that does something with one constant.
    fn down_with_constant(&mut self, name: &str, operators: &[&str]) -> Option<&'a Node> {
        let node = self.down(name)?;
        let fits = operators.contains(&node.op_type.as_str()) && self.graph.flowing(node).len() == 1;
        fits.then_some(node)
    }

    fn is_constant_multiple(&self, name: &str, of: &str) -> Option<Vec<usize>> {
        if name == of {
            return Some(Vec::new());
        }
        let index = *self.graph.makers.get(name)?;
        let node = &self.graph.nodes[index];
        let scaled = ["Mul", "Div"].contains(&node.op_type.as_str()) && self.graph.flowing(node) == [of];
        scaled.then(|| vec![index])
    }
}

/// x · Φ(x), by the error function or by the hyperbolic tangent that is near it.
fn gelu(graph: &Graph, index: usize, tangent: bool) -> Option<Match> {
    let mut walk = Walk { graph, nodes: vec![index] };
    let node = &graph.nodes[index];
    let scaled = walk.up(node.input_at(0)?)?;
    if !["Mul", "Div"].contains(&scaled.op_type.as_str()) {
        return None;
    }
    let [inner] = graph.flowing(scaled)[..] else { return None };
    let input = if tangent { cubed(&mut walk, inner)? } else { inner.to_owned() };
    let plus = walk.down_with_constant(node.first_output(), &["Add"])?;
    let mut output = plus.first_output();
    // One half comes before, between or behind: x/2 · (1 + …), or x · (1 + …) · ½, or x · ((1 + …) · ½).
    loop {
        let times = walk.down(output)?;
        if times.op_type != "Mul" {
            return None;
        }
        let others: Vec<&str> = graph.flowing(times).into_iter().filter(|name| *name != output).collect();
        output = times.first_output();
        match others[..] {
            [] => {}
            [other] => {
                walk.nodes.extend(walk.is_constant_multiple(other, &input)?);
                break;
            }
            _ => return None,
        }
    }
    let halved = graph.only_reader(output).filter(|reader| {
        let node = &graph.nodes[*reader];
        let constant = node.input.iter().find(|name| *name != output);
        let scalar = constant.is_some_and(|name| graph.of(name).dims.is_none_or(|dims| dims.iter().all(|d| *d == 1)));
        let already =
            walk.nodes.iter().filter(|node| graph.nodes[**node].op_type == "Mul").count() > if tangent { 3 } else { 1 };
        node.op_type == "Mul" && graph.flowing(node).len() == 1 && scalar && !already
    });
    if let Some(reader) = halved {
        walk.nodes.push(reader);
        output = graph.nodes[reader].first_output();
    }
    let operator = OperatorSpec::Activation(Activation::Gelu);
    Some((Found { input, output: output.to_owned(), operator }, walk.nodes))
}

/// The x of x + c·x³.
fn cubed(walk: &mut Walk<'_>, name: &str) -> Option<String> {
    let graph = walk.graph;
    let sum = walk.up(name).filter(|node| node.op_type == "Add")?;
    let [a, b] = graph.flowing(sum)[..] else { return None };
    for (x, other) in [(a, b), (b, a)] {
        let Some(index) = graph.makers.get(other) else { continue };
        let times = &graph.nodes[*index];
        let [power] = graph.flowing(times)[..] else { continue };
        let Some(from) = graph.makers.get(power) else { continue };
        let raised = &graph.nodes[*from];
        if times.op_type == "Mul" && raised.op_type == "Pow" && raised.input_at(0) == Some(x) {
            walk.nodes.extend([*index, *from]);
            return Some(x.to_owned());
        }
    }
    None
}

/// x · sigmoid(x).
fn swish(graph: &Graph, index: usize) -> Option<Match> {
    let node = &graph.nodes[index];
    let input = node.input_at(0)?;
    let mut walk = Walk { graph, nodes: vec![index] };
    let times = walk.down(node.first_output()).filter(|node| node.op_type == "Mul")?;
    let both = graph.flowing(times);
    let found = Found {
        input: input.to_owned(),
        output: times.first_output().to_owned(),
        operator: OperatorSpec::Activation(Activation::Swish),
    };
    both.contains(&input).then_some((found, walk.nodes))
}

/// (x − mean) / √(variance + ε), times a weight, plus a bias.
fn layer_norm(graph: &Graph, index: usize) -> Option<Match> {
    let node = &graph.nodes[index];
    let input = node.input_at(0)?.to_owned();
    let mut walk = Walk { graph, nodes: vec![index] };
    let less =
        walk.down(node.first_output()).filter(|node| node.op_type == "Sub" && node.input_at(0) == Some(&input))?;
    let readers = graph.readers.get(less.first_output())?;
    let is = |index: &&usize, operator: &str| graph.nodes[**index].op_type == operator;
    let divided = *readers.iter().find(|index| is(index, "Div"))?;
    let squared = *readers.iter().find(|index| is(index, "Pow") || is(index, "Mul"))?;
    walk.nodes.extend([divided, squared]);
    let mean = walk.down(graph.nodes[squared].first_output()).filter(|node| node.op_type == "ReduceMean")?;
    let sum = walk.down_with_constant(mean.first_output(), &["Add"])?;
    let root = walk.down(sum.first_output()).filter(|node| node.op_type == "Sqrt")?;
    if graph.only_reader(root.first_output()) != Some(divided) {
        return None;
    }
    let weighted = walk.down_with_constant(graph.nodes[divided].first_output(), &["Mul"])?;
    let shifted = walk.down_with_constant(weighted.first_output(), &["Add"])?;
    let output = shifted.first_output().to_owned();
    Some((Found { input, output, operator: OperatorSpec::Word(Word::LayerNorm) }, walk.nodes))
}

/// A product with weights, with its bias if it has one.
struct Projection {
    node: usize,
    input: String,
    outputs: u64,
    bias: bool,
}

/// Self-attention around a Softmax, with its projections.
fn attention(graph: &Graph, index: usize) -> Result<Match, Invalid> {
    let softmax = &graph.nodes[index];
    let unknown = |problem: &str| unfit(softmax, format!("it belongs to no attention that is known: {problem}"));
    let mut walk = Walk { graph, nodes: vec![index] };
    let (scores, causal) = scores(&mut walk, softmax).ok_or_else(|| unknown("no product is before it"))?;
    let [left, right] = graph.flowing(scores)[..] else { return Err(unknown("one of two factors is a constant")) };
    let weighted = through_views(&mut walk, softmax.first_output(), &["MatMul"])
        .ok_or_else(|| unknown("no product is behind it"))?;
    let values = graph.flowing(weighted).into_iter().nth(1).ok_or_else(|| unknown("no values are weighted"))?;
    let heads_of = graph.dims(scores, left)?;
    let mut projections: BTreeMap<usize, Projection> = BTreeMap::new();
    for name in [left, right, values] {
        let found = projection(&mut walk, name).ok_or_else(|| unknown("queries, keys or values are no product"))?;
        projections.insert(found.node, found);
    }
    let roots: BTreeSet<String> = projections.values().map(|found| root(graph, &found.input)).collect();
    let [input] = roots.iter().collect::<Vec<_>>()[..] else {
        return Err(unknown("queries, keys and values are not of one value"));
    };
    let out = through_views(&mut walk, weighted.first_output(), &["MatMul", "Gemm"])
        .ok_or_else(|| unknown("no product is behind the heads"))?;
    let (output, out_bias) = biased(&mut walk, out);
    let width = graph.dims(softmax, output)?.last().copied().unwrap_or(0);
    let made: u64 = projections.values().map(|found| found.outputs).sum();
    if made != 3 * width || graph.dims(softmax, input)?.last() != Some(&width) {
        let shapes = shown(&projections.values().map(|found| found.outputs).collect());
        return Err(unknown(&format!("products of {shapes} features are not three of the {width} that come out")));
    }
    let head = heads_of.last().copied().unwrap_or(0);
    if head == 0 || !width.is_multiple_of(head) {
        return Err(unknown(&format!("{width} features are no heads of {head}")));
    }
    if projections.values().any(|found| found.bias != out_bias) {
        return Err(unknown("some of its products have a bias and others not"));
    }
    let operator = OperatorSpec::Attention(AttentionSpec {
        attention: width / head,
        causal: causal.then_some(true),
        kernel: None,
        dropout: None,
        bias: (!out_bias).then_some(false),
        key_bias: None,
        window: None,
        relative_bias: None,
    });
    Ok((Found { input: input.clone(), output: output.to_owned(), operator }, walk.nodes))
}

/// The product whose scores a Softmax takes, and whether later tokens are hidden from it.
fn scores<'a>(walk: &mut Walk<'a>, softmax: &'a Node) -> Option<(&'a Node, bool)> {
    let graph = walk.graph;
    let (mut name, mut causal) = (softmax.input_at(0)?, false);
    loop {
        let node = walk.up(name)?;
        match node.op_type.as_str() {
            "MatMul" => return Some((node, causal)),
            "Add" | "Where" | "Mul" | "Div" | "Cast" | "Identity" | "Dropout" | "Reshape" | "Sub" => {
                causal |= ["Add", "Where"].contains(&node.op_type.as_str()) && hides_later(graph, node);
                let [flowing] = graph.flowing(node)[..] else { return None };
                name = flowing;
            }
            _ => return None,
        }
    }
}

/// Returns `true` if a node adds or chooses by a constant that is different for every pair of tokens.
fn hides_later(graph: &Graph, node: &Node) -> bool {
    let square = |name: &String| {
        let about = graph.of(name);
        let dims = about.dims.unwrap_or_default();
        let [.., rows, columns] = dims.as_slice() else { return false };
        matches!(about.kind, Kind::Known(_) | Kind::Aside) && rows == columns && *rows > 1
    };
    node.input.iter().any(square)
}

/// Down through nodes that only change how a value is seen, to one of some operators.
fn through_views<'a>(walk: &mut Walk<'a>, name: &str, operators: &[&str]) -> Option<&'a Node> {
    let mut node = walk.down(name)?;
    while VIEWS.contains(&node.op_type.as_str()) {
        node = walk.down(node.first_output())?;
    }
    operators.contains(&node.op_type.as_str()).then_some(node)
}

/// Up from queries, keys or values to the product of which they are a part.
fn projection(walk: &mut Walk<'_>, name: &str) -> Option<Projection> {
    let graph = walk.graph;
    let (mut name, mut bias) = (name.to_owned(), false);
    loop {
        let node = walk.up(&name)?;
        let flowing = graph.flowing(node);
        let operator = node.op_type.as_str();
        match operator {
            "MatMul" | "Gemm" if flowing.len() == 1 => {
                let outputs = *graph.of(node.first_output()).dims?.last()?;
                let bias = bias || operator == "Gemm" && node.input_at(2).is_some();
                let index = *graph.makers.get(node.first_output())?;
                return Some(Projection { node: index, input: flowing[0].to_owned(), outputs, bias });
            }
            "Mul" | "Div" | "Split" | "Slice" | "Gather" | "Add" | "Sqrt" => {
                let weights = node.input.iter().any(|input| graph.of(input).trained && vector(graph, input));
                bias |= operator == "Add" && weights;
                let [only] = flowing[..] else { return None };
                name = only.to_owned();
            }
            view if VIEWS.contains(&view) => name = (*flowing.first()?).to_owned(),
            _ => return None,
        }
    }
}

/// Returns `true` if all but the last of a value's dimensions are one.
pub(super) fn vector(graph: &Graph, name: &str) -> bool {
    let dims = graph.of(name).dims.unwrap_or_default();
    dims.split_last().is_some_and(|(last, others)| *last > 1 && others.iter().all(|size| *size == 1))
}

/// A value behind everything that only changes how it is seen.
fn root(graph: &Graph, name: &str) -> String {
    let mut name = name.to_owned();
    while let Some(node) = graph.makers.get(&name).map(|index| &graph.nodes[*index]) {
        let is_view = VIEWS.contains(&node.op_type.as_str());
        let viewed = if is_view { graph.flowing(node) } else { Vec::new() };
        let [from] = viewed[..] else { break };
        name = from.to_owned();
    }
    name
}

/// The value of a product with its bias, and whether it has one.
fn biased<'a>(walk: &mut Walk<'a>, product: &'a Node) -> (&'a str, bool) {
    let graph = walk.graph;
    let made = product.first_output();
    if product.op_type == "Gemm" {
        return (made, product.input_at(2).is_some());
    }
    let next = graph.only_reader(made).filter(|reader| {
        let node = &graph.nodes[*reader];
        let bias = |name: &String| name != made && graph.of(name).trained && vector(graph, name);
        node.op_type == "Add" && node.input.iter().any(bias)
    });
    match next {
        Some(reader) => {
            walk.nodes.push(reader);
            (graph.nodes[reader].first_output(), true)
        }
        None => (made, false),
    }
}
