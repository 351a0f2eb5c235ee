//! What this program's own executor runs, and what machines that it measured are therefore known for.

use crate::offload::{Offload, Store};
use crate::spec::{
    GradientCompression, GradientReduction, Optimizer, Precision, Recompute, ScheduleName, StateSharding,
};
use crate::valid::Plan;
use std::fmt::Display;

/// The plans that the executor runs, whatever the model: one list for those who refuse plans and for those who search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each tells of one field of a plan")]
pub struct Executable {
    /// Whether ranks share layers.
    pub tensor: bool,
    /// Whether ranks share the tokens of a sample.
    pub context: bool,
    /// Whether ranks share experts.
    pub expert: bool,
    /// Number formats.
    pub precisions: &'static [Precision],
    /// Orders of micro-batches.
    pub schedules: &'static [ScheduleName],
    /// What may be computed again.
    pub recompute: &'static [Recompute],
    /// What replicas may share out.
    pub state_sharding: &'static [StateSharding],
    /// How often gradients may be summed.
    pub gradient_reduction: &'static [GradientReduction],
    /// Forms in which gradients travel.
    pub gradient_compression: &'static [GradientCompression],
    /// Update rules.
    pub optimizers: &'static [Optimizer],
    /// Whether the optimizer's state may be kept in main memory.
    pub offload: bool,
}

/// What is built.
pub const EXECUTABLE: Executable = Executable {
    tensor: true,
    context: false,
    expert: false,
    precisions: &[Precision::Fp32, Precision::Bf16Mixed, Precision::Fp16Mixed],
    schedules: &[
        ScheduleName::None,
        ScheduleName::GPipe,
        ScheduleName::OneForwardOneBackward,
        ScheduleName::Interleaved,
    ],
    recompute: &[Recompute::None, Recompute::Full],
    state_sharding: StateSharding::ALL,
    gradient_reduction: GradientReduction::ALL,
    gradient_compression: &[GradientCompression::None, GradientCompression::Fp16],
    optimizers: &[
        Optimizer::AdamW,
        Optimizer::Adam,
        Optimizer::Sgd,
        Optimizer::Momentum,
        Optimizer::Lars,
        Optimizer::Lamb,
    ],
    offload: true,
};

/// A field of a plan that the executor does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotExecutable {
    /// Path of the field in the plan.
    pub field: &'static str,
    /// What it holds.
    pub value: String,
    /// What would run.
    pub allowed: String,
}

/// The first field of `plan` that the executor does not run, whatever the model; nothing if it runs them all.
pub fn not_executable(plan: &Plan) -> Option<NotExecutable> {
    let (parallel, all) = (plan.mesh().parallel(), EXECUTABLE);
    let degree = |field: &'static str, degree: u32, built: bool| {
        let refused = degree > 1 && !built;
        refused.then(|| NotExecutable { field, value: degree.to_string(), allowed: format!("{field} 1") })
    };
    degree("parallel.tensor", parallel.tensor, all.tensor)
        .or_else(|| degree("parallel.context", parallel.context, all.context))
        .or_else(|| degree("parallel.expert", parallel.expert, all.expert))
        .or_else(|| among("precision", plan.precision(), all.precisions))
        .or_else(|| among("schedule", plan.schedule(), all.schedules))
        .or_else(|| among("recompute", plan.recompute(), all.recompute))
        .or_else(|| among("state_sharding", plan.state_sharding(), all.state_sharding))
        .or_else(|| among("gradient_reduction", plan.gradient_reduction(), all.gradient_reduction))
        .or_else(|| among("gradient_compression", plan.gradient_compression(), all.gradient_compression))
        .or_else(|| among("optimizer", plan.optimizer(), all.optimizers))
        .or_else(|| offload(plan.offload(), all.offload))
}

fn among<T: Copy + PartialEq + Display>(field: &'static str, value: T, built: &[T]) -> Option<NotExecutable> {
    (!built.contains(&value)).then(|| NotExecutable { field, value: value.to_string(), allowed: either(built) })
}

fn offload(value: Offload, built: bool) -> Option<NotExecutable> {
    let host = Offload { optimizer: Some(Store::Host), ..Offload::NONE };
    if value == Offload::NONE || (built && value == host) {
        return None;
    }
    let allowed = if built { format!("none or {host}") } else { "none".into() };
    Some(NotExecutable { field: "offload", value: value.to_string(), allowed })
}

/// `fp32`, `none or full`, `none, gpipe or 1f1b`.
fn either<T: Display>(values: &[T]) -> String {
    let names: Vec<String> = values.iter().map(ToString::to_string).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_told_as_a_choice() {
        assert_eq!(either(EXECUTABLE.precisions), "fp32, bf16-mixed or fp16-mixed");
        assert_eq!(either(&[Recompute::None, Recompute::Full]), "none or full");
        assert_eq!(either(&[1, 2, 3]), "1, 2 or 3");
        assert_eq!(either::<u8>(&[]), "");
    }

    #[test]
    fn only_the_optimizer_may_be_kept_elsewhere_and_only_in_main_memory() {
        let host = Offload { optimizer: Some(Store::Host), ..Offload::NONE };
        let disk = Offload { optimizer: Some(Store::Nvme), ..Offload::NONE };
        assert_eq!(offload(host, true), None);
        assert!(offload(host, false).is_some_and(|refused| refused.allowed == "none"));
        assert!(offload(disk, true).is_some_and(|refused| refused.allowed == format!("none or {host}")));
    }
}
