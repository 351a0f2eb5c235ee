//! Quantities, times and tags as people write them; what is read prints and reads back.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use std::fmt::{Debug, Display};
use std::str::FromStr;
use trainyard_fuzz::table::mutate_words;
use trainyard_history::UtcTime;
use trainyard_reports as reports;
use trainyard_units::{
    Bytes, BytesPerSecond, Flops, FlopsPerSecond, Seconds, Span, Usd, UsdPerHour, human_bytes, human_duration,
};

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_words(data, size, max, seed) });

fuzz_target!(|text: &str| {
    fn same<T: FromStr + Display + PartialEq + Debug>(text: &str) -> Option<T> {
        let read = text.parse::<T>().ok()?;
        let again = read.to_string().parse::<T>().ok();
        assert_eq!(again.as_ref(), Some(&read), "{text} prints as {read}");
        Some(read)
    }
    same::<Bytes>(text).map(human_bytes);
    same::<Seconds>(text).map(human_duration);
    same::<BytesPerSecond>(text);
    same::<Flops>(text);
    same::<FlopsPerSecond>(text);
    same::<Usd>(text);
    same::<UsdPerHour>(text);
    same::<UtcTime>(text);
    let short = text.parse::<Seconds>().ok().filter(|seconds| seconds.0 < 1e9);
    short.map(Span::from_seconds);
    trainyard_history::is_tag(text);
    reports::harmless(text);
});
