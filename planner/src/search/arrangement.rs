//! In what else than its degrees a plan differs from another one.

use trainyard_plan::{GradientCompression, Offload, Plan};

/// Says of a plan that its state is not sharded.
pub(crate) const UNSHARDED: &str = "unsharded states";

/// Lists how another plan is arranged where this one is not: schedule, sharding, offload and recomputation, or else the
/// micro-batch and the number format: `interleaved-1f1b with 3 model chunks a stage`, `ZeRO-1`.
pub(super) fn arrangement(own: &Plan, other: &Plan) -> Vec<String> {
    let other_schedule = schedule(other).filter(|theirs| schedule(own).as_ref() != Some(theirs));
    let parts = [
        other_schedule,
        other_sharding(own, other),
        other_compression(own, other),
        other_offload(own, other),
        other_recomputation(own, other),
    ];
    let mut all: Vec<String> = parts.into_iter().flatten().collect();
    if all.is_empty() {
        let (micro, precision) = (other.batch().micro, other.precision());
        all.extend((own.batch().micro != micro).then(|| format!("micro-batch {micro}")));
        all.extend((own.precision() != precision).then(|| precision.to_string()));
    }
    all
}

/// Says how the state of another plan is sharded, if it is not as that of this one.
pub(crate) fn other_sharding(own: &Plan, other: &Plan) -> Option<String> {
    let sharding = |plan: &Plan| (plan.state_sharding(), plan.sharding_ranks());
    (sharding(own) != sharding(other)).then(|| sharded(other))
}

/// Names what another plan keeps off the devices, if it is not what this one does.
pub(crate) fn other_offload(own: &Plan, other: &Plan) -> Option<String> {
    (own.offload() != other.offload()).then(|| match other.offload() {
        Offload::NONE => "no offload".into(),
        offload => format!("offload {offload}"),
    })
}

/// Says in which form gradients of another plan travel, if it is not that of this one. Without a hook the software decides,
/// as it shards states: FSDP and DeepSpeed sum gradients in the format of the computation, DDP in single precision.
pub(crate) fn other_compression(own: &Plan, other: &Plan) -> Option<String> {
    let form = other.gradient_compression();
    let is_told =
        form != GradientCompression::None || own.state_sharding() == other.state_sharding() && other.mesh().data() > 1;
    (own.gradient_compression() != form && is_told).then(|| match form {
        GradientCompression::None => "no communication hook".into(),
        form => format!("gradients summed in {form}"),
    })
}

/// Names what another plan computes again in backward, if it is not what this one does.
pub(crate) fn other_recomputation(own: &Plan, other: &Plan) -> Option<String> {
    let differs = own.recompute() != other.recompute();
    differs.then(|| other.recompute().in_words().unwrap_or("no recomputation").into())
}

/// Names the schedule of a pipeline.
fn schedule(plan: &Plan) -> Option<String> {
    plan.schedule().is_pipelined().then(|| match plan.stages().chunks_per_stage() {
        1 => plan.schedule().to_string(),
        runs => format!("{} with {runs} model chunks a stage", plan.schedule()),
    })
}

/// Says how the state of a plan is sharded.
fn sharded(plan: &Plan) -> String {
    let sharding = plan.state_sharding().zero().unwrap_or(UNSHARDED);
    match plan.sharding_ranks() {
        Some(ranks) => format!("{sharding} over {ranks} ranks"),
        None => sharding.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_plan::{BatchSpec, ClusterSpec, ParallelSpec, PlanSpec, ScheduleName, Stages, StateSharding};

    #[test]
    fn what_a_plan_does_besides_its_degrees_is_named_where_another_does_not() {
        let model = &trainyard_models::find("gpt2").expect("in the catalog").model;
        let plan = |micro, schedule, virtual_stages, state_sharding| {
            let spec = PlanSpec {
                parallel: ParallelSpec { data: 4, pipeline: 4, ..ParallelSpec::default() },
                batch: BatchSpec { global: 64, micro, accumulation: 16 / micro },
                schedule,
                virtual_stages,
                state_sharding,
                ..PlanSpec::plain(model.spec(), ClusterSpec::of("p4d.24xlarge", 2), model.graph().len())
            };
            let chunks = 4 * virtual_stages;
            let stages = Stages::balanced(&vec![1.0; model.graph().len()], chunks).expect("enough layers").specs();
            Plan::try_from(PlanSpec { stages, ..spec }).expect("a valid plan")
        };
        let plain = plan(1, ScheduleName::OneForwardOneBackward, 1, StateSharding::None);
        let runs = plan(1, ScheduleName::Interleaved, 3, StateSharding::Optimizer);
        assert_eq!(arrangement(&plain, &plain), Vec::<String>::new());
        let name = ScheduleName::Interleaved;
        assert_eq!(arrangement(&plain, &runs), [format!("{name} with 3 model chunks a stage"), "ZeRO-1".into()]);
        assert_eq!(arrangement(&runs, &plain), ["1f1b", "unsharded states"]);
        let larger = plan(2, ScheduleName::OneForwardOneBackward, 1, StateSharding::None);
        assert_eq!(arrangement(&plain, &larger), ["micro-batch 2"]);
    }
}
