//! Plan documents whose step is traced operator by operator, and written for Perfetto and as Chakra traces.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::tree::mutate_json;
use trainyard_interop::chakra;
use trainyard_plan::Plan;
use trainyard_plan::document::PlanDocument;
use trainyard_planner::{MachineFiles, trace_step};
use trainyard_reports as reports;
use trainyard_sim::Options;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_json(data, size, max, seed) });

fuzz_target!(|text: &str| {
    let Ok(document) = serde_json::from_str::<PlanDocument>(text) else { return };
    let Ok(plan) = Plan::try_from(document.plan.clone()) else { return };
    if !trainyard_fuzz::is_tiny(&plan) || plan.mesh().ranks() > 16 {
        return;
    }
    let Ok(trace) = trace_step(&document, MachineFiles::default(), Options::default()) else { return };
    let text = reports::step_trace(&trace, &plan);
    serde_json::from_str::<serde_json::Value>(&text).expect("a trace is JSON");
    let Ok(written) = chakra::write(&trace, &plan) else { return };
    for (name, file) in written.files.iter().filter(|(name, _)| name.ends_with(".et")) {
        chakra::read(file.as_slice()).unwrap_or_else(|error| panic!("{name} is not read back: {error}"));
    }
});
