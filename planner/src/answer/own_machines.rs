//! Machines of one's own that another plan would use better, or that are unlike each other.

use super::limits::Limits;
use crate::problem::{GlobalBatches, Problem, of_type};
use crate::search::{Aim, Evaluated, INDISTINCT, search};
use trainyard_hardware_profiles::{Cluster, Fabric, Pool, Transport};
use trainyard_plan::{Fixed, Objective};
use trainyard_units::{Seconds, human_count, human_duration};

/// Lists sentences about machines of a cluster file that another plan would use better than `chosen`.
pub(crate) fn unused(problem: &Problem, limits: &Limits, chosen: &Evaluated) -> Vec<String> {
    let Some((machine, _)) = problem.place.cluster_file() else { return Vec::new() };
    let kind = &chosen.plan.cluster().instance;
    if machine.cluster.is_mixed() && *kind == machine.cluster.instance {
        let unlike = machine.cluster.unlike().map(launched_by_hand);
        return unlike.into_iter().chain(two_fabrics(&machine.cluster)).collect();
    }
    idle(problem, limits, &of_type(&machine.cluster, Some(kind)), chosen).into_iter().collect()
}

/// Says that machines are taken to reach each other over two kinds of fabric that need a gateway, if they do.
fn two_fabrics(cluster: &Cluster) -> Option<String> {
    let has = |pool: &&Pool, transport| matches!(&pool.fabric, Fabric::Wired { network, .. } if network.transport == transport);
    let on = |transport: Transport| cluster.pools.iter().find(|pool| has(pool, transport));
    let [infiniband, roce] = [on(Transport::Infiniband)?, on(Transport::Roce)?];
    Some(format!(
        "{} have InfiniBand and {} RoCE, which are two networks: NCCL goes between them over sockets, unless a gateway joins \
         them; the step is simulated as if one did",
        infiniband.name, roce.name
    ))
}

/// Says that nobody starts the same on machines that differ in `what`.
fn launched_by_hand(what: &str) -> String {
    format!(
        "the {what} of these machines differ, and `export` writes no files for that: launchers start the same on all"
    )
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
        || problem.global_batches.are_open()
        || limits.fixed.instances.is_some()
        || problem.place.max_instances().is_some()
        // Who seeks cost leaves machines idle on purpose.
        || problem.objective == Objective::Cost
        || problem.only_for_want_of_a_price && used == 1
    {
        return None;
    }
    let kind = &chosen.plan.cluster().instance;
    let fixed = Fixed { instance: Some(kind.clone()), ..limits.fixed.clone() };
    let limits = Limits { fixed, ..limits.clone() };
    let with =
        |batch: u64| best(&Problem { global_batches: GlobalBatches::exactly(batch), ..problem.briefly() }, &limits);
    let devices = u64::from(cluster.devices());
    let near = near(batch, devices).into_iter().filter_map(with).filter(|plan| plan.plan.cluster().instances == all);
    let fastest = near.min_by(|one, other| one.elapsed_s.total_cmp(&other.elapsed_s))?;
    let is_only = problem.place.cluster_file().is_some_and(|(machine, _)| !machine.cluster.is_mixed());
    let of_kind = if is_only { String::new() } else { format!("of {kind} ") };
    (fastest.elapsed_s * (1.0 + INDISTINCT) < chosen.elapsed_s).then(|| {
        format!(
            "{} of {all} machines {of_kind}stay idle, because a global batch of {} does not divide over all {devices} devices: with \
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
pub(super) fn near(batch: u64, devices: u64) -> Vec<u64> {
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
    use crate::{asking, problem};

    /// `export` refuses the same (`Cluster::unlike`).
    #[test]
    fn machines_on_which_launchers_cannot_start_the_same_are_told() {
        let told = |other: &str| {
            let network = "{ bandwidth = \"100 Gbit/s\", transport = \"infiniband\" }";
            let text = format!(
                "name = \"own\"\n[[machines]]\nname = \"a\"\ncount = 1\nlike = \"p4d.24xlarge\"\nnetwork = {network}\n\
                 [[machines]]\nname = \"b\"\ncount = 1\nlike = \"{other}\"\n\
                 network = {{ cards = 2, bandwidth = \"100 Gbit/s\", transport = \"infiniband\" }}\n"
            );
            let (mut job, own) = asking::on_own("gpt2", 64, &text);
            job.data.samples = Some(100_000);
            let problem = problem(&job, own).expect("solvable");
            let document = asking::answered(&problem, &job, &["instance=own"]).expect("a plan");
            document.warnings.into_iter().filter(|text| text.contains("`export`")).collect::<Vec<_>>()
        };
        assert_eq!(told("p4d.24xlarge"), Vec::<String>::new());
        assert_eq!(told("p4de.24xlarge"), [launched_by_hand("GPUs")]);
    }

    #[test]
    fn batches_near_by_divide_over_all_devices() {
        assert_eq!(near(4096, 24), [3840, 4224]);
        assert_eq!(near(64, 48), [48, 96]);
        assert_eq!(near(10, 48), [48]);
    }
}
