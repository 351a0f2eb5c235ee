//! Lists of jobs that train side by side: read, their variants made, their jobs checked.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::tree::mutate_toml;
use trainyard_plan::JobSpec;
use trainyard_plan::list::{JobListSpec, VARIANTS_MAX};
use trainyard_planner::{Resources, problem};

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_toml(data, size, max, seed) });

fuzz_target!(|text: &str| {
    let Ok(list) = toml::from_str::<JobListSpec>(text) else { return };
    for job in &list.jobs {
        if job.variant_count() <= VARIANTS_MAX {
            job.variants();
        }
        let spec = JobSpec {
            model: job.model.clone().unwrap_or_default(),
            data: job.data.clone().unwrap_or_default(),
            training: job.training.clone().unwrap_or_default(),
            ..JobSpec::default()
        };
        let _ = problem(&spec, Resources::default());
    }
});
