//! Text forms: `<number> <unit>`, read and printed. A bare number is refused, because a unit that is guessed is wrong.

use crate::{Bytes, BytesPerSecond, Flops, FlopsPerSecond, Seconds, Usd, UsdPerHour};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ParseQuantityError {
    /// The text has no number at its start.
    #[error("`{text}` does not start with a number; write a number and a unit: {units}")]
    NoNumber {
        /// What was read.
        text: String,
        /// The accepted units.
        units: String,
    },
    /// The number stands alone.
    #[error("`{text}` has no unit; use one of {units}")]
    NoUnit {
        /// What was read.
        text: String,
        /// The accepted units.
        units: String,
    },
    /// The unit is not known for this quantity.
    #[error("`{unit}` in `{text}` is not a unit of {quantity}; use one of {units}")]
    UnknownUnit {
        /// What was read.
        text: String,
        /// The unit found.
        unit: String,
        /// What the field holds.
        quantity: &'static str,
        /// The accepted units.
        units: String,
    },
    /// A unit follows a smaller one, or the same again.
    #[error("in `{text}`, `{unit}` follows a smaller unit or the same; write the larger first, each once: 10 h 50 min")]
    LargerUnit {
        /// What was read from there on.
        text: String,
        /// The unit found.
        unit: String,
    },
    /// The number is negative, infinite, not a number, or too large for the quantity.
    #[error("`{text}` is out of range for {quantity}: it must be at least 0 and finite")]
    OutOfRange {
        /// What was read.
        text: String,
        /// What the field holds.
        quantity: &'static str,
    },
}

/// The units of one quantity: names with their factors; printing uses those marked as printable, largest first.
struct UnitTable {
    quantity: &'static str,
    units: &'static [(&'static str, f64)],
    /// Other spellings of units, which messages do not list.
    spellings: &'static [(&'static str, f64)],
    /// The unit of the stored numbers.
    base: &'static str,
    /// Units to print with, ascending.
    print: &'static [&'static str],
    /// `true` if people write several one after another: `10 h 50 min`.
    adds_up: bool,
}

impl UnitTable {
    fn names(&self) -> String {
        self.units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    fn factor(&self, unit: &str) -> Option<f64> {
        self.units.iter().chain(self.spellings).find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
    }

    fn parse(&self, text: &str) -> Result<f64, ParseQuantityError> {
        self.parse_below(text, f64::INFINITY)
    }

    /// The same in units below a factor: what follows a unit is in smaller ones.
    fn parse_below(&self, text: &str, limit: f64) -> Result<f64, ParseQuantityError> {
        let trimmed = text.trim();
        let (digits, unit) = split_number(trimmed);
        let number: f64 = digits
            .replace('_', "")
            .parse()
            .map_err(|_| ParseQuantityError::NoNumber { text: text.into(), units: self.names() })?;
        let (unit, rest) = if self.adds_up { split_sum(unit) } else { (unit, None) };
        if unit.is_empty() {
            return Err(ParseQuantityError::NoUnit { text: text.into(), units: self.names() });
        }
        let factor = self.factor(unit).ok_or_else(|| ParseQuantityError::UnknownUnit {
            text: text.into(),
            unit: unit.into(),
            quantity: self.quantity,
            units: self.names(),
        })?;
        if factor >= limit {
            return Err(ParseQuantityError::LargerUnit { text: text.into(), unit: unit.into() });
        }
        let own = number * factor;
        let value = own + rest.map_or(Ok(0.0), |rest| self.parse_below(rest, factor))?;
        if value.is_finite() && own >= 0.0 {
            Ok(value)
        } else {
            Err(ParseQuantityError::OutOfRange { text: text.into(), quantity: self.quantity })
        }
    }

    /// Prints in the largest unit that leaves a number of at least one, with all digits needed to read the value back.
    fn print(&self, value: f64, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut units =
            self.print.iter().map(|unit| (*unit, self.factor(unit).expect("printable units are in the table")));
        let largest = units.rfind(|(_, factor)| value >= *factor);
        // What does not read back to the same bits is printed in the base unit instead.
        let scaled = largest.and_then(|(unit, factor)| Some((shortest(value, factor)?, unit)));
        match scaled {
            Some((number, unit)) => write!(formatter, "{number} {unit}"),
            None => write!(formatter, "{value} {}", self.base),
        }
    }
}

/// The shortest number that is `value` when it is multiplied by `factor`: dividing alone leaves tails of nines and zeros.
fn shortest(value: f64, factor: f64) -> Option<f64> {
    let divided = value / factor;
    let rounded = |digits: usize| format!("{divided:.digits$e}").parse().unwrap_or(divided);
    let reads_back = |number: &f64| (number * factor).to_bits() == value.to_bits();
    (5..17).map(rounded).find(reads_back)
}

fn split_number(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let mut end = 0;
    while end < bytes.len() {
        let c = bytes[end];
        let exponent_sign = (c == b'-' || c == b'+') && end > 0 && matches!(bytes[end - 1], b'e' | b'E');
        let exponent = matches!(c, b'e' | b'E')
            && end > 0
            && bytes[end - 1].is_ascii_digit()
            && bytes.get(end + 1).is_some_and(|n| n.is_ascii_digit() || *n == b'-' || *n == b'+');
        let sign = end == 0 && (c == b'-' || c == b'+');
        if c.is_ascii_digit() || c == b'.' || c == b'_' || exponent || exponent_sign || sign {
            end += 1;
        } else {
            break;
        }
    }
    (&text[..end], text[end..].trim())
}

/// Splits a unit from the quantity behind it: `h 50 min` and `h50min` into `h` and `50 min`.
fn split_sum(unit: &str) -> (&str, Option<&str>) {
    let next = unit.find(|letter: char| letter.is_ascii_digit());
    next.map_or((unit, None), |next| (unit[..next].trim_end(), Some(&unit[next..])))
}

const BYTES: UnitTable = UnitTable {
    quantity: "an amount of data",
    units: &[
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("PB", 1e15),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("TiB", 1_099_511_627_776.0),
    ],
    spellings: &[("KB", 1e3), ("PiB", 1_125_899_906_842_624.0)],
    base: "B",
    print: &["B", "KiB", "MiB", "GiB", "TiB"],
    adds_up: false,
};
const BANDWIDTH: UnitTable = UnitTable {
    quantity: "a data rate",
    units: &[
        ("B/s", 1.0),
        ("kB/s", 1e3),
        ("MB/s", 1e6),
        ("GB/s", 1e9),
        ("TB/s", 1e12),
        ("Mbit/s", 1.25e5),
        ("Gbit/s", 1.25e8),
        ("MiB/s", 1_048_576.0),
        ("GiB/s", 1_073_741_824.0),
    ],
    spellings: &[
        ("KB/s", 1e3),
        ("KiB/s", 1024.0),
        ("TiB/s", 1_099_511_627_776.0),
        ("MBps", 1e6),
        ("GBps", 1e9),
        ("TBps", 1e12),
        ("kbit/s", 125.0),
        ("Tbit/s", 1.25e11),
        ("kb/s", 125.0),
        ("Mb/s", 1.25e5),
        ("Gb/s", 1.25e8),
        ("Tb/s", 1.25e11),
        ("kbps", 125.0),
        ("Mbps", 1.25e5),
        ("Gbps", 1.25e8),
        ("Tbps", 1.25e11),
        ("Kbps", 125.0),
    ],
    base: "B/s",
    print: &["B/s", "kB/s", "MB/s", "GB/s", "TB/s"],
    adds_up: false,
};
const FLOPS: UnitTable = UnitTable {
    quantity: "an amount of arithmetic",
    units: &[("FLOP", 1.0), ("MFLOP", 1e6), ("GFLOP", 1e9), ("TFLOP", 1e12), ("PFLOP", 1e15), ("EFLOP", 1e18)],
    spellings: &[],
    base: "FLOP",
    print: &["FLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"],
    adds_up: false,
};
const FLOP_RATE: UnitTable = UnitTable {
    quantity: "an arithmetic rate",
    units: &[("FLOP/s", 1.0), ("MFLOP/s", 1e6), ("GFLOP/s", 1e9), ("TFLOP/s", 1e12), ("PFLOP/s", 1e15)],
    spellings: &[("GFLOPS", 1e9), ("TFLOPS", 1e12), ("PFLOPS", 1e15)],
    base: "FLOP/s",
    print: &["FLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"],
    adds_up: false,
};
const DURATION: UnitTable = UnitTable {
    quantity: "a duration",
    units: &[
        ("ns", 1e-9),
        ("us", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("min", 60.0),
        ("h", 3600.0),
        ("d", 86400.0),
        ("w", 604_800.0),
    ],
    spellings: &[
        ("sec", 1.0),
        ("second", 1.0),
        ("seconds", 1.0),
        ("mins", 60.0),
        ("minute", 60.0),
        ("minutes", 60.0),
        ("hr", 3600.0),
        ("hrs", 3600.0),
        ("hour", 3600.0),
        ("hours", 3600.0),
        ("day", 86400.0),
        ("days", 86400.0),
        ("week", 604_800.0),
        ("weeks", 604_800.0),
    ],
    base: "s",
    print: &["ns", "us", "ms", "s", "min", "h", "d"],
    adds_up: true,
};
const MONEY: UnitTable = UnitTable {
    quantity: "money",
    units: &[("USD", 1.0)],
    spellings: &[],
    base: "USD",
    print: &["USD"],
    adds_up: false,
};
const PRICE: UnitTable = UnitTable {
    quantity: "a rental price",
    units: &[("USD/h", 1.0)],
    spellings: &[],
    base: "USD/h",
    print: &["USD/h"],
    adds_up: false,
};

macro_rules! text_form {
    ($name:ident, $table:ident, $to:expr, $from:expr) => {
        impl FromStr for $name {
            type Err = ParseQuantityError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $table.parse(text).and_then(|value| {
                    $from(value)
                        .map($name)
                        .ok_or_else(|| ParseQuantityError::OutOfRange { text: text.into(), quantity: $table.quantity })
                })
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                $table.print($to(self.0), formatter)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                String::json_schema(generator)
            }
        }
    };
}

/// Bytes above 2⁵³ would not survive the float in between.
const EXACT_LIMIT: f64 = 9_007_199_254_740_992.0;

fn whole(value: f64) -> Option<u64> {
    (value <= EXACT_LIMIT).then(|| value.round() as u64)
}

text_form!(Bytes, BYTES, |v: u64| v as f64, whole);
text_form!(BytesPerSecond, BANDWIDTH, |v: f64| v, Some);
text_form!(Flops, FLOPS, |v: f64| v, Some);
text_form!(FlopsPerSecond, FLOP_RATE, |v: f64| v, Some);
text_form!(Seconds, DURATION, |v: f64| v, Some);
text_form!(Usd, MONEY, |v: f64| v, Some);
text_form!(UsdPerHour, PRICE, |v: f64| v, Some);

/// A size for a reader: three digits and a binary unit, `13.2 GiB`. Not meant to be read back.
pub fn human_bytes(bytes: Bytes) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes.as_f64();
    let mut unit = 0;
    // What would round to a thousand has three digits in the next unit.
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{value} B") } else { format!("{} {}", three_digits(value), units[unit]) }
}

/// The time below which a duration is told as none: less than half a hundredth of a microsecond.
const NO_TIME: f64 = 5e-9;

/// A duration for a reader: `3.21 ms`, `2 h 05 min`, `4 d 3 h`. Not meant to be read back.
pub fn human_duration(duration: Seconds) -> String {
    let s = duration.0;
    let whole_seconds = s.round() as u64;
    let whole_minutes = (s / 60.0).round() as u64;
    let whole_hours = (s / 3600.0).round() as u64;
    match s {
        // What rounds to nothing has no digits to tell.
        s if s < NO_TIME => "0 s".into(),
        s if s < 0.9995e-3 => format!("{} us", three_digits(s * 1e6)),
        s if s < 0.9995 => format!("{} ms", three_digits(s * 1e3)),
        s if s < 119.5 => format!("{} s", three_digits(s)),
        s if s < 599.5 => format!("{} min {:02} s", whole_seconds / 60, whole_seconds % 60),
        s if s < 7170.0 => format!("{whole_minutes} min"),
        s if s < 172_770.0 => format!("{} h {:02} min", whole_minutes / 60, whole_minutes % 60),
        _ => format!("{} d {} h", human_count(whole_hours / 24), whole_hours % 24),
    }
}

/// A count for a reader, thousands apart: `34,264`. Not meant to be read back.
pub fn human_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A large count for a reader, to three digits: `480 M`, `6.74 B`, those below a million in full. Not meant to be read back.
pub fn short_count(count: u64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e6, "M"), (1e9, "B"), (1e12, "T")];
    // From where rounding makes it a thousand of the smaller unit.
    let reached = |(unit, _): &&(f64, &str)| count as f64 >= 0.9995 * unit;
    let Some((unit, letter)) = UNITS.iter().rev().find(reached) else { return human_count(count) };
    let value = count as f64 / unit;
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$} {letter}")
}

/// A count of things for a reader: `1 job`, `34,264 jobs`. For nouns that take an s.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", human_count(count), if count == 1 { "" } else { "s" })
}

/// Joins values as in a sentence: `fp32`, `none or full`, `none, gpipe or 1f1b`.
pub fn either<T: fmt::Display>(values: &[T]) -> String {
    let names: Vec<String> = values.iter().map(ToString::to_string).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// Formats an amount with three digits, or as many as its whole part has: `9.99`, `1,140,000`.
pub fn three_digits(value: f64) -> String {
    match value {
        v if v >= 999.5 => human_count(v.round() as u64),
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_joined_as_in_a_sentence() {
        assert_eq!(either::<u8>(&[]), "");
        assert_eq!(either(&["none", "full"]), "none or full");
        assert_eq!(either(&[1, 2, 3]), "1, 2 or 3");
    }

    #[test]
    fn text_forms_read_what_people_write() {
        assert_eq!("80 GiB".parse(), Ok(Bytes(80 << 30)));
        assert_eq!("450 GB/s".parse(), Ok(BytesPerSecond(450e9)));
        assert_eq!("25Gbit/s".parse(), Ok(BytesPerSecond(3.125e9)));
        assert_eq!("989 TFLOP/s".parse(), Ok(FlopsPerSecond(989e12)));
        assert_eq!("3d".parse(), Ok(Seconds(259_200.0)));
        assert_eq!("1.5e-6 s".parse(), Ok(Seconds(1.5e-6)));
        for bits in ["25 Gb/s", "25Gbps", "25 Gbit/s", "25_000 Mbps", "0.025 Tb/s"] {
            assert_eq!(bits.parse(), Ok(BytesPerSecond(3.125e9)), "{bits}");
        }
        for bytes in ["3.2TB/s", "3200 GB/s", "3.2 TBps"] {
            assert_eq!(bytes.parse(), Ok(BytesPerSecond(3.2e12)), "{bytes}");
        }
        assert_eq!(("40GB".parse(), "40 GiB".parse()), (Ok(Bytes(40_000_000_000)), Ok(Bytes(40 << 30))));
        assert_eq!(("10 h 50 min".parse(), "7 d 0 h".parse()), (Ok(Seconds(39_000.0)), Ok(Seconds(604_800.0))));
        assert!("50 min 10 h".parse::<Seconds>().is_err() && "1 h 5".parse::<Seconds>().is_err());
        assert!("1 GB 5 MB".parse::<Bytes>().is_err());
        assert_eq!(("312 TFLOPS".parse(), "8 hours".parse()), (Ok(FlopsPerSecond(312e12)), Ok(Seconds(28_800.0))));
    }

    #[test]
    fn a_bare_number_and_a_foreign_unit_name_the_accepted_units() {
        let bare = "80".parse::<Bytes>().expect_err("no unit").to_string();
        assert!(bare.contains("has no unit") && bare.contains("GiB"), "{bare}");
        let foreign = "80 GB/s".parse::<Bytes>().expect_err("a rate").to_string();
        assert!(foreign.contains("`GB/s`") && foreign.contains("GiB"), "{foreign}");
        assert!("-3 s".parse::<Seconds>().is_err() && "-1 s 5000 ms".parse::<Seconds>().is_err());
        let turned = "50 min 10 h".parse::<Seconds>().expect_err("turned round").to_string();
        assert!(turned.contains("`h` follows a smaller unit"), "{turned}");
        assert!("NaN s".parse::<Seconds>().is_err());
        assert!("1e400 s".parse::<Seconds>().is_err());
        assert!("9e18 B".parse::<Bytes>().is_err());
    }

    #[test]
    fn durations_for_readers_carry_over_at_the_edges() {
        assert_eq!(human_duration(Seconds(0.0)), "0 s");
        assert_eq!(human_duration(Seconds(4e-9)), "0 s");
        assert_eq!(human_duration(Seconds(5e-9)), "0.01 us");
        assert_eq!(human_duration(Seconds(0.9996)), "1.00 s");
        assert_eq!(human_duration(Seconds(179.6)), "3 min 00 s");
        assert_eq!(human_duration(Seconds(7199.0)), "2 h 00 min");
        assert_eq!(human_duration(Seconds(86400.0 * 4.0 + 3.0 * 3600.0)), "4 d 3 h");
        assert_eq!(human_duration(Seconds(999.6e-6)), "1.00 ms");
        assert_eq!(human_duration(Seconds(86_400.0 * 12_345.0)), "12,345 d 0 h");
        assert_eq!(human_bytes(Bytes(16 << 30)), "16.0 GiB");
        assert_eq!(human_bytes(Bytes(1_023_900)), "0.98 MiB");
        assert_eq!((human_count(1), human_count(1_234_567)), ("1".into(), "1,234,567".into()));
        let short = [999_000, 999_600, 25_557_032, 999_600_000, 6_738_415_616, 1_008_000_000_000].map(short_count);
        assert_eq!(short, ["999,000", "1.00 M", "25.6 M", "1.00 B", "6.74 B", "1.01 T"]);
        assert_eq!((counted(1, "job"), counted(2000, "job")), ("1 job".into(), "2,000 jobs".into()));
    }

    proptest! {
        #[test]
        fn text_forms_round_trip(bytes in 0u64..1 << 53, value in 0.0f64..1e18) {
            prop_assert_eq!(Bytes(bytes).to_string().parse(), Ok(Bytes(bytes)));
            prop_assert_eq!(BytesPerSecond(value).to_string().parse(), Ok(BytesPerSecond(value)));
            prop_assert_eq!(Seconds(value).to_string().parse(), Ok(Seconds(value)));
            prop_assert_eq!(FlopsPerSecond(value).to_string().parse(), Ok(FlopsPerSecond(value)));
            prop_assert_eq!(UsdPerHour(value).to_string().parse(), Ok(UsdPerHour(value)));
        }
    }
}
