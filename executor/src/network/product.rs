//! Products whose recordings hold their weights nowhere but where these lie.

use super::operators::{linear, tied_head};
use super::{Elements, with_gradient};
use burn::tensor::Tensor;

/// How a product reads its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// As (inputs, outputs).
    ByInput,
    /// As (outputs, inputs), as a head that is tied to a table does.
    ByOutput,
}

/// The slots of a product's parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProductSlots {
    pub(super) weight: usize,
    pub(super) bias: Option<usize>,
}

/// A weight of a product in the shape that it is stored in, wherever its elements are.
pub(super) struct Matrix {
    pub(super) elements: Elements,
    pub(super) shape: [usize; 2],
}

impl Matrix {
    fn plain(&self) -> Tensor<2> {
        self.elements.plain().reshape(self.shape)
    }
}

/// Computes a product, (rows, inputs) → (rows, outputs), of which backward computes the gradient of rows alone; `note` hears
/// of that of the result.
pub(super) fn product(
    rows: Tensor<2>,
    stored: Stored,
    matrix: Matrix,
    bias: Option<Tensor<1>>,
    note: impl Fn(&Tensor<2>) + Send + Sync + 'static,
) -> Tensor<2> {
    let weight = matrix.plain();
    let forward = move |rows| match stored {
        Stored::ByInput => linear(rows, weight, bias),
        Stored::ByOutput => tied_head(rows, weight),
    };
    with_gradient(rows, forward, move |gradient| {
        note(&gradient);
        match stored {
            Stored::ByInput => tied_head(gradient, matrix.plain()),
            Stored::ByOutput => linear(gradient, matrix.plain(), None),
        }
    })
}
