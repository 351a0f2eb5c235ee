//! Random numbers of one course.

use rand::distr::{Distribution, Open01};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use statrs::distribution::{ContinuousCDF, Normal};

/// The random numbers of one course of a campaign: they follow from the seed and the number of the course alone.
pub(super) struct Random {
    generator: Pcg64,
    normal: Normal,
}

impl Random {
    pub(super) fn new(seed: u64, course: u64) -> Self {
        let first = Pcg64::seed_from_u64(seed).next_u64();
        Self { generator: Pcg64::seed_from_u64(first.wrapping_add(course)), normal: Normal::standard() }
    }

    /// Evenly between zero and one, neither of which it is.
    pub(super) fn uniform(&mut self) -> f64 {
        Open01.sample(&mut self.generator)
    }

    pub(super) fn normal(&mut self) -> f64 {
        let share = self.uniform();
        self.normal.inverse_cdf(share)
    }

    /// Lognormal with this median and this standard deviation of the logarithm.
    pub(super) fn around(&mut self, median: f64, spread: f64) -> f64 {
        median * (spread * self.normal()).exp()
    }

    /// Lognormal with mean one and this standard deviation.
    pub(super) fn about_one(&mut self, deviation: f64) -> f64 {
        let variance = (deviation * deviation).ln_1p();
        self.around((-0.5 * variance).exp(), variance.sqrt())
    }

    /// The time to the next event of a Poisson process; infinite if there is none.
    pub(super) fn until(&mut self, rate: f64) -> f64 {
        let share = self.uniform();
        if rate > 0.0 { -share.ln() / rate } else { f64::INFINITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_their_means() {
        let mut random = Random::new(7, 0);
        let mean = |draw: &mut dyn FnMut() -> f64| (0..20_000).map(|_| draw()).sum::<f64>() / 20_000.0;
        assert!((mean(&mut || random.about_one(0.3)) - 1.0).abs() < 0.01);
        assert!((mean(&mut || random.until(0.1)) - 10.0).abs() < 0.25);
        assert!((mean(&mut || random.around(5.0, 0.2).ln()) - 5f64.ln()).abs() < 0.01);
        assert!(random.until(0.0).is_infinite());
    }

    #[test]
    fn courses_and_seeds_differ() {
        let first = |seed, course| Random::new(seed, course).uniform().to_bits();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(1, 3));
        assert_ne!(first(1, 2), first(2, 2));
        assert_ne!(first(1, 2), first(2, 1));
    }
}
