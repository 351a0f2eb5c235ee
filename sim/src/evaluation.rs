//! Forward passes alone: what it takes to test a model on samples that it is not trained on.

use crate::cost::{Costs, LayerTable};
use crate::machine::{Machine, MachineError};
use trainyard_plan::{
    Collective, Content, CopyDirection, Exchange, ParameterCounts, Plan, Recompute, Segment, StageId, StagePass,
    StateSharding, Work,
};
use trainyard_units::Seconds;

/// Returns the time of one evaluation on `samples` samples, which replicas share and go through in micro-batches of the
/// training's size.
///
/// As many micro-batches as a step has go through the stages one behind the other (Megatron-LM, `evaluate`), so that they
/// take what the first takes through all stages and, for each of the others, what the slowest stage takes; then come the
/// next. There is no backward pass and no update;
/// weights that are shared out or kept elsewhere are brought for every micro-batch, as in training. Samples are taken to be
/// there.
///
/// # Errors
///
/// When the machine does not admit the plan or was not measured for it.
pub fn evaluation_time(plan: &Plan, machine: &Machine, samples: u64) -> Result<Seconds, MachineError> {
    evaluation_time_with(plan, machine, &LayerTable::new(plan, machine)?, samples)
}

/// The same where layers are priced already.
///
/// # Errors
///
/// As [`evaluation_time`].
pub fn evaluation_time_with(
    plan: &Plan,
    machine: &Machine,
    layers: &LayerTable,
    samples: u64,
) -> Result<Seconds, MachineError> {
    let costs = Costs::with_layers(plan, machine, layers.clone())?;
    let micro_batches = micro_batches(samples, plan.batch().micro, plan.mesh().parallel().data);
    let (mut through, mut slowest) = (Seconds::ZERO, Seconds::ZERO);
    for stage in plan.stages().ids() {
        let passes = stage_forward(plan, machine, &costs, stage)?;
        through += passes + sent_on(plan, &costs, stage)?;
        slowest = slowest.max(passes);
    }
    let rounds = micro_batches.div_ceil(plan.batch().accumulation);
    Ok(through * rounds as f64 + slowest * (micro_batches - rounds) as f64)
}

/// Returns the micro-batches that the replica with most of them goes through in an evaluation, at least one.
pub fn micro_batches(samples: u64, micro: u64, replicas: u32) -> u64 {
    samples.div_ceil(micro.saturating_mul(u64::from(replicas))).max(1)
}

/// One micro-batch forward through all runs of layers of a stage, with the weights that are brought for them.
fn stage_forward(plan: &Plan, machine: &Machine, costs: &Costs<'_>, stage: StageId) -> Result<Seconds, MachineError> {
    let (mut kernels, mut brought) = (Seconds::ZERO, Seconds::ZERO);
    for layers in plan.stages().chunks_of(stage) {
        if plan.gathers_weights() {
            for layer in layers.clone() {
                brought += weights_of(plan, costs, stage, plan.held(&(layer..layer + 1)))?;
            }
        }
        let segment =
            Segment { stage, layers, pass: StagePass::Forward, recompute: Recompute::None, accumulate: false };
        let mut of_run = Seconds::ZERO;
        for pool in 0..machine.cluster.pools.len() {
            of_run = of_run.max(costs.segment(&segment, pool)?);
        }
        kernels += of_run;
    }
    if !machine.lowering().sharded_overlap {
        return Ok(kernels + brought);
    }
    let slowdown = machine.overlap_slowdown();
    Ok(brought.max(kernels + brought * (slowdown / (1.0 + slowdown))))
}

/// Bringing the weights of a layer for a pass: from where they are kept, and from the ranks that share them out.
fn weights_of(plan: &Plan, costs: &Costs<'_>, stage: StageId, held: ParameterCounts) -> Result<Seconds, MachineError> {
    let mut brought = Seconds::ZERO;
    if let Some(store) = plan.offload().parameters {
        let bytes = plan.kept_weights(held).gathered_bytes(plan.precision().element_bytes());
        brought += costs.at_least(Work::Copy { stage, way: CopyDirection::HostToDevice, store, bytes })?.1;
    }
    if plan.shards(StateSharding::Parameters) {
        for (group, held) in plan.gather_groups(held) {
            let exchange =
                Exchange { collective: Collective::AllGather, stage, group, content: Content::Weights, held };
            brought += costs.at_least(Work::Exchange(exchange))?.1;
        }
    }
    Ok(brought)
}

/// A micro-batch's activations to the next stage.
fn sent_on(plan: &Plan, costs: &Costs<'_>, stage: StageId) -> Result<Seconds, MachineError> {
    let next = StageId(stage.0 + 1);
    if next.0 == plan.stages().count() {
        return Ok(Seconds::ZERO);
    }
    let bytes = plan.boundary_bytes(plan.stages().chunk(stage, 0).end - 1);
    Ok(costs.at_least(Work::Transfer { from: stage, to: next, bytes })?.1)
}
