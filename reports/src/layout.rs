//! How a plan is laid out, in a few words.

use trainyard_plan::{Offload, ParallelSpec, PlanSpec, StateSharding};

/// Formats the machines: `2 × p4d.24xlarge`.
pub fn cluster(plan: &PlanSpec) -> String {
    match &plan.cluster.profile {
        Some(profile) => format!("this machine ({profile})"),
        None => format!("{} × {}", plan.cluster.instances, plan.cluster.instance),
    }
}

/// Formats the strategy: `data 4 × tensor 8 (sequence too) × pipeline 2 (interleaved-1f1b, 2 runs each)`.
pub fn strategy(plan: &PlanSpec) -> String {
    let parallel = plan.parallel;
    let runs = if plan.virtual_stages > 1 { format!(", {} runs each", plan.virtual_stages) } else { String::new() };
    let degrees = [
        ("data", parallel.data, String::new()),
        ("tensor", parallel.tensor, if parallel.sequence { " (sequence too)".into() } else { String::new() }),
        ("context", parallel.context, String::new()),
        ("expert", parallel.expert, " (inside data)".into()),
        ("pipeline", parallel.pipeline, format!(" ({}{runs})", plan.schedule)),
    ];
    let parts: Vec<String> = degrees
        .into_iter()
        .filter(|(_, degree, _)| *degree > 1)
        .map(|(name, degree, how)| format!("{name} {degree}{how}"))
        .collect();
    if parts.is_empty() { "one device".into() } else { parts.join(" × ") }
}

/// Formats the strategy of a plan with what makes room for it: `data 8, ZeRO-3, offload optimizer`.
pub fn strategy_and_state(plan: &PlanSpec) -> String {
    let offload = if plan.offload == Offload::NONE { String::new() } else { format!(", offload {}", plan.offload) };
    format!("{}{}{offload}", strategy(plan), sharing(plan.state_sharding))
}

/// Formats what follows a strategy on what replicas share out: `, ZeRO-3`; nothing if they share out nothing.
pub(crate) fn sharing(sharding: StateSharding) -> &'static str {
    match sharding {
        StateSharding::None => "",
        StateSharding::Optimizer => ", ZeRO-1",
        StateSharding::Gradients => ", ZeRO-2",
        StateSharding::Parameters => ", ZeRO-3",
    }
}

/// Formats the degrees: `data 4 × tensor 8`.
pub(crate) fn split(parallel: ParallelSpec) -> String {
    let ParallelSpec { data, tensor, context, pipeline, .. } = parallel;
    let degrees = [("data", data), ("tensor", tensor), ("context", context), ("pipeline", pipeline)];
    let parts: Vec<String> = degrees
        .into_iter()
        .filter(|(_, degree)| *degree > 1)
        .map(|(name, degree)| format!("{name} {degree}"))
        .collect();
    if parts.is_empty() { "one device".into() } else { parts.join(" × ") }
}
