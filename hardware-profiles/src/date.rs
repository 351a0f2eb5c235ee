//! Dates as files write them.

use serde::de::{Deserialize, Deserializer, Error};

/// What a date may be.
pub(crate) const DATES: &str = "a day such as 2026-07-20, or a month such as 2026-07";

/// Returns `true` for days and months of the calendar: `2026-07-20`, `2026-07`.
pub(crate) fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |part: &str, digits: usize| -> Option<u32> {
        let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { part.parse().ok().filter(|number| *number > 0) } else { None }
    };
    let month = |year: &str, month: &str| Some((number(year, 4)?, number(month, 2).filter(|month| *month <= 12)?));
    match parts.as_slice() {
        [year, of_year] => month(year, of_year).is_some(),
        [year, of_year, day] => {
            let last = month(year, of_year).map(|(year, month)| days(year, month));
            last.zip(number(day, 2)).is_some_and(|(last, day)| day <= last)
        }
        _ => false,
    }
}

/// Returns the number of days of a month of the Gregorian calendar.
fn days(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
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
    }
}
