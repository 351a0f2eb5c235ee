//! Traces of the PyTorch profiler, from which constants of a stack are refitted.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_calibration::refit_trace;
use trainyard_fuzz::WIDTH;
use trainyard_fuzz::tree::mutate_json;
use trainyard_hardware_profiles::{DEFAULT_STACK, catalog};
use trainyard_reports as reports;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_json(data, size, max, seed) });

fuzz_target!(|text: &[u8]| {
    let stack = catalog().stack(DEFAULT_STACK).expect("the catalog has it");
    if let Ok(refitted) = refit_trace(text, "trace.json", stack, catalog(), "2026-01-01") {
        refitted.constants.map(|constants| constants.to_toml());
        reports::refit(&refitted.document, WIDTH);
    }
});
