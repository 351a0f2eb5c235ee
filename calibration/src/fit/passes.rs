//! From the present constants to the most likely ones in a few linear steps.

use super::observation::{Grouping, Observation};
use super::solve::{Beliefs, objective, solve};
use super::unknown::{Linear, Problem, Unknown};
use crate::summary::median;
use std::collections::BTreeMap;

/// Linear steps at most.
const PASSES: usize = 5;

/// The farthest that the logarithm of a constant goes in one of them.
const REACH: f64 = 0.4;

/// Smaller steps than this end the search: a thousandth of a constant is nothing to any prediction.
const STILL: f64 = 2e-3;

/// Standard deviation of the residuals of a stack of which fewer rows than [`FEW`] are known: what transformers of
/// well known stacks are left with.
const NOISE: f64 = 0.08;
const FEW: usize = 8;

/// No stack is known better or worse than this: plans measured twice differ by 4 to 8 %.
const NOISE_BOUNDS: (f64, f64) = (0.04, 0.3);

/// A median absolute deviation in standard deviations of a normal distribution.
const NORMAL_MAD: f64 = 1.4826;

/// The weight of each observation's residual, as residuals spread in its stack; as in well known stacks if there are
/// no residuals yet. Rows of one stack, model and scale lack the same: n of them together count as √n.
pub(crate) fn noise(observations: &[Observation], residuals: Option<&[f64]>) -> Vec<f64> {
    let mut stacks: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let cell = |seen: &Observation| {
        [seen.stack(), seen.group(Grouping::Model), seen.group(Grouping::Scale)].map(ToOwned::to_owned)
    };
    let mut cells: BTreeMap<[String; 3], usize> = BTreeMap::new();
    for (index, seen) in observations.iter().enumerate() {
        stacks.entry(seen.stack()).or_default().extend(residuals.map(|all| all[index]));
        *cells.entry(cell(seen)).or_default() += 1;
    }
    let noises: BTreeMap<&str, f64> = stacks.into_iter().map(|(stack, own)| (stack, spread(own))).collect();
    let own = |seen: &Observation| noises[seen.stack()] * (cells[&cell(seen)] as f64).powf(0.25);
    observations.iter().map(own).collect()
}

fn spread(residuals: Vec<f64>) -> f64 {
    let Some(middle) = median(residuals.clone()).filter(|_| residuals.len() >= FEW) else { return NOISE };
    let distances = residuals.into_iter().map(|residual| (residual - middle).abs()).collect();
    (NORMAL_MAD * median(distances).unwrap_or(0.0)).clamp(NOISE_BOUNDS.0, NOISE_BOUNDS.1)
}

/// The most likely constants, and how steps respond there. `start` is where steps are known already. How they respond
/// is found anew after the first step if `anew` says so, and else taken to be as it was: residuals are simulated all
/// the same.
pub(crate) fn fit(
    problem: &Problem<'_>,
    start: Linear,
    beliefs: &Beliefs,
    anew: bool,
    told: &mut dyn FnMut(usize),
) -> Linear {
    let mut best = start;
    for pass in 0..PASSES {
        told(pass);
        let wanted = solve(&best, problem.unknowns, beliefs, REACH);
        let Some((better, residuals)) = descend(problem, &best, &wanted, beliefs) else { break };
        let moved = better.iter().zip(&best.at).map(|(new, old)| (new - old).abs()).fold(0.0, f64::max);
        best = if anew && pass == 0 {
            problem.linear(&better, Some((&best, &beliefs.free)))
        } else {
            Linear { at: better, residuals, slopes: best.slopes }
        };
        if moved < STILL {
            break;
        }
    }
    best
}

/// The point on the way to `wanted` that is better than `from`, tried whole, by half and by a quarter, with its
/// residuals.
fn descend(problem: &Problem<'_>, from: &Linear, wanted: &[f64], beliefs: &Beliefs) -> Option<(Vec<f64>, Vec<f64>)> {
    let worth = |residuals: &[f64], values: &[f64]| objective(residuals, values, beliefs);
    let present = worth(&from.residuals, &from.at);
    [1.0, 0.5, 0.25].into_iter().find_map(|part| {
        let values: Vec<f64> = from.at.iter().zip(wanted).map(|(old, new)| old + part * (new - old)).collect();
        let residuals = problem.residuals(&values);
        (worth(&residuals, &values) < present - 1e-9).then_some((values, residuals))
    })
}

/// Marks the constants that the observations can tell: those of which they say more than was known before.
pub(crate) fn told_apart(unknowns: &[Unknown], deviations: &[f64]) -> Vec<bool> {
    /// A constant whose deviation stays above this part of what it was before is left alone.
    const UNTOLD: f64 = 0.85;
    unknowns.iter().zip(deviations).map(|(unknown, deviation)| *deviation < UNTOLD * unknown.spread).collect()
}
