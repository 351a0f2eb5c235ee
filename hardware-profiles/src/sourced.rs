//! A number and where it comes from.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A value with its source. `value` carries its unit in the text; `source` names a document, a measurement, or the data
/// that the value was fitted on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    pub value: T,
    /// The document, measurement or fit that it comes from.
    pub source: String,
    /// The fit of the value, if it was fitted and the fit is known in figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fitted: Option<Box<Fitted>>,
}

/// A fit: the measurements that a value was fitted on, and its standard error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// The kind of measurements.
    pub on: String,
    /// Number of measurements.
    pub rows: u32,
    /// The date of the fit, `2026-11-21`.
    #[serde(deserialize_with = "crate::date::read")]
    pub date: String,
    /// Standard error of the value, as a fraction of it.
    pub deviation: f64,
}

impl<T> Sourced<T> {
    /// Pairs a value with its source.
    pub fn new(value: T, source: impl Into<String>) -> Self {
        Self { value, source: source.into(), fitted: None }
    }
}

impl fmt::Display for Fitted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { on, rows, date, deviation } = self;
        write!(formatter, "± {:.0} %, {rows} rows: {on}, {date}", deviation * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_value_was_fitted_is_read_written_and_told() {
        let text = "value = 0.8\nsource = \"fitted\"\nfitted = { on = \"step times\", rows = 43, date = \"2026-11-21\", deviation = 0.05 }";
        let read: Sourced<f64> = toml::from_str(text).expect("well formed");
        let fitted = read.fitted.clone().expect("it says how");
        assert_eq!(fitted.to_string(), "± 5 %, 43 rows: step times, 2026-11-21");
        let again: Sourced<f64> = toml::from_str(&toml::to_string(&read).expect("writable")).expect("well formed");
        assert_eq!(again, read);
        let plain: Sourced<f64> = toml::from_str("value = 1.0\nsource = \"counted\"").expect("well formed");
        assert_eq!(plain, Sourced::new(1.0, "counted"));
    }
}
