//! Deviations of constants that were fitted: the inverse of the curvature of the likelihood.

use super::solve::{Beliefs, weight};
use super::unknown::Linear;
use crate::inverse::inverse_diagonal;

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
