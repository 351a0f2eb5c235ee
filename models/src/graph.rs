//! Operator graphs: layers in the order in which a sample goes through them.

use crate::operator::{Divisible, FrozenWeights, Mask, Operator, OperatorKind, Pass, Sharing, Storage, Weights};
use std::borrow::Cow;
use trainyard_units::Flops;

/// What a layer is to the cutting of a model into stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerRole {
    /// Turns input into activations; always in the first stage.
    Input,
    /// One of the repeated layers.
    Block,
    /// Turns activations into the loss; always in the last stage.
    Output,
}

/// A layer: the unit that is assigned to pipeline stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// `embedding`, `block`, `head`, …
    pub name: Cow<'static, str>,
    /// Where it may stand.
    pub role: LayerRole,
    /// What it computes for one sample, in order.
    pub operators: Vec<Operator>,
    /// Elements per sample handed to the next layer.
    pub output_elements: u64,
    /// Elements per sample of the residual stream: what one reduction sums, and what recomputation starts from.
    pub stream_elements: u64,
    /// Under tensor parallelism: all-reduces of `stream_elements` in each direction.
    pub tensor_reductions: u32,
    /// Elements per sample that one all-to-all among the ranks that share experts or tables moves from each rank;
    /// nothing in a layer without. How many there are: [`Self::exchanges`].
    pub exchanged_elements: u64,
    /// Elements per sample, keys and values, that go round the ring of context-parallel ranks forward; nothing in a
    /// layer without self-attention.
    pub context_elements: u64,
    /// `true` if its weights stay as they are, so that it has no backward pass.
    pub frozen: bool,
    /// `true` if software for fine-tuning may take its loss over the vocabulary in tiles, so that logits are never whole:
    /// of a model that predicts the next token, where it has adapters or is trained on pairs of sequences.
    pub loss_in_tiles: bool,
}

impl Layer {
    /// Returns a layer that no group of ranks divides and whose output is its residual stream, of so many elements a
    /// sample.
    pub(crate) fn undivided(name: &'static str, role: LayerRole, operators: Vec<Operator>, elements: u64) -> Self {
        Self {
            name: name.into(),
            role,
            operators,
            output_elements: elements,
            stream_elements: elements,
            tensor_reductions: 0,
            exchanged_elements: 0,
            context_elements: 0,
            frozen: false,
            loss_in_tiles: false,
        }
    }

    /// Returns the number of trainable values on one of the ranks that share the layer.
    pub fn parameters(&self, sharing: Sharing) -> u64 {
        self.operators.iter().map(|operator| operator.parameters(sharing)).sum()
    }

    /// Returns the number of its weights that stay as they are, of any format.
    pub fn frozen_values(&self) -> u64 {
        let own = self.operators.iter().filter(|operator| matches!(operator.weights, Weights::Frozen(_)));
        let quantised = own.map(|operator| operator.kind.dequantised()).sum::<u64>();
        self.frozen_weights(Sharing::WHOLE).values + quantised
    }

    /// Returns the weights of other layers that it computes with, on one of the ranks that share the layer.
    pub fn borrowed_weights(&self, sharing: Sharing) -> FrozenWeights {
        let each = self.operators.iter().map(|operator| operator.borrowed_weights(sharing));
        each.fold(FrozenWeights::default(), std::ops::Add::add)
    }

    /// Returns its weights that stay as they are, on one of the ranks that share the layer.
    pub fn frozen_weights(&self, sharing: Sharing) -> FrozenWeights {
        let each = self.operators.iter().map(|operator| operator.frozen_weights(sharing));
        each.fold(FrozenWeights::default(), std::ops::Add::add)
    }

    /// All-to-alls of [`Self::exchanged_elements`] in each direction: to experts and back; of what was looked up in
    /// tables, to the samples that it belongs to.
    pub fn exchanges(&self) -> u32 {
        self.operators.iter().filter(|operator| operator.kind.exchanges()).count() as u32
    }

    /// Returns the values of the rows of tables that one rank looks up for `samples` samples of its own. Only they have
    /// gradients.
    pub fn looked_up(&self, samples: u64) -> u64 {
        self.operators.iter().map(|operator| operator.on_rank(samples, Sharing::WHOLE).looked_up()).sum()
    }

    /// Returns those of [`Self::parameters`] that belong to tables of which few rows are looked up in a step.
    pub fn table_parameters(&self, sharing: Sharing) -> u64 {
        let tables = self.operators.iter().filter(|operator| operator.kind.looked_up() > 0);
        tables.map(|operator| operator.parameters(sharing)).sum()
    }

    /// Returns those of [`Self::parameters`] that belong to experts or tables: ranks that share them do not hold the
    /// same ones, so fewer ranks sum their gradients.
    pub fn expert_parameters(&self, sharing: Sharing) -> u64 {
        let experts = self.operators.iter().filter(|operator| operator.kind.is_divided());
        experts.map(|operator| operator.parameters(sharing)).sum()
    }

    /// Returns the number of trainable tensors.
    pub fn parameter_tensors(&self) -> u32 {
        if self.frozen { 0 } else { self.operators.iter().map(Operator::parameter_tensors).sum() }
    }

    /// Returns the arithmetic of one pass over one sample, unsplit.
    pub fn flops(&self, pass: Pass) -> Flops {
        if self.frozen && pass == Pass::Backward {
            return Flops(0.0);
        }
        self.operators.iter().map(|operator| operator.kind.flops(pass)).sum()
    }

    /// Activations that one of the ranks that share the layer keeps of `samples` samples from forward to backward.
    pub fn stored(&self, samples: u64, sharing: Sharing) -> Storage {
        if self.frozen {
            return Storage::default();
        }
        self.operators
            .iter()
            .map(|operator| operator.stored(samples, sharing))
            .fold(Storage::default(), std::ops::Add::add)
    }

    /// The same if the scores and weights of attention are computed again in backward (Korthikanti et al.,
    /// arXiv:2205.05198, section 5).
    pub fn stored_without_core(&self, samples: u64, sharing: Sharing) -> Storage {
        if self.frozen {
            return Storage::default();
        }
        let without = |operator: &Operator| match operator.on_rank(samples, sharing) {
            OperatorKind::Attention(attention) => attention.stored_without_core(),
            _ => operator.stored(samples, sharing),
        };
        self.operators.iter().map(without).fold(Storage::default(), std::ops::Add::add)
    }

    /// Returns the elements of the residual stream of `samples` samples that one of those ranks holds.
    pub fn stream_on_rank(&self, samples: u64, sharing: Sharing) -> u64 {
        self.stream_elements.div_ceil(sharing.context).div_ceil(sharing.token_parts()) * samples
    }
}

/// All layers of a model. Equal layers are held once: `order` refers to `distinct`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorGraph {
    distinct: Vec<Layer>,
    order: Vec<usize>,
    /// Parameters of the first layer that the last layer also uses; their gradients are summed over both.
    shared_parameters: u64,
    drops_out: bool,
    /// Layers before the model's own that are those of its reference model.
    reference_layers: usize,
}

impl OperatorGraph {
    /// Returns the layers in order.
    pub fn layers(&self) -> impl ExactSizeIterator<Item = &Layer> + Clone {
        self.order.iter().map(|index| &self.distinct[*index])
    }

    /// Returns the layers of the model itself, without those of its reference model.
    pub fn own_layers(&self) -> impl ExactSizeIterator<Item = &Layer> + Clone {
        self.layers().skip(self.reference_layers)
    }

    /// Returns the layer at an index.
    ///
    /// # Panics
    ///
    /// When there is no such layer.
    pub fn layer(&self, index: usize) -> &Layer {
        &self.distinct[self.order[index]]
    }

    /// How many layers there are, input and output layers included.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Never true: a model has layers.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns the layers that differ from one another.
    pub fn distinct(&self) -> &[Layer] {
        &self.distinct
    }

    /// Per layer, which of [`Self::distinct`] it is.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Returns the number of trainable values of the whole model.
    pub fn parameters(&self) -> u64 {
        self.layers().map(|layer| layer.parameters(Sharing::WHOLE)).sum()
    }

    /// Returns the number of trainable values outside embedding tables: all of them have gradients in every step.
    pub fn updated_parameters(&self) -> u64 {
        let tables: u64 = self.layers().map(|layer| layer.table_parameters(Sharing::WHOLE)).sum();
        self.parameters() - tables
    }

    /// Returns the parameters that the first and the last layer share (a tied embedding), counted once in
    /// [`Self::parameters`].
    pub fn shared_parameters(&self) -> u64 {
        self.shared_parameters
    }

    /// Returns `true` if training drops something out here. Operators count dropout besides where the published training
    /// of a model that says nothing had it.
    pub fn drops_out(&self) -> bool {
        self.drops_out
    }

    /// Says how many parameters of the first layer the last one uses too.
    pub(crate) fn tied(self, shared_parameters: u64) -> Self {
        Self { shared_parameters, ..self }
    }

    /// Says whether training drops something out here.
    pub(crate) fn dropping_out(self, drops_out: bool) -> Self {
        Self { drops_out, ..self }
    }

    /// What an expert-parallel group divides: experts of a layer, or tables; nothing in a dense model.
    pub fn divisible(&self) -> Option<Divisible> {
        let mut operators = self.distinct.iter().flat_map(|layer| &layer.operators);
        operators.find_map(|operator| operator.kind.divisible())
    }

    /// Returns the tokens of a sample that ranks may share (context parallelism): those of its self-attention, if it has
    /// any.
    pub fn tokens_shared_by_context(&self) -> Option<u64> {
        let operators = self.distinct.iter().flat_map(|layer| &layer.operators);
        operators
            .filter_map(|operator| match operator.kind {
                OperatorKind::Attention(attention) => Some(attention.queries),
                _ => None,
            })
            .max()
    }

    /// Returns the arithmetic of one pass over one sample.
    pub fn flops(&self, pass: Pass) -> Flops {
        self.layers().map(|layer| layer.flops(pass)).sum()
    }

    /// Returns the arithmetic that a training step needs per sample, without recomputation: the numerator of MFU.
    pub fn training_flops(&self) -> Flops {
        self.flops(Pass::Forward) + self.flops(Pass::Backward)
    }

    /// Returns the part of these that attention behind a causal mask does for keys which the mask hides: half of its
    /// arithmetic, a window or not.
    ///
    /// # Source
    ///
    /// Megatron-LM, `num_floating_point_operations` in `megatron/training/training.py`, which counts "causal mask (only
    /// half of the mask is non-zero)" and knows no windows.
    pub fn masked_flops(&self) -> Flops {
        let causal = |kind: &OperatorKind| matches!(kind, OperatorKind::Attention(own) if matches!(own.mask, Mask::Causal | Mask::Window(_)));
        let of_layer = |layer: &Layer| -> Flops {
            let passes = [Some(Pass::Forward), (!layer.frozen).then_some(Pass::Backward)];
            let kinds = || layer.operators.iter().map(|operator| operator.kind).filter(|kind| causal(kind));
            passes.into_iter().flatten().flat_map(|pass| kinds().map(move |kind| kind.flops(pass))).sum()
        };
        self.layers().map(of_layer).sum::<Flops>() * 0.5
    }

    /// Returns the layers of these kinds in this order.
    pub(crate) fn new(distinct: Vec<Layer>, order: Vec<usize>, shared_parameters: u64) -> Self {
        debug_assert!(order.iter().all(|index| *index < distinct.len()), "every layer is one of the distinct ones");
        Self { distinct, order, shared_parameters, drops_out: false, reference_layers: 0 }
    }

    /// Returns the layers of a reference model and, behind them, those of the model that is trained.
    pub(crate) fn behind(reference: Vec<Layer>, own: Vec<Layer>) -> Self {
        let reference_layers = reference.len();
        Self { reference_layers, ..Self::of_layers(reference.into_iter().chain(own).collect()) }
    }

    /// Returns the layers in this order, equal ones of which are held once.
    pub(crate) fn of_layers(layers: Vec<Layer>) -> Self {
        let mut distinct: Vec<Layer> = Vec::new();
        let order = layers
            .into_iter()
            .map(|layer| {
                let known = distinct.iter().position(|known| *known == layer);
                known.unwrap_or_else(|| {
                    distinct.push(layer);
                    distinct.len() - 1
                })
            })
            .collect();
        Self::new(distinct, order, 0)
    }

    /// Runs of layers that are alike, each with the number of layers.
    pub(crate) fn of_runs(runs: impl IntoIterator<Item = (Layer, u32)>, shared_parameters: u64) -> Self {
        let (distinct, counts): (Vec<Layer>, Vec<u32>) = runs.into_iter().unzip();
        let order = counts.iter().enumerate().flat_map(|(index, count)| vec![index; *count as usize]);
        Self::new(distinct, order.collect(), shared_parameters)
    }

    /// Returns an input layer, `blocks` equal blocks and an output layer.
    pub(crate) fn of_equal_blocks(input: Layer, block: Layer, blocks: u32, output: Layer, shared: u64) -> Self {
        Self::of_runs([(input, 1), (block, blocks), (output, 1)], shared)
    }
}
