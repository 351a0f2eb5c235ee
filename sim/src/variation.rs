//! Devices that are not all equally fast.

use rand::SeedableRng;
use rand::distr::{Distribution, Uniform};
use rand_pcg::Pcg64;
use statrs::distribution::{ContinuousCDF, Normal};

/// Random differences between devices, the same for the same seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variation {
    /// Standard deviation of a device's time, as a fraction of the mean.
    pub spread: f64,
    /// The seed that decides which devices are slow.
    pub seed: u64,
}

impl Variation {
    /// Times of each of `devices` devices relative to the mean one: drawn from a normal distribution, and never
    /// less than a tenth of the mean.
    ///
    /// # Panics
    ///
    /// When the spread is negative or not a number: it is checked where it is read.
    pub(crate) fn factors(self, devices: u32) -> Vec<f64> {
        let normal = Normal::new(1.0, self.spread.max(f64::MIN_POSITIVE)).expect("a spread is not negative");
        let uniform = Uniform::new(0.0, 1.0).expect("zero is less than one");
        let mut random = Pcg64::seed_from_u64(self.seed);
        (0..devices).map(|_| normal.inverse_cdf(uniform.sample(&mut random)).clamp(0.1, 10.0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_have_the_spread_and_follow_the_seed() {
        let factors = |seed| Variation { spread: 0.05, seed }.factors(4000);
        let all = factors(1);
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let deviation = (all.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / all.len() as f64).sqrt();
        assert!((mean - 1.0).abs() < 0.005 && (deviation / 0.05 - 1.0).abs() < 0.05, "{mean} {deviation}");
        assert_eq!(all, factors(1));
        assert_ne!(all, factors(2));
    }
}
