//! Dates as files write them.

use jiff::civil::Date;
use serde::de::{Deserialize, Deserializer, Error};

/// What a date may be.
pub(crate) const DATES: &str = "a day such as 2026-07-20, or a month such as 2026-07";

/// Returns `true` for days and months of the calendar: `2026-07-20`, `2026-07`.
pub(crate) fn is_date(text: &str) -> bool {
    // A month is one that has a first day.
    let day = if text.len() == "2026-07".len() { format!("{text}-01") } else { text.to_owned() };
    // Read and written again, because ISO 8601 has other ways to write a day.
    day.parse::<Date>().is_ok_and(|date| date.year() > 0 && date.to_string() == day)
}

/// Reads a date of a document.
pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if is_date(&text) { Ok(text) } else { Err(D::Error::custom(format!("`{text}` is no date: write {DATES}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_months_of_the_calendar_are_dates_and_nothing_else_is() {
        for date in ["2026-07-20", "2026-07", "2024-02-29", "2000-02-29", "0001-01"] {
            assert!(is_date(date), "{date}");
        }
        for none in
            ["inf-07-20", "nan", "2026", "2026-13", "2026-00", "2026-02-29", "1900-02-29", "2026-04-31", "2026-7-2", ""]
        {
            assert!(!is_date(none), "{none}");
        }
        assert!(is_date("2026-07-20\n").eq(&false) && !is_date("２０２６-07"));
        assert!(!is_date("20260720") && !is_date("0000-01"));
    }
}
