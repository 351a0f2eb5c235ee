//! Multi-layer perceptrons: linear layers with a GELU between them.
//!
//! Names are those of PyTorch's `Sequential` of `Linear` and `GELU` in turn, and first values those of its `Linear`.

use super::parts::{Linear, Slots, gelu};
use super::{Layer, Parameter, Pass, Weights, rows};
use burn::tensor::Tensor;
use std::sync::Arc;
use trainyard_data::MicroBatch;
use trainyard_models::Mlp;

/// Returns the layers, as the description counts them.
pub(super) fn layers(mlp: &Mlp) -> Vec<Arc<dyn Layer>> {
    let (hidden, last) = (mlp.hidden as usize, mlp.layers as usize);
    let layer = |index: usize| {
        let inputs = if index == 0 { mlp.inputs as usize } else { hidden };
        let outputs = if index == last { mlp.outputs as usize } else { hidden };
        Arc::new(Perceptrons::new(index, inputs, outputs, index == last)) as Arc<dyn Layer>
    };
    (0..=last).map(layer).collect()
}

/// A product of each sample, followed by a GELU or by the loss.
struct Perceptrons {
    parameters: Vec<Parameter>,
    product: Linear,
    is_last: bool,
}

impl Perceptrons {
    fn new(index: usize, inputs: usize, outputs: usize, is_last: bool) -> Self {
        let mut slots = Slots::new("");
        // Activations are counted, too, though they have no parameters.
        let product = slots.linear_of_pytorch(&(2 * index).to_string(), inputs, outputs);
        Self { parameters: slots.parameters(), product, is_last }
    }
}

impl Layer for Perceptrons {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, input: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let rows = input.unwrap_or_else(|| rows::vectors(pass, batch, weights.get::<2>(0).dtype()));
        let outputs = self.product.forward(weights, rows);
        if self.is_last { rows::class_loss(pass, outputs, batch) } else { gelu(outputs) }
    }
}
