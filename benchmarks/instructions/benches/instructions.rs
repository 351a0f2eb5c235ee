//! How many instructions the hottest paths take, which unlike their time is the same on a busy machine. Each limit is the
//! number that was counted when the path was last changed on purpose, and 5 % more; a change that needs more fails here.
//! `benchmarks/instructions/run` says what it needs.

#[path = "../../../sim/benches/large/mod.rs"]
mod large;

use gungraun::{Callgrind, EventKind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main};
use large::{Delays, job};
use std::hint::black_box;
use trainyard_plan::Plan;
use trainyard_sim::des::EventQueue;
use trainyard_sim::{Machine, Options, simulate_with, step_time, step_time_bound};
use trainyard_units::Instant;

/// What may be added to a count before it is a regression.
const TOLERANCE: f64 = 1.05;

/// So many millions of instructions were counted (rustc 1.95, x86-64, 2026-11-25).
fn counted(millions: f64) -> LibraryBenchmarkConfig {
    let most = (millions * 1e6 * TOLERANCE) as u64;
    LibraryBenchmarkConfig::default().tool(Callgrind::default().hard_limits([(EventKind::Ir, most)]).clone()).clone()
}

const PENDING: u32 = 1 << 16;

fn queue() -> (EventQueue, Delays) {
    let (mut queue, mut delays) = (EventQueue::with_capacity(PENDING as usize), Delays(1));
    for key in 0..PENDING {
        queue.schedule(delays.after(Instant::START), key);
    }
    (queue, delays)
}

#[library_benchmark(config = counted(39.74), setup = queue)]
fn events((mut queue, mut delays): (EventQueue, Delays)) -> u64 {
    let (mut keys, mut taken) = (Vec::new(), 0);
    while taken < u64::from(2 * PENDING) {
        let now = queue.next_instant(&mut keys).expect("as many are added as taken");
        taken += keys.len() as u64;
        for key in keys.drain(..) {
            queue.schedule(delays.after(now), key);
        }
    }
    taken
}

fn thousand_gpus() -> (Plan, Machine) {
    job(16, 8, 32, 96)
}

fn hundred_gpus() -> (Plan, Machine) {
    job(2, 8, 8, 96)
}

#[library_benchmark(config = counted(18.86), setup = thousand_gpus)]
fn step_folded((plan, machine): (Plan, Machine)) -> f64 {
    step_time(black_box(&plan), &machine).expect("priced").0
}

#[library_benchmark(config = counted(19.36), setup = hundred_gpus)]
fn step_unfolded((plan, machine): (Plan, Machine)) -> f64 {
    let unfolded = Options { unfold: true, ..Options::default() };
    simulate_with(black_box(&plan), &machine, unfolded).expect("priced").step_time.0
}

#[library_benchmark(config = counted(2.426), setup = thousand_gpus)]
fn bound((plan, machine): (Plan, Machine)) -> f64 {
    step_time_bound(black_box(&plan), &machine).expect("priced").0
}

library_benchmark_group!(name = paths, benchmarks = [events, step_folded, step_unfolded, bound]);
main!(library_benchmark_groups = paths);
