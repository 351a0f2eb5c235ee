//! How fast events are queued, tasks are run, and plans are priced.

use criterion::{Bencher, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use trainyard_hardware_profiles::catalog;
use trainyard_plan::{
    BatchSpec, ClusterSpec, Collectives, Optimizer, ParallelSpec, Plan, PlanSpec, Precision, Pricing, Recompute,
    ScheduleName, Stages,
};
use trainyard_sim::des::EventQueue;
use trainyard_sim::{Machine, simulate, step_time_bound};
use trainyard_units::Instant;

/// A queue of events to measure.
trait Pending {
    fn schedule(&mut self, at: Instant, key: u32);
    fn next_instant(&mut self, keys: &mut Vec<u32>) -> Option<Instant>;
}

impl Pending for EventQueue {
    fn schedule(&mut self, at: Instant, key: u32) {
        EventQueue::schedule(self, at, key);
    }

    fn next_instant(&mut self, keys: &mut Vec<u32>) -> Option<Instant> {
        EventQueue::next_instant(self, keys)
    }
}

/// What the event kernel is compared with.
impl Pending for BinaryHeap<Reverse<(Instant, u32)>> {
    fn schedule(&mut self, at: Instant, key: u32) {
        self.push(Reverse((at, key)));
    }

    fn next_instant(&mut self, keys: &mut Vec<u32>) -> Option<Instant> {
        let Reverse((now, key)) = self.pop()?;
        keys.push(key);
        while let Some(Reverse((at, key))) = self.peek().copied() {
            if at != now {
                break;
            }
            self.pop();
            keys.push(key);
        }
        Some(now)
    }
}

/// Pseudo-random delays below 2^20 ns.
struct Delays(u64);

impl Delays {
    fn after(&mut self, now: Instant) -> Instant {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Instant::from_nanoseconds(now.nanoseconds() + (self.0 >> 44))
    }
}

/// The hold model in its steady state: take the next event, schedule one a pseudo-random while later.
fn hold(bencher: &mut Bencher, queue: &mut impl Pending, pending: u32) {
    let mut delays = Delays(1);
    let mut keys = Vec::new();
    for key in 0..pending {
        queue.schedule(delays.after(Instant::START), key);
    }
    let mut events = |count: u64| {
        let mut taken = 0;
        while taken < count {
            let now = queue.next_instant(&mut keys).expect("as many are added as taken");
            taken += keys.len() as u64;
            for key in keys.drain(..) {
                queue.schedule(delays.after(now), key);
            }
        }
        taken
    };
    events(4 * u64::from(pending));
    bencher.iter(|| black_box(events(EVENTS)));
}

/// Events of one measurement.
const EVENTS: u64 = 100_000;

fn queues(criterion: &mut Criterion) {
    for (pending, title) in [
        (1 << 10, "event kernel, hold model, 1 k pending (figure: 20 M events/s)"),
        (1 << 16, "event kernel, hold model, 64 k pending (figure: 10 M events/s)"),
    ] {
        let mut group = criterion.benchmark_group(title);
        group.throughput(Throughput::Elements(EVENTS));
        group.bench_function("EventQueue", |bencher| {
            hold(bencher, &mut EventQueue::with_capacity(pending as usize), pending);
        });
        group.bench_function("bare BinaryHeap", |bencher| {
            hold(bencher, &mut BinaryHeap::with_capacity(pending as usize), pending);
        });
        group.finish();
    }
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

criterion_group!(benches, queues, steps);
criterion_main!(benches);
