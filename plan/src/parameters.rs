//! Parameters that a rank holds, and how the holders of copies share them out.

use crate::collective::Collective;
use crate::mesh::Group;
use crate::offload::Store;
use crate::partition::StageId;
use crate::spec::{GradientReduction, Precision, StateSharding};
use crate::valid::Plan;
use std::ops::Range;
use trainyard_models::{Layer, OperatorKind, Sharing};
use trainyard_units::Bytes;

/// Number of parameters that one rank holds of a run of layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Held {
    /// Trainable values.
    pub parameters: u64,
    /// Trainable values of experts or embedding tables, of which fewer ranks hold copies.
    pub experts: u64,
    /// Those of `experts` that belong to embedding tables: kept in single precision, with sparse gradients that cover
    /// only the looked-up rows.
    pub tables: u64,
    /// Values of the table rows that a micro-batch looks up.
    pub looked_up: u64,
    /// Trainable tensors.
    pub tensors: u32,
    /// Trainable tensors that are matrices; the others are biases and norms, about a thousandth of the values.
    pub matrices: u32,
}

impl Held {
    /// Returns the number of parameters that have a gradient in every step: those outside tables.
    pub fn updated(self) -> u64 {
        self.parameters - self.tables
    }

    /// Returns the bytes of a micro-batch's gradients in single precision.
    pub fn gradient_bytes(self) -> Bytes {
        self.gradient_bytes_in(Precision::Fp32.element_bytes())
    }

    /// Returns the bytes of the gradients with `element` bytes per value; those of tables stay in single precision.
    pub(crate) fn gradient_bytes_in(self, element: u64) -> Bytes {
        Bytes(element) * self.updated() + Bytes(Precision::Fp32.element_bytes()) * self.looked_up
    }

    /// Returns the bytes of the weights with `element` bytes per value; tables stay in single precision.
    pub fn weight_bytes(self, element: u64) -> Bytes {
        Bytes(element) * self.updated() + Bytes(Precision::Fp32.element_bytes()) * self.tables
    }

    /// Returns the parameters that belong to neither experts nor tables.
    fn dense(self) -> Self {
        Self { parameters: self.parameters - self.experts, experts: 0, tables: 0, looked_up: 0, ..self }
    }

    /// Returns the parameters of experts.
    fn of_experts(self) -> Self {
        let experts = self.experts - self.tables;
        let any = u32::from(experts > 0);
        Self { parameters: experts, experts, tensors: any, matrices: any, ..Self::default() }
    }

    /// Returns one rank's shard of a state. Tables are not sharded in this way, but distributed as experts are.
    fn divided(self, dense: u64, experts: u64) -> Self {
        let own = self.dense().parameters.div_ceil(dense);
        let expert = self.of_experts().parameters.div_ceil(experts) + self.tables;
        Self { parameters: own + expert, experts: expert, ..self }
    }
}

impl std::ops::Add for Held {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            parameters: self.parameters + other.parameters,
            experts: self.experts + other.experts,
            tables: self.tables + other.tables,
            looked_up: self.looked_up + other.looked_up,
            tensors: self.tensors + other.tensors,
            matrices: self.matrices + other.matrices,
        }
    }
}

/// A reduction in several collectives: the result of each is the buffer of the next.
pub type Chain = Vec<(Collective, Group, Held)>;

/// Counts the trainable matrices of a layer.
fn matrices(layer: &Layer) -> u32 {
    let kinds = layer.operators.iter().filter(|operator| !operator.shares_weights).map(|operator| operator.kind);
    kinds
        .map(|kind| match kind {
            OperatorKind::Linear { .. } | OperatorKind::ExpertLinear { .. } => 1,
            OperatorKind::Embedding { .. } => kind.parameter_tensors(),
            _ => 0,
        })
        .sum()
}

/// Returns the part of a layer that one of the ranks sharing it holds, for micro-batches of `micro` samples.
pub(crate) fn held_of(layer: &Layer, micro: u64, sharing: Sharing) -> Held {
    Held {
        parameters: layer.parameters(sharing),
        experts: layer.expert_parameters(sharing),
        tables: layer.table_parameters(sharing),
        looked_up: layer.looked_up(micro),
        tensors: layer.parameter_tensors(),
        matrices: matrices(layer),
    }
}

impl Plan {
    /// Returns how the ranks of a stage share its layers.
    pub fn sharing(&self) -> Sharing {
        self.mesh().sharing()
    }

    /// Returns the parameters that one rank holds of `layers`, a part of one run. The last of several stages has its
    /// own copy of an embedding table that the first one holds too.
    pub fn held(&self, layers: &Range<usize>) -> Held {
        let kinds = self.held_of_kinds();
        let own = self.graph().order()[layers.clone()].iter().map(|kind| kinds[*kind]);
        let stages = self.stages();
        let copies = stages.at(0).0 != stages.at(stages.links() - 1).0 && layers.end == self.graph().len();
        let shared = if copies { self.shared_on_rank() } else { 0 };
        let any = u32::from(shared > 0);
        let copy = Held { parameters: shared, tensors: any, matrices: any, ..Held::default() };
        own.fold(copy, std::ops::Add::add)
    }

    /// Returns the parameters that one rank of a stage holds, over all its runs.
    pub fn held_by(&self, stage: StageId) -> Held {
        self.stages().runs_of(stage).map(|layers| self.held(&layers)).fold(Held::default(), std::ops::Add::add)
    }

    /// Returns one rank's part of the embedding table that the first and the last layer share, in values.
    pub fn shared_on_rank(&self) -> u64 {
        self.graph().shared_parameters().div_ceil(u64::from(self.mesh().tensor()))
    }

    /// Returns `true` if this state, or more, is sharded over the ranks that hold copies of it.
    pub fn shards(&self, state: StateSharding) -> bool {
        self.state_sharding() >= state && self.mesh().shard() > 1
    }

    /// Returns `true` if weights reach the device only when they are needed.
    pub fn gathers_weights(&self) -> bool {
        self.shards(StateSharding::Parameters) || self.offload().parameters.is_some()
    }

    /// Returns `true` if something happens between layers, so that they are separate tasks.
    pub fn goes_by_layer(&self) -> bool {
        self.gathers_weights() || self.offload().activations.is_some()
    }

    /// Returns one rank's shard of a sharded state.
    pub fn shard_of(&self, held: Held) -> Held {
        if self.mesh().shard() == 1 || self.state_sharding() == StateSharding::None {
            return held;
        }
        let experts = self.mesh().group_size(self.sharers_of_experts());
        held.divided(u64::from(self.mesh().shard()), u64::from(experts))
    }

    /// Returns the weights that a rank keeps between passes: its shard, where weights are sharded.
    pub fn kept_weights(&self, held: Held) -> Held {
        if self.shards(StateSharding::Parameters) { self.shard_of(held) } else { held }
    }

    /// Returns `true` if updated weights are all-gathered: only optimizer state and gradients are sharded.
    pub fn gathers_updated(&self) -> bool {
        self.shards(StateSharding::Optimizer) && !self.shards(StateSharding::Parameters)
    }

    /// Returns the store that weights are copied to after their update, unless the machine's processor has just left
    /// them there.
    pub fn updated_to(&self) -> Option<Store> {
        let left_there = self.offload().optimizer.is_some() && !self.gathers_updated();
        self.offload().parameters.filter(|store| !left_there || *store != Store::Host)
    }

    /// Returns the group over which the state of experts is sharded: all ranks that hold the same ones or, where all
    /// replicas hold all experts, those over which everything else is sharded.
    fn sharers_of_experts(&self) -> Group {
        if self.mesh().parallel().expert == 1 { Group::Shard } else { Group::ExpertGradient }
    }

    /// Returns the groups in which sharded weights are gathered, with the weights of each: experts may have fewer
    /// holders.
    pub fn gather_groups(&self, held: Held) -> Vec<(Group, Held)> {
        [(Group::Shard, held.dense()), (self.sharers_of_experts(), held.of_experts())]
            .into_iter()
            .filter(|(group, held)| held.parameters > 0 && self.mesh().group_size(*group) > 1)
            .collect()
    }

    /// Returns the number of table values that an update changes on one rank: the rows that the samples of all holders
    /// of a copy looked up in a step, each counted as often as it was looked up.
    pub fn touched(&self, held: Held) -> u64 {
        let lookups = self.batch().accumulation.saturating_mul(self.mesh().group_size(Group::ExpertGradient).into());
        held.looked_up.saturating_mul(lookups)
    }

    /// Returns the bytes of the weights that a step changes, as gradients or weights of `element` bytes per value: all
    /// dense ones, and of tables the looked-up rows in single precision.
    pub fn changed_bytes(&self, held: Held, element: u64) -> Bytes {
        Held { looked_up: self.touched(held), ..held }.gradient_bytes_in(element)
    }

    /// Returns the table rows that one reduction brings together from all holders of a copy. They cannot be summed on
    /// the way, because each holder has other rows.
    fn gathered_rows(&self, held: Held) -> Held {
        let touched = match self.gradient_reduction() {
            GradientReduction::Step => self.touched(held),
            GradientReduction::MicroBatch => self.touched(held) / self.batch().accumulation,
        };
        Held { parameters: touched, tensors: 1, matrices: 1, ..Held::default() }
    }

    /// Returns the collectives that sum the gradients of some layers: one chain for dense parameters, one for experts,
    /// one for tables.
    ///
    /// A sharded state needs only its holder's part of the sum (Rajbhandari et al., arXiv:1910.02054, section 7); where
    /// it is sharded in groups, the groups sum their parts afterwards (Zhang et al., MiCS, arXiv:2205.00119, section
    /// 3.4).
    pub fn reductions(&self, held: Held) -> Vec<Chain> {
        let (dense, experts) = (held.dense(), held.of_experts());
        let rows = vec![(Collective::AllGather, Group::ExpertGradient, self.gathered_rows(held))];
        let chains = if self.shards(StateSharding::Optimizer) {
            let in_parts = |sharers, held: Held| {
                let parameters = held.parameters.div_ceil(u64::from(self.mesh().group_size(sharers)));
                vec![
                    (Collective::ReduceScatter, sharers, held),
                    (Collective::AllReduce, Group::ShardReplicas, Held { parameters, ..held }),
                ]
            };
            [in_parts(Group::Shard, dense), in_parts(self.sharers_of_experts(), experts), rows]
        } else {
            [
                vec![(Collective::AllReduce, Group::Gradient, dense)],
                vec![(Collective::AllReduce, Group::ExpertGradient, experts)],
                rows,
            ]
        };
        let needed =
            |(_, group, held): &(Collective, Group, Held)| held.parameters > 0 && self.mesh().group_size(*group) > 1;
        chains.into_iter().map(|chain| chain.into_iter().filter(needed).collect()).collect()
    }

    /// Returns the bytes that one rank sends for one micro-batch across the stage boundary after a layer.
    pub fn boundary_bytes(&self, layer: usize) -> Bytes {
        let Sharing { tensor, sequence, context, .. } = self.sharing();
        let parts = context * if sequence { tensor } else { 1 };
        let elements = self.graph().layer(layer).output_elements.div_ceil(parts) * self.batch().micro;
        Bytes(elements * self.precision().element_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{BatchSpec, ClusterSpec, ParallelSpec, PlanSpec};

    /// Mixtral of one block of two experts on eight replicas.
    fn experts(expert: u32, sharding_ranks: Option<u32>) -> Plan {
        let mut model = trainyard_models::find("mixtral-8x7b").expect("in the catalog").model.spec();
        (model.layers, model.experts) = (Some(1), Some(2));
        Plan::try_from(PlanSpec {
            parallel: ParallelSpec { data: 8, expert, ..ParallelSpec::default() },
            batch: BatchSpec { global: 8, micro: 1, accumulation: 1 },
            state_sharding: StateSharding::Parameters,
            sharding_ranks,
            ..PlanSpec::plain(model, ClusterSpec::of("p4d.24xlarge", 1), 3)
        })
        .expect("a valid plan")
    }

    #[test]
    fn experts_that_all_replicas_hold_are_shared_out_as_everything_else() {
        let plan = experts(1, Some(4));
        let held = plan.held(&(0..3));
        // Two experts of three products of 4096 by 14336.
        let values = 2 * 3 * 4096 * 14336;
        assert_eq!(held.of_experts().parameters, values);
        assert_eq!(plan.shard_of(held).experts, values / 4);
        let gathered = plan.gather_groups(held);
        assert_eq!(gathered[1], (Group::Shard, held.of_experts()));
        let reduced: Vec<_> =
            plan.reductions(held)[1].iter().map(|(kind, group, held)| (*kind, *group, held.parameters)).collect();
        let expected = [
            (Collective::ReduceScatter, Group::Shard, values),
            (Collective::AllReduce, Group::ShardReplicas, values / 4),
        ];
        assert_eq!(reduced, expected);
    }

    #[test]
    fn experts_that_are_spread_are_shared_out_among_their_holders() {
        let plan = experts(2, None);
        let held = plan.held(&(0..3));
        let values = 3 * 4096 * 14336;
        assert_eq!(plan.shard_of(held).experts, values / 4);
        assert_eq!(plan.gather_groups(held)[1], (Group::ExpertGradient, held.of_experts()));
        let expected = (Collective::ReduceScatter, Group::ExpertGradient, held.of_experts());
        assert_eq!(plan.reductions(held)[1], [expected]);
    }
}
