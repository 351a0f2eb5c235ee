//! `KEY=VALUES` as it is written: lists, ranges, factors, and quantities with their units.

use super::key::{Key, Kind, Level, QUEUE_WAIT, find, is_other_name, similar};
use crate::edits::{EXACT_MAX, Part, Setting};
use trainyard_hardware_profiles::{Service, Transport};
use trainyard_models::SEQUENCE_MAX;
use trainyard_plan::{Pricing, VariedKey};
use trainyard_sim::Machine;
use trainyard_units::{
    Bytes, BytesPerSecond, FlopsPerSecond, Invalid, ParseQuantityError, Seconds, UnknownName, UsdPerHour, count,
};

/// The most combinations of values.
pub(crate) const COMBINATIONS_MAX: usize = 1000;

/// The most keys that are varied at once.
pub(crate) const KEYS_MAX: usize = 2;

/// More network cards than any machine has.
const CARDS_MAX: u64 = 1024;

/// Steps of a range whose last value is no multiple of the first.
const STEPS: u64 = 8;

/// A key with the values that it takes, one after another.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(crate) key: Key,
    pub(crate) values: Vec<(String, Setting)>,
}

/// Reads every `--vary`.
///
/// # Errors
///
/// For a key that is unknown or varied twice, for a value that does not fit it, and for too many of either.
pub fn axes(texts: &[String]) -> Result<Vec<Axis>, Invalid> {
    if texts.len() > KEYS_MAX {
        return Err(Invalid::breaks(
            "--vary",
            format!("{} keys", texts.len()),
            format!("it may be at most {KEYS_MAX}"),
        )
        .with_hint("hold the others with --fix, or ask once for each value of one of them"));
    }
    let axes: Vec<Axis> = texts.iter().map(|text| axis(text)).collect::<Result<_, _>>()?;
    if let [first, second] = axes.as_slice()
        && first.key.name == second.key.name
    {
        return Err(Invalid::inside(option(first.key.name), "it is given twice")
            .with_hint("write all its values after one --vary, with commas between them"));
    }
    let count: u128 = axes.iter().map(|axis| axis.values.len() as u128).product();
    if count > COMBINATIONS_MAX as u128 { Err(too_many()) } else { Ok(axes) }
}

fn axis(text: &str) -> Result<Axis, Invalid> {
    let (name, values) = text.split_once('=').ok_or_else(|| {
        Invalid::breaks("--vary", format!("`{text}`"), "it has no `=`; write --vary KEY=A,B,C")
            .with_hint("for example --vary instances=1..16, or --vary cluster.network=25Gbps,100Gbps")
    })?;
    let name = name.trim();
    let key = find(name).ok_or_else(|| {
        let meant = similar(name).map_or_else(String::new, |similar| match find(similar) {
            Some(Key { kind: Kind::Factor, about, .. }) => {
                format!("did you mean `{similar}` ({about}), a factor, as in {similar}=x0.9,x1.1? ")
            }
            Some(Key { about, .. }) if is_other_name(name) => {
                format!("did you mean `{similar}` ({about})? ")
            }
            _ => format!("did you mean `{similar}`? "),
        });
        Invalid::inside(option(name), format!("nothing that can be varied is called `{name}`"))
            .with_hint(format!("{meant}`trainyard what-if --help` lists all keys"))
    })?;
    let mut all: Vec<(String, Setting)> = Vec::new();
    // A value that is written twice is one case.
    let add = |all: &mut Vec<(String, Setting)>, written: String, setting: Setting| {
        if !all.iter().any(|(_, known)| *known == setting) {
            all.push((written, setting));
        }
    };
    for written in values.split(',').map(str::trim) {
        let bad = |problem: String| {
            let hint = meant(name, written, &problem);
            Invalid::inside(option(name), format!("`{written}` {problem}")).with_hint(hint)
        };
        if written.is_empty() {
            return Err(Invalid::inside(option(name), "a value is empty")
                .with_hint("write values with commas between them: A,B,C"));
        }
        if let (Some((first, last)), true) = (written.split_once(".."), key.kind != Kind::Word) {
            for count in range(key.kind, first, last).map_err(bad)? {
                add(&mut all, count.to_string(), Setting::Number(count as f64));
            }
            if all.len() > COMBINATIONS_MAX {
                return Err(too_many());
            }
        } else {
            add(&mut all, written.into(), setting(key, written).map_err(bad)?);
        }
    }
    Ok(Axis { key, values: all })
}

/// Advises about a value that a key does not take: the word that was probably meant, or what there is to take.
fn meant(name: &str, written: &str, problem: &str) -> String {
    let allowed = problem.split_once(" is not one of ").map(|(_, allowed)| allowed.split(", "));
    let Some(mut words) = allowed else { return "`trainyard what-if --help` lists all keys with values".into() };
    match trainyard_units::similar(written, words.clone()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("for example --vary {name}={}", words.next().unwrap_or_default()),
    }
}

/// Returns the option that varies a key.
pub(super) fn option(key: &str) -> String {
    format!("--vary {key}=…")
}

fn too_many() -> Invalid {
    Invalid::inside("--vary", format!("these are more than {COMBINATIONS_MAX} combinations of values"))
        .with_hint("take fewer values, or a larger step: 1..64/4")
}

/// Lists the whole numbers of a range, both ends included: doubling, in equal steps, or with the step after a slash.
fn range(kind: Kind, first: &str, last: &str) -> Result<Vec<u64>, String> {
    if !kind.is_whole() {
        return Err("is a range, but only whole numbers have ranges; write the values with commas between them".into());
    }
    let (last, step) = last.split_once('/').map_or((last, None), |(last, step)| (last, Some(step)));
    let whole = |text: &str| kind.count(text).ok().filter(|count| (1..=EXACT_MAX).contains(count));
    let wrong = || "is no range; write whole numbers, at least 1, as in 1..64 or 1..64/4".to_owned();
    let (first, last) = (whole(first).ok_or_else(wrong)?, whole(last).ok_or_else(wrong)?);
    if first > last {
        return Err(format!("ends before it begins; write {last}..{first}"));
    }
    let step = match step.map(|step| whole(step).ok_or_else(wrong)).transpose()? {
        Some(step) => Some(step),
        None if kind == Kind::Steps && last.is_multiple_of(first) && last / first <= 2 * STEPS => Some(first),
        None if kind == Kind::Steps => Some((last - first).div_ceil(STEPS).max(1)),
        None => None,
    };
    let next = |count: &u64| match step {
        Some(step) => count.checked_add(step),
        None => count.checked_mul(2),
    };
    let counts = std::iter::successors(Some(first), next).take_while(|count| *count < last);
    // More than the most is refused by the caller; no need to count on.
    Ok(counts.take(COMBINATIONS_MAX).chain([last]).collect())
}

/// Reads one value.
fn setting(key: Key, written: &str) -> Result<Setting, String> {
    if key.kind == Kind::Word {
        return word(key, written);
    }
    if let Some(factor) = written.strip_prefix(['x', '×', '*']) {
        return match factor.trim().parse::<f64>() {
            Ok(factor) if factor > 0.0 && factor.is_finite() => Ok(Setting::Factor(factor)),
            _ => Err("is no factor; write a number above 0 after the ×, as in ×0.5".into()),
        };
    }
    number(key, written).map(Setting::Number)
}

/// Reads a quantity with its unit.
fn read<T: std::str::FromStr<Err = ParseQuantityError>>(text: &str, get: fn(T) -> f64) -> Result<f64, String> {
    match text.parse::<T>().map(get) {
        Ok(value) if value > 0.0 => Ok(value),
        Ok(_) => Err("must be above 0".into()),
        Err(error) => Err(format!("is no value of it: {error}; or write a factor on the present one, as in ×0.5")),
    }
}

/// Reads a data rate. An amount of data was probably meant as one.
fn rate(written: &str) -> Result<f64, String> {
    if written.parse::<Bytes>().is_err() {
        return read(written, |BytesPerSecond(rate)| rate);
    }
    let bits = written.strip_suffix('B').filter(|number| !number.ends_with('i'));
    let bits = bits.map_or_else(String::new, |number| format!(", or `{number}bps` if bits are meant"));
    Err(format!("is an amount of data, and this is a rate: write `{written}/s`{bits}"))
}

/// Reads a share: 0.05, or 5%.
fn share(written: &str) -> Option<f64> {
    trainyard_units::share(written).ok().filter(|part| (0.0..1.0).contains(part))
}

/// Names the number in a text that has a unit, for a key that has none: `50GB` of tokens is 50 billion, `1kEUR` is 1k.
fn without_unit(key: Key, written: &str) -> String {
    let is_number = |text: &&str| trainyard_units::number(text).is_ok();
    let shorter = written.char_indices().rev().map(|(end, _)| &written[..end]).find(is_number);
    let Some(number) = shorter else { return String::new() };
    let number = match written.strip_suffix("GB") {
        Some(billions) if key.name == "data.tokens" => format!("{billions}B"),
        _ => number.to_owned(),
    };
    let what = match key.name {
        "goal.budget" => " of USD",
        "data.tokens" => " of tokens",
        _ => "",
    };
    format!(", without a unit (`{number}`{what})")
}

/// Reads an amount.
pub(crate) fn number(key: Key, written: &str) -> Result<f64, String> {
    match key.kind {
        Kind::Count | Kind::Length | Kind::Steps => {
            let least = match key.level {
                Level::Plan(field) => field.counts().map_or(1, |counts| *counts.start()),
                _ => 1,
            };
            let most = if key.kind == Kind::Length { SEQUENCE_MAX } else { EXACT_MAX };
            match key.kind.count(written) {
                Ok(count) if (least..=most).contains(&count) => Ok(count as f64),
                Ok(count) if count > most => Err(format!("must be a whole number, at most {most}")),
                _ => Err(format!("must be a whole number, at least {least}, or a factor such as ×2")),
            }
        }
        Kind::Number => match trainyard_units::number(written) {
            Ok(number) if number > 0.0 => Ok(number),
            _ => Err(format!("must be a number above 0{}, or a factor such as ×2", without_unit(key, written))),
        },
        Kind::Share => share(written)
            .ok_or_else(|| "must be a share from 0 to below 1, as 0.05 or 5%, or a factor such as ×2".into()),
        Kind::Bytes => match trainyard_units::number(written) {
            Ok(number) if number >= 0.0 => Ok(number),
            _ => read(written, |Bytes(size)| size as f64),
        },
        Kind::Size => read(written, |Bytes(size)| size as f64),
        Kind::Rate if key.level == Level::Machine(Part::Network) => {
            let (cards, each) = cards(written)?;
            rate(each).map(|each| cards * each)
        }
        Kind::Rate => rate(written),
        Kind::Arithmetic => read(written, |FlopsPerSecond(rate)| rate),
        Kind::Time if key.name == QUEUE_WAIT && matches!(written.parse(), Ok(Seconds(0.0))) => Ok(0.0),
        Kind::Time => read(written, |Seconds(time)| time),
        Kind::Price => read(written, |UsdPerHour(price)| price),
        Kind::Factor => Err("must be a factor on the present value, as in ×0.5 or x2".into()),
        Kind::Word => unreachable!("words are no numbers"),
    }
}

/// Splits a rate of several network cards, `8x400Gbps`, into their number and the rate of each.
fn cards(written: &str) -> Result<(f64, &str), String> {
    let Some((cards, each)) = written.split_once(['x', '×', '*']) else { return Ok((1.0, written)) };
    match count(cards.trim()) {
        Ok(cards) if (1..=CARDS_MAX).contains(&cards) => Ok((cards as f64, each.trim())),
        _ => Err(format!("has no number of cards from 1 to {CARDS_MAX} before the ×, as 8×400Gbps has")),
    }
}

/// Reads a word. Closed lists are checked here; names in catalogs when they are looked up.
pub(crate) fn word(key: Key, written: &str) -> Result<Setting, String> {
    let told = |unknown: UnknownName| unknown.to_string();
    let checked = match (key.level, key.name) {
        (Level::Plan(field), _) => field.check(written),
        (Level::Job | Level::Search, name) => super::job::check_word(name, written),
        (Level::Terms, "pricing") => written.parse::<Pricing>().map(drop).map_err(told),
        (Level::Terms, "service") => Service::exactly(written).map(drop).map_err(told),
        (Level::Terms, "cluster.transport") => Transport::exactly(written).map(drop).map_err(told),
        _ => Ok(()),
    };
    checked.map(|()| Setting::Word(written.into())).map_err(|problem| format!("is no value of it: {problem}"))
}

impl Axis {
    /// Returns the number of values, at least one.
    #[expect(clippy::len_without_is_empty, reason = "an axis has at least one value")]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns the name of its key if that decides which quotas apply to machines.
    pub fn decides_quotas(&self) -> Option<&'static str> {
        let name = self.key.name;
        ["pricing", "region", "service"].contains(&name).then_some(name)
    }

    /// Returns the name of its key if other prices apply with other values.
    pub fn decides_prices(&self) -> Option<&'static str> {
        let name = self.key.name;
        ["pricing", "region", "service", "instance"].contains(&name).then_some(name)
    }

    /// Converts the axis into its form in a document, with what the machines have at present if they are known.
    pub(crate) fn varied(&self, machine: Option<&Machine>) -> VariedKey {
        let amount = |setting: &Setting, factors: bool| match setting {
            Setting::Number(number) if !factors => Some(*number),
            Setting::Factor(factor) if factors => Some(*factor),
            _ => None,
        };
        let all = |factors: bool| -> Option<Vec<f64>> {
            self.values.iter().map(|(_, setting)| amount(setting, factors)).collect()
        };
        let (unit, amounts) = match (all(false), all(true)) {
            (Some(amounts), _) => (self.key.kind.unit(), amounts),
            (None, Some(factors)) => (Some("×"), factors),
            (None, None) => (None, Vec::new()),
        };
        VariedKey {
            key: self.key.name.into(),
            unit: unit.map(Into::into),
            values: self.values.iter().map(|(text, _)| text.clone()).collect(),
            amounts,
            present: match self.key.level {
                Level::Machine(part) => machine.and_then(|machine| part.present(machine)),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<Setting> {
        axis(text).expect("values").values.into_iter().map(|(_, setting)| setting).collect()
    }

    fn numbers(text: &str) -> Vec<f64> {
        values(text).iter().map(|setting| setting.of(f64::NAN)).collect()
    }

    #[test]
    fn ranges_double_or_step() {
        assert_eq!(numbers("instances=1..16"), [1.0, 2.0, 4.0, 8.0, 16.0]);
        assert_eq!(numbers("instances=1..12"), [1.0, 2.0, 4.0, 8.0, 12.0]);
        assert_eq!(numbers("instances=3..3"), [3.0]);
        assert_eq!(numbers("instances=1..9/4"), [1.0, 5.0, 9.0]);
        assert_eq!(numbers("model.layers=24..96"), [24.0, 48.0, 72.0, 96.0]);
        assert_eq!(numbers("model.layers=10..26"), [10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 22.0, 24.0, 26.0]);
        assert_eq!(numbers("instances=1..4,6"), [1.0, 2.0, 4.0, 6.0]);
        assert_eq!(numbers("model.seq_len=8k,8000,16k..64k"), [8192.0, 8000.0, 16_384.0, 32_768.0, 65_536.0]);
        assert_eq!(numbers("data.samples=8k"), [8000.0]);
    }

    #[test]
    fn quantities_have_units_and_factors_have_none() {
        // Each once, however it is written.
        assert_eq!(numbers("cluster.network=25Gbps,100 Gbit/s,12.5GB/s"), [3.125e9, 12.5e9]);
        assert_eq!(numbers("cluster.network=8x400Gbps,8×400Gbps,2 * 12.5 GB/s"), [4e11, 25e9]);
        assert_eq!(values("cluster.network=x2"), [Setting::Factor(2.0)]);
        let factors = [Setting::Factor(0.5), Setting::Factor(2.0)];
        assert_eq!(values("gpu.memory_bandwidth=×0.5,x2"), factors);
        assert_eq!(numbers("data.bytes_per_sample=200kB,2MB,110000"), [2e5, 2e6, 1.1e5]);
        assert_eq!(values("price.instance=12.5 USD/h"), [Setting::Number(12.5)]);
        assert_eq!(values("pricing=spot,on-demand").len(), 2);
        assert_eq!(numbers("campaign.monthly_reclaims=5%,0.05,10 %,0"), [0.05, 0.1, 0.0]);
        assert_eq!(numbers("instances=2,2,1..4,2"), [2.0, 1.0, 4.0]);
        assert_eq!(axis("training.global_batch=64,128").expect("an alias").key.name, "batch.global");
    }

    #[test]
    fn what_is_wrong_says_what_is_right() {
        let problem = |text: &str| axis(text).expect_err(text).to_string();
        for (text, part) in [
            ("cluster.network=fast", "Gbit/s"),
            ("cluster.network=25", "no unit"),
            ("cluster.network=8x", "Gbit/s"),
            ("cluster.network=0x400Gbps", "cards"),
            ("cluster.network=manyx400Gbps", "cards"),
            ("gpu.memory_bandwidth=8x400GB/s", "is no value"),
            ("cluster.network=1..2", "only whole numbers"),
            ("instances=two", "whole number"),
            ("instances=0", "at least 1"),
            ("instances=8..1", "1..8"),
            ("instances=1..", "1..64"),
            ("instances=", "empty"),
            ("instances=1,,2", "empty"),
            ("instances", "no `=`"),
            ("gpu.peak=2", "factor"),
            ("gpu.peak=x", "factor"),
            ("gpu.peak=x-1", "factor"),
            ("pricing=free", "on-demand"),
            ("service=azure", "sagemaker"),
            ("schedule=2f2b", "1f1b"),
            ("goal.objective=fame", "cost"),
            ("data.storage=floppy", "s3-fastfile"),
            ("goal.budget=much", "number"),
            ("goal.budget=1kEUR", "(`1k` of USD)"),
            ("data.tokens=50GB", "(`50B` of tokens)"),
            ("cluster.network=100GB", "`100GB/s`, or `100Gbps` if bits"),
            ("gpu.memory_bandwidth=2TiB", "write `2TiB/s`"),
            ("model.seq_len=100000000000", "at most 4194304"),
            ("campaign.monthly_reclaims=5", "from 0 to below 1"),
            ("campaign.monthly_reclaims=100%", "or 5%"),
            ("instances=1..999999999999/1", "more than 1000 combinations"),
        ] {
            assert!(problem(text).contains(part), "{text}: {}", problem(text));
        }
        let slip = axis("cluster.netwrok=1").expect_err("a slip");
        assert!(slip.hint().is_some_and(|hint| hint.contains("`cluster.network`")), "{slip}");
        let hint = axis("failures=1").expect_err("no key").hint().unwrap_or_default();
        assert!(hint.starts_with("did you mean `campaign.node_mtbf` ("), "{hint}");
        let last = axis("spot_scenario=5").expect_err("the last part of a key");
        assert!(last.hint().is_some_and(|hint| hint.contains("`campaign.spot_scenario`")), "{last}");
        let share = axis("mfu=40,50").expect_err("it is predicted");
        assert!(share.hint().is_some_and(|hint| hint.contains("stack.rate=x0.9")), "{share}");
    }

    #[test]
    fn keys_and_combinations_are_limited() {
        let all = |texts: &[&str]| axes(&texts.iter().map(ToString::to_string).collect::<Vec<_>>());
        let refused = |texts: &[&str]| all(texts).expect_err("refused").to_string();
        assert_eq!(refused(&["instances=1", "region=a", "service=ec2"]), "`--vary` is 3 keys, but it may be at most 2");
        assert_eq!(refused(&["instances=1", "cluster.instances=2"]), "in `--vary instances=…`: it is given twice");
        assert!(refused(&["instances=1..100/1", "batch.micro=1..11/1"]).contains("more than 1000 combinations"));
        assert_eq!(all(&["instances=1..100/1", "batch.micro=1..10/1"]).map(|axes| axes.len()), Ok(2));
    }

    #[test]
    fn amounts_are_told_where_they_are_alike() {
        let varied = |text: &str| axis(text).expect("values").varied(None);
        assert_eq!(varied("gpu.memory_bandwidth=×0.5,×2").unit.as_deref(), Some("×"));
        assert_eq!(varied("cluster.network=8Gbps").amounts, [1e9]);
        assert_eq!((varied("pricing=spot").unit, varied("cluster.network=8Gbps,x2").amounts), (None, vec![]));
    }
}
