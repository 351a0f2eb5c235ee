//! Tables of collectives and output of nccl-tests, from which constants of fabrics are refitted.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_calibration::{MeasurementKind, refit_fabrics};
use trainyard_fuzz::WIDTH;
use trainyard_fuzz::table::mutate_cells;
use trainyard_hardware_profiles::catalog;
use trainyard_reports as reports;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_cells(data, size, max, seed) });

fuzz_target!(|text: &str| {
    let _ = MeasurementKind::of(text);
    for instance in [None, Some("p4d.24xlarge")] {
        if let Ok(refitted) = refit_fabrics(text, "sweep.txt", instance, catalog(), "2026-01-01") {
            refitted.constants.map(|constants| constants.to_toml());
            reports::refit(&refitted.document, WIDTH);
        }
    }
});
