//! Fleets: read, checked, and planned where jobs and machines are few.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::WIDTH;
use trainyard_fuzz::tree::mutate_toml;
use trainyard_plan::Fixed;
use trainyard_planner::{Cancellation, Limits, Resources};
use trainyard_pool::fleet::{self, FleetJob, FleetJobSpec, FleetSpec, plan_fleet};

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_toml(data, size, max, seed) });

fuzz_target!(|text: &str| {
    let Ok(spec) = toml::from_str::<FleetSpec>(text) else { return };
    let job = |job: &FleetJobSpec| FleetJob { spec: job.in_place(), resources: Resources::default() };
    let jobs: Vec<FleetJob> = spec.jobs.iter().map(job).collect();
    let types = spec.pool.instances.as_ref().map_or(0, Vec::len);
    let small = spec.jobs.len() <= 2 && spec.pool.max_instances.is_some_and(|most| most <= 2) && types <= 2;
    // More machines than the pool has are refused, but only after everything else was checked.
    let held = (!small).then_some(u32::MAX);
    let fixed = Fixed { instances: held, ..Fixed::default() };
    let limits = Limits { top: 1, max_simulations: Some(4), fixed };
    if let Ok(planned) = plan_fleet(&spec, &Resources::default(), &jobs, &limits, &Cancellation::default(), &|| ()) {
        trainyard_fuzz::reads_back(&planned.document);
        fleet::page(&planned.document, WIDTH, true);
    }
});
