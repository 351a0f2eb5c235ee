//! Hugging Face Accelerate: its configuration and its launcher.
//!
//! # Source
//!
//! Hugging Face accelerate 1.15, `src/accelerate/commands/config/config_args.py` and `commands/launch.py`;
//! `prepare_deepspeed_cmd_env` in `utils/launch.py`.

use super::deepspeed;
use super::draft::{Draft, Finished};
use super::error::LaunchError;
use super::field::Field;
use super::fine_tuning;
use super::fsdp_checkpoints;
use super::fsdp_units;
use super::places::Places;
use super::program::{Program, environment};
use super::recommender;
use super::script::{exports, script};
use super::software::Engine;
use super::torchrun::{PORT, on_each_machine};
use super::training_arguments::{self, Sharding};
use super::yaml::yaml;
use serde_json::{Map, Value, json};
use trainyard_plan::{LaunchFile, Precision, Recompute, ScheduleName, StateSharding};

const CONFIG: &str = "accelerate.yaml";

pub(super) const STARTS: &[Engine] = Engine::SCRIPTS;

/// Writes `accelerate.sh`, `accelerate.yaml` and, where DeepSpeed shards states, its configuration.
pub(super) fn files(mut draft: Draft<'_>) -> Result<Finished, LaunchError> {
    if recommender::has_tables(&draft) {
        return Err(draft.cannot(Field::Model, "TorchRec, which shards its embedding tables, is started by torchrun"));
    }
    let (job, plan) = (draft.job, draft.job.plan());
    let mut config = common(&mut draft);
    let mut others = Vec::new();
    if job.is_compiled() {
        config.insert("dynamo_config".into(), json!({ "dynamo_backend": "INDUCTOR" }));
    }
    if draft.engine == Engine::Megatron {
        config.insert("distributed_type".into(), json!("MEGATRON_LM"));
        config.insert("megatron_lm_config".into(), megatron(&mut draft)?);
    } else if draft.engine == Engine::Deepspeed {
        others.push(deepspeed::config_file(&mut draft, deepspeed::Reader::Trainer)?);
        let gathered = plan.state_sharding() == StateSharding::Parameters;
        // The file says it, and Accelerate does not start where both do.
        config.shift_remove("mixed_precision");
        let mut plugin = json!({ "deepspeed_config_file": "deepspeed.json", "zero3_init_flag": gathered });
        if job.machines() > 1 {
            // Else it is pdsh's, which starts all machines from one by a file of their names, and takes no rank of a machine.
            plugin["deepspeed_multinode_launcher"] = json!("standard");
        }
        config.insert("distributed_type".into(), json!("DEEPSPEED"));
        config.insert("deepspeed_config".into(), plugin);
    } else if draft.engine == Engine::Fsdp && plan.state_sharding() != StateSharding::None {
        config.insert("distributed_type".into(), json!("FSDP"));
        config.insert("fsdp_config".into(), fsdp(&mut draft)?);
    } else {
        config.insert("distributed_type".into(), json!(plain_type(&draft)));
    }
    let arguments = arguments(&mut draft)?;
    let program = Program::of_trainer(&mut draft, arguments, Places::default(), others);
    let mut start = format!("accelerate launch --config_file {CONFIG}");
    if job.machines() > 1 {
        start += " --machine_rank \"$NODE_RANK\" --main_process_ip \"$MASTER_ADDR\"";
    }
    let body = exports(&environment(&mut draft)) + &program.run(&start);
    on_each_machine(&mut draft);
    let head = draft.close(&format!("Starts {}, under Accelerate.", program.what))?;
    let mut files = vec![
        LaunchFile { name: "accelerate.sh".into(), text: script(&head, &body) },
        LaunchFile { name: CONFIG.into(), text: head.comment() + &yaml(&Value::Object(config)) },
    ];
    files.extend(program.files());
    Ok(draft.finished(files))
}

/// Returns the script's arguments, besides the configuration.
fn arguments(draft: &mut Draft<'_>) -> Result<Vec<(String, String)>, LaunchError> {
    let mut arguments = training_arguments::arguments(draft, Sharding::Launcher, Places::default())?;
    if draft.engine != Engine::Deepspeed {
        arguments.extend(training_arguments::reduction_arguments(draft));
    }
    Ok(arguments)
}

fn common(draft: &mut Draft<'_>) -> Map<String, Value> {
    let job = draft.job;
    draft.tells(&[Field::Precision]);
    let precision = match job.plan().precision() {
        Precision::Fp32 | Precision::Tf32 => "no",
        Precision::Fp16Mixed if fine_tuning::scales_no_loss(draft) => "no",
        Precision::Fp16Mixed => "fp16",
        Precision::Bf16Mixed | Precision::Fp8Mixed => "bf16",
    };
    let fields = json!({
        "compute_environment": "LOCAL_MACHINE",
        "num_machines": job.machines(),
        "num_processes": job.machines() * job.processes(),
        "machine_rank": 0,
        "main_process_port": PORT,
        "main_training_function": "main",
        "rdzv_backend": "static",
        "same_network": true,
        "mixed_precision": precision,
        "downcast_bf16": "no",
        "use_cpu": !job.has_gpus(),
    });
    match fields {
        Value::Object(fields) => fields,
        _ => unreachable!("it is written as an object"),
    }
}

/// Returns Accelerate's `distributed_type` for replicas that shard nothing.
fn plain_type(draft: &Draft<'_>) -> &'static str {
    let alone = draft.job.machines() * draft.job.processes() == 1;
    match (alone, draft.job.has_gpus()) {
        (true, _) => "NO",
        (false, true) => "MULTI_GPU",
        (false, false) => "MULTI_CPU",
    }
}

fn fsdp(draft: &mut Draft<'_>) -> Result<Value, LaunchError> {
    let reshards = training_arguments::reshards_after_forward(draft)?;
    draft.tells(&[Field::StateSharding, Field::ShardingRanks]);
    let saved = fsdp_checkpoints::of(draft);
    draft.remark(saved.told());
    let least = fsdp_units::least_told(draft);
    let mut fields = json!({
        "fsdp_version": 2,
        "fsdp_reshard_after_forward": reshards.unwrap_or(true),
        "fsdp_auto_wrap_policy": if least.is_some() { "SIZE_BASED_WRAP" } else { "TRANSFORMER_BASED_WRAP" },
        "fsdp_activation_checkpointing": training_arguments::recomputes_in_units(draft, Sharding::Launcher),
        "fsdp_offload_params": false,
        "fsdp_state_dict_type": saved.state_dict_type(),
        "fsdp_cpu_ram_efficient_loading": true,
    });
    if let Some(least) = least {
        fields["fsdp_min_num_params"] = json!(least);
    }
    Ok(fields)
}

fn megatron(draft: &mut Draft<'_>) -> Result<Value, LaunchError> {
    let plan = draft.job.plan();
    let parallel = plan.mesh().parallel();
    if !matches!(plan.schedule(), ScheduleName::None | ScheduleName::OneForwardOneBackward) {
        return Err(draft.cannot(Field::Schedule, "Accelerate's plugin for Megatron-LM runs 1f1b only"));
    }
    if plan.state_sharding() >= StateSharding::Gradients {
        return Err(draft.cannot(Field::StateSharding, "Accelerate's plugin for Megatron-LM goes with ZeRO-1 at most"));
    }
    if plan.recompute() == Recompute::Full {
        return Err(draft.cannot(Field::Recompute, "Accelerate's plugin for Megatron-LM recomputes selectively only"));
    }
    let mut fields = json!({
        "megatron_lm_tp_degree": parallel.tensor,
        "megatron_lm_pp_degree": parallel.pipeline,
        "megatron_lm_num_micro_batches": plan.batch().accumulation,
        "megatron_lm_sequence_parallelism": parallel.sequence,
        "megatron_lm_recompute_activations": plan.recompute() == Recompute::Selective,
        "megatron_lm_use_distributed_optimizer": plan.state_sharding() == StateSharding::Optimizer,
    });
    fields["megatron_lm_gradient_clipping"] = json!(draft.job.clip_norm());
    draft.tells(&[
        Field::Tensor,
        Field::Pipeline,
        Field::Sequence,
        Field::Accumulation,
        Field::Schedule,
        Field::StateSharding,
        Field::Recompute,
        Field::ClipNorm,
    ]);
    draft.note(Field::Stages, "Accelerate has no key for it; Megatron-LM cuts into as many layers each");
    draft.remark(
        "transformers' Trainer does not drive Megatron-LM; the script calls accelerate.utils.megatron_lm itself",
    );
    Ok(fields)
}
