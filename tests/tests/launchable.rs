//! Everything that is recommended can be launched: for a grid of jobs at least one target that starts the plan's software
//! writes files for it, and the plan leaves the margin of memory free.

use trainyard_hardware_profiles::catalog;
use trainyard_plan::{GlobalBatch, JobSpec, Objective};
use trainyard_planner::{Limits, NoPlan, Resources, problem, recommend};
use trainyard_reports::{LaunchOptions, Target, launch};

/// Models by what they are: dense decoders, experts, encoders, encoder-decoders, vision, recommendation.
const MODELS: [&str; 14] = [
    "gpt2",
    "gpt2-xl",
    "llama-2-7b",
    "llama-2-70b",
    "gpt3-13b",
    "mixtral-8x7b",
    "alpa-moe-2.4b",
    "bert-large",
    "t5-large",
    "t5-11b",
    "resnet50",
    "vit-l-16",
    "dlrm-small",
    "dlrm",
];

/// Machines with the most of them.
const MACHINES: [(&str, u32); 5] =
    [("g4dn.12xlarge", 4), ("p3.16xlarge", 8), ("p3dn.24xlarge", 16), ("p4d.24xlarge", 32), ("p4d.24xlarge", 128)];

fn job(model: &str, (instance, most): (&str, u32), kind: usize) -> JobSpec {
    let mut job = JobSpec::default();
    job.model.name = Some(model.into());
    job.data.samples = Some(if kind == 2 { 50_000 } else { 1_000_000 });
    job.training.global_batch = Some(GlobalBatch::Exactly(if kind == 2 { 64 } else { 1024 }));
    job.cluster.instances = Some(vec![instance.into()]);
    job.cluster.max_instances = Some(most);
    match kind {
        0 => {}
        1 => job.goal.objective = Some(Objective::Time),
        // Fine-tuning: few samples, and an end by which it is done.
        _ => job.goal.deadline = Some("3 d".into()),
    }
    job
}

/// The targets that write files for what is recommended; nothing where there is no plan at all.
fn launched(job: &JobSpec) -> Option<Vec<Target>> {
    let problem = problem(job, Resources::default()).expect("a solvable job");
    let document = match recommend(&problem, &Limits { top: 1, ..Limits::default() }, job) {
        Ok(document) => document,
        Err(NoPlan::OutOfMemory { .. }) => return None,
        Err(error) => panic!("{job:?}: {error}"),
    };
    let cluster = &document.plan.cluster;
    let cluster = catalog().cluster(&cluster.instance, cluster.instances).expect("in the catalog");
    let memory = &document.prediction.memory_bytes;
    assert!(memory.peak() as f64 <= 0.92 * memory.limit as f64, "{job:?}");
    let stack =
        catalog().stack(document.plan.stack.as_deref().expect("plans name their stack")).expect("in the catalog");
    assert!(stack.runs.today, "{}", stack.name);
    let writes = |target: &Target| launch(&document, &cluster, None, *target, &LaunchOptions::default()).is_ok();
    let targets: Vec<Target> = Target::ALL.into_iter().filter(writes).collect();
    assert!(
        !targets.is_empty(),
        "no target launches {} for {job:?}",
        serde_json::to_string(&document.plan).expect("JSON")
    );
    Some(targets)
}

#[test]
fn every_recommended_plan_of_a_grid_of_jobs_can_be_launched() {
    let mut plans = 0;
    for (number, model) in MODELS.into_iter().enumerate() {
        for (place, machines) in MACHINES.into_iter().enumerate() {
            // The largest grids take the dense models of their size only.
            if machines.1 == 128 && !["gpt3-13b", "llama-2-70b", "t5-11b", "resnet50"].contains(&model) {
                continue;
            }
            let kinds = if place == 3 { 0..3 } else { (number + place) % 3..(number + place) % 3 + 1 };
            plans += kinds.filter_map(|kind| launched(&job(model, machines, kind))).count();
        }
    }
    assert!(plans >= 60, "{plans} plans");
}
