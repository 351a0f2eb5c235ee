//! Backward in two halves: the gradients of inputs, which the stage before waits for, and those of the weights of
//! products, which nobody does.
//!
//! Source: Qi et al., arXiv:2401.10241, section 2.

use super::operators::{linear, single};
use super::product::{Matrix, ProductSlots, Stored, product};
use burn::tensor::Tensor;
use std::sync::{Arc, Mutex};

const UNPOISONED: &str = "nothing panics while it holds this lock";

/// Gradients of the weights of one recorded layer that are still to be computed.
#[derive(Clone, Default)]
pub(crate) struct Postponed(Arc<Mutex<Vec<Task>>>);

/// What the gradients of one product's parameters are computed from.
struct Task {
    slots: ProductSlots,
    stored: Stored,
    /// The operand, (rows, inputs).
    rows: Tensor<2>,
    /// The gradient of the result, (rows, outputs).
    gradient: Tensor<2>,
}

impl Postponed {
    /// Computes a product, (rows, inputs) → (rows, outputs), of which backward notes what the gradients of its
    /// parameters need. `rows` must be recorded.
    pub(super) fn product(
        &self,
        rows: Tensor<2>,
        (slots, stored): (ProductSlots, Stored),
        matrix: Matrix,
        bias: Option<Tensor<1>>,
    ) -> Tensor<2> {
        let (operand, tasks) = (rows.clone().inner(), self.clone());
        product(rows, stored, matrix, bias, move |gradient| {
            let task = Task { slots, stored, rows: operand.clone(), gradient: gradient.clone() };
            tasks.0.lock().expect(UNPOISONED).push(task);
        })
    }

    /// Computes the gradients that backward has noted so far: slots and their gradients, as (elements).
    pub(crate) fn gradients(self) -> Vec<(usize, Tensor<1>)> {
        let tasks = std::mem::take(&mut *self.0.lock().expect(UNPOISONED));
        tasks.into_iter().flat_map(Task::gradients).collect()
    }
}

impl Task {
    fn gradients(self) -> Vec<(usize, Tensor<1>)> {
        let Self { slots, stored, rows, gradient } = self;
        let format = gradient.dtype();
        let sums = |gradient: Tensor<2>| single(gradient).sum_dim(0).cast(burn::tensor::FloatDType::from(format));
        let of_bias = slots.bias.map(|slot| (slot, sums(gradient.clone()).flatten(0, 1)));
        let of_weight = match stored {
            Stored::ByInput => linear(rows.transpose(), gradient, None),
            Stored::ByOutput => linear(gradient.transpose(), rows, None),
        };
        std::iter::once((slots.weight, of_weight.flatten(0, 1))).chain(of_bias).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::operators::{from_vec, to_vec};
    use crate::network::{Elements, Weight, Weights};
    use burn::tensor::Device;

    /// Returns the gradients of rows, (2, 3), and of weights, by slot, in one pass or in two halves.
    fn gradients(
        shape: [usize; 2],
        postponed: Option<&Postponed>,
        product: impl Fn(&Weights, Tensor<2>) -> Tensor<2>,
    ) -> (Vec<f32>, Vec<(usize, Vec<f32>)>) {
        let device = Device::flex();
        let leaf = |length: usize| {
            let values = (0..length).map(|i| (i * i % 7) as f32 - 2.0).collect();
            Tensor::<1>::from_inner(from_vec(values, [length], &device)).require_grad()
        };
        let leaves = [leaf(6), leaf(2)];
        let shapes = [shape.to_vec(), vec![2]];
        let values = leaves.iter().zip(shapes);
        let values = values.map(|(leaf, shape)| Weight { elements: Elements::Here(leaf.clone()), shape }).collect();
        let rows = leaf(6);
        let weights = Weights::new(values, postponed.cloned());
        let result = product(&weights, rows.clone().reshape([2, 3]));
        let mut found = (result.clone() * result).sum().backward();
        let own = leaves.iter().enumerate().filter_map(|(slot, leaf)| Some((slot, leaf.grad_remove(&mut found)?)));
        let later = postponed.into_iter().flat_map(|postponed| postponed.clone().gradients());
        let by_slot = own.chain(later).map(|(slot, gradient)| (slot, to_vec(gradient))).collect();
        (to_vec(rows.grad_remove(&mut found).expect("it takes part")), by_slot)
    }

    #[test]
    fn two_halves_make_the_gradients_of_one_pass() {
        let linear = |weights: &Weights, rows| weights.linear(rows, 0, Some(1));
        let tied = |weights: &Weights, rows| weights.tied_head(rows, 0);
        let postponed = Postponed::default();
        assert_eq!(gradients([3, 2], Some(&postponed), linear), gradients([3, 2], None, linear));
        assert_eq!(gradients([2, 3], Some(&postponed), tied), gradients([2, 3], None, tied));
        assert!(postponed.gradients().is_empty());
    }
}
