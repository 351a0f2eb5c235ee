//! Linear layers.

#[cfg(feature = "gpu")]
use super::lies_on_host;
use super::operation::{Kernel, apply, cast, contiguous, extent, from_numbers, is_on_host};
use super::product::{product, product_with_bias};
use super::vector::vectorized;
use burn::backend::flex::FlexTensor;
use burn::tensor::{FloatDType, Tensor};
use rayon::prelude::*;

/// Computes x · weight + bias, with the weight as (inputs, outputs) and the bias as (outputs).
pub(crate) fn linear(x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    if !is_on_host(&x) {
        let product = matrix_product(x, weight);
        return match bias {
            Some(bias) => add_row(product, bias),
            None => product,
        };
    }
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    Tensor::from_dispatch(match bias {
        Some(bias) => apply(Linear, [x, weight, bias.into_dispatch()]),
        None => apply(Unbiased::ByInput, [x, weight]),
    })
}

/// Computes x · weightᵀ, with the weight as (outputs, inputs): a head that is tied to a table of tokens.
pub(crate) fn linear_transposed(x: Tensor<2>, weight: Tensor<2>) -> Tensor<2> {
    if !is_on_host(&x) {
        return matrix_product(x, weight.transpose());
    }
    Tensor::from_dispatch(apply(Unbiased::ByOutput, [x.into_dispatch(), weight.into_dispatch()]))
}

/// Adds a bias to each row where it lies, on a GPU with a gradient of its own.
fn add_row(x: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
    #[cfg(feature = "gpu")]
    if !lies_on_host(&x) {
        return super::gpu::add_row(x, bias);
    }
    x + bias.unsqueeze()
}

/// Computes a product of matrices where it lies, on a GPU by its own kernels.
pub(crate) fn matrix_product<const D: usize>(lhs: Tensor<D>, rhs: Tensor<D>) -> Tensor<D> {
    #[cfg(feature = "gpu")]
    if !lies_on_host(&lhs) {
        return super::gpu::product(lhs, rhs);
    }
    lhs.matmul(rhs)
}

#[derive(Clone, Copy, Debug)]
struct Linear;

impl Kernel<3> for Linear {
    type Kept = [FlexTensor; 2];

    const TAKES_HALVES: bool = true;

    const WEIGHTS: &'static [usize] = &[1];

    fn weights([_, weight]: &mut Self::Kept) -> Vec<&mut FlexTensor> {
        vec![weight]
    }

    fn forward(&self, [x, weight, bias]: [FlexTensor; 3]) -> (FlexTensor, Self::Kept) {
        let result = product_with_bias(&x, &weight, contiguous(cast(bias, FloatDType::F32)).storage());
        (result, [x, weight])
    }

    fn backward(&self, [x, weight]: Self::Kept, gradient: FlexTensor, wanted: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let gradient = contiguous(gradient);
        let [to_x, to_weight] = of_operands(&x, &weight, &gradient, [wanted[0], wanted[1]]);
        [to_x, to_weight, wanted[2].then(|| sum_of_rows(&cast(gradient, FloatDType::F32)))]
    }
}

/// Returns the gradients of x and of the weight, if they are wanted, from that of x · weight.
fn of_operands(
    x: &FlexTensor,
    weight: &FlexTensor,
    gradient: &FlexTensor,
    wanted: [bool; 2],
) -> [Option<FlexTensor>; 2] {
    let to_x = wanted[0].then(|| product(gradient, &weight.transpose(0, 1)));
    [to_x, wanted[1].then(|| product(&x.transpose(0, 1), gradient))]
}

/// A product alone, by how its weight is stored.
#[derive(Clone, Copy, Debug)]
enum Unbiased {
    /// As (inputs, outputs).
    ByInput,
    /// As (outputs, inputs).
    ByOutput,
}

impl Kernel<2> for Unbiased {
    type Kept = [FlexTensor; 2];

    const TAKES_HALVES: bool = true;

    const WEIGHTS: &'static [usize] = &[1];

    fn weights([_, weight]: &mut Self::Kept) -> Vec<&mut FlexTensor> {
        vec![weight]
    }

    fn forward(&self, [x, weight]: [FlexTensor; 2]) -> (FlexTensor, Self::Kept) {
        let result = match self {
            Self::ByInput => product(&x, &weight),
            Self::ByOutput => product(&x, &weight.transpose(0, 1)),
        };
        (result, [x, weight])
    }

    fn backward(&self, [x, weight]: Self::Kept, gradient: FlexTensor, wanted: [bool; 2]) -> [Option<FlexTensor>; 2] {
        match self {
            Self::ByInput => of_operands(&x, &weight, &gradient, wanted),
            Self::ByOutput => {
                let to_x = wanted[0].then(|| product(&gradient, &weight));
                [to_x, wanted[1].then(|| product(&gradient.transpose(0, 1), &x))]
            }
        }
    }
}

/// Rows whose sums a thread makes together.
const BLOCK: usize = 64;

/// Returns the sum of each column, (columns).
fn sum_of_rows(tensor: &FlexTensor) -> FlexTensor {
    let [_, columns] = extent(tensor);
    let sums: Vec<Vec<f32>> = tensor
        .storage::<f32>()
        .par_chunks(BLOCK * columns)
        .map(|rows| {
            let mut sum = vec![0.0; columns];
            add_rows(rows, &mut sum);
            sum
        })
        .collect();
    let mut total = vec![0.0; columns];
    sums.iter().for_each(|sum| add_rows(sum, &mut total));
    from_numbers(total, [columns])
}

vectorized! {
    fn add_rows(rows: &'a [f32], sum: &'a mut [f32]) {
        for row in rows.chunks_exact(sum.len()) {
            for (sum, &number) in sum.iter_mut().zip(row) {
                *sum += number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_equal_to_plain, half_precision_agrees};
    use super::*;

    #[test]
    fn linear_layers_are_those_of_burn() {
        for [rows, inputs, outputs] in [[1, 1, 1], [3, 7, 5], [130, 33, 65]] {
            assert_equal_to_plain(
                [[rows, inputs], [inputs, outputs], [1, outputs]],
                |[x, weight, bias]| linear(x, weight, Some(bias.flatten(0, 1))),
                |[x, weight, bias]| x.matmul(weight) + bias,
            );
            assert_equal_to_plain(
                [[rows, inputs], [inputs, outputs]],
                |[x, weight]| linear(x, weight, None),
                |[x, weight]| x.matmul(weight),
            );
            assert_equal_to_plain(
                [[rows, inputs], [outputs, inputs]],
                |[x, weight]| linear_transposed(x, weight),
                |[x, weight]| x.matmul(weight.transpose()),
            );
        }
        half_precision_agrees([[5, 32], [32, 16]], |[x, weight]| linear(x, weight, None));
        half_precision_agrees([[5, 32], [32, 16], [1, 16]], |[x, w, b]| linear(x, w, Some(b.flatten(0, 1))));
    }
}
