//! Quantities that may be further off one way than the other.

use statrs::distribution::{ContinuousCDF, Normal};

/// A factor with the median one that is lognormal on either side of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SplitLognormal {
    /// Standard deviation of its logarithm where it is less than one.
    pub below: f64,
    /// Standard deviation of its logarithm where it is more.
    pub above: f64,
}

impl SplitLognormal {
    /// Returns the logarithm of the factor that lies as many standard deviations off as a normal number.
    pub fn logarithm(self, deviations: f64) -> f64 {
        deviations * if deviations < 0.0 { self.below } else { self.above }
    }

    /// Returns the probability of a factor whose logarithm is at most this.
    pub fn probability(self, logarithm: f64) -> f64 {
        let spread = if logarithm < 0.0 { self.below } else { self.above };
        if spread > 0.0 {
            return Normal::standard().cdf(logarithm / spread);
        }
        // Nothing lies on this side: all of the half is at one.
        if logarithm < 0.0 { 0.0 } else { 1.0 }
    }
}
