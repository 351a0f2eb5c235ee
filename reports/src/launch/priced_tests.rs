//! Launch files start what was priced, and say what a user must know to compare with the prediction.

use super::stack_tests::{export, first, megatron, pytorch, sharded, stack};
use super::tests::{model, over_eight_ranks, plain, with};
use super::{LaunchOptions, Target};
use crate::launch::stack_tests::given;
use serde_json::{Value, json};
use trainyard_hardware_profiles::{Abilities, catalog};
use trainyard_plan::LaunchDocument;

const MEGATRON: [Target; 5] = [Target::Megatron, Target::Torchrun, Target::Slurm, Target::Skypilot, Target::Kubernetes];

fn notes(launch: &LaunchDocument, about: &str) -> usize {
    launch.notes.iter().filter(|note| note.contains(about)).count()
}

/// Where data are mounted, nobody may write beside them, or each machine has a copy.
#[test]
fn the_index_of_the_data_is_written_beside_checkpoints() {
    for target in MEGATRON {
        let launch = export(&[], &megatron(), target).expect("Megatron-LM");
        let mounts = matches!(target, Target::Skypilot | Target::Kubernetes);
        let folder = if mounts { "/results/trainyard-gpt2-" } else { "RESULTS/data-cache " };
        let text = &launch.files[0].text;
        assert!(text.contains(&format!(" --data-cache-path {folder}")) && text.contains("/data-cache "), "{text}");
        assert_eq!(notes(&launch, "all machines need the data"), usize::from(!mounts), "{}", target.name());
    }
    let bert = first(&model("bert-large"), &megatron(), Target::Megatron);
    assert!(bert.contains(" --data-cache-path "), "{bert}");
    let results = LaunchOptions { results: Some("/fsx/run".into()), ..LaunchOptions::default() };
    let launch = given(&[], &megatron(), Target::Slurm, &results).expect("Megatron-LM");
    assert!(launch.files[0].text.contains(" --data-cache-path /fsx/run/data-cache "), "{}", launch.files[0].text);
}

/// `GPTDataset` makes one of seq-length² numbers in single precision unless it is told not to; `BERTMaskedWordPieceDataset`
/// has none.
#[test]
fn causal_attention_takes_no_mask_from_the_loader() {
    let flag = " --no-create-attention-mask-in-dataloader";
    for name in ["gpt2", "llama-3-8b", "mixtral-8x7b"] {
        let text = first(&model(name), &megatron(), Target::Megatron);
        assert!(text.contains(flag), "{text}");
    }
    let old = [("plan.cluster.instance", json!("p3.16xlarge")), ("plan.precision", json!("fp16-mixed"))];
    assert!(first(&old, &megatron(), Target::Megatron).contains(flag));
    assert!(!first(&model("bert-large"), &megatron(), Target::Megatron).contains(flag));
}

/// FlashAttention takes no bias, so that the GPU alone does not tell the kernel.
#[test]
fn attention_with_a_bias_is_told_as_it_was_priced() {
    let told = |name: &str, kernel: &str| {
        let changes = [model(name), vec![("plan.model.attention", json!(kernel))]].concat();
        let launch = export(&changes, &pytorch("pytorch-ddp", false), Target::Torchrun).expect("replicas");
        let mut notes = launch.notes.into_iter();
        notes.find(|note| note.contains("attention was priced as")).expect("a note")
    };
    let biased = told("t5-base", "memory-efficient");
    assert!(biased.contains("priced as memory-efficient: PyTorch chooses it where a bias is added"), "{biased}");
    assert!(told("t5-base", "unfused").contains("separate kernels"));
    assert!(told("bart-large", "flash").contains("priced as flash: PyTorch chooses it on "));
}

#[test]
fn a_capacity_block_is_to_be_booked_before() {
    for target in [Target::Torchrun, Target::Slurm, Target::Skypilot, Target::Kubernetes] {
        for (pricing, told) in [("on-demand", 0), ("capacity-block", 1)] {
            let launch = export(&[("plan.pricing", json!(pricing))], &pytorch("pytorch-ddp", false), target);
            assert_eq!(notes(&launch.expect("replicas"), "book the block"), told, "{} {pricing}", target.name());
        }
    }
}

#[test]
fn gpus_for_which_pypi_has_no_kernels_are_told_where_packages_have_them() {
    let at = |instance: &str, target| {
        let cluster = ("plan.cluster", json!({ "instance": instance, "instances": 1 }));
        let launch =
            export(&[cluster, ("plan.precision", json!("fp16-mixed"))], &pytorch("pytorch-ddp", false), target);
        let launch = launch.expect("replicas");
        (notes(&launch, "has no kernels for Volta"), launch.files.into_iter().map(|file| file.text).collect::<String>())
    };
    let command = "pip install torch --index-url https://download.pytorch.org/whl/cu126";
    for (target, is_installed) in [(Target::Torchrun, false), (Target::Skypilot, true)] {
        let (told, text) = at("p3.16xlarge", target);
        assert_eq!((told, text.contains(command)), (1, true), "{text}");
        assert_eq!(text.contains(&format!("{command}\n  pip install 'transformers")), is_installed, "{text}");
        assert_eq!(at("g4dn.12xlarge", target).0, 0);
    }
}

#[test]
fn a_script_of_ones_own_hears_how_long_samples_were_priced() {
    let deepspeed = stack("deepspeed", &[], Abilities::default());
    let ddp = pytorch("pytorch-ddp", false);
    for (stack, target) in [
        (&ddp, Target::Torchrun),
        (&ddp, Target::Accelerate),
        (&ddp, Target::Sagemaker),
        (&deepspeed, Target::Deepspeed),
        (&deepspeed, Target::Slurm),
    ] {
        let launch = export(&[sharded()], stack, target).or_else(|_| export(&[], stack, target)).expect("replicas");
        let about = "samples were priced at 1,024 tokens each: the script must fill or cut them to that length; Hugging Face's run_clm.py takes --block_size 1024";
        assert_eq!(notes(&launch, about), 1, "{} {:?}", target.name(), launch.notes);
    }
    let bert = export(&model("bert-large"), &ddp, Target::Torchrun).expect("replicas");
    assert_eq!(notes(&bert, "run_mlm.py takes --max_seq_length 512"), 1, "{:?}", bert.notes);
    let labels =
        [model("bert-large"), vec![("plan.model.head", json!("classifier")), ("plan.model.classes", json!(2))]];
    let labels = export(&labels.concat(), &ddp, Target::Torchrun).expect("replicas");
    let scripts = "run_classification.py and run_glue.py take --max_seq_length 512";
    assert_eq!((notes(&labels, scripts), notes(&labels, "run_mlm.py")), (1, 0), "{:?}", labels.notes);
    let resnet = export(&model("resnet50"), &ddp, Target::Torchrun).expect("replicas");
    assert_eq!(notes(&resnet, "samples were priced"), 0, "{:?}", resnet.notes);
    // TRL's scripts are told.
    let tuned = export(&[("job.training.method", json!("full"))], &ddp, Target::Torchrun).expect("replicas");
    assert_eq!(notes(&tuned, "samples were priced"), 0, "{:?}", tuned.notes);
    assert!(tuned.files[0].text.contains("--max_length 1024 "), "{}", tuned.files[0].text);
}

/// By default Megatron-LM writes a line every 100 steps and the Trainer every 500.
#[test]
fn early_steps_can_be_compared_with_the_prediction() {
    let long = [("prediction.step_time_s", json!(12.0)), ("prediction.interval_s", json!([9.0, 16.0]))];
    let about = "predicted are 12.0 s (90 %: 9.00 s to 16.0 s) for a step";
    let launch = export(&long, &megatron(), Target::Kubernetes).expect("Megatron-LM");
    assert!(launch.files[0].text.contains("--log-interval 1 --log-throughput"), "{}", launch.files[0].text);
    let note = launch.notes.iter().find(|note| note.contains(about)).expect("the prediction");
    assert!(note.contains("half of the products of attention"), "{note}");
    assert!(first(&[], &megatron(), Target::Megatron).contains("--log-interval 10 --log-throughput"));
    let ddp = pytorch("pytorch-ddp", false);
    let launch = export(&long, &ddp, Target::Torchrun).expect("replicas");
    assert!(launch.files[0].text.contains("--logging_steps 1 "), "{}", launch.files[0].text);
    assert_eq!(notes(&launch, about), 1, "{:?}", launch.notes);
    assert!(first(&[], &ddp, Target::Torchrun).contains("--logging_steps 10 "));
}

#[test]
fn maps_lie_as_they_were_priced() {
    let stack = |name: &str| catalog().stack(name).expect("in the catalog");
    let starter = |changes: &[(&str, Value)], name, target| {
        let launch = export(changes, stack(name), target).expect("replicas");
        let text: String = launch.files.iter().map(|file| file.text.as_str()).collect();
        let told = text.contains("append(ChannelsLast)");
        assert_eq!(notes(&launch, "steps are predicted with the network's maps channels last"), usize::from(told));
        told
    };
    let images = model("resnet50");
    for target in [Target::Torchrun, Target::Accelerate, Target::Sagemaker, Target::Kubernetes] {
        assert!(starter(&images, "pytorch-ddp", target), "{}", target.name());
    }
    assert!(!starter(&images, "pytorch-ddp-compiled", Target::Torchrun), "torch.compile does it");
    assert!(!starter(&[], "pytorch-ddp", Target::Torchrun), "GPT-2 has no maps");
    let single = [images, vec![("plan.precision", json!("fp32"))]].concat();
    assert!(!starter(&single, "pytorch-ddp", Target::Torchrun), "products in single precision need no transposes");
}

#[test]
fn the_releases_that_scripts_need_are_named() {
    let fsdp = pytorch("pytorch-fsdp", false);
    let needs = |changes: &[(&str, Value)], stack, target| {
        let launch = export(changes, stack, target).expect("data parallel");
        launch.notes.into_iter().find(|note| note.starts_with("the script needs")).expect("packages")
    };
    let flag = "the script needs transformers>=5.10, accelerate>=1.10.1";
    assert_eq!(needs(&[sharded()], &fsdp, Target::Torchrun), flag);
    // The configuration of Accelerate says that there is FSDP.
    let plain = "the script needs transformers>=5.0, accelerate>=1.10.1";
    assert_eq!(needs(&[sharded()], &fsdp, Target::Accelerate), plain);
    let files = export(&[sharded()], &fsdp, Target::Sagemaker).expect("sharded").files;
    let listed = files.iter().find(|file| file.name == "requirements.txt").expect("packages");
    assert_eq!(listed.text, "transformers>=5.10\naccelerate>=1.10.1\n");
    let adapters = json!({ "method": "lora", "lora": { "rank": 16, "targets": ["all-linear"] } });
    let lora = [("job.training.method", json!("lora")), ("plan.fine_tuning", adapters)];
    assert_eq!(
        needs(&lora, &pytorch("pytorch-ddp", false), Target::Torchrun),
        format!("{plain}, trl>=1.16, peft>=0.13")
    );
}

/// The package megatron-core has no scripts.
#[test]
fn the_copy_of_megatron_that_the_arguments_are_for_is_named() {
    for target in MEGATRON {
        let launch = export(&[], &megatron(), target).expect("Megatron-LM");
        let text = &launch.files[0].text;
        assert!(text.contains("pretrain_gpt.py of Megatron-LM (tag core_v0.16.0)"), "{text}");
        assert_eq!(notes(&launch, "git clone --branch core_v0.16.0"), 1, "{} {:?}", target.name(), launch.notes);
    }
    let bert = first(&model("bert-large"), &megatron(), Target::Megatron);
    assert!(bert.contains("pretrain_bert.py of Megatron-LM (tag core_v0.16.0)"), "{bert}");
}

/// Memory and time of GPT and BERT count dropout unless the job says otherwise.
#[test]
fn dropout_is_the_models_or_an_assumption() {
    let dropout = |changes: &[(&'static str, Value)]| {
        let launch = export(changes, &megatron(), Target::Megatron).expect("Megatron-LM");
        let text = launch.files[0].text.clone();
        let assumed = launch.assumed.into_iter().find(|own| own.field == "job.training.dropout");
        let words = text.split(" --attention-dropout ").nth(1).expect("a share").split_whitespace();
        let shares: Vec<String> = words.take(3).map(ToOwned::to_owned).collect();
        (shares.join(" "), assumed.map(|own| own.written))
    };
    let tenth = Some("attention-dropout 0.1, hidden-dropout 0.1".to_owned());
    for name in ["bert-large", "gpt2"] {
        assert_eq!(dropout(&model(name)), ("0.1 --hidden-dropout 0.1".to_owned(), tenth.clone()), "{name}");
    }
    let none = Some("attention-dropout 0.0, hidden-dropout 0.0".to_owned());
    assert_eq!(dropout(&model("llama-3-8b")), ("0.0 --hidden-dropout 0.0".to_owned(), none));
    let said = |share: f64| [model("bert-large"), vec![("plan.model.dropout", json!(share))]].concat();
    assert_eq!(dropout(&said(0.2)), ("0.2 --hidden-dropout 0.2".to_owned(), None));
    assert_eq!(dropout(&said(0.0)), ("0.0 --hidden-dropout 0.0".to_owned(), None));
    let told = |changes: &[(&'static str, Value)]| {
        let launch = export(changes, &pytorch("pytorch-ddp", false), Target::Torchrun).expect("replicas");
        notes(&launch, "memory and time count dropout")
    };
    assert_eq!((told(&model("bert-large")), told(&said(0.0)), told(&model("llama-3-8b"))), (1, 0, 0));
    let heard = |changes: &[(&str, Value)]| {
        let launch = export(changes, &pytorch("pytorch-ddp", false), Target::Torchrun).expect("replicas");
        launch.notes.into_iter().find(|note| note.contains("dropout") && note.contains(" is 0.1: "))
    };
    let of_job = [said(0.1), vec![("job.training.dropout", json!(0.1))]].concat();
    let [of_model, of_job] = [said(0.1), of_job].map(|changes| heard(&changes).unwrap_or_default());
    assert!(
        of_model.starts_with("plan.model.dropout, of the model's description or config.json, is 0.1: "),
        "{of_model}"
    );
    assert!(of_job.starts_with("job.training.dropout is 0.1: "), "{of_job}");
}

/// Tensors of experts that drop no token have other sizes in every micro-batch.
#[test]
fn experts_are_given_memory_that_grows_and_kernels_that_are_fused() {
    let grown = "\nexport PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n";
    let of = |changes: &[(&'static str, Value)]| {
        let changes = [over_eight_ranks("mixtral-8x7b"), changes.to_vec()].concat();
        export(&changes, &megatron(), Target::Megatron).expect("experts")
    };
    let dropless = &of(&[]).files[0].text;
    assert!(dropless.contains(grown) && dropless.contains(" --moe-permute-fusion "), "{dropless}");
    assert!(!dropless.contains("quantization") && !dropless.contains("fp8"), "{dropless}");
    assert!(!of(&[("plan.model.capacity_factor", json!(1.0))]).files[0].text.contains(grown));
    assert!(!first(&[], &megatron(), Target::Megatron).contains(grown));
    let hopper = ("plan.cluster", json!({ "instance": "p5.48xlarge", "instances": 2 }));
    let eighths = of(&[hopper, ("plan.precision", json!("fp8-mixed"))]);
    let text = &eighths.files[0].text;
    assert!(text.contains(" --moe-router-padding-for-quantization "), "{text}");
    assert!(text.contains(" --fp8-format hybrid --fp8-recipe delayed"), "{text}");
    let told = eighths.assumed.iter().find(|own| own.field == "plan.precision").expect("no plan states a recipe");
    assert_eq!(told.written, "fp8-recipe delayed");
}

/// Blocks of chosen parts are told as Megatron Core's GPTModel takes them; what its layers cannot have is refused.
#[test]
fn blocks_are_started_as_layers_of_megatron_core() {
    let lines = |name: &str| first(&over_eight_ranks(name), &megatron(), Target::Megatron);
    let changed = |field, value| {
        let changes = [over_eight_ranks("qwen3-30b-a3b"), vec![(field, value)]].concat();
        first(&changes, &megatron(), Target::Megatron)
    };
    let qwen = lines("qwen3-30b-a3b");
    for words in [
        "--group-query-attention --num-query-groups 4 --kv-channels 128",
        "--norm-epsilon 0.000001 --disable-bias-linear --qk-layernorm --position-embedding-type rope",
        "--rotary-base 1000000",
        "--num-experts 128 --moe-router-topk 8",
        "--moe-ffn-hidden-size 768",
    ] {
        assert!(qwen.contains(words), "{words}: {qwen}");
    }
    assert!(!qwen.contains("moe-layer-freq") && !qwen.contains("multi-latent"), "{qwen}");
    let deepseek = lines("deepseek-v3");
    for words in [
        "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512",
        "--qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128",
        "--moe-layer-freq '[0]*3+[1]*58' --moe-ffn-hidden-size 2048",
        "--moe-shared-expert-intermediate-size 2048",
        "--moe-router-score-function sigmoid --moe-router-num-groups 8 --moe-router-group-topk 4",
        "--moe-router-topk-scaling-factor 2.5 --moe-router-enable-expert-bias --moe-router-bias-update-rate 1e-3",
        "--moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff 1e-4",
        "# - moe-router-bias-update-rate 1e-3, moe-aux-loss-coeff 1e-4: steps of the biases, and weight of the loss that",
    ] {
        assert!(deepseek.contains(words), "{words}: {deepseek}");
    }
    // Only of a model that does not say how its experts are chosen is a softmax remarked upon.
    for (text, told) in [(&qwen, false), (&deepseek, false), (&changed("plan.model.router", Value::Null), true)] {
        assert_eq!(text.contains("experts are chosen by a softmax"), told, "{text}");
    }
    let yarn = changed("plan.model.rotary_scaling", json!({ "kind": "yarn", "factor": 40.0 }));
    assert!(
        yarn.contains("# - position-embedding-type rope: rotary positions, which the model scales (yarn, factor 40)")
    );
    assert!(!deepseek.contains("kv-channels") && !deepseek.contains("num-query-groups"), "{deepseek}");
    let refused = export(&over_eight_ranks("gpt-oss-20b"), &megatron(), Target::Megatron).expect_err("sinks");
    assert!(refused.to_string().starts_with("`plan.model` is gpt-oss-20b"), "{refused}");
}

/// From Hopper on stacks are priced with cuDNN's attention; before Blackwell Megatron-LM ends if tensor parallelism has not
/// one connection.
#[test]
fn megatron_is_started_as_the_generation_of_the_gpus_asks() {
    let on = |instance: &str| {
        first(
            &[
                ("plan.cluster", json!({ "instance": instance, "instances": 2 })),
                ("plan.parallel", json!({ "data": 4, "tensor": 4, "pipeline": 1 })),
                ("plan.batch", json!({ "global": 128, "micro": 4, "accumulation": 8 })),
            ],
            &megatron(),
            Target::Megatron,
        )
    };
    for (instance, backend, connection) in
        [("p4d.24xlarge", "flash", true), ("p5.48xlarge", "fused", true), ("p6-b200.48xlarge", "fused", false)]
    {
        let script = on(instance);
        assert!(script.contains(&format!("--attention-backend {backend} ")), "{script}");
        assert_eq!(script.contains("CUDA_DEVICE_MAX_CONNECTIONS=1"), connection, "{script}");
        assert_eq!(script.contains("flash-attn"), backend == "flash", "{script}");
    }
}

/// transformers leaves the loss out unless it is asked for.
#[test]
fn a_script_of_ones_own_is_told_to_balance_experts() {
    let told = |name: &str| {
        let document = with(&[model(name), vec![("plan.stack", json!("pytorch-ddp"))]].concat());
        let notes = plain(&document, Target::Torchrun).expect("a script of one's own").notes;
        notes.iter().any(|note| note.contains("output_router_logits=True"))
    };
    assert_eq!(["mixtral-8x7b", "llama-3.1-8b"].map(told), [true, false]);
}
