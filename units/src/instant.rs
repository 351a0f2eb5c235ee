//! Simulated time: whole nanoseconds since the start of a simulation.

use crate::Seconds;

const NANOSECONDS_PER_SECOND: f64 = 1e9;

/// A point of simulated time: whole nanoseconds since the start. 64 bits span 584 years, enough for any campaign.
///
/// Integers, because sums of floats depend on their order, and then events that should coincide do not.
/// Two instants cannot be added:
///
/// ```compile_fail
/// # use trainyard_units::Instant;
/// let nonsense = Instant::START + Instant::START;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

/// A length of simulated time: whole nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Instant {
    /// The start of every simulation.
    pub const START: Self = Self(0);

    /// Later than anything that happens.
    pub const NEVER: Self = Self(u64::MAX);

    /// The instant `duration` later.
    ///
    /// # Panics
    ///
    /// When `duration` is negative, not a number, or too long for the clock: a cost function is wrong.
    #[must_use]
    pub fn after(self, duration: Seconds) -> Self {
        self.after_span(Span::from_seconds(duration))
    }

    /// The instant `span` later.
    ///
    /// # Panics
    ///
    /// When the clock overflows, after 584 years.
    #[must_use]
    pub fn after_span(self, span: Span) -> Self {
        Self(self.0.checked_add(span.0).expect("simulated time stays below 584 years"))
    }

    /// The time since `earlier`.
    ///
    /// # Panics
    ///
    /// When `earlier` is later than `self`: time runs forward.
    #[must_use]
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.checked_sub(earlier.0).expect("time runs forward"))
    }

    /// Whole nanoseconds since the start.
    pub fn nanoseconds(self) -> u64 {
        self.0
    }

    /// The instant at this many nanoseconds since the start.
    pub fn from_nanoseconds(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Seconds since the start.
    pub fn seconds(self) -> Seconds {
        Span(self.0).seconds()
    }
}

impl Span {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// This many nanoseconds.
    pub fn from_nanoseconds(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Rounds to the nearest nanosecond. This is the one place where a cost becomes simulated time.
    ///
    /// # Panics
    ///
    /// When `duration` is negative, not a number, or too long for the clock: a cost function is wrong.
    pub fn from_seconds(duration: Seconds) -> Self {
        let nanoseconds = (duration.0 * NANOSECONDS_PER_SECOND).round();
        assert!(
            (0.0..u64::MAX as f64).contains(&nanoseconds),
            "a duration must be between 0 s and 584 years, got {} s",
            duration.0
        );
        Self(nanoseconds as u64)
    }

    /// The length in seconds.
    pub fn seconds(self) -> Seconds {
        Seconds(self.0 as f64 / NANOSECONDS_PER_SECOND)
    }

    /// Whole nanoseconds.
    pub fn nanoseconds(self) -> u64 {
        self.0
    }
}

impl std::ops::Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl std::ops::Mul<u64> for Span {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0 * times)
    }
}

impl std::iter::Sum for Span {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::ZERO, std::ops::Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sums_are_equal_in_any_order() {
        let (a, b) = (Seconds(0.1), Seconds(0.3));
        assert_eq!(Instant::START.after(a).after(b), Instant::START.after(b).after(a));
    }

    #[test]
    #[should_panic(expected = "between 0 s and 584 years")]
    fn a_cost_that_is_not_a_number_is_a_bug() {
        let _ = Instant::START.after(Seconds(f64::NAN));
    }
}
