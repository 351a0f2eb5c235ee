//! A closed form that no simulation beats: for pruning a search, and as a check of the engine.

use crate::cost::Prices;
use crate::machine::{Machine, MachineError};
use trainyard_plan::operators::Pass;
use trainyard_plan::{Plan, Recompute, Segment};
use trainyard_units::Seconds;

/// A lower bound on the step time of `plan` on `machine`.
///
/// A stage computes all its micro-batches one after another; before the first one reaches it, and after its last
/// backward, that micro-batch goes through all earlier stages. Its gradients are reduced after the last micro-batch's
/// forward at the earliest, and then its parameters are updated. Transfers, and how the rest overlaps, only add.
///
/// # Errors
///
/// When the machine does not admit the plan or was not measured for it.
pub fn step_time_bound(plan: &Plan, machine: &Machine) -> Result<Seconds, MachineError> {
    let prices = Prices::new(plan, machine)?;
    let micro_batches = plan.batch().accumulation as f64;
    let mut before = Seconds::ZERO;
    let mut bound = Seconds::ZERO;
    let mut first_reaches = Seconds::ZERO;
    for stage in plan.stages().ids() {
        let segment = |pass, accumulate| Segment {
            stage,
            layers: plan.stages().layers(stage),
            pass,
            recompute: pass == Pass::Backward && plan.recompute() == Recompute::Full,
            accumulate,
        };
        let forward = prices.segment(&segment(Pass::Forward, false))?;
        let first = prices.segment(&segment(Pass::Backward, false))?;
        let again = prices.segment(&segment(Pass::Backward, true))?;
        let computed = forward * micro_batches + first + again * (micro_batches - 1.0);
        let last = if plan.batch().accumulation > 1 { again } else { first };
        let held = plan.held(&plan.stages().layers(stage));
        let reduced = match (plan.mesh().data(), machine.lowering().bucket) {
            (1, _) => Seconds::ZERO,
            (_, None) => computed + prices.reduce_gradients(stage, held)?,
            (_, Some(_)) => computed - last + prices.reduce_gradients(stage, held)?,
        };
        let updated = prices.update(held)?;
        // The first stage's backward ends the pipeline; a later stage may update while earlier ones still compute.
        bound = bound.max(before + computed).max(first_reaches + computed.max(reduced) + updated);
        first_reaches += forward;
        before += forward + last;
    }
    Ok(bound)
}
