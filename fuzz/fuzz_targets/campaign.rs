//! Plan documents whose whole training is drawn by chance.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::WIDTH;
use trainyard_fuzz::tree::mutate_json;
use trainyard_plan::Plan;
use trainyard_plan::document::PlanDocument;
use trainyard_planner::{MachineFiles, campaign};
use trainyard_reports as reports;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_json(data, size, max, seed) });

fuzz_target!(|text: &str| {
    let Ok(document) = serde_json::from_str::<PlanDocument>(text) else { return };
    let Ok(plan) = Plan::try_from(document.plan.clone()) else { return };
    if !trainyard_fuzz::is_small(&plan) {
        return;
    }
    if let Ok(drawn) = campaign(&document, MachineFiles::default(), 3, 1) {
        trainyard_fuzz::reads_back(&drawn);
        reports::campaign(&drawn, WIDTH);
    }
});
