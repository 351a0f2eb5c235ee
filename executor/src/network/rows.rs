//! What goes into a network and what comes out of it: tokens, images and vectors as rows, scores as losses.

use super::operators::{cross_entropy, from_vec, integers, look_up, single};
use super::{Pass, with_gradient};
use crate::kernels;
use crate::process_group::share;
use burn::tensor::{DType, FloatDType, Tensor};
use trainyard_data::{Inputs, MicroBatch};

/// Returns the output of the layer before.
pub(super) fn from_before(input: Option<Tensor<2>>) -> Tensor<2> {
    input.expect("every layer but the first follows another one")
}

/// Looks up rows of a token table of `vocabulary` entries, of which this rank may have a part: the own tokens of every
/// sample, (tokens, hidden).
pub(super) fn embed(pass: &Pass, table: Tensor<2>, vocabulary: usize, batch: &MicroBatch) -> Tensor<2> {
    let Inputs::Tokens { ids, .. } = &batch.inputs else { unreachable!("a sequence model is given tokens") };
    let rows = look_up(table, ids, first_entry(pass, vocabulary), &pass.tensor);
    pass.tensor.leave(rows, batch.samples)
}

/// Returns the first of the entries of a vocabulary that this rank has.
fn first_entry(pass: &Pass, vocabulary: usize) -> usize {
    share(vocabulary, pass.tensor.size(), pass.tensor.rank()).start
}

/// Adds the rows of a table of positions, (positions, hidden), to the own tokens of every sample.
pub(super) fn add_positions(pass: &Pass, rows: Tensor<2>, table: Tensor<2>, batch: &MicroBatch) -> Tensor<2> {
    let Inputs::Tokens { sequence, .. } = &batch.inputs else { unreachable!("a sequence model is given tokens") };
    let positions = pass.context.own_rows(table.narrow(0, 0, sequence * pass.context.size()));
    let own = pass.tensor.own_tokens(*sequence);
    let [height, width] = rows.dims();
    let positions = positions.narrow(0, own.start, own.len()).unsqueeze::<3>();
    (rows.reshape([batch.samples, own.len(), width]) + positions).reshape([height, width])
}

/// Returns those of all tokens of `samples` samples that this rank goes on with: (own tokens, hidden).
pub(super) fn own_tokens(pass: &Pass, rows: Tensor<2>, samples: usize) -> Tensor<2> {
    let rows = pass.context.own_rows(rows);
    if !pass.tensor.shares_tokens() {
        return rows;
    }
    let [height, width] = rows.dims();
    let own = pass.tensor.own_tokens(height / samples);
    rows.reshape([samples, height / samples, width]).narrow(1, own.start, own.len()).reshape([-1, width as i64])
}

/// Returns the first token of every sample: (own tokens, hidden) → (samples, hidden). Every rank has all of them
/// afterwards; with sequence parallelism gradients go back through the first rank alone, so that they are counted once.
pub(super) fn first_tokens(pass: &Pass, rows: Tensor<2>, samples: usize) -> Tensor<2> {
    let rows = if pass.tensor.shares_tokens() { pass.tensor.enter(rows, samples) } else { rows };
    let [height, width] = rows.dims();
    rows.reshape([samples, height / samples, width]).narrow(1, 0, 1).reshape([samples, width])
}

/// Returns the rows whose targets are scored; all of them unless the micro-batch says which.
pub(super) fn scored_rows(pass: &Pass, rows: Tensor<2>, batch: &MicroBatch) -> Tensor<2> {
    match &batch.scored {
        Some(scored) => rows.select(0, integers(scored.clone(), [scored.len()], &pass.device)),
        None => rows,
    }
}

/// Returns the images of a micro-batch in a format that computes, (samples, channels × height × width).
pub(super) fn images(pass: &Pass, batch: &MicroBatch, format: DType) -> Tensor<2> {
    let Inputs::Images { pixels, .. } = &batch.inputs else { unreachable!("an image model is given images") };
    from_vec(pixels.clone(), [batch.samples, pixels.len() / batch.samples], &pass.device).cast(FloatDType::from(format))
}

/// Returns the vectors of a micro-batch in a format that computes, (samples, features).
pub(super) fn vectors(pass: &Pass, batch: &MicroBatch, format: DType) -> Tensor<2> {
    let Inputs::Vectors { values, width } = &batch.inputs else { unreachable!("a perceptron is given vectors") };
    from_vec(values.clone(), [batch.samples, *width], &pass.device).cast(FloatDType::from(format))
}

/// Computes the mean loss under scores of a vocabulary, of which this rank has a part: (rows, own entries) → (1, 1).
pub(super) fn scores_loss(pass: &Pass, scores: Tensor<2>, vocabulary: usize, batch: &MicroBatch) -> Tensor<2> {
    cross_entropy(scores, &batch.targets, first_entry(pass, vocabulary), &pass.tensor)
}

/// Computes the mean loss of scores of classes that every rank has all of, (samples, classes) → (1, 1), and in evaluation
/// the share of samples whose class has the highest one, (1, 2).
pub(super) fn class_loss(pass: &Pass, scores: Tensor<2>, batch: &MicroBatch) -> Tensor<2> {
    let loss = kernels::cross_entropy(single(scores.clone()), &batch.targets);
    if !pass.is_training() {
        let classes = integers(batch.targets.clone(), [batch.targets.len(), 1], &pass.device);
        let share = single(scores.argmax(1).equal(classes).float()).mean_dim(0);
        return Tensor::cat(vec![loss, share], 1);
    }
    if pass.tensor.shares_tokens() && pass.tensor.rank() > 0 {
        // All ranks computed the same; the first one's gradients are summed with none of the others.
        return with_gradient(loss, |loss| loss, |gradient| gradient.zeros_like());
    }
    loss
}
