//! Execution traces of Chakra: read, and replayed as one rank and as two that do the same.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::protobuf::mutate_messages;
use trainyard_hardware_profiles::{DEFAULT_STACK, catalog};
use trainyard_interop::chakra;
use trainyard_sim::{Machine, replay};

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_messages(data, size, max, seed) });

fuzz_target!(|file: &[u8]| {
    let Ok(graph) = chakra::read(file) else { return };
    let groups = [("0".to_owned(), vec![0, 1])].into();
    let stack = catalog().stack(DEFAULT_STACK).expect("the catalog has it").clone();
    for ranks in [vec![graph.clone()], vec![graph.clone(), graph]] {
        let cluster = catalog().cluster("p3.8xlarge", 1).expect("the catalog has it");
        let _ = replay(&ranks, &groups, &Machine { cluster, stack: stack.clone() });
    }
});
