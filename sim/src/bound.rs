//! A closed form that no simulation beats.

use crate::cost::{LayerTable, Prices};
use crate::machine::{Machine, MachineError};
use trainyard_plan::{Held, Plan, Recompute, Segment, StageId, StagePass, StateSharding, Store, Way, Work};
use trainyard_units::{Bytes, Seconds};

/// A lower bound on the step time of `plan` on `machine`.
///
/// A stage computes all its micro-batches one after another; before the first one reaches it, and after its last
/// backward, that micro-batch goes through all earlier stages. Its gradients are reduced after the last micro-batch's
/// forward at the earliest, and then its parameters are updated. Transfers, and how the rest overlaps, only add. Where
/// steps follow each other without draining the pipeline, filling and draining do not count.
///
/// # Errors
///
/// When the machine does not admit the plan or was not measured for it.
pub fn step_time_bound(plan: &Plan, machine: &Machine) -> Result<Seconds, MachineError> {
    bound(plan, machine, &Prices::new(plan, machine)?)
}

/// The same where layers are priced already.
///
/// # Errors
///
/// As [`step_time_bound`].
pub fn step_time_bound_with(plan: &Plan, machine: &Machine, layers: &LayerTable) -> Result<Seconds, MachineError> {
    bound(plan, machine, &Prices::with_layers(plan, machine, layers.clone())?)
}

fn bound(plan: &Plan, machine: &Machine, prices: &Prices<'_>) -> Result<Seconds, MachineError> {
    let stages = plan.stages().ids().map(|stage| StageBound::new(plan, machine, prices, stage));
    let mut before = Seconds::ZERO;
    let mut first_reaches = Seconds::ZERO;
    let mut bound = Seconds::ZERO;
    for stage in stages {
        let StageBound { forward, last, computed, reduced, updated } = stage?;
        if !plan.schedule().flushes() {
            bound = bound.max(computed);
            continue;
        }
        // The first stage's backward ends the pipeline; a later stage may update while earlier ones still compute.
        bound = bound.max(before + computed).max(first_reaches + computed.max(reduced) + updated);
        first_reaches += forward;
        before += forward + last;
    }
    Ok(bound)
}

/// What one stage takes at least.
struct StageBound {
    /// One micro-batch forward through its first run.
    forward: Seconds,
    /// The last micro-batch backward through its first run.
    last: Seconds,
    /// All passes of all micro-batches.
    computed: Seconds,
    /// From the first pass to the end of the reduction.
    reduced: Seconds,
    /// The update.
    updated: Seconds,
}

impl StageBound {
    fn new(plan: &Plan, machine: &Machine, prices: &Prices<'_>, stage: StageId) -> Result<Self, MachineError> {
        let micro_batches = plan.batch().accumulation as f64;
        let fastest = |segment: &Segment| fastest_kind(machine, |pool| prices.segment(segment, pool));
        let (mut forward, mut last, mut last_of_all) = (Seconds::ZERO, Seconds::ZERO, Seconds::ZERO);
        let mut computed = Seconds::ZERO;
        for (run, layers) in (0..).zip(plan.stages().runs_of(stage)) {
            let segment = |pass, accumulate| Segment {
                stage,
                layers: layers.clone(),
                pass,
                recompute: if pass == StagePass::Backward { plan.recompute() } else { Recompute::None },
                accumulate,
            };
            let once = fastest(&segment(StagePass::Forward, false))?;
            let first = fastest(&segment(StagePass::Backward, false))?;
            let again = fastest(&segment(StagePass::Backward, true))?;
            computed += once * micro_batches + first + again * (micro_batches - 1.0);
            let of_run = if plan.batch().accumulation > 1 { again } else { first };
            last_of_all += of_run;
            if run == 0 {
                (forward, last) = (once, of_run);
            }
        }
        let held = plan.held_by(stage);
        let reduction = reduction(plan, prices, stage, held)?;
        // Reductions beside backward begin when the last micro-batch's backward does, at the earliest.
        let overlaps = machine.lowering().bucket.is_some() || plan.gathers_weights();
        let reduced = if overlaps { computed - last_of_all + reduction } else { computed + reduction };
        let updated = update(plan, machine, prices, stage, held)?;
        Ok(Self { forward, last, computed, reduced, updated })
    }
}

/// The price on the kind of machine where it is lowest.
fn fastest_kind(
    machine: &Machine,
    price: impl Fn(usize) -> Result<Seconds, MachineError>,
) -> Result<Seconds, MachineError> {
    let mut fastest = Seconds(f64::INFINITY);
    for pool in 0..machine.cluster.pools.len() {
        let seconds = price(pool)?;
        if seconds.0 < fastest.0 {
            fastest = seconds;
        }
    }
    Ok(fastest)
}

fn reduction(plan: &Plan, prices: &Prices<'_>, stage: StageId, held: Held) -> Result<Seconds, MachineError> {
    let mut longest = Seconds::ZERO;
    if plan.gradient_reduction() == trainyard_plan::GradientReduction::MicroBatch {
        return Ok(longest);
    }
    for chain in plan.reductions(held) {
        let mut chained = Seconds::ZERO;
        for (collective, group, held) in chain {
            let content = trainyard_plan::Content::Gradients;
            let exchange = trainyard_plan::Exchange { collective, stage, group, content, held };
            chained += prices.at_least(Work::Exchange(exchange))?;
        }
        longest = longest.max(chained);
    }
    Ok(longest)
}

fn update(
    plan: &Plan,
    machine: &Machine,
    prices: &Prices<'_>,
    stage: StageId,
    held: Held,
) -> Result<Seconds, MachineError> {
    let held = if plan.shards(StateSharding::Optimizer) { plan.shard_of(held) } else { held };
    let Some(store) = plan.offload().optimizer else {
        return fastest_kind(machine, |pool| prices.update(held, pool));
    };
    let bytes = Bytes(held.parameters * plan.precision().element_bytes());
    let out = prices.at_least(Work::Copy { stage, way: Way::Out, store: Store::Host, bytes })?;
    Ok(out + prices.at_least(Work::HostUpdate { stage, store, held })?)
}
