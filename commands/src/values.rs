//! How the values of flags are read, and what is said of those that are not what they must be.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use trainyard_units::Bytes;

/// A text that is not what its flag allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    text: String,
    pub(crate) allowed: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.text, self.allowed)
    }
}

impl std::error::Error for Refused {}

/// Refuses a text in favour of what is allowed: "a number from 0 to 0.5".
pub(crate) fn refused(text: &str, allowed: impl Into<String>) -> Refused {
    Refused { text: text.into(), allowed: allowed.into() }
}

/// A whole number within a range: `8`, `2k`, `100_000`.
pub(crate) fn whole<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, Refused> + Clone
where
    T: Copy + Ord + TryFrom<u64> + Into<u64>,
{
    move |text| {
        let read = trainyard_units::count(text).ok().and_then(|count| T::try_from(count).ok());
        read.filter(|count| range.contains(count)).ok_or_else(|| refused(text, within(&range)))
    }
}

/// Says a range in words, without its end where that is the largest number of the type.
fn within<T: Copy + Into<u64>>(range: &RangeInclusive<T>) -> String {
    let (least, most): (u64, u64) = ((*range.start()).into(), (*range.end()).into());
    if most >= u64::from(u32::MAX) {
        format!("a whole number, at least {least}")
    } else {
        format!("a whole number from {least} to {most}")
    }
}

/// A number, `10B`; ranges are checked where their meaning is known.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    trainyard_units::number(text).map_err(|error| error.to_string())
}

/// A number from 0 to 0.5.
pub(crate) fn fraction(text: &str) -> Result<f64, Refused> {
    let read = text.parse::<f64>().ok().filter(|value| (0.0..=0.5).contains(value));
    read.ok_or_else(|| refused(text, "a number from 0 to 0.5"))
}

/// An amount of money, with or without its currency: `5000`, `$5k`, `50 USD`.
pub(crate) fn money(text: &str) -> Result<f64, Refused> {
    let amount = text.trim();
    let amount = amount.strip_prefix('$').or_else(|| amount.strip_suffix("USD")).unwrap_or(amount);
    number(amount).map_err(|_| refused(text, "an amount of money, for example 5000, $5k or 50 USD"))
}

/// A whole number, `2k`; ranges are checked where their meaning is known.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    trainyard_units::count(text).map_err(|error| error.to_string())
}

/// The length of a sequence in tokens, `8k` of 1,024 each.
pub(crate) fn sequence_length(text: &str) -> Result<u64, String> {
    trainyard_units::sequence_length(text).map_err(|error| error.to_string())
}

/// Bytes: a number, or a number with its unit.
pub(crate) fn size(text: &str) -> Result<f64, String> {
    if let Ok(bytes) = text.parse() {
        return Ok(bytes);
    }
    text.parse::<Bytes>().map(Bytes::as_f64).map_err(|error| error.to_string())
}

/// An address of this machine to listen on.
pub(crate) fn address(text: &str) -> Result<IpAddr, Refused> {
    text.parse().map_err(|_| refused(text, "an IP address, such as 127.0.0.1 for this machine or 0.0.0.0 for all"))
}

/// One of some values, by its name.
pub(crate) fn one_of<T>(all: &'static [T], name: fn(T) -> &'static str) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(all.iter().map(|value| name(*value))).map(move |written| {
        let named = all.iter().find(|value| name(**value).eq_ignore_ascii_case(&written));
        *named.expect("only names of the list pass the parser above")
    })
}

/// One of some words.
pub(crate) fn word<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> PossibleValuesParser {
    PossibleValuesParser::new(all.iter().map(|value| name(*value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_read_as_people_write_it_within_its_range() {
        assert_eq!(whole::<u16>(1..=1024)("1_024"), Ok(1024));
        assert_eq!(whole::<u64>(1..=1_000_000)("1M"), Ok(1_000_000));
        for wrong in ["0", "1025", "-1", "1.5", "70000", "x", ""] {
            let refused = whole::<u16>(1..=1024)(wrong).expect_err(wrong);
            assert_eq!(refused.to_string(), format!("`{wrong}` is not a whole number from 1 to 1024"));
        }
        assert_eq!(whole::<u32>(1..=u32::MAX)("x").expect_err("a letter").allowed, "a whole number, at least 1");
    }

    #[test]
    fn money_has_a_currency_or_none() {
        for same in ["5000", "$5k", "5_000 USD", " 5e3 "] {
            assert_eq!(money(same), Ok(5000.0), "{same}");
        }
        assert!(money("5 EUR").is_err());
    }
}
