//! The simulation of one step, summed up.

use crate::capacity::{Footprint, footprint};
use crate::cost::{Costs, LayerTable, Peaks, device_costs};
use crate::engine::run;
use crate::ensemble::Ensemble;
use crate::layout::Layout;
use crate::machine::{Machine, MachineError};
use crate::recurrence::Course;
use crate::shortened::{InTime, Wanted, in_time};
use crate::step::{Options, Step};
use crate::stretches::Stretches;
use std::borrow::Cow;
use trainyard_plan::document::Phases;
use trainyard_plan::operators::{LayerRole, Pass};
use trainyard_plan::{Activity, Counted, Plan, Rank, Recompute, StageUse, StepSize, StreamKind, Timeline, Usage};
use trainyard_units::{Bytes, Flops, Instant, Seconds};

/// The outcome of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Seconds of one optimizer step.
    pub step_time: Seconds,
    /// Use of each stage's device.
    pub stages: Vec<StageUse>,
    /// Idle time of the pipeline over its ideal time, communication apart.
    pub bubble: f64,
    /// Time that communication adds to the step: the step time less that with links that take no time.
    pub exposed_communication: Seconds,
    /// Where the step goes on the busiest stage.
    pub phases: Phases,
    /// Model FLOPs over peak FLOPs; nothing where no peak is known.
    pub mfu: Option<f64>,
    /// Memory of each stage.
    pub footprint: Footprint,
    /// Ranks that were simulated, each for all that behave as it does.
    pub actors: u32,
    stretches: Stretches,
}

impl Outcome {
    /// When everything happened, on the first rank of each stage.
    pub fn timeline(&self) -> Cow<'_, Timeline> {
        self.stretches.timeline()
    }

    /// The memory that it takes, about.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.stretches.bytes()
    }
}

/// Bytes of a node with its edges, progress and place in the queue. Measured: 0.42 kB a node for 16 384 ranks of which
/// each was simulated, rounded up.
const NODE_BYTES: u64 = 512;

/// Nodes for each pass: itself and what it sends or gathers.
const NODES_PER_PASS: u64 = 2;

/// Bytes of a rank's communications and links while ranks are folded.
const RANK_BYTES: u64 = 8 << 10;

/// Bytes of a machine's links, whether ranks are on it or not. Measured: 0.7 kB a machine of 8 GPUs for 10⁶ of them,
/// rounded up.
const MACHINE_BYTES: u64 = 1 << 10;

/// Memory that a simulation takes at most, about. A fold's ranks are known only when it is done: where every device is
/// different, each of them is simulated.
pub fn memory_needed(plan: &Plan, options: Options) -> Bytes {
    let ranks = u64::from(plan.mesh().ranks());
    let each = options.unfold || options.variation.is_some();
    let copies = if each { ranks / u64::from(plan.mesh().pipeline()) } else { 1 };
    let passes = StepSize::of(plan.spec(), plan.graph().len()).tasks();
    let places = ranks * RANK_BYTES + u64::from(plan.cluster().instances) * MACHINE_BYTES;
    Bytes(passes.saturating_mul(NODES_PER_PASS * copies * NODE_BYTES).saturating_add(places))
}

/// One step of `plan` on `machine`.
///
/// # Errors
///
/// When the machine does not admit the plan or was not measured for it. That a plan does not fit into memory is no
/// error here: the outcome's footprint says so.
pub fn simulate(plan: &Plan, machine: &Machine) -> Result<Outcome, MachineError> {
    simulate_with(plan, machine, Options::default())
}

/// The same, with a say in how.
///
/// # Errors
///
/// As [`simulate`].
pub fn simulate_with(plan: &Plan, machine: &Machine, options: Options) -> Result<Outcome, MachineError> {
    let costs = Step::costs(plan, machine, options)?;
    in_time((plan, machine), options, &costs, Wanted::Silent, |put| outcome(plan, machine, put))
}

fn outcome(plan: &Plan, machine: &Machine, put: InTime<'_>) -> Outcome {
    let InTime { step, ensemble, course, silent } = put;
    let silent = silent.expect("it was wanted");
    let ranks = step.first_ranks();
    let step_time = step_time_of(ensemble, &course);
    let usage = ensemble.usage(&course, &ranks);
    let stages = usage.stage_use();
    let exposed_communication = (step_time - step_time_of(ensemble, &silent)).max(Seconds::ZERO);
    Outcome {
        step_time,
        bubble: ensemble.usage(&silent, &ranks).bubble(),
        exposed_communication,
        phases: phases(&usage, &stages, exposed_communication),
        mfu: mfu(plan, machine, step_time),
        footprint: footprint(plan, machine),
        actors: ensemble.program.actors,
        stages,
        stretches: ensemble.timeline(&course, &ranks),
    }
}

/// The step time that [`simulate`] finds, and nothing else: what a search compares.
///
/// # Errors
///
/// As [`simulate`].
pub fn step_time(plan: &Plan, machine: &Machine) -> Result<Seconds, MachineError> {
    step_time_with(plan, machine, &LayerTable::new(plan, machine)?)
}

/// The same where layers are priced already.
///
/// # Errors
///
/// As [`simulate`].
pub fn step_time_with(plan: &Plan, machine: &Machine, layers: &LayerTable) -> Result<Seconds, MachineError> {
    let costs = Costs::with_layers(plan, machine, layers.clone())?;
    in_time((plan, machine), Options::default(), &costs, Wanted::One, |put| step_time_of(put.ensemble, &put.course))
}

/// Returns the timeline of every rank, in the order of ranks.
///
/// # Errors
///
/// As [`simulate`].
pub fn rank_timelines(plan: &Plan, machine: &Machine, options: Options) -> Result<Vec<Timeline>, MachineError> {
    let costs = Step::costs(plan, machine, options)?;
    let step = Step::in_full(plan, machine, options, &costs)?;
    let ensemble = step.ensemble();
    let course = run(&ensemble.program).into();
    Ok((0..plan.mesh().ranks()).map(|rank| ensemble.timeline(&course, &[Rank(rank)]).timeline().into_owned()).collect())
}

/// From start to end, or the step that is counted. Steps that follow each other without a pause take no less than the
/// kernels of the busiest device, though what it puts off to the next step may not show in the one that is counted.
pub(crate) fn step_time_of(ensemble: &Ensemble<'_>, course: &Course) -> Seconds {
    match ensemble.window(course) {
        Some((start, end)) => end.since(start).seconds().max(ensemble.busiest(course)),
        None => course.end().unwrap_or(Instant::START).seconds(),
    }
}

/// Where the step goes on the stage that computes longest. What is left is moving bytes, as far as the step would be
/// shorter without, and waiting.
fn phases(usage: &Usage, stages: &[StageUse], exposed: Seconds) -> Phases {
    let busiest = stages.iter().max_by(|a, b| a.busy.0.total_cmp(&b.busy.0)).map(|used| used.stage);
    let of_busiest = |counted: &Counted| Some(counted.stream) == busiest.map(StreamKind::Compute);
    let sum = |wanted: fn(&Activity) -> bool| -> f64 {
        usage.time_of(|counted| of_busiest(counted) && wanted(&counted.activity)).seconds().0
    };
    let forward_s = sum(|activity| matches!(activity, Activity::Forward { .. }));
    let backward_s = sum(|activity| matches!(activity, Activity::Backward { .. } | Activity::BackwardWeights { .. }));
    let optimizer_s = sum(|activity| matches!(activity, Activity::Update { .. }));
    let rest = (usage.step_time().0 - forward_s - backward_s - optimizer_s).max(0.0);
    let communication_s = exposed.0.min(rest);
    Phases { forward_s, backward_s, communication_s, wait_s: rest - communication_s, optimizer_s, other_s: 0.0 }
}

fn mfu(plan: &Plan, machine: &Machine, step_time: Seconds) -> Option<f64> {
    let peak = all_devices(plan, machine, |peaks| peaks.arithmetic.0)?;
    let needed = plan.graph().training_flops().0 * plan.batch().global as f64;
    Some(needed / (peak * step_time.0))
}

/// Returns the time that the arithmetic of a step takes if all of it goes as fast as large products do, without what a
/// causal mask hides and with what is computed again; `None` where nobody knows the peak.
pub fn least_step_time(plan: &Plan, machine: &Machine) -> Option<Seconds> {
    let reached = |peaks: Peaks| (peaks.products * machine.stack.gemm.value).min(1.0) * peaks.arithmetic.0;
    let graph = plan.graph();
    let unmasked = 1.0 - graph.masked_flops().0 / graph.training_flops().0;
    let blocks = graph.layers().filter(|layer| layer.role == LayerRole::Block && !layer.frozen);
    let again: Flops = blocks.flat_map(|layer| &layer.operators).map(|own| own.kind.flops(Pass::Forward)).sum();
    let again = if plan.recompute() == Recompute::Full { again } else { Flops(0.0) };
    let computed = (graph.training_flops() + again) * unmasked * plan.batch().global as f64;
    Some(Seconds(computed.0 / all_devices(plan, machine, reached)?))
}

/// Sums something of the peaks of the devices of all ranks.
fn all_devices(plan: &Plan, machine: &Machine, of: impl Fn(Peaks) -> f64) -> Option<f64> {
    let mesh = plan.mesh();
    let mut sum = 0.0;
    for rank in 0..mesh.ranks() {
        let pool = Layout { mesh, cluster: &machine.cluster }.pool(Rank(rank));
        sum += of(device_costs(&machine.cluster.pools[pool].device).peaks(plan.precision())?);
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use trainyard_hardware_profiles::catalog;
    use trainyard_models::find;
    use trainyard_plan::{ClusterSpec, PlanSpec};

    fn plan(instances: u32) -> Plan {
        let model = &find("mnist-mlp").expect("in the catalog").model;
        let cluster = ClusterSpec::of("p3.16xlarge", instances);
        Plan::try_from(PlanSpec::plain(model.spec(), cluster, model.graph().len())).expect("a valid plan")
    }

    #[test]
    fn machines_that_no_rank_is_on_take_memory_too() {
        let needed = |instances| memory_needed(&plan(instances), Options::default()).0;
        assert!(needed(1) < 1 << 20 && needed(1 << 20) > 1 << 30, "{} {}", needed(1), needed(1 << 20));
    }

    #[test]
    fn no_step_is_faster_than_its_products() {
        let model = &find("gpt2-xl").expect("in the catalog").model;
        for (instance, stack) in [("p4d.24xlarge", "megatron-core"), ("p5.48xlarge", "pytorch-fsdp-compiled")] {
            for recompute in [Recompute::None, Recompute::Full] {
                let spec = PlanSpec::plain(model.spec(), ClusterSpec::of(instance, 1), model.graph().len());
                let plan = Plan::try_from(PlanSpec { recompute, ..spec }).expect("a valid plan");
                let cluster = catalog().cluster(instance, 1).expect("in the catalog");
                let machine = Machine { cluster, stack: catalog().stack(stack).expect("in the catalog").clone() };
                let least = least_step_time(&plan, &machine).expect("the peak is known").0;
                let taken = step_time(&plan, &machine).expect("simulated").0;
                assert!(least < taken && least > 0.3 * taken, "{instance}, {recompute}: {least} of {taken}");
            }
        }
    }

    #[test]
    fn what_outlasts_simulated_time_is_refused() {
        let cluster = catalog().cluster("p3.16xlarge", 1).expect("in the catalog");
        let mut machine = Machine { cluster, stack: catalog().stack("pytorch").expect("in the catalog").clone() };
        assert!(simulate(&plan(1), &machine).is_ok());
        for slowdown in [1e30, f64::INFINITY, f64::NAN] {
            Arc::make_mut(&mut machine.stack).overlap_slowdown.value = slowdown;
            let error = simulate(&plan(1), &machine).expect_err("too long");
            assert!(matches!(error, MachineError::Endless { .. }) && error.hint().is_some(), "{error}");
        }
    }
}
