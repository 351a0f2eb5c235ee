//! Tables of published step times, memory and collectives: each row read and predicted.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_calibration::validate;
use trainyard_fuzz::WIDTH;
use trainyard_fuzz::table::mutate_csv;
use trainyard_reports as reports;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_csv(data, size, max, seed) });

fuzz_target!(|text: &str| {
    if text.lines().count() > ROWS_MAX {
        return;
    }
    if let Ok(document) = validate(text, "table.csv") {
        trainyard_fuzz::reads_back(&document);
        reports::validation(&document.suites, &[], WIDTH);
        reports::validation_rows(&document.rows, WIDTH);
    }
});

/// More rows take longer than an input should.
const ROWS_MAX: usize = 8;
