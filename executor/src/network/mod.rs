//! Networks as layers that compute through Burn, made from the same descriptions that the simulator uses.
//!
//! A layer is a function of its weights, of what the layer before computed, and of the micro-batch; it knows neither
//! how stages are cut nor what is kept for backward. Between layers goes a tensor of (rows, features): tokens of a
//! sequence model, samples of any other. Layers are counted as [`trainyard_models::OperatorGraph::layers`] does.

mod adapters;
mod attention;
mod bert;
mod context;
mod dropout;
mod encoder;
mod exchange;
mod experts;
mod gemma2;
mod gpt;
mod gpt_neox;
mod llama;
mod mlp;
pub(crate) mod operators;
mod parameter;
mod parts;
mod peers;
mod postponed;
mod product;
mod resnet;
mod rotation;
mod rows;
mod shelf;
mod vit;
mod vocabulary;

use burn::tensor::{Device, Tensor};
use product::{Matrix, ProductSlots, Stored};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use trainyard_data::MicroBatch;
use trainyard_models::{LayerRole, Model};
use trainyard_plan::{FineTuningSpec, Method};
use trainyard_units::Invalid;

use adapters::{Adapter, Beside};

pub(crate) use adapters::module_of;
pub(crate) use context::ContextGroup;
pub(crate) use dropout::Drawn;
pub(crate) use exchange::{TensorGroup, with_gradient};
pub(crate) use experts::ExpertGroup;
pub(crate) use parameter::{Initial, Parameter, ParameterKey, Role};
pub(crate) use postponed::Postponed;
pub(crate) use shelf::Shelf;

/// One layer of a network.
pub(crate) trait Layer: Send + Sync {
    /// Its parameters by slot, whole.
    fn parameters(&self) -> Vec<Parameter>;

    /// Computes the input of the next layer, (rows, features), from the output of the layer before; the first layer has
    /// no input and reads `batch`. The last layer's result is the mean loss of the micro-batch, (1, 1); in evaluation, where
    /// each sample has a class, with the share of samples whose class has the highest score, (1, 2).
    fn forward(&self, pass: &Pass, weights: &Weights, input: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2>;
}

/// The context of a forward pass, besides its values.
#[derive(Clone)]
pub(crate) struct Pass {
    /// The ranks that share this layer's weights.
    pub(crate) tensor: TensorGroup,
    /// The ranks that share the tokens of a sample.
    pub(crate) context: ContextGroup,
    /// The ranks that share the experts of a layer.
    pub(crate) experts: ExpertGroup,
    /// The device on which tensors are made; it records gradients where a backward pass follows.
    pub(crate) device: Device,
    /// What random zeros are drawn for in training; nothing in evaluation.
    pub(crate) drawn: Option<Drawn>,
    /// `true` if the cores of attention are computed again in backward, and keep their operands alone until then.
    pub(crate) cores_again: bool,
}

impl Pass {
    /// Returns `true` in training, `false` in evaluation; batch normalisation depends on it.
    fn is_training(&self) -> bool {
        self.drawn.is_some()
    }

    /// Computes the core of attention from queries, keys and values.
    fn core<const N: usize>(
        &self,
        operands: [Tensor<2>; N],
        operator: impl Fn([Tensor<2>; N]) -> Tensor<2> + Clone + Send + Sync + 'static,
    ) -> Tensor<2> {
        if self.cores_again { operators::again(operands, operator) } else { operator(operands) }
    }
}

/// The weights of one layer on one rank, in the format that computes.
pub(crate) struct Weights {
    values: Vec<Weight>,
    /// Where backward notes what it postpones, if it goes in halves.
    postponed: Option<Postponed>,
    /// The adapters beside products, by the slot of the product's weight.
    adapters: BTreeMap<usize, Beside>,
    noted: Mutex<BTreeMap<usize, Tensor<1>>>,
}

/// One of them, and the shape of what this rank has.
pub(crate) struct Weight {
    pub(crate) elements: Elements,
    pub(crate) shape: Vec<usize>,
}

/// The elements of a weight.
#[derive(Clone)]
pub(crate) enum Elements {
    /// Here, as (elements).
    Here(Tensor<1>),
    /// On a shelf, from which a recording that begins at `leaf` fetches them whenever it needs them.
    Fetched { leaf: Tensor<1>, shelf: Shelf },
    /// On a shelf, and never changed: no gradient goes to them. `recorded` tells whether what they are used with is.
    Frozen { shelf: Shelf, recorded: bool },
}

impl Elements {
    /// Returns the elements, detached from any recording.
    fn plain(&self) -> Tensor<1> {
        match self {
            Self::Here(elements) => operators::plain(elements.clone()),
            Self::Fetched { shelf, .. } | Self::Frozen { shelf, .. } => shelf.elements(),
        }
    }
}

const UNPOISONED: &str = "nothing panics while it holds this lock";

impl Weights {
    /// Makes the weights of a layer. With `postponed`, the gradients of products are computed in a half of their own,
    /// and all rows that products are given must be recorded.
    pub(crate) fn new(values: Vec<Weight>, postponed: Option<Postponed>) -> Self {
        Self { values, postponed, adapters: BTreeMap::new(), noted: Mutex::default() }
    }

    /// Puts adapters beside products, for a pass over so many samples.
    pub(crate) fn with_adapters(mut self, adapters: &[Adapter], pass: &Pass, samples: usize) -> Self {
        let beside = |adapter: &Adapter| {
            let inputs = self.values[adapter.down].shape[0];
            (adapter.product, Beside::new(*adapter, pass, samples, inputs))
        };
        self.adapters = adapters.iter().map(beside).collect();
        self
    }

    /// Computes rows · weight + bias, and what an adapter adds to it: (rows, inputs) · (inputs, outputs).
    pub(crate) fn linear(&self, rows: Tensor<2>, weight: usize, bias: Option<usize>) -> Tensor<2> {
        let Some(beside) = self.adapters.get(&weight) else { return self.product(rows, weight, bias) };
        let result = self.product(rows.clone(), weight, bias);
        let Adapter { down, up, scale, .. } = beside.adapter;
        let between = self.product(beside.dropped(rows), down, None) * scale;
        result + self.product(between, up, None)
    }

    fn product(&self, rows: Tensor<2>, weight: usize, bias: Option<usize>) -> Tensor<2> {
        if self.is_frozen(weight) || self.postponed.is_some() {
            return self.apart(rows, ProductSlots { weight, bias }, Stored::ByInput);
        }
        operators::linear(rows, self.get(weight), bias.map(|bias| self.get(bias)))
    }

    /// Computes the logits of a head that is tied to a table: (rows, width) · (classes, width)ᵀ.
    pub(crate) fn tied_head(&self, rows: Tensor<2>, table: usize) -> Tensor<2> {
        if self.is_frozen(table) || self.postponed.is_some() {
            return self.apart(rows, ProductSlots { weight: table, bias: None }, Stored::ByOutput);
        }
        operators::tied_head(rows, self.get(table))
    }

    /// Computes a product whose recording has the gradient of its rows alone. Those of its parameters are postponed, if they
    /// are trained.
    fn apart(&self, rows: Tensor<2>, slots: ProductSlots, stored: Stored) -> Tensor<2> {
        let bias = slots.bias.map(|bias| self.values[bias].elements.plain());
        let matrix = self.matrix(slots.weight);
        match self.postponed.as_ref().filter(|_| !self.is_frozen(slots.weight)) {
            Some(postponed) => postponed.product(rows, (slots, stored), matrix, bias),
            None => product::product(rows, stored, matrix, bias, |_| ()),
        }
    }

    fn is_frozen(&self, slot: usize) -> bool {
        matches!(self.values[slot].elements, Elements::Frozen { .. })
    }

    fn matrix(&self, slot: usize) -> Matrix {
        let Weight { elements, shape } = &self.values[slot];
        let shape = shape.as_slice().try_into().expect("products have matrices");
        Matrix { elements: elements.clone(), shape }
    }

    /// Notes what a running mean becomes by this pass; it changes for the passes after it.
    pub(crate) fn note(&self, slot: usize, values: Tensor<1>) {
        let values = if values.is_autodiff() { values.inner() } else { values };
        self.noted.lock().expect(UNPOISONED).insert(slot, values);
    }

    /// Returns the new values of running means that were noted, by slot.
    pub(crate) fn noted(self) -> BTreeMap<usize, Tensor<1>> {
        self.noted.into_inner().expect(UNPOISONED)
    }

    /// Returns the weight at `slot`, whose shape has `D` dimensions.
    pub(crate) fn get<const D: usize>(&self, slot: usize) -> Tensor<D> {
        let shape = self.values[slot].shape.as_slice();
        self.shaped(slot, shape.try_into().expect("layers ask for the shapes that they declared"))
    }

    /// Returns the weight at `slot` in another shape of as many elements.
    pub(crate) fn shaped<const D: usize>(&self, slot: usize, shape: [usize; D]) -> Tensor<D> {
        match &self.values[slot].elements {
            Elements::Here(flat) => flat.clone().reshape(shape),
            Elements::Fetched { leaf, shelf } => shelf::fetched(leaf, shelf, shape),
            Elements::Frozen { shelf, recorded: true } => Tensor::from_inner(shelf.elements().reshape(shape)),
            Elements::Frozen { shelf, recorded: false } => shelf.elements().reshape(shape),
        }
    }
}

/// A model that can be computed.
#[derive(Clone)]
pub(crate) struct Network {
    layers: Vec<Arc<dyn Layer>>,
    parameters: Arc<Vec<Vec<Parameter>>>,
    /// By layer; none where all weights are trained.
    adapters: Arc<Vec<Vec<Adapter>>>,
}

impl Network {
    /// Builds the network that a description stands for.
    ///
    /// # Errors
    ///
    /// When no such network is built.
    pub(crate) fn new(model: &Model) -> Result<Self, Invalid> {
        let layers = match model {
            Model::Gpt(gpt) => gpt::layers(gpt),
            Model::GptMoe(routed) => gpt::layers_with_experts(routed)?,
            Model::Llama(llama) => llama::layers(llama)?,
            Model::GptNeox(neox) => gpt_neox::layers(neox)?,
            Model::Gemma2(gemma) => gemma2::layers(gemma)?,
            Model::Bert(bert) => bert::layers(bert)?,
            Model::Vit(vit) => vit::layers(vit)?,
            Model::ResNet(resnet) => resnet::layers(resnet)?,
            Model::Mlp(mlp) => mlp::layers(mlp),
            other => return Err(not_built(other)),
        };
        let parameters: Vec<Vec<Parameter>> = layers.iter().map(|layer| layer.parameters()).collect();
        let adapters = vec![Vec::new(); layers.len()];
        Ok(Self { layers, parameters: Arc::new(parameters), adapters: Arc::new(adapters) })
    }

    /// Builds the network of a model of which a part is trained; all of it without `part`.
    ///
    /// # Errors
    ///
    /// When no such network is built, or none with such adapters.
    pub(crate) fn tuned(model: &Model, part: Option<&FineTuningSpec>) -> Result<Self, Invalid> {
        let network = Self::new(model)?;
        let Some(part) = part else { return Ok(network) };
        let roles: Vec<LayerRole> = model.graph().layers().map(|layer| layer.role).collect();
        let Self { layers, parameters, .. } = network;
        let mut parameters = Arc::unwrap_or_clone(parameters);
        let mut adapters = vec![Vec::new(); layers.len()];
        let frozen = match part.method {
            Method::Frozen => {
                let blocks: Vec<usize> = (0..roles.len()).filter(|at| roles[*at] == LayerRole::Block).collect();
                blocks[blocks.len().saturating_sub(part.trained_blocks.unwrap_or(1) as usize)]
            }
            _ => layers.len(),
        };
        for (layer, own) in parameters.iter_mut().enumerate() {
            // A head's table that is the embedding's stays as that does.
            let stays = |own: &Parameter| layer < frozen || own.tied_to.is_some();
            own.iter_mut()
                .filter(|own| stays(own) && own.role == Role::Trained)
                .for_each(|own| own.role = Role::Frozen);
            if let Some(lora) = part.lora.as_ref().filter(|_| roles[layer] == LayerRole::Block) {
                adapters[layer] = adapters::beside(own, lora);
            }
        }
        Ok(Self { layers, parameters: Arc::new(parameters), adapters: Arc::new(adapters) })
    }

    /// Returns the adapters of a layer.
    pub(crate) fn adapters_of(&self, layer: usize) -> &[Adapter] {
        &self.adapters[layer]
    }

    /// Returns `true` if adapters are trained, and nothing else.
    pub(crate) fn has_adapters(&self) -> bool {
        self.adapters.iter().any(|of_layer| !of_layer.is_empty())
    }

    /// Returns the number of layers.
    pub(crate) fn len(&self) -> usize {
        self.layers.len()
    }

    pub(crate) fn layer(&self, index: usize) -> &Arc<dyn Layer> {
        &self.layers[index]
    }

    /// Returns the parameters of a layer by slot.
    pub(crate) fn parameters_of(&self, layer: usize) -> &[Parameter] {
        &self.parameters[layer]
    }

    pub(crate) fn parameter(&self, key: ParameterKey) -> &Parameter {
        &self.parameters[key.layer as usize][key.slot as usize]
    }

    /// Returns `true` if forward passes change running means.
    pub(crate) fn has_statistics(&self) -> bool {
        self.keys().any(|key| self.parameter(key).role == Role::Statistic)
    }

    /// Returns the keys of all parameters, without those that always equal another.
    pub(crate) fn keys(&self) -> impl Iterator<Item = ParameterKey> {
        let slots = |(layer, parameters): (usize, &Vec<Parameter>)| {
            let own = parameters.iter().enumerate().filter(|(_, parameter)| parameter.tied_to.is_none());
            own.map(|(slot, _)| ParameterKey::new(layer, slot)).collect::<Vec<_>>()
        };
        self.parameters.iter().enumerate().flat_map(slots)
    }

    /// Returns the keys of what a checkpoint holds: of adapters, or of all parameters where there are none.
    pub(crate) fn saved_keys(&self) -> impl Iterator<Item = ParameterKey> {
        let adapters_alone = self.has_adapters();
        self.keys().filter(move |key| self.parameter(*key).is_adapter || !adapters_alone)
    }

    /// Returns the parameter that is tied to another one, and that other.
    pub(crate) fn tie(&self) -> Option<(ParameterKey, ParameterKey)> {
        let all = self.parameters.iter().enumerate();
        all.flat_map(|(layer, slots)| {
            slots.iter().enumerate().map(move |(slot, p)| (ParameterKey::new(layer, slot), p))
        })
        .find_map(|(key, parameter)| Some((key, parameter.tied_to?)))
    }
}

/// Returns the rows that each sample has between layers: tokens of a sequence or of an image's patches, else one.
pub(crate) fn rows_per_sample(model: &Model) -> u64 {
    match model {
        Model::Vit(vit) => vit.tokens(),
        other => other.tokens_per_sample().unwrap_or(1),
    }
}

fn not_built(model: &Model) -> Invalid {
    let rule = "only gpt, gpt-moe, llama, gpt-neox, gemma2, bert, vit, resnet and mlp are run";
    Invalid::breaks("model.family", model.family(), rule).with_hint("describe a model of one of these families")
}
