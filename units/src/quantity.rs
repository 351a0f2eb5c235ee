//! The newtypes and their arithmetic.

use std::cmp::Ordering;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $name(pub $inner);

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                items.fold(Self::default(), Add::add)
            }
        }
    };
}

quantity! {
    /// An amount of memory or of data. Sums and multiples stay at the most that can be counted: what a description asks
    /// for may be more than that, and then it fits nowhere.
    ///
    /// ```compile_fail
    /// # use trainyard_units::{Bytes, Flops};
    /// let nonsense = Bytes(1) + Flops(1.0);
    /// ```
    Bytes(u64)
}
quantity! {
    /// Floating-point operations: work, not a rate. One multiply-add counts as two.
    Flops(f64)
}
quantity! {
    /// A duration as a cost function computes it; it becomes simulated time in
    /// [`Span::from_seconds`](crate::Span::from_seconds).
    ///
    /// ```compile_fail
    /// # use trainyard_units::Seconds;
    /// let nonsense = Seconds(1.0) * Seconds(1.0);
    /// ```
    Seconds(f64)
}
quantity! {
    /// A data rate. Decimal prefixes: 1 GB/s is 10⁹ bytes a second.
    BytesPerSecond(f64)
}
quantity! {
    /// An arithmetic rate.
    ///
    /// ```compile_fail
    /// # use trainyard_units::{Bytes, FlopsPerSecond};
    /// let nonsense = Bytes(1) / FlopsPerSecond(1.0);
    /// ```
    FlopsPerSecond(f64)
}
quantity! {
    /// Money, in United States dollars.
    Usd(f64)
}
quantity! {
    /// A rental price.
    UsdPerHour(f64)
}

macro_rules! counted_as_float {
    ($($name:ident),+) => {
        $(impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                self.0.partial_cmp(&other.0)
            }
        }
        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl Mul<f64> for $name {
            type Output = Self;
            fn mul(self, count: f64) -> Self {
                Self(self.0 * count)
            }
        })+
    };
}

counted_as_float!(Flops, Seconds, BytesPerSecond, FlopsPerSecond, Usd, UsdPerHour);

impl Eq for Bytes {}
impl PartialOrd for Bytes {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Bytes {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

impl Bytes {
    /// The number of bytes as a float, for formulas.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// What is left of `self` after `other`, or nothing.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Seconds {
    /// No time.
    pub const ZERO: Self = Self(0.0);

    /// The longer of two durations.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }
}

impl Sub for Seconds {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Div<BytesPerSecond> for Bytes {
    type Output = Seconds;
    fn div(self, rate: BytesPerSecond) -> Seconds {
        Seconds(self.as_f64() / rate.0)
    }
}

impl Div<FlopsPerSecond> for Flops {
    type Output = Seconds;
    fn div(self, rate: FlopsPerSecond) -> Seconds {
        Seconds(self.0 / rate.0)
    }
}

impl Div<Seconds> for Flops {
    type Output = FlopsPerSecond;
    fn div(self, time: Seconds) -> FlopsPerSecond {
        FlopsPerSecond(self.0 / time.0)
    }
}

impl Mul<Seconds> for UsdPerHour {
    type Output = Usd;
    fn mul(self, time: Seconds) -> Usd {
        Usd(self.0 * time.0 / 3600.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "the operands are exact powers of two")]
    fn dividing_work_by_a_rate_gives_seconds() {
        assert_eq!((Bytes(1 << 30) / BytesPerSecond(f64::from(1 << 20))).0, 1024.0);
        assert_eq!((Flops(8.0) / FlopsPerSecond(2.0)).0, 4.0);
        assert_eq!((UsdPerHour(3.0) * Seconds(7200.0)).0, 6.0);
    }

    #[test]
    fn amounts_beyond_counting_stay_at_the_most_that_can_be_counted() {
        let half = Bytes(1 << 63);
        assert_eq!(half + Bytes(1), Bytes((1 << 63) + 1));
        assert_eq!([half + half, half * 2, [half, half, half].into_iter().sum()], [Bytes(u64::MAX); 3]);
    }
}
