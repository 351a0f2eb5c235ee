//! Amounts as sentences and tables tell them.

use trainyard_units::human_count;

/// Below this, cents do not tell amounts apart, in USD.
const SMALL_USD: f64 = 0.1;

/// From this on, cents mean nothing, in USD.
const LARGE_USD: f64 = 1000.0;

/// Formats US dollars with separators between thousands: `12,345 USD`, `8.42 USD`.
pub fn usd(amount: f64) -> String {
    if amount < SMALL_USD {
        return format!("{amount:.4} USD");
    }
    if amount < LARGE_USD {
        return format!("{amount:.2} USD");
    }
    format!("{} USD", human_count(amount.round() as u64))
}

/// Formats an expected count with as many digits as mean something.
pub fn expected_count(expected: f64) -> String {
    match expected {
        expected if expected >= 10.0 => human_count(expected.round() as u64),
        expected if expected >= 0.1 => format!("{expected:.1}"),
        expected if expected >= 0.001 => format!("{expected:.3}"),
        _ => "less than 0.001".into(),
    }
}

/// Formats a probability as certain as it can be: `60 %`, `over 99 %`.
pub fn likelihood(chance: f64) -> String {
    match chance {
        chance if chance > 0.99 => "over 99 %".into(),
        chance if chance < 0.01 => "under 1 %".into(),
        chance => format!("{:.0} %", 100.0 * chance),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_counts_have_the_digits_that_mean_something() {
        let told = [1234.4, 12.4, 1.23, 0.012, 1e-5].map(expected_count);
        assert_eq!(told, ["1,234", "12", "1.2", "0.012", "less than 0.001"]);
    }

    #[test]
    fn amounts_have_the_digits_that_tell_them_apart() {
        assert_eq!([0.0123, 8.416, 999.0, 12_345.4].map(usd), ["0.0123 USD", "8.42 USD", "999.00 USD", "12,345 USD"]);
    }
}
