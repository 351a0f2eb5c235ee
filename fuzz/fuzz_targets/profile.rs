//! Profiles of measured machines: read, checked, written, read again, and planned for.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_calibration::{profile_from_toml, profile_to_toml};
use trainyard_fuzz::WIDTH;
use trainyard_fuzz::tree::mutate_toml;
use trainyard_plan::ClusterChoice;
use trainyard_planner::Resources;
use trainyard_reports as reports;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_toml(data, size, max, seed) });

/// More devices take longer than an input should.
const DEVICES_MAX: u32 = 16;

fuzz_target!(|text: &str| {
    let Ok(profile) = profile_from_toml(text, "profile.toml") else { return };
    let written = profile_to_toml(&profile);
    profile_from_toml(&written, "profile.toml").unwrap_or_else(|error| panic!("{error}: {written}"));
    reports::profile(&profile, WIDTH);
    if profile.devices <= DEVICES_MAX {
        let mut job = trainyard_fuzz::small_job();
        job.cluster = ClusterChoice { profile: Some("profile.toml".into()), ..ClusterChoice::default() };
        let profile_path = job.cluster.profile.clone();
        trainyard_fuzz::plan(&job, Resources { profile: Some(profile), profile_path, ..Resources::default() });
    }
});
