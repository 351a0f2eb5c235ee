//! A closed form that no simulation beats: for pruning a search, and as a check of the engine.

use crate::cost::Prices;
use crate::machine::{Machine, MachineError};
use trainyard_plan::operators::Pass;
use trainyard_plan::{Plan, Recompute, Segment};
use trainyard_units::Seconds;

/// A lower bound on the step time of `plan` on `machine`.
///
/// A stage computes all its micro-batches one after another; before the first one reaches it, and after its last
/// backward, that micro-batch goes through all earlier stages. Transfers, reductions and updates only add.
///
/// # Errors
///
/// When the machine does not admit the plan or was not measured for it.
pub fn step_time_bound(plan: &Plan, machine: &Machine) -> Result<Seconds, MachineError> {
    let prices = Prices::new(plan, machine)?;
    let micro_batches = plan.batch().accumulation as f64;
    let mut before = Seconds::ZERO;
    let mut bound = Seconds::ZERO;
    for stage in plan.stages().ids() {
        let segment = |pass| Segment {
            stage,
            layers: plan.stages().layers(stage),
            pass,
            recompute: pass == Pass::Backward && plan.recompute() == Recompute::Full,
            accumulate: pass == Pass::Backward && plan.batch().accumulation > 1,
        };
        let both = prices.segment(&segment(Pass::Forward)) + prices.segment(&segment(Pass::Backward));
        bound = bound.max(before + both * micro_batches);
        before += both;
    }
    Ok(bound)
}
