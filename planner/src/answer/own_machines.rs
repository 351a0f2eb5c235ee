//! What a plan leaves unused of a cluster of one's own: machines that stay idle, and kinds of machines that are faster by
//! themselves than with slower ones beside them.

use super::limits::Limits;
use super::solve::ENOUGH;
use crate::problem::{Description, Place, Problem};
use crate::search::{Aim, Evaluated, INDISTINCT, degrees, search};
use trainyard_hardware_profiles::{Cluster, Pool};
use trainyard_plan::Precision;
use trainyard_sim::Machine;
use trainyard_units::{Seconds, human_count, human_duration};

/// Lists sentences about machines of a cluster file that another plan would use better than `chosen`.
pub(crate) fn unused(problem: &Problem, limits: &Limits, chosen: &Evaluated) -> Vec<String> {
    let Place::Owned { machine, described_by: Description::ClusterFile(_), .. } = &problem.place else {
        return Vec::new();
    };
    if machine.cluster.is_mixed() {
        let mut all: Vec<String> = faster_alone(problem, limits, machine, chosen).into_iter().collect();
        all.push("no launcher starts one plan on different machines: `export` writes no files for it".into());
        return all;
    }
    idle(problem, limits, &machine.cluster, chosen).into_iter().collect()
}

/// Says which kind of machines is faster without the others.
fn faster_alone(problem: &Problem, limits: &Limits, machine: &Machine, chosen: &Evaluated) -> Option<String> {
    let best = |pool: &Pool| best(&alone(problem, machine, pool), limits);
    let found = machine.cluster.pools.iter().filter_map(best);
    let fastest = found.min_by(|one, other| one.elapsed_s.total_cmp(&other.elapsed_s))?;
    let (cluster, takes) = (fastest.plan.cluster(), fastest.elapsed_s);
    (takes * (1.0 + INDISTINCT) < chosen.elapsed_s).then(|| {
        format!(
            "{} × {} without the other machines would be {:.1} times as fast ({}: {}, {}): the fast ones wait for the slow \
             ones; describe them in a file of their own",
            cluster.instances,
            cluster.instance,
            chosen.elapsed_s / takes,
            human_duration(Seconds(takes)),
            degrees(&fastest.plan),
            fastest.plan.precision(),
        )
    })
}

/// Returns the same problem on one kind of the machines, in number formats too that only this kind has units for.
fn alone(problem: &Problem, machine: &Machine, pool: &Pool) -> Problem {
    let precisions = if problem.names_precisions {
        [&problem.precisions[..], &problem.unusable_precisions].concat()
    } else {
        Precision::ALL.to_vec()
    };
    let mut problem = Problem { enough: Some(ENOUGH), precisions, ..problem.clone() };
    if let Place::Owned { machine: own, .. } = &mut problem.place {
        own.cluster = Cluster { instance: pool.name.clone(), pools: vec![pool.clone()], ..machine.cluster.clone() };
    }
    problem
}

fn best(problem: &Problem, limits: &Limits) -> Option<Evaluated> {
    search(problem, &limits.fixed, Aim::best(problem.objective)).best.into_iter().next()
}

/// Says that machines stay idle because the batch does not divide over all of them, and with which it would.
fn idle(problem: &Problem, limits: &Limits, cluster: &Cluster, chosen: &Evaluated) -> Option<String> {
    let (all, used) = (cluster.machines(), chosen.plan.cluster().instances);
    let batch = chosen.plan.batch().global;
    if used == all
        || batch.is_multiple_of(cluster.devices().into())
        || problem.global_batches.len() > 1
        || limits.fixed.instances.is_some()
    {
        return None;
    }
    let with =
        |batch: u64| best(&Problem { enough: Some(ENOUGH), global_batches: vec![batch], ..problem.clone() }, limits);
    let devices = u64::from(cluster.devices());
    let near = near(batch, devices).into_iter().filter_map(with).filter(|plan| plan.plan.cluster().instances == all);
    let fastest = near.min_by(|one, other| one.elapsed_s.total_cmp(&other.elapsed_s))?;
    (fastest.elapsed_s * (1.0 + INDISTINCT) < chosen.elapsed_s).then(|| {
        format!(
            "{} of {all} machines stay idle, because a global batch of {} does not divide over all {devices} devices: with \
             --global-batch {} training takes {} instead of {}",
            all - used,
            human_count(batch),
            fastest.plan.batch().global,
            human_duration(Seconds(fastest.elapsed_s)),
            human_duration(Seconds(chosen.elapsed_s)),
        )
    })
}

/// Returns the batches next to one that give each device as many samples: of many samples a multiple of some power of two,
/// which micro-batches divide.
fn near(batch: u64, devices: u64) -> Vec<u64> {
    let each = batch / devices;
    let step = 1 << (each / STEPS).max(1).ilog2();
    let below = each / step * step;
    [below, below + step].into_iter().filter(|samples| *samples > 0).map(|samples| samples * devices).collect()
}

/// The least number of steps from no samples of a device to those of a batch near by, where there are as many samples.
const STEPS: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_near_by_divide_over_all_devices() {
        assert_eq!(near(4096, 24), [3840, 4224]);
        assert_eq!(near(64, 48), [48, 96]);
        assert_eq!(near(10, 48), [48]);
    }
}
