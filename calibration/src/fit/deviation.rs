//! How sure constants are that were fitted: the inverse of the curvature of the likelihood.

use super::solve::{Beliefs, weight};
use super::unknown::Linear;

/// Standard deviation of the logarithm of each constant, given what the observations say of it and of those that do the
/// same; its spread before where nothing was said.
pub(crate) fn deviations(linear: &Linear, beliefs: &Beliefs) -> Vec<f64> {
    let free: Vec<usize> = (0..beliefs.free.len()).filter(|index| beliefs.free[*index]).collect();
    let place = |unknown: usize| free.binary_search(&unknown).ok();
    let mut curvature = vec![vec![0.0; free.len()]; free.len()];
    for (own, unknown) in free.iter().enumerate() {
        curvature[own][own] = beliefs.spread[*unknown].powi(-2);
    }
    for (index, noise) in beliefs.noise.iter().enumerate().filter(|(_, noise)| noise.is_finite()) {
        let information = weight(linear.residuals[index] / noise) / (noise * noise);
        let slopes: Vec<(usize, f64)> =
            linear.slopes[index].iter().filter_map(|(unknown, slope)| Some((place(*unknown)?, *slope))).collect();
        for (a, slope_a) in &slopes {
            for (b, slope_b) in &slopes {
                curvature[*a][*b] += information * slope_a * slope_b;
            }
        }
    }
    let variances = inverse_diagonal(curvature);
    let mut deviations = beliefs.spread.clone();
    for (own, unknown) in free.iter().enumerate() {
        deviations[*unknown] = variances[own].sqrt();
    }
    deviations
}

/// The diagonal of the inverse of a symmetric positive definite matrix, by Cholesky's decomposition.
fn inverse_diagonal(mut matrix: Vec<Vec<f64>>) -> Vec<f64> {
    let order = matrix.len();
    for column in 0..order {
        for row in column..order {
            let known: f64 = (0..column).map(|k| matrix[row][k] * matrix[column][k]).sum();
            let rest = matrix[row][column] - known;
            matrix[row][column] = if row == column { rest.sqrt() } else { rest / matrix[column][column] };
        }
    }
    // Column by column of the inverse of the factor; the diagonal sought is the sum of squares of each column.
    (0..order)
        .map(|column| {
            let mut inverse = vec![0.0; order];
            for row in column..order {
                let unit = if row == column { 1.0 } else { 0.0 };
                let known: f64 = (column..row).map(|k| matrix[row][k] * inverse[k]).sum();
                inverse[row] = (unit - known) / matrix[row][row];
            }
            inverse.iter().map(|value| value * value).sum()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_diagonal_is_that_of_the_inverse() {
        // The inverse of [[4, 2], [2, 3]] is [[3, -2], [-2, 4]] / 8.
        let diagonal = inverse_diagonal(vec![vec![4.0, 2.0], vec![2.0, 3.0]]);
        assert!((diagonal[0] - 0.375).abs() < 1e-12 && (diagonal[1] - 0.5).abs() < 1e-12, "{diagonal:?}");
    }
}
