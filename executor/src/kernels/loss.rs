//! Losses.

use super::operation::{Kernel, Saves, apply, contiguous, extent, from_numbers, is_on_host};
use super::vector::{exp, largest, sum_of, vectorized};
use burn::backend::flex::FlexTensor;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Bool, Int, Tensor, TensorData};
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

/// Computes what the loss of each row needs of a share of its classes, (rows, classes) → (rows, 2): ln Σ eˡ, and the logit of
/// the target, 0 where it is in another share. `targets` has a class of this share per row, or nothing.
pub(crate) fn share_of_loss(logits: Tensor<2>, targets: Vec<Option<usize>>) -> Tensor<2> {
    if !is_on_host(&logits) {
        return share_of_loss_by_burn(logits, &targets);
    }
    Tensor::from_dispatch(apply(ShareOfLoss { targets }, [logits.into_dispatch()]))
}

fn share_of_loss_by_burn(logits: Tensor<2>, targets: &[Option<usize>]) -> Tensor<2> {
    let (rows, device) = (targets.len(), logits.device());
    let greatest = logits.clone().detach().max_dim(1);
    let log_sums = (logits.clone() - greatest.clone()).exp().sum_dim(1).log() + greatest;
    let places: Vec<i32> = targets.iter().map(|target| target.unwrap_or(0) as i32).collect();
    let elsewhere: Vec<bool> = targets.iter().map(Option::is_none).collect();
    let picked = logits.gather(1, Tensor::<2, Int>::from_data(TensorData::new(places, [rows, 1]), &device));
    let elsewhere = Tensor::<2, Bool>::from_data(TensorData::new(elsewhere, [rows, 1]), &device);
    Tensor::cat(vec![log_sums, picked.mask_fill(elsewhere, 0.0)], 1)
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

impl Kept {
    fn of(logits: FlexTensor) -> Self {
        let logits = contiguous(logits);
        let [rows, classes] = extent(&logits);
        let mut log_sums = vec![0.0; rows];
        log_sums
            .par_chunks_mut(BLOCK)
            .zip(logits.storage::<f32>().par_chunks(BLOCK * classes))
            .for_each(|(log_sums, rows)| log_sums_of_rows(rows, log_sums));
        Self { logits, log_sums }
    }
}

impl Kernel<1> for CrossEntropy {
    type Kept = Kept;

    fn saved(kept: &mut Kept) -> Vec<(&mut FlexTensor, Saves)> {
        vec![(&mut kept.logits, Saves::Operand(0))]
    }

    fn forward(&self, [logits]: [FlexTensor; 1]) -> (FlexTensor, Kept) {
        let kept = Kept::of(logits);
        let ([rows, classes], from, log_sums) = (extent(&kept.logits), kept.logits.storage::<f32>(), &kept.log_sums);
        let loss = |(row, &target): (usize, &usize)| f64::from(log_sums[row] - from[row * classes + target]);
        let sum: f64 = self.targets.iter().enumerate().map(loss).sum();
        (from_numbers(vec![(sum / rows as f64) as f32], [1, 1]), kept)
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

#[derive(Clone, Debug)]
struct ShareOfLoss {
    targets: Vec<Option<usize>>,
}

impl Kernel<1> for ShareOfLoss {
    type Kept = Kept;

    fn saved(kept: &mut Kept) -> Vec<(&mut FlexTensor, Saves)> {
        vec![(&mut kept.logits, Saves::Operand(0))]
    }

    fn forward(&self, [logits]: [FlexTensor; 1]) -> (FlexTensor, Kept) {
        let kept = Kept::of(logits);
        let ([rows, classes], from) = (extent(&kept.logits), kept.logits.storage::<f32>());
        let picked = self.targets.iter().enumerate();
        let picked = picked.map(|(row, target)| target.map_or(0.0, |target| from[row * classes + target]));
        let shares = kept.log_sums.iter().zip(picked).flat_map(|(log_sum, picked)| [*log_sum, picked]).collect();
        (from_numbers(shares, [rows, 2]), kept)
    }

    fn backward(&self, kept: Kept, gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let Kept { mut logits, log_sums } = kept;
        let [_, classes] = extent(&logits);
        let gradient = contiguous(gradient);
        let gradient = gradient.storage::<f32>();
        let to = logits.storage_mut::<f32>();
        to.par_chunks_mut(classes)
            .zip(&log_sums)
            .zip(gradient.par_chunks(2))
            .for_each(|((row, log_sum), gradient)| scaled_softmax(&[*log_sum], gradient[0], row));
        for (row, target) in self.targets.iter().enumerate() {
            if let Some(target) = target {
                to[row * classes + target] += gradient[2 * row + 1];
            }
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
    fn a_share_of_the_loss_is_that_of_burn() {
        for [rows, classes] in [[1, 2], [3, 7], [200, 64], [33, 100]] {
            let targets: Vec<Option<usize>> = (0..rows).map(|row| (row % 3 > 0).then_some(row * 5 % classes)).collect();
            assert_equal_to_plain(
                [[rows, classes]],
                |[logits]| share_of_loss(logits * 10.0, targets.clone()),
                |[logits]| share_of_loss_by_burn(logits * 10.0, &targets),
            );
        }
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
