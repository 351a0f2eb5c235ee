//! How a plan is laid out, in a few words.

use trainyard_plan::{Offload, PlanSpec, StateSharding};

/// Formats the machines: `2 × p4d.24xlarge`.
pub fn cluster(plan: &PlanSpec) -> String {
    match &plan.cluster.profile {
        Some(profile) => format!("this machine ({profile})"),
        None => plan.cluster.to_string(),
    }
}

/// Formats the strategy: `data 4 × tensor 8 (sequence too) × pipeline 2 (interleaved-1f1b, 2 chunks per stage)`.
pub fn strategy(plan: &PlanSpec) -> String {
    let parallel = plan.parallel;
    let chunks =
        if plan.virtual_stages > 1 { format!(", {} chunks per stage", plan.virtual_stages) } else { String::new() };
    let how = |name: &str| match name {
        "tensor" if parallel.folded_experts => " (sequence and experts too)".to_owned(),
        "tensor" if parallel.sequence => " (sequence too)".into(),
        // Megatron-LM counts all ranks that share experts.
        "expert" if parallel.expert_ranks() > parallel.expert => {
            format!(
                " (inside data{}, EP {} with tensor)",
                if parallel.context > 1 { " × context" } else { "" },
                parallel.expert_ranks()
            )
        }
        "expert" if parallel.folded_experts && parallel.context > 1 => " (inside data × context)".into(),
        "expert" => " (inside data)".into(),
        "pipeline" => format!(" ({}{chunks})", plan.schedule),
        _ => String::new(),
    };
    let divided = parallel.degrees().into_iter().filter(|(_, degree)| *degree > 1);
    let parts: Vec<String> = divided.map(|(name, degree)| format!("{name} {degree}{}", how(name))).collect();
    if parts.is_empty() { parallel.to_string() } else { parts.join(" × ") }
}

/// Formats the strategy of a plan with what makes room for it: `data 8, ZeRO-3, offload optimizer`.
pub fn strategy_and_state(plan: &PlanSpec) -> String {
    let offload = if plan.offload == Offload::NONE { String::new() } else { format!(", offload {}", plan.offload) };
    format!("{}{}{offload}", strategy(plan), sharing(plan.state_sharding))
}

/// Formats what follows a strategy on what replicas share out: `, ZeRO-3`; nothing if they share out nothing.
pub(crate) fn sharing(sharding: StateSharding) -> String {
    sharding.zero().map_or_else(String::new, |zero| format!(", {zero}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::tests::plan_document;
    use trainyard_plan::ParallelSpec;

    #[test]
    fn experts_are_counted_as_megatron_counts_them_too() {
        let plan = PlanSpec { stack: None, ..plan_document().plan };
        let of = |expert, folded_experts, context| {
            let parallel =
                ParallelSpec { data: 8, tensor: 2, expert, folded_experts, context, ..ParallelSpec::default() };
            strategy(&PlanSpec { parallel, ..plan.clone() })
        };
        assert!(of(4, true, 1).ends_with("expert 4 (inside data, EP 8 with tensor)"), "{}", of(4, true, 1));
        assert!(of(4, true, 2).ends_with("expert 4 (inside data × context, EP 8 with tensor)"), "{}", of(4, true, 2));
        assert!(of(4, false, 1).ends_with("expert 4 (inside data)"), "{}", of(4, false, 1));
    }
}
