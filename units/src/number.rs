//! Numbers without a unit, as people write them: `10B`, `10e9`, `1.5M`, `2k`, `100_000`.

use crate::Bytes;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

/// The suffixes with their powers of ten: thousands, millions, billions (also G, of SI), trillions.
const SUFFIXES: [(char, i32); 6] = [('k', 3), ('K', 3), ('M', 6), ('B', 9), ('G', 9), ('T', 12)];

/// How a number may be written.
const FORMS: &str = "digits, as in 100_000, 10e9, 2k, 1.5M, 10B or 1T";

/// Above 2⁵³ a float does not hold every whole number.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Why a text is not a number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseNumberError {
    /// It does not read as one.
    #[error("`{text}` is not a number; write {FORMS}")]
    NotANumber {
        /// What was read.
        text: String,
    },
    /// A number is followed by something else than a suffix.
    #[error(
        "`{suffix}` in `{text}` is not a suffix of a number; use k (thousand), M (million), B (billion) or T (trillion)"
    )]
    UnknownSuffix {
        /// What was read.
        text: String,
        /// What follows the digits.
        suffix: String,
    },
    /// It is no part of a whole.
    #[error("`{text}` is not a share; write a number, as in 0.08, or per cent, as in 8%")]
    NoShare {
        /// What was read.
        text: String,
    },
    /// Something is counted, and this is a part or less than nothing.
    #[error("`{text}` is not a whole number from 0 on; write {FORMS}")]
    NotWhole {
        /// What was read.
        text: String,
    },
    /// Its point may separate thousands.
    #[error("`{text}` can be read in two ways; write {whole}, or {whole}_000")]
    Ambiguous {
        /// What was read.
        text: String,
        /// What is before the point.
        whole: String,
    },
    /// It is more than can be counted.
    #[error("`{text}` is more than can be counted; at most {most}")]
    TooLarge {
        /// What was read.
        text: String,
        /// The largest count.
        most: u64,
    },
}

/// The number that a text writes: digits, perhaps with a fraction, an exponent, underscores between digits, and one of
/// the suffixes k, M, B and T. It is finite, and may be negative.
///
/// ```
/// assert_eq!(trainyard_units::number("1.5M"), Ok(1_500_000.0));
/// assert_eq!(trainyard_units::number("100_000"), trainyard_units::number("100k"));
/// assert!(trainyard_units::number("5.000").is_err());
/// ```
///
/// # Errors
///
/// When the text is anything else; see [`ParseNumberError`].
pub fn number(text: &str) -> Result<f64, ParseNumberError> {
    let trimmed = text.trim();
    // In half of Europe a point separates thousands.
    if let Some(whole) = trimmed.strip_suffix(".000")
        && matches!(whole.len(), 1..=3)
        && whole.bytes().all(|byte| byte.is_ascii_digit())
        && !whole.starts_with('0')
    {
        return Err(ParseNumberError::Ambiguous { text: text.into(), whole: whole.into() });
    }
    let refused = || ParseNumberError::NotANumber { text: text.into() };
    let digits_end = trimmed.rfind(|c: char| c.is_ascii_digit()).ok_or_else(refused)? + 1;
    // A dot may end the digits.
    let (digits, suffix) = match trimmed[digits_end..].strip_prefix('.') {
        Some(suffix) => (&trimmed[..=digits_end], suffix.trim()),
        None => (&trimmed[..digits_end], trimmed[digits_end..].trim()),
    };
    let digits = digits.replace('_', "");
    if !digits.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return Err(refused());
    }
    let power = match SUFFIXES.iter().find(|(name, _)| suffix.chars().eq([*name])) {
        _ if suffix.is_empty() => 0,
        Some((_, power)) => *power,
        None if digits.parse::<f64>().is_ok() => {
            return Err(ParseNumberError::UnknownSuffix { text: text.into(), suffix: suffix.into() });
        }
        None => return Err(refused()),
    };
    // The power goes into the exponent, so that 1.1M is exactly 1 100 000.
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((&digits, "0"));
    let exponent = exponent.parse::<i32>().ok().and_then(|exponent| exponent.checked_add(power)).ok_or_else(refused)?;
    let value: f64 = format!("{mantissa}e{exponent}").parse().map_err(|_| refused())?;
    if value.is_finite() { Ok(value) } else { Err(refused()) }
}

/// The whole number that a text writes, in any of the forms of [`number`].
///
/// ```
/// assert_eq!(trainyard_units::count("2k"), Ok(2000));
/// assert!(trainyard_units::count("1.5").is_err());
/// ```
///
/// # Errors
///
/// When the text is no number, or not a whole one that can be counted; see [`ParseNumberError`].
pub fn count(text: &str) -> Result<u64, ParseNumberError> {
    if let Ok(count) = text.trim().replace('_', "").parse() {
        return Ok(count);
    }
    whole(number(text)?, text)
}

/// The whole number that a text writes with this value, if there is one that can be counted.
fn whole(value: f64, text: &str) -> Result<u64, ParseNumberError> {
    if value < 0.0 || value.fract() != 0.0 {
        return Err(ParseNumberError::NotWhole { text: text.into() });
    }
    if value > EXACT_MAX {
        return Err(ParseNumberError::TooLarge { text: text.into(), most: EXACT_MAX as u64 });
    }
    Ok(value as u64)
}

/// The part of a whole that a text writes: `0.08`, or in per cent `8%`.
///
/// ```
/// assert_eq!(trainyard_units::share("8%"), Ok(0.08));
/// assert_eq!(trainyard_units::share("0.08"), Ok(0.08));
/// ```
///
/// # Errors
///
/// As [`number`]; ranges are checked where their meaning is known.
pub fn share(text: &str) -> Result<f64, ParseNumberError> {
    match text.trim().strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| percent / 100.0),
        None => number(text),
    }
    .map_err(|_| ParseNumberError::NoShare { text: text.into() })
}

/// The suffixes of a length of sequences with the tokens that they count.
const TOKENS: [(char, u64); 3] = [('k', 1 << 10), ('K', 1 << 10), ('M', 1 << 20)];

/// The length of a sequence in tokens that a text writes. `k` is 1,024 and `M` 1,048,576, as in the names of models and
/// of their contexts (a context of 128k has 131,072 tokens); all else is as [`count`] reads it.
///
/// ```
/// assert_eq!(trainyard_units::sequence_length("8k"), Ok(8192));
/// assert_eq!(trainyard_units::sequence_length("8000"), Ok(8000));
/// ```
///
/// # Errors
///
/// As [`count`].
pub fn sequence_length(text: &str) -> Result<u64, ParseNumberError> {
    let suffixed = TOKENS.iter().find_map(|(suffix, tokens)| Some((text.trim().strip_suffix(*suffix)?, *tokens)));
    let Some((digits, tokens)) = suffixed else { return count(text) };
    let refused = || ParseNumberError::NotANumber { text: text.into() };
    // A second suffix is none.
    if !digits.ends_with(|last: char| last.is_ascii_digit() || last == '.' || last.is_whitespace()) {
        return Err(refused());
    }
    let value = number(digits).map_err(|_| refused())? * tokens as f64;
    whole(value, text)
}

/// A type of number that a document may write as a number, or as a text in the forms of [`number`]: what [`written`]
/// reads.
pub trait Written: Sized {
    /// What a field of this type expects.
    const EXPECTED: &'static str;

    /// Reads a text.
    ///
    /// # Errors
    ///
    /// When it writes no such number.
    fn of_text(text: &str) -> Result<Self, String>;

    /// Takes a number with a fraction or an exponent.
    fn of_float(value: f64) -> Option<Self>;

    /// Takes a whole number.
    fn of_whole(value: i128) -> Option<Self>;

    /// The largest number, if there is one that is worth saying.
    const MOST: Option<u64> = None;

    /// Returns the error of a number above the largest, as it was written; nothing for others.
    #[doc(hidden)]
    fn too_large<E: Error>(value: f64, written: impl fmt::Display) -> Option<E> {
        let most = Self::MOST.filter(|most| value > *most as f64)?;
        Some(E::custom(ParseNumberError::TooLarge { text: written.to_string(), most }))
    }
}

impl Written for f64 {
    const EXPECTED: &'static str = "a number, or a text such as \"10B\"";

    fn of_text(text: &str) -> Result<Self, String> {
        number(text).map_err(|error| error.to_string())
    }

    fn of_float(value: f64) -> Option<Self> {
        value.is_finite().then_some(value)
    }

    fn of_whole(value: i128) -> Option<Self> {
        Some(value as Self)
    }
}

macro_rules! whole {
    ($($type:ty),+) => {
        $(impl Written for $type {
            const EXPECTED: &'static str = "a whole number, at least 0";
            const MOST: Option<u64> = Some(<$type>::MAX as u64);

            fn of_text(text: &str) -> Result<Self, String> {
                let count = count(text).map_err(|error| error.to_string())?;
                Self::try_from(count).map_err(|_| {
                    ParseNumberError::TooLarge { text: text.into(), most: u64::from(Self::MAX) }.to_string()
                })
            }

            fn of_float(value: f64) -> Option<Self> {
                let whole = value.fract() == 0.0 && (0.0..=EXACT_MAX).contains(&value);
                whole.then(|| Self::try_from(value as u64).ok()).flatten()
            }

            fn of_whole(value: i128) -> Option<Self> {
                Self::try_from(value).ok()
            }
        })+
    };
}

whole!(u32, u64);

impl Written for i32 {
    const EXPECTED: &'static str = "a whole number from -2147483648 to 2147483647";

    fn of_text(text: &str) -> Result<Self, String> {
        let read = text.trim().replace('_', "").parse();
        read.map_err(|_| format!("`{text}` is not a whole number, expected {}", Self::EXPECTED))
    }

    fn of_float(value: f64) -> Option<Self> {
        let range = f64::from(Self::MIN)..=f64::from(Self::MAX);
        (value.fract() == 0.0 && range.contains(&value)).then_some(value as Self)
    }

    fn of_whole(value: i128) -> Option<Self> {
        Self::try_from(value).ok()
    }
}

struct Either<T>(PhantomData<T>);

impl<T: Written> Visitor<'_> for Either<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::of_text(text).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        let refused = || {
            T::too_large(value as f64, value).unwrap_or_else(|| E::invalid_value(Unexpected::Unsigned(value), &self))
        };
        T::of_whole(value.into()).ok_or_else(refused)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        let refused =
            || T::too_large(value as f64, value).unwrap_or_else(|| E::invalid_value(Unexpected::Signed(value), &self));
        T::of_whole(value.into()).ok_or_else(refused)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        let refused =
            || T::too_large(value, value).unwrap_or_else(|| E::invalid_value(Unexpected::Float(value), &self));
        T::of_float(value).ok_or_else(refused)
    }
}

struct Number<T>(T);

impl<'de, T: Written> Deserialize<'de> for Number<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Either(PhantomData)).map(Number)
    }
}

/// Reads a field that is a number, or a text that writes one.
///
/// # Errors
///
/// When it is neither, or not in the range of the type.
pub fn written<'de, T: Written, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Number::deserialize(deserializer).map(|Number(value)| value)
}

/// The same for a field that may be left out.
///
/// # Errors
///
/// When it is neither, or not in the range of the type.
pub fn written_option<'de, T: Written, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::<Number<T>>::deserialize(deserializer).map(|value| value.map(|Number(value)| value))
}

/// The same for the length of a sequence, as [`sequence_length`] reads it.
///
/// # Errors
///
/// When it is neither, or not in the range of the type.
pub fn sequence_option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    struct Tokens(u64);

    impl Written for Tokens {
        const EXPECTED: &'static str = "a whole number of tokens, or a text such as \"8k\"";

        fn of_text(text: &str) -> Result<Self, String> {
            sequence_length(text).map(Self).map_err(|error| error.to_string())
        }

        fn of_float(value: f64) -> Option<Self> {
            u64::of_float(value).map(Self)
        }

        fn of_whole(value: i128) -> Option<Self> {
            u64::of_whole(value).map(Self)
        }
    }
    written_option(deserializer).map(|length: Option<Tokens>| length.map(|Tokens(tokens)| tokens))
}

/// A part of a whole, as [`share`] reads it.
struct Share(f64);

impl Written for Share {
    const EXPECTED: &'static str = "a share such as 0.1, or a text such as \"10%\"";

    fn of_text(text: &str) -> Result<Self, String> {
        share(text).map(Self).map_err(|error| error.to_string())
    }

    fn of_float(value: f64) -> Option<Self> {
        f64::of_float(value).map(Self)
    }

    fn of_whole(value: i128) -> Option<Self> {
        f64::of_whole(value).map(Self)
    }
}

/// The same for a part of a whole, as [`share`] reads it.
///
/// # Errors
///
/// When it is neither a number nor per cent.
pub fn written_share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    written(deserializer).map(|Share(share)| share)
}

/// The same for a part that may be left out.
///
/// # Errors
///
/// When it is neither a number nor per cent.
pub fn written_share_option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    written_option(deserializer).map(|share: Option<Share>| share.map(|Share(share)| share))
}

/// The same for a part that is kept as it was written: documents repeat it so.
///
/// # Errors
///
/// When it is neither a number nor a text.
pub fn share_text_option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    struct Text(String);

    impl Written for Text {
        const EXPECTED: &'static str = Share::EXPECTED;

        fn of_text(text: &str) -> Result<Self, String> {
            Ok(Self(text.into()))
        }

        fn of_float(value: f64) -> Option<Self> {
            Some(Self(value.to_string()))
        }

        fn of_whole(value: i128) -> Option<Self> {
            Some(Self(value.to_string()))
        }
    }
    written_option(deserializer).map(|share: Option<Text>| share.map(|Text(text)| text))
}

/// The same for a number of bytes, which may have a unit: `2 MB`, `110kB`.
///
/// # Errors
///
/// When it is neither a number nor bytes.
pub fn bytes_option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a number of bytes, or a text such as \"110 kB\"")]
    enum Either {
        Number(f64),
        Text(String),
    }
    let read = |either| match either {
        Either::Number(value) => Ok(value),
        Either::Text(text) => number(&text).or_else(|error: ParseNumberError| {
            let bytes: Result<Bytes, _> = text.parse();
            bytes.map(Bytes::as_f64).map_err(|_| format!("{error}, or bytes with a unit, as in 110 kB, 2 MB"))
        }),
    };
    Option::<Either>::deserialize(deserializer)?.map(read).transpose().map_err(D::Error::custom)
}

/// The same for a table of them.
///
/// # Errors
///
/// When one of them is neither, or not in the range of the type.
pub fn written_table<'de, T: Written, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<std::collections::BTreeMap<String, T>>, D::Error> {
    let table = Option::<std::collections::BTreeMap<String, Number<T>>>::deserialize(deserializer)?;
    Ok(table.map(|table| table.into_iter().map(|(key, Number(value))| (key, value)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::de::IntoDeserializer;
    use serde::de::value::Error as ValueError;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        for (text, value) in [
            ("10B", 1e10),
            ("10e9", 1e10),
            ("100e6", 1e8),
            ("1.5M", 1.5e6),
            ("1.1M", 1.1e6),
            ("2k", 2000.0),
            ("2K", 2000.0),
            ("100_000", 1e5),
            (" 3 T ", 3e12),
            ("7G", 7e9),
            ("1e3k", 1e6),
            ("-5", -5.0),
            (".5M", 5e5),
            ("2.", 2.0),
            ("2.k", 2000.0),
        ] {
            assert_eq!(number(text), Ok(value), "{text}");
        }
        for ambiguous in ["10.000", "5.000", " 999.000 "] {
            assert!(matches!(number(ambiguous), Err(ParseNumberError::Ambiguous { .. })), "{ambiguous}");
        }
        assert_eq!([number("0.000"), number("1.500"), number("1000.000")], [Ok(0.0), Ok(1.5), Ok(1000.0)]);
        assert_eq!(count("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(
            ["2k", "1.5M", "100e6", "1_024", "8.0"].map(count),
            [Ok(2000), Ok(1_500_000), Ok(100_000_000), Ok(1024), Ok(8)]
        );
    }

    #[test]
    fn thousands_of_tokens_in_a_sequence_are_binary() {
        let read = ["8k", "128K", "1M", "1.5k", " 2 k ", "8192", "8000", "1e3", "2_048", "1e1k"].map(sequence_length);
        let tokens = [8192, 131_072, 1 << 20, 1536, 2048, 8192, 8000, 1000, 2048, 10_240];
        assert_eq!(read, tokens.map(Ok));
        for wrong in ["k", "8kk", "8Mk", "8m", "0.3k", "-1k", "1e300k", "x"] {
            let told = sequence_length(wrong).expect_err(wrong).to_string();
            assert!(told.contains(&format!("`{wrong}`")), "{told}");
        }
    }

    #[test]
    fn what_is_no_number_says_what_one_is() {
        for text in [
            "",
            "B",
            "nan",
            "NaN",
            "inf",
            "-inf",
            "infinity",
            "1e400",
            "ten",
            "x2",
            "1..2",
            "1e99999999999",
            "k2",
            "--1",
        ] {
            let told = number(text).expect_err(text).to_string();
            assert!(told.contains(&format!("`{text}`")) && told.contains("10B"), "{told}");
        }
        for text in ["10m", "3 GB", "5 %", "2kk", "1,000x"] {
            let told = number(text).expect_err(text).to_string();
            assert!(told.contains(&format!("`{text}`")), "{told}");
        }
        assert!(number("10m").expect_err("milli").to_string().contains("`m` in `10m`"));
        for text in ["1.5", "-3", "0.0001k"] {
            assert!(matches!(count(text), Err(ParseNumberError::NotWhole { .. })), "{text}");
        }
        assert!(matches!(count("1e300"), Err(ParseNumberError::TooLarge { .. })));
    }

    #[test]
    fn a_part_of_a_whole_is_a_number_or_per_cent() {
        for (text, part) in [("5%", 0.05), ("0.05", 0.05), (" 10 % ", 0.1), ("0", 0.0), ("100%", 1.0)] {
            assert_eq!(share(text), Ok(part), "{text}");
        }
        for text in ["", "%", "5 %%", "a half", "nan"] {
            let told = share(text).expect_err(text).to_string();
            assert!(told.contains(&format!("`{text}`")) && told.contains("8%"), "{told}");
        }
        let text = |text: &'static str| written_share(IntoDeserializer::<ValueError>::into_deserializer(text));
        let number = |part: f64| written_share(IntoDeserializer::<ValueError>::into_deserializer(part));
        assert_eq!((text("5%"), number(0.05)), (Ok(0.05), Ok(0.05)));
        assert!(text("x").is_err() && number(f64::NAN).is_err());
    }

    #[test]
    fn documents_hold_numbers_or_texts() {
        let text = |text: &'static str| written::<u64, _>(IntoDeserializer::<ValueError>::into_deserializer(text));
        let float = |value: f64| written::<u32, _>(IntoDeserializer::<ValueError>::into_deserializer(value));
        assert_eq!((text("10B"), float(1e6)), (Ok(10_000_000_000), Ok(1_000_000)));
        assert!(text("1.5").is_err() && float(1.5).is_err() && float(-1.0).is_err() && float(1e12).is_err());
        assert!(float(f64::NAN).is_err());
        let told = float(1e10).expect_err("more than fit").to_string();
        assert_eq!(told, "`10000000000` is more than can be counted; at most 4294967295");
        let signed = |value: i64| written::<i32, _>(IntoDeserializer::<ValueError>::into_deserializer(value));
        assert_eq!(signed(-3), Ok(-3));
        assert!(signed(3_000_000_000).expect_err("too much").to_string().contains("from -2147483648 to 2147483647"));
        let tokens = written::<f64, _>(IntoDeserializer::<ValueError>::into_deserializer(7u64));
        assert_eq!(tokens, Ok(7.0));
    }

    proptest! {
        #[test]
        fn nothing_panics_and_what_is_read_is_finite(text in ".{0,12}") {
            if let Ok(value) = number(&text) {
                prop_assert!(value.is_finite());
            }
            let _ = count(&text);
        }

        #[test]
        fn every_number_reads_back(value in -1e15f64..1e15, whole in 0u64..1 << 53) {
            prop_assert_eq!(number(&value.to_string()), Ok(value));
            prop_assert_eq!(count(&whole.to_string()), Ok(whole));
            let thousands = whole % 1_000_000;
            prop_assert_eq!(count(&format!("{thousands}k")), Ok(thousands * 1000));
        }
    }
}
