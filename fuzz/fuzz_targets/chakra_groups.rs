//! The file of groups beside execution traces, whose ranks do collectives together.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::tree::mutate_json;
use trainyard_hardware_profiles::{DEFAULT_STACK, catalog};
use trainyard_interop::chakra;
use trainyard_sim::{Machine, replay};

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_json(data, size, max, seed) });

fuzz_target!(|text: &str| {
    let Ok(groups) = chakra::groups(text) else { return };
    let graph = chakra::read(include_bytes!("../corpus/chakra/step.0.et").as_slice()).expect("a trace");
    let cluster = catalog().cluster("p3.8xlarge", 1).expect("the catalog has it");
    let stack = catalog().stack(DEFAULT_STACK).expect("the catalog has it").clone();
    let _ = replay(&[graph.clone(), graph], &groups, &Machine { cluster, stack });
});
