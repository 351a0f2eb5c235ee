//! What this program's own executor runs, and what machines that it measured are therefore known for.

use crate::offload::Store;
use crate::spec::{GradientCompression, Optimizer, Precision, Recompute};
use crate::valid::Plan;

/// A field of a plan that the executor does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotExecutable {
    /// Path of the field in the plan.
    pub field: &'static str,
    /// What it holds.
    pub value: String,
    /// What would run.
    pub allowed: &'static str,
}

/// The first field of `plan` that the executor does not run, whatever the model; nothing if it runs them all.
pub fn not_executable(plan: &Plan) -> Option<NotExecutable> {
    let parallel = plan.mesh().parallel();
    let schedule = plan.schedule();
    let compression = plan.gradient_compression();
    let optimizer = plan.optimizer();
    let compressed = matches!(compression, GradientCompression::None | GradientCompression::Fp16);
    let offload = plan.offload();
    let host = offload.activations.is_none()
        && offload.parameters.is_none()
        && offload.optimizer.is_none_or(|store| store == Store::Host);
    let schedules = "none, gpipe, 1f1b or interleaved-1f1b";
    let flushes = schedule.flushes();
    let fields: [(&str, String, bool, &str); 8] = [
        ("parallel.context", parallel.context.to_string(), parallel.context == 1, "parallel.context 1"),
        ("parallel.expert", parallel.expert.to_string(), parallel.expert == 1, "parallel.expert 1"),
        (
            "precision",
            plan.precision().to_string(),
            plan.precision() != Precision::Tf32,
            "fp32, bf16-mixed or fp16-mixed",
        ),
        ("schedule", schedule.to_string(), flushes, schedules),
        ("recompute", plan.recompute().to_string(), plan.recompute() != Recompute::Selective, "none or full"),
        ("gradient_compression", compression.to_string(), compressed, "none or fp16"),
        ("optimizer", optimizer.to_string(), optimizer != Optimizer::RmsProp, "any optimizer but rmsprop"),
        ("offload", offload.to_string(), host, "none or optimizer"),
    ];
    fields.into_iter().find(|(_, _, runs, _)| !runs).map(|(field, value, _, allowed)| NotExecutable {
        field,
        value,
        allowed,
    })
}
