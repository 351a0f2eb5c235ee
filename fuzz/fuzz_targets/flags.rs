//! What is held (`--fix`) and what is varied (`--vary`), one to a line; the latter tried on a plan where it is little.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::WIDTH;
use trainyard_fuzz::table::mutate_settings;
use trainyard_plan::Fixed;
use trainyard_planner::MachineFiles;
use trainyard_planner::what_if::{Axis, HeldPlan, Subject, axes, what_if};
use trainyard_reports as reports;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_settings(data, size, max, seed) });

/// Combinations that are tried.
const CASES_MAX: usize = 4;

fuzz_target!(|text: &str| {
    let lines: Vec<String> = text.lines().map(Into::into).collect();
    let _ = Fixed::parse(&lines);
    let Ok(axes) = axes(&lines) else { return };
    if axes.iter().map(Axis::len).product::<usize>() > CASES_MAX {
        return;
    }
    let document = serde_json::from_str(include_str!("../corpus/plan/gpt2.json")).expect("a plan");
    let subject = Subject::Plan(Box::new(HeldPlan { document, files: MachineFiles::default() }));
    if let Ok(document) = what_if(&subject, &axes, &|| ()) {
        trainyard_fuzz::reads_back(&document);
        reports::what_if(&document, WIDTH);
        reports::what_if_csv(&document);
    }
});
