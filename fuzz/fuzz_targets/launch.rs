//! Plan documents written as launch files of every target.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::WIDTH;
use trainyard_fuzz::tree::mutate_json;
use trainyard_plan::document::PlanDocument;
use trainyard_planner::{MachineFiles, machine};
use trainyard_reports::{self as reports, LaunchOptions, Target};

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_json(data, size, max, seed) });

fuzz_target!(|text: &str| {
    let Ok(document) = serde_json::from_str::<PlanDocument>(text) else { return };
    let Ok(machine) = machine(&document, MachineFiles::default()) else { return };
    for target in Target::ALL {
        let options = LaunchOptions::default();
        if let Ok(files) = reports::launch(&document, &machine.cluster, Some(&machine.stack), target, &options) {
            reports::launch_page(&files);
            reports::launch_listing(&files, WIDTH);
        }
    }
});
