//! What the holders of copies of parameters share out among themselves, and the collectives of which that makes use.

use crate::collective::Collective;
use crate::mesh::Group;
use crate::offload::Store;
use crate::parameters::{Chain, ParameterCounts};
use crate::spec::{GradientReduction, StateSharding};
use crate::valid::Plan;
use trainyard_units::Bytes;

impl Plan {
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
    pub fn shard_of(&self, held: ParameterCounts) -> ParameterCounts {
        if self.mesh().shard() == 1 || self.state_sharding() == StateSharding::None {
            return held;
        }
        let experts = self.mesh().group_size(self.sharers_of_experts());
        held.divided(u64::from(self.mesh().shard()), u64::from(experts))
    }

    /// Returns the weights that a rank keeps between passes: its shard, where weights are sharded.
    pub fn kept_weights(&self, held: ParameterCounts) -> ParameterCounts {
        if self.shards(StateSharding::Parameters) { self.shard_of(held) } else { held }
    }

    /// Returns `true` if updated weights are all-gathered: only optimizer state and gradients are sharded.
    pub fn gathers_updated(&self) -> bool {
        self.shards(StateSharding::Optimizer) && !self.shards(StateSharding::Parameters)
    }

    /// Returns `true` if a forward pass may gather updated weights, where the software does so. Stages of a pipeline gather
    /// after the update: a later one would begin only when activations arrive, stage after stage.
    pub fn may_gather_in_forward(&self) -> bool {
        self.gathers_updated() && self.offload().parameters.is_none() && self.stages().count() == 1
    }

    /// Returns `true` if software that keeps gradients in main memory does so with this plan: the processor updates, and
    /// after each micro-batch a rank has all of its part of the gradients.
    pub fn may_keep_gradients_on_host(&self) -> bool {
        let each = self.gradient_reduction() == GradientReduction::MicroBatch || self.batch().accumulation == 1;
        let parted = self.mesh().copies() == 1 || self.shards(StateSharding::Gradients) && each;
        self.offload().optimizer.is_some() && parted
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
    pub fn gather_groups(&self, held: ParameterCounts) -> Vec<(Group, ParameterCounts)> {
        [(Group::Shard, held.dense()), (self.sharers_of_experts(), held.of_experts())]
            .into_iter()
            .filter(|(group, held)| !held.is_empty() && self.mesh().group_size(*group) > 1)
            .collect()
    }

    /// Returns the number of table values that an update changes on one rank: the rows that the samples of all holders
    /// of a copy looked up in a step, each counted as often as it was looked up.
    pub fn touched(&self, held: ParameterCounts) -> u64 {
        let lookups = self.batch().accumulation.saturating_mul(self.mesh().group_size(Group::ExpertGradient).into());
        held.looked_up.saturating_mul(lookups)
    }

    /// Returns the bytes of the weights that a step changes, as gradients or weights of `element` bytes per value: all
    /// dense ones, and of tables the looked-up rows in single precision.
    pub fn changed_bytes(&self, held: ParameterCounts, element: u64) -> Bytes {
        ParameterCounts { looked_up: self.touched(held), ..held }.gradient_bytes_in(element)
    }

    /// Returns the table rows that one reduction brings together from all holders of a copy. They cannot be summed on
    /// the way, because each holder has other rows.
    fn gathered_rows(&self, held: ParameterCounts) -> ParameterCounts {
        let touched = match self.gradient_reduction() {
            GradientReduction::Step => self.touched(held),
            GradientReduction::MicroBatch => self.touched(held) / self.batch().accumulation,
        };
        ParameterCounts { parameters: touched, tensors: 1, matrices: 1, ..ParameterCounts::default() }
    }

    /// Returns the collectives that sum the gradients of some layers: one chain for dense parameters, one for experts,
    /// one for tables.
    ///
    /// A sharded state needs only its holder's part of the sum (Rajbhandari et al., arXiv:1910.02054, section 7); where
    /// it is sharded in groups, the groups sum their parts afterwards (Zhang et al., MiCS, arXiv:2205.00119, section
    /// 3.4).
    pub fn reductions(&self, held: ParameterCounts) -> Vec<Chain> {
        let (dense, experts) = (held.dense(), held.of_experts());
        let rows = vec![(Collective::AllGather, Group::ExpertGradient, self.gathered_rows(held))];
        let chains = if self.shards(StateSharding::Optimizer) {
            let in_parts = |sharers, held: ParameterCounts| {
                let parameters = held.parameters.div_ceil(u64::from(self.mesh().group_size(sharers)));
                vec![
                    (Collective::ReduceScatter, sharers, held),
                    (Collective::AllReduce, Group::ShardReplicas, ParameterCounts { parameters, ..held }),
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
        let needed = |(_, group, held): &(Collective, Group, ParameterCounts)| {
            held.parameters > 0 && self.mesh().group_size(*group) > 1
        };
        chains.into_iter().map(|chain| chain.into_iter().filter(needed).collect()).collect()
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
