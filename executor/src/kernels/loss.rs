//! Losses.

use super::operation::{Kernel, Saves, apply, contiguous, extent, from_numbers, is_on_host};
use super::vector::{exp, largest, sum_of, vectorized};
use burn::backend::flex::FlexTensor;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor, TensorData};
use rayon::prelude::*;

/// Rows that a thread takes at once.
const BLOCK: usize = 64;

/// Computes the mean over rows of −ln softmax(logits)\[target\], in nats, as (1, 1). `targets` has a class per row.
pub(crate) fn cross_entropy(logits: Tensor<2>, targets: &[i32]) -> Tensor<2> {
    if !is_on_host(&logits) {
        return cross_entropy_by_burn(logits, targets);
    }
    let targets = targets.iter().map(|target| *target as usize).collect();
    Tensor::from_dispatch(apply(CrossEntropy { targets }, [logits.into_dispatch()]))
}

fn cross_entropy_by_burn(logits: Tensor<2>, targets: &[i32]) -> Tensor<2> {
    let targets = TensorData::new(targets.to_vec(), [targets.len(), 1]);
    let targets = Tensor::<2, Int>::from_data(targets, &logits.device());
    log_softmax(logits, 1).gather(1, targets).mean().neg().reshape([1, 1])
}

#[derive(Clone, Debug)]
struct CrossEntropy {
    targets: Vec<usize>,
}

/// The logits, and ln Σ eˡ of each row.
#[derive(Clone, Debug)]
struct Kept {
    logits: FlexTensor,
    log_sums: Vec<f32>,
}

impl Kernel<1> for CrossEntropy {
    type Kept = Kept;

    fn saved(kept: &mut Kept) -> Vec<(&mut FlexTensor, Saves)> {
        vec![(&mut kept.logits, Saves::Operand(0))]
    }

    fn forward(&self, [logits]: [FlexTensor; 1]) -> (FlexTensor, Kept) {
        let logits = contiguous(logits);
        let [rows, classes] = extent(&logits);
        let from = logits.storage::<f32>();
        let mut log_sums = vec![0.0; rows];
        log_sums
            .par_chunks_mut(BLOCK)
            .zip(from.par_chunks(BLOCK * classes))
            .for_each(|(log_sums, rows)| log_sums_of_rows(rows, log_sums));
        let loss = |(row, &target): (usize, &usize)| f64::from(log_sums[row] - from[row * classes + target]);
        let sum: f64 = self.targets.iter().enumerate().map(loss).sum();
        (from_numbers(vec![(sum / rows as f64) as f32], [1, 1]), Kept { logits, log_sums })
    }

    fn backward(&self, kept: Kept, gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let Kept { mut logits, log_sums } = kept;
        let [rows, classes] = extent(&logits);
        let factor = contiguous(gradient).storage::<f32>()[0] / rows as f32;
        let to = logits.storage_mut::<f32>();
        to.par_chunks_mut(BLOCK * classes)
            .zip(log_sums.par_chunks(BLOCK))
            .for_each(|(rows, log_sums)| scaled_softmax(log_sums, factor, rows));
        for (row, &target) in self.targets.iter().enumerate() {
            to[row * classes + target] -= factor;
        }
        [Some(logits)]
    }
}

vectorized! {
    fn log_sums_of_rows(rows: &'a [f32], log_sums: &'a mut [f32]) {
        for (row, log_sum) in rows.chunks_exact(rows.len() / log_sums.len()).zip(log_sums) {
            let most = largest(row);
            *log_sum = most + sum_of([row], |[logit]| exp(logit - most)).ln();
        }
    }

    fn scaled_softmax(log_sums: &'a [f32], factor: f32, rows: &'a mut [f32]) {
        let classes = rows.len() / log_sums.len();
        for (row, &log_sum) in rows.chunks_exact_mut(classes).zip(log_sums) {
            for logit in row {
                *logit = factor * exp(*logit - log_sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_equal_to_plain, half_precision_agrees, tensor};
    use super::*;

    fn targets(rows: usize, classes: usize) -> Vec<i32> {
        (0..rows).map(|row| (row * 5 % classes) as i32).collect()
    }

    #[test]
    fn cross_entropy_is_that_of_burn() {
        for [rows, classes] in [[1, 2], [3, 7], [200, 64], [33, 100]] {
            assert_equal_to_plain(
                [[rows, classes]],
                |[logits]| cross_entropy(logits * 10.0, &targets(rows, classes)),
                |[logits]| cross_entropy_by_burn(logits * 10.0, &targets(rows, classes)),
            );
        }
        half_precision_agrees([[4, 32]], |[logits]| cross_entropy(logits, &targets(4, 32)));
    }

    #[test]
    fn what_is_no_number_shows_in_the_loss() {
        let logits = tensor([2, 40], 1);
        for wrong in [f32::NAN, f32::INFINITY] {
            let at = Tensor::zeros([1, 1], &logits.device()) + wrong;
            let loss = cross_entropy(logits.clone().slice_assign([1..2, 3..4], at), &targets(2, 40));
            assert!(!loss.into_scalar::<f32>().is_finite());
        }
    }
}
