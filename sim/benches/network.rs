//! How fast the rates of transfers that share links are found.

use criterion::{Bencher, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use trainyard_sim::network::{Demand, LinkId, SharedLinks};

const FREE: f64 = f64::INFINITY;

/// Capacities that differ, in bytes per second.
fn capacities(links: u32) -> Vec<f64> {
    (0..links).map(|link| 1e9 * f64::from(10 + link % 7)).collect()
}

/// Starts all, settles, ends all, settles.
fn start_and_end(bencher: &mut Bencher, links: u32, demands: &[Demand]) {
    let mut shared = SharedLinks::new(capacities(links));
    let mut changed = Vec::new();
    bencher.iter(|| {
        for (operation, demand) in (0..).zip(demands) {
            shared.start(operation, demand);
        }
        shared.settle(&mut changed);
        black_box(&changed);
        changed.clear();
        for operation in 0..demands.len() as u32 {
            shared.end(operation);
        }
        shared.settle(&mut changed);
    });
}

fn lone(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lone operations, start, settle and end (figure: 1 M operations/s)");
    for count in [1, 4096] {
        let demands: Vec<Demand> = (0..count)
            .map(|index| Demand { limit: 5e9, uses: vec![(LinkId(2 * index), 1.0), (LinkId(2 * index + 1), 1.0)] })
            .collect();
        group.throughput(Throughput::Elements(u64::from(count)));
        group.bench_function(BenchmarkId::new("at an instant", count), |bencher| {
            start_and_end(bencher, 2 * count, &demands);
        });
    }
    group.finish();
}

fn shared(criterion: &mut Criterion) {
    const OPERATIONS: u32 = 1024;
    const LINKS: u32 = 128;
    let mut group = criterion.benchmark_group("1 024 operations on 128 links");
    group.throughput(Throughput::Elements(u64::from(OPERATIONS)));
    let demand = |index: u32, links: u32| Demand {
        limit: FREE,
        uses: (0..links).map(|step| (LinkId((index + step * (1 + index / LINKS)) % LINKS), 1.0)).collect(),
    };
    for (title, links) in [("8 on each link, apart", 1), ("64 on each link, connected", 8)] {
        let demands: Vec<Demand> = (0..OPERATIONS).map(|index| demand(index, links)).collect();
        group.bench_function(title, |bencher| start_and_end(bencher, LINKS, &demands));
    }
    group.finish();
}

criterion_group!(benches, lone, shared);
criterion_main!(benches);
