//! Recommendation models of embedding tables and products.

use crate::families::fields::{Field, LAYERS_MAX, ROWS_MAX, VOCABULARY_MAX, WIDTH_MAX, dimensions, list, needed};
use crate::families::model::Architecture;
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{Operator, OperatorKind, Recommendation, replicated};
use trainyard_units::Invalid;

/// Half-precision products need their inputs in eights; interactions are padded to that.
const PADDING: u64 = 8;

dimensions! {
    /// Dense features through one perceptron, categories through tables, the dot products of all pairs of what comes out,
    /// and another perceptron over them and the dense features' part.
    ///
    /// Source: Naumov et al., arXiv:1906.00091, section 3; padding of interactions as in NVIDIA/DeepLearningExamples
    /// (PyTorch/Recommendation/DLRM).
    pub struct Dlrm {
        name,
        /// Dense features of a sample.
        inputs: u64 = needed(VOCABULARY_MAX),
        /// Rows of each table, of which a sample needs one.
        tables: Vec<u64> = rows(),
        bottom: Vec<u64> = list(LAYERS_MAX, WIDTH_MAX),
        top: Vec<u64> = list(LAYERS_MAX, WIDTH_MAX),
    }
}

/// Reads the rows of tables, which are bounded together.
fn rows(at: Field, written: Option<Vec<u64>>) -> Result<Vec<u64>, Invalid> {
    let tables = list(at, written, LAYERS_MAX, ROWS_MAX)?;
    at.range(tables.iter().sum::<u64>(), ROWS_MAX)?;
    Ok(tables)
}

impl Architecture for Dlrm {
    fn graph(&self) -> OperatorGraph {
        let mut layers = vec![self.features(), self.interaction()];
        for widths in self.top.windows(2) {
            layers.push(Layer::undivided("product", LayerRole::Block, product(widths[0], widths[1]).into(), widths[1]));
        }
        layers.push(self.output());
        OperatorGraph::of_layers(layers)
    }
}

impl Dlrm {
    /// Returns the features of a row of a table.
    fn width(&self) -> u64 {
        last(&self.bottom)
    }

    fn features(&self) -> Layer {
        let (count, width) = (self.tables.len() as u64, self.width());
        let tables = Recommendation::Tables { samples: 1, tables: count, entries: self.tables.iter().sum(), width };
        let mut operators = vec![replicated(OperatorKind::Recommendation(tables))];
        let inputs = std::iter::once(self.inputs).chain(self.bottom.iter().copied());
        operators.extend(inputs.zip(&self.bottom).flat_map(|(inputs, outputs)| product(inputs, *outputs)));
        let layer = Layer::undivided("features", LayerRole::Input, operators, (count + 1) * width);
        Layer { exchanged_elements: count * width, ..layer }
    }

    fn interaction(&self) -> Layer {
        let (vectors, width) = (self.tables.len() as u64 + 1, self.width());
        let outputs = (Recommendation::pairs_of(vectors) + width).next_multiple_of(PADDING);
        let dots = Recommendation::Interaction { samples: 1, vectors, width, outputs };
        let mut operators = vec![replicated(OperatorKind::Recommendation(dots))];
        operators.extend(product(outputs, self.top[0]));
        Layer::undivided("interaction", LayerRole::Block, operators, self.top[0])
    }

    fn output(&self) -> Layer {
        let linear = OperatorKind::Linear { rows: 1, inputs: last(&self.top), outputs: 1, bias: true };
        let loss = OperatorKind::CrossEntropy { rows: 1, vocab: 1 };
        let operators = [linear, loss].map(replicated).into();
        Layer::undivided("click", LayerRole::Output, operators, 1)
    }
}

/// Returns a product and what is positive of it.
fn product(inputs: u64, outputs: u64) -> [Operator; 2] {
    let linear = OperatorKind::Linear { rows: 1, inputs, outputs, bias: true };
    [linear, OperatorKind::Relu { rows: 1, width: outputs }].map(replicated)
}

fn last(widths: &[u64]) -> u64 {
    *widths.last().expect("a list of widths is not empty")
}
