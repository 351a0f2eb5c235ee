//! A plan as `transformers.TrainingArguments`.
//!
//! # Source
//!
//! Hugging Face transformers 5.23, `src/transformers/training_args.py` and `optimization.py`; accelerate 1.15,
//! `src/accelerate/parallelism_config.py`.

use super::Target;
use super::draft::Draft;
use super::error::LaunchError;
use super::field::{DALI, DROPOUT, Field, USUAL_DROPOUT};
use super::fine_tuning;
use super::fsdp_checkpoints;
use super::fsdp_units;
use super::job::CHECKPOINTS_KEPT;
use super::packing;
use super::places::Places;
use super::reclaims::spot_notice;
use super::software::Engine;
use serde_json::json;
use trainyard_models::{HeadKind, Model, PublishedWeights, Sample, predicts_next_token};
use trainyard_plan::{Decay, DecodePlace, GradientReduction, Method, Optimizer, Precision, Recompute, StateSharding};
use trainyard_units::{counted, human_bytes};

/// Stands for an optimizer that the script hands to the Trainer.
pub(super) const OPTIMIZER: &str = "OPTIMIZER";

/// The release of transformers from which on `optim_args` reach SGD (`_get_sgd` in `src/transformers/trainer_optimizer.py`).
const SGD_ARGUMENTS: &str = "5.3";

/// The release from which on `--fsdp` is a flag, and FSDP of version 2 if nothing is said (`training_args.py`).
const FSDP_FLAG: &str = "5.10";

/// The least release that transformers 5 takes (`TORCHAO_MIN_VERSION` in `utils/import_utils.py`).
const TORCHAO: &str = "torchao>=0.15";

/// The release of which the other arguments are.
const TRANSFORMERS: &str = "5.0";

/// The least release in which T5 takes PyTorch's scaled_dot_product_attention, which adds its bias to the scores
/// (`_supports_sdpa`).
const BIAS_UNDER_SDPA: &str = "5.15";

/// What a script says of the model's configuration, so that experts are kept in balance; TRL's own does.
///
/// # Source
///
/// huggingface/transformers pull request 44586 and issue 48886; huggingface/trl pull request 6085.
const UNBALANCED: &str = "transformers adds the loss that spreads tokens over experts only where the model's configuration says \
    output_router_logits=True (router_aux_loss_coef is its weight), and some models leave it out all the same \
    (huggingface/transformers#48886): without it a few experts get most tokens; look for aux_loss in the model's output";

/// The release of Accelerate that transformers 5 and TRL want for meshes of devices (`parallelism_config.py`).
const ACCELERATE: &str = "1.10.1";

/// The release that FSDP shards adapters with as they are counted: of what a unit holds it brings to single precision what is
/// trained alone (`fsdp2_prepare_model` in `utils/fsdp_utils.py`).
const ACCELERATE_OF_ADAPTERS: &str = "1.15";

/// The software that shards states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharding {
    /// PyTorch's fully sharded data parallelism, as these arguments configure it.
    Fsdp,
    /// DeepSpeed, as its configuration says.
    Deepspeed,
    /// The launcher's own configuration.
    Launcher,
}

/// Expresses a plan as names and values of Trainer arguments.
pub(super) fn arguments(
    draft: &mut Draft<'_>,
    sharding: Sharding,
    places: Places,
) -> Result<Vec<(String, String)>, LaunchError> {
    let plan = draft.job.plan();
    let mut list = List::default();
    list.add("output_dir", places.results(draft));
    if !fine_tuning::is_trls(draft) {
        // Scripts in the style of Hugging Face's examples train only then, and turn images into tensors in a transform of the
        // data set, which needs the columns that the model does not.
        list.add("do_train", true);
        let images = matches!(plan.model().sample(), Sample::Image(_));
        list.0.extend(images.then(|| ("remove_unused_columns".into(), "false".into())));
    }
    list.add("max_steps", draft.job.steps());
    list.add("per_device_train_batch_size", plan.batch().micro);
    list.add("gradient_accumulation_steps", plan.batch().accumulation);
    draft.tells(&[Field::Steps, Field::Micro, Field::Accumulation]);
    precision(draft, &mut list);
    kernels(draft, sharding, &mut list);
    recompute(draft, sharding, &mut list);
    sharded(draft, sharding, &mut list)?;
    optimizer(draft, &mut list);
    schedule(draft, &mut list);
    input_and_output(draft, &mut list);
    if !draft.job.has_gpus() {
        list.add("use_cpu", true);
    }
    list.0.extend(fine_tuning::arguments(draft, places)?);
    let trls = fine_tuning::is_trls(draft);
    if let Some(weights) = draft.weights() {
        list.add("model_name_or_path", weights);
        if let Some(published) = published_weights(plan.model().name()) {
            draft.remark(format!(
                "weights of {} are published in {}, which are not trained further as they are; {} makes a copy in bfloat16",
                plan.model().name(),
                published.format,
                published.to_bf16
            ));
        }
        if !trls && fine_tuning::must_load_whole(draft) {
            draft.remark("the script loads the model with dtype=torch.float32: transformers takes the format in which weights are published, most often bfloat16, in which DistributedDataParallel and AdamW would lose small updates; memory was counted with weights in single precision");
        }
        if !trls {
            draft.remark("model_name_or_path is an argument of the script's own, as in Hugging Face's examples");
        }
    }
    if !trls && fine_tuning::has_experts(draft) {
        draft.remark(UNBALANCED);
    }
    on_every_rank(draft);
    // The images of SageMaker's libraries for model parallelism have releases of their own.
    if sharding != Sharding::Launcher || draft.target == Target::Accelerate {
        let packages = packages(draft, list.0.iter().map(|(name, _)| name.as_str()));
        draft.remark(format!("the script needs {}", packages.join(", ")));
    }
    if trls {
        draft.note(Field::Model, "model_name_or_path must be of its shape");
    } else {
        whose_model(draft);
        length_of_samples(draft);
        draft.remark("the script hands resume_from_checkpoint on to Trainer.train, as Hugging Face's examples do");
    }
    Ok(list.0)
}

/// Tells if models that every rank builds whole, before FSDP shards them, may not fit into a machine's main memory.
fn on_every_rank(draft: &mut Draft<'_>) {
    let Some(own) = draft.job.on_every_rank() else { return };
    let (ranks, memory) = (own.ranks, human_bytes(own.memory));
    let whole = format!("main memory: each of {ranks} ranks of a machine holds {}", own.held());
    draft.remark(if draft.starts_from_weights() {
        format!(
            "{whole}, before it is sharded, although cpu_ram_efficient_loading is set, of which transformers 5 takes no notice while \
             it loads (huggingface/transformers#43749); a machine has {memory}: plan for machines with more, or with --stack \
             deepspeed, whose ZeRO-3 loads the model once"
        )
    } else {
        format!("{whole}, and a machine has {memory}, unless the script builds it on the device meta (torch.device(\"meta\"))")
    });
}

/// Tells where a script of one's own has the model from.
pub(super) fn whose_model(draft: &mut Draft<'_>) {
    if draft.starts_from_weights() {
        draft.note(Field::Model, "the script loads it from the weights, which must be of its shape");
    } else if let Some(model) = draft.told(Field::Model) {
        draft.remark(format!("your script must build {model} itself"));
    }
}

/// Tells how many tokens samples were priced with, which the user's script decides, and memory and time with it.
pub(super) fn length_of_samples(draft: &mut Draft<'_>) {
    let model = draft.job.plan().model();
    let Some(tokens) = model.tokens_per_sample() else { return };
    let flag = match model {
        model if model.spec().head == Some(HeadKind::Classifier) => {
            format!("; Hugging Face's run_classification.py and run_glue.py take --max_seq_length {tokens}")
        }
        Model::Bert(_) => format!("; Hugging Face's run_mlm.py takes --max_seq_length {tokens}"),
        model if predicts_next_token(model) => format!("; Hugging Face's run_clm.py takes --block_size {tokens}"),
        _ => String::new(),
    };
    let read = counted(tokens, "token");
    let note = match (model, model.spec().decoder_seq_len) {
        (Model::T5(_) | Model::Bart(_), Some(written)) => format!(
            "samples were priced at {read} each and targets at {written}: the script must fill or cut them to these lengths; \
             Hugging Face's run_summarization.py takes --max_source_length {tokens} --max_target_length {written}"
        ),
        _ => format!("samples were priced at {read} each: the script must fill or cut them to that length{flag}"),
    };
    draft.remark(note);
}

/// Returns what is known of the published weights of a model of the catalog that have to be converted.
fn published_weights(model: &str) -> Option<&'static PublishedWeights> {
    trainyard_models::find(model).ok()?.weights.as_ref()
}

/// Returns the packages that a script needs which reads these arguments, with their least releases.
pub(super) fn packages<'a>(draft: &Draft<'_>, arguments: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut least = TRANSFORMERS;
    for name in arguments {
        match name {
            "fsdp" => least = FSDP_FLAG,
            "optim_args" if least != FSDP_FLAG => least = SGD_ARGUMENTS,
            _ => {}
        }
    }
    if draft.job.plan().model().adds_bias_to_scores() {
        least = BIAS_UNDER_SDPA;
    }
    let adapters = draft.engine == Engine::Fsdp && draft.job.plan().method() == Method::Lora;
    let accelerate = if adapters { ACCELERATE_OF_ADAPTERS } else { ACCELERATE };
    let mut packages = vec![format!("transformers>={least}"), format!("accelerate>={accelerate}")];
    packages.extend((draft.engine == Engine::Deepspeed).then(|| "deepspeed".into()));
    let mut others = fine_tuning::packages(draft);
    if draft.job.plan().optimizer().is_in_eight_bits() {
        others.push(if draft.engine == Engine::Fsdp { TORCHAO } else { fine_tuning::BITSANDBYTES });
    }
    others.dedup();
    packages.extend(others.into_iter().map(ToOwned::to_owned));
    packages
}

#[derive(Default)]
struct List(Vec<(String, String)>);

impl List {
    fn add(&mut self, name: &str, value: impl ToString) {
        self.0.push((name.into(), value.to_string()));
    }

    /// Adds a flag without a value.
    fn flag(&mut self, name: &str) {
        self.add(name, "");
    }
}

/// Returns arguments as words, each in a group of its own; those without a value are flags.
pub(super) fn words(arguments: Vec<(String, String)>) -> Vec<Vec<String>> {
    let words = |(name, value): (String, String)| {
        let name = std::iter::once(format!("--{name}"));
        name.chain(Some(value).filter(|value| !value.is_empty())).collect()
    };
    arguments.into_iter().map(words).collect()
}

/// Returns `true` if the units of FSDP compute activations again, which spares their weights a further gathering. Around
/// adapters they do not: PEFT does not find adapters in such units, and their checkpoints would be empty (accelerate 1.15,
/// `_get_model_state_dict` in `utils/fsdp_utils.py`; `tests/fine_tuning/shards.py`).
pub(super) fn recomputes_in_units(draft: &Draft<'_>, sharding: Sharding) -> bool {
    let units = sharding == Sharding::Fsdp || (sharding == Sharding::Launcher && draft.target == Target::Accelerate);
    let plan = draft.job.plan();
    // Units by size stand in each other, and what is in several would be computed as often.
    units
        && !plan.method().has_adapters()
        && fsdp_units::least(plan).is_none()
        && draft.engine == Engine::Fsdp
        && plan.recompute() == Recompute::Full
        && plan.state_sharding() >= StateSharding::Gradients
}

fn precision(draft: &mut Draft<'_>, list: &mut List) {
    draft.tells(&[Field::Precision]);
    match draft.job.plan().precision() {
        Precision::Fp32 => {}
        Precision::Tf32 => list.add("tf32", true),
        Precision::Fp16Mixed if fine_tuning::scales_no_loss(draft) => {}
        Precision::Fp16Mixed => list.add("fp16", true),
        Precision::Bf16Mixed | Precision::Fp8Mixed => list.add("bf16", true),
    }
}

fn recompute(draft: &mut Draft<'_>, sharding: Sharding, list: &mut List) {
    match draft.job.plan().recompute() {
        Recompute::None => {}
        // The Trainer refuses to do it a second time, and TRL's scripts would by default.
        Recompute::Full if recomputes_in_units(draft, sharding) => list.add("gradient_checkpointing", false),
        Recompute::Full => {
            list.add("gradient_checkpointing", true);
            if fsdp_units::least(draft.job.plan()).is_some() {
                draft.remark("plan.recompute is full: the Trainer calls gradient_checkpointing_enable of the model, which the script must give it if its class is none of transformers'");
            }
        }
        // PyTorch's fused attention recomputes scores anyway.
        Recompute::Selective if draft.job.attention().is_some_and(|attention| !attention.is_unfused()) => {}
        Recompute::Selective => {
            let advice = "take an attention that keeps no scores, attn_implementation sdpa or flash_attention_2";
            draft.note(Field::Recompute, advice);
        }
    }
    draft.tells(&[Field::Recompute]);
}

/// Adds whether the model is compiled, and the attention that transformers chooses by itself.
fn kernels(draft: &mut Draft<'_>, sharding: Sharding, list: &mut List) {
    // A launcher compiles by its own configuration.
    if draft.job.is_compiled() && !compiled_by_launcher(draft, sharding) {
        list.add("torch_compile", true);
    }
    if packing::is_on(draft) {
        return;
    }
    let Some(attention) = draft.job.attention() else { return };
    draft.tells(&[Field::Attention]);
    draft.remark(if attention.is_unfused() && draft.job.changes_scores() {
        "attention was priced as separate kernels, attn_implementation eager: what transformers falls back to where scores are bounded or have sinks".to_owned()
    } else if attention.is_unfused() {
        "attention was priced as separate kernels: attn_implementation eager is that; sdpa, transformers' default, is at least as fast".to_owned()
    } else if draft.job.plan().model().adds_bias_to_scores() {
        format!(
            "attention was priced as {}: PyTorch chooses it where a bias is added to the scores, under attn_implementation sdpa, the default of transformers {BIAS_UNDER_SDPA} and newer",
            attention.kernel
        )
    } else {
        format!(
            "attention was priced as {}: PyTorch chooses it on {} GPUs under attn_implementation sdpa, transformers' default",
            attention.kernel, attention.generation
        )
    });
}

/// Returns `true` if the configuration of the launcher compiles the model, as that of Accelerate does.
fn compiled_by_launcher(draft: &Draft<'_>, sharding: Sharding) -> bool {
    sharding == Sharding::Launcher && draft.target == Target::Accelerate
}

fn sharded(draft: &mut Draft<'_>, sharding: Sharding, list: &mut List) -> Result<(), LaunchError> {
    if draft.engine == Engine::Ddp && draft.job.plan().state_sharding() != StateSharding::None {
        return Err(draft.cannot(Field::StateSharding, "DistributedDataParallel keeps whole states on every rank"));
    }
    match sharding {
        Sharding::Launcher => return Ok(()),
        Sharding::Deepspeed => {
            list.add("deepspeed", "deepspeed.json");
            return Ok(());
        }
        Sharding::Fsdp => {}
    }
    if let Some(reshards) = reshards_after_forward(draft)? {
        // Version 2.
        list.flag("fsdp");
        let saved = fsdp_checkpoints::of(draft);
        let mut config = json!({ "reshard_after_forward": reshards, "state_dict_type": saved.state_dict_type() });
        if let Some(least) = fsdp_units::least_told(draft) {
            config["auto_wrap_policy"] = json!("SIZE_BASED_WRAP");
            config["min_num_params"] = json!(least);
        }
        if recomputes_in_units(draft, sharding) {
            config["activation_checkpointing"] = json!(true);
        }
        if draft.starts_from_weights() {
            config["cpu_ram_efficient_loading"] = json!(true);
        }
        list.add("fsdp_config", config);
        draft.remark(saved.told());
    }
    draft.tells(&[Field::StateSharding, Field::ShardingRanks]);
    reduction(draft, list);
    Ok(())
}

/// Returns the argument for how often gradients are summed, which Accelerate decides under the Trainer.
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

/// Returns whether FSDP 2 shards parameters again after forward (ZeRO-3) or keeps them whole for backward (ZeRO-2); `None`
/// where replicas shard nothing.
pub(super) fn reshards_after_forward(draft: &Draft<'_>) -> Result<Option<bool>, LaunchError> {
    match draft.job.plan().state_sharding() {
        StateSharding::None => Ok(None),
        StateSharding::Gradients => Ok(Some(false)),
        StateSharding::Parameters => Ok(Some(true)),
        StateSharding::Optimizer => {
            Err(draft.cannot(Field::StateSharding, "FSDP shards gradients as soon as anything"))
        }
    }
}

fn optimizer(draft: &mut Draft<'_>, list: &mut List) {
    let (kind, rule) = (draft.job.plan().optimizer(), draft.job.hyper_parameters());
    // Moments of adapters in bfloat16 stay in single precision, as they are counted.
    let paged = draft.job.plan().method() == Method::Qlora && draft.engine != Engine::Deepspeed;
    let adamw = if kind.is_in_eight_bits() {
        in_eight_bits(draft, paged)
    } else if paged {
        "paged_adamw_32bit"
    } else if draft.job.has_fused_optimizer() {
        "adamw_torch_fused"
    } else {
        "adamw_torch"
    };
    match kind {
        Optimizer::AdamW | Optimizer::AdamW8bit => list.add("optim", adamw),
        // Without weight decay Adam and AdamW are the same.
        Optimizer::Adam if rule.weight_decay == 0.0 => list.add("optim", adamw),
        Optimizer::Sgd => list.add("optim", "sgd"),
        Optimizer::RmsProp => list.add("optim", "rmsprop"),
        // DeepSpeed's configuration names it, which comes before these arguments.
        Optimizer::Adam | Optimizer::Momentum | Optimizer::Lamb if draft.engine == Engine::Deepspeed => {}
        Optimizer::Momentum => {
            let written = format!("momentum={}", rule.momentum);
            draft.writes(Field::Momentum, format!("optim_args {written}"));
            draft.remark(format!(
                "momentum reaches SGD by optim_args, which transformers before {SGD_ARGUMENTS} ignores"
            ));
            list.add("optim", "sgd");
            list.add("optim_args", written);
        }
        Optimizer::Adam | Optimizer::Lars | Optimizer::Lamb => {
            list.add("optim", OPTIMIZER);
            draft.note(Field::Momentum, "the optimizer of your own takes it");
            draft.leaves(OPTIMIZER, of_ones_own(draft));
        }
    }
    draft.tells(&[Field::Optimizer]);
    list.add("learning_rate", draft.learning_rate_or_blank("peak learning rate"));
    list.add("weight_decay", rule.weight_decay);
    draft.writes(Field::WeightDecay, format!("weight_decay {}", rule.weight_decay));
    draft.note(Field::Dropout, DROPOUT);
    if draft.job.plan().model().assumes_dropout() {
        draft.remark(USUAL_DROPOUT);
    }
    draft.note(Field::DecayExempt, "the Trainer leaves out biases and norms; override its get_decay_parameter_names");
    // The Trainer has no LAMB, but DeepSpeed does, whose configuration must agree with these arguments.
    if kind.has_means() {
        let [first, second] = rule.betas;
        list.add("adam_beta1", first);
        list.add("adam_beta2", second);
        list.add("adam_epsilon", rule.epsilon);
        draft.writes(Field::Betas, format!("adam_beta1 {first}, adam_beta2 {second}"));
        draft.writes(Field::Epsilon, format!("adam_epsilon {}", rule.epsilon));
    }
    let norm = draft.job.clip_norm();
    draft.writes(Field::ClipNorm, format!("max_grad_norm {norm}"));
    list.add("max_grad_norm", norm);
}

/// Returns the Trainer's name of AdamW with moments in eight bits: bitsandbytes updates no DTensors, which parameters are
/// under FSDP 2 (its issues 89 and 1633), torchao does (pytorch/ao, pull request 484).
fn in_eight_bits(draft: &mut Draft<'_>, paged: bool) -> &'static str {
    if draft.engine == Engine::Fsdp {
        draft.remark("torchao compiles the update of each shape of tensors in the first step, which is slow");
        return "adamw_torch_8bit";
    }
    if draft.engine == Engine::Ddp && draft.job.plan().method() == Method::Full {
        draft.remark("the Trainer has bitsandbytes keep the moments of embeddings in 32 bits, as memory was counted");
    }
    if paged { "paged_adamw_8bit" } else { "adamw_8bit" }
}

/// Returns what to do about an optimizer that no argument names. Under the placeholder the Trainer does not start, and
/// without it would take AdamW at the rate of the other.
fn of_ones_own(draft: &Draft<'_>) -> String {
    let (kind, sharding) = (draft.job.plan().optimizer(), draft.job.plan().state_sharding());
    let norms = if kind.has_rates_of_tensors() && sharding != StateSharding::None {
        ", which takes norms of whole tensors: parameters under FSDP 2 are DTensors"
    } else {
        ""
    };
    format!(
        "plan.optimizer is {kind}, for which TrainingArguments have no name; the Trainer ends on this word until the script hands it one of your own (optimizer_cls_and_kwargs){norms}; then leave optim out"
    )
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
    draft.writes(Field::WarmUp, format!("warmup_steps {}", job.warm_up()));
    draft.writes(Field::Decay, format!("lr_scheduler_type {name}"));
}

fn input_and_output(draft: &mut Draft<'_>, list: &mut List) {
    if draft.job.plan().input().is_some_and(|input| input.decode == DecodePlace::Gpu) {
        // A script that leaves the loader to the Trainer decodes with as many processes, and not in the one that trains.
        list.add("dataloader_num_workers", draft.job.plan().input().map_or(0, |input| input.workers));
        // To skip batches the Trainer asks for a data set, which DALI's iterator has not.
        list.add("ignore_data_skip", true);
        draft.note(Field::Decode, DALI);
        draft.remark("the Trainer builds a DataLoader of its own: override its get_train_dataloader (get_eval_dataloader for evaluations) to return DALI's iterator, of which each rank reads its own part (shard_id, num_shards)");
        draft.note(Field::Workers, "threads of DALI's pipeline on each rank (num_threads)");
        draft.note(Field::Prefetch, "what DALI's pipeline reads ahead (prefetch_queue_depth)");
    } else if let Some(input) = draft.job.plan().input() {
        list.add("dataloader_num_workers", input.workers);
        if input.prefetch > 0 {
            list.add("dataloader_prefetch_factor", input.prefetch);
            draft.tells(&[Field::Prefetch]);
        }
        draft.tells(&[Field::Workers]);
    }
    // By default every 500 steps.
    list.add("logging_steps", draft.job.log_steps());
    draft.remark(format!("predicted are {} for a step: compare after the first ones", draft.job.step_in_words()));
    let steps = draft.job.checkpoint_steps();
    list.add("save_strategy", "steps");
    list.add("save_steps", steps);
    list.add("save_total_limit", CHECKPOINTS_KEPT);
    spot_notice(draft);
    draft.writes(Field::CheckpointInterval, format!("save_steps {steps}"));
    if let Some(evaluations) = draft.job.evaluations() {
        list.add("eval_strategy", "steps");
        list.add("eval_steps", evaluations.interval);
        list.add("per_device_eval_batch_size", draft.job.plan().batch().micro);
        draft.tells(&[Field::Evaluation]);
        draft.remark(format!(
            "evaluation was counted on {}, which the script takes from the data set (TRL's: its split `test`)",
            packing::samples(draft, evaluations.samples)
        ));
    }
}
