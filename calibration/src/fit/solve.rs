//! The most likely constants where steps respond linearly: a robust least-squares problem with what was known before.
//!
//! # Source
//!
//! Bounds by a sine: James and Roos, "Minuit", Computer Physics Communications 10 (1975), 343-367, section 1.2.1.
//! The loss 2 (√(1 + u²) − 1): Charbonnier et al., IEEE Transactions on Image Processing 6 (1997), 298-311.

use super::unknown::{Linear, Unknown};
use argmin::core::{CostFunction, Error, Executor, Gradient, State};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;

/// Residuals beyond so many standard deviations count by their size rather than its square.
const ROBUST: f64 = 2.0;

/// Steps of the minimiser at most. A few dozen are the rule.
const ITERATIONS: u64 = 300;

/// Gradients and steps that the minimiser remembers.
const MEMORY: usize = 12;

/// Beliefs about observations and constants besides the response of steps.
#[derive(Clone, Debug)]
pub(crate) struct Beliefs {
    /// Standard deviation of each observation's residual, its weight included; infinite for one that is left out.
    pub noise: Vec<f64>,
    /// Expected value of each constant before anything was measured.
    pub centre: Vec<f64>,
    /// Standard deviation of its logarithm.
    pub spread: Vec<f64>,
    /// Set if it may change.
    pub free: Vec<bool>,
}

/// A problem for the minimiser, in the sines' arguments.
#[derive(Clone)]
struct Surrogate<'a> {
    linear: &'a Linear,
    beliefs: &'a Beliefs,
    bounds: Vec<(f64, f64)>,
}

impl Surrogate<'_> {
    fn values(&self, arguments: &[f64]) -> Vec<f64> {
        let value = |(argument, (low, high)): (&f64, &(f64, f64))| low + (high - low) * (argument.sin() + 1.0) / 2.0;
        arguments.iter().zip(&self.bounds).map(value).collect()
    }

    fn arguments(&self, values: &[f64]) -> Vec<f64> {
        // At a bound itself the sine is flat, and nothing would ever move it.
        let argument = |(value, (low, high)): (&f64, &(f64, f64))| {
            let share = if high > low { 2.0 * (value - low) / (high - low) - 1.0 } else { 0.0 };
            share.clamp(-0.98, 0.98).asin()
        };
        values.iter().zip(&self.bounds).map(argument).collect()
    }
}

/// Minus the logarithm of the likelihood, up to a constant.
pub(crate) fn objective(residuals: &[f64], values: &[f64], beliefs: &Beliefs) -> f64 {
    let of_rows = residuals.iter().zip(&beliefs.noise).filter(|(_, noise)| noise.is_finite());
    let of_rows: f64 = of_rows.map(|(residual, noise)| loss(residual / noise)).sum();
    let of_constants = values.iter().zip(&beliefs.spread).zip(beliefs.centre.iter().zip(&beliefs.free));
    let of_constants: f64 = of_constants
        .filter(|(_, (_, free))| **free)
        .map(|((value, spread), (centre, _))| ((value - centre) / spread).powi(2) / 2.0)
        .sum();
    of_rows + of_constants
}

fn loss(deviations: f64) -> f64 {
    ROBUST * ROBUST * ((1.0 + (deviations / ROBUST).powi(2)).sqrt() - 1.0)
}

/// Derivative of the loss over the residual: the weight of an observation, one where it fits.
pub(crate) fn weight(deviations: f64) -> f64 {
    1.0 / (1.0 + (deviations / ROBUST).powi(2)).sqrt()
}

impl CostFunction for Surrogate<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, arguments: &Vec<f64>) -> Result<f64, Error> {
        let values = self.values(arguments);
        let residuals: Vec<f64> =
            (0..self.linear.residuals.len()).map(|index| self.linear.residual(index, &values)).collect();
        Ok(objective(&residuals, &values, self.beliefs))
    }
}

impl Gradient for Surrogate<'_> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, arguments: &Vec<f64>) -> Result<Vec<f64>, Error> {
        let values = self.values(arguments);
        let mut gradient = vec![0.0; values.len()];
        for (index, noise) in self.beliefs.noise.iter().enumerate().filter(|(_, noise)| noise.is_finite()) {
            let residual = self.linear.residual(index, &values);
            let pull = weight(residual / noise) * residual / (noise * noise);
            for (unknown, slope) in &self.linear.slopes[index] {
                gradient[*unknown] += pull * slope;
            }
        }
        for (index, (low, high)) in self.bounds.iter().enumerate() {
            let of_prior = (values[index] - self.beliefs.centre[index]) / self.beliefs.spread[index].powi(2);
            let stretch = (high - low) / 2.0 * arguments[index].cos();
            let moved = if self.beliefs.free[index] { 1.0 } else { 0.0 };
            gradient[index] = moved * (gradient[index] + of_prior) * stretch;
        }
        Ok(gradient)
    }
}

/// The most likely constants not farther than `reach` from where the responses were taken.
pub(crate) fn solve(linear: &Linear, unknowns: &[Unknown], beliefs: &Beliefs, reach: f64) -> Vec<f64> {
    let near = |(unknown, at): (&Unknown, &f64)| (unknown.bounds.0.max(at - reach), unknown.bounds.1.min(at + reach));
    let bounds: Vec<(f64, f64)> = unknowns.iter().zip(&linear.at).map(near).collect();
    let surrogate = Surrogate { linear, beliefs, bounds };
    let start = surrogate.arguments(&linear.at);
    let keep = |index: usize, value: f64| if beliefs.free[index] { value } else { linear.at[index] };
    let solver = LBFGS::new(MoreThuenteLineSearch::new(), MEMORY);
    let run = Executor::new(surrogate.clone(), solver)
        .configure(|state| state.param(start.clone()).max_iters(ITERATIONS))
        .run();
    // A line search that finds no better point ends the search where it is.
    let found = run.ok().and_then(|run| run.state().get_best_param().cloned()).unwrap_or(start);
    surrogate.values(&found).into_iter().enumerate().map(|(index, value)| keep(index, value)).collect()
}
