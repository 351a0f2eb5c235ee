//! The shape of every value, node by node, and the values of those from which shapes are computed.

use super::graph::{About, Dims, Graph, Kind, called, checked, shown, unfit};
use super::proto::Node;
use trainyard_units::Invalid;

/// Functions of each element, of one value or of several that are brought to one shape.
const ELEMENTWISE: [&str; 40] = [
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Pow",
    "Sqrt",
    "Erf",
    "Tanh",
    "Sigmoid",
    "Relu",
    "LeakyRelu",
    "Gelu",
    "HardSwish",
    "HardSigmoid",
    "Clip",
    "Exp",
    "Log",
    "Neg",
    "Abs",
    "Reciprocal",
    "Dropout",
    "Identity",
    "Cast",
    "Softmax",
    "LogSoftmax",
    "LayerNormalization",
    "BatchNormalization",
    "InstanceNormalization",
    "GroupNormalization",
    "Where",
    "Equal",
    "And",
    "Or",
    "Not",
    "Greater",
    "Less",
    "LessOrEqual",
    "GreaterOrEqual",
    "Trilu",
    "Swish",
];

/// Fills in what is known of every value.
pub(super) fn infer(graph: &mut Graph) -> Result<(), Invalid> {
    for index in 0..graph.nodes.len() {
        let node = graph.nodes[index].clone();
        let kind = kind(graph, &node);
        let flows = kind == Kind::Flow;
        if flows && (!["", "ai.onnx"].contains(&node.domain.as_str()) || !is_known(&node.op_type)) {
            let operator = match node.domain.as_str() {
                "" | "ai.onnx" => node.op_type.clone(),
                domain => format!("{domain}.{}", node.op_type),
            };
            let hint = "docs/onnx.md lists what is known; a model may also be written out, see docs/models.md";
            let node = format!("node {}", called(&node));
            return Err(Invalid::inside(node, format!("the operator `{operator}` is not known")).with_hint(hint));
        }
        let shapes = match shapes(graph, &node) {
            Ok(shapes) => shapes.into_iter().map(Some).collect(),
            Err(error) if flows => return Err(error),
            // What does not flow is not computed by the model: its shape matters only where it is known.
            Err(_) => vec![None; node.output.len()],
        };
        let values = if flows { None } else { super::constants::values(graph, &node) };
        for (place, name) in node.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let dims: Option<Dims> = shapes.get(place).cloned().flatten();
            let dims = match dims.map(|dims| checked(&dims).map(|()| dims)) {
                Some(Err(problem)) if flows => return Err(unfit(&node, problem)),
                dims => dims.and_then(Result::ok),
            };
            let kind = match &kind {
                Kind::Known(_) => Kind::Known(values.clone()),
                other => other.clone(),
            };
            let trained = matches!(kind, Kind::Known(None)) && keeps_weights(graph, &node);
            graph.about.insert(name.clone(), About { kind, dims, trained });
        }
    }
    Ok(())
}

/// Returns `true` if the output of a node is its weights still: turned round, or under another shape.
fn keeps_weights(graph: &Graph, node: &Node) -> bool {
    let same = ["Identity", "Cast", "Transpose", "Reshape", "Squeeze", "Unsqueeze"].contains(&node.op_type.as_str());
    let weights = node.op_type == "Constant" && node.attribute("value").is_some_and(|value| value.t.is_some());
    weights || same && node.input_at(0).is_some_and(|name| graph.of(name).trained)
}

fn kind(graph: &Graph, node: &Node) -> Kind {
    let kinds = || node.input.iter().filter(|name| !name.is_empty()).map(|name| graph.of(name).kind);
    // A shape is the same for all samples, whatever has it.
    if ["Shape", "Size", "ConstantOfShape"].contains(&node.op_type.as_str()) {
        return Kind::Known(None);
    }
    if kinds().any(|kind| kind == Kind::Flow) {
        Kind::Flow
    } else if kinds().any(|kind| kind == Kind::Aside) {
        Kind::Aside
    } else {
        Kind::Known(None)
    }
}

fn is_known(operator: &str) -> bool {
    let shaped = [
        "Conv",
        "ConvTranspose",
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "ReduceMean",
        "Gemm",
        "MatMul",
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
        "Concat",
        "Split",
        "Slice",
        "Gather",
        "Expand",
    ];
    shaped.contains(&operator) || ELEMENTWISE.contains(&operator)
}

/// The shapes of what a node makes.
fn shapes(graph: &Graph, node: &Node) -> Result<Vec<Dims>, Invalid> {
    let input = || graph.dims(node, node.input_at(0).unwrap_or_default());
    let one = match node.op_type.as_str() {
        operator if ELEMENTWISE.contains(&operator) => elementwise(graph, node)?,
        "Conv" | "MaxPool" | "AveragePool" => windows(graph, node)?,
        "ConvTranspose" => spread(graph, node)?,
        "GlobalAveragePool" | "GlobalMaxPool" => {
            input()?.into_iter().enumerate().map(|(axis, size)| if axis < 2 { size } else { 1 }).collect()
        }
        "ReduceMean" => reduced(graph, node)?,
        "Gemm" => gemm(graph, node)?,
        "MatMul" => product(graph, node)?,
        "Reshape" => reshaped(graph, node)?,
        "Flatten" => {
            let (dims, axis) = (input()?, axis(node, node.int("axis").unwrap_or(1), input()?.len() + 1)?);
            vec![dims[..axis].iter().product(), dims[axis..].iter().product()]
        }
        "Squeeze" => {
            let (dims, axes) = (input()?, axes(graph, node)?);
            let drop = |(place, size): &(usize, u64)| *size == 1 && (axes.is_empty() || axes.contains(place));
            dims.into_iter().enumerate().filter(|part| !drop(part)).map(|(_, size)| size).collect()
        }
        "Unsqueeze" => {
            let (mut dims, mut axes) = (input()?, axes(graph, node)?);
            axes.sort_unstable();
            for place in axes {
                dims.insert(place.min(dims.len()), 1);
            }
            dims
        }
        "Transpose" => {
            let dims = input()?;
            let reversed: Vec<i64> = (0..(dims.len() as u64).cast_signed()).rev().collect();
            let order = node.ints("perm").unwrap_or(&reversed);
            order.iter().map(|from| axis(node, *from, dims.len()).map(|from| dims[from])).collect::<Result<_, _>>()?
        }
        "Concat" => concatenated(graph, node)?,
        "Split" => return split(graph, node),
        "Slice" => sliced(graph, node)?,
        "Gather" => {
            let (dims, indices) = (input()?, graph.dims(node, node.input_at(1).unwrap_or_default())?);
            let at = axis(node, node.int("axis").unwrap_or(0), dims.len())?;
            [&dims[..at], &indices, &dims[at + 1..]].concat()
        }
        "Expand" => {
            let wanted = numbers(graph, node, 1)?;
            broadcast(&input()?, &wanted).ok_or_else(|| unfit(node, "shapes do not go together"))?
        }
        "Constant" | "Shape" | "ConstantOfShape" | "Range" => {
            super::constants::shape(graph, node).ok_or_else(|| unfit(node, "its shape is not known"))?
        }
        _ => return Err(unfit(node, "its shape is not known")),
    };
    Ok(vec![one])
}

/// Whole numbers, none negative, that a node reads.
fn numbers(graph: &Graph, node: &Node, place: usize) -> Result<Dims, Invalid> {
    let known = known(graph, node, place)?;
    known.iter().map(|value| u64::try_from(*value).map_err(|_| unfit(node, format!("{value} is no size")))).collect()
}

/// Whole numbers that a node reads and that are the same for all samples.
pub(super) fn known(graph: &Graph, node: &Node, place: usize) -> Result<Vec<i64>, Invalid> {
    let name = node.input_at(place).ok_or_else(|| unfit(node, format!("it has no input {place}")))?;
    match graph.of(name).kind {
        Kind::Known(Some(values)) => Ok(values),
        _ => Err(unfit(node, format!("`{name}` is not known before the model runs"))),
    }
}

/// A place among so many, which may be counted from the end.
pub(super) fn axis(node: &Node, axis: i64, rank: usize) -> Result<usize, Invalid> {
    let place = if axis < 0 { axis + (rank as u64).cast_signed() } else { axis };
    let place = usize::try_from(place).ok().filter(|place| *place < rank);
    place.ok_or_else(|| unfit(node, format!("there is no axis {axis} of {rank}")))
}

/// The axes of a node, by attribute or input; of Unsqueeze those of the result.
pub(super) fn axes(graph: &Graph, node: &Node) -> Result<Vec<usize>, Invalid> {
    let given: Vec<i64> = match node.ints("axes") {
        Some(axes) => axes.to_vec(),
        None if node.input_at(1).is_some() => known(graph, node, 1)?,
        None => Vec::new(),
    };
    let rank = graph.dims(node, node.input_at(0).unwrap_or_default())?.len();
    let rank = if node.op_type == "Unsqueeze" { rank + given.len() } else { rank };
    given.iter().map(|given| axis(node, *given, rank)).collect()
}

fn elementwise(graph: &Graph, node: &Node) -> Result<Dims, Invalid> {
    let several = ["Add", "Sub", "Mul", "Div", "Pow", "Where", "Equal", "And", "Or", "Greater", "Less"];
    let count = if several.contains(&node.op_type.as_str()) { node.input.len() } else { 1 };
    let mut shape: Dims = Vec::new();
    for place in 0..count {
        let other = graph.dims(node, node.input_at(place).unwrap_or_default())?;
        shape = broadcast(&shape, &other)
            .ok_or_else(|| unfit(node, format!("{} and {} do not go together", shown(&shape), shown(&other))))?;
    }
    Ok(shape)
}

/// The shape of two that are brought to one.
pub(super) fn broadcast(a: &Dims, b: &Dims) -> Option<Dims> {
    let rank = a.len().max(b.len());
    let size = |dims: &Dims, place: usize| (place + dims.len()).checked_sub(rank).map_or(1, |place| dims[place]);
    (0..rank)
        .map(|place| match (size(a, place), size(b, place)) {
            (x, y) if x == y || y == 1 => Some(x),
            (1, y) => Some(y),
            _ => None,
        })
        .collect()
}

/// The windows of a convolution or a pool in each dimension: extent, distance, dilation, padding before and behind.
pub(super) struct Windows {
    pub(super) kernel: Dims,
    pub(super) strides: Dims,
    pub(super) dilations: Dims,
    pub(super) before: Dims,
    pub(super) behind: Dims,
    /// `true` if the stride alone decides how many there are.
    pub(super) same: bool,
}

impl Windows {
    pub(super) fn of(graph: &Graph, node: &Node) -> Result<Self, Invalid> {
        let kernel: Dims = match node.ints("kernel_shape") {
            Some(kernel) => sizes(node, kernel)?,
            None => graph.dims(node, node.input_at(1).unwrap_or_default())?.into_iter().skip(2).collect(),
        };
        let of = |name, default: u64, count: usize| -> Result<Dims, Invalid> {
            let given = node.ints(name).map(|given| sizes(node, given)).transpose()?;
            let given = given.unwrap_or_else(|| vec![default; count]);
            let fits = given.len() == count;
            fits.then_some(given).ok_or_else(|| unfit(node, format!("`{name}` has not {count} numbers")))
        };
        let rank = kernel.len();
        let pads = of("pads", 0, 2 * rank)?;
        let automatic = node.text("auto_pad").unwrap_or_default();
        if node.int("ceil_mode").unwrap_or(0) != 0 {
            return Err(unfit(node, "`ceil_mode` is not known"));
        }
        Ok(Self {
            strides: of("strides", 1, rank)?,
            dilations: of("dilations", 1, rank)?,
            before: pads[..rank].to_vec(),
            behind: pads[rank..].to_vec(),
            same: automatic.starts_with("SAME"),
            kernel,
        })
    }
}

fn sizes(node: &Node, given: &[i64]) -> Result<Dims, Invalid> {
    const MOST: i64 = 1 << 16;
    let size = |value: &i64| u64::try_from(*value).ok().filter(|_| *value <= MOST);
    given
        .iter()
        .map(|value| size(value).ok_or_else(|| unfit(node, format!("{value} is no size of a window"))))
        .collect()
}

fn windows(graph: &Graph, node: &Node) -> Result<Dims, Invalid> {
    let dims = graph.dims(node, node.input_at(0).unwrap_or_default())?;
    let windows = Windows::of(graph, node)?;
    if dims.len() != windows.kernel.len() + 2 {
        return Err(unfit(node, format!("it gets {}, which has other dimensions than its windows", shown(&dims))));
    }
    let channels = match node.op_type.as_str() {
        "Conv" => *graph.dims(node, node.input_at(1).unwrap_or_default())?.first().unwrap_or(&0),
        _ => dims[1],
    };
    let mut shape = vec![dims[0], channels];
    for (place, size) in dims[2..].iter().enumerate() {
        let stride = windows.strides[place].max(1);
        let window = windows.dilations[place] * windows.kernel[place].saturating_sub(1) + 1;
        let padded = size + windows.before[place] + windows.behind[place];
        shape.push(match (windows.same, padded.checked_sub(window)) {
            (true, _) => size.div_ceil(stride),
            (false, Some(rest)) => rest / stride + 1,
            (false, None) => return Err(unfit(node, format!("a window of {window} does not fit into {padded}"))),
        });
    }
    Ok(shape)
}

fn spread(graph: &Graph, node: &Node) -> Result<Dims, Invalid> {
    let dims = graph.dims(node, node.input_at(0).unwrap_or_default())?;
    let weights = graph.dims(node, node.input_at(1).unwrap_or_default())?;
    let windows = Windows::of(graph, node)?;
    let plain = node.int("group").unwrap_or(1) == 1
        && node.ints("output_padding").is_none_or(|pads| pads.iter().all(|pad| *pad == 0))
        && windows.dilations.iter().all(|dilation| *dilation == 1);
    if !plain || dims.len() != windows.kernel.len() + 2 || weights.len() < 2 {
        return Err(unfit(node, "groups, dilation and `output_padding` are not known"));
    }
    let mut shape = vec![dims[0], weights[1]];
    for (place, size) in dims[2..].iter().enumerate() {
        let whole = size.saturating_sub(1) * windows.strides[place] + windows.kernel[place];
        shape.push(whole.saturating_sub(windows.before[place] + windows.behind[place]).max(1));
    }
    Ok(shape)
}

fn reduced(graph: &Graph, node: &Node) -> Result<Dims, Invalid> {
    let (dims, axes) = (graph.dims(node, node.input_at(0).unwrap_or_default())?, axes(graph, node)?);
    let keep = node.int("keepdims").unwrap_or(1) != 0;
    let gone = |place: usize| axes.is_empty() || axes.contains(&place);
    let kept = dims.iter().enumerate().filter(|(place, _)| keep || !gone(*place));
    Ok(kept.map(|(place, size)| if gone(place) { 1 } else { *size }).collect())
}

fn gemm(graph: &Graph, node: &Node) -> Result<Dims, Invalid> {
    let (dims, weights) = (
        graph.dims(node, node.input_at(0).unwrap_or_default())?,
        graph.dims(node, node.input_at(1).unwrap_or_default())?,
    );
    if dims.len() != 2 || weights.len() != 2 || node.int("transA").unwrap_or(0) != 0 {
        return Err(unfit(node, "only the product of a matrix and a matrix is known"));
    }
    let [k, n] = if node.int("transB").unwrap_or(0) == 0 { [weights[0], weights[1]] } else { [weights[1], weights[0]] };
    fits(node, &dims, k)?;
    Ok(vec![dims[0], n])
}

fn fits(node: &Node, dims: &Dims, depth: u64) -> Result<(), Invalid> {
    match dims.last() {
        Some(last) if *last == depth => Ok(()),
        _ => Err(unfit(node, format!("it gets {}, but multiplies {depth} values", shown(dims)))),
    }
}

fn product(graph: &Graph, node: &Node) -> Result<Dims, Invalid> {
    let (a, b) = (
        graph.dims(node, node.input_at(0).unwrap_or_default())?,
        graph.dims(node, node.input_at(1).unwrap_or_default())?,
    );
    let (Some(rows), [.., depth, columns]) = (a.len().checked_sub(2), b.as_slice()) else {
        return Err(unfit(node, "only products of matrices are known"));
    };
    fits(node, &a, *depth)?;
    let batch = broadcast(&a[..rows].to_vec(), &b[..b.len() - 2].to_vec());
    let batch = batch.ok_or_else(|| unfit(node, format!("{} and {} do not go together", shown(&a), shown(&b))))?;
    Ok([batch, vec![a[rows], *columns]].concat())
}

fn reshaped(graph: &Graph, node: &Node) -> Result<Dims, Invalid> {
    let dims = graph.dims(node, node.input_at(0).unwrap_or_default())?;
    let wanted = known(graph, node, 1)?;
    let whole: u64 = dims.iter().product();
    let wrong = || unfit(node, format!("{} cannot be seen as {wanted:?}", shown(&dims)));
    let mut shape = Vec::new();
    for (place, size) in wanted.iter().enumerate() {
        shape.push(match (*size, dims.get(place)) {
            (0, Some(same)) => *same,
            (-1, _) => 1,
            (size, _) => u64::try_from(size).map_err(|_| wrong())?,
        });
    }
    checked(&shape).map_err(|problem| unfit(node, problem))?;
    let others: u64 = shape.iter().product();
    if let Some(open) = wanted.iter().position(|size| *size == -1) {
        shape[open] = whole.checked_div(others).unwrap_or(0);
    }
    if shape.iter().product::<u64>() == whole { Ok(shape) } else { Err(wrong()) }
}

fn concatenated(graph: &Graph, node: &Node) -> Result<Dims, Invalid> {
    let mut shape = graph.dims(node, node.input_at(0).unwrap_or_default())?;
    let at = axis(node, node.int("axis").unwrap_or(0), shape.len())?;
    for name in &node.input[1..] {
        let other = graph.dims(node, name)?;
        let size = other.get(at).ok_or_else(|| unfit(node, format!("`{name}` has no axis {at}")))?;
        shape[at] = shape[at].saturating_add(*size);
    }
    Ok(shape)
}

fn split(graph: &Graph, node: &Node) -> Result<Vec<Dims>, Invalid> {
    let dims = graph.dims(node, node.input_at(0).unwrap_or_default())?;
    let at = axis(node, node.int("axis").unwrap_or(0), dims.len())?;
    let sizes = match node.ints("split") {
        Some(sizes) => sizes.to_vec(),
        None if node.input_at(1).is_some() => known(graph, node, 1)?,
        None => vec![dims[at].div_ceil(node.output.len().max(1) as u64).cast_signed(); node.output.len()],
    };
    let part = |size: &i64| {
        let mut dims = dims.clone();
        dims[at] = u64::try_from(*size).unwrap_or(0);
        dims
    };
    Ok(sizes.iter().map(part).collect())
}

fn sliced(graph: &Graph, node: &Node) -> Result<Dims, Invalid> {
    let mut dims = graph.dims(node, node.input_at(0).unwrap_or_default())?;
    let (starts, ends) = (known(graph, node, 1)?, known(graph, node, 2)?);
    let every: Vec<i64> = (0..(starts.len() as u64).cast_signed()).collect();
    let axes = if node.input_at(3).is_some() { known(graph, node, 3)? } else { every };
    let steps = if node.input_at(4).is_some() { known(graph, node, 4)? } else { vec![1; starts.len()] };
    for (((start, end), given), step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
        let at = axis(node, *given, dims.len())?;
        let size = dims[at].cast_signed();
        let bound = |value: i64| if value < 0 { value.saturating_add(size) } else { value }.clamp(0, size);
        let length = (bound(*end) - bound(*start)).max(0).unsigned_abs();
        let step = u64::try_from(*step).ok().filter(|step| *step > 0).ok_or_else(|| unfit(node, "steps go back"))?;
        dims[at] = length.div_ceil(step);
    }
    Ok(dims)
}
