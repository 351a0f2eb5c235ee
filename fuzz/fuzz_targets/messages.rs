//! Jobs and plans that cannot be read: where in the file, and what was meant.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use std::path::Path;
use trainyard_fuzz::tree::mutate_any;
use trainyard_plan::JobSpec;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_any(data, size, max, seed) });

#[allow(dead_code, reason = "the command line uses more of it")]
#[path = "../../commands/src/diagnose.rs"]
mod diagnose;
#[allow(dead_code, reason = "the command line uses more of it")]
#[path = "../../commands/src/failure.rs"]
mod failure;

fuzz_target!(|text: &str| {
    let _ = diagnose::from_toml::<JobSpec>("job", text, Path::new("job.toml"));
    let _ = diagnose::plan_from_json(text, Path::new("plan.json"));
});
