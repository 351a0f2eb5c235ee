//! Points in time as a history keeps them: whole seconds, UTC.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

const DAY: u64 = 86_400;
/// The first second of the year 10000, which has no text form.
const END: u64 = 253_402_300_800;

/// A second since 1970, UTC, until the end of the year 9999. Printed as RFC 3339 has it, `2026-11-22T10:30:00Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct UtcTime(u64);

/// The error of a text that is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is neither a date as 2026-11-22 nor a time as 2026-11-22T10:30:00Z, which are UTC")]
pub struct TimeError {
    /// The text.
    pub text: String,
}

impl UtcTime {
    /// Creates the time `seconds` after the start of 1970; times after the year 9999 become its last second.
    pub fn of_unix_seconds(seconds: u64) -> Self {
        Self(seconds.min(END - 1))
    }

    /// Returns the seconds since the start of 1970.
    pub fn unix_seconds(self) -> u64 {
        self.0
    }

    /// Returns the time `seconds` before; at the earliest the start of 1970.
    #[must_use]
    pub fn before(self, seconds: u64) -> Self {
        Self(self.0.saturating_sub(seconds))
    }

    /// Returns the date: `2026-11-22`.
    ///
    /// # Source
    ///
    /// Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`, for days that are not negative.
    pub fn date(self) -> String {
        let shifted = self.0 / DAY + 719_468;
        let era = shifted / 146_097;
        let day_of_era = shifted % 146_097;
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// Returns the time of day: `10:30:00`.
    pub fn time_of_day(self) -> String {
        let second = self.0 % DAY;
        format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
    }
}

impl fmt::Display for UtcTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}T{}Z", self.date(), self.time_of_day())
    }
}

impl From<UtcTime> for String {
    fn from(time: UtcTime) -> Self {
        time.to_string()
    }
}

impl TryFrom<String> for UtcTime {
    type Error = TimeError;

    fn try_from(text: String) -> Result<Self, TimeError> {
        text.parse()
    }
}

impl FromStr for UtcTime {
    type Err = TimeError;

    /// Parses `2026-11-22`, which is its first second, `2026-11-22T10:30` and `2026-11-22T10:30:00`, with or without
    /// `Z`.
    fn from_str(text: &str) -> Result<Self, TimeError> {
        seconds_of(text).map(Self).ok_or_else(|| TimeError { text: text.into() })
    }
}

fn seconds_of(text: &str) -> Option<u64> {
    let plain = text.strip_suffix('Z').unwrap_or(text);
    let (date, clock) = plain.split_once(['T', ' ']).map_or((plain, None), |(date, clock)| (date, Some(clock)));
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = match clock {
        None => [0, 0, 0],
        Some(clock) if clock.len() == 5 => {
            let [hour, minute] = numbers(clock, ':', [2, 2])?;
            [hour, minute, 0]
        }
        Some(clock) => numbers(clock, ':', [2, 2, 2])?,
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let valid = year >= 1970 && (1..=12).contains(&month) && (1..=days).contains(&day);
    (valid && hour < 24 && minute < 60 && second < 60)
        .then(|| days_since_1970(year, month, day) * DAY + hour * 3600 + minute * 60 + second)
}

/// Parses numbers with these many digits, separated by one letter.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[u64; N]> {
    let mut values = [0; N];
    let mut parts = text.split(between);
    for (value, digits) in values.iter_mut().zip(digits) {
        let part = parts.next().filter(|part| part.len() == digits && part.bytes().all(|b| b.is_ascii_digit()))?;
        *value = part.parse().ok()?;
    }
    parts.next().is_none().then_some(values)
}

/// # Source
///
/// Hinnant, "chrono-Compatible Low-Level Date Algorithms", `days_from_civil`, for years from 1970.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let year_of_era = year % 400;
    year / 400 * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let date = |days: u64| UtcTime::of_unix_seconds(days * DAY).date();
        assert_eq!([date(0), date(11_016), date(20_778)], ["1970-01-01", "2000-02-29", "2026-11-21"]);
        assert_eq!(UtcTime::of_unix_seconds(u64::MAX).to_string(), "9999-12-31T23:59:59Z");
    }

    #[test]
    fn what_no_calendar_has_is_refused() {
        for wrong in [
            "",
            "yesterday",
            "2026",
            "2026-11",
            "2026-02-29",
            "2026-13-01",
            "2026-00-10",
            "2026-11-31",
            "1969-12-31",
            "2026-11-22T24:00",
            "2026-11-22T10:60:00Z",
            "2026-11-22T10",
            "26-11-22",
            "2026-11-22-01",
            "+026-11-22",
            "2026-11-22T10:30:00+01:00",
        ] {
            assert!(wrong.parse::<UtcTime>().is_err(), "{wrong}");
        }
        assert_eq!("2024-02-29".parse::<UtcTime>().expect("a leap year").to_string(), "2024-02-29T00:00:00Z");
        assert_eq!("2026-11-22 10:30".parse::<UtcTime>().expect("a time").time_of_day(), "10:30:00");
    }

    proptest! {
        #[test]
        fn a_time_is_read_as_it_is_printed(seconds in 0..END) {
            let time = UtcTime::of_unix_seconds(seconds);
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }
    }
}
