//! Memory that a layer needs, whatever else its rank holds.

use crate::spec::{PlanSpec, Recompute};
use trainyard_models::{Layer, LayerRole, Sharing};

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
        let stored = layer.stored(micro, sharing).bytes(element).0;
        let kept = match (spec.recompute, layer.role) {
            (Recompute::None, _) | (_, LayerRole::Input | LayerRole::Output) => stored,
            (Recompute::Selective, LayerRole::Block) => layer.stored_without_core(micro, sharing).bytes(element).0,
            // Blocks keep their input.
            (Recompute::Full, LayerRole::Block) => stream,
        };
        let operators = layer.operators.iter().map(|operator| operator.on_rank(micro, sharing));
        let widest = operators.map(|operator| operator.stored().bytes(element)).max();
        // Quantised weights are whole for one product at a time.
        let whole = layer.operators.iter().map(|operator| operator.kind.dequantised() * element).max().unwrap_or(0);
        Self { stored, kept, workspace: widest.unwrap_or_default().0 + stream + whole }
    }
}
