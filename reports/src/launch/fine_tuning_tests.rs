//! What launch files say of a fine-tuning: its rates, its samples, and where its weights are loaded from and kept.

use super::stack_tests::{export, given, pytorch, sharded, stack};
use super::tests::model;
use super::{LaunchOptions, Target};
use serde_json::{Value, json};
use trainyard_hardware_profiles::Abilities;
use trainyard_plan::LaunchDocument;

type Change = (&'static str, Value);

fn by(method: &str, dpo: bool) -> Vec<Change> {
    let mut tuning = json!({ "method": method });
    if method != "full" && method != "frozen" {
        tuning["lora"] = json!({ "rank": 16, "targets": ["all-linear"] });
    }
    if dpo {
        tuning["dpo"] = json!({ "reference": "precomputed" });
    }
    let mut changes = vec![("job.training", json!({ "global_batch": 128, "method": method }))];
    if dpo {
        changes.push(("job.training.objective", json!("dpo")));
    }
    changes.extend((method != "full" || dpo).then_some(("plan.fine_tuning", tuning)));
    changes
}

/// A model of the catalog, which is fine-tuned.
fn tuned(name: &str, method: &str) -> Vec<Change> {
    [model(name), by(method, false)].concat()
}

fn on_ddp(changes: &[Change], target: Target) -> LaunchDocument {
    export(changes, &pytorch("pytorch-ddp", false), target).expect("replicas")
}

fn noted(launch: &LaunchDocument, words: &str) -> bool {
    launch.notes.iter().any(|note| note.contains(words))
}

#[test]
fn usual_rates_are_of_the_model_and_the_objective() {
    let deepspeed = stack("deepspeed", &[], Abilities::default());
    let rate = |changes: &[Change]| {
        let launch = export(changes, &deepspeed, Target::Torchrun).expect("replicas");
        launch.blanks.into_iter().find(|blank| blank.placeholder == "LEARNING_RATE").expect("to fill in").what
    };
    for (changes, words) in [
        (by("lora", false), "usually 1e-4 to 2e-4 for adapters"),
        (by("full", false), "usually about 1e-5 where"),
        (by("lora", true), "usually about 5e-6 for adapters trained on preferences"),
        (by("full", true), "usually 5e-7 to 1e-6 where all weights are trained on preferences"),
        (tuned("bert-base", "full"), "usually 2e-5 to 5e-5 where all weights of encoders"),
    ] {
        let rate = rate(&changes);
        assert!(rate.contains(words), "{words}: {rate}");
    }
    assert_eq!(rate(&tuned("vit-b-16", "full")), "peak learning rate");
    assert_eq!(rate(&[by("full", false), vec![("plan.optimizer", json!("lamb"))]].concat()), "peak learning rate");
}

#[test]
fn packed_samples_are_counted_as_sequences() {
    let evaluation = || ("job.campaign", json!({ "evaluation": { "every_steps": 50, "samples": 503 } }));
    let packed = [by("lora", false), vec![("job.data.lengths", json!("lengths.txt")), evaluation()]].concat();
    let launch = on_ddp(&packed, Target::Torchrun);
    assert!(noted(&launch, "counted on 503 sequences of 1,024 tokens into which samples"), "{:?}", launch.notes);
    let launch = on_ddp(&[by("lora", false), vec![evaluation()]].concat(), Target::Torchrun);
    assert!(noted(&launch, "counted on 503 samples, which"), "{:?}", launch.notes);
}

/// The file system of a container is small, and what lies there is downloaded again at each start.
#[test]
fn downloaded_weights_lie_where_there_is_room() {
    let of = |name: &str, target: Target| on_ddp(&tuned(name, "lora"), target);
    let pods = of("llama-3.1-70b", Target::Kubernetes);
    assert!(pods.files[0].text.contains("name: HF_HOME\n"), "{}", pods.files[0].text);
    assert!(pods.files[0].text.contains("value: \"/results/huggingface\"\n"), "{}", pods.files[0].text);
    let note = "weights, about 142 GB, are downloaded to /results/huggingface (HF_HOME): the claim for results";
    assert!(noted(&pods, note), "{:?}", pods.notes);
    let job = of("llama-3.1-70b", Target::Sagemaker);
    assert!(job.files[0].text.contains("\"HF_HOME\": \"/tmp/huggingface\""), "{}", job.files[0].text);
    assert!(noted(&job, "downloaded to /tmp/huggingface (HF_HOME) on the volume"), "{:?}", job.notes);
    assert!(noted(&of("llama-3.1-70b", Target::Torchrun), "on each machine unless HF_HOME names another folder"));
    // Small ones, and those that lie in a folder already.
    let small = of("gpt2", Target::Kubernetes);
    assert!(!noted(&small, "are downloaded") && small.files[0].text.contains("HF_HOME"));
    let options = LaunchOptions { weights: Some("/data/weights".into()), ..LaunchOptions::default() };
    let ddp = pytorch("pytorch-ddp", false);
    let own = given(&tuned("llama-3.1-70b", "lora"), &ddp, Target::Kubernetes, &options).expect("replicas");
    assert!(!noted(&own, "are downloaded") && !own.files[0].text.contains("HF_HOME"), "{}", own.files[0].text);
}

/// What is not trained stays in the format in which it was loaded, and is sharded as the adapters are.
#[test]
fn adapters_are_sharded_by_fsdp() {
    let fsdp = pytorch("pytorch-fsdp", false);
    let changes = [tuned("llama-3.1-8b", "lora"), vec![sharded(), ("plan.recompute", json!("full"))]].concat();
    let launch = export(&changes, &fsdp, Target::Torchrun).expect("ZeRO-3");
    let script = &launch.files[0].text;
    for words in [
        "--dtype bfloat16 ",
        "--use_peft true ",
        "  --fsdp \\\n",
        "\"cpu_ram_efficient_loading\":true",
        "--gradient_checkpointing true ",
        "accelerate>=1.15,",
        "export ACCELERATE_USE_FSDP=true\n",
    ] {
        assert!(script.contains(words), "{words}: {script}");
    }
    // PEFT does not find adapters in what FSDP checkpoints itself, and saves none.
    assert!(!script.contains("activation_checkpointing"), "{script}");
    let config = export(&changes, &fsdp, Target::Accelerate).expect("ZeRO-3").files[1].text.clone();
    for words in ["fsdp_version: 2\n", "TRANSFORMER_BASED_WRAP", "fsdp_activation_checkpointing: false\n"] {
        assert!(config.contains(words), "{words}: {config}");
    }
}

/// Shards are nothing that PEFT loads; what it loads is gathered beside all weights, for which a machine may lack the memory.
#[test]
fn adapters_are_saved_as_peft_loads_them_where_the_model_has_room_in_main_memory() {
    let fsdp = pytorch("pytorch-fsdp", false);
    let on = |instance: &str, target| {
        let machines = ("plan.cluster", json!({ "instance": instance, "instances": 16 }));
        let changes = [tuned("llama-3.1-8b", "lora"), vec![sharded(), machines]].concat();
        export(&changes, &fsdp, target).expect("ZeRO-3")
    };
    // 8.03 billion weights are 15 GiB in half precision; a g5.xlarge has 16 GiB, a g5.2xlarge 32.
    for (instance, states, words) in [
        ("g5.2xlarge", "FULL_STATE_DICT", "the first machine gathers the whole model, 15.0 GiB"),
        ("g5.xlarge", "SHARDED_STATE_DICT", "one file of the adapters, which PEFT calls adapter_model.safetensors"),
    ] {
        let launch = on(instance, Target::Torchrun);
        assert!(
            launch.files[0].text.contains(&format!("\"state_dict_type\":\"{states}\"")),
            "{}",
            launch.files[0].text
        );
        assert!(noted(&launch, words), "{:?}", launch.notes);
        let config = on(instance, Target::Accelerate).files[1].text.clone();
        assert!(config.contains(&format!("fsdp_state_dict_type: {states}\n")), "{config}");
    }
}

#[test]
fn trained_blocks_are_loaded_in_single_precision_and_the_others_in_half() {
    let words =
        "with dtype=torch.bfloat16 and brings the blocks that are trained, and what follows them, to single precision";
    assert!(noted(&on_ddp(&by("frozen", false), Target::Torchrun), words));
    let exact = [by("frozen", false), vec![("plan.precision", json!("fp32"))]].concat();
    assert!(!noted(&on_ddp(&exact, Target::Torchrun), "brings the blocks"));
    let deepspeed = stack("deepspeed", &[], Abilities::default());
    let sharded = [by("frozen", false), vec![sharded()]].concat();
    assert!(!noted(&export(&sharded, &deepspeed, Target::Torchrun).expect("ZeRO-3"), "brings the blocks"));
}

/// Memory and time of bounded scores are of separate kernels, which FlashAttention 2 would not be.
#[test]
fn packing_is_no_advice_where_scores_are_bounded() {
    let launch = on_ddp(&tuned("gemma-2-2b", "lora"), Target::Torchrun);
    assert!(noted(&launch, "attn_implementation eager") && !noted(&launch, "flash_attention_2"), "{:?}", launch.notes);
    assert!(noted(&launch, "samples were counted as long as max_length; shorter"), "{:?}", launch.notes);
    assert!(noted(&on_ddp(&tuned("llama-3.1-8b", "lora"), Target::Torchrun), "flash_attention_2"));
}

#[test]
fn what_is_assumed_is_not_to_be_filled_in() {
    let launch = on_ddp(&[], Target::Torchrun);
    let text = &launch.files[0].text;
    let [blanks, assumed, rest] = ["# To fill in:\n", "# Assumed, to check:\n", "# Not covered by these files:\n"]
        .map(|title| text.find(title).unwrap_or_else(|| panic!("{title}: {text}")));
    assert!(blanks < assumed && assumed < rest, "{text}");
    assert!(text[blanks..assumed].contains("# - train.py: ") && !text[blanks..assumed].contains("warmup_steps"));
    assert!(text[assumed..rest].contains("(job.training.warm_up_steps)\n"), "{text}");
    assert!(text.contains("# - these files start no machines: run them on 2 × p4d.24xlarge\n"), "{text}");
    assert!(text.contains("# - your script must build gpt2 itself\n"), "{text}");
    let listing = super::launch_listing(&launch, crate::format::Width(120));
    assert!(listing.contains("\nAssumed, to check\n"), "{listing}");
}
