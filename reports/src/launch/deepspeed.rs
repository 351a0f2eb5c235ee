//! DeepSpeed: its configuration and its launcher.
//!
//! # Source
//!
//! DeepSpeed 0.19, `deepspeed/runtime/config.py`, `runtime/zero/config.py` and `launcher/runner.py`.

use super::draft::{Draft, Finished};
use super::error::LaunchError;
use super::field::{DROPOUT, Field};
use super::program::environment;
use super::script::{command, exports, script};
use super::software::Engine;
use super::training_arguments::{length_of_samples, whose_model};
use serde_json::{Map, Value, json};
use trainyard_models::Sharing;
use trainyard_plan::{
    Decay, DecayExempt, GradientCompression, GradientReduction, LaunchFile, Optimizer, Precision, Recompute,
    ScheduleName, StateSharding, Store,
};
use trainyard_units::counted;

/// The program that reads the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// A script of the user's.
    Script,
    /// transformers' Trainer, which fills in values that are `auto`.
    Trainer,
}

const CONFIG: &str = "deepspeed.json";
const HOSTS: &str = "hostfile";

/// Values that ZeRO-3 gathers ahead of use by default (`stage3_prefetch_bucket_size`).
const PREFETCH_BUCKET: u64 = 50_000_000;
/// Values that it keeps gathered at most by default, those ahead of use among them (`stage3_max_live_parameters`).
const LIVE_PARAMETERS: u64 = 1_000_000_000;

pub(super) const STARTS: &[Engine] = &[Engine::Deepspeed];

/// Writes `deepspeed.sh`, `deepspeed.json` and, for several machines, their list and the environment variables.
pub(super) fn files(mut draft: Draft<'_>) -> Result<Finished, LaunchError> {
    if !draft.job.has_gpus() {
        return Err(draft.cannot(Field::Instance, "DeepSpeed's launcher wants GPUs"));
    }
    let config = config_file(&mut draft, Reader::Script)?;
    let script_name = draft.script();
    let (machines, processes) = (draft.job.machines(), draft.job.processes());
    let mut files = vec![config];
    let mut start = "deepspeed".to_owned();
    if machines > 1 {
        start += &format!(" --hostfile {HOSTS} --num_nodes {machines}");
        let hosts: String = (0..machines).map(|host| format!("HOST-{host} slots={processes}\n")).collect();
        files.push(LaunchFile { name: HOSTS.into(), text: hosts });
        draft.remark(format!("{HOSTS}: write the names of the machines for HOST-0 to HOST-{}", machines - 1));
    }
    start += &format!(" --num_gpus {processes}");
    let variables = environment(&mut draft);
    if !variables.is_empty() && machines > 1 {
        let text = variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        // The launcher passes these on to all machines, and looks for them only where there are several.
        files.push(LaunchFile { name: ".deepspeed_env".into(), text });
    }
    let words = [vec![script_name], vec!["--deepspeed".into(), "--deepspeed_config".into(), CONFIG.into()]];
    checkpoints(&mut draft);
    draft.note(Field::Steps, "the script counts steps");
    whose_model(&mut draft);
    length_of_samples(&mut draft);
    let head = draft.close("Starts a script that calls deepspeed.initialize, under DeepSpeed's launcher.")?;
    let body = exports(&variables) + &command(&start, &words);
    files.insert(0, LaunchFile { name: "deepspeed.sh".into(), text: script(&head, &body) });
    Ok(draft.finished(files))
}

/// Tells what the script must do itself for a training to survive interruptions, and what it starts from.
fn checkpoints(draft: &mut Draft<'_>) {
    let every = counted(draft.job.checkpoint_steps(), "step");
    draft.writes(Field::CheckpointInterval, format!("save_checkpoint every {every}"));
    let results = draft.results_folder();
    draft.remark(format!(
        "the script calls engine.save_checkpoint(\"{results}\") every {every}, and engine.load_checkpoint(\"{results}\") before the first: that goes on from the newest, which DeepSpeed's file `latest` names"
    ));
    draft.remark("DeepSpeed deletes no checkpoints: the script keeps the newest three");
    if let Some(weights) = draft.weights() {
        draft.remark(format!("the script loads {weights} before it calls deepspeed.initialize"));
    }
    if let Some(attention) = draft.job.attention() {
        draft.tells(&[Field::Attention]);
        draft.remark(format!("attention was priced as {} on {} GPUs", attention.kernel, attention.generation));
    }
}

/// Writes the configuration file.
pub(super) fn config_file(draft: &mut Draft<'_>, reader: Reader) -> Result<LaunchFile, LaunchError> {
    let config = config(draft, reader)?;
    let text = serde_json::to_string_pretty(&config).expect("values are JSON") + "\n";
    Ok(LaunchFile { name: CONFIG.into(), text })
}

fn config(draft: &mut Draft<'_>, reader: Reader) -> Result<Value, LaunchError> {
    let plan = draft.job.plan();
    let batch = plan.batch();
    let mut config = Map::new();
    config.insert("train_batch_size".into(), json!(batch.global));
    config.insert("train_micro_batch_size_per_gpu".into(), json!(batch.micro));
    config.insert("gradient_accumulation_steps".into(), json!(batch.accumulation));
    draft.tells(&[Field::Micro, Field::Accumulation]);
    pipeline(draft, &mut config)?;
    precision(draft, &mut config);
    zero(draft, &mut config, reader)?;
    activations(draft, &mut config, reader)?;
    optimizer(draft, &mut config, reader);
    scheduler(draft, &mut config, reader);
    let norm = draft.job.clip_norm();
    draft.writes(Field::ClipNorm, format!("gradient_clipping {norm}"));
    config.insert("gradient_clipping".into(), json!(norm));
    if plan.gradient_compression() == GradientCompression::Fp16 {
        config.insert("communication_data_type".into(), json!("fp16"));
        draft.tells(&[Field::GradientCompression]);
    }
    Ok(Value::Object(config))
}

/// Parses a number that was printed.
fn number(text: &str) -> Value {
    text.parse().map_or_else(|_| json!(text), |number: f64| json!(number))
}

fn pipeline(draft: &mut Draft<'_>, config: &mut Map<String, Value>) -> Result<(), LaunchError> {
    let plan = draft.job.plan();
    let stages = plan.mesh().parallel().pipeline;
    if stages == 1 {
        return Ok(());
    }
    if plan.schedule() != ScheduleName::OneForwardOneBackward {
        return Err(draft.cannot(Field::Schedule, "DeepSpeed's pipeline runs 1f1b only"));
    }
    if matches!(plan.state_sharding(), StateSharding::Gradients | StateSharding::Parameters) {
        return Err(draft.cannot(Field::StateSharding, "DeepSpeed's pipeline goes with ZeRO-1 at most"));
    }
    let interval = u32::from(plan.recompute() == Recompute::Full);
    config.insert("pipeline".into(), json!({ "stages": stages, "activation_checkpoint_interval": interval }));
    draft.tells(&[Field::Schedule]);
    draft.note(Field::Pipeline, "the script builds a deepspeed.pipe.PipelineModule of as many stages");
    draft.note(Field::Stages, "PipelineModule cuts by its partition_method");
    Ok(())
}

fn precision(draft: &mut Draft<'_>, config: &mut Map<String, Value>) {
    // TensorFloat-32 is set by an environment variable.
    draft.tells(&[Field::Precision]);
    let key = match draft.job.plan().precision() {
        Precision::Fp32 | Precision::Tf32 => return,
        Precision::Fp16Mixed => "fp16",
        Precision::Bf16Mixed | Precision::Fp8Mixed => "bf16",
    };
    config.insert(key.into(), json!({ "enabled": true }));
}

fn zero(draft: &mut Draft<'_>, config: &mut Map<String, Value>, reader: Reader) -> Result<(), LaunchError> {
    let (plan, alone) = (draft.job.plan(), draft.job.plan().mesh().parallel().data == 1);
    let offload = plan.offload();
    let offloads_alone = alone && offload.optimizer.is_some();
    let stage = match plan.state_sharding() {
        // ZeRO-1 keeps gradients on the device until the last micro-batch (runtime/zero/stage_1_and_2.py).
        StateSharding::None | StateSharding::Optimizer if offloads_alone && plan.mesh().pipeline() == 1 => 2,
        StateSharding::None if offloads_alone => 1,
        StateSharding::None => 0,
        StateSharding::Optimizer => 1,
        StateSharding::Gradients => 2,
        StateSharding::Parameters => 3,
    };
    if stage > 0 && plan.optimizer().has_rates_of_tensors() {
        let field = if plan.state_sharding() == StateSharding::None { Field::Offload } else { Field::StateSharding };
        let optimizer = plan.optimizer();
        let why = format!("ZeRO shards flat runs of many tensors, of which {optimizer} needs the norm of each");
        return Err(draft.cannot(field, format!("{why}: `none` is right with it")));
    }
    let mut zero = Map::from_iter([("stage".to_owned(), json!(stage))]);
    if stage > 0 {
        zero.insert("overlap_comm".into(), json!(true));
    }
    if stage == 3 {
        fetch_a_block_ahead(draft, &mut zero);
    }
    if stage == 3 && reader == Reader::Trainer {
        // Otherwise the Trainer saves shards, which nothing but DeepSpeed reads.
        zero.insert("stage3_gather_16bit_weights_on_model_save".into(), json!(true));
    }
    for (key, store, least) in [("offload_optimizer", offload.optimizer, 1), ("offload_param", offload.parameters, 3)] {
        let Some(store) = store else { continue };
        let least = if store == Store::Nvme { 3 } else { least };
        if stage < least {
            return Err(draft.cannot(Field::Offload, format!("DeepSpeed keeps that elsewhere from ZeRO-{least} on")));
        }
        zero.insert(key.into(), elsewhere(store));
    }
    if draft.job.sharding_ranks().is_some() {
        // MiCS, which could shard in groups, is gone since 0.19.
        return Err(draft.cannot(Field::ShardingRanks, "DeepSpeed shares states out among all replicas only"));
    }
    let each_micro_batch = plan.gradient_reduction() == GradientReduction::MicroBatch;
    if stage >= 2 && !alone && !each_micro_batch && plan.batch().accumulation > 1 {
        draft.remark(
            "plan.gradient_reduction is step, but from ZeRO-2 on DeepSpeed sums gradients after each micro-batch",
        );
    }
    if stage < 2 && each_micro_batch {
        draft.note(Field::GradientReduction, "before ZeRO-2 DeepSpeed sums gradients once a step");
    }
    draft.tells(&[Field::StateSharding, Field::ShardingRanks, Field::GradientReduction, Field::Offload]);
    // Accelerate asks for the stage even where there is none.
    if stage > 0 || reader == Reader::Trainer {
        config.insert("zero_optimization".into(), Value::Object(zero));
    }
    Ok(())
}

/// Has ZeRO-3 gather a whole block while the one before computes, as steps were priced: the defaults count values, and are
/// less than a block of a large model.
fn fetch_a_block_ahead(draft: &Draft<'_>, zero: &mut Map<String, Value>) {
    let sizes = draft.job.plan().graph().own_layers();
    let sizes: Vec<u64> = sizes.map(|layer| layer.frozen_values() + layer.parameters(Sharing::WHOLE)).collect();
    // The first layer embeds and the last is the head.
    let blocks = if sizes.len() > 2 { &sizes[1..sizes.len() - 1] } else { &sizes };
    let block = blocks.iter().copied().max().unwrap_or(0);
    if block > PREFETCH_BUCKET {
        zero.insert("stage3_prefetch_bucket_size".into(), json!(block));
    }
    if 2 * block > LIVE_PARAMETERS {
        zero.insert("stage3_max_live_parameters".into(), json!(2 * block));
    }
}

fn elsewhere(store: Store) -> Value {
    match store {
        Store::Host => json!({ "device": "cpu", "pin_memory": true }),
        Store::Nvme => json!({ "device": "nvme", "nvme_path": "/local_nvme", "pin_memory": true }),
    }
}

fn activations(draft: &mut Draft<'_>, config: &mut Map<String, Value>, reader: Reader) -> Result<(), LaunchError> {
    let plan = draft.job.plan();
    match plan.offload().activations {
        Some(Store::Nvme) => {
            return Err(draft.cannot(Field::Offload, "DeepSpeed keeps activations in main memory, not on disk"));
        }
        Some(Store::Host) if plan.recompute() != Recompute::Full || reader == Reader::Trainer => {
            let why = "DeepSpeed keeps activations elsewhere only where a script recomputes layers by deepspeed.checkpointing";
            return Err(draft.cannot(Field::Offload, why));
        }
        None | Some(Store::Host) => {}
    }
    if reader == Reader::Trainer {
        return Ok(());
    }
    if plan.recompute() == Recompute::Full && plan.mesh().parallel().pipeline == 1 {
        let elsewhere = plan.offload().activations.is_some();
        config.insert("activation_checkpointing".into(), json!({ "cpu_checkpointing": elsewhere }));
        draft.note(Field::Recompute, "the script wraps each layer in deepspeed.checkpointing.checkpoint");
    }
    if plan.recompute() == Recompute::Selective {
        draft.note(Field::Recompute, "take an attention that keeps no scores");
    }
    draft.tells(&[Field::Recompute]);
    Ok(())
}

fn optimizer(draft: &mut Draft<'_>, config: &mut Map<String, Value>, reader: Reader) {
    let (kind, rule) = (draft.job.plan().optimizer(), draft.job.hyper_parameters());
    let mut parameters = Map::new();
    let name = match kind {
        Optimizer::AdamW8bit => return in_eight_bits(draft, config, reader),
        Optimizer::AdamW => "AdamW",
        Optimizer::Adam => {
            parameters.insert("adam_w_mode".into(), json!(false));
            "Adam"
        }
        Optimizer::Lamb => "Lamb",
        Optimizer::Sgd => "SGD",
        Optimizer::Momentum => {
            parameters.insert("momentum".into(), json!(rule.momentum));
            draft.writes(Field::Momentum, format!("momentum {}", rule.momentum));
            "SGD"
        }
        Optimizer::RmsProp => "RMSprop",
        Optimizer::Lars => {
            draft.note(Field::Optimizer, "DeepSpeed has no name for it; hand deepspeed.initialize one of your own");
            return;
        }
    };
    draft.tells(&[Field::Optimizer]);
    let rate = learning_rate(draft, reader).unwrap_or_else(|| json!("auto"));
    parameters.insert("lr".into(), rate);
    parameters.insert("weight_decay".into(), json!(rule.weight_decay));
    draft.writes(Field::WeightDecay, format!("weight_decay {}", rule.weight_decay));
    draft.note(Field::Dropout, DROPOUT);
    if reader == Reader::Trainer {
        draft.note(
            Field::DecayExempt,
            "the Trainer leaves out biases and norms; override its get_decay_parameter_names",
        );
    } else {
        draft.tells(&[Field::DecayExempt]);
        if rule.weight_decay > 0.0 && rule.decay_exempt == DecayExempt::BiasesAndNorms {
            draft.remark("weight decay leaves out biases and norms: hand deepspeed.initialize model_parameters in two groups, these with weight_decay 0");
        }
    }
    if matches!(kind, Optimizer::AdamW | Optimizer::Adam) && draft.job.stack().is_some() {
        // DeepSpeed's own kernel updates all tensors at once, PyTorch's does not.
        let own = draft.job.has_fused_optimizer();
        parameters.insert("torch_adam".into(), json!(!own));
        if own {
            kernel_is_compiled(draft);
        }
    }
    if kind.has_means() {
        parameters.insert("betas".into(), json!(rule.betas));
        parameters.insert("eps".into(), json!(rule.epsilon));
        draft.writes(Field::Betas, format!("betas {:?}", rule.betas));
        draft.writes(Field::Epsilon, format!("eps {}", rule.epsilon));
    }
    config.insert("optimizer".into(), json!({ "type": name, "params": parameters }));
    // Those that treat each value by itself are the same on flat partitions, although DeepSpeed has not tested them.
    if !matches!(kind, Optimizer::AdamW | Optimizer::Adam) {
        allow_untested(config);
    }
}

fn allow_untested(config: &mut Map<String, Value>) {
    if config.get("zero_optimization").is_some_and(|zero| zero["stage"] != 0) {
        config.insert("zero_allow_untested_optimizer".into(), json!(true));
    }
}

/// Leaves the optimizer out of the configuration, which has no name for it: the Trainer makes the one of its arguments
/// (`integrations/deepspeed.py`, `deepspeed_optim_sched`), a script hands over its own.
fn in_eight_bits(draft: &mut Draft<'_>, config: &mut Map<String, Value>, reader: Reader) {
    allow_untested(config);
    if reader == Reader::Trainer {
        draft.tells(&[Field::Optimizer]);
        return;
    }
    let rule = draft.job.hyper_parameters();
    let (betas, epsilon, decay) = (rule.betas, rule.epsilon, rule.weight_decay);
    let rate = draft.learning_rate_or_blank("peak learning rate");
    let call =
        format!("bitsandbytes.optim.AdamW8bit(…, lr={rate}, betas={betas:?}, eps={epsilon}, weight_decay={decay})");
    draft.note(Field::Optimizer, &format!("DeepSpeed has no name for it; hand deepspeed.initialize {call}"));
    draft.tells(&[Field::WeightDecay, Field::Betas, Field::Epsilon]);
    draft.remark(format!("the script needs {}", super::fine_tuning::BITSANDBYTES));
}

/// Says that DeepSpeed compiles the kernel of its Adam when training first starts, which a container without the CUDA
/// toolkit cannot (`op_builder/builder.py`).
fn kernel_is_compiled(draft: &mut Draft<'_>) {
    let (kernel, built) = match draft.job.plan().offload().optimizer {
        Some(_) => ("CPUAdam", "DS_BUILD_CPU_ADAM"),
        None => ("FusedAdam", "DS_BUILD_FUSED_ADAM"),
    };
    draft.remark(format!(
        "DeepSpeed compiles {kernel} when training first starts: that needs nvcc of PyTorch's CUDA version and a C++ \
         compiler, or DeepSpeed installed with {built}=1"
    ));
}

/// Returns the peak learning rate; `None` where the Trainer fills it in from its own arguments.
fn learning_rate(draft: &mut Draft<'_>, reader: Reader) -> Option<Value> {
    let rate = match reader {
        Reader::Script => Some(draft.learning_rate_or_blank("peak learning rate, a number without quotes")),
        Reader::Trainer => draft.learning_rate(),
    };
    rate.map(|rate| number(&rate))
}

fn scheduler(draft: &mut Draft<'_>, config: &mut Map<String, Value>, reader: Reader) {
    let job = draft.job;
    let (warm_up, steps, last) = (job.warm_up(), job.steps(), job.final_learning_rate());
    // Without a scheduler here, the Trainer makes the one that its arguments name; as the optimizer, so its schedule.
    if reader == Reader::Trainer && job.plan().optimizer().is_in_eight_bits() {
        return;
    }
    let Some(rate) = learning_rate(draft, reader) else { return };
    // The parameters that all schedules have.
    let warm = json!({
        "warmup_min_lr": 0, "warmup_max_lr": rate, "warmup_num_steps": warm_up, "warmup_type": "linear",
    });
    let (name, parameters) = match job.decay() {
        Decay::Constant => ("WarmupLR", warm),
        Decay::Linear if last <= 0.0 => ("WarmupDecayLR", with_total(warm, steps)),
        Decay::Cosine if last <= 0.0 || rate.as_f64().is_some_and(|rate| rate > 0.0) => {
            let least = rate.as_f64().map_or(0.0, |rate| last / rate);
            let parameters = json!({
                "total_num_steps": steps, "warmup_num_steps": warm_up, "warmup_type": "linear", "cos_min_ratio": least,
            });
            ("WarmupCosineLR", parameters)
        }
        Decay::Cosine => {
            draft.note(
                Field::Decay,
                "DeepSpeed's scheduler wants shares of the peak; `--learning-rate` says what that is",
            );
            draft.note(Field::WarmUp, "likewise");
            return;
        }
        Decay::Linear | Decay::Polynomial => {
            draft.note(Field::Decay, "DeepSpeed has no scheduler for it; hand deepspeed.initialize one of your own");
            draft.note(Field::WarmUp, "likewise");
            return;
        }
    };
    draft.writes(Field::WarmUp, format!("warmup_num_steps {warm_up}"));
    draft.writes(Field::Decay, format!("scheduler {name}"));
    config.insert("scheduler".into(), json!({ "type": name, "params": parameters }));
}

fn with_total(mut parameters: Value, steps: u64) -> Value {
    parameters["total_num_steps"] = json!(steps);
    parameters
}

#[cfg(test)]
mod tests {
    use super::super::tests::{export, with};
    use super::super::{LaunchOptions, Target};
    use serde_json::{Value, json};

    /// The configuration of GPT-2 on so many GPUs with the optimizer in main memory, and what is told beside it.
    fn offloaded(data: u32) -> (Value, String) {
        let document = with(&[
            ("plan.cluster", json!({ "instance": "g5.12xlarge", "instances": 1 })),
            ("plan.parallel.data", json!(data)),
            ("plan.batch", json!({ "global": 32 * data, "micro": 4, "accumulation": 8 })),
            ("plan.stack", json!("deepspeed")),
            ("plan.state_sharding", json!("optimizer")),
            ("plan.offload", json!("optimizer")),
        ]);
        let files = export(&document, Target::Deepspeed, &LaunchOptions::default()).expect("DeepSpeed can");
        let config = files.files.iter().find(|file| file.name == "deepspeed.json").expect("the configuration");
        (serde_json::from_str(&config.text).expect("JSON"), files.notes.join("\n"))
    }

    #[test]
    fn gradients_of_one_device_leave_after_each_micro_batch() {
        let [(alone, told), (shared, _)] = [1, 4].map(offloaded);
        let stage = |config: &Value| config["zero_optimization"]["stage"].as_u64();
        assert_eq!((stage(&alone), stage(&shared)), (Some(2), Some(1)));
        assert!(told.contains("CPUAdam") && told.contains("DS_BUILD_CPU_ADAM=1"), "{told}");
        assert!(!told.contains("after each micro-batch"), "nothing is summed: {told}");
    }
}
