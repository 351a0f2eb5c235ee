//! The slowest of several machines.

use statrs::distribution::{Continuous, ContinuousCDF, Normal};

/// Mean and standard deviation of the largest of `machines` independent lognormal numbers with mean one, `spread` being
/// the standard deviation of their logarithm.
pub(super) fn slowest(machines: u32, spread: f64) -> (f64, f64) {
    if spread <= 0.0 {
        return (1.0, 0.0);
    }
    let (first, second) = (moment(machines, spread, 1.0), moment(machines, spread, 2.0));
    (first, (second - first * first).max(0.0).sqrt())
}

/// The k-th moment: ∫ exp(k (σz − σ²/2)) N φ(z) Φ(z)^(N−1) dz by the trapezoidal rule, which converges as fast as any for
/// a function that vanishes at both ends.
fn moment(machines: u32, spread: f64, power: f64) -> f64 {
    const STEP: f64 = 0.02;
    let normal = Normal::standard();
    let end = 9.0 + power * spread;
    let points = (2.0 * end / STEP) as u32;
    let at = |index: u32| {
        let z = -end + STEP * f64::from(index);
        let density = f64::from(machines) * normal.pdf(z) * normal.cdf(z).powf(f64::from(machines - 1));
        (power * (spread * z - 0.5 * spread * spread)).exp() * density
    };
    STEP * (0..=points).map(at).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::random::Random;

    #[test]
    fn one_machine_is_its_own_slowest() {
        let (mean, deviation) = slowest(1, 0.3);
        assert!((mean - 1.0).abs() < 1e-9 && (deviation - (0.3f64.powi(2).exp() - 1.0).sqrt()).abs() < 1e-9);
        assert_eq!(slowest(8, 0.0), (1.0, 0.0));
    }

    #[test]
    fn the_slowest_of_many_is_as_slow_as_those_that_are_drawn() {
        let mut random = Random::new(3, 0);
        let mut draw = || (0..16).map(|_| random.around((-0.5f64 * 0.04).exp(), 0.2)).fold(0.0, f64::max);
        let drawn: Vec<f64> = (0..20_000).map(|_| draw()).collect();
        let mean = drawn.iter().sum::<f64>() / 20_000.0;
        let variance = drawn.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 20_000.0;
        let (expected, deviation) = slowest(16, 0.2);
        assert!((mean / expected - 1.0).abs() < 0.005, "{mean} {expected}");
        assert!((variance.sqrt() / deviation - 1.0).abs() < 0.03, "{} {deviation}", variance.sqrt());
    }

    #[test]
    fn the_largest_of_two_normals_lies_a_known_way_off() {
        // E max(Z₁, Z₂) = 1 / √π, to first order in the spread.
        let (mean, _) = slowest(2, 1e-4);
        assert!(((mean - 1.0) / 1e-4 - 1.0 / std::f64::consts::PI.sqrt()).abs() < 1e-3);
    }
}
