//! Megatron-LM's training scripts.
//!
//! # Source
//!
//! NVIDIA Megatron-LM, core 0.16, `megatron/training/arguments.py`; for cuts into stages,
//! `megatron/core/transformer/pipeline_parallel_layer_layout.py`.

use super::Target;
use super::draft::{Draft, Finished, Flag};
use super::ending::Completion;
use super::error::LaunchError;
use super::field::Field;
use super::job::CHECKPOINTS_KEPT;
use super::megatron_arguments::{Words, uneven};
use super::megatron_kernels;
use super::megatron_model;
use super::places::Places;
use super::program::{Program, pytorch};
use super::reclaims::{asks_for_checkpoints, spot_notice};
use super::software::{Engine, wants_launches_in_order};
use super::starter::{self, Script};
use super::torchrun;
use trainyard_hardware_profiles::UpdatedWeights;
use trainyard_models::{Divisible, predicts_next_token};
use trainyard_plan::{
    Axis, Decay, GradientReduction, Offload, Optimizer, Placement, Precision, Recompute, ScheduleName, StateSharding,
    Store,
};

/// How tensors are scaled before they become fp8, which no plan states: the default of `transformer_config.py`.
const FP8_RECIPE: &str = "delayed";

pub(super) const STARTS: &[Engine] = &[Engine::Megatron];

/// Writes `megatron.sh`.
pub(super) fn files(draft: Draft<'_>) -> Result<Finished, LaunchError> {
    torchrun::started(draft, "megatron.sh", program)
}

/// Returns `true` if kernels and transfers must be launched in one order (`CUDA_DEVICE_MAX_CONNECTIONS=1`) for tensor
/// parallelism to overlap them, as on GPUs before Blackwell.
pub(super) fn wants_one_connection(draft: &Draft<'_>) -> bool {
    let parallel = draft.job.plan().mesh().parallel();
    let started = draft.target == Target::Megatron || draft.engine == Engine::Megatron;
    let sharded = draft.job.plan().state_sharding() >= StateSharding::Gradients;
    let in_order = draft.job.generation().is_none_or(wants_launches_in_order);
    started && in_order && !sharded && (parallel.tensor > 1 || parallel.context > 1)
}

/// Returns `true` if experts drop no tokens, so that their tensors have other sizes in every micro-batch.
pub(super) fn has_growing_experts(draft: &Draft<'_>) -> bool {
    let model = draft.job.plan().model();
    let has_experts = matches!(draft.job.plan().graph().divisible(), Some(Divisible::Experts(_)));
    let started = draft.target == Target::Megatron || draft.engine == Engine::Megatron;
    started && has_experts && model.spec().capacity_factor.is_none()
}

/// Returns the script for the model's family with all its arguments.
pub(super) fn program(draft: &mut Draft<'_>, places: Places) -> Result<Program, LaunchError> {
    if !draft.job.has_gpus() {
        return Err(draft.cannot(Field::Instance, "Megatron-LM trains on GPUs only"));
    }
    let mut words = Words::default();
    let (usual, what) = megatron_model::arguments(draft, &mut words)?;
    megatron_kernels::arguments(draft, &mut words)?;
    parallel(draft, &mut words)?;
    stages(draft, &mut words)?;
    sharding(draft, &mut words)?;
    batch_and_memory(draft, &mut words);
    optimizer(draft, &mut words)?;
    schedule(draft, &mut words);
    data(draft, &mut words, places)?;
    log(draft, &mut words);
    let script = Script::File(draft.asks_or(Flag::Script, usual));
    copy_of_the_repository(draft);
    Ok(Program {
        script,
        starter: None,
        starter_at: starter::FILE,
        arguments: words.into_lines(),
        completion: Completion::of_megatron(&places.results(draft), draft.job.steps()),
        is_told: asks_for_checkpoints(draft),
        // Megatron-LM looks for its newest checkpoint itself.
        resume: None,
        packages: Vec::new(),
        pytorch: pytorch(draft),
        files: Vec::new(),
        what,
    })
}

/// Tells where the scripts are, which are no part of the package megatron-core.
fn copy_of_the_repository(draft: &mut Draft<'_>) {
    let place = match draft.target {
        Target::Skypilot => "skypilot.yaml must lie in a copy of Megatron-LM, which workdir sends to the machines",
        Target::Kubernetes => "the working directory of the image must be a copy of Megatron-LM",
        Target::Slurm => "sbatch must be called in a copy of Megatron-LM that all machines share",
        _ => "start this in a copy of Megatron-LM",
    };
    draft.remark(format!(
        "{place}: git clone --branch core_v0.16.0 https://github.com/NVIDIA/Megatron-LM; the package megatron-core does not have the scripts"
    ));
}

/// Adds what the stack overlaps with computing, and the number format in which gradients are summed.
fn overlap(draft: &Draft<'_>, words: &mut Words) {
    let (Some(stack), plan) = (draft.job.stack(), draft.job.plan()) else { return };
    if plan.mesh().parallel().data > 1 && stack.bucket.value.0 > 0 {
        words.flag("overlap-grad-reduce");
        let fully = plan.state_sharding() >= StateSharding::Gradients && stack.sharded_overlap.value;
        let updated = stack.updated_weights.as_ref().map(|gathered| gathered.value);
        if fully || updated == Some(UpdatedWeights::FirstForward) && plan.may_gather_in_forward() {
            words.flag("overlap-param-gather");
        }
    }
    match (plan.precision(), stack.compute_precision_gradients.value) {
        (Precision::Bf16Mixed | Precision::Fp8Mixed, true) => words.flag("grad-reduce-in-bf16"),
        (Precision::Fp16Mixed, false) => words.flag("accumulate-allreduce-grads-in-fp32"),
        _ => words,
    };
}

fn parallel(draft: &mut Draft<'_>, words: &mut Words) -> Result<(), LaunchError> {
    let plan = draft.job.plan();
    let parallel = plan.mesh().parallel();
    words.line().set("tensor-model-parallel-size", parallel.tensor);
    words.set("pipeline-model-parallel-size", parallel.pipeline);
    if parallel.context > 1 {
        words.set("context-parallel-size", parallel.context);
    }
    if parallel.expert_ranks() > 1 {
        words.set("expert-model-parallel-size", parallel.expert_ranks());
    }
    // Left out it is that of tensor parallelism, which would split each expert.
    if parallel.folded_experts && parallel.tensor > 1 {
        words.set("expert-tensor-parallel-size", 1);
    }
    if parallel.sequence {
        words.flag("sequence-parallel");
    }
    match plan.mesh().placement() {
        Placement::Order([Axis::Tensor, Axis::Pipeline, Axis::Data]) => {
            words.flag("use-tp-pp-dp-mapping");
            draft.tells(&[Field::Placement]);
        }
        Placement::Cluster | Placement::Order([Axis::Tensor, Axis::Data, Axis::Pipeline]) => {
            draft.tells(&[Field::Placement]);
        }
        Placement::Spread | Placement::Order(_) => {
            draft.note(Field::Placement, "Megatron-LM numbers ranks as TDP or TPD; steps may take longer");
        }
    }
    draft.tells(&[
        Field::Tensor,
        Field::Pipeline,
        Field::Context,
        Field::Expert,
        Field::FoldedExperts,
        Field::Sequence,
    ]);
    let runs = [ScheduleName::None, ScheduleName::OneForwardOneBackward, ScheduleName::Interleaved];
    if !runs.contains(&plan.schedule()) {
        return Err(draft.cannot(Field::Schedule, "Megatron-LM runs 1f1b and interleaved-1f1b"));
    }
    draft.tells(&[Field::Schedule]);
    Ok(())
}

/// Cuts the layers into stages: by a number where stages are alike, else by a layout.
fn stages(draft: &mut Draft<'_>, words: &mut Words) -> Result<(), LaunchError> {
    let plan = draft.job.plan();
    draft.tells(&[Field::Stages]);
    let counts = draft.job.blocks_of_runs();
    if counts.len() < 2 {
        return Ok(());
    }
    let virtual_stages = counts.len() / plan.mesh().parallel().pipeline as usize;
    if counts.iter().all(|count| *count == counts[0]) {
        if virtual_stages > 1 {
            words.set("num-virtual-stages-per-pipeline-rank", virtual_stages);
        }
        return Ok(());
    }
    if plan.state_sharding() >= StateSharding::Gradients {
        let why = "Megatron-LM shares gradients and parameters out between stages of as many blocks each only";
        return Err(uneven(draft, why));
    }
    let last = counts.len() - 1;
    let stage = |(index, count): (usize, &usize)| {
        let body = if *count > 0 { format!("t*{count}") } else { String::new() };
        format!("{}{body}{}", if index == 0 { "E" } else { "" }, if index == last { "L" } else { "" })
    };
    let layout: Vec<String> = counts.iter().enumerate().map(stage).collect();
    words.set("pipeline-model-parallel-layout", layout.join("|"));
    Ok(())
}

fn sharding(draft: &mut Draft<'_>, words: &mut Words) -> Result<(), LaunchError> {
    let plan = draft.job.plan();
    let fully = |strategy: &str, words: &mut Words| {
        words.line().flag("use-megatron-fsdp").set("data-parallel-sharding-strategy", strategy);
        words.flag("use-distributed-optimizer").set("ckpt-format", "fsdp_dtensor");
    };
    match plan.state_sharding() {
        StateSharding::None => {}
        StateSharding::Optimizer => {
            words.line().flag("use-distributed-optimizer");
        }
        StateSharding::Gradients => fully("optim_grads", words),
        StateSharding::Parameters => fully("optim_grads_params", words),
    }
    if let Some(ranks) = draft.job.sharding_ranks() {
        let parallel = plan.mesh().parallel();
        words.set("num-distributed-optimizer-instances", parallel.data * parallel.context / ranks);
    }
    draft.tells(&[Field::StateSharding, Field::ShardingRanks]);
    overlap(draft, words);
    let each_micro_batch = plan.gradient_reduction() == GradientReduction::MicroBatch;
    if plan.state_sharding() >= StateSharding::Gradients {
        if !each_micro_batch && plan.batch().accumulation > 1 {
            draft.remark("plan.gradient_reduction is step, but Megatron-FSDP sums gradients after each micro-batch");
        }
        draft.tells(&[Field::GradientReduction]);
    }
    let offload = plan.offload();
    if offload == (Offload { optimizer: Some(Store::Host), ..Offload::NONE }) {
        if plan.state_sharding() != StateSharding::Optimizer && plan.mesh().parallel().data > 1 {
            let why = "Megatron-LM keeps the optimizer's state in main memory only where replicas share it out";
            return Err(draft.cannot(Field::Offload, why));
        }
        if plan.state_sharding() == StateSharding::None {
            words.line().flag("use-distributed-optimizer");
        }
        words.flag("optimizer-cpu-offload").flag("use-precision-aware-optimizer");
    } else if offload != Offload::NONE {
        return Err(draft.cannot(Field::Offload, "Megatron-LM keeps nothing but the optimizer's state elsewhere"));
    }
    draft.tells(&[Field::Offload]);
    Ok(())
}

fn batch_and_memory(draft: &mut Draft<'_>, words: &mut Words) {
    let plan = draft.job.plan();
    words.line().set("micro-batch-size", plan.batch().micro).set("global-batch-size", plan.batch().global);
    draft.tells(&[Field::Micro, Field::Accumulation]);
    match plan.precision() {
        // TensorFloat-32 is set by an environment variable.
        Precision::Fp32 | Precision::Tf32 => {}
        Precision::Fp16Mixed => {
            words.flag("fp16");
        }
        Precision::Bf16Mixed => {
            words.flag("bf16");
        }
        Precision::Fp8Mixed => {
            words.flag("bf16").set("fp8-format", "hybrid").set("fp8-recipe", FP8_RECIPE);
            let written = format!("fp8-recipe {FP8_RECIPE}");
            let what = "how tensors are scaled before they become fp8: by their largest values in steps before, Megatron-LM's default; tensorwise and blockwise look at their present ones";
            draft.assumes(Field::Precision, &written, what);
        }
    }
    draft.tells(&[Field::Precision]);
    match plan.recompute() {
        Recompute::None => {}
        Recompute::Selective => {
            words.set("recompute-granularity", "selective");
        }
        Recompute::Full => {
            words
                .set("recompute-granularity", "full")
                .set("recompute-method", "uniform")
                .set("recompute-num-layers", 1);
        }
    }
    draft.tells(&[Field::Recompute]);
}

fn optimizer(draft: &mut Draft<'_>, words: &mut Words) -> Result<(), LaunchError> {
    let (kind, rule) = (draft.job.plan().optimizer(), draft.job.hyper_parameters());
    words.line();
    match kind {
        Optimizer::AdamW => {
            words.set("optimizer", "adam");
        }
        // Without weight decay Adam and AdamW are the same.
        Optimizer::Adam if rule.weight_decay == 0.0 => {
            words.set("optimizer", "adam");
        }
        Optimizer::Sgd => {
            words.set("optimizer", "sgd").set("sgd-momentum", 0.0);
        }
        Optimizer::Momentum => {
            words.set("optimizer", "sgd").set("sgd-momentum", rule.momentum);
            draft.writes(Field::Momentum, format!("sgd-momentum {}", rule.momentum));
        }
        Optimizer::Adam => {
            words.set("optimizer", "adam");
            draft.note(Field::Optimizer, "Megatron-LM's adam keeps weight decay out of the gradient, as adamw does");
        }
        Optimizer::AdamW8bit | Optimizer::RmsProp | Optimizer::Lars | Optimizer::Lamb => {
            return Err(draft.cannot(Field::Optimizer, "Megatron-LM trains with adamw, adam, sgd and sgd-momentum"));
        }
    }
    draft.tells(&[Field::Optimizer]);
    words.set("weight-decay", rule.weight_decay);
    draft.writes(Field::WeightDecay, format!("weight-decay {}", rule.weight_decay));
    draft.note(Field::DecayExempt, "Megatron-LM leaves out biases and norms");
    if matches!(kind, Optimizer::AdamW | Optimizer::Adam) {
        let [first, second] = rule.betas;
        words.set("adam-beta1", first).set("adam-beta2", second).set("adam-eps", rule.epsilon);
        draft.writes(Field::Betas, format!("adam-beta1 {first}, adam-beta2 {second}"));
        draft.writes(Field::Epsilon, format!("adam-eps {}", rule.epsilon));
    }
    let norm = draft.job.clip_norm();
    draft.writes(Field::ClipNorm, format!("clip-grad {norm}"));
    words.set("clip-grad", norm);
    Ok(())
}

fn schedule(draft: &mut Draft<'_>, words: &mut Words) {
    let job = draft.job;
    let rate = draft.learning_rate_or_blank("peak learning rate");
    words.line().set("train-iters", job.steps()).set("lr", rate).set("lr-warmup-iters", job.warm_up());
    draft.tells(&[Field::Steps]);
    draft.writes(Field::WarmUp, format!("lr-warmup-iters {}", job.warm_up()));
    let style = match job.decay() {
        Decay::Constant => "constant",
        Decay::Linear => "linear",
        Decay::Cosine => "cosine",
        Decay::Polynomial => {
            draft.note(Field::Decay, "Megatron-LM has no such decay");
            "constant"
        }
    };
    words.set("lr-decay-style", style);
    if style != "constant" {
        words.set("lr-decay-iters", job.steps()).set("min-lr", job.final_learning_rate());
    }
    let least = if style == "constant" { String::new() } else { format!(", min-lr {}", job.final_learning_rate()) };
    draft.writes(Field::Decay, format!("lr-decay-style {style}{least}"));
}

fn data(draft: &mut Draft<'_>, words: &mut Words, places: Places) -> Result<(), LaunchError> {
    let job = draft.job;
    let what = "data set, as Megatron-LM's tools write one: the path of its two files without .bin and .idx";
    let data = match places.data {
        Some(folder) => {
            draft.leaves("DATA-PREFIX", format!("{what}, in what is mounted at {folder}"));
            format!("{folder}/DATA-PREFIX")
        }
        None => draft.asks(Flag::Data, "DATA", what),
    };
    words.line().set("data-path", data);
    let weights = draft.weights();
    megatron_model::tokenizer(draft, weights.as_deref(), words);
    if job.is_fine_tuning() {
        further_training(draft);
    }
    if let Some(input) = job.plan().input() {
        words.set("num-workers", input.workers);
        draft.tells(&[Field::Workers]);
    }
    let results = places.results(draft);
    // By default rank 0 writes the index of the data beside the data, which may be read-only or copied to each machine.
    words.set("data-cache-path", format!("{results}/data-cache"));
    if predicts_next_token(job.plan().model()) {
        // Causal attention masks by itself, whichever kernel computes it (`fused_softmax.py`). The loader would make the
        // square of the sequence length in single precision for each sample (`gpt_dataset.py`), and copy it to the GPU.
        words.flag("no-create-attention-mask-in-dataloader");
    }
    checkpoints(draft, words, &results, weights)?;
    match job.evaluations() {
        Some(own) => {
            let batches = own.samples.div_ceil(job.plan().batch().global);
            words.set("eval-interval", own.interval).set("eval-iters", batches);
            draft.tells(&[Field::Evaluation]);
        }
        // By default a part of the data is kept for evaluation.
        None => {
            words.set("split", "100,0,0").set("eval-iters", 0);
        }
    }
    Ok(())
}

/// Adds the log, by default of every hundredth step, and tells how it compares with the plan.
///
/// # Source
///
/// Megatron-LM, core 0.16, `num_floating_point_operations` in `megatron/training/training.py`.
fn log(draft: &mut Draft<'_>, words: &mut Words) {
    words.line().set("log-interval", draft.job.log_steps()).flag("log-throughput");
    draft.remark(format!(
        "predicted are {} for a step: compare after the first ones. The TFLOP/s of --log-throughput count half of the products of attention, as if always under a causal mask; the plan's MFU counts all",
        draft.job.step_in_words()
    ));
}

/// Tells what differs from a supervised fine-tuning: the scripts go on with pretraining.
fn further_training(draft: &mut Draft<'_>) {
    if predicts_next_token(draft.job.plan().model()) {
        draft.remark(
            "this goes on with pretraining: text without a chat template, a loss on every token, and samples joined end to end that see each other. Megatron-LM's --sft with --tokenizer-type SFTTokenizer reads conversations and takes the loss of answers alone; plans with --stack pytorch-fsdp or --stack deepspeed start TRL's sft.py",
        );
    }
    draft.remark(
        "data must be tokenised first: tools/preprocess_data.py of Megatron-LM with --append-eod writes the files .bin and .idx that --data-path names",
    );
    draft.remark(
        "checkpoints are in Megatron-LM's format: Megatron Bridge writes them as Hugging Face's (AutoBridge.export_ckpt)",
    );
}

/// Adds checkpoints: the script resumes from the newest by itself, or else starts from given weights.
fn checkpoints(
    draft: &mut Draft<'_>,
    words: &mut Words,
    results: &str,
    weights: Option<String>,
) -> Result<(), LaunchError> {
    let (every, steps) = (draft.job.checkpoint_steps(), draft.job.steps());
    words.line().set("save", results).set("load", results).set("save-interval", every);
    spot_notice(draft);
    if asks_for_checkpoints(draft) {
        words.flag("exit-signal-handler");
    }
    draft.writes(Field::CheckpointInterval, format!("save-interval {every}"));
    // The interval of kept checkpoints must be a multiple of the checkpoint interval.
    let between = (steps / (CHECKPOINTS_KEPT * every)).max(1) * every;
    words.set("save-retain-interval", between);
    if let Some(weights) = weights {
        let converted = format!("{results}/pretrained");
        megatron_model::conversion(draft, &weights, &converted)?;
        words.set("pretrained-checkpoint", converted).flag("auto-detect-ckpt-format");
    }
    Ok(())
}
