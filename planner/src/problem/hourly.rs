//! What the machines of a plan cost for as long as they are held.

use trainyard_hardware_profiles::{booked, booked_instances};
use trainyard_plan::Pricing;
use trainyard_units::{Seconds, UsdPerHour};

/// What an hour of all machines of a plan costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hourly {
    instances: f64,
    /// Of one machine, and on average where they differ.
    each: UsdPerHour,
    /// Machines of the capacity block that has them, if they are booked so.
    booked: Option<f64>,
}

impl Hourly {
    pub(crate) fn new(instances: u32, each: UsdPerHour, pricing: Pricing) -> Self {
        let booked = (pricing == Pricing::CapacityBlock).then(|| f64::from(booked_instances(instances)));
        Self { instances: f64::from(instances), each, booked }
    }

    /// Returns the cost of all machines for a time, in USD.
    pub(crate) fn of_all(self, time: Seconds) -> f64 {
        self.instances * (self.each * time).0
    }

    /// Returns the cost of all machines but one.
    pub(crate) fn of_others(self, time: Seconds) -> f64 {
        (self.each * time).0 * (self.instances - 1.0)
    }

    /// Returns what a training that takes `elapsed` and uses machines for `used` USD pays for without using it.
    pub(crate) fn unused(self, elapsed: Seconds, used: f64) -> f64 {
        self.booked.map_or(0.0, |instances| instances * (self.each * booked(elapsed)).0 - used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_paid_for_by_the_hour() {
        let hourly = Hourly::new(3, UsdPerHour(2.0), Pricing::OnDemand);
        assert_eq!((hourly.of_all(Seconds(5400.0)), hourly.of_others(Seconds(5400.0))), (9.0, 6.0));
        assert_eq!(hourly.unused(Seconds(5400.0), 9.0).to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn a_block_is_paid_for_whole() {
        let hourly = Hourly::new(3, UsdPerHour(2.0), Pricing::CapacityBlock);
        assert_eq!(hourly.unused(Seconds(5400.0), 9.0).to_bits(), (4.0_f64 * 2.0 * 24.0 - 9.0).to_bits());
    }
}
