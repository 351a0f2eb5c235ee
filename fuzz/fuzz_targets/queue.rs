//! Queues: read, checked, simulated where jobs are few, shown and drawn.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::WIDTH;
use trainyard_fuzz::tree::mutate_toml;
use trainyard_plan::document::PlanDocument;
use trainyard_pool::queue::{self, QueueFiles, QueueSpec, predict_queue};
use trainyard_reports::Scheme;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_toml(data, size, max, seed) });

/// More jobs take longer than an input should.
const JOBS_MAX: u64 = 200;

fuzz_target!(|text: &str| {
    let Ok(spec) = toml::from_str::<QueueSpec>(text) else { return };
    let plan: PlanDocument = serde_json::from_str(include_str!("../corpus/plan/gpt2.json")).expect("a plan");
    let plans = spec.jobs.iter().filter_map(|job| Some((job.plan.clone()?, plan.clone()))).collect();
    if spec.jobs.iter().map(|job| u64::from(job.count)).sum::<u64>() > JOBS_MAX {
        return;
    }
    if let Ok(document) = predict_queue(&spec, &QueueFiles { plans, machines: None }, 1) {
        trainyard_fuzz::reads_back(&document);
        queue::page(&document, WIDTH, true);
        let _ = queue::gantt(&document).map(|picture| picture.svg(Scheme::Auto));
    }
});
