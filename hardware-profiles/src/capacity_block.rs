//! Capacity Blocks for ML: machines that are booked for whole days and paid for in advance.
//!
//! # Source
//!
//! Amazon EC2 User Guide, "Capacity Blocks for ML" (as of 2026): blocks of 1, 2, 4, …, 64 instances; of 1 to 14 days, or of
//! whole weeks up to 182 days; instances are terminated from 30 minutes before the end.

use trainyard_units::{Seconds, counted};

const DAY: f64 = 86_400.0;
/// Longest block that need not be of whole weeks, in days.
const DAILY_UP_TO: f64 = 14.0;
const WEEK: f64 = 7.0;
/// Longest block, in days.
const LONGEST: f64 = 182.0;
/// Length of the longest block that can be booked.
pub const LONGEST_BLOCK: Seconds = Seconds(LONGEST * DAY);
/// Most instances of a block.
const MOST_INSTANCES: u32 = 64;
/// Time before the end of a block in which nothing runs any more.
const CLOSING: Seconds = Seconds(1_800.0);

/// Returns the length of the shortest block in which something runs for `time`; of several blocks, one after another, if one is
/// not enough.
pub fn booked(time: Seconds) -> Seconds {
    if !time.0.is_finite() {
        return time;
    }
    let usable = LONGEST * DAY - CLOSING.0;
    let full = (time.0 / usable).floor();
    let rest = time.0 - full * usable;
    let days = ((rest + CLOSING.0) / DAY).ceil();
    let days = if days > DAILY_UP_TO { WEEK * (days / WEEK).ceil() } else { days };
    let last = if rest > 0.0 { days } else { 0.0 };
    Seconds((full * LONGEST + last) * DAY)
}

/// Returns how long something can run in a block of this length.
pub fn usable_in_block(block: Seconds) -> Seconds {
    Seconds(block.0 - CLOSING.0)
}

/// Returns the instances of the smallest block that has so many; of several blocks at once, if one is not enough.
pub fn booked_instances(instances: u32) -> u32 {
    if instances > MOST_INSTANCES { instances.next_multiple_of(MOST_INSTANCES) } else { instances.next_power_of_two() }
}

/// Names what is booked: `the capacity block of 8 instances`, or several where one is not enough.
pub fn blocks_of(instances: u32) -> String {
    match booked_instances(instances) {
        booked @ ..=MOST_INSTANCES => format!("the capacity block of {}", counted(booked.into(), "instance")),
        booked => format!(
            "capacity blocks of {MOST_INSTANCES} instances, {} that must begin together,",
            booked / MOST_INSTANCES
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All lengths that are offered, in days.
    fn offered() -> impl Iterator<Item = f64> {
        (1..=14).chain((21..=182).step_by(7)).map(f64::from)
    }

    #[test]
    fn the_shortest_block_that_is_offered_and_long_enough_is_booked() {
        for minutes in (1..=182 * 1_440 - 30).step_by(7) {
            let time = f64::from(minutes) * 60.0;
            let shortest = offered().find(|days| days * DAY - 1_800.0 >= time).expect("there is a longer one");
            assert_eq!(booked(Seconds(time)), Seconds(shortest * DAY), "{minutes} min");
        }
        assert_eq!(booked(Seconds(0.0)), Seconds(0.0));
        assert_eq!(booked(usable_in_block(Seconds(3.0 * DAY))), Seconds(3.0 * DAY));
        assert_eq!(booked(Seconds(200.0 * DAY)), Seconds((182.0 + 21.0) * DAY));
        assert!(booked(Seconds(f64::INFINITY)).0.is_infinite());
    }

    #[test]
    fn blocks_have_powers_of_two() {
        assert_eq!([1, 3, 8, 33, 64, 65].map(booked_instances), [1, 4, 8, 64, 64, 128]);
        assert_eq!([1, 33].map(blocks_of), ["the capacity block of 1 instance", "the capacity block of 64 instances"]);
        assert_eq!(blocks_of(240), "capacity blocks of 64 instances, 4 that must begin together,");
    }
}
