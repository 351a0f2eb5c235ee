//! Ranks and their coordinates. The one place where the two are converted.

use crate::placement::{Axis, Placement};
use crate::spec::ParallelSpec;
use trainyard_models::Sharing;

/// A process of the job, which has one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank(pub u32);

/// The position of a rank along each parallelism dimension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Coordinates {
    /// Index of the replica.
    pub data: u32,
    /// Index of the part of each layer.
    pub tensor: u32,
    /// Index of the pipeline stage.
    pub pipeline: u32,
    /// Index of the part of each sample.
    pub context: u32,
}

/// A kind of process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Ranks that share the layers of a stage.
    Tensor,
    /// Ranks that share the tokens of a sample.
    Context,
    /// Ranks that share the experts of a stage.
    Expert,
    /// Ranks that hold the same parameters, experts apart, and sum their gradients: all replicas and all parts of a
    /// sample.
    Gradient,
    /// Ranks that hold the same experts.
    ExpertGradient,
    /// The part of [`Self::Gradient`] over which a state is sharded.
    Shard,
    /// The ranks of [`Self::Gradient`] that hold the same shard of a state.
    ShardReplicas,
}

/// All ranks of a plan. Unless the placement says otherwise, ranks are numbered tensor first, then context, then data,
/// then pipeline, so that the ranks that communicate most are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mesh {
    parallel: ParallelSpec,
    placement: Placement,
    /// Number of ranks of [`Group::Gradient`] over which a state is sharded.
    shard: u32,
}

impl From<ParallelSpec> for Mesh {
    fn from(parallel: ParallelSpec) -> Self {
        Self::new(parallel, Placement::Cluster, None)
    }
}

impl Mesh {
    /// Creates the mesh of a plan; states are sharded over `shard` ranks, or over all that hold the same parameters if
    /// it is `None`.
    pub fn new(parallel: ParallelSpec, placement: Placement, shard: Option<u32>) -> Self {
        Self { parallel, placement, shard: shard.unwrap_or(parallel.data * parallel.context) }
    }

    /// Returns the degrees of parallelism.
    pub fn parallel(self) -> ParallelSpec {
        self.parallel
    }

    /// Returns how ranks are placed on machines.
    pub fn placement(self) -> Placement {
        self.placement
    }

    /// Returns the number of replicas.
    pub fn data(self) -> u32 {
        self.parallel.data
    }

    /// Returns the number of ranks that share a layer.
    pub fn tensor(self) -> u32 {
        self.parallel.tensor
    }

    /// Returns the number of pipeline stages.
    pub fn pipeline(self) -> u32 {
        self.parallel.pipeline
    }

    /// Returns the number of ranks that share a sample.
    pub fn context(self) -> u32 {
        self.parallel.context
    }

    /// Returns how the ranks of a stage share its layers.
    pub fn sharing(self) -> Sharing {
        let ParallelSpec { tensor, context, expert, folded_experts, sequence, .. } = self.parallel;
        Sharing {
            tensor: u64::from(tensor),
            sequence: sequence && tensor > 1,
            context: u64::from(context),
            expert: u64::from(expert),
            folded_experts,
        }
    }

    /// Returns the number of ranks that hold the same parameters.
    pub fn copies(self) -> u32 {
        self.data() * self.context()
    }

    /// Returns the number of ranks over which a state is sharded.
    pub fn shard(self) -> u32 {
        self.shard
    }

    /// Returns the number of ranks.
    pub fn ranks(self) -> u32 {
        self.data() * self.tensor() * self.pipeline() * self.context()
    }

    fn size(self, axis: Axis) -> u32 {
        match axis {
            Axis::Data => self.data(),
            Axis::Pipeline => self.pipeline(),
            Axis::Tensor => self.tensor() * self.context(),
        }
    }

    /// Returns the rank at these coordinates.
    pub fn rank(self, at: Coordinates) -> Rank {
        let along = |axis| match axis {
            Axis::Data => at.data,
            Axis::Pipeline => at.pipeline,
            Axis::Tensor => at.tensor + self.tensor() * at.context,
        };
        let [near, middle, far] = self.placement.order();
        Rank(along(near) + self.size(near) * (along(middle) + self.size(middle) * along(far)))
    }

    /// Returns the coordinates of a rank.
    pub fn coordinates(self, Rank(rank): Rank) -> Coordinates {
        let mut rest = rank;
        let mut at = Coordinates::default();
        for axis in self.placement.order() {
            let along = rest % self.size(axis);
            rest /= self.size(axis);
            match axis {
                Axis::Data => at.data = along,
                Axis::Pipeline => at.pipeline = along,
                Axis::Tensor => (at.tensor, at.context) = (along % self.tensor(), along / self.tensor()),
            }
        }
        at
    }

    /// Returns the first rank of a stage: first replica, first part of each layer and sample.
    pub fn first_of_stage(self, pipeline: u32) -> Rank {
        self.rank(Coordinates { pipeline, ..Coordinates::default() })
    }

    /// Iterates over the ranks of a stage, ordered by replica, then part of a sample, then part of a layer.
    pub fn stage_ranks(self, pipeline: u32) -> impl Iterator<Item = Rank> {
        let (data, context, tensor) = (self.data(), self.context(), self.tensor());
        (0..data * context * tensor).map(move |index| {
            let (copy, tensor_index) = (index / tensor, index % tensor);
            self.rank(Coordinates { data: copy / context, context: copy % context, tensor: tensor_index, pipeline })
        })
    }

    /// Returns the ranks of the group that contains `rank`, in ring order.
    pub fn group(self, rank: Rank, group: Group) -> Vec<Rank> {
        let at = self.coordinates(rank);
        let copy = at.data * self.context() + at.context;
        let of_copies = |copies: &mut dyn Iterator<Item = u32>| -> Vec<Rank> {
            copies
                .map(|copy| {
                    self.rank(Coordinates { data: copy / self.context(), context: copy % self.context(), ..at })
                })
                .collect()
        };
        let expert = self.parallel.expert;
        match group {
            Group::Tensor => (0..self.tensor()).map(|tensor| self.rank(Coordinates { tensor, ..at })).collect(),
            Group::Context => (0..self.context()).map(|context| self.rank(Coordinates { context, ..at })).collect(),
            Group::Expert if self.parallel.folded_experts => {
                let first = copy / expert * expert;
                let copies = (first..first + expert).map(|copy| (copy / self.context(), copy % self.context()));
                let of = |(data, context)| {
                    (0..self.tensor()).map(move |tensor| self.rank(Coordinates { data, tensor, context, ..at }))
                };
                copies.flat_map(of).collect()
            }
            Group::ExpertGradient if self.parallel.folded_experts => {
                of_copies(&mut (copy % expert..self.copies()).step_by(expert as usize))
            }
            Group::Expert => {
                let first = at.data / expert * expert;
                (first..first + expert).map(|data| self.rank(Coordinates { data, ..at })).collect()
            }
            Group::Gradient => of_copies(&mut (0..self.copies())),
            Group::ExpertGradient => {
                of_copies(&mut (0..self.copies()).filter(|copy| copy / self.context() % expert == at.data % expert))
            }
            Group::Shard => {
                let first = copy / self.shard * self.shard;
                of_copies(&mut (first..first + self.shard))
            }
            Group::ShardReplicas => of_copies(&mut (copy % self.shard..self.copies()).step_by(self.shard as usize)),
        }
    }

    /// Returns the number of ranks in a group.
    pub fn group_size(self, group: Group) -> u32 {
        match group {
            Group::Tensor => self.tensor(),
            Group::Context => self.context(),
            Group::Expert => self.parallel.expert_ranks(),
            Group::Gradient => self.copies(),
            Group::ExpertGradient => self.copies() / self.parallel.expert,
            Group::Shard => self.shard,
            Group::ShardReplicas => self.copies() / self.shard,
        }
    }

    /// Returns the ranks through which the samples of `rank` pass, first stage first.
    pub fn pipeline_group(self, rank: Rank) -> Vec<Rank> {
        let at = self.coordinates(rank);
        (0..self.pipeline()).map(|pipeline| self.rank(Coordinates { pipeline, ..at })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GROUPS: [Group; 7] = [
        Group::Tensor,
        Group::Context,
        Group::Expert,
        Group::Gradient,
        Group::ExpertGradient,
        Group::Shard,
        Group::ShardReplicas,
    ];

    proptest! {
        #[test]
        fn ranks_and_coordinates_are_a_bijection_and_groups_partition_the_ranks(
            experts in 1u32..4, expert in 1u32..4, tensor in 1u32..5, pipeline in 1u32..5, context in 1u32..4,
            placement in prop::sample::select(Placement::all().collect::<Vec<_>>()), folded_experts: bool,
        ) {
            let parallel = ParallelSpec {
                data: expert * experts, tensor, pipeline, context, expert, folded_experts, sequence: false,
            };
            let mesh = Mesh::new(parallel, placement, Some(expert * context));
            for rank in (0..mesh.ranks()).map(Rank) {
                prop_assert_eq!(mesh.rank(mesh.coordinates(rank)), rank);
                prop_assert!(mesh.pipeline_group(rank).contains(&rank));
                for group in GROUPS {
                    let members = mesh.group(rank, group);
                    prop_assert_eq!(members.len() as u32, mesh.group_size(group));
                    prop_assert!(members.contains(&rank));
                    prop_assert!(members.iter().all(|member| mesh.group(*member, group) == members));
                }
            }
            let mut all: Vec<Rank> = (0..pipeline).flat_map(|stage| mesh.stage_ranks(stage)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..mesh.ranks()).map(Rank).collect::<Vec<_>>());
        }
    }
}
