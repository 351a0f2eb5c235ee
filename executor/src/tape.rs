//! One layer's forward pass as it is kept for backward.
//!
//! Every layer records a graph of its own, from its input to its output. Its gradients are therefore there as soon as
//! backward has gone through it, and a layer can be computed again from its input alone (Chen et al.,
//! arXiv:1604.06174, section 3).

use crate::network::operators::seeded;
use crate::network::{Layer, Pass, Postponed, Weights};
use burn::tensor::Tensor;
use std::collections::BTreeMap;
use trainyard_data::MicroBatch;

/// A recorded layer.
pub(crate) struct Tape {
    /// The leaf at which the recording starts; `None` in the first layer, whose input has no gradient.
    input: Option<Tensor<2>>,
    /// The weights that it used and that gradients may reach, by slot.
    leaves: Vec<Option<Tensor<1>>>,
    output: Tensor<2>,
    /// The new values of running means, by slot.
    noted: BTreeMap<usize, Tensor<1>>,
    /// What backward postpones, if it goes in halves.
    postponed: Option<Postponed>,
}

/// The second half of a backward pass: gradients of weights that were found on the way, and those still to compute.
pub(crate) struct WeightHalf {
    found: Vec<Option<Tensor<1>>>,
    postponed: Option<Postponed>,
}

impl WeightHalf {
    /// Returns the gradient of each weight that took part, by slot.
    pub(crate) fn gradients(self) -> Vec<Option<Tensor<1>>> {
        let Self { mut found, postponed } = self;
        for (slot, gradient) in postponed.into_iter().flat_map(Postponed::gradients) {
            found[slot] = Some(match found[slot].take() {
                Some(before) => before + gradient,
                None => gradient,
            });
        }
        found
    }
}

impl Tape {
    /// Computes a layer and records it. `input` records nothing. `postponed` is that of the weights.
    pub(crate) fn record(
        layer: &dyn Layer,
        pass: &Pass,
        (weights, leaves): (Weights, Vec<Option<Tensor<1>>>),
        postponed: Option<Postponed>,
        input: Option<Tensor<2>>,
        batch: &MicroBatch,
    ) -> Self {
        let input = input.map(|input| Tensor::from_inner(input).require_grad());
        let output = layer.forward(pass, &weights, input.clone(), batch);
        Self { input, leaves, output, noted: weights.noted(), postponed }
    }

    /// Takes the new values that this pass gives running means, by slot.
    pub(crate) fn noted(&mut self) -> BTreeMap<usize, Tensor<1>> {
        std::mem::take(&mut self.noted)
    }

    /// Returns the layer's output, detached from the recording.
    pub(crate) fn output(&self) -> Tensor<2> {
        self.output.clone().inner()
    }

    /// Goes back from the gradient of the output to that of the input. What is left are gradients of weights.
    pub(crate) fn backward(self, gradient: Tensor<2>) -> (Option<Tensor<2>>, WeightHalf) {
        let Self { input, leaves, output, postponed, .. } = self;
        let mut gradients = seeded(output, gradient).backward();
        let of_input = input.map(|input| input.grad_remove(&mut gradients).expect("the graph reaches its input"));
        let found = leaves.into_iter().map(|leaf| leaf?.grad_remove(&mut gradients)).collect();
        (of_input, WeightHalf { found, postponed })
    }
}
