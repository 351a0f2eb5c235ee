//! What the machines of a plan cost for as long as they are held.

use trainyard_units::{Seconds, UsdPerHour};

/// What an hour of all machines of a plan costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hourly {
    instances: f64,
    /// Of one machine, and on average where they differ.
    each: UsdPerHour,
}

impl Hourly {
    pub(crate) fn new(instances: u32, each: UsdPerHour) -> Self {
        Self { instances: f64::from(instances), each }
    }

    /// Returns the cost of all machines for a time, in USD.
    pub(crate) fn of_all(self, time: Seconds) -> f64 {
        self.instances * (self.each * time).0
    }

    /// Returns the cost of all machines but one.
    pub(crate) fn of_others(self, time: Seconds) -> f64 {
        (self.each * time).0 * (self.instances - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_paid_for_by_the_hour() {
        let hourly = Hourly::new(3, UsdPerHour(2.0));
        assert_eq!((hourly.of_all(Seconds(5400.0)), hourly.of_others(Seconds(5400.0))), (9.0, 6.0));
    }
}
