//! What a user should know of a plan on a cluster of one's own: machines that stay idle, and machines that differ.

use super::limits::Limits;
use super::solve::ENOUGH;
use crate::problem::{Description, Place, Problem};
use crate::search::{Aim, Evaluated, INDISTINCT, search};
use trainyard_hardware_profiles::Cluster;
use trainyard_units::{Seconds, human_count, human_duration};

/// Lists sentences about machines of a cluster file that another plan would use better than `chosen`.
pub(crate) fn unused(problem: &Problem, limits: &Limits, chosen: &Evaluated) -> Vec<String> {
    let Place::Owned { machine, described_by: Description::ClusterFile(_), .. } = &problem.place else {
        return Vec::new();
    };
    if machine.cluster.is_mixed() {
        let whole = chosen.plan.cluster().instance == machine.cluster.instance;
        let launched_by_hand = "these machines differ: `export` writes no files for them, since no launcher starts one plan \
                                on all of them";
        return if whole { vec![launched_by_hand.into()] } else { Vec::new() };
    }
    idle(problem, limits, &machine.cluster, chosen).into_iter().collect()
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
