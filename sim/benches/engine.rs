//! How fast events are queued, tasks are run, and plans are priced.

mod large;

use criterion::{Bencher, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use large::{Delays, job};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use trainyard_hardware_profiles::catalog;
use trainyard_plan::Plan;
use trainyard_sim::des::EventQueue;
use trainyard_sim::{Options, all_reduce_time, simulate_with, step_time, step_time_bound};
use trainyard_units::{Bytes, Instant};

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

const UNFOLDED: Options = Options { unfold: true, variation: None, in_full: true };

fn steps(criterion: &mut Criterion) {
    let mut group =
        criterion.benchmark_group("one step of 1024 GPUs, tensor 8 x pipeline 8 x data 16, 32 micro-batches");
    group.sample_size(10);
    let (plan, machine) = job(16, 8, 32, 96);
    group.bench_function("folded (figure: 50 ms)", |bencher| bencher.iter(|| step_time(black_box(&plan), &machine)));
    group.bench_function("unfolded (figure: 2 s)", |bencher| {
        bencher.iter(|| simulate_with(black_box(&plan), &machine, UNFOLDED));
    });
    group.bench_function("bound", |bencher| bencher.iter(|| step_time_bound(black_box(&plan), &machine)));
    group.finish();
    let mut group = criterion.benchmark_group("one step of 16384 GPUs, tensor 8 x pipeline 16 x data 128");
    group.sample_size(10);
    let (plan, machine) = job(128, 16, 32, 96);
    group.bench_function("folded (figure: 5 s)", |bencher| bencher.iter(|| step_time(black_box(&plan), &machine)));
    group.finish();
}

/// How the time of a step grows, folded and unfolded.
fn growth(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("growth of one step, tensor 8 x pipeline 8");
    group.sample_size(10);
    let sizes = [
        ("64 GPUs", (1, 8, 32, 96)),
        ("256 GPUs", (4, 8, 32, 96)),
        ("1024 GPUs", (16, 8, 32, 96)),
        ("256 GPUs, 24 layers", (4, 8, 32, 24)),
        ("256 GPUs, 48 layers", (4, 8, 32, 48)),
        ("256 GPUs, 8 micro-batches", (4, 8, 8, 96)),
        ("256 GPUs, 128 micro-batches", (4, 8, 128, 96)),
    ];
    for (name, (data, pipeline, accumulation, layers)) in sizes {
        let (plan, machine) = job(data, pipeline, accumulation, layers);
        group.bench_function(BenchmarkId::new("folded", name), |bencher| {
            bencher.iter(|| step_time(black_box(&plan), &machine));
        });
        group.bench_function(BenchmarkId::new("unfolded", name), |bencher| {
            bencher.iter(|| simulate_with(black_box(&plan), &machine, UNFOLDED));
        });
    }
    group.finish();
}

/// Sums of gradients: 1 024 GPUs in one ring by its closed form, and 8 rings of 128 that share the network, each rank by
/// itself.
fn all_reduce(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("64 MiB all-reduce over 1024 GPUs (figure: 0.3 s)");
    let cluster = catalog().cluster("p4d.24xlarge", 128).expect("in the catalog");
    group.bench_function("one group", |bencher| {
        bencher.iter(|| all_reduce_time(black_box(&cluster), 1024, Bytes(64 << 20)));
    });
    group.sample_size(10);
    let (mut plan, machine) = job(128, 1, 1, 1);
    let mut spec = plan.spec().clone();
    // One block whose part on each of eight ranks has 16 Mi parameters: 64 MiB of gradients.
    (spec.model.hidden, spec.model.heads, spec.model.vocab) = (Some(3328), Some(104), Some(8));
    spec.model.ffn = None;
    plan = Plan::try_from(spec).expect("a valid plan");
    group.bench_function("8 groups of 128 with contention, in a step of which each rank is simulated", |bencher| {
        bencher.iter(|| simulate_with(black_box(&plan), &machine, UNFOLDED));
    });
    group.finish();
}

criterion_group!(benches, queues, steps, growth, all_reduce);
criterion_main!(benches);
