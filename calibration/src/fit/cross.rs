//! Predictions of observations as if their group had never been seen.

use super::fold::Fold;
use super::observation::Observation;
use super::solve::{Beliefs, solve};
use super::unknown::{Linear, Problem, Unknown};
use rayon::prelude::*;
use trainyard_hardware_profiles::{Catalog, Parameter, Stack};

/// The farthest that constants go without a group from where they are with it.
const REACH: f64 = 1.5;

/// Of each observation, its residual in each fold that leaves it out: simulated with the constants of that fold.
pub(crate) fn residuals(problem: &Problem<'_>, linear: &Linear, beliefs: &Beliefs, folds: &[Fold]) -> Vec<Vec<f64>> {
    let solved: Vec<Vec<f64>> = folds
        .par_iter()
        .map(|fold| {
            let noise = beliefs.noise.iter().zip(&fold.left_out);
            let noise = noise.map(|(noise, out)| if *out { f64::INFINITY } else { *noise }).collect();
            solve(linear, problem.unknowns, &Beliefs { noise, ..beliefs.clone() }, REACH)
        })
        .collect();
    let of = |index: usize| {
        let out = folds.iter().zip(&solved).filter(|(fold, _)| fold.left_out[index]);
        out.map(|(_, values)| problem.residual(index, values)).collect()
    };
    (0..linear.residuals.len()).into_par_iter().map(of).collect()
}

/// The constants that would be expected of a stack if nothing of it had been measured: the geometric mean over the
/// other stacks of the catalog, among which releases of the same software count more. Those of GPUs stay what they are:
/// datasheets and benchmarks say most of them.
pub(crate) fn expected(unknowns: &[Unknown], catalog: &Catalog) -> Vec<f64> {
    unknowns
        .iter()
        .map(|unknown| {
            let super::unknown::Of::Stack(parameter) = unknown.of else { return unknown.start };
            mean_of_others(parameter, &unknown.entries, catalog).unwrap_or(unknown.start)
        })
        .collect()
}

fn mean_of_others(parameter: &Parameter<Stack>, own: &[String], catalog: &Catalog) -> Option<f64> {
    let others = catalog.stacks().iter().map(AsRef::as_ref).filter(|stack: &&Stack| !own.contains(&stack.name));
    let known = others.filter_map(|stack| Some((stack, parameter.number(stack)?.ln())));
    let (akin, apart): (Vec<_>, Vec<_>) =
        known.partition(|(stack, _)| own.iter().any(|name| software(name) == software(&stack.name)));
    let values = |stacks: Vec<(&Stack, f64)>| stacks.into_iter().map(|(_, value)| value).collect::<Vec<f64>>();
    pooled(&values(akin), &values(apart))
}

/// The mean of all values, and each of those that are akin, count the same.
fn pooled(akin: &[f64], apart: &[f64]) -> Option<f64> {
    let count = akin.len() + apart.len();
    let sum: f64 = akin.iter().sum();
    let all = (count > 0).then(|| (sum + apart.iter().sum::<f64>()) / count as f64)?;
    Some((sum + all) / (akin.len() + 1) as f64)
}

/// The software of which a stack is a release: the first word of its name, without a major version; submissions to
/// MLPerf are one, whatever the framework.
fn software(stack: &str) -> &str {
    stack.split('-').next().unwrap_or(stack).trim_end_matches(|letter: char| letter.is_ascii_digit())
}

/// The mean absolute error that residuals of logarithms stand for.
pub(crate) fn error(residuals: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0_usize);
    for residual in residuals {
        sum += (residual.exp() - 1.0).abs();
        count += 1;
    }
    (count > 0).then(|| sum / count as f64)
}

/// The mean absolute error of the observations that a filter lets through, each in all folds that leave it out.
pub(crate) fn error_of(
    observations: &[Observation],
    residuals: &[Vec<f64>],
    filter: impl Fn(&Observation) -> bool,
) -> Option<f64> {
    let own = observations.iter().zip(residuals).filter(|(seen, all)| filter(seen) && !all.is_empty());
    let each: Vec<f64> = own.filter_map(|(_, all)| error(all.iter().copied())).collect();
    (!each.is_empty()).then(|| each.iter().sum::<f64>() / each.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_the_same_software_count_more_than_other_stacks() {
        let near = |value: Option<f64>, expected: f64| (value.expect("a mean") - expected).abs() < 1e-12;
        // The mean of all is 3; with two that are akin, 0 and 1, it counts a third.
        assert!(near(pooled(&[0.0, 1.0], &[5.0, 6.0]), (0.0 + 1.0 + 3.0) / 3.0));
        assert!(near(pooled(&[], &[5.0, 6.0]), 5.5));
        assert_eq!(pooled(&[], &[]), None);
        assert_eq!(
            ["tensorflow1-2020-xla", "tensorflow2", "pytorch"].map(software),
            ["tensorflow", "tensorflow", "pytorch"]
        );
    }
}
