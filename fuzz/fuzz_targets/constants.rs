//! Constants: read, checked, written, read again, and planned with.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::tree::mutate_toml;
use trainyard_hardware_profiles::{Constants, ConstantsFile};
use trainyard_planner::Resources;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_toml(data, size, max, seed) });

fuzz_target!(|text: &str| {
    let Ok(file) = toml::from_str::<ConstantsFile>(text) else { return };
    let Ok(constants) = Constants::try_from(file) else { return };
    let written = constants.to_toml();
    let again = toml::from_str::<ConstantsFile>(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert!(Constants::try_from(again).is_ok(), "{written}");
    let mut job = trainyard_fuzz::small_job();
    job.cluster.constants = Some("constants.toml".into());
    let constants_path = job.cluster.constants.clone();
    trainyard_fuzz::plan(&job, Resources { constants: Some(constants), constants_path, ..Resources::default() });
});
