//! What machines that were measured are not known for, though the executor runs it.

use trainyard_plan::{
    GradientCompression, GradientReduction, NotExecutable, Offload, Optimizer, Plan, Precision, Recompute,
    ScheduleName, StateSharding, not_executable,
};

/// The first field of `plan` that cannot be predicted for a measured machine, because nobody can run it there, or
/// because profiles do not know it.
pub(crate) fn unmeasured(plan: &Plan) -> Option<NotExecutable> {
    if let Some(field) = not_executable(plan) {
        return Some(field);
    }
    let parallel = plan.mesh().parallel();
    let (schedule, recompute, sharding) = (plan.schedule(), plan.recompute(), plan.state_sharding());
    let (reduction, compression) = (plan.gradient_reduction(), plan.gradient_compression());
    let schedules = [ScheduleName::None, ScheduleName::GPipe, ScheduleName::OneForwardOneBackward];
    let optimizer = plan.optimizer();
    let optimized = matches!(optimizer, Optimizer::AdamW | Optimizer::Sgd);
    let fields: [(&str, String, bool, &str); 11] = [
        ("parallel.tensor", parallel.tensor.to_string(), parallel.tensor == 1, "parallel.tensor 1"),
        ("parallel.context", parallel.context.to_string(), parallel.context == 1, "parallel.context 1"),
        ("parallel.expert", parallel.expert.to_string(), parallel.expert == 1, "parallel.expert 1"),
        ("precision", plan.precision().to_string(), plan.precision() == Precision::Fp32, "fp32"),
        ("schedule", schedule.to_string(), schedules.contains(&schedule), "none, gpipe or 1f1b"),
        ("recompute", recompute.to_string(), recompute != Recompute::Selective, "none or full"),
        ("state_sharding", sharding.to_string(), sharding == StateSharding::None, "state_sharding none"),
        ("gradient_reduction", reduction.to_string(), reduction == GradientReduction::Step, "step"),
        ("gradient_compression", compression.to_string(), compression == GradientCompression::None, "none"),
        ("optimizer", optimizer.to_string(), optimized, "adamw or sgd"),
        ("offload", plan.offload().to_string(), plan.offload() == Offload::NONE, "none"),
    ];
    fields.into_iter().find(|(_, _, runs, _)| !runs).map(|(field, value, _, allowed)| NotExecutable {
        field,
        value,
        allowed,
    })
}
