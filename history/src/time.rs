//! Points in time as a history keeps them: whole seconds, UTC.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A second since 1970, UTC, until the end of the year 9999. Printed as RFC 3339 has it, `2026-11-22T10:30:00Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct UtcTime(Timestamp);

/// The error of a text that is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is neither a date as 2026-11-22 nor a time as 2026-11-22T10:30:00Z")]
pub struct TimeError {
    pub text: String,
}

impl UtcTime {
    /// Creates the time `seconds` after the start of 1970; later times than the last of the year 9999 become the last.
    pub fn of_unix_seconds(seconds: u64) -> Self {
        let last = Timestamp::MAX.as_second();
        let second = i64::try_from(seconds).unwrap_or(last).min(last);
        Self(Timestamp::from_second(second).expect("the second is within the range"))
    }

    /// Returns the seconds since the start of 1970.
    pub fn unix_seconds(self) -> u64 {
        self.0.as_second().unsigned_abs()
    }

    /// Returns the time `seconds` before; at the earliest the start of 1970.
    #[must_use]
    pub fn before(self, seconds: u64) -> Self {
        Self::of_unix_seconds(self.unix_seconds().saturating_sub(seconds))
    }

    /// Returns the date: `2026-11-22`.
    pub fn date(self) -> String {
        self.0.strftime("%F").to_string()
    }

    /// Returns the time of day: `10:30:00`.
    pub fn time_of_day(self) -> String {
        self.0.strftime("%T").to_string()
    }
}

impl fmt::Display for UtcTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
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

    /// Parses RFC 3339, and leaves out what follows a date: `2026-11-22` is its first second, and a time without an offset
    /// is UTC.
    fn from_str(text: &str) -> Result<Self, TimeError> {
        let written = text.parse::<Timestamp>().or_else(|_| Offset::UTC.to_timestamp(text.parse::<DateTime>()?));
        let written = written.ok().filter(|time| *time >= Timestamp::UNIX_EPOCH && time.subsec_nanosecond() == 0);
        written.map(Self).ok_or_else(|| TimeError { text: text.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_before_the_year_10000_have_a_text() {
        assert_eq!(UtcTime::default().to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(UtcTime::of_unix_seconds(u64::MAX).date(), "9999-12-30");
        let time = UtcTime::of_unix_seconds(1_790_000_000);
        assert_eq!((time.date().as_str(), time.time_of_day().as_str()), ("2026-09-21", "14:13:20"));
        assert_eq!(time.before(u64::MAX), UtcTime::default());
    }

    #[test]
    fn dates_and_times_are_read() {
        for (text, meant) in [
            ("2024-02-29", "2024-02-29T00:00:00Z"),
            ("2026-11-22 10:30", "2026-11-22T10:30:00Z"),
            ("2026-11-22T10:30:00", "2026-11-22T10:30:00Z"),
            ("2026-11-22T10:30:00+01:00", "2026-11-22T09:30:00Z"),
        ] {
            assert_eq!(text.parse::<UtcTime>().expect(text).to_string(), meant);
        }
        let wrong = [
            "",
            "yesterday",
            "2026",
            "2026-11",
            "2026-02-29",
            "2026-13-01",
            "1969-12-31",
            "2026-11-22T24:00",
            "26-11-22",
        ];
        for wrong in wrong {
            assert!(wrong.parse::<UtcTime>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_time_is_read_as_it_is_printed(seconds in 0..253_402_200_000_u64) {
            let time = UtcTime::of_unix_seconds(seconds);
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }
    }
}
