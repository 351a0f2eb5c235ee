//! Documents that a history keeps, shown as the commands that made them showed them.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use serde_json::from_str;
use trainyard_fuzz::WIDTH;
use trainyard_fuzz::tree::mutate_json;
use trainyard_reports as reports;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_json(data, size, max, seed) });

fuzz_target!(|text: &str| {
    let _ = shown(text);
});

/// The page of the first kind of document that the text is.
fn shown(text: &str) -> Result<String, serde_json::Error> {
    let campaign = from_str(text).map(|document| reports::campaign(&document, WIDTH));
    let queue = || from_str(text).map(|document| trainyard_pool::queue::page(&document, WIDTH, true));
    let fleet = || from_str(text).map(|document| trainyard_pool::fleet::page(&document, WIDTH, true));
    let what_if = || from_str(text).map(|document| reports::what_if(&document, WIDTH));
    let comparison = || from_str(text).map(|document| reports::comparison(&document, WIDTH));
    let jobs = || from_str(text).map(|document| reports::jobs(&document, WIDTH));
    let page = campaign.or_else(|_| queue()).or_else(|_| fleet()).or_else(|_| what_if());
    page.or_else(|_| comparison()).or_else(|_| jobs())
}
