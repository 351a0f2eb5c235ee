//! How fast whole campaigns are drawn.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use trainyard_sim::campaign::{
    Campaign, Checkpoint, Evaluation, Hazards, SplitLognormal, StartUp, StepTime, Steps, reclaims_per_hour,
    simulate_campaign,
};
use trainyard_units::Seconds;

/// 90 epochs of ImageNet at batch 2 048 on 8 spot instances: 56 340 steps of 0.1 s, evaluated after each epoch.
fn resnet50() -> Campaign {
    let start = StartUp { queue: Seconds(0.0), machines: Seconds(150.0), software: Seconds(130.0), spread: 0.4 };
    Campaign {
        instances: 8,
        steps: Steps { mean: 56_340, spread: 0.02 },
        step_time: StepTime {
            median: Seconds(0.1),
            spread: SplitLognormal { below: 0.1, above: 0.1 },
            straggler: 0.05,
        },
        start,
        restart: start,
        download: Seconds(300.0),
        checkpoint: Checkpoint { write: Seconds(2.0), read: Seconds(2.0), interval: Seconds(300.0) },
        evaluation: Some(Evaluation { every: 626, time: Seconds(5.0) }),
        hazards: Hazards {
            reclaims_per_hour: 20.0 * reclaims_per_hour(0.2),
            notice: Seconds(120.0),
            wait: Seconds(600.0),
            failures_per_hour: 1.0 / 6_335.0,
        },
        jobs: None,
        price: None,
    }
}

fn campaigns(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("campaign, 10 k courses of 90 epochs of ResNet-50 on 8 instances");
    group.sample_size(10);
    let campaign = resnet50();
    group.bench_function("all cores (figure: 2 s on 2 cores)", |bencher| {
        bencher.iter(|| simulate_campaign(black_box(&campaign), 10_000, 1));
    });
    group.finish();
}

criterion_group!(benches, campaigns);
criterion_main!(benches);
