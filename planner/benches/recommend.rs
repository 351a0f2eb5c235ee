//! How long a recommendation takes.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use trainyard_plan::{GlobalBatch, JobSpec, Objective};
use trainyard_planner::{Limits, Resources, problem, recommend};

fn job(model: &str, objective: Objective) -> JobSpec {
    let mut job = JobSpec::default();
    job.model.name = Some(model.into());
    job.data.tokens = Some(10e9);
    job.training.global_batch = Some(GlobalBatch::Exactly(512));
    job.goal.objective = Some(objective);
    job
}

fn recommendations(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("recommend over every g4dn, p3, p3dn and p4d, up to 16 instances");
    group.sample_size(10);
    for model in ["gpt2", "gpt2-xl", "gpt3-13b"] {
        for objective in [Objective::Cost, Objective::Time] {
            let job = job(model, objective);
            let problem = problem(&job, Resources::default()).expect("a solvable job");
            let limits = Limits { top: 5, ..Limits::default() };
            let name = format!("{model}, {objective:?}");
            group.bench_function(&name, |bencher| bencher.iter(|| recommend(black_box(&problem), &limits, &job)));
        }
    }
    group.finish();
}

/// The large case: millions of plans, of which few are simulated.
fn over_everything(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("recommend");
    group.sample_size(10);
    for (name, model, instances, most) in [
        ("gpt2-xl over every instance", "gpt2-xl", vec!["*"], 16),
        ("gpt3-175b over p3, p3dn and p4d up to 128", "gpt3-175b", vec!["p3.*", "p3dn.*", "p4d.*"], 128),
    ] {
        let mut job = job(model, Objective::Cost);
        job.training.global_batch = Some(GlobalBatch::Exactly(1536));
        job.cluster.instances = Some(instances.into_iter().map(Into::into).collect());
        job.cluster.max_instances = Some(most);
        let problem = problem(&job, Resources::default()).expect("a solvable job");
        let limits = Limits { top: 5, ..Limits::default() };
        group.bench_function(name, |bencher| bencher.iter(|| recommend(black_box(&problem), &limits, &job)));
    }
    group.finish();
}

criterion_group!(benches, recommendations, over_everything);
criterion_main!(benches);
