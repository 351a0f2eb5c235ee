//! How two amounts compare, in words: one way of saying it for all sentences (docs/words.md).

use trainyard_units::{Bytes, human_bytes, human_count};

/// Returns `true` if two amounts differ by less than what is shown.
pub(crate) fn same(own: f64, other: f64) -> bool {
    (own / other - 1.0).abs() < 0.005
}

/// Describes how a time compares with another one. What is faster is told by the ratio of the speeds, what is slower by
/// the ratio of the times, so that the two are the same number seen from either side.
pub fn pace(own: f64, other: f64) -> String {
    let (ratio, comparative) = if own < other { (other / own, "faster") } else { (own / other, "slower") };
    match ratio {
        _ if same(own, other) => "no slower".into(),
        ratio if is_multiple(ratio) => format!("{ratio:.1} times {comparative}"),
        ratio => format!("{} {comparative}", percent_of(ratio - 1.0)),
    }
}

/// Describes how a time compares with that of something that is named: `12 % faster than 2 pipeline stages`.
pub(crate) fn pace_beside(own: f64, other: f64, name: &str) -> String {
    format!("{} than {name}", pace(own, other))
}

/// Describes how long another plan would take, beside one that takes `own`: `would be 12 % slower`.
pub(crate) fn would_be(other: f64, own: f64) -> String {
    let ratio = other / own;
    match ratio {
        _ if same(other, own) => "would be no faster".into(),
        ratio if is_multiple(ratio) => format!("would take {ratio:.1} times as long"),
        _ => format!("would be {}", pace(other, own)),
    }
}

/// Describes how a cost compares with another one: what is cheaper by the share that it saves.
pub fn price(own: f64, other: f64) -> String {
    let ratio = own / other;
    match ratio {
        _ if same(own, other) => "no more expensive".into(),
        ratio if ratio < 0.5 => format!("{:.1} times cheaper", 1.0 / ratio),
        ratio if ratio < 1.0 => format!("{} cheaper", percent_of(1.0 - ratio)),
        ratio if is_multiple(ratio) => format!("{ratio:.1} times as expensive"),
        ratio => format!("{} more expensive", percent_of(ratio - 1.0)),
    }
}

/// Says by how much an amount is beyond a limit: `3 % over the deadline`, `2.84 times the deadline`.
pub fn beyond(amount: f64, limit: f64, what: &str) -> String {
    let ratio = amount / limit;
    match ratio - 1.0 {
        _ if is_multiple(ratio) => format!("{ratio:.2} times {what}"),
        part if part < 0.000_5 => format!("a little over {what}"),
        part => format!("{} over {what}", percent_of(part)),
    }
}

/// Formats by what share two amounts differ: in whole per cent, and in tenths below one.
pub(crate) fn percent_of(share: f64) -> String {
    let percent = 100.0 * share;
    if percent.abs() < 0.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Formats a part of one in whole per cent: `27 %`.
pub(crate) fn whole_percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

/// Returns `true` from the ratio on that is not told in percent: 99 % are the most.
fn is_multiple(ratio: f64) -> bool {
    (ratio * 100.0).round() >= 200.0
}

/// Formats the memory that is needed and the memory that there is, with as many digits as tell them apart.
pub(crate) fn apart(needed: Bytes, available: Bytes) -> (String, String) {
    let mebibytes = |bytes: Bytes| format!("{} MiB", human_count((bytes.as_f64() / 1024.0 / 1024.0).round() as u64));
    let bytes = |bytes: Bytes| format!("{} B", human_count(bytes.0));
    let forms: [&dyn Fn(Bytes) -> String; 3] = [&human_bytes, &mebibytes, &bytes];
    let told = forms.iter().map(|form| (form(needed), form(available)));
    told.clone().find(|(needed, available)| needed != available).unwrap_or_else(|| (bytes(needed), bytes(available)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_compare_as_people_say_it() {
        assert_eq!(price(97.0, 100.0), "3 % cheaper");
        assert_eq!(price(25.0, 100.0), "4.0 times cheaper");
        assert_eq!(price(130.0, 100.0), "30 % more expensive");
        assert_eq!(price(210.0, 100.0), "2.1 times as expensive");
        assert_eq!(price(100.1, 100.0), "no more expensive");
        assert_eq!(
            (price(100.6, 100.0), price(101.2, 100.0)),
            ("0.6 % more expensive".into(), "1 % more expensive".into())
        );
    }

    #[test]
    fn faster_and_slower_are_the_same_number_seen_from_either_side() {
        assert_eq!((pace(100.0, 189.0), pace(189.0, 100.0)), ("89 % faster".into(), "89 % slower".into()));
        assert_eq!((pace(100.0, 199.6), pace(240.0, 100.0)), ("2.0 times faster".into(), "2.4 times slower".into()));
        assert_eq!(pace(100.1, 100.0), "no slower");
        assert_eq!(pace_beside(100.0, 120.0, "2 stages"), "20 % faster than 2 stages");
        assert_eq!(pace_beside(100.0, 280.0, "2 stages"), "2.8 times faster than 2 stages");
        assert_eq!(would_be(240.0, 100.0), "would take 2.4 times as long");
        assert_eq!(beyond(354.03, 353.0, "the budget"), "0.3 % over the budget");
        assert_eq!(beyond(284.0, 100.0, "the deadline"), "2.84 times the deadline");
        assert_eq!(would_be(100.1, 100.0), "would be no faster");
        assert_eq!(
            (would_be(112.0, 100.0), would_be(100.0, 112.0)),
            ("would be 12 % slower".into(), "would be 12 % faster".into())
        );
    }

    #[test]
    fn memory_has_as_many_digits_as_tell_it_apart() {
        let told = |needed, available| apart(Bytes(needed), Bytes(available));
        assert_eq!(told(37 << 30, 35 << 30), ("37.0 GiB".into(), "35.0 GiB".into()));
        assert_eq!(told((35 << 30) + (3 << 20), 35 << 30), ("35,843 MiB".into(), "35,840 MiB".into()));
        assert_eq!(told((35 << 30) + 1, 35 << 30), ("37,580,963,841 B".into(), "37,580,963,840 B".into()));
    }
}
