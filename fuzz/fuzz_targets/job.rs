//! Jobs: read, checked, and planned where their machines are few.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::tree::mutate_toml;
use trainyard_plan::JobSpec;
use trainyard_planner::{Resources, problem};

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_toml(data, size, max, seed) });

fuzz_target!(|text: &str| {
    let Ok(job) = toml::from_str::<JobSpec>(text) else { return };
    match job.cluster.max_instances {
        Some(0..=2) => trainyard_fuzz::plan(&job, Resources::default()),
        _ => drop(problem(&job, Resources::default())),
    }
});
