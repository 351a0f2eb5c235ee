//! What a plan is, in sentences: who holds what, who talks to whom, and what a step does.

use crate::loading::Loading;
use trainyard_models::Divisible;
use trainyard_plan::document::Prediction;
use trainyard_plan::{
    GradientCompression, GradientReduction, Group, Offload, Optimizer, Plan, Recompute, StateSharding,
};
use trainyard_sim::Spread;
use trainyard_units::{Bytes, counted, human_bytes, human_count};

/// Returns the sentences, from the whole to its parts.
pub(super) fn description(
    plan: &Plan,
    spread: Spread,
    prediction: &Prediction,
    loading: Option<&Loading>,
) -> Vec<String> {
    [
        Some(devices(plan)),
        stages(plan, spread),
        tensor(plan, spread),
        context(plan, spread),
        experts(plan, spread),
        replicas(plan, spread),
        Some(held(plan, prediction)),
        sharding(plan),
        offload(plan),
        Some(step(plan)),
        Some(formats(plan)),
        loading.map(|loading| format!("samples are {}", loading.way())),
        loading.and_then(first_pass),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn first_pass(loading: &Loading) -> Option<String> {
    let told = loading.first_pass_told()?;
    let storage = loading.rented_storage().map_or_else(String::new, |storage| format!(" ({storage})"));
    Some(format!("the first pass over the data set takes {told}{storage}"))
}

fn devices(plan: &Plan) -> String {
    let (cluster, mesh) = (plan.cluster(), plan.mesh());
    let machines = if cluster.profile.is_some() { format!("on {}", cluster.instance) } else { format!("on {cluster}") };
    let parts = mesh.tensor() * mesh.pipeline() * mesh.context();
    match (mesh.ranks(), mesh.data(), parts) {
        (1, ..) => format!("one device {machines} holds the whole model"),
        (ranks, 1, _) => format!("{ranks} devices {machines} hold the model together, once"),
        (ranks, replicas, 1) => format!("{ranks} devices {machines}: {replicas} replicas of the model, one on each"),
        (ranks, replicas, parts) => {
            format!("{ranks} devices {machines}: {replicas} replicas of the model, each on {parts} devices")
        }
    }
}

/// Names the place of a group's communication.
fn place(apart: bool) -> &'static str {
    if apart { "over the network between machines" } else { "inside a machine" }
}

fn stages(plan: &Plan, spread: Spread) -> Option<String> {
    let stages = plan.stages();
    if stages.count() == 1 {
        return None;
    }
    let chunks = match stages.chunks_per_stage() {
        1 => String::new(),
        chunks => format!(", in {chunks} model chunks per stage"),
    };
    Some(format!(
        "{} pipeline stages{}{chunks}; activations pass between them {}",
        stages.count(),
        plan.stages_in_words(),
        place(spread.pipeline)
    ))
}

fn tensor(plan: &Plan, spread: Spread) -> Option<String> {
    let mesh = plan.mesh();
    let sequence = if mesh.sharing().sequence { ", tokens too between them" } else { "" };
    (mesh.tensor() > 1).then(|| {
        let place = place(spread.tensor);
        format!("each layer is divided over {} devices{sequence}, which exchange activations {place}", mesh.tensor())
    })
}

fn context(plan: &Plan, spread: Spread) -> Option<String> {
    let devices = plan.mesh().context();
    (devices > 1).then(|| format!("each sample is divided over {devices} devices, {}", place(spread.context)))
}

fn experts(plan: &Plan, spread: Spread) -> Option<String> {
    let parallel = plan.mesh().parallel();
    let (devices, what) =
        (parallel.expert_ranks(), if parallel.folded_experts { "devices of a stage" } else { "replicas" });
    let (divided, sent) = match plan.graph().divisible() {
        Some(Divisible::TableColumns(_)) => ("tables", "rows"),
        _ => ("experts", "tokens"),
    };
    (devices > 1)
        .then(|| format!("{divided} are divided over {devices} {what}, which exchange {sent} {}", place(spread.expert)))
}

fn replicas(plan: &Plan, spread: Spread) -> Option<String> {
    let copies = plan.mesh().copies();
    if copies == 1 {
        return None;
    }
    let often = match plan.gradient_reduction() {
        GradientReduction::Step => "once a step",
        GradientReduction::MicroBatch => "after each micro-batch",
    };
    let form = match plan.gradient_compression() {
        GradientCompression::None => String::new(),
        other => format!(", compressed ({other})"),
    };
    let how = summed(plan, copies);
    let how = match holders_of_experts(plan) {
        None => how,
        Some(1) => format!("{how} (not those of experts: no two ranks hold the same)"),
        Some(holders) => format!("{how}, those of experts over {holders},"),
    };
    Some(format!("gradients are {how} {often}{form}, {}", place(spread.gradient)))
}

/// Returns the number of ranks that hold the same experts, where fewer do than hold the same other weights.
fn holders_of_experts(plan: &Plan) -> Option<u32> {
    let divided = matches!(plan.graph().divisible(), Some(Divisible::Experts(_))) && plan.mesh().parallel().expert > 1;
    divided.then(|| plan.mesh().group_size(Group::ExpertGradient))
}

/// Names the collectives that sum gradients. A rank that updates a part of the weights needs that part of the sum alone;
/// where several groups share the state out, each sums its parts with those of the others.
fn summed(plan: &Plan, copies: u32) -> String {
    let ranks = plan.mesh().shard();
    match (plan.shards(StateSharding::Optimizer), ranks == copies) {
        (false, _) => format!("all-reduced over {copies} ranks"),
        (true, true) => format!("reduce-scattered over {copies} ranks"),
        (true, false) => {
            format!("reduce-scattered over {ranks} ranks, and then all-reduced over the {} groups,", copies / ranks)
        }
    }
}

fn held(plan: &Plan, prediction: &Prediction) -> String {
    let weights = prediction.memory_bytes.stages.iter().map(|stage| stage.parameters).max().unwrap_or(0);
    let state = prediction.memory_bytes.stages.iter().map(|stage| stage.optimizer_state).max().unwrap_or(0);
    let trained = plan.graph().parameters();
    let frozen: u64 = plan.graph().layers().map(trainyard_models::Layer::frozen_values).sum();
    let parameters = match frozen {
        0 => format!("{} parameters", human_count(trained)),
        frozen => format!("{} parameters, {} of them trained,", human_count(trained + frozen), human_count(trained)),
    };
    let most = if plan.stages().count() > 1 { "up to " } else { "" };
    let state = match state {
        0 => "no optimizer state".to_owned(),
        bytes => format!("{} of optimizer state", human_bytes(Bytes(bytes))),
    };
    format!("of {parameters} a device holds {most}{} of weights and {state}", human_bytes(Bytes(weights)))
}

fn sharding(plan: &Plan) -> Option<String> {
    let (own, ranks) = (plan.state_sharding(), plan.mesh().shard());
    // One rank keeps all of its state, whatever the software calls that.
    let (what, zero) = own.in_words().zip(own.zero()).filter(|_| ranks > 1)?;
    let experts = match holders_of_experts(plan) {
        None => String::new(),
        Some(1) => ", experts not (no two ranks hold the same)".into(),
        Some(holders) => format!(", experts over {holders}"),
    };
    Some(format!("{what} sharded ({zero}) over {ranks} ranks{experts}"))
}

fn offload(plan: &Plan) -> Option<String> {
    let offload = plan.offload();
    (offload != Offload::NONE).then(|| format!("offloaded: {offload}"))
}

fn step(plan: &Plan) -> String {
    let batch = plan.batch();
    let replicas = if plan.mesh().data() == 1 { "the replica" } else { "each replica" };
    let schedule = plan.schedule();
    let order = if schedule.is_pipelined() { format!(" in the order of {schedule}") } else { String::new() };
    format!(
        "a step takes {}: {replicas} goes through {} of {}{order}",
        counted(batch.global, "sample"),
        match batch.accumulation {
            1 => "one micro-batch".to_owned(),
            several => format!("{} micro-batches", human_count(several)),
        },
        human_count(batch.micro)
    )
}

fn formats(plan: &Plan) -> String {
    let recompute = match plan.recompute() {
        Recompute::None => "all activations kept",
        Recompute::Selective => "attention recomputed in backward",
        Recompute::Full => "activations recomputed in backward",
    };
    let optimizer: Optimizer = plan.optimizer();
    format!("{} with {optimizer}; {recompute}", plan.precision())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_plan::{BatchSpec, ClusterSpec, ParallelSpec, PlanSpec};

    /// Says how eight replicas of GPT-2 sum gradients.
    fn of(state_sharding: StateSharding, sharding_ranks: Option<u32>) -> String {
        let model = &trainyard_models::find("gpt2").expect("in the catalog").model;
        let plan = Plan::try_from(PlanSpec {
            parallel: ParallelSpec { data: 8, ..ParallelSpec::default() },
            batch: BatchSpec { global: 8, micro: 1, accumulation: 1 },
            state_sharding,
            sharding_ranks,
            ..PlanSpec::plain(model.spec(), ClusterSpec::of("p4d.24xlarge", 1), model.graph().len())
        })
        .expect("a valid plan");
        summed(&plan, plan.mesh().copies())
    }

    /// Fewer ranks hold the same experts than the same other weights.
    #[test]
    fn experts_are_sharded_and_summed_over_those_who_hold_the_same() {
        let mut model = trainyard_models::find("mixtral-8x7b").expect("in the catalog").model.spec();
        model.layers = Some(1);
        let layers = trainyard_models::Model::try_from(model.clone()).expect("a model").graph().len();
        let told = |expert| {
            let plan = Plan::try_from(PlanSpec {
                parallel: ParallelSpec { data: 8, expert, ..ParallelSpec::default() },
                batch: BatchSpec { global: 8, micro: 1, accumulation: 1 },
                state_sharding: StateSharding::Optimizer,
                ..PlanSpec::plain(model.clone(), ClusterSpec::of("p5.48xlarge", 1), layers)
            })
            .expect("a valid plan");
            let spread = Spread { tensor: false, context: false, expert: false, pipeline: false, gradient: false };
            (sharding(&plan).expect("sharded"), replicas(&plan, spread).expect("replicas"))
        };
        let (sharded, summed) = told(1);
        assert_eq!(sharded, "optimizer state sharded (ZeRO-1) over 8 ranks");
        assert_eq!(summed, "gradients are reduce-scattered over 8 ranks once a step, inside a machine");
        let (sharded, summed) = told(4);
        assert_eq!(sharded, "optimizer state sharded (ZeRO-1) over 8 ranks, experts over 2");
        assert_eq!(
            summed,
            "gradients are reduce-scattered over 8 ranks, those of experts over 2, once a step, inside a machine"
        );
        let (sharded, summed) = told(8);
        assert!(sharded.ends_with("over 8 ranks, experts not (no two ranks hold the same)"), "{sharded}");
        assert!(summed.contains("8 ranks (not those of experts: no two ranks hold the same) once"), "{summed}");
    }

    #[test]
    fn one_device_shards_nothing() {
        let model = &trainyard_models::find("gpt2").expect("in the catalog").model;
        let told = |data| {
            let plan = PlanSpec {
                parallel: ParallelSpec { data, ..ParallelSpec::default() },
                batch: BatchSpec { global: u64::from(data), micro: 1, accumulation: 1 },
                state_sharding: StateSharding::Optimizer,
                ..PlanSpec::plain(model.spec(), ClusterSpec::of("p4d.24xlarge", 1), model.graph().len())
            };
            sharding(&Plan::try_from(plan).expect("a valid plan"))
        };
        assert_eq!((told(1), told(8).is_some()), (None, true));
    }

    /// As `Plan::reductions` has it: from ZeRO-1 on a rank needs its part of the sum alone.
    #[test]
    fn gradients_of_sharded_states_are_scattered() {
        assert_eq!(of(StateSharding::None, None), "all-reduced over 8 ranks");
        for sharding in [StateSharding::Optimizer, StateSharding::Gradients, StateSharding::Parameters] {
            assert_eq!(of(sharding, None), "reduce-scattered over 8 ranks", "{sharding}");
        }
        let groups = of(StateSharding::Parameters, Some(4));
        assert_eq!(groups, "reduce-scattered over 4 ranks, and then all-reduced over the 2 groups,");
    }
}
