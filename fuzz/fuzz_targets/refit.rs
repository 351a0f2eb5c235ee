//! Step times from which constants are refitted.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_calibration::{MeasurementKind, refit};
use trainyard_fuzz::WIDTH;
use trainyard_fuzz::table::mutate_csv;
use trainyard_hardware_profiles::catalog;
use trainyard_reports as reports;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_csv(data, size, max, seed) });

/// More rows take longer than an input should.
const ROWS_MAX: usize = 3;

fuzz_target!(|text: &str| {
    if text.lines().count() > ROWS_MAX || MeasurementKind::of(text) != Some(MeasurementKind::StepTimes) {
        return;
    }
    if let Ok(refitted) = refit(text, "table.csv", catalog(), "2026-01-01", &mut |_| ()) {
        refitted.constants.map(|constants| constants.to_toml());
        reports::refit(&refitted.document, WIDTH);
        reports::refit_widths(&refitted.document, WIDTH);
    }
});
