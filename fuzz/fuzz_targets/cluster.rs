//! Cluster files: read, checked, and planned for where they have few devices.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::tree::mutate_toml;
use trainyard_hardware_profiles::{Cluster, ClusterFile};
use trainyard_plan::ClusterChoice;
use trainyard_planner::Resources;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_toml(data, size, max, seed) });

/// More devices take longer than an input should.
const DEVICES_MAX: u32 = 16;

fuzz_target!(|text: &str| {
    let Ok(file) = toml::from_str::<ClusterFile>(text) else { return };
    let Ok(cluster) = Cluster::try_from(file.clone()) else { return };
    if cluster.devices() <= DEVICES_MAX {
        let mut job = trainyard_fuzz::small_job();
        job.cluster = ClusterChoice { file: Some("cluster.toml".into()), ..ClusterChoice::default() };
        let cluster_path = job.cluster.file.clone();
        trainyard_fuzz::plan(&job, Resources { cluster_file: Some(file), cluster_path, ..Resources::default() });
    }
});
