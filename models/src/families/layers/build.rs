//! From layers as written to an operator graph: what flows, what is saved for later, which layers are alike.

use super::shape::{Input, Shape};
use crate::families::ModelError;
use crate::families::fields::{LAYERS_MAX, OPERATORS_MAX};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::layers::{InputSpec, LayerSpec, OperatorSpec};
use crate::operator::{AttentionKernel, Image, Operator, OperatorKind, Pool, Recommendation, replicated};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_units::Invalid;

/// What flows from one operator to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Tokens that are not looked up yet.
    Tokens(u64),
    Map(Value),
    /// A loss was computed.
    Loss,
}

/// What an operator made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) shape: Shape,
    /// Tells values apart that have the same shape.
    id: usize,
}

impl Value {
    /// The same elements under another shape.
    pub(super) fn seen_as(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }
}

/// Something saved under a name.
#[derive(Clone, Copy, Debug)]
struct Saved {
    value: Value,
    /// The layer that made it.
    from: usize,
    /// The last layer that used it so far.
    used_in: Option<usize>,
}

/// A step on the way into nested operators.
#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Operator(usize, &'a OperatorSpec),
    Branch(usize),
}

/// Goes through the operators of a model.
pub(super) struct Builder<'a> {
    /// How attention is computed where its operator does not say.
    pub(super) attention: Option<AttentionKernel>,
    /// `true` if any operator asked for that.
    pub(super) attention_used: bool,
    /// Elements of keys and values in the current layer.
    pub(super) context_elements: u64,
    /// Elements of rows that the current layer looks up in tables.
    pub(super) exchanged_elements: u64,
    operators: Vec<Operator>,
    /// Operators as they are written that were gone through so far.
    count: u64,
    layer: &'a str,
    index: usize,
    path: Vec<Step<'a>>,
    /// Values of the current layer that an operator keeps for backward.
    kept: BTreeSet<usize>,
    values: usize,
    shares_weights: bool,
    saved: BTreeMap<&'a str, Saved>,
    /// Values that were saved under a name which was given to another one since.
    past: Vec<Saved>,
}

/// A layer, before it is known what goes past it.
struct Built {
    layer: Layer,
    /// What it hands on.
    flow: Flow,
}

/// Returns the operators of a model, layer by layer.
pub(super) fn graph(
    input: InputSpec,
    layers: &[LayerSpec],
    attention: Option<AttentionKernel>,
) -> Result<OperatorGraph, ModelError> {
    let mut builder = Builder::new(attention);
    let flow = match input.valid().map_err(|invalid| ModelError::new("the input", invalid))? {
        Input::Tokens(tokens) => Flow::Tokens(tokens),
        Input::Map(shape) => Flow::Map(builder.value(shape)),
    };
    let built = builder.layers(layers, flow)?;
    if attention.is_some() && !builder.attention_used {
        return Err(Invalid::whole("`attention` is set, but no operator leaves open how it is computed").into());
    }
    let past = builder.all_used()?;
    Ok(OperatorGraph::of_layers(handed_past(built, &past)))
}

impl<'a> Builder<'a> {
    fn new(attention: Option<AttentionKernel>) -> Self {
        Self {
            attention,
            attention_used: false,
            context_elements: 0,
            exchanged_elements: 0,
            operators: Vec::new(),
            count: 0,
            layer: "",
            index: 0,
            path: Vec::new(),
            kept: BTreeSet::new(),
            values: 0,
            shares_weights: false,
            saved: BTreeMap::new(),
            past: Vec::new(),
        }
    }

    fn layers(&mut self, layers: &'a [LayerSpec], mut flow: Flow) -> Result<Vec<Built>, ModelError> {
        let count = layers.iter().fold(0, |sum: u64, layer| sum.saturating_add(layer.repeat));
        if count > LAYERS_MAX {
            return Err(Invalid::whole(format!("there are more than {LAYERS_MAX} layers")).into());
        }
        if count < 2 {
            let sentence = format!("there are {count} layers, but a model needs at least an input and an output layer");
            return Err(Invalid::whole(sentence).with_hint("put the loss into a layer of its own").into());
        }
        let mut built = Vec::new();
        let mut trained = false;
        for spec in layers {
            self.layer = &spec.name;
            if spec.frozen && trained {
                let behind = Invalid::whole("it is frozen, but the layer before it is trained");
                return Err(self.error(behind.with_hint("freeze all layers before it too")));
            }
            trained |= !spec.frozen;
            self.valid(super::shape::range("repeat", spec.repeat, 1, LAYERS_MAX))?;
            for _ in 0..spec.repeat {
                let layer = self.layer(spec, flow, count)?;
                flow = layer.flow;
                built.push(layer);
            }
        }
        let ends_aside = layers.last().and_then(|layer| layer.operators.last());
        if flow != Flow::Loss && !matches!(ends_aside, Some(OperatorSpec::Side(_))) {
            return Err(self.error(no_loss()));
        }
        Ok(built)
    }

    fn layer(&mut self, spec: &'a LayerSpec, flow: Flow, count: u64) -> Result<Built, ModelError> {
        self.kept.clear();
        (self.context_elements, self.exchanged_elements) = (0, 0);
        if spec.operators.is_empty() {
            return Err(self.error(Invalid::whole("there are no operators")));
        }
        let output = self.through(&spec.operators, flow)?;
        let role = match self.index as u64 {
            0 => LayerRole::Input,
            index if index + 1 == count => LayerRole::Output,
            _ => LayerRole::Block,
        };
        self.index += 1;
        let layer = Layer {
            name: spec.name.clone().into(),
            role,
            operators: std::mem::take(&mut self.operators),
            output_elements: elements(output),
            stream_elements: elements(flow),
            tensor_reductions: 0,
            exchanged_elements: self.exchanged_elements,
            context_elements: self.context_elements,
            frozen: spec.frozen,
            loss_in_tiles: false,
        };
        Ok(Built { layer, flow: output })
    }

    /// Goes through operators one after another.
    pub(super) fn through(&mut self, operators: &'a [OperatorSpec], mut flow: Flow) -> Result<Flow, ModelError> {
        for (index, operator) in operators.iter().enumerate() {
            self.path.push(Step::Operator(index, operator));
            self.count += 1;
            if self.count > OPERATORS_MAX {
                let sentence = format!("up to here there are more than {OPERATORS_MAX} operators");
                let hint = "those of a repeated layer count each time, those of a side for each of its maps";
                return Err(self.error(Invalid::whole(sentence).with_hint(hint)));
            }
            flow = self.operator(operator, flow)?;
            self.path.pop();
        }
        Ok(flow)
    }

    /// What each of some branches makes of the same value.
    pub(super) fn branches(
        &mut self,
        branches: &'a [Vec<OperatorSpec>],
        value: Value,
    ) -> Result<Vec<Value>, ModelError> {
        if branches.len() < 2 {
            let sentence = format!("there are {} branches, but at least two are joined", branches.len());
            return Err(self.error(Invalid::whole(sentence).with_hint("an empty branch, [], hands the input on")));
        }
        let mut made = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            self.path.push(Step::Branch(index));
            match self.through(branch, Flow::Map(value))? {
                Flow::Map(value) => made.push(value),
                Flow::Loss | Flow::Tokens(_) => return Err(self.after_loss()),
            }
            self.path.pop();
        }
        Ok(made)
    }

    /// The same operators over each of some values, with one set of weights, each ending in a loss.
    pub(super) fn side(&mut self, operators: &'a [OperatorSpec], values: &[Value]) -> Result<(), ModelError> {
        let shared = self.shares_weights;
        for (index, value) in values.iter().enumerate() {
            self.shares_weights = shared || index > 0;
            if self.through(operators, Flow::Map(*value))? != Flow::Loss {
                return Err(self.error(no_loss()));
            }
        }
        self.shares_weights = shared;
        Ok(())
    }

    /// Adds an operator that reads `input`, which it need not keep if another one does.
    pub(super) fn push(&mut self, kind: OperatorKind, input: Value) {
        let kept_elsewhere = keeps_input(kind) && !self.kept.insert(input.id);
        self.operators.push(Operator { kept_elsewhere, shares_weights: self.shares_weights, ..replicated(kind) });
    }

    /// Something new of this shape.
    pub(super) fn value(&mut self, shape: Shape) -> Value {
        self.values += 1;
        Value { shape, id: self.values }
    }

    /// Something new, unless it is too large.
    pub(super) fn made(&mut self, shape: Shape) -> Result<Value, ModelError> {
        let shape = self.valid(shape.checked())?;
        Ok(self.value(shape))
    }

    pub(super) fn save(&mut self, name: &'a str, value: Value) {
        let saved = Saved { value, from: self.index, used_in: None };
        self.past.extend(self.saved.insert(name, saved));
    }

    pub(super) fn saved(&mut self, name: &str) -> Result<Value, ModelError> {
        let index = self.index;
        if let Some(saved) = self.saved.get_mut(name) {
            saved.used_in = Some(index);
            return Ok(saved.value);
        }
        let saved: Vec<&str> = self.saved.keys().copied().collect();
        let hint = match saved.as_slice() {
            [] => "write { save = \"a-name\" } where it is made".into(),
            saved => format!("saved are {}", saved.join(", ")),
        };
        Err(self.error(Invalid::whole(format!("nothing before is saved as `{name}`")).with_hint(hint)))
    }

    /// Everything that was saved, if all of it was used.
    fn all_used(mut self) -> Result<Vec<Saved>, ModelError> {
        if let Some((name, _)) = self.saved.iter().find(|(_, saved)| saved.used_in.is_none()) {
            let hint = format!("leave it out, or use it with {{ concat = \"{name}\" }}");
            return Err(Invalid::whole(format!("`{name}` is saved, but never used")).with_hint(hint).into());
        }
        self.past.extend(self.saved.into_values());
        Ok(self.past)
    }

    pub(super) fn after_loss(&self) -> ModelError {
        self.error(Invalid::whole("nothing can follow a loss"))
    }

    pub(super) fn error(&self, invalid: Invalid) -> ModelError {
        let layer = format!("layer `{}`", self.layer);
        let steps = self.path.iter().map(|step| match step {
            Step::Operator(index, operator) => format!("operator {} (`{}`)", index + 1, operator.word()),
            Step::Branch(index) => format!("branch {}", index + 1),
        });
        ModelError::new(std::iter::once(layer).chain(steps).collect::<Vec<_>>().join(", "), invalid)
    }

    pub(super) fn valid<T>(&self, result: Result<T, Invalid>) -> Result<T, ModelError> {
        result.map_err(|invalid| self.error(invalid))
    }
}

fn no_loss() -> Invalid {
    Invalid::whole("it does not end in a loss").with_hint("end with \"cross_entropy\"")
}

/// Returns `true` if an operator needs its input backward, which is what it keeps.
fn keeps_input(kind: OperatorKind) -> bool {
    matches!(
        kind,
        OperatorKind::Linear { .. }
            | OperatorKind::LayerNorm { .. }
            | OperatorKind::Recommendation(Recommendation::Interaction { .. })
            | OperatorKind::Activation { .. }
            | OperatorKind::Image(
                Image::Convolution(_)
                    | Image::Norm { frozen: false, .. }
                    | Image::Pool { kind: Pool::Max, .. }
                    | Image::Pointwise { .. }
                    | Image::Scale { .. }
            )
    )
}

fn elements(flow: Flow) -> u64 {
    match flow {
        Flow::Tokens(tokens) => tokens,
        Flow::Map(value) => value.shape.elements(),
        Flow::Loss => 1,
    }
}

/// What is saved in one layer and used in a later one goes past those between them, and is kept until then.
fn handed_past(mut built: Vec<Built>, saved: &[Saved]) -> Vec<Layer> {
    for Saved { value, from, used_in } in saved {
        let last = used_in.unwrap_or(*from);
        for layer in &mut built[*from..last] {
            // What the next layer gets anyway goes once.
            if layer.flow != Flow::Map(*value) {
                layer.layer.output_elements += value.shape.elements();
            }
        }
        if last > *from {
            built[*from].layer.stream_elements += value.shape.elements();
        }
    }
    built.into_iter().map(|built| built.layer).collect()
}
