//! What a plan says, field by field.

use super::draft::Draft;
use super::job::Job;
use trainyard_plan::{
    Cache, CheckpointStorage, Collectives, DecodePlace, GradientCompression, GradientReduction, Offload, Optimizer,
    Placement, Pricing, Recompute, ScheduleName, StartKind, StateSharding, StorageMode,
};

/// A field of a plan document that launch files should tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Field {
    Model,
    Attention,
    Instance,
    Encrypted,
    Tensor,
    Pipeline,
    Context,
    Expert,
    Sequence,
    Micro,
    Accumulation,
    Schedule,
    Stages,
    Stack,
    Precision,
    Recompute,
    StateSharding,
    ShardingRanks,
    GradientReduction,
    GradientCompression,
    Offload,
    Placement,
    Collectives,
    Optimizer,
    Storage,
    Decode,
    Workers,
    Prefetch,
    Cache,
    Pricing,
    Service,
    Steps,
    LearningRate,
    WarmUp,
    Decay,
    ClipNorm,
    WeightDecay,
    Momentum,
    Betas,
    Epsilon,
    Start,
    CheckpointInterval,
    CheckpointStorage,
    Evaluation,
}

impl Field {
    pub(super) const ALL: [Self; 44] = [
        Self::Model,
        Self::Attention,
        Self::Instance,
        Self::Encrypted,
        Self::Tensor,
        Self::Pipeline,
        Self::Context,
        Self::Expert,
        Self::Sequence,
        Self::Micro,
        Self::Accumulation,
        Self::Schedule,
        Self::Stages,
        Self::Stack,
        Self::Precision,
        Self::Recompute,
        Self::StateSharding,
        Self::ShardingRanks,
        Self::GradientReduction,
        Self::GradientCompression,
        Self::Offload,
        Self::Placement,
        Self::Collectives,
        Self::Optimizer,
        Self::Storage,
        Self::Decode,
        Self::Workers,
        Self::Prefetch,
        Self::Cache,
        Self::Pricing,
        Self::Service,
        Self::Steps,
        Self::LearningRate,
        Self::WarmUp,
        Self::Decay,
        Self::ClipNorm,
        Self::WeightDecay,
        Self::Momentum,
        Self::Betas,
        Self::Epsilon,
        Self::Start,
        Self::CheckpointInterval,
        Self::CheckpointStorage,
        Self::Evaluation,
    ];

    /// Its path in the plan document.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Model => "plan.model",
            Self::Attention => "plan.model.attention",
            Self::Instance => "plan.cluster.instance",
            Self::Encrypted => "plan.cluster.encrypted",
            Self::Tensor => "plan.parallel.tensor",
            Self::Pipeline => "plan.parallel.pipeline",
            Self::Context => "plan.parallel.context",
            Self::Expert => "plan.parallel.expert",
            Self::Sequence => "plan.parallel.sequence",
            Self::Micro => "plan.batch.micro",
            Self::Accumulation => "plan.batch.accumulation",
            Self::Schedule => "plan.schedule",
            Self::Stages => "plan.stages",
            Self::Stack => "plan.stack",
            Self::Precision => "plan.precision",
            Self::Recompute => "plan.recompute",
            Self::StateSharding => "plan.state_sharding",
            Self::ShardingRanks => "plan.sharding_ranks",
            Self::GradientReduction => "plan.gradient_reduction",
            Self::GradientCompression => "plan.gradient_compression",
            Self::Offload => "plan.offload",
            Self::Placement => "plan.placement",
            Self::Collectives => "plan.collectives",
            Self::Optimizer => "plan.optimizer",
            Self::Storage => "plan.input.storage",
            Self::Decode => "plan.input.decode",
            Self::Workers => "plan.input.workers",
            Self::Prefetch => "plan.input.prefetch",
            Self::Cache => "plan.input.cache",
            Self::Pricing => "plan.pricing",
            Self::Service => "plan.service",
            Self::Steps => "prediction.steps",
            Self::LearningRate => "job.training.learning_rate",
            Self::WarmUp => "job.training.warm_up_steps",
            Self::Decay => "job.training.decay",
            Self::ClipNorm => "job.training.clip_norm",
            Self::WeightDecay => "job.training.weight_decay",
            Self::Momentum => "job.training.momentum",
            Self::Betas => "job.training.betas",
            Self::Epsilon => "job.training.epsilon",
            Self::Start => "job.campaign.start",
            Self::CheckpointInterval => "job.campaign.checkpoint_interval",
            Self::CheckpointStorage => "job.campaign.checkpoint_storage",
            Self::Evaluation => "job.campaign.evaluation",
        }
    }

    /// What it is, for those that a job may leave open.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Self::WarmUp => "steps over which the learning rate rises",
            Self::Decay => "what becomes of the learning rate after that",
            Self::ClipNorm => "greatest gradient norm; 0 is no clipping",
            Self::WeightDecay => "weight decay",
            Self::Momentum => "decay rate of the velocity",
            Self::Betas => "decay rates of the running means",
            Self::Epsilon => "added to the root of the mean square",
            Self::CheckpointInterval => "steps from one checkpoint to the next",
            _ => self.path(),
        }
    }

    /// Whether the document says it, of those that a job may leave open.
    pub(super) fn is_said(self, job: &Job<'_>) -> bool {
        let training = job.training();
        match self {
            Self::WarmUp => training.warm_up_steps.is_some(),
            Self::Decay => training.decay.is_some(),
            Self::ClipNorm => training.clip_norm.is_some(),
            Self::WeightDecay => training.weight_decay.is_some(),
            Self::Momentum => training.momentum.is_some(),
            Self::Betas => training.betas.is_some(),
            Self::Epsilon => training.epsilon.is_some(),
            Self::CheckpointInterval => job.checkpoint_interval().is_some(),
            _ => true,
        }
    }

    /// Whether a plan without it is another plan: one that may not fit, or that computes something else. Such a field
    /// is expressed, or the plan is refused.
    pub(super) fn decides(self) -> bool {
        matches!(
            self,
            Self::Tensor
                | Self::Pipeline
                | Self::Context
                | Self::Expert
                | Self::Sequence
                | Self::Micro
                | Self::Accumulation
                | Self::Schedule
                | Self::Precision
                | Self::Recompute
                | Self::StateSharding
                | Self::ShardingRanks
                | Self::Offload
        )
    }

    /// What the plan says there; nothing where it says what any training does.
    pub(super) fn value(self, job: &Job<'_>) -> Option<String> {
        let (plan, parallel) = (job.plan(), job.plan().mesh().parallel());
        let degree = |degree: u32| (degree > 1).then(|| degree.to_string());
        match self {
            Self::Model => Some(plan.model().name().to_owned()),
            Self::Attention => {
                let fused = plan.model().spec().attention.filter(|kernel| kernel.is_fused());
                fused.map(|kernel| kernel.name().into())
            }
            Self::Instance => Some(job.machines_in_words()),
            Self::Encrypted => plan.cluster().encrypted.then(|| "true".into()),
            Self::Tensor => degree(parallel.tensor),
            Self::Pipeline => degree(parallel.pipeline),
            Self::Context => degree(parallel.context),
            Self::Expert => degree(parallel.expert),
            Self::Sequence => parallel.sequence.then(|| "true".into()),
            Self::Micro => Some(plan.batch().micro.to_string()),
            Self::Accumulation => (plan.batch().accumulation > 1).then(|| plan.batch().accumulation.to_string()),
            Self::Schedule => (plan.schedule() != ScheduleName::None).then(|| plan.schedule().to_string()),
            Self::Stages => (parallel.pipeline > 1).then(|| job.stages_in_words()),
            Self::Stack => plan.stack().map(ToOwned::to_owned),
            Self::Precision => Some(plan.precision().to_string()),
            Self::Recompute => (plan.recompute() != Recompute::None).then(|| plan.recompute().to_string()),
            Self::StateSharding => {
                (plan.state_sharding() != StateSharding::None).then(|| plan.state_sharding().to_string())
            }
            Self::ShardingRanks => job.sharding_ranks().map(|ranks| ranks.to_string()),
            Self::Placement => {
                let matters = job.placement_matters();
                (matters && plan.mesh().placement() != Placement::Cluster).then(|| plan.mesh().placement().to_string())
            }
            Self::Offload => (plan.offload() != Offload::NONE).then(|| plan.offload().to_string()),
            _ => self.value_of_the_rest(job),
        }
    }

    fn value_of_the_rest(self, job: &Job<'_>) -> Option<String> {
        let (plan, training) = (job.plan(), job.training());
        match self {
            Self::GradientReduction => {
                (plan.gradient_reduction() != GradientReduction::Step).then(|| plan.gradient_reduction().to_string())
            }
            Self::GradientCompression => {
                let none = plan.gradient_compression() == GradientCompression::None;
                (!none).then(|| plan.gradient_compression().to_string())
            }
            Self::Collectives => (plan.collectives() != Collectives::Nccl).then(|| plan.collectives().to_string()),
            Self::Optimizer => Some(plan.optimizer().to_string()),
            Self::Storage => plan.input().map(|input| input.storage.to_string()),
            Self::Decode => plan.input().and_then(|input| (input.decode == DecodePlace::Gpu).then(|| "gpu".into())),
            Self::Workers => plan.input().map(|input| input.workers.to_string()),
            Self::Prefetch => plan.input().map(|input| input.prefetch.to_string()),
            Self::Cache => plan.input().and_then(|input| (input.cache != Cache::None).then(|| input.cache.to_string())),
            Self::Pricing => (plan.pricing() != Pricing::OnDemand).then(|| plan.pricing().to_string()),
            Self::Service => plan.spec().service.clone(),
            Self::Steps => Some(job.steps().to_string()),
            Self::LearningRate => training.learning_rate.map(|rate| rate.to_string()),
            Self::WarmUp => Some(job.warm_up().to_string()),
            Self::Decay => Some(job.decay_in_words()),
            Self::ClipNorm => training.clip_norm.map(|norm| norm.to_string()),
            Self::WeightDecay | Self::Momentum | Self::Betas | Self::Epsilon => self.value_of_the_rule(job),
            _ => self.value_of_the_campaign(job),
        }
    }

    /// The numbers of the optimizer's rule, of those that the rule has or the job says: engines have usual values of
    /// their own.
    fn value_of_the_rule(self, job: &Job<'_>) -> Option<String> {
        let (kind, said, rule) = (job.plan().optimizer(), job.training(), job.hyper_parameters());
        let has_velocity = matches!(kind, Optimizer::Momentum | Optimizer::Lars);
        let has_means = matches!(kind, Optimizer::AdamW | Optimizer::Adam | Optimizer::Lamb);
        match self {
            Self::WeightDecay => Some(rule.weight_decay.to_string()),
            Self::Momentum => (has_velocity || said.momentum.is_some()).then(|| rule.momentum.to_string()),
            Self::Betas => (has_means || said.betas.is_some()).then(|| format!("{:?}", rule.betas)),
            Self::Epsilon => (has_means || said.epsilon.is_some()).then(|| rule.epsilon.to_string()),
            _ => None,
        }
    }

    fn value_of_the_campaign(self, job: &Job<'_>) -> Option<String> {
        let campaign = job.campaign()?;
        match self {
            Self::Start => (campaign.start == Some(StartKind::WarmPool)).then(|| "warm-pool".into()),
            Self::CheckpointInterval => campaign.checkpoint_interval.clone(),
            Self::CheckpointStorage => campaign.checkpoint_storage.map(|storage| {
                match storage {
                    CheckpointStorage::S3 => "s3",
                    CheckpointStorage::Ebs => "ebs",
                }
                .into()
            }),
            Self::Evaluation => campaign.evaluation.as_ref().map(|evaluation| {
                let every = evaluation.every_steps.map(|steps| format!("{steps} steps"));
                let every = every.or(evaluation.every_epochs.map(|epochs| format!("{epochs} epochs")));
                format!("every {} on {} samples", every.unwrap_or_else(|| "epoch".into()), evaluation.samples)
            }),
            _ => None,
        }
    }
}

/// Whether samples of this mode come from objects of S3.
pub(super) fn from_objects(storage: StorageMode) -> bool {
    matches!(storage, StorageMode::S3FastFile | StorageMode::S3Pipe | StorageMode::S3File)
}

/// Says where checkpoints go at a target that keeps them in S3.
pub(super) fn checkpoints_in_s3(draft: &mut Draft<'_>) {
    let elsewhere =
        draft.job.campaign().and_then(|campaign| campaign.checkpoint_storage) == Some(CheckpointStorage::Ebs);
    if elsewhere {
        draft.note(Field::CheckpointStorage, "checkpoints go to S3 here");
    } else {
        draft.tells(&[Field::CheckpointStorage]);
    }
}
