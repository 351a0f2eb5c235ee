//! Fine-tuning: the operators of a model of which a part is trained.

use crate::families::{Family, Model};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{Attention, FrozenWeights, Mask, Operator, OperatorKind, Quantization, Tuned, Weights};
use trainyard_units::Invalid;

/// The most features between an adapter's two products.
pub const RANK_MAX: u64 = 4096;

/// Families whose blocks are products, attention, normalisations and activations: what adapters stand beside.
const ADAPTED: [Family; 8] = [
    Family::Gpt,
    Family::Llama,
    Family::GptNeox,
    Family::Gemma2,
    Family::Blocks,
    Family::Bert,
    Family::Vit,
    Family::GptMoe,
];

/// A product of a block that an adapter may stand beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AdapterTarget {
    /// Projection of queries.
    Query,
    /// Projection of keys.
    Key,
    /// Projection of values.
    Value,
    /// Projection of what attention puts out.
    Output,
    /// The product that an activation gates with.
    Gate,
    /// The product before an activation, or beside the gate.
    Up,
    /// The product after it.
    Down,
    /// Any other product of a block.
    Other,
}

impl AdapterTarget {
    /// Those that are called by a name.
    pub const NAMED: [Self; 7] = [Self::Query, Self::Key, Self::Value, Self::Output, Self::Gate, Self::Up, Self::Down];

    /// Returns the name, as the modules of Llama have it without `_proj`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Query => "q",
            Self::Key => "k",
            Self::Value => "v",
            Self::Output => "o",
            Self::Gate => "gate",
            Self::Up => "up",
            Self::Down => "down",
            Self::Other => "other",
        }
    }
}

/// Adapters beside products whose weights stay as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapters {
    /// Features between the two products of an adapter, at least 1 and at most [`RANK_MAX`].
    pub rank: u64,
    /// `true` if their inputs are dropped out.
    pub dropout: bool,
    /// The products that have one; all of a block if empty.
    pub targets: Vec<AdapterTarget>,
    /// The format in which weights of blocks are kept, if it is not the compute precision.
    pub quantised: Option<Quantization>,
}

/// The part of a model that is trained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tuning {
    /// Adapters alone (LoRA, QLoRA).
    Adapters(Adapters),
    /// The last so many blocks and what follows them.
    LastBlocks(u32),
}

/// Returns the operators of a model of which only this part is trained.
///
/// Gradients go back to the first block's input, as `enable_input_require_grads` of Hugging Face transformers makes them,
/// which checkpointing of adapted models needs. A head's table that is the embedding's stays as it is.
///
/// # Errors
///
/// When the model has no products that adapters could stand beside, or no such blocks.
pub fn tuned(model: &Model, tuning: &Tuning) -> Result<OperatorGraph, Invalid> {
    let graph = model.graph();
    match tuning {
        Tuning::LastBlocks(blocks) => last_blocks(model, &graph, *blocks),
        Tuning::Adapters(adapters) => {
            if !ADAPTED.contains(&model.family()) {
                let rule =
                    format!("`{}` is of family {}, whose layers have no adapters here", model.name(), model.family());
                let families = ADAPTED.map(|family| family.to_string()).join(", ");
                return Err(Invalid::breaks("method", method_of(adapters), rule)
                    .with_hint(format!("adapters are for the families {families}; use method = \"full\"")));
            }
            let fused = matches!(model.family(), Family::Gpt | Family::GptMoe | Family::GptNeox);
            let loss_in_tiles = computes_next_token(model, &graph);
            let own = |layer| with_loss_in_tiles(adapted(layer, adapters, fused), loss_in_tiles);
            let distinct: Vec<Layer> = graph.distinct().iter().map(own).collect();
            let there = |target: &AdapterTarget| has(&graph, *target, fused);
            if let Some(absent) = adapters.targets.iter().find(|target| !there(target)) {
                let known: Vec<&str> =
                    AdapterTarget::NAMED.iter().filter(|target| there(target)).map(|target| target.name()).collect();
                return Err(Invalid::value(
                    "lora.targets",
                    format!("`{}`", absent.name()),
                    format!("of {}", known.join(", ")),
                ));
            }
            Ok(OperatorGraph::new(distinct, graph.order().to_vec(), 0))
        }
    }
}

/// Returns the operators of a model that is trained on pairs of sequences (direct preference optimisation), one that is
/// preferred and one that is not. Both go through the model as one sample, and, with a reference, through the model as it
/// was before, forward alone: a copy of its weights in the compute precision, or, where adapters are trained, the same
/// weights without adapters.
///
/// # Source
///
/// Rafailov et al., arXiv:2305.18290, equation 7; Hugging Face TRL 1.16, `DPOTrainer._compute_loss`.
///
/// # Errors
///
/// As [`tuned`], and when the model does not predict the next token.
pub fn on_pairs(model: &Model, tuning: Option<&Tuning>, reference: bool) -> Result<OperatorGraph, Invalid> {
    let graph = model.graph();
    if !computes_next_token(model, &graph) {
        let rule = format!("`{}`, of family {}, does not predict the next token", model.name(), model.family());
        return Err(Invalid::breaks("objective", "dpo", rule).with_hint("leave it out, or take a causal decoder"));
    }
    let trained = tuning.map(|tuning| tuned(model, tuning)).transpose()?;
    let before: Vec<Layer> = match &trained {
        _ if !reference => Vec::new(),
        Some(trained) => trained.layers().map(|layer| doubled(&without_adapters(layer))).collect(),
        None => graph.layers().map(|layer| doubled(&Layer { frozen: true, ..frozen(layer) })).collect(),
    };
    let own = trained.as_ref().unwrap_or(&graph).layers().map(doubled);
    let in_tiles = |layer| with_loss_in_tiles(layer, true);
    let (before, own) = (before.into_iter().map(in_tiles).collect(), own.map(in_tiles).collect());
    Ok(OperatorGraph::behind(before, own).dropping_out(graph.drops_out()))
}

/// Returns a layer whose loss, if it has one, may be taken in tiles.
fn with_loss_in_tiles(layer: Layer, may_be: bool) -> Layer {
    let loss = layer.operators.iter().any(|operator| matches!(operator.kind, OperatorKind::CrossEntropy { .. }));
    Layer { loss_in_tiles: may_be && loss, ..layer }
}

/// Returns `true` if a model predicts the next token of a text, from those before it alone.
pub fn predicts_next_token(model: &Model) -> bool {
    computes_next_token(model, &model.graph())
}

fn computes_next_token(model: &Model, graph: &OperatorGraph) -> bool {
    let any = |is_it: fn(OperatorKind) -> bool| {
        graph.distinct().iter().flat_map(|layer| &layer.operators).any(|operator| is_it(operator.kind))
    };
    let sees_all =
        |kind| matches!(kind, OperatorKind::Attention(own) if matches!(own.mask, Mask::Full | Mask::Local(_)));
    let families = [Family::Gpt, Family::GptMoe, Family::Llama, Family::GptNeox, Family::Gemma2, Family::Blocks];
    families.contains(&model.family())
        && any(|kind| matches!(kind, OperatorKind::CrossEntropy { .. }))
        && !any(sees_all)
}

/// Returns the layer of an adapted model as its reference computes it: forward alone, with the same weights.
fn without_adapters(layer: &Layer) -> Layer {
    let kept = layer.operators.iter().filter(|own| !matches!(own.kind, OperatorKind::Tuned(Tuned::Adapter { .. })));
    let borrowed = |operator: &Operator| match operator.weights {
        Weights::Frozen(weights) => Operator { weights: Weights::Borrowed(weights), ..*operator },
        Weights::Trained | Weights::Borrowed(_) => *operator,
    };
    Layer { operators: kept.map(borrowed).collect(), frozen: true, ..layer.clone() }
}

/// Returns a layer for samples of two sequences.
fn doubled(layer: &Layer) -> Layer {
    let twice = |operator: &Operator| Operator { kind: operator.kind.for_samples(2), ..*operator };
    Layer {
        operators: layer.operators.iter().map(twice).collect(),
        output_elements: 2 * layer.output_elements,
        stream_elements: 2 * layer.stream_elements,
        exchanged_elements: 2 * layer.exchanged_elements,
        context_elements: 2 * layer.context_elements,
        ..layer.clone()
    }
}

fn method_of(adapters: &Adapters) -> &'static str {
    if adapters.quantised.is_some() { "qlora" } else { "lora" }
}

/// Freezes everything before the last so many blocks.
fn last_blocks(model: &Model, graph: &OperatorGraph, blocks: u32) -> Result<OperatorGraph, Invalid> {
    let places: Vec<usize> =
        graph.layers().enumerate().filter(|(_, layer)| layer.role == LayerRole::Block).map(|(at, _)| at).collect();
    if blocks == 0 || blocks as usize > places.len() {
        return Err(Invalid::range("trained_blocks", blocks, 1..=places.len()).with_hint(format!(
            "`{}` has {} blocks",
            model.name(),
            places.len()
        )));
    }
    let first = places[places.len() - blocks as usize];
    let kept = |(at, layer): (usize, &Layer)| {
        if at < first { Layer { frozen: true, ..frozen(layer) } } else { with_frozen_table(layer) }
    };
    Ok(OperatorGraph::of_layers(graph.layers().enumerate().map(kept).collect()))
}

/// Returns a layer none of whose weights are trained, with the arithmetic that it has.
fn frozen(layer: &Layer) -> Layer {
    let operators = layer
        .operators
        .iter()
        .map(|operator| Operator { weights: Weights::Frozen(in_compute_precision(operator)), ..*operator });
    Layer { operators: operators.collect(), ..layer.clone() }
}

/// Returns an operator's own weights as frozen ones in the compute precision.
fn in_compute_precision(operator: &Operator) -> FrozenWeights {
    if !operator.has_weights() {
        return FrozenWeights::default();
    }
    let matrices = match operator.kind {
        OperatorKind::Linear { .. } | OperatorKind::ExpertLinear { .. } | OperatorKind::Embedding { .. } => 1,
        _ => 0,
    };
    FrozenWeights { values: operator.kind.parameters(), quantised: 0, matrices }
}

/// Returns a head whose product with the embedding's table has no gradient of it.
fn with_frozen_table(layer: &Layer) -> Layer {
    let operators = layer.operators.iter().map(|operator| match operator.kind {
        OperatorKind::TiedHead { .. } => frozen_product(operator, None),
        _ => *operator,
    });
    Layer { operators: operators.collect(), ..layer.clone() }
}

/// Returns a layer whose weights stay as they are, with adapters beside the products of a block.
fn adapted(layer: &Layer, adapters: &Adapters, fused: bool) -> Layer {
    if layer.role == LayerRole::Input {
        return Layer { frozen: true, ..frozen(layer) };
    }
    let mut operators = Vec::new();
    for (at, operator) in layer.operators.iter().enumerate() {
        let parts = if layer.role == LayerRole::Block { parts(&layer.operators, at, fused) } else { Vec::new() };
        operators.push(frozen_product(operator, adapters.quantised.filter(|_| !parts.is_empty())));
        let OperatorKind::Linear { rows, inputs, .. } = operator.kind else { continue };
        let wanted = |target| adapters.targets.is_empty() || adapters.targets.contains(&target);
        for (_, outputs) in parts.into_iter().filter(|(target, _)| wanted(*target)) {
            let Adapters { rank, dropout, .. } = *adapters;
            let kind = OperatorKind::Tuned(Tuned::Adapter { rows, inputs, outputs, rank, dropout });
            operators.push(Operator::new(kind, operator.split));
        }
    }
    Layer { operators, ..layer.clone() }
}

/// Returns an operator whose weights stay as they are.
fn frozen_product(operator: &Operator, quantised: Option<Quantization>) -> Operator {
    let held = in_compute_precision(operator);
    let (kind, held) = match operator.kind {
        OperatorKind::Linear { rows, inputs, outputs, bias } => {
            let kind = Tuned::Frozen { experts: 1, rows, inputs, outputs, bias, quantised };
            let weights = inputs * outputs;
            let packed = |format: Quantization| FrozenWeights {
                values: held.values.saturating_sub(weights),
                quantised: format.bytes(inputs, outputs),
                matrices: held.matrices,
            };
            (OperatorKind::Tuned(kind), quantised.map_or(held, packed))
        }
        OperatorKind::ExpertLinear { experts, rows, inputs, outputs, bias } => {
            (OperatorKind::Tuned(Tuned::Frozen { experts, rows, inputs, outputs, bias, quantised: None }), held)
        }
        OperatorKind::TiedHead { rows, width, vocab, bias } => {
            let kind = Tuned::Frozen { experts: 1, rows, inputs: width, outputs: vocab, bias, quantised: None };
            (OperatorKind::Tuned(kind), held)
        }
        // No second pass backward for the gradients of scale and shift.
        OperatorKind::LayerNorm { rows, width } => (OperatorKind::CentredNorm { rows, width, scale: false }, held),
        // The product behind it keeps no output of it.
        OperatorKind::Relu { rows, width } => (OperatorKind::Activation { rows, width }, held),
        other => (other, held),
    };
    Operator { kind, weights: Weights::Frozen(held), kept_elsewhere: false, ..*operator }
}

fn has(graph: &OperatorGraph, target: AdapterTarget, fused: bool) -> bool {
    let blocks = graph.distinct().iter().filter(|layer| layer.role == LayerRole::Block);
    let mut all = blocks.flat_map(|layer| (0..layer.operators.len()).flat_map(|at| parts(&layer.operators, at, fused)));
    all.any(|(own, _)| own == target)
}

/// Returns the modules that a product of a block stands for, each with its output features: what implementations keep as
/// separate matrices, unless projections are `fused` in one. No modules for what is not a product of its own weights.
fn parts(operators: &[Operator], at: usize, fused: bool) -> Vec<(AdapterTarget, u64)> {
    use AdapterTarget::{Down, Gate, Key, Other, Output, Query, Up, Value};

    let OperatorKind::Linear { outputs, .. } = operators[at].kind else { return Vec::new() };
    let whole = |target| vec![(target, outputs)];
    let next = operators[at + 1..].iter().find_map(|operator| anchor(operator.kind));
    let before = || operators[..at].iter().rev().find_map(|operator| anchor(operator.kind));
    let nearest = operators[..at]
        .iter()
        .rev()
        .find(|operator| matches!(operator.kind, OperatorKind::Linear { .. }) || anchor(operator.kind).is_some());
    // Of parts that work side by side no residual follows the first.
    let follows_attention = nearest.is_some_and(|operator| matches!(operator.kind, OperatorKind::Attention(_)));
    match next {
        Some(Anchor::Activation(_) | Anchor::Gated(_)) if follows_attention => whole(Output),
        Some(Anchor::Attention(_)) if fused => whole(Query),
        Some(Anchor::Attention(attention)) => {
            let query = (Query, attention.heads * attention.head_width);
            let key = (Key, attention.kv_heads * attention.head_width);
            let value = (Value, attention.kv_heads * attention.value_width);
            let choices = [vec![query, key, value], vec![query, value], vec![key, value], vec![query], vec![key]];
            let fits =
                |choice: &Vec<(AdapterTarget, u64)>| choice.iter().map(|(_, width)| width).sum::<u64>() == outputs;
            choices.into_iter().find(fits).unwrap_or_else(|| whole(Other))
        }
        Some(Anchor::Gated(width)) if outputs == 2 * width => vec![(Gate, width), (Up, width)],
        Some(Anchor::Activation(width)) if outputs == width => whole(Up),
        Some(Anchor::Gated(_) | Anchor::Activation(_)) => whole(Other),
        Some(Anchor::Residual) | None => match before() {
            Some(Anchor::Attention(_)) => whole(Output),
            Some(Anchor::Gated(_) | Anchor::Activation(_)) => whole(Down),
            Some(Anchor::Residual) | None => whole(Other),
        },
    }
}

/// An operator by which the products around it are known.
enum Anchor {
    Attention(Attention),
    Gated(u64),
    Activation(u64),
    Residual,
}

fn anchor(kind: OperatorKind) -> Option<Anchor> {
    match kind {
        OperatorKind::Attention(attention) => Some(Anchor::Attention(attention)),
        OperatorKind::GatedActivation { width, .. } => Some(Anchor::Gated(width)),
        OperatorKind::Activation { width, .. } | OperatorKind::Relu { width, .. } => Some(Anchor::Activation(width)),
        OperatorKind::Residual { .. } => Some(Anchor::Residual),
        _ => None,
    }
}
