//! Plan documents: read, checked, and simulated and explained where the step is small.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::WIDTH;
use trainyard_fuzz::tree::mutate_json;
use trainyard_plan::Plan;
use trainyard_plan::document::PlanDocument;
use trainyard_planner::{MachineFiles, NamedPlan, explain, resimulate};
use trainyard_reports::{self as reports, Breadth, Detail, Scheme};
use trainyard_sim::Options;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_json(data, size, max, seed) });

fuzz_target!(|text: &str| {
    let Ok(document) = serde_json::from_str::<PlanDocument>(text) else { return };
    reports::plan(&document, Detail::Full, WIDTH);
    for picture in [
        reports::memory_plot(&document.plan.model.name, &document.prediction.memory_bytes, Breadth::Wide),
        reports::front_plot(&document, Breadth::Wide),
    ] {
        let _ = picture.map(|picture| picture.svg(Scheme::Auto));
    }
    let Ok(plan) = Plan::try_from(document.plan.clone()) else { return };
    if !trainyard_fuzz::is_small(&plan) {
        return;
    }
    if let Ok((again, _)) = resimulate(&document, MachineFiles::default(), Options::default()) {
        trainyard_fuzz::reads_back(&again);
        reports::simulation(&again, WIDTH);
    }
    let named = NamedPlan { file: "plan.json".into(), document, files: MachineFiles::default() };
    if let Ok(explained) = explain(&named, None) {
        trainyard_fuzz::reads_back(&explained);
        reports::explanation(&explained, WIDTH);
    }
});
