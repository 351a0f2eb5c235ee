//! How fast events are queued, tasks are run, and plans are priced.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use trainyard_hardware_profiles::catalog;
use trainyard_plan::{
    BatchSpec, ClusterSpec, Collectives, Optimizer, ParallelSpec, Plan, PlanSpec, Precision, Pricing, Recompute,
    ScheduleName, Stages,
};
use trainyard_sim::des::EventQueue;
use trainyard_sim::{Machine, simulate, step_time_bound};
use trainyard_units::Instant;

/// The hold model: take the next event, schedule one a pseudo-random while later.
fn hold(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("event kernel, hold model");
    for pending in [1 << 10, 1 << 16] {
        const EVENTS: u64 = 100_000;
        group.throughput(Throughput::Elements(EVENTS));
        group.bench_with_input(BenchmarkId::from_parameter(pending), &pending, |bencher, pending| {
            bencher.iter(|| {
                let mut queue = EventQueue::with_capacity(*pending as usize);
                let mut state = 1u64;
                let mut later = || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    state >> 44
                };
                for key in 0..*pending {
                    queue.schedule(Instant::from_nanoseconds(later()), key);
                }
                let mut keys = Vec::new();
                let mut taken = 0;
                while taken < EVENTS {
                    let now = queue.next_instant(&mut keys).expect("as many are added as taken");
                    taken += keys.len() as u64;
                    for key in keys.drain(..) {
                        queue.schedule(Instant::from_nanoseconds(now.nanoseconds() + later()), key);
                    }
                }
                black_box(taken)
            });
        });
    }
    group.finish();
}

fn plan(accumulation: u64) -> (Plan, Machine) {
    let model = &trainyard_models::find("gpt3-13b").expect("in the catalog").model;
    let layers = model.graph().len();
    let spec = PlanSpec {
        model: model.spec(),
        cluster: ClusterSpec { instance: "p4d.24xlarge".into(), instances: 8, profile: None },
        parallel: ParallelSpec { data: 1, tensor: 8, pipeline: 8 },
        batch: BatchSpec { global: accumulation, micro: 1, accumulation },
        schedule: ScheduleName::OneForwardOneBackward,
        stages: Stages::balanced(&vec![1.0; layers], 8).expect("more layers than stages").specs(),
        precision: Precision::Fp16Mixed,
        recompute: Recompute::Full,
        collectives: Collectives::Nccl,
        optimizer: Optimizer::AdamW,
        pricing: Pricing::OnDemand,
    };
    let machine = Machine {
        cluster: catalog().cluster("p4d.24xlarge", 8).expect("in the catalog"),
        stack: catalog().stack("pytorch").expect("in the catalog").clone(),
    };
    (Plan::try_from(spec).expect("a valid plan"), machine)
}

fn steps(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one step of 64 GPUs, tensor 8 x pipeline 8");
    for accumulation in [8, 64, 512] {
        let (plan, machine) = plan(accumulation);
        group.bench_function(BenchmarkId::new("simulate, micro-batches", accumulation), |bencher| {
            bencher.iter(|| simulate(black_box(&plan), &machine));
        });
        group.bench_function(BenchmarkId::new("bound, micro-batches", accumulation), |bencher| {
            bencher.iter(|| step_time_bound(black_box(&plan), &machine));
        });
    }
    group.finish();
}

criterion_group!(benches, hold, steps);
criterion_main!(benches);
