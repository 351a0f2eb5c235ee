//! The groups of ranks that a rank belongs to, as the plan's mesh has them.

use crate::device::JoinedGpus;
use crate::network::{ContextGroup, ExpertGroup, TensorGroup, rows_per_sample};
use crate::process_group::{GroupError, ProcessGroup, Wire};
use crate::reducer::GradientGroups;
use crate::unit::Shards;
use trainyard_hardware_profiles::DeviceKind;
use trainyard_plan::{Coordinates, GradientCompression, Group, Plan, Precision, Rank, StageId, StateSharding};

/// The groups a rank belongs to.
pub(crate) struct Groups {
    /// All ranks.
    pub(crate) world: ProcessGroup,
    pub(crate) at: Coordinates,
    /// Ranks that share each layer's weights.
    pub(crate) tensor: TensorGroup,
    /// The same, for what is not part of a layer.
    pub(crate) tensor_plain: ProcessGroup,
    /// Ranks that share the tokens of each sample.
    pub(crate) context: ContextGroup,
    /// Ranks that share the experts of each layer.
    pub(crate) experts: ExpertGroup,
    /// The stages that a micro-batch goes through.
    pub(crate) pipeline: ProcessGroup,
    /// Ranks that sum gradients; used by the reducer's thread alone.
    pub(crate) gradients: GradientGroups,
    /// Ranks that share weights or their updates out; used by the rank's own thread.
    pub(crate) weights: ProcessGroup,
    /// Samples of a micro-batch.
    pub(crate) micro: usize,
    /// Features of a row behind each layer.
    pub(crate) widths: Vec<usize>,
    /// Runs of layers of all stages.
    pub(crate) positions: u32,
    /// By chunk, the stage that has it.
    stages: Vec<(StageId, u32)>,
    replicas: u32,
}

impl Groups {
    /// Splits the world as the plan's mesh says, of ranks that compute on devices of this kind. All ranks must call it.
    pub(crate) fn new(world: ProcessGroup, plan: &Plan, kind: DeviceKind) -> Result<Self, GroupError> {
        let mesh = plan.mesh();
        let rank = Rank(world.rank() as u32);
        let along = |group: &[Rank]| world.split(group.iter().map(|rank| rank.0).min().unwrap_or(0) as usize);
        let tensor = along(&mesh.group(rank, Group::Tensor))?;
        let shares = plan.shards(StateSharding::Optimizer);
        let (shard, replicas) = if shares {
            (mesh.group(rank, Group::Shard), mesh.group(rank, Group::ShardReplicas))
        } else {
            (vec![rank], mesh.group(rank, Group::Gradient))
        };
        let (shard_ranks, replicas) = (along(&shard)?, along(&replicas)?);
        let experts = mesh.group(rank, Group::ExpertGradient);
        let experts = if mesh.parallel().expert > 1 { Some(along(&experts)?.counted_apart()) } else { None };
        // NCCL has sums through Burn, but no shares of them.
        let joined = if shares || experts.is_some() { None } else { JoinedGpus::of(&replicas, kind) };
        // The reducer's thread waits while the rank's own exchanges other things.
        let (shard_ranks, replicas) = (shard_ranks.counted_apart(), replicas.counted_apart());
        let gradients = GradientGroups { shard: shard_ranks, replicas, experts, joined, wire: wire(plan) };
        let stages = plan.stages();
        Ok(Self {
            at: mesh.coordinates(rank),
            tensor: TensorGroup::new(tensor.clone(), mesh.parallel().sequence, JoinedGpus::of(&tensor, kind)),
            tensor_plain: tensor,
            context: ContextGroup::new(along(&mesh.group(rank, Group::Context))?),
            experts: ExpertGroup::new(along(&mesh.group(rank, Group::Expert))?),
            pipeline: along(&mesh.pipeline_group(rank))?,
            gradients,
            weights: along(&shard)?,
            micro: plan.batch().micro as usize,
            widths: widths(plan),
            positions: stages.chunks(),
            stages: (0..stages.chunks()).map(|position| stages.at(position)).collect(),
            replicas: mesh.copies(),
            world,
        })
    }

    /// Returns an error if an exchange within a layer failed.
    pub(crate) fn check(&self) -> Result<(), GroupError> {
        self.tensor.check()?;
        self.context.check()?;
        self.experts.check()
    }

    /// Returns the kind of sharding and the pieces that this rank owns.
    pub(crate) fn shards(&self, plan: &Plan) -> Shards {
        let fetched = plan.offload().parameters.is_some();
        Shards { state: plan.state_sharding(), count: self.weights.size(), own: self.weights.rank(), fetched }
    }

    /// Returns the number of ranks that hold the same layers and have other samples or other tokens of them.
    pub(crate) fn replicas(&self) -> f32 {
        self.replicas as f32
    }

    /// Returns the number of ranks that hold the same pieces as this one.
    pub(crate) fn copies_of_pieces(&self) -> f32 {
        self.gradients.replicas.size() as f32
    }

    /// Returns the number of ranks of which each has other experts.
    pub(crate) fn ranks_of_experts(&self) -> f32 {
        self.experts.size() as f32
    }

    /// Returns `true` if no rank before this one has the same pieces of a parameter, which may be an expert's.
    pub(crate) fn is_first_with(&self, of_expert: bool) -> bool {
        let experts = self.gradients.experts.as_ref().filter(|_| of_expert);
        experts.unwrap_or(&self.gradients.replicas).rank() == 0
    }

    /// Returns the stage with the last layer.
    pub(crate) fn last_stage(&self) -> StageId {
        self.stages[self.stages.len() - 1].0
    }

    /// Returns the chunk that `stage` has at this place in the order of the model, if it is that stage's.
    pub(crate) fn chunk_at(&self, position: u32, stage: StageId) -> Option<u32> {
        let (holder, chunk) = self.stages[position as usize];
        (holder == stage).then_some(chunk)
    }
}

/// Returns the format in which gradients travel: as they are computed, or as the plan compresses them.
fn wire(plan: &Plan) -> Wire {
    match (plan.gradient_compression(), plan.precision()) {
        (GradientCompression::Fp16, _) | (_, Precision::Fp16Mixed) => Wire::F16,
        (GradientCompression::Bf16, _) | (_, Precision::Bf16Mixed | Precision::Fp8Mixed) => Wire::Bf16,
        (_, Precision::Fp32 | Precision::Tf32) => Wire::F32,
    }
}

/// Features of a row behind each layer.
fn widths(plan: &Plan) -> Vec<usize> {
    let rows = rows_per_sample(plan.model()) as usize;
    plan.graph().layers().map(|layer| (layer.output_elements as usize / rows).max(1)).collect()
}
