//! Memory that a layer needs, whatever else its rank holds.

use crate::spec::{PlanSpec, Precision, Recompute};
use trainyard_models::{Gemm, Layer, LayerRole, Operator, OperatorKind, Pass, Routing, Sharing};

/// Tokens and columns of a tile of logits.
///
/// # Source
///
/// Hugging Face TRL 1.16, `trl/kernels/chunked_logprob.py`, `TOKEN_CHUNK_SIZE`; `trl/trainer/utils.py`,
/// `_CHUNKED_LOGPROB_CHUNK_SIZE`.
const TILE: (u64, u64) = (4096, 32_768);

/// Memory that one micro-batch of a plan needs in a layer, in bytes on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LayerMemory {
    /// Activations that backward needs.
    pub(crate) stored: u64,
    /// Those of them that are kept between forward and backward.
    pub(crate) kept: u64,
    /// The gradient of the layer's activations, alive during its backward pass: the size of two outputs or, where there
    /// is a loss, of the logits' gradient.
    pub(crate) workspace: u64,
}

impl LayerMemory {
    /// Computes the memory of a layer; zero for frozen layers, which have no backward pass.
    pub(crate) fn of(spec: &PlanSpec, sharing: Sharing, layer: &Layer) -> Self {
        if layer.frozen {
            return Self::default();
        }
        let (micro, element) = (spec.batch.micro, spec.precision.element_bytes());
        let stream = layer.stream_on_rank(micro, sharing) * element;
        let stored = layer.stored(micro, sharing).bytes(element).0 - in_eight_bits(spec, sharing, layer);
        let kept = match (spec.recompute, layer.role) {
            (Recompute::None, _) | (_, LayerRole::Input | LayerRole::Output) => stored,
            (Recompute::Selective, LayerRole::Block) => {
                layer.stored_without_core(micro, sharing).bytes(element).0 - in_eight_bits(spec, sharing, layer)
            }
            // Blocks keep their input.
            (Recompute::Full, LayerRole::Block) => stream,
        };
        let operators = layer.operators.iter().map(|operator| operator.on_rank(micro, sharing));
        let widest = operators.map(|operator| operator.stored().bytes(element)).max();
        // Quantised weights are whole for one product at a time.
        let whole = layer.operators.iter().map(|operator| operator.kind.dequantised() * element).max().unwrap_or(0);
        Self { stored, kept, workspace: widest.unwrap_or_default().0 + stream + whole }
    }

    /// Returns this memory of a layer whose experts weight what they compute: the combination of what they return keeps
    /// nothing.
    pub(crate) fn weighted_by_experts(self, spec: &PlanSpec, sharing: Sharing, layer: &Layer) -> Self {
        let is_combination = |operator: &&Operator| matches!(operator.kind, OperatorKind::Routing(Routing::Combine(_)));
        let combinations = layer.operators.iter().filter(is_combination);
        let kept = |operator: &Operator| operator.stored(spec.batch.micro, sharing);
        let less = combinations.map(kept).map(|kept| kept.bytes(spec.precision.element_bytes()).0).sum::<u64>();
        let kept = if spec.recompute == Recompute::Full { self.kept } else { self.kept.saturating_sub(less) };
        Self { stored: self.stored.saturating_sub(less), kept, ..self }
    }

    /// Computes the memory of a layer whose loss writes the gradient of the logits over them.
    pub(crate) fn in_place(spec: &PlanSpec, sharing: Sharing, layer: &Layer) -> Self {
        let others =
            layer.operators.iter().filter(|operator| !matches!(operator.kind, OperatorKind::CrossEntropy { .. }));
        let element = spec.precision.element_bytes();
        let widest = others.map(|operator| operator.on_rank(spec.batch.micro, sharing).stored().bytes(element).0).max();
        let stream = layer.stream_on_rank(spec.batch.micro, sharing) * element;
        Self { workspace: widest.unwrap_or(0) + stream, ..Self::of(spec, sharing, layer) }
    }

    /// Computes the memory of a layer whose loss is taken tile by tile: it keeps the input of the product with the
    /// vocabulary, computes logits again backward, and adds gradients up in single precision.
    pub(crate) fn in_tiles(spec: &PlanSpec, sharing: Sharing, layer: &Layer) -> Self {
        if layer.frozen {
            return Self::default();
        }
        let (micro, element) = (spec.batch.micro, spec.precision.element_bytes());
        let (mut tile, mut stored, mut input, mut weights) = (0, 0, 0, 0);
        for operator in &layer.operators {
            let kind = operator.on_rank(micro, sharing);
            let kept = operator.stored(micro, sharing).bytes(element).0;
            match kind {
                OperatorKind::CrossEntropy { rows, .. } => tile = rows.min(TILE.0) * TILE.1 * element,
                other if other.is_over_vocabulary() => {}
                _ => stored += kept,
            }
            for Gemm { batch, m, n, k } in kind.gemms(Pass::Forward) {
                // A product whose weights stay as they are keeps its input for this alone.
                stored += if kept == 0 { batch * m * k * element } else { 0 };
                input = input.max(batch * m * k);
                // A head that is the token table has its gradients too, though the table counts as the embedding's.
                weights = weights.max(if kind.multiplies_weights() { k * n } else { 0 });
            }
        }
        Self { stored, kept: stored, workspace: tile + 4 * (input + weights) + input * element }
    }
}

/// Computes the bytes that the inputs of a block's products take less in eight bits than in sixteen.
fn in_eight_bits(spec: &PlanSpec, sharing: Sharing, layer: &Layer) -> u64 {
    if spec.precision != Precision::Fp8Mixed || layer.role != LayerRole::Block {
        return 0;
    }
    let products = layer.operators.iter().filter(|operator| operator.kind.may_be_in_eight_bits());
    products.map(|operator| operator.stored(spec.batch.micro, sharing).bytes(1).0).sum()
}
