//! Graphs built here, and what becomes of them; `interop/tests/integration/onnx.rs` has files of PyTorch's exporters.

use super::proto::{Attribute, Dimension, Node, Tensor, TensorShape, TensorType, Type, ValueInfo};
use super::*;
use prost::Message;
use std::io::Cursor;
use trainyard_models::{OperatorGraph, Sharing};

/// `GraphProto`, whole.
#[derive(Clone, PartialEq, Message)]
struct TestGraph {
    #[prost(message, repeated, tag = "1")]
    node: Vec<Node>,
    #[prost(message, repeated, tag = "5")]
    initializer: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    output: Vec<ValueInfo>,
}

/// `ModelProto`.
#[derive(Clone, PartialEq, Message)]
struct TestModel {
    #[prost(int64, tag = "1")]
    ir_version: i64,
    #[prost(message, optional, tag = "7")]
    graph: Option<TestGraph>,
}

const FLOAT: i32 = 1;
const INT64: i32 = 7;

fn value(name: &str, kind: i32, dims: &[i64]) -> ValueInfo {
    let dim = dims.iter().map(|size| match size {
        0 => Dimension { value: None, param: Some("N".into()) },
        size => Dimension { value: Some(*size), param: None },
    });
    let tensor = TensorType { elem_type: kind, shape: Some(TensorShape { dim: dim.collect() }) };
    ValueInfo { name: name.into(), r#type: Some(Type { tensor: Some(tensor) }) }
}

/// A graph that grows node by node.
#[derive(Default)]
struct Graph(TestGraph);

impl Graph {
    fn of(kind: i32, dims: &[i64]) -> Self {
        Self(TestGraph { input: vec![value("x", kind, dims)], ..TestGraph::default() })
    }

    fn weights(mut self, name: &str, dims: &[i64]) -> Self {
        let (name, dims) = (name.into(), dims.to_vec());
        self.0.initializer.push(Tensor { name, dims, data_type: FLOAT, ..Tensor::default() });
        self
    }

    fn numbers(mut self, name: &str, values: &[i64]) -> Self {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (name, dims, raw_data) = (name.into(), vec![(values.len() as u64).cast_signed()], Some(raw.into()));
        self.0.initializer.push(Tensor { name, dims, data_type: INT64, raw_data, int64_data: None });
        self
    }

    /// A node that reads the values named in one text, `-` being one without a name, and makes one called as the node.
    fn node(mut self, operator: &str, name: &str, inputs: &str, attributes: &[(&str, &[i64])]) -> Self {
        let attribute = attributes.iter().map(|(name, ints)| {
            let one = (ints.len() == 1 && !["axes", "strides", "perm"].contains(name)).then(|| ints[0]);
            let ints = if one.is_some() { Vec::new() } else { ints.to_vec() };
            Attribute { name: (*name).into(), i: one, ints, ..Attribute::default() }
        });
        self.0.node.push(Node {
            input: inputs.split_whitespace().map(|name| name.trim_matches('-').into()).collect(),
            output: vec![name.into()],
            name: name.into(),
            op_type: operator.into(),
            attribute: attribute.collect(),
            domain: String::new(),
        });
        self
    }

    fn bytes(mut self) -> Vec<u8> {
        let last = self.0.node.last().map(|node| node.output[0].clone()).unwrap_or_default();
        self.0.output = vec![ValueInfo { name: last, r#type: None }];
        TestModel { ir_version: 10, graph: Some(self.0) }.encode_to_vec()
    }

    fn model(self) -> Result<Model, Invalid> {
        from_onnx(Cursor::new(self.bytes()), "own").map(|spec| Model::try_from(spec).expect("checked"))
    }

    fn complaint(self) -> String {
        let error = self.model().expect_err("refused");
        format!("{error}; {}", error.hint().unwrap_or_default())
    }
}

/// The same written out.
fn native(input: &str, layers: &str) -> Model {
    let text = format!("name = \"own\"\nfamily = \"layers\"\n{input}\nlayer = [{layers}]");
    Model::try_from(toml::from_str::<ModelSpec>(&text).expect("a specification")).expect("a valid model")
}

fn assert_same(read: &Model, native: &Model) {
    let (read, native) = (read.graph(), native.graph());
    assert_eq!(read.parameters(), native.parameters());
    let flops = |graph: &OperatorGraph| graph.training_flops().0;
    assert!((flops(&read) - flops(&native)).abs() < 0.5, "{} {}", flops(&read), flops(&native));
    let kinds = |graph: &OperatorGraph| -> Vec<_> {
        let operators = graph.layers().flat_map(|layer| layer.operators.clone());
        operators.map(|operator| operator.on_rank(1, Sharing::WHOLE)).collect()
    };
    assert_eq!(kinds(&read), kinds(&native));
}

fn mlp() -> Graph {
    Graph::of(FLOAT, &[0, 1, 28, 28])
        .weights("w1", &[512, 784])
        .weights("b1", &[512])
        .weights("w2", &[512, 10])
        .weights("b2", &[10])
        .node("Flatten", "flat", "x", &[("axis", &[1])])
        .node("Gemm", "h", "flat w1 b1", &[("transB", &[1])])
        .node("Relu", "r", "h", &[])
        .node("MatMul", "m", "r w2", &[])
        .node("Add", "y", "m b2", &[])
        .node("Softmax", "p", "y", &[])
}

#[test]
fn a_perceptron_is_the_one_that_is_written_out() {
    let written = native(
        "input = { channels = 1, height = 28, width = 28 }",
        "{ name = \"a\", operators = [\"flatten\", { linear = 512, activation = \"relu\" }] }, \
         { name = \"b\", operators = [{ linear = 10 }, \"cross_entropy\"] }",
    );
    assert_same(&mlp().model().expect("known"), &written);
}

fn residual() -> Graph {
    let pads: (&str, &[i64]) = ("pads", &[1, 1, 1, 1]);
    Graph::of(FLOAT, &[0, 3, 32, 32])
        .weights("ws", &[16, 3, 3, 3])
        .weights("w1", &[32, 16, 3, 3])
        .weights("w2", &[32, 32, 3, 3])
        .weights("wd", &[32, 16, 1, 1])
        .weights("wh", &[10, 32])
        .weights("bh", &[10])
        .weights("s", &[32])
        .node("Conv", "stem", "x ws", &[pads])
        .node("Relu", "a", "stem", &[])
        .node("Conv", "one", "a w1", &[pads, ("strides", &[2, 2])])
        .node("BatchNormalization", "n1", "one s s s s", &[])
        .node("Relu", "r1", "n1", &[])
        .node("Conv", "two", "r1 w2", &[pads])
        .node("BatchNormalization", "n2", "two s s s s", &[])
        .node("Conv", "down", "a wd", &[("strides", &[2, 2])])
        .node("BatchNormalization", "nd", "down s s s s", &[])
        .node("Add", "sum", "n2 nd", &[])
        .node("Relu", "r2", "sum", &[])
        .node("GlobalAveragePool", "pool", "r2", &[])
        .node("Flatten", "flat", "pool", &[("axis", &[1])])
        .node("Gemm", "y", "flat wh bh", &[("transB", &[1])])
}

#[test]
fn a_residual_block_is_the_one_that_is_written_out() {
    let written = native(
        "input = { channels = 3, height = 32, width = 32 }",
        "{ name = \"stem\", operators = [{ conv = 16, kernel = 3, padding = 1, bias = false, activation = \"relu\" }] }, \
         { name = \"block\", operators = [{ add = [[\
             { conv = 32, kernel = 3, stride = 2, padding = 1, norm = \"batch\", activation = \"relu\" }, \
             { conv = 32, kernel = 3, padding = 1, norm = \"batch\" }], \
             [{ conv = 32, stride = 2, padding = \"valid\", norm = \"batch\" }]] }, \"relu\"] }, \
         { name = \"head\", operators = [\"global_pool\", { linear = 10 }, \"cross_entropy\"] }",
    );
    let read = residual().model().expect("known");
    assert_same(&read, &written);
    let stages: Vec<String> = read.graph().layers().map(|layer| layer.name.to_string()).collect();
    assert_eq!(stages, ["convolution", "block", "linear"]);
    // What goes past the block stays inside it, and the pool that follows too: it has no weights, and hands on less.
    let handed: Vec<u64> = read.graph().layers().map(|layer| layer.output_elements).collect();
    assert_eq!(handed, [16 * 32 * 32, 32, 1]);
}

/// Attention as exporters write it, with separate queries, keys and values.
fn attention(masked: bool) -> Graph {
    let heads = "split";
    let mut graph = Graph::of(FLOAT, &[0, 16, 32]).numbers(heads, &[1, 16, 4, 8]).numbers("joined", &[1, 16, 32]);
    for name in ["q", "k", "v", "o"] {
        graph = graph.weights(&format!("w{name}"), &[32, 32]).weights(&format!("b{name}"), &[32]);
    }
    graph = graph.weights("half", &[1]).weights("mask", &[1, 1, 16, 16]).weights("ln", &[32]);
    graph = graph.node("LayerNormalization", "n", "x ln ln", &[]);
    for name in ["q", "k", "v"] {
        let perm: &[i64] = if name == "k" { &[0, 2, 3, 1] } else { &[0, 2, 1, 3] };
        graph = graph
            .node("MatMul", &format!("{name}1"), &format!("n w{name}"), &[])
            .node("Add", &format!("{name}2"), &format!("{name}1 b{name}"), &[])
            .node("Reshape", &format!("{name}3"), &format!("{name}2 {heads}"), &[])
            .node("Transpose", &format!("{name}4"), &format!("{name}3"), &[("perm", perm)]);
    }
    graph = graph.node("MatMul", "s1", "q4 k4", &[]).node("Div", "s2", "s1 half", &[]);
    if masked {
        graph = graph.node("Add", "s3", "s2 mask", &[]);
    }
    graph
        .node("Softmax", "p", if masked { "s3" } else { "s2" }, &[("axis", &[-1])])
        .node("MatMul", "m1", "p v4", &[])
        .node("Transpose", "m2", "m1", &[("perm", &[0, 2, 1, 3])])
        .node("Reshape", "m3", "m2 joined", &[])
        .node("MatMul", "o1", "m3 wo", &[])
        .node("Add", "o2", "o1 bo", &[])
        .node("Add", "sum", "x o2", &[])
}

#[test]
fn attention_is_found_with_its_projections() {
    for (masked, causal) in [(false, ""), (true, ", causal = true")] {
        let written = native(
            "input = { tokens = 16, features = 32 }",
            &format!(
                "{{ name = \"block\", operators = [{{ add = [[\"layer_norm\", {{ attention = 4{causal} }}], []] }}] }}, \
                 {{ name = \"loss\", operators = [\"cross_entropy\"] }}"
            ),
        );
        assert_same(&attention(masked).model().expect("known"), &written);
    }
}

#[test]
fn functions_that_are_written_as_several_nodes_are_found() {
    let gelu = Graph::of(FLOAT, &[0, 8])
        .weights("w", &[8, 8])
        .weights("c", &[])
        .node("MatMul", "h", "x w", &[])
        .node("Div", "d", "h c", &[])
        .node("Erf", "e", "d", &[])
        .node("Add", "a", "e c", &[])
        .node("Mul", "m", "h a", &[])
        .node("Mul", "y", "m c", &[]);
    let swish = Graph::of(FLOAT, &[0, 8])
        .weights("w", &[8, 8])
        .node("MatMul", "h", "x w", &[])
        .node("Sigmoid", "s", "h", &[])
        .node("Mul", "y", "h s", &[]);
    let norm = Graph::of(FLOAT, &[0, 4, 8])
        .weights("w", &[8, 8])
        .weights("g", &[8])
        .weights("c", &[])
        .node("MatMul", "h", "x w", &[])
        .node("ReduceMean", "mean", "h", &[("axes", &[-1])])
        .node("Sub", "less", "h mean", &[])
        .node("Pow", "squared", "less c", &[])
        .node("ReduceMean", "variance", "squared", &[("axes", &[-1])])
        .node("Add", "sum", "variance c", &[])
        .node("Sqrt", "root", "sum", &[])
        .node("Div", "over", "less root", &[])
        .node("Mul", "scaled", "over g", &[])
        .node("Add", "y", "scaled g", &[]);
    for (graph, input, operator) in [
        (gelu, "features = 8", "\"gelu\""),
        (swish, "features = 8", "\"swish\""),
        (norm, "tokens = 4, features = 8", "\"layer_norm\""),
    ] {
        let written = native(
            &format!("input = {{ {input} }}"),
            &format!(
                "{{ name = \"a\", operators = [{{ linear = 8, bias = false }}, {operator}] }}, \
                 {{ name = \"b\", operators = [\"cross_entropy\"] }}"
            ),
        );
        assert_same(&graph.model().expect("known"), &written);
    }
}

#[test]
fn what_is_not_known_is_named_with_its_node() {
    let start = || Graph::of(FLOAT, &[0, 3, 8, 8]).weights("w", &[8, 3, 3, 3]);
    for (graph, parts) in [
        (
            start().node("NonMaxSuppression", "pick", "x", &[]),
            vec!["`node pick`", "`NonMaxSuppression` is not known", "docs/onnx.md"],
        ),
        (start().node("Conv", "c", "x w", &[("pads", &[0, 0, 1, 1])]), vec!["`node c (Conv)`", "`pads` before"]),
        (start().node("Exp", "e", "x", &[]), vec!["`node e (Exp)`", "not known outside of attention"]),
        (start().node("MatMul", "m", "x x", &[]), vec!["`node m (MatMul)`", "not for attention"]),
        (
            start().node("Softmax", "s", "x", &[]).node("Relu", "r", "s", &[]),
            vec!["`node s (Softmax)`", "no attention"],
        ),
        (start().node("Reshape", "v", "x x", &[]), vec!["`node v (Reshape)`", "not known before the model runs"]),
        (Graph::of(FLOAT, &[1, 3, 0, 8]).node("Relu", "r", "x", &[]), vec!["`input x`", "dimension 2 (N)", "fixed"]),
        (Graph::of(FLOAT, &[1]).node("Relu", "r", "x", &[]), vec!["`input x`", "[1] is no sample"]),
        (Graph::of(FLOAT, &[1, i64::MAX, 8, 8]).node("Relu", "r", "x", &[]), vec!["too large to be counted"]),
    ] {
        let said = graph.complaint();
        for part in parts {
            assert!(said.contains(part), "`{part}` is not in: {said}");
        }
    }
}

#[test]
fn a_file_that_is_cut_short_or_hostile_is_refused() {
    let whole = residual().bytes();
    for length in 0..whole.len() {
        assert!(from_onnx(Cursor::new(whole[..length].to_vec()), "own").is_err(), "cut at {length}");
    }
    for place in 0..whole.len() {
        let mut changed = whole.clone();
        changed[place] ^= 0xff;
        // It may still be a model; it must not be a panic.
        let _ = from_onnx(Cursor::new(changed), "own");
    }
    // A function of a value without a name (found by fuzzing).
    let _ = from_onnx(Cursor::new(include_bytes!("nameless.onnx").to_vec()), "own");
    // Deep nesting, in groups and in messages.
    assert!(from_onnx(Cursor::new(vec![0x3b; 1 << 16]), "own").is_err());
    let mut nested = Vec::new();
    for _ in 0..200 {
        let mut around = vec![0x2a];
        prost::encoding::encode_varint(nested.len() as u64, &mut around);
        around.extend(nested);
        nested = around;
    }
    let _ = from_onnx(Cursor::new(nested), "own");
    // A part that says it is longer than any file.
    assert!(from_onnx(Cursor::new(vec![0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]), "own").is_err());
}

#[test]
fn values_are_made_once_and_before_they_are_read() {
    let twice = Graph::of(FLOAT, &[1, 4]).node("Relu", "y", "x", &[]).node("Relu", "y", "x", &[]);
    let own = Graph::of(FLOAT, &[1, 4]).node("Relu", "x", "x", &[]);
    let circle = Graph::of(FLOAT, &[1, 4]).node("Add", "a", "x b", &[]).node("Relu", "b", "a", &[]);
    for (graph, said) in [(twice, "`y` is made twice"), (own, "`x` is made twice"), (circle, "`b` is read before")] {
        let complaint = graph.complaint();
        assert!(complaint.contains(said), "{complaint}");
    }
}

#[test]
fn values_without_a_name_are_none() {
    let graph = Graph::of(FLOAT, &[1, 4]).node("Relu", "", "x", &[]);
    for graph in [graph.node("Relu", "y", "-", &[]), Graph::of(FLOAT, &[1, 4]).node("Relu", "y", "", &[])] {
        assert!(!graph.complaint().is_empty());
    }
}

#[test]
fn a_length_of_0_hides_no_shape_that_is_too_large() {
    let graph = Graph::of(FLOAT, &[1, 4])
        .numbers("none", &[0])
        .numbers("axis", &[1])
        .numbers("large", &[1, 0, 1 << 39, 1 << 39])
        .node("Slice", "empty", "x none none axis", &[])
        .node("Unsqueeze", "deep", "empty", &[("axes", &[2, 3])])
        .node("Expand", "wide", "deep large", &[])
        .node("Flatten", "flat", "wide", &[("axis", &[2])]);
    let said = graph.complaint();
    assert!(said.contains("`node wide (Expand)`") && said.contains("too large to be counted"), "{said}");
}
