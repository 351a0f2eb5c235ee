//! The search space: every plan that could be built, in canonical order. Each divisibility rule is stated once.

use crate::fix::Fixed;
use crate::problem::{Place, Problem};
use trainyard_hardware_profiles::{Cluster, Device, catalog};
use trainyard_models::Model;
use trainyard_plan::{BatchSpec, ParallelSpec, Precision, Recompute, ScheduleName, StepSize};

/// A plan in a few words: everything but the cut into stages, which follows from costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Which type of machine of the place.
    pub(crate) choice: usize,
    pub(crate) instances: u32,
    pub(crate) parallel: ParallelSpec,
    pub(crate) batch: BatchSpec,
    pub(crate) schedule: ScheduleName,
    pub(crate) precision: Precision,
    pub(crate) recompute: Recompute,
}

/// The largest micro-batch that is considered: beyond it a GPU is long saturated.
const MICRO_MAX: u64 = 256;

/// All candidates of a problem that have the held fields.
pub(crate) fn candidates(problem: &Problem, fixed: &Fixed) -> Vec<Candidate> {
    let mut all = Vec::new();
    for (choice, (name, most)) in problem.place.choices().into_iter().enumerate() {
        if fixed.instance.as_ref().is_some_and(|held| *held != name) {
            continue;
        }
        for instances in machine_counts(&problem.place, fixed.instances, most) {
            let cluster = problem.place.machine(choice, instances, catalog()).cluster;
            let devices = devices_of_each(&cluster);
            for ranks in rank_counts(&cluster) {
                for parallel in degrees(&problem.model, ranks, devices) {
                    push(&mut all, problem, fixed, (choice, instances), parallel);
                }
            }
        }
    }
    all
}

/// Numbers of machines to choose from, at most `most`. A mixed cluster is used whole; what is rented may be held at any
/// number.
fn machine_counts(place: &Place, held: Option<u32>, most: u32) -> Vec<u32> {
    match (place, held) {
        (Place::Rented(_), Some(held)) => vec![held],
        (Place::Owned { machine, .. }, _) if machine.cluster.is_mixed() => {
            Some(most).filter(|all| held.is_none_or(|held| held == *all)).into_iter().collect()
        }
        _ => (1..=most).filter(|count| held.is_none_or(|held| held == *count)).collect(),
    }
}

/// Devices of a machine, or, where machines differ, the most that divides those of each.
fn devices_of_each(cluster: &Cluster) -> u32 {
    cluster.pools.iter().map(|pool| pool.devices_per_instance).fold(0, greatest_common_divisor)
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Machines are used whole; one that was measured may stay partly idle, each rank then having more threads.
fn rank_counts(cluster: &Cluster) -> std::ops::RangeInclusive<u32> {
    match cluster.first().device {
        Device::Measured(_) => 1..=cluster.devices(),
        Device::Gpu(_) => cluster.devices()..=cluster.devices(),
    }
}

/// Degrees whose product is `ranks`. A tensor-parallel group stays inside a machine and splits the heads evenly; a
/// stage has at least one layer.
fn degrees(model: &Model, ranks: u32, devices: u32) -> Vec<ParallelSpec> {
    let layers = model.graph().len() as u32;
    let splits = |tensor: u32| match model.tensor_heads() {
        Some(heads) => devices.is_multiple_of(tensor) && heads.is_multiple_of(u64::from(tensor)),
        None => tensor == 1,
    };
    divisors(u64::from(ranks))
        .into_iter()
        .map(|tensor| tensor as u32)
        .filter(|tensor| splits(*tensor))
        .flat_map(|tensor| {
            divisors(u64::from(ranks / tensor)).into_iter().map(move |pipeline| (tensor, pipeline as u32))
        })
        .filter(|(_, pipeline)| *pipeline <= layers)
        .map(|(tensor, pipeline)| ParallelSpec {
            data: ranks / tensor / pipeline,
            tensor,
            pipeline,
            ..ParallelSpec::default()
        })
        .collect()
}

fn push(
    all: &mut Vec<Candidate>,
    problem: &Problem,
    fixed: &Fixed,
    (choice, instances): (usize, u32),
    parallel: ParallelSpec,
) {
    for global in problem.global_batches.iter().copied().filter(|g| g.is_multiple_of(u64::from(parallel.data))) {
        let replica = global / u64::from(parallel.data);
        for micro in divisors(replica).into_iter().take_while(|micro| *micro <= MICRO_MAX) {
            let batch = BatchSpec { global, micro, accumulation: replica / micro };
            for schedule in schedules(parallel.pipeline) {
                let (accumulation, runs) = (batch.accumulation, u64::from(parallel.pipeline));
                if !(StepSize { schedule: *schedule, accumulation, runs, gathered_layers: 0 }).is_simulable() {
                    continue;
                }
                for precision in problem.precisions.iter().copied() {
                    for recompute in Recompute::ALL.iter().copied() {
                        let candidate =
                            Candidate { choice, instances, parallel, batch, schedule: *schedule, precision, recompute };
                        if fixed.admits(&candidate) {
                            all.push(candidate);
                        }
                    }
                }
            }
        }
    }
}

fn schedules(pipeline: u32) -> &'static [ScheduleName] {
    if pipeline == 1 { &[ScheduleName::None] } else { &[ScheduleName::GPipe, ScheduleName::OneForwardOneBackward] }
}

/// The divisors of a positive number, ascending.
fn divisors(number: u64) -> Vec<u64> {
    let mut small: Vec<u64> = (1..=number.isqrt()).filter(|d| number.is_multiple_of(*d)).collect();
    let large: Vec<u64> = small.iter().rev().map(|d| number / d).filter(|d| *d > number / d).collect();
    small.extend(large);
    small
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_are_complete_and_ascending() {
        assert_eq!(divisors(1), [1]);
        assert_eq!(divisors(36), [1, 2, 3, 4, 6, 9, 12, 18, 36]);
        assert_eq!(divisors(50), [1, 2, 5, 10, 25, 50]);
    }

    #[test]
    fn degrees_multiply_to_the_ranks_and_divide_the_heads() {
        let model = &trainyard_models::find("gpt2-xl").expect("in the catalog").model;
        let all = degrees(model, 16, 8);
        assert!(all.iter().all(|p| p.data * p.tensor * p.pipeline == 16));
        // 25 heads have no even divisor.
        assert!(all.iter().all(|p| p.tensor == 1));
        assert_eq!(all.len(), 5);
    }
}
