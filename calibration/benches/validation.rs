//! How fast tables of measurements are predicted.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use trainyard_calibration::validate;

const STEP_TIMES: &str = include_str!("../../tests/published/measurements.csv");

fn tables(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("validation of 2 004 published rows");
    group.sample_size(10);
    group.bench_function("all cores (figure: 5 s on 2 cores)", |bencher| {
        bencher.iter(|| validate(black_box(STEP_TIMES), "measurements.csv"));
    });
    group.finish();
}

criterion_group!(benches, tables);
criterion_main!(benches);
