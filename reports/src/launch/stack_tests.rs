//! The software of a plan decides what is started, and what is started keeps what it has learnt.

use super::tests::{document, file, model, with};
use super::{LaunchError, LaunchOptions, Target, launch};
use serde_json::{Value, json};
use trainyard_hardware_profiles::{Abilities, Stack, catalog};
use trainyard_plan::LaunchDocument;
use trainyard_plan::document::PlanDocument;

/// Creates a stack of this name with its abilities; its other fields do not matter here.
pub(super) fn stack(name: &str, targets: &[&str], rest: Abilities) -> Stack {
    let base = Stack::clone(&catalog().stacks()[0]);
    let targets = targets.iter().map(|target| (*target).to_owned()).collect();
    Stack { name: name.into(), runs: Abilities { targets, ..rest }, ..base }
}

pub(super) fn pytorch(name: &str, compiled: bool) -> Stack {
    let attention = [("Volta", "memory-efficient"), ("other", "flash")];
    let attention = attention.map(|(generation, kernel)| (generation.to_owned(), kernel.to_owned())).into();
    let targets = ["torchrun", "accelerate", "slurm", "skypilot", "kubernetes", "sagemaker"];
    let whole_on_every_rank = name.contains("fsdp");
    stack(
        name,
        &targets,
        Abilities { compiled, fused_optimizer: true, attention, whole_on_every_rank, ..Abilities::default() },
    )
}

pub(super) fn megatron() -> Stack {
    let attention = [("other".to_owned(), "flash".to_owned()), ("Volta".to_owned(), "unfused".to_owned())].into();
    let targets = ["megatron", "torchrun", "slurm", "kubernetes", "skypilot"];
    stack("megatron-core", &targets, Abilities { attention, ..Abilities::default() })
}

pub(super) fn export(changes: &[(&str, Value)], stack: &Stack, target: Target) -> Result<LaunchDocument, LaunchError> {
    given(changes, stack, target, &LaunchOptions::default())
}

pub(super) fn given(
    changes: &[(&str, Value)],
    stack: &Stack,
    target: Target,
    options: &LaunchOptions,
) -> Result<LaunchDocument, LaunchError> {
    let mut document = with(changes);
    document["plan"]["stack"] = json!(stack.name);
    // Plans state the attention that they were priced with.
    let model = &mut document["plan"]["model"];
    if model["family"] == "gpt" && !changes.iter().any(|(path, _)| *path == "plan.model.attention") {
        model["attention"] = json!("flash");
    }
    let document: PlanDocument = serde_json::from_value(document).expect("a plan document");
    let named = &document.plan.cluster;
    let cluster = catalog().cluster(&named.instance, named.instances).expect("in the catalog");
    launch(&document, &cluster, Some(stack), target, options)
}

pub(super) fn first(changes: &[(&str, Value)], stack: &Stack, target: Target) -> String {
    let launch = export(changes, stack, target).unwrap_or_else(|error| panic!("{}: {error}", target.name()));
    launch.files[0].text.clone()
}

pub(super) fn sharded() -> (&'static str, Value) {
    ("plan.state_sharding", json!("parameters"))
}

#[test]
fn a_target_that_the_software_does_not_have_is_refused() {
    let error = export(&[], &pytorch("pytorch-ddp", false), Target::Megatron).expect_err("other software");
    let text = "`plan.stack` is pytorch-ddp, but launch files for Megatron-LM do not start it";
    assert_eq!(error.to_string(), text);
    let hint = "these can: sagemaker, torchrun, accelerate, slurm, skypilot, kubernetes";
    assert_eq!(error.hint().as_deref(), Some(hint));
    // A list of targets may promise too much.
    let odd = stack("pytorch-ddp", &["megatron"], Abilities::default());
    let error = export(&[], &odd, Target::Megatron).expect_err("other software");
    assert_eq!(error.hint().as_deref(), Some("no target can; plan again with another stack, `--stack NAME`"));
    let mut unknown = document();
    unknown["plan"]["stack"] = json!("pytorch-dpd");
    let unknown: PlanDocument = serde_json::from_value(unknown).expect("a plan document");
    let cluster = catalog().cluster("p4d.24xlarge", 2).expect("in the catalog");
    let error = launch(&unknown, &cluster, None, Target::Torchrun, &LaunchOptions::default()).expect_err("no stack");
    assert_eq!(error, LaunchError::Stack("pytorch-dpd".into()));
}

#[test]
fn the_stack_decides_what_is_started() {
    let (ddp, fsdp) = (pytorch("pytorch-ddp", false), pytorch("pytorch-fsdp", false));
    let deepspeed = stack("deepspeed", &[], Abilities::default());
    // Without a stack it would be Megatron-LM's for none of these, and DeepSpeed's for the optimizer's state only.
    assert!(first(&[], &megatron(), Target::Torchrun).contains("pretrain_gpt.py"));
    assert!(first(&[], &deepspeed, Target::Torchrun).contains("--deepspeed deepspeed.json"));
    let plain = export(&[], &deepspeed, Target::Torchrun).expect("replicas").files;
    assert!(plain[1].text.contains("\"zero_optimization\": {\n    \"stage\": 0\n  }"), "{}", plain[1].text);
    assert!(first(&[sharded()], &deepspeed, Target::Accelerate).contains("accelerate launch"));
    assert!(first(&[sharded()], &fsdp, Target::Torchrun).contains("  --fsdp \\\n  --fsdp_config "));
    assert!(first(&[sharded()], &megatron(), Target::Kubernetes).contains("optim_grads_params"));
    let plain = first(&[], &ddp, Target::Torchrun);
    assert!(!plain.contains("fsdp") && !plain.contains("deepspeed"), "{plain}");
    let error = export(&[sharded()], &ddp, Target::Torchrun).expect_err("whole states on every rank");
    assert!(error.to_string().starts_with("`plan.state_sharding` is parameters, but DistributedData"), "{error}");
    let optimizer = ("plan.state_sharding", json!("optimizer"));
    let error = export(&[optimizer], &fsdp, Target::Accelerate).expect_err("FSDP shards gradients too");
    assert!(error.to_string().starts_with("`plan.state_sharding` is optimizer, but FSDP shards"), "{error}");
    let tensor = ("plan.parallel", json!({ "data": 4, "tensor": 4, "pipeline": 1 }));
    let batch = ("plan.batch", json!({ "global": 128, "micro": 4, "accumulation": 8 }));
    for target in [Target::Torchrun, Target::Sagemaker] {
        let error = export(&[tensor.clone(), batch.clone()], &fsdp, target).expect_err("FSDP cuts no layers");
        assert!(error.to_string().starts_with("`plan.parallel.tensor` is 4"), "{error}");
    }
}

/// Accelerate would have DeepSpeed start all machines from one, by a file of names that nobody writes.
#[test]
fn each_machine_starts_its_own_ranks_of_deepspeed() {
    let deepspeed = stack("deepspeed", &[], Abilities::default());
    let config = |changes: &[(&str, Value)]| {
        export(changes, &deepspeed, Target::Accelerate).expect("ZeRO-3").files[1].text.clone()
    };
    let several = config(&[sharded()]);
    assert!(several.contains("  deepspeed_multinode_launcher: standard\n"), "{several}");
    let one = config(&[
        sharded(),
        ("plan.cluster", json!({ "instance": "p4d.24xlarge", "instances": 1 })),
        ("plan.parallel", json!({ "data": 8, "tensor": 1, "pipeline": 1 })),
        ("plan.batch", json!({ "global": 128, "micro": 4, "accumulation": 4 })),
    ]);
    assert!(!one.contains("multinode"), "{one}");
}

#[test]
fn software_that_nobody_starts_is_noted() {
    let launch = export(&[], &stack("alpa", &[], Abilities::default()), Target::Torchrun).expect("as without it");
    assert!(launch.notes[0].starts_with("plan.stack is alpa: no launch file starts it"), "{:?}", launch.notes);
}

#[test]
fn what_was_priced_is_switched_on() {
    let (eager, compiled) = (pytorch("pytorch-ddp", false), pytorch("pytorch-ddp-compiled", true));
    assert!(!first(&[], &eager, Target::Torchrun).contains("torch_compile"));
    let script = first(&[], &compiled, Target::Torchrun);
    assert!(script.contains("--torch_compile true ") && script.contains("--optim adamw_torch_fused "), "{script}");
    assert!(script.contains("PyTorch chooses it on Ampere GPUs under attn_implementation sdpa"), "{script}");
    let launch = export(&[], &compiled, Target::Accelerate).expect("data parallel");
    assert!(!launch.files[0].text.contains("torch_compile"), "{}", launch.files[0].text);
    assert!(launch.files[1].text.contains("dynamo_backend: INDUCTOR"), "{}", launch.files[1].text);
    let without = first(&[], &stack("pytorch-ddp", &[], Abilities::default()), Target::Torchrun);
    assert!(without.contains("--optim adamw_torch ") && !without.contains("attn_implementation"), "{without}");
    // PyTorch's attention keeps no scores, so that selective recomputation needs no note.
    let selective = first(&[("plan.recompute", json!("selective"))], &eager, Target::Torchrun);
    assert!(!selective.contains("plan.recompute"), "{selective}");
}

#[test]
fn attention_that_was_priced_as_separate_kernels_is_not_called_fused() {
    let model = &trainyard_models::find("gemma-2-2b").expect("in the catalog").model;
    let stages = ("plan.stages", json!([{ "first": 0, "layers": model.graph().len() }]));
    let model = ("plan.model", json!(model.spec()));
    let script = first(&[model, stages], &pytorch("pytorch-ddp", false), Target::Torchrun);
    assert!(script.contains("attn_implementation eager: what transformers falls back to"), "{script}");
    let unfused = ("plan.model.attention", json!("unfused"));
    let script = first(&[unfused], &megatron(), Target::Megatron);
    assert!(script.contains("--attention-backend unfused"), "{script}");
}

#[test]
fn weights_that_are_published_in_a_format_of_their_own_are_converted() {
    let model = &trainyard_models::find("gpt-oss-20b").expect("in the catalog").model;
    let stages = ("plan.stages", json!([{ "first": 0, "layers": model.graph().len() }]));
    let changes = [("plan.model", json!(model.spec())), stages];
    let options = LaunchOptions { weights: Some("openai/gpt-oss-20b".into()), ..LaunchOptions::default() };
    let launch = given(&changes, &pytorch("pytorch-ddp", false), Target::Torchrun, &options).expect("launch files");
    assert!(launch.files[0].text.contains("published in MXFP4"), "{}", launch.files[0].text);
}

#[test]
fn megatron_computes_the_attention_that_was_priced() {
    assert!(first(&[], &megatron(), Target::Megatron).contains("--attention-backend flash"));
    let single = [("plan.precision", json!("fp32"))];
    assert!(first(&single, &megatron(), Target::Megatron).contains("--attention-backend unfused"));
    let volta = ("plan.cluster", json!({ "instance": "p3.16xlarge", "instances": 2 }));
    let half = ("plan.precision", json!("fp16-mixed"));
    let script = first(&[volta.clone(), half.clone()], &megatron(), Target::Megatron);
    assert!(script.contains("--transformer-impl local --no-persist-layer-norm --no-rope-fusion"), "{script}");
    assert!(!script.contains("--attention-backend"), "{script}");
    let context = [
        volta,
        half,
        ("plan.parallel", json!({ "data": 8, "tensor": 1, "pipeline": 1, "context": 2 })),
        ("plan.batch", json!({ "global": 128, "micro": 4, "accumulation": 4 })),
    ];
    let error = export(&context, &megatron(), Target::Megatron).expect_err("its attention is Transformer Engine's");
    assert!(error.to_string().starts_with("`plan.parallel.context` is 2, but"), "{error}");
}

#[test]
fn eight_bits_are_started_with_megatron_alone() {
    let hopper = ("plan.cluster", json!({ "instance": "p5.48xlarge", "instances": 2 }));
    let eighths = [hopper, ("plan.precision", json!("fp8-mixed"))];
    let script = first(&eighths, &megatron(), Target::Megatron);
    assert!(script.contains("--bf16 --fp8-format hybrid") && script.contains("--attention-backend fused"), "{script}");
    let error = export(&eighths, &pytorch("pytorch-ddp", false), Target::Torchrun).expect_err("it has no fp8 here");
    assert!(error.to_string().starts_with("`plan.precision` is fp8-mixed, but"), "{error}");
}

#[test]
fn slurm_starts_a_launcher_on_each_machine() {
    let script = first(&[], &pytorch("pytorch-ddp", false), Target::Slurm);
    for words in [
        "#SBATCH --ntasks-per-node=1\n",
        "#SBATCH --gpus-per-node=8\n",
        "#SBATCH --requeue\n",
        "\nMASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | sed -n 1p)\n",
        "\nsrun --cpu-bind=none --kill-on-bad-exit=1 torchrun --nnodes=2 --nproc-per-node=8 ",
        "--rdzv-endpoint=\"$MASTER_ADDR:29500\"",
        "${LATEST:+--resume_from_checkpoint \"${LATEST%/*}\"} &\nlauncher=$!\n",
    ] {
        assert!(script.contains(words), "{words}: {script}");
    }
    assert!(first(&[], &megatron(), Target::Slurm).contains("pretrain_gpt.py"));
    assert!(file(&document(), Target::Slurm, "slurm.sh").contains("\nmpirun "));
    let executor = stack("trainyard-executor", &["slurm"], Abilities::default());
    assert!(first(&[], &executor, Target::Slurm).contains("trainyard run"));
    assert!(export(&[], &executor, Target::Torchrun).is_err());
}

/// Without a checkpoint before the job's time is over, the steps since the last would be lost every day.
#[test]
fn ranks_are_asked_for_a_checkpoint_before_a_slurm_job_is_queued_again() {
    let [trainer, megatron] = [pytorch("pytorch-ddp", false), megatron()].map(|own| first(&[], &own, Target::Slurm));
    assert!(trainer.contains(" start.py train.py ") && megatron.contains("--exit-signal-handler"));
    let told = "\nstop() {\n  told=1\n  srun --overlap --ntasks-per-node=1 bash -c 'pkill -TERM -P \"$(pgrep -d, -f \
                \"[b]in/torchrun \")\" || { echo \"$(hostname) has no ranks of torchrun to stop\" >&2; false; }' || echo \
                \"the ranks could not be told to stop\" >&2\n  timeout 600 tail --pid=\"$launcher\" -f /dev/null || \
                true\n  finished || again\n}\n";
    for script in [trainer, megatron] {
        assert!(script.contains(told) && script.contains("#SBATCH --signal=B:USR1@660\n"), "{script}");
    }
    let slow = [("prediction.interval_s", json!([40.0, 110.0])), ("prediction.step_time_s", json!(60.0))];
    assert!(first(&slow, &pytorch("pytorch-ddp", false), Target::Slurm).contains("--signal=B:USR1@720\n"));
}

/// 900 s for one of four checkpoints, with room for half as long again, and a slow step of 110 s: 1,460 s to wait for, a
/// minute for signals and one for queueing. mpirun waits twice.
#[test]
fn a_slurm_job_is_signalled_as_early_as_its_checkpoint_takes() {
    let saved = |all: f64, time: f64| {
        vec![
            ("prediction.interval_s", json!([40.0, 110.0])),
            ("prediction.step_time_s", json!(60.0)),
            ("prediction.steps", json!(400)),
            ("prediction.time_s", json!(time)),
            ("prediction.checkpoint_interval_s", json!(6_000.0)),
            ("prediction.checkpoints_s", json!(all)),
        ]
    };
    let script = first(&saved(3_600.0, 24_000.0), &megatron(), Target::Slurm);
    assert!(script.contains("#SBATCH --signal=B:USR1@1620\n") && script.contains("  timeout 1560 tail "), "{script}");
    let own = stack("trainyard-executor", &["slurm"], Abilities::default());
    let script = first(&saved(3_600.0, 24_000.0), &own, Target::Slurm);
    assert!(script.contains("@3060\n") && script.contains(" odls_base_sigkill_timeout 1470 "), "{script}");
    // Half of a day is the most.
    let script = first(&saved(400_000.0, 24_000.0), &megatron(), Target::Slurm);
    assert!(script.contains("@43200\n") && script.contains("may need 41 h "), "{script}");
    let mut spot = saved(3_600.0, 24_000.0);
    spot.push(("plan.pricing", json!("spot")));
    let pods = first(&spot, &megatron(), Target::Kubernetes);
    assert!(pods.contains("terminationGracePeriodSeconds: 1550\n"), "{pods}");
    let told = "a step and a checkpoint may take 24 min, longer than the notice of a spot instance leaves (2 min 00 s)";
    assert!(pods.contains(told), "{pods}");
}

/// Without it Slurm gives a job the memory of its processors' part, a few GB of each.
#[test]
fn a_slurm_job_has_all_memory_and_stays_on_machines_of_its_kind() {
    let executor = stack("trainyard-executor", &["slurm"], Abilities::default());
    for own in [pytorch("pytorch-ddp", false), megatron(), executor] {
        let script = first(&[], &own, Target::Slurm);
        assert!(script.contains("\n#SBATCH --exclusive\n#SBATCH --mem=0\n") && !script.contains("FEATURE"), "{script}");
    }
    let options = LaunchOptions { other_kinds: true, ..LaunchOptions::default() };
    let launch = given(&[], &megatron(), Target::Slurm, &options).expect("replicas");
    let script = &launch.files[0].text;
    assert!(
        script.contains("\n#SBATCH --constraint=FEATURE\n") && script.contains("--gpus-per-node=TYPE:8"),
        "{script}"
    );
    assert!(launch.blanks.iter().any(|blank| blank.placeholder == "FEATURE"), "{:?}", launch.blanks);
}

/// Few partitions let a job run for longer than a day.
#[test]
fn a_long_run_is_a_chain_of_slurm_jobs() {
    let of = |time_s: f64| {
        let time = [("prediction.time_s", json!(time_s))];
        export(&time, &pytorch("pytorch-ddp", false), Target::Slurm).expect("replicas")
    };
    let long = of(8.6 * 86_400.0);
    let script = &long.files[0].text;
    assert!(script.contains("\n#SBATCH --time=1-00:00:00\n") && script.contains("\n#SBATCH --requeue\n"), "{script}");
    let told = "\n# - --time=1-00:00:00: limit of one job, of a training that runs for up to 10 d 8 h: the job queues itself again";
    assert!(script.contains(told), "{script}");
    assert!(long.blanks.iter().any(|blank| blank.placeholder == "--time=1-00:00:00" && blank.flag.is_none()));
    let short = of(12.0 * 3600.0);
    let script = &short.files[0].text;
    assert!(script.contains("\n#SBATCH --time=0-21:36:00\n") && !script.contains("limit of one job"), "{script}");
    assert!(short.blanks.iter().all(|blank| !blank.placeholder.contains("--time")));
}

/// Half an hour before a block ends its machines are terminated.
#[test]
fn a_slurm_job_ends_before_its_capacity_block() {
    let changes = [("prediction.time_s", json!(20.0 * 3600.0)), ("plan.pricing", json!("capacity-block"))];
    let launch = export(&changes, &pytorch("pytorch-ddp", false), Target::Slurm).expect("replicas");
    let script = &launch.files[0].text;
    assert!(script.contains("\n#SBATCH --time=0-23:30:00\n") && script.contains("what the block leaves"), "{script}");
    assert!(!script.contains("MaxTime"), "{script}");
}

/// transformers looks for the key where FSDP is on, which a variable says before there is a Trainer.
#[test]
fn fsdp_is_told_that_one_rank_reads_the_weights() {
    const KEY: &str = "\"cpu_ram_efficient_loading\":true";
    const SWITCH: &str = "export ACCELERATE_USE_FSDP=true\n";
    let fsdp = pytorch("pytorch-fsdp", false);
    let weights = LaunchOptions { weights: Some("gpt2-xl".into()), ..LaunchOptions::default() };
    let script = |stack: &Stack, target, options: &LaunchOptions| {
        given(&[sharded()], stack, target, options).expect("sharded").files[0].text.clone()
    };
    for target in [Target::Torchrun, Target::Slurm] {
        let loaded = script(&fsdp, target, &weights);
        assert!(loaded.contains(KEY) && loaded.contains(SWITCH), "{loaded}");
        let built = script(&fsdp, target, &LaunchOptions::default());
        assert!(!built.contains("cpu_ram") && !built.contains("USE_FSDP"), "{built}");
    }
    // Accelerate's launcher sets it, and DeepSpeed has a way of its own.
    assert!(!script(&fsdp, Target::Accelerate, &weights).contains("USE_FSDP"));
    let deepspeed = stack("deepspeed", &[], Abilities::default());
    assert!(!script(&deepspeed, Target::Torchrun, &weights).contains("USE_FSDP"));
}

/// 8 ranks with 51 GB each are less than the 1.15 TB of a p4d.24xlarge, with 281 GB each they are more.
#[test]
fn models_that_main_memory_may_not_hold_once_for_each_rank_are_told() {
    let told = |name: &str, stack: &Stack| {
        let changes = [model(name), vec![sharded(), ("job.training.method", json!("full"))]].concat();
        let launch = export(&changes, stack, Target::Torchrun).expect("sharded");
        launch.notes.into_iter().find(|note| note.starts_with("main memory: "))
    };
    let fsdp = pytorch("pytorch-fsdp", false);
    let note = told("llama-3-70b", &fsdp).expect("8 × 282 GB");
    assert!(note.contains("each of 8 ranks") && note.contains("transformers#43749"), "{note}");
    assert_eq!(told("gpt3-13b", &fsdp), None);
    assert_eq!(told("llama-3-70b", &stack("deepspeed", &[], Abilities::default())), None);
}

/// A block of Llama 2 7B has 202 million values and one of Llama 3 70B 856 million; the defaults are 50 million and a billion.
#[test]
fn zero_3_gathers_a_whole_block_ahead_of_use() {
    let deepspeed = stack("deepspeed", &[], Abilities::default());
    let written = |name: &str| {
        let launch = export(&[model(name), vec![sharded()]].concat(), &deepspeed, Target::Torchrun).expect("ZeRO-3");
        let file = launch.files.iter().find(|file| file.name == "deepspeed.json").expect("its configuration");
        let config: Value = serde_json::from_str(&file.text).expect("JSON");
        let zero = &config["zero_optimization"];
        [&zero["stage3_prefetch_bucket_size"], &zero["stage3_max_live_parameters"]].map(Value::as_u64)
    };
    assert_eq!(written("llama-2-7b"), [Some(202_383_360), None]);
    assert_eq!(written("llama-3-70b"), [Some(855_654_400), Some(1_711_308_800)]);
    assert_eq!(written("gpt2"), [None, None]);
}

/// The limit of the scheduler's jobs is known, and nothing is to be raised.
#[test]
fn a_slurm_job_asks_for_no_more_than_the_limit_of_one() {
    let of = |limit: &str| {
        let changes = [("prediction.time_s", json!(8.6 * 86_400.0)), ("job.campaign", json!({ "job_limit": limit }))];
        export(&changes, &pytorch("pytorch-ddp", false), Target::Slurm)
    };
    let long = of("48h").expect("replicas");
    let script = &long.files[0].text;
    assert!(script.contains("\n#SBATCH --time=2-00:00:00\n") && script.contains("-lt 57 ]"), "{script}");
    assert!(
        script.contains("--time=2-00:00:00, job.campaign.job_limit: limit of one job") && !script.contains("MaxTime")
    );
    assert!(long.blanks.iter().all(|blank| !blank.placeholder.contains("--time")));
    let whole = of("1000h").expect("replicas");
    assert!(whole.files[0].text.contains("\n#SBATCH --time=15-") && !whole.files[0].text.contains("limit of one job"));
    let error = of("5 min").expect_err("too short to save");
    assert!(
        error.to_string().starts_with("`job.campaign.job_limit` is 5 min 00 s, but a job needs 10 minutes"),
        "{error}"
    );
    of("10 min").expect("just long enough");
}

#[test]
fn the_folder_of_checkpoints_is_spoken_of_once() {
    for target in [Target::Torchrun, Target::Accelerate, Target::Slurm] {
        let script = first(&[sharded()], &pytorch("pytorch-fsdp", false), target);
        assert_eq!(script.matches("must be one that all machines share").count(), 1, "{script}");
    }
}

/// transformers' Trainer shards no embedding tables, and its AdamW is dense.
#[test]
fn scripts_of_their_own_train_recommendation_models() {
    let mut tables = model("dlrm-small");
    tables.push(("plan.parallel", json!({ "data": 16, "tensor": 1, "pipeline": 1, "expert": 16 })));
    let ddp = pytorch("pytorch-ddp-compiled", true);
    for target in [Target::Torchrun, Target::Slurm, Target::Skypilot, Target::Kubernetes, Target::Sagemaker] {
        let launch = export(&tables, &ddp, target).unwrap_or_else(|error| panic!("{}: {error}", target.name()));
        let all: String = launch.files.iter().map(|file| file.text.as_str()).collect();
        for word in ["transformers", "--optim", "max_steps", "LATEST", "Trainer", "scratch"] {
            assert!(!all.contains(word), "{word}: {all}");
        }
        let notes = launch.notes.join("\n");
        for words in [
            "tell it plan.batch.micro 4, plan.batch.accumulation 2, plan.precision bf16-mixed, plan.optimizer adamw, ",
            "plan.parallel.expert is 16: the script shards its embedding tables",
            "priced with a sparse update: adamw changes only the rows",
            "the script calls torch.compile",
            "goes on from the newest when it is started again",
        ] {
            assert!(notes.contains(words), "{words}: {notes}");
        }
    }
    let error = export(&tables, &ddp, Target::Accelerate).expect_err("its script is started by torchrun");
    assert!(error.to_string().starts_with("`plan.model` is dlrm-small, but TorchRec"), "{error}");
}

/// At half a second a step an hour is 7200 steps, of 7629.
#[test]
fn checkpoints_are_as_far_apart_as_the_job_or_the_plan_says() {
    let steps = |changes: &[(&str, Value)]| {
        let script = file(&with(changes), Target::Megatron, "megatron.sh");
        let words: Vec<&str> = script.split_whitespace().collect();
        let after =
            |name: &str| words.iter().skip_while(|word| **word != name).nth(1).and_then(|word| word.parse().ok());
        (after("--save-interval"), after("--save-retain-interval"), script.contains("steps from one checkpoint"))
    };
    assert_eq!(steps(&[]), (Some(7200), Some(7200), true));
    let priced = ("prediction.checkpoint_interval_s", json!(300.0));
    assert_eq!(steps(std::slice::from_ref(&priced)), (Some(600), Some(2400), false));
    let job = ("job.campaign", json!({ "checkpoint_interval": "10 min" }));
    assert_eq!(steps(&[priced, job]), (Some(1200), Some(2400), false));
    assert_eq!(steps(&[("prediction.steps", json!(100))]), (Some(100), Some(100), true));
    for target in Target::ALL {
        let launch = launch(
            &serde_json::from_value(document()).expect("a plan document"),
            &catalog().cluster("p4d.24xlarge", 2).expect("in the catalog"),
            None,
            target,
            &LaunchOptions::default(),
        )
        .unwrap_or_else(|error| panic!("{}: {error}", target.name()));
        let all: String =
            launch.files.iter().map(|file| file.text.as_str()).chain(launch.notes.iter().map(String::as_str)).collect();
        assert!(all.contains("7200") || all.contains("7,200 steps"), "{}: {all}", target.name());
    }
}

#[test]
fn whatever_the_job_leaves_open_is_listed() {
    let launch = |changes: &[(&str, Value)]| {
        let document: PlanDocument = serde_json::from_value(with(changes)).expect("a plan document");
        let cluster = catalog().cluster("p4d.24xlarge", 2).expect("in the catalog");
        super::launch(&document, &cluster, None, Target::Torchrun, &LaunchOptions::default()).expect("data parallel")
    };
    let open = launch(&[]);
    let written: Vec<&str> = open.assumed.iter().map(|assumed| assumed.written.as_str()).collect();
    let expected = [
        "warmup_steps 77",
        "lr_scheduler_type cosine",
        "max_grad_norm 1",
        "weight_decay 0.1",
        "adam_beta1 0.9, adam_beta2 0.95",
        "adam_epsilon 0.00000001",
        "save_steps 7200",
    ];
    assert_eq!(written, expected);
    let line = "# - weight_decay 0.1: weight decay (job.training.weight_decay)\n";
    assert!(open.files[0].text.contains(line), "{}", open.files[0].text);
    let said = launch(&[
        ("job.training", json!({ "warm_up_steps": 10, "decay": "constant", "clip_norm": 1.0, "weight_decay": 0.1 })),
        ("job.campaign", json!({ "checkpoint_interval": "1 h" })),
    ]);
    let left: Vec<&str> = said.assumed.iter().map(|assumed| assumed.field.as_str()).collect();
    assert_eq!(left, ["job.training.betas", "job.training.epsilon"]);
}

/// Returns warm-up, decay and clipping of the Trainer's arguments.
fn schedule(changes: &[(&str, Value)]) -> [String; 3] {
    let script = file(&with(changes), Target::Torchrun, "torchrun.sh");
    let words: Vec<&str> =
        script.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace).collect();
    let after = |name: &str| words.iter().skip_while(|word| **word != name).nth(1).map_or("", |word| word).to_owned();
    ["--warmup_steps", "--lr_scheduler_type", "--max_grad_norm"].map(after)
}

#[test]
fn a_schedule_is_the_jobs_or_a_usual_one() {
    let steps = |steps: u64| ("prediction.steps", json!(steps));
    let method = ("job.training.method", json!("full"));
    for (changes, warm_up) in [
        (vec![], "77"),
        (vec![steps(500)], "10"),
        (vec![steps(12)], "6"),
        (vec![steps(1)], "0"),
        (vec![steps(1_000_000)], "2000"),
        (vec![method.clone()], "229"),
        (vec![method.clone(), steps(100)], "3"),
        (vec![method, steps(1_000_000)], "2000"),
    ] {
        assert_eq!(schedule(&changes), [warm_up, "cosine", "1"], "{changes:?}");
    }
    // As networks for images are trained: 5 of 90 epochs, and nothing is clipped.
    for optimizer in ["sgd", "sgd-momentum", "lars"] {
        assert_eq!(schedule(&[("plan.optimizer", json!(optimizer))]), ["424", "cosine", "0"], "{optimizer}");
    }
    let said = json!({ "warm_up_steps": 5, "decay": "constant", "clip_norm": 0.5 });
    assert_eq!(schedule(&[("job.training", said)]), ["5", "constant_with_warmup", "0.5"]);
    assert_eq!(schedule(&[("job.training.decay", json!("linear"))]), ["77", "linear", "1"]);
}

/// As transformers' Trainer does it where nothing is said.
#[test]
fn weights_that_are_trained_further_are_not_decayed_by_default() {
    let ddp = pytorch("pytorch-ddp", false);
    let of = |training: Value| first(&[("job.training", training)], &ddp, Target::Torchrun);
    let tuned = of(json!({ "method": "full" }));
    assert!(tuned.contains("--weight_decay 0 ") && tuned.contains("--adam_beta2 0.999 "), "{tuned}");
    assert!(tuned.contains("# - weight_decay 0: weight decay ("), "{tuned}");
    let said = of(json!({ "method": "full", "weight_decay": 0.01, "betas": [0.9, 0.98] }));
    assert!(said.contains("--weight_decay 0.01 ") && said.contains("--adam_beta2 0.98 "), "{said}");
}

/// Where DALI decodes, a script that leaves the loader to the Trainer does so in as many processes.
#[test]
fn workers_are_those_of_the_loader_that_decodes() {
    let input = |decode: &str| json!({ "storage": "s3-fastfile", "decode": decode, "workers": 4, "prefetch": 2, "cache": "none" });
    let of = |decode| first(&[("plan.input", input(decode))], &pytorch("pytorch-ddp", false), Target::Torchrun);
    assert!(of("cpu").contains("--dataloader_num_workers 4 "));
    let dali = of("gpu");
    assert!(dali.contains("--dataloader_num_workers 4 ") && dali.contains("--ignore_data_skip true "), "{dali}");
    assert!(dali.contains("# - plan.input.workers is 4: threads of DALI's pipeline"), "{dali}");
    assert!(dali.contains("override its get_train_dataloader"), "{dali}");
    let packages = |decode| {
        let files = export(&[("plan.input", input(decode))], &pytorch("pytorch-ddp", false), Target::Sagemaker);
        let found = files.expect("replicas").files.into_iter().find(|file| file.name == "requirements.txt");
        found.expect("packages").text
    };
    assert_eq!(packages("gpu"), "transformers>=5.0\naccelerate>=1.10.1\nnvidia-dali-cuda120\n");
    assert_eq!(packages("cpu"), "transformers>=5.0\naccelerate>=1.10.1\n");
}

#[test]
fn all_targets_clip_and_decay_alike() {
    let megatron = file(&document(), Target::Megatron, "megatron.sh");
    let words = "--lr-warmup-iters 77 --lr-decay-style cosine --lr-decay-iters 7629 --min-lr 0 ";
    assert!(megatron.contains(words) && megatron.contains("--clip-grad 1 "), "{megatron}");
    let text = file(&document(), Target::Deepspeed, "deepspeed.json");
    let config: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(config["gradient_clipping"], json!(1.0));
    assert_eq!(config["scheduler"]["type"], json!("WarmupCosineLR"));
    assert_eq!(config["scheduler"]["params"]["warmup_num_steps"], json!(77));
    let tensor = [
        ("plan.parallel", json!({ "data": 4, "tensor": 4, "pipeline": 1 })),
        ("plan.batch", json!({ "global": 128, "micro": 4, "accumulation": 8 })),
    ];
    let plugin = file(&with(&tensor), Target::Accelerate, "accelerate.yaml");
    assert!(plugin.contains("megatron_lm_gradient_clipping: 1.0"), "{plugin}");
}

/// The Trainer refuses recomputation beside that of Accelerate, and TRL's scripts recompute unless they are told not to.
#[test]
fn one_of_trainer_and_accelerate_recomputes() {
    let full = ("plan.recompute", json!("full"));
    let tuned = [sharded(), full.clone(), ("job.training.method", json!("full"))];
    let fsdp = pytorch("pytorch-fsdp", false);
    for changes in [&tuned[..2], &tuned] {
        let files = export(changes, &fsdp, Target::Accelerate).expect("FSDP").files;
        assert!(files[0].text.contains("--gradient_checkpointing false "), "{}", files[0].text);
        assert_eq!(files[0].text.matches("--gradient_checkpointing ").count(), 1);
        assert!(files[1].text.contains("fsdp_activation_checkpointing: true"), "{}", files[1].text);
        let script = first(changes, &fsdp, Target::Torchrun);
        assert!(script.contains("--gradient_checkpointing false "), "{script}");
        assert!(script.contains(r#","activation_checkpointing":true"#), "{script}");
    }
    let whole = export(&[full], &pytorch("pytorch-ddp", false), Target::Accelerate).expect("replicas").files;
    assert!(whole[0].text.contains("--gradient_checkpointing true "), "{}", whole[0].text);
}

/// Returns Llama 2 7B on two stages with these runs of layers, of 34 with the embedding and the head.
fn pipeline(layers: &[usize]) -> Vec<(&'static str, Value)> {
    let llama = &trainyard_models::find("llama-2-7b").expect("in the catalog").model;
    let firsts = layers.iter().scan(0, |next, count| Some(std::mem::replace(next, *next + count)));
    let stages: Vec<Value> =
        firsts.zip(layers).map(|(first, layers)| json!({ "first": first, "layers": layers })).collect();
    vec![
        ("plan.model", json!(llama.spec())),
        ("plan.stages", json!(stages)),
        ("plan.parallel", json!({ "data": 8, "tensor": 1, "pipeline": 2 })),
        ("plan.batch", json!({ "global": 128, "micro": 4, "accumulation": 4 })),
        ("plan.schedule", json!(if layers.len() > 2 { "interleaved-1f1b" } else { "1f1b" })),
        ("plan.virtual_stages", json!(layers.len() / 2)),
    ]
}

/// `saver_base.py` of Megatron-LM builds one model of as many blocks for each stage.
#[test]
fn weights_are_cut_as_the_converter_can() {
    let weights = LaunchOptions { weights: Some("org/model".into()), ..LaunchOptions::default() };
    let tuned = |layers: &[usize]| given(&pipeline(layers), &megatron(), Target::Megatron, &weights);
    let even = tuned(&[17, 17]).expect("sixteen blocks each");
    assert!(even.files[0].text.contains("--target-pipeline-parallel-size 2 "), "{}", even.files[0].text);
    let error = tuned(&[18, 16]).expect_err("seventeen and fifteen");
    let text = "`plan.stages` is 17, 15 blocks, but Megatron-LM's converter cuts weights into stages of as many blocks each only";
    assert_eq!(error.to_string(), text);
    let again = "no target can; plan again without a pipeline, `--fix parallel.pipeline=1`; where that does not fit, with as \
                 many stages as share the blocks out evenly, `--fix parallel.pipeline=4 --fix virtual_stages=1`";
    assert_eq!(error.hint().as_deref(), Some(again));
    // 32 blocks are no three stages alike.
    let mut three = pipeline(&[12, 11, 11]);
    three.extend([
        ("plan.parallel", json!({ "data": 8, "tensor": 1, "pipeline": 3 })),
        ("plan.schedule", json!("1f1b")),
    ]);
    three.extend([("plan.virtual_stages", json!(1)), ("plan.cluster.instances", json!(3))]);
    let error = given(&three, &megatron(), Target::Megatron, &weights).expect_err("eleven, eleven and ten");
    let again = "`--fix parallel.pipeline=2 --fix virtual_stages=1`, or 4 stages";
    assert!(error.hint().is_some_and(|hint| hint.ends_with(again)), "{error:?}");
    let error = tuned(&[9, 8, 8, 9]).expect_err("two runs each");
    assert!(error.to_string().contains("converter cuts weights into one run of blocks for each stage only"), "{error}");
    let once = "`--fix parallel.pipeline=2 --fix virtual_stages=1`";
    assert!(error.hint().is_some_and(|hint| hint.contains(once)), "{:?}", error.hint());
    for layers in [&[18, 16][..], &[9, 8, 8, 9]] {
        export(&pipeline(layers), &megatron(), Target::Megatron).expect("random weights need no conversion");
    }
}

/// Returns the changes that make the plan one of a small Llama with this scaling of its positions.
fn llama(scaling: &Value) -> Vec<(&'static str, Value)> {
    let mut spec = json!(trainyard_models::find("llama-3-8b").expect("in the catalog").model.spec());
    spec["rotary_scaling"] = scaling.clone();
    vec![("plan.model", spec), ("plan.stages", json!([{ "first": 0, "layers": 34 }]))]
}

/// Megatron-LM takes the factor of Llama 3.1's scaling alone.
#[test]
fn rotary_positions_are_scaled_as_those_of_the_model() {
    let of = |scaling: Value| export(&llama(&scaling), &megatron(), Target::Megatron).expect("Megatron-LM has Llama");
    let llama3 = |original: u64| json!({ "kind": "llama3", "factor": 8.0, "original_tokens": original });
    let known = of(llama3(8192));
    assert!(known.files[0].text.contains(" --use-rope-scaling --rope-scaling-factor 8 "), "{}", known.files[0].text);
    let halves = of(json!({ "kind": "linear", "factor": 2.0 }));
    assert!(halves.files[0].text.contains(" --rotary-seq-len-interpolation-factor 2 "), "{}", halves.files[0].text);
    for (scaling, what) in [
        (llama3(4096), "llama3, factor 8"),
        (json!({ "kind": "yarn", "factor": 4.0 }), "yarn, factor 4"),
        (json!({ "kind": "linear", "factor": 1.5 }), "linear, factor 1.5"),
    ] {
        let unknown = of(scaling);
        let head = format!("# - position-embedding-type rope: rotary positions, which the model scales ({what})");
        assert!(unknown.files[0].text.contains(&head), "{}", unknown.files[0].text);
        assert!(!unknown.files[0].text.contains("-scaling-factor"), "{}", unknown.files[0].text);
    }
    let plain = of(Value::Null);
    assert!(!plain.files[0].text.contains("scal"), "{}", plain.files[0].text);
    let weights = LaunchOptions { weights: Some("org/model".into()), ..LaunchOptions::default() };
    let tuned = given(&llama(&Value::Null), &megatron(), Target::Megatron, &weights).expect("weights");
    assert!(tuned.notes.iter().any(|note| note.starts_with("rotary positions are not scaled")), "{:?}", tuned.notes);
}

/// The converter fills up the tokens of the weights' tokenizer; `NullTokenizer` counts one beside those it is given.
#[test]
fn the_vocabulary_is_filled_up_to_as_many_rows_as_that_of_the_weights() {
    let random = export(&llama(&Value::Null), &megatron(), Target::Megatron).expect("from scratch");
    let text = &random.files[0].text;
    assert!(text.contains(" --vocab-size 128255 --tokenizer-type NullTokenizer "), "{text}");
    let weights = LaunchOptions { weights: Some("/w/llama".into()), ..LaunchOptions::default() };
    let converted = given(&llama(&Value::Null), &megatron(), Target::Megatron, &weights).expect("weights");
    let text = &converted.files[0].text;
    assert!(text.contains(" --tokenizer-type HuggingFaceTokenizer --tokenizer-model /w/llama "), "{text}");
    assert!(!text.contains("--vocab-size"), "{text}");
    // Nobody knows what converted these.
    let other = given(&[], &megatron(), Target::Megatron, &weights).expect("weights");
    let text = &other.files[0].text;
    assert!(text.contains(" --vocab-size 50256 --tokenizer-type NullTokenizer "), "{text}");
}

/// A hint that names a field which cannot be fixed would be refused itself.
#[test]
fn a_hint_fixes_what_can_be_fixed() {
    let hint = |field: &'static str| {
        let (value, why) = (String::new(), String::new());
        LaunchError::Inexpressible { field, value, why, others: Vec::new() }.hint().unwrap_or_default()
    };
    assert_eq!(hint("plan.schedule"), "no target can; plan again with another value, `--fix schedule=…`");
    assert_eq!(hint("plan.cluster"), "no target can; plan again with other replicas, `--fix parallel.data=…`");
    assert_eq!(hint("plan.model"), "no target can");
    assert!(hint("plan.fine_tuning.method").contains("training.lora"));
}

#[test]
fn a_fine_tuning_starts_from_its_weights() {
    let weights = LaunchOptions { weights: Some("org/model x".into()), ..LaunchOptions::default() };
    let ddp = pytorch("pytorch-ddp", false);
    let tuned = given(&[], &ddp, Target::Torchrun, &weights).expect("data parallel");
    assert!(tuned.files[0].text.contains("--model_name_or_path 'org/model x' "), "{}", tuned.files[0].text);
    let scratch = export(&[], &ddp, Target::Torchrun).expect("data parallel");
    assert!(scratch.notes.iter().any(|note| note.starts_with("trains from scratch")), "{:?}", scratch.notes);
    let llama = &trainyard_models::find("llama-2-7b").expect("in the catalog").model;
    let model = [
        ("plan.model", json!(llama.spec())),
        ("plan.stages", json!([{ "first": 0, "layers": llama.graph().len() }])),
        ("plan.parallel", json!({ "data": 4, "tensor": 4, "pipeline": 1 })),
        ("plan.batch", json!({ "global": 128, "micro": 4, "accumulation": 8 })),
    ];
    let tuned = given(&model, &megatron(), Target::Megatron, &weights).expect("tensor parallel");
    let script = &tuned.files[0].text;
    assert!(script.contains("--pretrained-checkpoint RESULTS/pretrained --auto-detect-ckpt-format"), "{script}");
    let conversion = "--saver core --load-dir 'org/model x' --save-dir RESULTS/pretrained ";
    assert!(script.contains(conversion) && script.contains("--target-tensor-parallel-size 4 "), "{script}");
    assert!(script.contains("--loader llama_mistral --checkpoint-type hf "), "{script}");
    for wrong in ["", " ", "a\nb"] {
        let options = LaunchOptions { weights: Some(wrong.into()), ..LaunchOptions::default() };
        let error = given(&[], &ddp, Target::Torchrun, &options).expect_err("no weights");
        assert!(error.to_string().starts_with("`--weights` is "), "{error}");
        assert_eq!(error.hint().as_deref(), Some("for example `--weights gpt2-xl`"));
    }
}

#[test]
fn spot_instances_are_asked_for_a_checkpoint_when_they_are_reclaimed() {
    let on = |pricing: &str, target| first(&[("plan.pricing", json!(pricing))], &pytorch("pytorch-ddp", false), target);
    let pods = on("spot", Target::Kubernetes);
    // Two steps of 0.6 s, and half as long again as the two minutes that stand for an unknown checkpoint.
    assert!(
        pods.contains("terminationGracePeriodSeconds: 272\n") && pods.contains(" /dev/shm/start.py train.py "),
        "{pods}"
    );
    assert!(
        on("on-demand", Target::Kubernetes).contains(" /dev/shm/start.py train.py "),
        "pods are evicted on any terms"
    );
    assert!(on("spot", Target::Torchrun).contains("\ntrap tell TERM INT\n"));
    let plain = on("on-demand", Target::Torchrun);
    assert!(!plain.contains("start.py") && !plain.contains("trap"), "{plain}");
    let script = first(&[("plan.pricing", json!("spot"))], &megatron(), Target::Megatron);
    assert!(script.contains("--exit-signal-handler") && script.contains("--split 100,0,0"), "{script}");
}
