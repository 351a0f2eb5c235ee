//! Whether a plan fits into the memory that is free, said before anything is allocated.

use trainyard_host::available_memory;
use trainyard_plan::{Lifetime, Plan, Rank, Retention, StageId, Store, kept_elsewhere, resident};
use trainyard_units::{Bytes, human_bytes};

/// Gradients are summed up in single precision, whatever computes, and layer by layer beside backward.
const RETENTION: Retention = Retention {
    element: size_of::<f32>() as u64,
    bucketed: true,
    lifetime: Lifetime::Layer,
    tiles_loss: false,
    experts_weight: false,
    gradients_on_host: false,
};

/// A plan that needs more memory than there is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the plan needs at least {} of {place} for {ranks} {} of this machine, but only {} are free",
    human_bytes(*needed),
    if *ranks == 1 { "rank" } else { "ranks" },
    human_bytes(*available)
)]
pub struct MemoryShortage {
    /// The name of the memory, such as `main memory`.
    pub place: String,
    /// Ranks of this machine that share it.
    pub ranks: usize,
    /// Bytes that the ranks hold together at the peak of a step, as the plan counts it; memory of the software
    /// itself comes on top.
    pub needed: Bytes,
    /// Free memory.
    pub available: Bytes,
    /// The stage whose rank needs most, and how much.
    pub largest: (StageId, Bytes),
    /// The changes to the plan that could help.
    pub hint: String,
}

/// Checks that `ranks` of `plan`, which share this machine, fit into its free memory. Passes where the system does not
/// report free memory.
///
/// # Errors
///
/// When they do not fit.
pub(crate) fn check_memory(plan: &Plan, ranks: impl IntoIterator<Item = Rank>) -> Result<(), MemoryShortage> {
    available_memory().map_or(Ok(()), |available| fits(plan, ranks, "main memory", available))
}

/// Checks that `ranks` of `plan` fit into `available` memory of `place`.
///
/// # Errors
///
/// When they do not fit.
pub(crate) fn fits(
    plan: &Plan,
    ranks: impl IntoIterator<Item = Rank>,
    place: &str,
    available: Bytes,
) -> Result<(), MemoryShortage> {
    let of_stages: Vec<Bytes> = plan.stages().ids().map(|stage| rank_bytes(plan, stage)).collect();
    let (mut count, mut needed, mut largest) = (0, Bytes(0), (StageId(0), Bytes(0)));
    for rank in ranks {
        let stage = StageId(plan.mesh().coordinates(rank).pipeline);
        let bytes = of_stages[stage.0 as usize];
        count += 1;
        needed = Bytes(needed.0.saturating_add(bytes.0));
        if bytes > largest.1 {
            largest = (stage, bytes);
        }
    }
    if needed <= available {
        return Ok(());
    }
    Err(MemoryShortage { place: place.into(), ranks: count, needed, available, largest, hint: hint(plan, largest) })
}

/// Returns the bytes that a rank of a stage holds: in main memory, which is both a processor's and its machine's, or on
/// its GPU, from which nothing is moved away.
fn rank_bytes(plan: &Plan, stage: StageId) -> Bytes {
    resident(plan, stage, RETENTION).total() + kept_elsewhere(plan, stage, Store::Host)
}

/// Names the largest part of the largest rank's memory, and the changes that make it smaller.
fn hint(plan: &Plan, (stage, bytes): (StageId, Bytes)) -> String {
    let held = resident(plan, stage, RETENTION);
    let passing = held.activations + held.buffers + held.workspace;
    let lasting = Bytes(bytes.0.saturating_sub(passing.0));
    let help = if passing > lasting {
        "a smaller batch.micro or recompute = \"full\" needs less"
    } else if plan.mesh().ranks() > 1 {
        "state_sharding, more machines or a smaller model needs less of each"
    } else {
        "a smaller model, or a plan over several machines, needs less of each"
    };
    format!(
        "a rank of stage {} takes {} for weights and optimizer state and {} for activations; {help}",
        stage.0,
        human_bytes(lasting),
        human_bytes(passing)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_models::{Family, ModelSpec};
    use trainyard_plan::{BatchSpec, ClusterSpec, ParallelSpec, PlanSpec, StageSpec, StateSharding};

    fn plan(data: u32, hidden: u64) -> Plan {
        Plan::try_from(spec(data, hidden)).expect("a valid plan")
    }

    fn spec(data: u32, hidden: u64) -> PlanSpec {
        let model = ModelSpec {
            layers: Some(4),
            hidden: Some(hidden),
            heads: Some(4),
            vocab: Some(256),
            seq_len: Some(64),
            ..ModelSpec::new("test", Family::Gpt)
        };
        PlanSpec {
            parallel: ParallelSpec { data, ..ParallelSpec::default() },
            batch: BatchSpec { global: 4, micro: 4 / u64::from(data), accumulation: 1 },
            stages: vec![StageSpec { first: 0, layers: 6 }],
            ..PlanSpec::plain(model, ClusterSpec::of("local", 1), 6)
        }
    }

    fn layers(spec: PlanSpec, layers: u32) -> PlanSpec {
        let model = ModelSpec { layers: Some(layers), ..spec.model.clone() };
        PlanSpec { stages: vec![StageSpec { first: 0, layers: layers as usize + 2 }], model, ..spec }
    }

    fn ranks(plan: &Plan) -> impl Iterator<Item = Rank> + use<> {
        (0..plan.mesh().ranks()).map(Rank)
    }

    #[test]
    fn a_plan_fits_into_what_it_needs_and_not_into_less() {
        let plan = plan(2, 64);
        let shortage = fits(&plan, ranks(&plan), "main memory", Bytes(0)).expect_err("nothing is free");
        // Sixteen bytes a parameter and replica, and the activations.
        assert!(shortage.needed.0 > 2 * 16 * plan.graph().parameters(), "{shortage}");
        assert_eq!(fits(&plan, ranks(&plan), "main memory", shortage.needed), Ok(()));
        let less = Bytes(shortage.needed.0 - 1);
        assert_eq!(
            fits(&plan, ranks(&plan), "main memory", less),
            Err(MemoryShortage { available: less, ..shortage.clone() })
        );
        // Half of the ranks are on another machine.
        assert_eq!(fits(&plan, [Rank(0)], "main memory", less), Ok(()));
        assert!(
            shortage.to_string().contains("main memory for 2 ranks") && shortage.hint.contains("stage 0"),
            "{shortage:?}"
        );
    }

    #[test]
    fn the_hint_names_what_takes_most() {
        let hint = |plan: Plan| fits(&plan, ranks(&plan), "main memory", Bytes(0)).expect_err("nothing is free").hint;
        assert!(hint(plan(1, 512)).contains("smaller model"));
        assert!(hint(plan(2, 512)).contains("state_sharding"));
        assert!(hint(plan(1, 16)).contains("batch.micro"));
    }

    #[test]
    fn of_shared_weights_two_layers_are_whole_at_once() {
        let bytes = |spec: PlanSpec| rank_bytes(&Plan::try_from(spec).expect("a valid plan"), StageId(0)).0;
        // Single precision: 256 entries and 64 positions of width 64, the last norm, blocks of 12 h² + 13 h.
        let parameters = |layers: u64| (256 + 64) * 64 + 2 * 64 + layers * (12 * 64 * 64 + 13 * 64);
        let (four, eight) = (spec(2, 64), layers(spec(2, 64), 8));
        let sharded = |spec: PlanSpec| PlanSpec { state_sharding: StateSharding::Parameters, ..spec };
        let optimizer = |spec: PlanSpec| PlanSpec { state_sharding: StateSharding::Gradients, ..spec };
        // Half of the weights is elsewhere; the layers that are gathered are those of any depth.
        let gathered = |spec: PlanSpec, blocks: u64| {
            bytes(sharded(spec.clone())) + 2 * parameters(blocks) - bytes(optimizer(spec))
        };
        assert_eq!(gathered(four, 4), 2 * 4 * (12 * 64 * 64 + 13 * 64));
        assert_eq!(gathered(eight, 8), 2 * 4 * (12 * 64 * 64 + 13 * 64));
    }
}
