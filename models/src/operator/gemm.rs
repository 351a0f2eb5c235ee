//! Matrix products.

use trainyard_units::Flops;

/// A matrix product: `batch` times (m, k) · (k, n).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gemm {
    /// Independent products.
    pub batch: u64,
    /// Rows of the result.
    pub m: u64,
    /// Columns of the result.
    pub n: u64,
    /// Length of the sums.
    pub k: u64,
}

impl Gemm {
    /// Two operations per multiply-add.
    pub fn flops(self) -> Flops {
        Flops(2.0 * self.batch as f64 * self.m as f64 * self.n as f64 * self.k as f64)
    }

    /// Returns the elements read and written once: both operands and the result.
    pub fn elements(self) -> u64 {
        self.batch * (self.m * self.k + self.k * self.n + self.m * self.n)
    }
}
