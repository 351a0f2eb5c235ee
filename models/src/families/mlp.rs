//! Multi-layer perceptrons.

use crate::fields::{Fields, VOCABULARY_MAX};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{Operator, OperatorKind, Split};
use crate::spec::{Family, ModelError, ModelSpec};

/// Linear layers with an activation between them: inputs → hidden × `layers` → outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mlp {
    /// Catalog id or the user's name.
    pub name: String,
    /// Hidden layers.
    pub layers: u32,
    /// Width of each hidden layer.
    pub hidden: u64,
    /// Input features.
    pub inputs: u64,
    /// Output features: classes.
    pub outputs: u64,
}

impl Mlp {
    pub(crate) fn from_spec(spec: &ModelSpec) -> Result<Self, ModelError> {
        let fields = Fields::new(spec, &[&["layers", "hidden", "inputs", "outputs"]])?;
        Ok(Self {
            name: spec.name.clone(),
            layers: fields.layers()?,
            hidden: fields.hidden()?,
            inputs: fields.needed("inputs", spec.inputs, VOCABULARY_MAX)?,
            outputs: fields.needed("outputs", spec.outputs, VOCABULARY_MAX)?,
        })
    }

    pub(crate) fn spec(&self) -> ModelSpec {
        ModelSpec {
            layers: Some(self.layers),
            hidden: Some(self.hidden),
            inputs: Some(self.inputs),
            outputs: Some(self.outputs),
            ..ModelSpec::new(&self.name, Family::Mlp)
        }
    }

    pub(crate) fn graph(&self) -> OperatorGraph {
        let first = layer("input", LayerRole::Input, self.inputs, self.hidden);
        let block = layer("hidden", LayerRole::Block, self.hidden, self.hidden);
        let mut last = layer("output", LayerRole::Output, self.hidden, self.outputs);
        last.operators[1] =
            Operator::new(OperatorKind::CrossEntropy { rows: 1, vocab: self.outputs }, Split::Replicated);
        OperatorGraph::of_equal_blocks(first, block, self.layers - 1, last, 0)
    }
}

fn layer(name: &'static str, role: LayerRole, inputs: u64, outputs: u64) -> Layer {
    let linear = OperatorKind::Linear { rows: 1, inputs, outputs, bias: true };
    let activation = OperatorKind::Activation { rows: 1, width: outputs };
    let operators = [linear, activation].map(|kind| Operator::new(kind, Split::Replicated)).into();
    Layer::undivided(name, role, operators, outputs)
}
