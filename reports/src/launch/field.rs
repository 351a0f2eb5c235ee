//! What a plan document says, field by field.

use super::draft::Draft;
use super::job::Job;
pub(super) use trainyard_plan::Field;
use trainyard_plan::{CheckpointStorage, DecayExempt, DecodePlace, Optimizer, Pricing, StartKind, StorageMode};
use trainyard_units::counted;

/// Fields that follow from the number of processes and from the other fields.
pub(super) const FOLLOWING: [Field; 4] = [Field::Instances, Field::Data, Field::Global, Field::VirtualStages];

/// Returns `true` if the document states a field that a job may leave open.
pub(super) fn is_said(field: Field, job: &Job<'_>) -> bool {
    let training = job.training();
    match field {
        Field::WarmUp => training.warm_up_steps.is_some(),
        Field::Decay => training.decay.is_some(),
        Field::ClipNorm => training.clip_norm.is_some(),
        Field::WeightDecay => training.weight_decay.is_some(),
        Field::DecayExempt => training.decay_exempt.is_some(),
        Field::Dropout => training.dropout.is_some(),
        Field::Momentum => training.momentum.is_some(),
        Field::Betas => training.betas.is_some(),
        Field::Epsilon => training.epsilon.is_some(),
        Field::CheckpointInterval => job.checkpoint_interval().is_some(),
        _ => true,
    }
}

/// Returns where a document states a field, for notes: dropout that no job states is the model's.
pub(super) fn place(field: Field, job: &Job<'_>) -> &'static str {
    match field {
        Field::Dropout if !is_said(field, job) => "plan.model.dropout, of the model's description or config.json,",
        field => field.path(),
    }
}

/// Returns the document's value of a field; `None` for the value that any training has.
pub(super) fn value(field: Field, job: &Job<'_>) -> Option<String> {
    let (plan, training) = (job.plan(), job.training());
    match field {
        Field::Model => Some(plan.model().name().to_owned()),
        Field::Attention => {
            let fused = plan.spec().model.attention.filter(|kernel| kernel.is_fused());
            fused.map(|kernel| kernel.name().into())
        }
        Field::Instance => Some(job.machines_in_words()),
        Field::Stages => (plan.mesh().pipeline() > 1).then(|| job.stages_in_words()),
        Field::ShardingRanks => job.sharding_ranks().map(|ranks| ranks.to_string()),
        Field::Placement if !job.placement_matters() => None,
        Field::Steps => Some(job.steps().to_string()),
        Field::LearningRate => training.learning_rate.map(|rate| rate.to_string()),
        Field::WarmUp => Some(job.warm_up().to_string()),
        Field::Decay => Some(job.decay_in_words()),
        Field::ClipNorm => Some(job.clip_norm().to_string()),
        Field::DecayExempt => {
            let (exempt, decays) = (job.hyper_parameters().decay_exempt, job.hyper_parameters().weight_decay > 0.0);
            (decays && exempt == DecayExempt::None).then(|| exempt.to_string())
        }
        Field::Dropout => {
            let shares = plan.model().dropout();
            shares.is_on().then(|| shares.to_string())
        }
        Field::WeightDecay | Field::Momentum | Field::Betas | Field::Epsilon => of_the_rule(field, job),
        Field::Start | Field::CheckpointInterval | Field::CheckpointStorage | Field::Evaluation => {
            of_the_campaign(field, job)
        }
        field => field.said(plan.spec()),
    }
}

/// Returns a hyper-parameter of the optimizer that its rule has or the job states: engines have defaults of their own.
fn of_the_rule(field: Field, job: &Job<'_>) -> Option<String> {
    let (kind, said, rule) = (job.plan().optimizer(), job.training(), job.hyper_parameters());
    let has_velocity = matches!(kind, Optimizer::Momentum | Optimizer::Lars);
    let has_means = kind.has_means();
    match field {
        Field::WeightDecay => Some(rule.weight_decay.to_string()),
        Field::Momentum => (has_velocity || said.momentum.is_some()).then(|| rule.momentum.to_string()),
        Field::Betas => (has_means || said.betas.is_some()).then(|| format!("{:?}", rule.betas)),
        Field::Epsilon => (has_means || said.epsilon.is_some()).then(|| rule.epsilon.to_string()),
        _ => None,
    }
}

fn of_the_campaign(field: Field, job: &Job<'_>) -> Option<String> {
    let campaign = job.campaign()?;
    match field {
        Field::Start => (campaign.start == Some(StartKind::WarmPool)).then(|| "warm-pool".into()),
        Field::CheckpointInterval => campaign.checkpoint_interval.clone(),
        Field::CheckpointStorage => campaign.checkpoint_storage.map(|storage| {
            match storage {
                CheckpointStorage::S3 => "s3",
                CheckpointStorage::Ebs => "ebs",
            }
            .into()
        }),
        Field::Evaluation => campaign.evaluation.as_ref().map(|evaluation| {
            let every = evaluation.every_steps.map(|steps| counted(steps, "step"));
            let every = every.or(evaluation.every_epochs.map(|epochs| {
                if epochs.to_bits() == 1.0_f64.to_bits() { "epoch".into() } else { format!("{epochs} epochs") }
            }));
            let samples = evaluation.samples.map(|samples| counted(samples, "sample"));
            let samples = samples.or(evaluation.share.map(|share| format!("{share} of the data set")));
            format!("every {} on {}", every.unwrap_or_default(), samples.unwrap_or_default())
        }),
        _ => None,
    }
}

/// What to do about dropout where a script builds or loads the model.
pub(super) const DROPOUT: &str = "config.json of the model has the shares, attn_pdrop, resid_pdrop and \
     embd_pdrop for GPT-2, hidden_dropout_prob and attention_probs_dropout_prob for BERT and ViT, attention_dropout for Llama";

/// The same where the job says nothing of dropout, and memory and time count that of the published training.
pub(super) const USUAL_DROPOUT: &str = "memory and time count dropout, as in the model's published training, because the job \
     says nothing of it (job.training.dropout): the model's configuration in transformers drops out a tenth unless it says \
     otherwise (attn_pdrop, resid_pdrop and embd_pdrop of GPT-2, hidden_dropout_prob and \
     attention_probs_dropout_prob of BERT)";

/// The package of NVIDIA DALI for CUDA 12.
pub(super) const DALI_PACKAGE: &str = "nvidia-dali-cuda120";

/// What to do where GPUs decode.
pub(super) const DALI: &str =
    "the script decodes with NVIDIA DALI, the package nvidia-dali-cuda120 (nvidia-dali-cuda130 for CUDA 13)";

/// Returns what a user must do for a field that launch files leave out, where one word is not enough.
pub(super) fn left_to_the_user(field: Field, job: &Job<'_>) -> Option<&'static str> {
    if field == Field::Pricing && job.plan().pricing() == Pricing::CapacityBlock {
        return Some("book the block before; its instances are terminated from 30 minutes before it ends");
    }
    let input = job.plan().input()?;
    match field {
        Field::Storage => match input.storage {
            StorageMode::S3FastFile => {
                Some("these files do not mount the bucket; Mountpoint for Amazon S3 does, or the script reads it")
            }
            StorageMode::S3Pipe => Some(
                "the script streams the objects, each from its beginning to its end: WebDataset, or S3IterableDataset of the Amazon \
                 S3 Connector for PyTorch",
            ),
            StorageMode::S3File => Some("`aws s3 sync` copies the samples onto each machine before the script starts"),
            _ => None,
        },
        Field::Decode if input.decode == DecodePlace::Gpu => Some(DALI),
        _ => None,
    }
}

/// Returns `true` if samples of this storage mode come from objects of S3.
pub(super) fn from_objects(storage: StorageMode) -> bool {
    matches!(storage, StorageMode::S3FastFile | StorageMode::S3Pipe | StorageMode::S3File)
}

/// Tells where checkpoints go at a target that keeps them in S3.
pub(super) fn checkpoints_in_s3(draft: &mut Draft<'_>) {
    let elsewhere =
        draft.job.campaign().and_then(|campaign| campaign.checkpoint_storage) == Some(CheckpointStorage::Ebs);
    if elsewhere {
        draft.note(Field::CheckpointStorage, "checkpoints go to S3 here");
    } else {
        draft.tells(&[Field::CheckpointStorage]);
    }
}
