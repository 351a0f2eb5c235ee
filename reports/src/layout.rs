//! How a plan is laid out, in a few words.

use trainyard_models::Family;
use trainyard_plan::{
    GradientCompression, GradientReduction, Offload, ParallelSpec, Placement, PlanSpec, Recompute, StateSharding,
};
use trainyard_units::counted;

/// Formats the machines: `2 × p4d.24xlarge`.
pub fn cluster(plan: &PlanSpec) -> String {
    match &plan.cluster.profile {
        Some(profile) => format!("this machine ({profile})"),
        None => plan.cluster.to_string(),
    }
}

/// Names what a step would be shorter by if links took no time: of a plan that offloads, those to main memory and disks and the updates
/// there are among them.
pub(crate) fn exposed(plan: &PlanSpec) -> &'static str {
    if plan.offload == Offload::NONE { "exposed communication" } else { "exposed communication and offload" }
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
    let part = |(name, degree): (&str, u32)| match (name, plan.model.family) {
        ("expert", Family::Dlrm) => format!("tables sharded over {degree}"),
        _ => format!("{name} {degree}{}", how(name)),
    };
    let parts: Vec<String> = divided.map(part).collect();
    if parts.is_empty() { parallel.to_string() } else { parts.join(" × ") }
}

/// Formats every degree above one: `2 replicas × 2 tensor × 4 stages`.
pub fn degrees(parallel: ParallelSpec) -> String {
    let ParallelSpec { data, tensor, context, expert, pipeline, .. } = parallel;
    let inside = [("tensor", tensor), ("context", context), ("expert", expert)];
    let mut parts = vec![counted(data.into(), "replica")];
    parts.extend(inside.into_iter().filter(|(_, degree)| *degree > 1).map(|(name, degree)| format!("{degree} {name}")));
    parts.push(counted(pipeline.into(), "stage"));
    parts.join(" × ")
}

/// Says that activations are computed again, if all are, behind what else is said of a plan.
pub(crate) fn recomputed(plan: &PlanSpec) -> &'static str {
    if plan.recompute == Recompute::Full { ", recompute" } else { "" }
}

/// Formats the strategy and what else says where things are: `data 8; optimizer state sharded (ZeRO-1)`.
pub(crate) fn laid_out(plan: &PlanSpec) -> String {
    [Some(strategy(plan)), states(plan)].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Formats what replicas shard, what is offloaded, and how gradients travel, where it is not the default.
fn states(plan: &PlanSpec) -> Option<String> {
    // One rank keeps all of its state, whatever the software calls that.
    let shared = plan.parallel.data * plan.parallel.context > 1;
    let ranks = plan.sharding_ranks.map_or(String::new(), |ranks| format!(" over {ranks} ranks"));
    let own = plan.state_sharding;
    let sharding = own.in_words().zip(own.zero()).filter(|_| shared);
    let sharding = sharding.map(|(what, zero)| format!("{what} sharded{ranks} ({zero})"));
    let reduction = (plan.gradient_reduction == GradientReduction::MicroBatch)
        .then(|| "gradients reduced after each micro-batch".to_owned());
    let compression = (shared && plan.gradient_compression != GradientCompression::None)
        .then(|| format!("gradients all-reduced in {}", plan.gradient_compression));
    let offload = (plan.offload != Offload::NONE).then(|| format!("offloaded: {}", plan.offload));
    let placement = (plan.placement != Placement::Cluster).then(|| format!("ranks placed {}", plan.placement));
    let parts: Vec<String> = [sharding, reduction, compression, offload, placement].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Formats the strategy of a plan with what makes room for it: `data 8, ZeRO-3, offload optimizer`.
pub fn strategy_and_state(plan: &PlanSpec) -> String {
    let offload = if plan.offload == Offload::NONE { String::new() } else { format!(", offload {}", plan.offload) };
    let ranks = plan.sharding_ranks.map_or_else(String::new, |ranks| format!(" over {ranks} ranks"));
    let form = match plan.gradient_compression {
        _ if plan.parallel.data * plan.parallel.context == 1 => String::new(),
        GradientCompression::None => String::new(),
        form => format!(", gradients in {form}"),
    };
    format!("{}{}{ranks}{form}{offload}", strategy(plan), sharing(plan.state_sharding))
}

/// Formats what follows a strategy on what replicas share out: `, ZeRO-3`; nothing if they share out nothing.
pub(crate) fn sharing(sharding: StateSharding) -> String {
    sharding.zero().map_or_else(String::new, |zero| format!(", {zero}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::tests::plan_document;
    use trainyard_plan::{ClusterSpec, Store};

    #[test]
    fn every_degree_above_one_is_told() {
        let split =
            |data, tensor, pipeline| degrees(ParallelSpec { data, tensor, pipeline, ..ParallelSpec::default() });
        assert_eq!(split(1, 1, 1), "1 replica × 1 stage");
        assert_eq!(split(1, 2, 1), "1 replica × 2 tensor × 1 stage");
        assert_eq!(split(2, 2, 4), "2 replicas × 2 tensor × 4 stages");
    }

    #[test]
    fn what_replicas_share_out_and_what_is_offloaded_is_said_behind_the_strategy() {
        let parallel = ParallelSpec { data: 8, ..ParallelSpec::default() };
        let plain = PlanSpec { parallel, state_sharding: StateSharding::None, ..plan_document().plan };
        assert_eq!(laid_out(&plain), "data 8");
        let sharded = PlanSpec { state_sharding: StateSharding::Parameters, ..plain };
        assert_eq!(laid_out(&sharded), "data 8; parameters, gradients and optimizer state sharded (ZeRO-3)");
    }

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

    #[test]
    fn one_device_shards_nothing() {
        let model = &trainyard_models::find("gpt2").expect("in the catalog").model;
        let plain = PlanSpec::plain(model.spec(), ClusterSpec::of("p3.16xlarge", 1), model.graph().len());
        let told = |data| {
            states(&PlanSpec {
                parallel: ParallelSpec { data, ..ParallelSpec::default() },
                state_sharding: StateSharding::Optimizer,
                offload: Offload { optimizer: Some(Store::Host), ..Offload::NONE },
                ..plain.clone()
            })
        };
        assert_eq!(told(1).as_deref(), Some("offloaded: optimizer"));
        assert_eq!(told(8).as_deref(), Some("optimizer state sharded (ZeRO-1); offloaded: optimizer"));
    }
}
