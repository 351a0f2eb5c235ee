//! How a plan is laid out on its machines: in what two plans differ besides what they are compared for, and one plan as
//! fields that are held.

use crate::problem::Problem;
use crate::search::{Evaluated, other_compression, other_offload, other_sharding};
use trainyard_plan::{Fixed, Plan};

/// Lists what another plan has instead: other degrees, sharding, form of gradients, offload and software.
pub(super) fn differences(own: &Plan, other: &Plan) -> Vec<String> {
    let [mine, theirs] = [own, other].map(|plan| plan.mesh().parallel().degrees());
    let others = mine.into_iter().zip(theirs).filter(|(own, other)| own != other);
    let degrees: Vec<String> = others.map(|(_, (name, degree))| format!("{name} {degree}")).collect();
    let stack = other.stack().filter(|_| own.stack() != other.stack());
    [
        (!degrees.is_empty()).then(|| degrees.join(" × ")),
        other_sharding(own, other),
        other_compression(own, other),
        other_offload(own, other),
        stack.map(Into::into),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns held fields with all others that tell a plan from its neighbours, so that a search finds this one even where
/// it would recommend a simpler one.
pub(super) fn held_as(problem: &Problem, fixed: &Fixed, found: &Evaluated) -> Fixed {
    let plan = &found.plan;
    let (mesh, batch) = (plan.mesh(), plan.batch());
    let stacks = problem.place.stacks().len();
    let stack = (stacks > 1).then(|| problem.place.software(found.choice).name.clone());
    Fixed {
        stack: stack.or_else(|| fixed.stack.clone()),
        tensor: Some(mesh.tensor()),
        pipeline: Some(mesh.pipeline()),
        context: Some(mesh.context()),
        expert: plan.graph().divisible().map(|_| mesh.parallel().expert).or(fixed.expert),
        sequence: (mesh.tensor() > 1).then(|| mesh.parallel().sequence).or(fixed.sequence),
        global: problem.global_batches.are_open().then_some(batch.global).or(fixed.global),
        micro: Some(batch.micro),
        schedule: plan.schedule().is_pipelined().then(|| plan.schedule()).or(fixed.schedule),
        virtual_stages: (mesh.pipeline() > 1).then(|| plan.stages().chunks_per_stage()).or(fixed.virtual_stages),
        precision: Some(plan.precision()),
        recompute: Some(plan.recompute()),
        state_sharding: Some(plan.state_sharding()),
        sharding_ranks: plan.sharding_ranks().or(fixed.sharding_ranks),
        gradient_reduction: Some(plan.gradient_reduction()),
        gradient_compression: Some(plan.gradient_compression()),
        offload: Some(plan.offload()),
        ..fixed.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::UNSHARDED;
    use trainyard_plan::{BatchSpec, ClusterSpec, ParallelSpec, PlanSpec, StateSharding};

    #[test]
    fn only_what_differs_is_named() {
        let model = &trainyard_models::find("gpt2").expect("in the catalog").model;
        let plan = |data, tensor, state_sharding, stack: &str| {
            let spec = PlanSpec {
                parallel: ParallelSpec { data, tensor, ..ParallelSpec::default() },
                batch: BatchSpec { global: 16, micro: 1, accumulation: 16 / u64::from(data) },
                state_sharding,
                stack: Some(stack.into()),
                ..PlanSpec::plain(model.spec(), ClusterSpec::of("p4d.24xlarge", 1), model.graph().len())
            };
            Plan::try_from(spec).expect("a valid plan")
        };
        let own = plan(8, 1, StateSharding::Gradients, "pytorch-fsdp");
        assert_eq!(differences(&own, &own), Vec::<String>::new());
        let whole = plan(8, 1, StateSharding::None, "pytorch-ddp");
        assert_eq!(differences(&own, &whole), [UNSHARDED, "pytorch-ddp"]);
        assert_eq!(differences(&whole, &own), ["ZeRO-2", "pytorch-fsdp"]);
        let split = plan(4, 2, StateSharding::Gradients, "pytorch-fsdp");
        assert_eq!(differences(&own, &split), ["data 4 × tensor 2"]);
    }
}
