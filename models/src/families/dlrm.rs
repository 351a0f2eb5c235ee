//! Recommendation models of embedding tables and products.

use super::transformer::operator;
use crate::fields::{Fields, VOCABULARY_MAX, WIDTH_MAX};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{Operator, OperatorKind, Recommendation, Split};
use crate::spec::{Family, ModelError, ModelSpec};

/// Half-precision products need their inputs in eights; interactions are padded to that.
const PADDING: u64 = 8;

/// Dense features through one perceptron, categories through tables, the dot products of all pairs of what comes out,
/// and another perceptron over them and the dense features' part.
///
/// Source: Naumov et al., arXiv:1906.00091, section 3; padding of interactions as in NVIDIA/DeepLearningExamples
/// (PyTorch/Recommendation/DLRM).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dlrm {
    /// Catalog id or the user's name.
    pub name: String,
    /// Dense features of a sample.
    pub inputs: u64,
    /// Rows of each table, of which a sample needs one.
    pub tables: Vec<u64>,
    /// Widths of the first perceptron; the last is that of the tables.
    pub bottom: Vec<u64>,
    /// Widths of the second perceptron, without the last, which is 1.
    pub top: Vec<u64>,
}

impl Dlrm {
    pub(crate) fn from_spec(spec: &ModelSpec) -> Result<Self, ModelError> {
        let fields = Fields::new(spec, &[&["inputs", "tables", "bottom", "top"]])?;
        Ok(Self {
            name: spec.name.clone(),
            inputs: fields.needed("inputs", spec.inputs, VOCABULARY_MAX)?,
            tables: fields.tables()?,
            bottom: fields.list("bottom", spec.bottom.as_ref(), WIDTH_MAX)?,
            top: fields.list("top", spec.top.as_ref(), WIDTH_MAX)?,
        })
    }

    pub(crate) fn spec(&self) -> ModelSpec {
        ModelSpec {
            inputs: Some(self.inputs),
            tables: Some(self.tables.clone()),
            bottom: Some(self.bottom.clone()),
            top: Some(self.top.clone()),
            ..ModelSpec::new(&self.name, Family::Dlrm)
        }
    }

    pub(crate) fn graph(&self) -> OperatorGraph {
        let mut layers = vec![self.features(), self.interaction()];
        for widths in self.top.windows(2) {
            layers.push(Layer::undivided("product", LayerRole::Block, product(widths[0], widths[1]).into(), widths[1]));
        }
        layers.push(self.output());
        OperatorGraph::of_layers(layers)
    }

    /// Features of a row of a table.
    fn width(&self) -> u64 {
        last(&self.bottom)
    }

    fn features(&self) -> Layer {
        let (count, width) = (self.tables.len() as u64, self.width());
        let tables = Recommendation::Tables { samples: 1, tables: count, entries: self.tables.iter().sum(), width };
        let mut operators = vec![operator(OperatorKind::Recommendation(tables), Split::Replicated)];
        let inputs = std::iter::once(self.inputs).chain(self.bottom.iter().copied());
        operators.extend(inputs.zip(&self.bottom).flat_map(|(inputs, outputs)| product(inputs, *outputs)));
        let layer = Layer::undivided("features", LayerRole::Input, operators, (count + 1) * width);
        Layer { exchanged_elements: count * width, ..layer }
    }

    fn interaction(&self) -> Layer {
        let (vectors, width) = (self.tables.len() as u64 + 1, self.width());
        let outputs = (Recommendation::pairs_of(vectors) + width).next_multiple_of(PADDING);
        let dots = Recommendation::Interaction { samples: 1, vectors, width, outputs };
        let mut operators = vec![operator(OperatorKind::Recommendation(dots), Split::Replicated)];
        operators.extend(product(outputs, self.top[0]));
        Layer::undivided("interaction", LayerRole::Block, operators, self.top[0])
    }

    fn output(&self) -> Layer {
        let linear = OperatorKind::Linear { rows: 1, inputs: last(&self.top), outputs: 1, bias: true };
        let loss = OperatorKind::CrossEntropy { rows: 1, vocab: 1 };
        let operators = [linear, loss].map(|kind| operator(kind, Split::Replicated)).into();
        Layer::undivided("click", LayerRole::Output, operators, 1)
    }
}

/// A product and what is positive of it.
fn product(inputs: u64, outputs: u64) -> [Operator; 2] {
    let linear = OperatorKind::Linear { rows: 1, inputs, outputs, bias: true };
    [linear, OperatorKind::Relu { rows: 1, width: outputs }].map(|kind| operator(kind, Split::Replicated))
}

fn last(widths: &[u64]) -> u64 {
    *widths.last().expect("a list of widths is not empty")
}
