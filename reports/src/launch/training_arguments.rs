//! A plan as `transformers.TrainingArguments`.
//!
//! # Source
//!
//! Hugging Face transformers 5.23, `src/transformers/training_args.py` and `optimization.py`.

use super::draft::Draft;
use super::error::LaunchError;
use super::field::Field;
use super::program::{Places, among_neighbours};
use serde_json::json;
use trainyard_plan::{Decay, GradientReduction, Optimizer, Precision, Recompute, StateSharding};

/// Who shares states out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharding {
    /// PyTorch's fully sharded data parallelism, as these arguments say.
    Fsdp,
    /// DeepSpeed, as its configuration says.
    Deepspeed,
    /// The launcher's own configuration.
    Launcher,
}

/// A plan as names and values.
pub(super) fn arguments(
    draft: &mut Draft<'_>,
    sharding: Sharding,
    places: Places,
) -> Result<Vec<(String, String)>, LaunchError> {
    let plan = draft.job.plan();
    let mut list = List::default();
    list.add("output_dir", places.results(draft));
    list.add("max_steps", draft.job.steps());
    list.add("per_device_train_batch_size", plan.batch().micro);
    list.add("gradient_accumulation_steps", plan.batch().accumulation);
    draft.tells(&[Field::Steps, Field::Micro, Field::Accumulation]);
    precision(draft, &mut list);
    recompute(draft, &mut list);
    sharded(draft, sharding, &mut list)?;
    optimizer(draft, &mut list);
    schedule(draft, &mut list);
    input_and_output(draft, &mut list);
    if !draft.job.has_gpus() {
        list.add("use_cpu", true);
    }
    draft.note(Field::Model, "the script builds the model");
    Ok(list.0)
}

#[derive(Default)]
struct List(Vec<(String, String)>);

impl List {
    fn add(&mut self, name: &str, value: impl ToString) {
        self.0.push((name.into(), value.to_string()));
    }
}

fn precision(draft: &mut Draft<'_>, list: &mut List) {
    draft.tells(&[Field::Precision]);
    match draft.job.plan().precision() {
        Precision::Fp32 => {}
        Precision::Tf32 => list.add("tf32", true),
        Precision::Fp16Mixed => list.add("fp16", true),
        Precision::Bf16Mixed => list.add("bf16", true),
    }
}

fn recompute(draft: &mut Draft<'_>, list: &mut List) {
    match draft.job.plan().recompute() {
        Recompute::None => {}
        Recompute::Full => list.add("gradient_checkpointing", true),
        Recompute::Selective => {
            let advice = "take an attention that keeps no scores, attn_implementation sdpa or flash_attention_2";
            draft.note(Field::Recompute, advice);
        }
    }
    draft.tells(&[Field::Recompute]);
}

fn sharded(draft: &mut Draft<'_>, sharding: Sharding, list: &mut List) -> Result<(), LaunchError> {
    match sharding {
        Sharding::Launcher => return Ok(()),
        Sharding::Deepspeed => {
            list.add("deepspeed", "deepspeed.json");
            return Ok(());
        }
        Sharding::Fsdp => {}
    }
    if let Some(strategy) = fsdp_strategy(draft)? {
        list.add("fsdp", format!("{strategy} auto_wrap"));
        if strategy.starts_with("hybrid") {
            // Without a word transformers 5 takes FSDP2, which it lets share among all replicas only.
            list.add("fsdp_config", json!({ "version": 1 }));
        }
    }
    draft.tells(&[Field::StateSharding, Field::ShardingRanks]);
    reduction(draft, list);
    Ok(())
}

/// How often gradients are summed, which Accelerate decides under the Trainer.
pub(super) fn reduction_arguments(draft: &mut Draft<'_>) -> Option<(String, String)> {
    let mut list = List::default();
    reduction(draft, &mut list);
    list.0.pop()
}

fn reduction(draft: &mut Draft<'_>, list: &mut List) {
    if draft.job.plan().gradient_reduction() == GradientReduction::MicroBatch {
        list.add("accelerator_config", json!({ "gradient_accumulation_kwargs": { "sync_each_batch": true } }));
    }
    draft.tells(&[Field::GradientReduction]);
}

/// The word for what FSDP shares out; nothing where replicas share nothing.
fn fsdp_strategy(draft: &Draft<'_>) -> Result<Option<&'static str>, LaunchError> {
    Ok(match (draft.job.plan().state_sharding(), among_neighbours(draft)?) {
        (StateSharding::None, _) => None,
        (StateSharding::Gradients, false) => Some("shard_grad_op"),
        (StateSharding::Gradients, true) => Some("hybrid_shard_zero2"),
        (StateSharding::Parameters, false) => Some("full_shard"),
        (StateSharding::Parameters, true) => Some("hybrid_shard"),
        (StateSharding::Optimizer, _) => {
            return Err(draft.cannot(Field::StateSharding, "FSDP shares out gradients as soon as anything"));
        }
    })
}

fn optimizer(draft: &mut Draft<'_>, list: &mut List) {
    let (kind, rule) = (draft.job.plan().optimizer(), draft.job.hyper_parameters());
    match kind {
        Optimizer::AdamW => list.add("optim", "adamw_torch"),
        // Without weight decay the two are one.
        Optimizer::Adam if rule.weight_decay == 0.0 => list.add("optim", "adamw_torch"),
        Optimizer::Sgd => list.add("optim", "sgd"),
        Optimizer::RmsProp => list.add("optim", "rmsprop"),
        Optimizer::Adam | Optimizer::Momentum | Optimizer::Lars | Optimizer::Lamb => {
            draft.note(Field::Optimizer, "TrainingArguments have no name for it; hand the Trainer one of your own");
        }
    }
    draft.tells(&[Field::Optimizer]);
    list.add("learning_rate", draft.learning_rate_or_blank("peak learning rate"));
    list.add("weight_decay", rule.weight_decay);
    draft.tells(&[Field::WeightDecay]);
    // The Trainer has no LAMB, but DeepSpeed does, whose configuration must say the same as these arguments.
    if matches!(kind, Optimizer::AdamW | Optimizer::Adam | Optimizer::Lamb) {
        let [first, second] = rule.betas;
        list.add("adam_beta1", first);
        list.add("adam_beta2", second);
        list.add("adam_epsilon", rule.epsilon);
        draft.tells(&[Field::Betas, Field::Epsilon]);
    }
    // The Trainer clips unless it is told not to.
    list.add("max_grad_norm", draft.told(Field::ClipNorm).unwrap_or_else(|| "0".into()));
}

fn schedule(draft: &mut Draft<'_>, list: &mut List) {
    let (job, last) = (draft.job, draft.job.final_learning_rate());
    let (name, keywords) = match job.decay() {
        Decay::Constant => ("constant_with_warmup", None),
        Decay::Cosine if last > 0.0 => ("cosine_with_min_lr", Some(json!({ "min_lr": last }))),
        Decay::Cosine => ("cosine", None),
        Decay::Linear if last > 0.0 => ("polynomial", Some(json!({ "lr_end": last, "power": 1.0 }))),
        Decay::Linear => ("linear", None),
        Decay::Polynomial => ("polynomial", Some(json!({ "lr_end": last, "power": job.decay_power() }))),
    };
    list.add("lr_scheduler_type", name);
    if let Some(keywords) = keywords {
        list.add("lr_scheduler_kwargs", keywords);
    }
    list.add("warmup_steps", job.warm_up());
    draft.tells(&[Field::WarmUp, Field::Decay]);
}

fn input_and_output(draft: &mut Draft<'_>, list: &mut List) {
    if let Some(input) = draft.job.plan().input() {
        list.add("dataloader_num_workers", input.workers);
        if input.prefetch > 0 {
            list.add("dataloader_prefetch_factor", input.prefetch);
            draft.tells(&[Field::Prefetch]);
        }
        draft.tells(&[Field::Workers]);
    }
    if let Some(steps) = draft.job.checkpoint_steps() {
        list.add("save_strategy", "steps");
        list.add("save_steps", steps);
        draft.tells(&[Field::CheckpointInterval]);
    }
    let evaluation = draft.job.campaign().and_then(|campaign| campaign.evaluation.as_ref());
    if let Some(steps) = evaluation.and_then(|evaluation| evaluation.every_steps) {
        list.add("eval_strategy", "steps");
        list.add("eval_steps", steps);
        draft.tells(&[Field::Evaluation]);
    }
}
