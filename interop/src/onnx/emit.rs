//! From nodes to operators that are written out.

mod write;

use super::graph::{Dims, Graph, Kind, Sample, broken, shown, unfit, wrong_input};
use super::infer::{Windows, axes, axis};
use super::patterns::{Found, Patterns};
use super::proto::Node;
use std::collections::BTreeMap;
use trainyard_models::ModelSpec;
use trainyard_models::layers::{
    Activation, Add, Concat, Conv, Depthwise, Embedding, GroupNorm, InputSpec, Joined, Linear, MaxPool, MeanPool,
    OperatorSpec, Padding, PaddingRule, Sizes, TransposedConv, Word,
};
use trainyard_units::Invalid;

/// An operator with the values that it reads: what flows, and what is joined with it.
#[derive(Clone, Debug)]
struct Made {
    operator: OperatorSpec,
    main: usize,
    joined: Option<usize>,
}

/// A value of the graph as the layers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// Which operator made it, from 1; 0 is the input.
    value: usize,
    /// Which of its dimensions are channels; none where they and pixels are one dimension.
    channel: Option<usize>,
}

/// The layers of a graph, with their input, under a name.
pub(super) fn spec(graph: &Graph, patterns: &Patterns, name: &str) -> Result<ModelSpec, Invalid> {
    let dims = graph.about[&graph.input].dims.clone().unwrap_or_default();
    let convolved = graph.readers.get(&graph.input).is_some_and(|readers| {
        readers.iter().any(|reader| ["Conv", "ConvTranspose"].contains(&graph.nodes[*reader].op_type.as_str()))
    });
    let wrong = || wrong_input(&graph.input, &format!("{} is no sample", shown(&dims)));
    let (input, channel) = match (graph.sample, dims.as_slice()) {
        (Sample::Tokens, [.., tokens]) if dims.len() <= 2 => {
            (InputSpec { tokens: Some(*tokens), ..InputSpec::default() }, None)
        }
        (Sample::Values, [_, features]) => (InputSpec { features: Some(*features), ..InputSpec::default() }, Some(1)),
        (Sample::Values, [_, features, tokens]) if convolved => (sequence(*tokens, *features), Some(1)),
        (Sample::Values, [_, tokens, features]) => (sequence(*tokens, *features), Some(2)),
        (Sample::Values, [_, channels, height, width]) => (image(*channels, None, *height, *width), Some(1)),
        (Sample::Values, [_, channels, depth, height, width]) => {
            (image(*channels, Some(*depth), *height, *width), Some(1))
        }
        _ => return Err(wrong()),
    };
    let mut emit = Emit {
        graph,
        batch: if dims.len() > 1 { dims[0].max(1) } else { 1 },
        made: Vec::new(),
        shapes: vec![(0, 0)],
        seen: BTreeMap::new(),
    };
    emit.shapes[0] = emit.shape(&dims, channel);
    emit.seen.insert(graph.input.clone(), Seen { value: 0, channel });
    for (index, node) in graph.nodes.iter().enumerate() {
        if patterns.covered.contains(&index) || !graph.flows(node.first_output()) {
            continue;
        }
        match patterns.found.get(&index) {
            Some(found) => emit.found(node, found)?,
            None => emit.node(node)?,
        }
    }
    let last = graph.outputs.iter().filter_map(|output| emit.seen.get(output)).map(|seen| seen.value).max();
    let last =
        last.filter(|value| *value > 0).ok_or_else(|| broken("none of its outputs depends on its first input"))?;
    Ok(write::model(name, input, &emit.made, last))
}

fn sequence(tokens: u64, features: u64) -> InputSpec {
    InputSpec { tokens: Some(tokens), features: Some(features), ..InputSpec::default() }
}

fn image(channels: u64, depth: Option<u64>, height: u64, width: u64) -> InputSpec {
    let (channels, height, width) = (Some(channels), Some(height), Some(width));
    InputSpec { channels, depth, height, width, ..InputSpec::default() }
}

struct Emit<'a> {
    graph: &'a Graph,
    batch: u64,
    made: Vec<Made>,
    /// Of each value, channels and elements of a sample.
    shapes: Vec<(u64, u64)>,
    seen: BTreeMap<String, Seen>,
}

impl Emit<'_> {
    fn shape(&self, dims: &Dims, channel: Option<usize>) -> (u64, u64) {
        let elements = dims.iter().product::<u64>() / self.batch;
        (channel.and_then(|at| dims.get(at).copied()).unwrap_or(elements), elements)
    }

    /// Returns the value that a node reads, as layers see it.
    fn read(&self, node: &Node, name: &str) -> Result<Seen, Invalid> {
        let seen = self.seen.get(name).copied();
        seen.ok_or_else(|| unfit(node, format!("it reads `{name}`, which is inside of what is computed as one")))
    }

    /// The first input, which must flow.
    fn main(&self, node: &Node) -> Result<Seen, Invalid> {
        let name = self.graph.flowing(node).first().copied().unwrap_or_default();
        self.read(node, name)
    }

    /// Adds an operator that makes the output of a node.
    fn push(
        &mut self,
        node: &Node,
        operator: OperatorSpec,
        main: usize,
        joined: Option<usize>,
        channel: usize,
    ) -> Result<(), Invalid> {
        let dims = self.graph.dims(node, node.first_output())?;
        self.made.push(Made { operator, main, joined });
        self.shapes.push(self.shape(&dims, Some(channel)));
        self.see(node, Seen { value: self.made.len(), channel: Some(channel) });
        Ok(())
    }

    fn see(&mut self, node: &Node, seen: Seen) {
        self.seen.insert(node.first_output().to_owned(), seen);
    }

    fn found(&mut self, node: &Node, found: &Found) -> Result<(), Invalid> {
        let seen = self.read(node, &found.input)?;
        let rank = self.graph.dims(node, &found.output)?.len();
        let channel = match &found.operator {
            OperatorSpec::Activation(_) => seen.channel,
            _ => self.last(node, &found.input, seen)?.channel.map(|_| rank - 1),
        };
        let channel = channel.ok_or_else(|| unfit(node, "it gets channels and pixels in one dimension"))?;
        self.push(node, found.operator.clone(), seen.value, None, channel)
    }

    /// A value whose channels are its last dimension, flattened if all of it is.
    fn last(&mut self, node: &Node, name: &str, seen: Seen) -> Result<Seen, Invalid> {
        let dims = self.graph.dims(node, name)?;
        let (_, elements) = self.shapes[seen.value];
        match (seen.channel, dims.last()) {
            (Some(channel), _) if channel + 1 == dims.len() => Ok(seen),
            (_, Some(last)) if *last == elements && dims.iter().product::<u64>() == elements * self.batch => {
                self.made.push(Made { operator: OperatorSpec::Word(Word::Flatten), main: seen.value, joined: None });
                self.shapes.push((elements, elements));
                let flat = Seen { value: self.made.len(), channel: Some(dims.len() - 1) };
                self.seen.insert(name.to_owned(), flat);
                Ok(flat)
            }
            _ => Err(unfit(node, format!("the last dimension of {} is not its channels", shown(&dims)))),
        }
    }

    /// A value whose channels are its second dimension, as those of maps are.
    fn second(&self, node: &Node) -> Result<Seen, Invalid> {
        let seen = self.main(node)?;
        match seen.channel {
            Some(1) => Ok(seen),
            _ => Err(unfit(node, "the second dimension of what it gets is not its channels")),
        }
    }

    fn node(&mut self, node: &Node) -> Result<(), Invalid> {
        let word = |word| OperatorSpec::Word(word);
        match node.op_type.as_str() {
            "Identity" | "Cast" | "Dropout" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Transpose"
            | "Expand" => self.view(node),
            "Relu" | "LeakyRelu" | "Clip" => self.activation(node, Activation::Relu),
            "Gelu" => self.activation(node, Activation::Gelu),
            "Sigmoid" => self.activation(node, Activation::Sigmoid),
            "Tanh" => self.activation(node, Activation::Tanh),
            "HardSwish" => self.activation(node, Activation::HardSwish),
            "HardSigmoid" => self.activation(node, Activation::HardSigmoid),
            "Swish" => self.activation(node, Activation::Swish),
            "MatMul" | "Gemm" => self.linear(node),
            "Conv" => self.conv(node),
            "ConvTranspose" => self.transposed(node),
            "MaxPool" | "AveragePool" => self.pool(node),
            "GlobalAveragePool" => {
                let seen = self.second(node)?;
                self.push(node, word(Word::GlobalPool), seen.value, None, 1)
            }
            "ReduceMean" => self.mean(node),
            "BatchNormalization" | "InstanceNormalization" => {
                let seen = self.second(node)?;
                let batch = node.op_type == "BatchNormalization";
                self.push(node, word(if batch { Word::BatchNorm } else { Word::InstanceNorm }), seen.value, None, 1)
            }
            "GroupNormalization" => {
                let (seen, groups) = (self.second(node)?, node.int("num_groups").unwrap_or(1).unsigned_abs());
                self.push(node, OperatorSpec::GroupNorm(GroupNorm { group_norm: groups }), seen.value, None, 1)
            }
            "LayerNormalization" => self.layer_norm(node),
            "Add" | "Sub" | "Mul" | "Div" => self.elementwise(node),
            "Concat" => self.concat(node),
            "Gather" => self.gather(node),
            "Slice" => self.slice(node),
            "Softmax" | "LogSoftmax" if self.graph.outputs.iter().any(|output| output == node.first_output()) => {
                // The loss of a training has it.
                let seen = self.main(node)?;
                self.see(node, seen);
                Ok(())
            }
            _ => Err(unfit(node, "it is not known outside of attention and normalisation")),
        }
    }

    /// The same elements, seen in another way.
    fn view(&mut self, node: &Node) -> Result<(), Invalid> {
        let seen = self.main(node)?;
        let before = self.graph.dims(node, node.input_at(0).unwrap_or_default())?;
        let after = self.graph.dims(node, node.first_output())?;
        if before.iter().product::<u64>() != after.iter().product::<u64>() {
            return Err(unfit(node, format!("it repeats {} as {}", shown(&before), shown(&after))));
        }
        let channel = match (node.op_type.as_str(), seen.channel) {
            ("Transpose", Some(at)) => {
                let reversed: Vec<i64> = (0..(before.len() as u64).cast_signed()).rev().collect();
                let order = node.ints("perm").unwrap_or(&reversed);
                order.iter().position(|from| axis(node, *from, before.len()).is_ok_and(|from| from == at))
            }
            (_, Some(at)) => kept(&before, at, &after),
            (_, None) => None,
        };
        self.see(node, Seen { channel, ..seen });
        Ok(())
    }

    fn activation(&mut self, node: &Node, activation: Activation) -> Result<(), Invalid> {
        let seen = self.main(node)?;
        let seen = match seen.channel {
            Some(_) => seen,
            None => self.last(node, self.graph.flowing(node).first().copied().unwrap_or_default(), seen)?,
        };
        self.push(node, OperatorSpec::Activation(activation), seen.value, None, seen.channel.unwrap_or(0))
    }

    fn linear(&mut self, node: &Node) -> Result<(), Invalid> {
        let [name] = self.graph.flowing(node)[..] else {
            return Err(unfit(node, "it multiplies two values that depend on the sample, but not for attention"));
        };
        let name = name.to_owned();
        if node.input_at(0) != Some(&name) {
            return Err(unfit(node, "what flows is its second factor"));
        }
        let seen = self.read(node, &name)?;
        let seen = self.last(node, &name, seen)?;
        let dims = self.graph.dims(node, node.first_output())?;
        let rank = dims.len();
        let bias = node.op_type == "Gemm" && node.input_at(2).is_some();
        let linear = Linear { linear: dims[rank - 1], bias: (!bias).then_some(false), activation: None };
        self.push(node, OperatorSpec::Linear(linear), seen.value, None, rank - 1)
    }

    fn conv(&mut self, node: &Node) -> Result<(), Invalid> {
        let seen = self.second(node)?;
        let weights = self.graph.dims(node, node.input_at(1).unwrap_or_default())?;
        let (windows, (channels, _)) = (Windows::of(self.graph, node)?, self.shapes[seen.value]);
        let groups = node.int("group").unwrap_or(1).unsigned_abs();
        let (kernel, stride) = (each(&windows.kernel), differs(&windows.strides, 1));
        let padding = Some(padding(node, &windows)?);
        let dilation = differs(&windows.dilations, 1);
        let bias = Some(node.input_at(2).is_some());
        let (norm, activation) = (None, None);
        let operator = if groups > 1 && groups == channels && weights.first() == Some(&channels) {
            OperatorSpec::Depthwise(Depthwise { depthwise: kernel, stride, padding, dilation, bias, norm, activation })
        } else {
            let (conv, kernel) = (weights.first().copied().unwrap_or(0), Some(kernel));
            let groups = (groups > 1).then_some(groups);
            OperatorSpec::Conv(Conv { conv, kernel, stride, padding, dilation, groups, bias, norm, activation })
        };
        self.push(node, operator, seen.value, None, 1)
    }

    fn transposed(&mut self, node: &Node) -> Result<(), Invalid> {
        let seen = self.second(node)?;
        let (windows, dims) = (Windows::of(self.graph, node)?, self.graph.dims(node, node.first_output())?);
        let operator = OperatorSpec::TransposedConv(TransposedConv {
            transposed_conv: dims[1],
            kernel: each(&windows.kernel),
            stride: differs(&windows.strides, 1),
            padding: Some(padding(node, &windows)?),
            bias: Some(node.input_at(2).is_some()),
            norm: None,
            activation: None,
        });
        self.push(node, operator, seen.value, None, 1)
    }

    fn pool(&mut self, node: &Node) -> Result<(), Invalid> {
        let (seen, windows) = (self.second(node)?, Windows::of(self.graph, node)?);
        if windows.dilations.iter().any(|dilation| *dilation != 1) {
            return Err(unfit(node, "`dilations` of a pool are not known"));
        }
        let (kernel, stride) = (each(&windows.kernel), Some(each(&windows.strides)));
        let padding = Some(padding(node, &windows)?);
        let operator = if node.op_type == "MaxPool" {
            OperatorSpec::MaxPool(MaxPool { max_pool: kernel, stride, padding })
        } else {
            OperatorSpec::MeanPool(MeanPool { mean_pool: kernel, stride, padding })
        };
        self.push(node, operator, seen.value, None, 1)
    }

    /// The mean of all pixels or tokens.
    fn mean(&mut self, node: &Node) -> Result<(), Invalid> {
        let (seen, axes) = (self.main(node)?, axes(self.graph, node)?);
        let dims = self.graph.dims(node, node.input_at(0).unwrap_or_default())?;
        let channel = seen.channel.unwrap_or(usize::MAX);
        let all_but = (1..dims.len()).all(|at| at == channel || dims[at] == 1 || axes.contains(&at));
        if !all_but || axes.contains(&channel) || axes.contains(&0) || axes.is_empty() {
            return Err(unfit(node, format!("it is no mean over all pixels or tokens of {}", shown(&dims))));
        }
        let keep = node.int("keepdims").unwrap_or(1) != 0;
        let gone = if keep { 0 } else { axes.iter().filter(|at| **at < channel).count() };
        self.push(node, OperatorSpec::Word(Word::GlobalPool), seen.value, None, channel - gone)
    }

    fn layer_norm(&mut self, node: &Node) -> Result<(), Invalid> {
        let name = node.input_at(0).unwrap_or_default().to_owned();
        let seen = self.read(node, &name)?;
        let rank = self.graph.dims(node, &name)?.len();
        if axis(node, node.int("axis").unwrap_or(-1), rank)? + 1 != rank {
            return Err(unfit(node, "it normalises over more than the channels"));
        }
        let seen = self.last(node, &name, seen)?;
        self.push(node, OperatorSpec::Word(Word::LayerNorm), seen.value, None, rank - 1)
    }

    /// Sums of two values, biases, trained scales; what is done with a constant takes no operator of its own.
    fn elementwise(&mut self, node: &Node) -> Result<(), Invalid> {
        let flowing: Vec<String> = self.graph.flowing(node).into_iter().map(str::to_owned).collect();
        if let [a, b] = flowing.as_slice() {
            let (a, b) = (self.read(node, a)?, self.read(node, b)?);
            let alike = self.shapes[a.value] == self.shapes[b.value] && a.channel == b.channel;
            let (true, Some(channel), "Add") = (alike, a.channel, node.op_type.as_str()) else {
                return Err(unfit(
                    node,
                    "of two values that depend on the sample, only sums of equal shapes are known",
                ));
            };
            let add = OperatorSpec::Add(Add { add: Joined::Saved(String::new()), dropout: None });
            return self.push(node, add, a.value, Some(b.value), channel);
        }
        let (seen, name) = (self.main(node)?, flowing.first().cloned().unwrap_or_default());
        let constant = node.input.iter().find(|input| **input != name).cloned().unwrap_or_default();
        let tables = if node.op_type == "Add" { self.tables(&constant) } else { Vec::new() };
        let (channels, _) = self.shapes[seen.value];
        let values = self.graph.of(&constant).dims.map_or(0, |dims| dims.iter().product::<u64>());
        let trained = self.graph.of(&constant).trained && values > 1;
        let single = self.graph.only_reader(&name).is_some();
        let maker = seen.value.checked_sub(1).map(|place| &mut self.made[place].operator);
        match (maker, node.op_type.as_str()) {
            (Some(OperatorSpec::Embedding(embedding)), "Add") if !tables.is_empty() => {
                let before = embedding.positions.unwrap_or(0);
                embedding.positions = Some(before + tables.iter().sum::<u64>());
            }
            (Some(OperatorSpec::Linear(Linear { bias: bias @ Some(false), .. })), "Add")
                if trained && single && values == channels =>
            {
                *bias = None;
            }
            (Some(OperatorSpec::Conv(Conv { bias: bias @ Some(false), .. })), "Add")
                if trained && single && values == channels =>
            {
                *bias = Some(true);
            }
            (_, "Mul") if trained && values == channels => {
                let channel = seen.channel.ok_or_else(|| unfit(node, "it gets no channels"))?;
                return self.push(node, OperatorSpec::Word(Word::Scale), seen.value, None, channel);
            }
            _ if trained => return Err(unfit(node, format!("`{constant}` is trained and neither bias nor scale"))),
            _ => {}
        }
        self.see(node, seen);
        Ok(())
    }

    /// Rows of the tables of which something is a sum of entries, as positions and segments are.
    fn tables(&self, name: &str) -> Vec<u64> {
        const DEPTH: usize = 8;
        let mut rows = Vec::new();
        let mut names = vec![(name.to_owned(), 0)];
        while let Some((name, depth)) = names.pop() {
            let about = self.graph.of(&name);
            if about.trained {
                let dims = about.dims.unwrap_or_default();
                if let [.., table, _] = dims.as_slice() {
                    rows.push(*table);
                }
                continue;
            }
            let Some(node) = self.graph.makers.get(&name).map(|index| &self.graph.nodes[*index]) else { continue };
            if depth < DEPTH && ["Gather", "Add", "Identity", "Unsqueeze", "Expand"].contains(&node.op_type.as_str()) {
                let read = if node.op_type == "Add" { node.input.len() } else { 1 };
                names.extend(node.input.iter().take(read).map(|input| (input.clone(), depth + 1)));
            }
        }
        rows
    }

    fn concat(&mut self, node: &Node) -> Result<(), Invalid> {
        let names: Vec<&str> = self.graph.flowing(node);
        let all = node.input.iter().all(|input| names.contains(&input.as_str()));
        let rank = self.graph.dims(node, node.first_output())?.len();
        let at = axis(node, node.int("axis").unwrap_or(0), rank)?;
        let seen: Vec<Seen> = node.input.iter().filter_map(|name| self.seen.get(name).copied()).collect();
        if !all || seen.len() != node.input.len() || seen.iter().any(|seen| seen.channel != Some(at)) {
            return Err(unfit(node, "only channels of values that depend on the sample are put side by side"));
        }
        let (mut main, mut channels) = (seen[0].value, self.shapes[seen[0].value]);
        for (place, other) in seen.iter().enumerate().skip(1) {
            let concat = OperatorSpec::Concat(Concat { concat: Joined::Saved(String::new()), crop: None });
            let (more, elements) = self.shapes[other.value];
            channels = (channels.0 + more, channels.1 + elements);
            if place + 1 == seen.len() {
                return self.push(node, concat, main, Some(other.value), at);
            }
            self.made.push(Made { operator: concat, main, joined: Some(other.value) });
            self.shapes.push(channels);
            main = self.made.len();
        }
        self.see(node, seen[0]);
        Ok(())
    }

    /// A look-up of tokens in a table, or one of the tokens of a sequence.
    fn gather(&mut self, node: &Node) -> Result<(), Invalid> {
        let (table, indices) = (node.input_at(0).unwrap_or_default(), node.input_at(1).unwrap_or_default());
        let dims = self.graph.dims(node, table)?;
        if self.graph.flows(indices) {
            let (seen, [rows, width]) = (self.read(node, indices)?, dims.as_slice()) else {
                return Err(unfit(node, format!("{} is no table", shown(&dims))));
            };
            let rank = self.graph.dims(node, node.first_output())?.len();
            let (embedding, width) = (*rows, *width);
            let operator = OperatorSpec::Embedding(Embedding { embedding, width, positions: None, dropout: None });
            return self.push(node, operator, seen.value, None, rank - 1);
        }
        let seen = self.main(node)?;
        let at = axis(node, node.int("axis").unwrap_or(0), dims.len())?;
        let one = matches!(self.graph.of(indices).kind, Kind::Known(Some(values)) if values.len() == 1);
        let scalar = self.graph.dims(node, indices)?.is_empty();
        self.chosen(node, seen, at, one, scalar)
    }

    fn slice(&mut self, node: &Node) -> Result<(), Invalid> {
        let seen = self.main(node)?;
        let before = self.graph.dims(node, node.input_at(0).unwrap_or_default())?;
        let after = self.graph.dims(node, node.first_output())?;
        let changed: Vec<usize> = (0..before.len()).filter(|at| before[*at] != after[*at]).collect();
        match changed[..] {
            [] => {
                self.see(node, seen);
                Ok(())
            }
            [at] => self.chosen(node, seen, at, after[at] == 1, false),
            _ => Err(unfit(node, format!("it cuts {} out of {}", shown(&after), shown(&before)))),
        }
    }

    /// One token of a sequence, which is priced as the mean of all of them: it reads no more than that.
    fn chosen(&mut self, node: &Node, seen: Seen, at: usize, one: bool, dropped: bool) -> Result<(), Invalid> {
        let dims = self.graph.dims(node, node.input_at(0).unwrap_or_default())?;
        match seen.channel {
            Some(channel) if one && dims.len() == 3 && at > 0 && at != channel => {
                let channel = if dropped && at < channel { channel - 1 } else { channel };
                self.push(node, OperatorSpec::Word(Word::GlobalPool), seen.value, None, channel)
            }
            _ => Err(unfit(node, "only one token of a sequence can be chosen")),
        }
    }
}

/// Returns the place of a dimension after a reshape; `None` if it is split or joined with others.
fn kept(before: &Dims, at: usize, after: &Dims) -> Option<usize> {
    let ahead: u64 = before[..at].iter().product();
    let mut product = 1;
    for (place, size) in after.iter().enumerate() {
        if product == ahead && *size == before[at] && (*size > 1 || place + 1 == after.len() || place == at) {
            return Some(place);
        }
        product *= size;
    }
    None
}

fn each(dims: &Dims) -> Sizes {
    match dims.split_first() {
        Some((first, rest)) if rest.iter().all(|size| size == first) => Sizes::All(*first),
        _ => Sizes::Each(dims.clone()),
    }
}

fn differs(dims: &Dims, usual: u64) -> Option<Sizes> {
    dims.iter().any(|size| *size != usual).then(|| each(dims))
}

/// Returns the padding of a map, which must be the same on both sides.
fn padding(node: &Node, windows: &Windows) -> Result<Padding, Invalid> {
    if windows.same {
        return Ok(Padding::Rule(PaddingRule::Same));
    }
    if windows.before != windows.behind {
        return Err(unfit(
            node,
            format!("`pads` before, {:?}, are not those behind, {:?}", windows.before, windows.behind),
        ));
    }
    if windows.before.iter().all(|pad| *pad == 0) {
        Ok(Padding::Rule(PaddingRule::Valid))
    } else {
        Ok(Padding::By(each(&windows.before)))
    }
}
