//! Multi-layer perceptrons.

use crate::families::fields::{LAYERS_MAX, VOCABULARY_MAX, WIDTH_MAX, dimensions, needed};
use crate::families::model::Architecture;
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{OperatorKind, replicated};

dimensions! {
    /// Linear layers with an activation between them: inputs → hidden × `layers` → outputs.
    pub struct Mlp {
        name,
        /// Hidden layers.
        layers: u32 = needed(LAYERS_MAX),
        /// Width of each hidden layer.
        hidden: u64 = needed(WIDTH_MAX),
        /// Input features.
        inputs: u64 = needed(VOCABULARY_MAX),
        /// Output features: classes.
        outputs: u64 = needed(VOCABULARY_MAX),
    }
}

impl Architecture for Mlp {
    fn graph(&self) -> OperatorGraph {
        let first = layer("input", LayerRole::Input, self.inputs, self.hidden);
        let block = layer("hidden", LayerRole::Block, self.hidden, self.hidden);
        let mut last = layer("output", LayerRole::Output, self.hidden, self.outputs);
        last.operators[1] = replicated(OperatorKind::CrossEntropy { rows: 1, vocab: self.outputs });
        OperatorGraph::of_equal_blocks(first, block, self.layers - 1, last, 0)
    }
}

fn layer(name: &'static str, role: LayerRole, inputs: u64, outputs: u64) -> Layer {
    let linear = OperatorKind::Linear { rows: 1, inputs, outputs, bias: true };
    let activation = OperatorKind::Activation { rows: 1, width: outputs };
    let operators = [linear, activation].map(replicated).into();
    Layer::undivided(name, role, operators, outputs)
}
