//! Fine-tuning: what of a model is trained, and what the methods need.

use crate::common::{self, plan, refused};
use serde_json::Value;
use std::sync::Arc;
use trainyard_calibration::interval;
use trainyard_hardware_profiles::catalog;
use trainyard_models::{AttentionKernel, Family, ModelSpec};
use trainyard_plan::document::{Alternative, MethodChoice, PlanDocument, Prediction};
use trainyard_plan::{
    BaseFormat, BatchSpec, ClusterSpec, DpoSpec, FineTuningSpec, JobSpec, LoraSpec, Method, Plan, PlanSpec, Precision,
    Recompute, Reference, StateSharding, TuningObjective,
};
use trainyard_planner::{Resources, problem};
use trainyard_sim::{Machine, footprint, simulate, step_time};

/// A small language model on machines with one to eight GPUs.
fn job(model: &str, method: Option<Method>) -> JobSpec {
    let mut job = common::job(model, 32, &["g4dn.xlarge", "p4d.24xlarge"], 4);
    (job.model.seq_len, job.data.samples, job.training.method) = (Some(512), Some(10_000), method);
    job
}

fn planned(job: &JobSpec) -> PlanDocument {
    plan::<&str>(job, &[], 0).expect("a plan")
}

#[test]
fn full_fine_tuning_is_training() {
    let by = |stack: &str, method| {
        let mut job = job("gpt2-large", method);
        job.cluster.stack = Some(stack.into());
        planned(&job)
    };
    let (plain, full) = (by("deepspeed", None), by("deepspeed", Some(Method::Full)));
    let steps = |of: &PlanDocument| (of.prediction.step_time_s.to_bits(), of.prediction.memory_bytes.clone());
    assert!(plain.plan == full.plan && steps(&plain) == steps(&full));
    // Trained weights are read first.
    assert!(plain.prediction.start_up_s < full.prediction.start_up_s);
    let why = |of: &PlanDocument| {
        of.reasons[1..].iter().filter(|reason| !reason.contains("USD/h")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(why(&plain), why(&full));
    // Megatron-LM goes on with pretraining, and its converter of checkpoints does not make every cut into stages.
    let compares = |of: &PlanDocument| of.stacks.iter().any(|own| own.stack == "megatron-core");
    assert!(compares(&by("auto", None)) && !compares(&by("auto", Some(Method::Full))));
    let cut = by("megatron-core", Some(Method::Full)).plan;
    assert_eq!((cut.virtual_stages, 36 % cut.parallel.pipeline), (1, 0));
    assert!(plain.methods.is_empty());
    assert_eq!(full.methods.len(), 3);
}

/// What most fine-tune an encoder for is no prediction of words.
#[test]
fn an_encoder_with_the_head_of_its_pretraining_is_told() {
    let told = |method| {
        let document = planned(&job("bert-base", method));
        document.warnings.iter().any(|warning| warning.starts_with("priced with the head over the vocabulary"))
    };
    assert_eq!([told(Some(Method::Full)), told(None)], [true, false]);
}

#[test]
fn weights_in_int8_take_a_byte_and_products_longer() {
    let held = |base: Option<BaseFormat>, method| {
        let mut job = job("llama-2-7b", Some(method));
        job.training.lora = Some(LoraSpec { base, ..LoraSpec::default() });
        job.cluster.instances = Some(vec!["p4d.24xlarge".into()]);
        let held = ["instances=1", "parallel.data=8", "batch.micro=1", "state_sharding=none", "recompute=full"];
        plan(&job, &held, 0).expect("a plan")
    };
    let nf4 = held(None, Method::Qlora);
    let int8 = held(Some(BaseFormat::Int8), Method::Qlora);
    let lora = held(None, Method::Lora);
    let weights = |own: &PlanDocument| own.prediction.memory_bytes.stages[0].parameters as f64;
    let blocks = 6_738_415_616.0 - 2.0 * 32_000.0 * 4096.0 - 65.0 * 4096.0;
    // A byte a weight and four bytes for each output, 3 to 11 thousand of 4 to 11 thousand inputs, where lora has two bytes.
    let saved = (weights(&lora) - weights(&int8)) / blocks;
    assert!(saved > 0.97 && saved < 1.0, "{saved}");
    assert!(weights(&nf4) < weights(&int8));
    assert!(int8.prediction.step_time_s > lora.prediction.step_time_s);
    let own = int8.plan.fine_tuning.as_ref().expect("a part");
    assert_eq!(
        (own.base(), nf4.plan.fine_tuning.as_ref().and_then(FineTuningSpec::base)),
        (Some(BaseFormat::Int8), Some(BaseFormat::Nf4))
    );
    // The methods beside it keep what the job says of adapters, but for the format of the weights.
    assert_eq!(int8.methods.len(), 3);
    let planned = |own: &&MethodChoice| own.method != Method::Full && own.best.is_some();
    assert_eq!(int8.methods.iter().filter(planned).count(), 2, "all weights do not fit unsharded");
}

/// The same, trained on preferences.
fn preferences(model: &str, method: Option<Method>, reference: Option<Reference>) -> JobSpec {
    let mut job = job(model, method);
    job.training.objective = Some(TuningObjective::Dpo);
    job.training.dpo = reference.map(|reference| DpoSpec { reference: Some(reference) });
    job
}

#[test]
fn preferences_take_twice_the_sequences_and_a_reference() {
    let held = |job: &mut JobSpec| {
        job.cluster.instances = Some(vec!["p4d.24xlarge".into()]);
        job.cluster.max_instances = Some(1);
        job.cluster.stack = Some("deepspeed".into());
        planned(job).prediction
    };
    let sft = held(&mut job("gpt2-large", Some(Method::Full)));
    let dpo = held(&mut preferences("gpt2-large", Some(Method::Full), None));
    let kept = held(&mut preferences("gpt2-large", Some(Method::Full), Some(Reference::Precomputed)));
    assert_eq!((dpo.steps, sft.reference_s, dpo.reference_s), (sft.steps, None, None));
    // Arithmetic is 8 thirds and 6 thirds of it; updates and sums of gradients are once a step in all.
    let times = |prediction: &Prediction| prediction.step_time_s / sft.step_time_s;
    assert!(times(&dpo) > 1.8 && times(&dpo) < 2.9, "{}", times(&dpo));
    assert!(times(&kept) > 1.4 && times(&kept) < 2.2 && times(&kept) < times(&dpo), "{}", times(&kept));
    // The scores are one pass over the pairs, a sixth of the arithmetic of an epoch with them.
    let scored = kept.reference_s.expect("before the steps") / kept.time_s;
    assert!(scored > 0.1 && scored < 0.5, "{scored}");
    assert!(kept.cost_parts.expect("rented").reference_usd > 0.0);
    assert_eq!(kept.in_all_s, Some(kept.elapsed_s()));
    assert!(kept.around_s() > kept.reference_s.expect("before the steps"));
    // Both sequences are counted.
    let tokens = |own: &Prediction| own.tokens_per_s.expect("tokens") / own.samples_per_s;
    assert!((tokens(&dpo) / tokens(&sft) - 2.0).abs() < 1e-9);
}

#[test]
fn preferences_are_planned_for_software_that_has_them() {
    let document = planned(&preferences("llama-2-7b", Some(Method::Lora), None));
    let own = document.plan.fine_tuning.as_ref().expect("a part is trained");
    assert_eq!((own.method, own.reference()), (Method::Lora, Some(Reference::Model)));
    let of = |method| document.methods.iter().find(|own| own.method == method).expect("compared");
    assert_eq!((of(Method::Lora).trained_parameters, of(Method::Lora).parameters), (39_976_960, 6_778_392_576));
    let full = of(Method::Full);
    assert_eq!(full.trained_parameters, full.parameters, "the reference is no part of the model");
    let shards = |best: &Alternative| matches!(best.plan.stack.as_deref(), Some("deepspeed" | "pytorch-fsdp"));
    assert!(full.best.as_ref().is_none_or(shards), "{full:?}");
    for best in document.methods.iter().filter_map(|own| own.best.as_ref()) {
        assert!(best.plan.fine_tuning.as_ref().is_some_and(|own| own.reference() == Some(Reference::Model)));
    }
}

#[test]
fn what_is_no_training_on_preferences_is_told() {
    let refused = |change: fn(&mut JobSpec)| {
        let mut job = preferences("gpt2", Some(Method::Lora), None);
        change(&mut job);
        refused(&job).to_string()
    };
    for (error, told) in [
        (refused(|job| job.model.name = Some("bert-base".into())), "does not predict the next token"),
        (refused(|job| (job.data.samples, job.data.tokens) = (None, Some(1e6))), "data.tokens"),
        (refused(|job| job.training.method = Some(Method::Frozen)), "training.objective"),
        (refused(|job| job.cluster.stack = Some("megatron-core".into())), "lora with dpo"),
        (
            refused(|job| {
                job.training.objective = None;
                job.training.dpo = Some(DpoSpec::default());
            }),
            "training.dpo",
        ),
        (
            refused(|job| {
                (job.data.samples, job.training.steps) = (None, Some(10));
                job.training.dpo = Some(DpoSpec { reference: Some(Reference::Precomputed) });
            }),
            "data",
        ),
    ] {
        assert!(error.contains(told), "{error} without {told}");
    }
}

#[test]
fn adapters_need_less_than_all_weights_and_quantised_ones_less_than_both() {
    let document = planned(&job("llama-2-7b", Some(Method::Lora)));
    let own = document.plan.fine_tuning.as_ref().expect("a part is trained");
    assert_eq!((own.method, own.lora.as_ref().and_then(|lora| lora.rank)), (Method::Lora, Some(16)));
    let of = |method| document.methods.iter().find(|own| own.method == method).expect("compared");
    let [full, lora, qlora] = [Method::Full, Method::Lora, Method::Qlora].map(of);
    assert!(lora.chosen && !full.chosen && !qlora.chosen);
    // PEFT counts 39 976 960 of 6 778 392 576 (tests/fine_tuning/counts.json).
    assert_eq!((lora.trained_parameters, lora.parameters), (39_976_960, 6_778_392_576));
    assert_eq!((qlora.trained_parameters, qlora.parameters), (39_976_960, 6_778_392_576));
    assert_eq!(full.trained_parameters, full.parameters);
    let hourly = |own: &MethodChoice| own.smallest.as_ref().expect("it fits somewhere").hourly_usd;
    assert!(hourly(qlora) <= hourly(lora) && hourly(lora) <= hourly(full), "{:?}", document.methods);
    // Seven billion weights in four bits fit a T4.
    assert_eq!(qlora.smallest.as_ref().map(|own| (own.instance.as_str(), own.instances)), Some(("g4dn.xlarge", 1)));
}

#[test]
fn adapters_are_planned_for_software_that_loads_them() {
    let mut job = job("llama-2-7b", Some(Method::Qlora));
    job.training.lora = Some(LoraSpec { rank: Some(64), ..LoraSpec::default() });
    for stack in ["pytorch-ddp", "deepspeed"] {
        job.cluster.stack = Some(stack.into());
        let document = planned(&job);
        assert_eq!(document.plan.stack.as_deref(), Some(stack));
        let parallel = document.plan.parallel;
        assert_eq!((parallel.tensor, parallel.pipeline, parallel.context), (1, 1, 1));
        assert!(stack == "deepspeed" || document.plan.state_sharding == StateSharding::None);
    }
    job.cluster.stack = Some("megatron-core".into());
    let error = refused(&job);
    assert!(error.to_string().contains("by qlora"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("pytorch-ddp")) || error.invalid().hint().is_some());
}

#[test]
fn a_model_that_fits_no_device_is_sharded() {
    let mut job = job("llama-2-70b", Some(Method::Lora));
    job.cluster.instances = Some(vec!["p4d.24xlarge".into()]);
    let document = planned(&job);
    assert_eq!(document.plan.state_sharding, StateSharding::Parameters);
    assert!(matches!(document.plan.stack.as_deref(), Some("deepspeed" | "pytorch-fsdp")), "{:?}", document.plan.stack);
    // Both share out the same weights; what is whole for a moment is units of FSDP and layers of DeepSpeed.
    let [fsdp, deepspeed] = ["pytorch-fsdp", "deepspeed"].map(|stack| {
        job.cluster.stack = Some(stack.into());
        let document = planned(&job);
        (document.plan.stack, document.prediction.memory_bytes.stages[0].parameters)
    });
    assert_eq!((fsdp.0.as_deref(), deepspeed.0.as_deref()), (Some("pytorch-fsdp"), Some("deepspeed")));
    assert_eq!(fsdp.1, deepspeed.1);
}

#[test]
fn the_last_blocks_are_trained_alone() {
    let mut job = job("gpt2-large", Some(Method::Frozen));
    job.training.trained_blocks = Some(2);
    let document = planned(&job);
    let of = |method| document.methods.iter().find(|own| own.method == method).expect("compared");
    let (own, full) = (of(Method::Frozen), of(Method::Full));
    // Two blocks of 1280, 12 h² + 13 h, and the last normalisation; the head's table is the embedding's.
    assert_eq!(own.trained_parameters, 2 * (12 * 1280 * 1280 + 13 * 1280) + 2 * 1280);
    assert_eq!(own.parameters, full.parameters);
    assert!(document.methods.len() == 4 && own.chosen);
    job.training.trained_blocks = Some(37);
    let error = refused(&job);
    assert!(error.to_string().contains("training.trained_blocks"), "{error}");
}

#[test]
fn samples_of_different_lengths_share_sequences() {
    let mut job = job("gpt2-large", Some(Method::Lora));
    (job.data.samples, job.data.lengths) = (None, Some("lengths.txt".into()));
    let lengths = || Some(vec![128; 6400]);
    let steps = |job: &JobSpec| {
        let resources = Resources { lengths: lengths(), ..Resources::default() };
        problem(job, resources).expect("a solvable job").training.steps(32)
    };
    // Four of 128 tokens in one of 512.
    assert_eq!(steps(&job), 50);
    job.data.packing = Some(false);
    assert_eq!(steps(&job), 200);
    let refused = |job: &JobSpec, lengths| {
        problem(job, Resources { lengths, ..Resources::default() }).expect_err("refused").to_string()
    };
    assert!(refused(&job, None).contains("data.lengths"));
    assert!(refused(&job, Some(Vec::new())).contains("0 samples"));
    job.data.samples = Some(5);
    assert!(refused(&job, lengths()).contains("data.samples"));
    (job.data.samples, job.data.lengths) = (Some(5), None);
    assert!(refused(&job, None).contains("data.packing"));
}

/// A decoder with the dimensions of a published model.
fn decoder([layers, hidden, heads, kv_heads, ffn, vocab, seq_len]: [u64; 7]) -> ModelSpec {
    ModelSpec {
        layers: Some(layers as u32),
        hidden: Some(hidden),
        heads: Some(heads),
        kv_heads: Some(kv_heads),
        ffn: Some(ffn),
        vocab: Some(vocab),
        seq_len: Some(seq_len),
        attention: Some(AttentionKernel::Flash),
        ..ModelSpec::new("decoder", Family::Llama)
    }
}

/// One sample at once on one A100 of 80 GB, recomputed, with adapters of rank 8 on queries, keys and values, as in
/// ms-swift's benchmark (<https://github.com/modelscope/ms-swift>, `docs/source_en/LLM/Benchmark.md`, 4692215).
fn of_ms_swift(model: ModelSpec, method: Method) -> (Plan, Machine) {
    let targets = Some(["q", "k", "v"].map(String::from).to_vec());
    let lora = LoraSpec { rank: Some(8), targets, ..LoraSpec::default() };
    let layers = model.layers.expect("they are written") as usize + 2;
    let plan = Plan::try_from(PlanSpec {
        precision: Precision::Bf16Mixed,
        recompute: Recompute::Full,
        fine_tuning: FineTuningSpec::towards(None, method, Some(&lora), None).expect("valid"),
        ..PlanSpec::plain(model, ClusterSpec::of("p4de.24xlarge", 1), layers)
    });
    let mut stack = catalog().stack("pytorch-ddp").expect("in the catalog").clone();
    // Scripts of 2023 have whole logits.
    Arc::make_mut(&mut stack).tiled_loss = None;
    let cluster = catalog().cluster("p4de.24xlarge", 1).expect("in the catalog");
    (plan.expect("a valid plan"), Machine { cluster, stack })
}

#[test]
fn peaks_of_memory_are_at_most_as_published() {
    // Layers, width, heads, those of keys, width inside, vocabulary; peaks in GiB at 512, 1024, 2048, 4096 and 8192 tokens.
    let published: [([u64; 6], &[f64]); 6] = [
        ([32, 4096, 32, 32, 11_008, 151_936], &[18.01, 21.73, 27.74, 35.31, 48.41]), // qwen-7b
        ([40, 5120, 40, 40, 13_696, 152_064], &[30.14, 34.43, 40.14, 47.95, 60.74]), // qwen-14b
        ([32, 4096, 32, 4, 11_008, 64_000], &[13.72, 15.44, 16.95, 28.25, 43.81]),   // yi-6b
        ([32, 4096, 32, 8, 14_336, 36_608], &[14.99, 16.57, 19.89, 23.29, 52.14]),   // zephyr-7b
        ([32, 4096, 32, 32, 11_008, 125_696], &[18.18, 17.45, 19.18, 34.22, 45.47]), // baichuan2-7b
        ([60, 7168, 56, 8, 20_480, 64_000], &[66.72, 69.10]),                        // yi-34b
    ];
    let mut errors = Vec::new();
    for ([layers, hidden, heads, kv_heads, ffn, vocab], peaks) in published {
        for (peak, doublings) in peaks.iter().zip(0..) {
            let model = decoder([layers, hidden, heads, kv_heads, ffn, vocab, 512 << doublings]);
            let (plan, machine) = of_ms_swift(model, Method::Lora);
            let predicted = footprint(&plan, &machine).peak().as_f64() / f64::from(1 << 30);
            errors.push(predicted / peak - 1.0);
        }
    }
    // Samples of any length up to the longest: what is counted is there, and up to as much again lies in blocks of the
    // allocator that none of the next samples fits.
    errors.sort_by(f64::total_cmp);
    assert!(errors.iter().all(|error| (-0.6..0.07).contains(error)), "{errors:?}");
    assert!((-0.15..0.0).contains(&errors[errors.len() / 2]), "{errors:?}");
}

#[test]
fn weights_in_four_bits_take_as_much_longer_as_published() {
    // Samples a second with weights in bf16 and in NF4: qwen-7b, qwen-14b, qwen-72b.
    let published = [
        ([32, 4096, 32, 32, 11_008, 151_936, 1024], 4.31, 2.41),
        ([40, 5120, 40, 40, 13_696, 152_064, 1024], 2.60, 1.36),
        ([80, 8192, 64, 64, 24_576, 152_064, 1024], 0.59, 0.28),
    ];
    for (dimensions, half, quantised) in published {
        let step = |method| {
            let (plan, machine) = of_ms_swift(decoder(dimensions), method);
            step_time(&plan, &machine).expect("a GPU prices everything").0
        };
        let (predicted, measured) = (step(Method::Qlora) - step(Method::Lora), 1.0 / quantised - 1.0 / half);
        assert!((predicted / measured - 1.0).abs() < 0.15, "{dimensions:?}: {predicted} s for {measured} s");
    }
}

/// Steps of eight samples, one after another, with adapters of rank 64 beside all products on one A100 of 80 GB, recomputed:
/// QwenLM/Qwen at 03cd81f, README.md, "Profiling of Memory and Speed" (CUDA 11.8, PyTorch 2.0, FlashAttention 2; "LoRA",
/// chat models); `finetune.py` pads samples to the length and has the rest. `G` is taken as GiB, as nvidia-smi shows it.
#[test]
fn steps_of_adapters_are_as_published() {
    /// Layers, width, heads, those of keys, width inside, vocabulary; GiB and seconds at 256, 512, …, 8192 tokens.
    type Row = ([u64; 6], [(f64, f64); 6]);
    let published: [Row; 3] = [
        (
            [24, 2048, 16, 16, 5504, 151_936],
            [(6.7, 1.0), (7.4, 1.0), (8.4, 1.1), (11.0, 1.7), (16.2, 3.3), (21.8, 6.8)],
        ),
        (
            [32, 4096, 32, 32, 11_008, 151_936],
            [(20.1, 1.2), (20.4, 1.5), (21.5, 2.8), (23.8, 5.2), (29.7, 10.1), (36.6, 21.3)],
        ),
        (
            [40, 5120, 40, 40, 13_696, 152_064],
            [(34.6, 1.6), (35.1, 2.4), (35.3, 4.4), (37.4, 8.4), (42.5, 17.0), (55.2, 36.0)],
        ),
    ];
    let (mut steps, mut peaks, mut held) = (Vec::new(), Vec::new(), 0);
    for ([layers, hidden, heads, kv_heads, ffn, vocab], rows) in published {
        for ((peak, seconds), doublings) in rows.into_iter().zip(0..) {
            let (plan, machine) = of_qwen(decoder([layers, hidden, heads, kv_heads, ffn, vocab, 256 << doublings]));
            let outcome = simulate(&plan, &machine).expect("a GPU prices everything");
            let [low, high] = interval(&plan, &machine, &outcome);
            held += usize::from(low <= seconds && seconds <= high);
            steps.push(outcome.step_time.0 / seconds);
            peaks.push(outcome.footprint.peak().as_f64() / f64::from(1 << 30) / peak);
        }
    }
    let median = |all: &[f64]| {
        let mut all = all.to_vec();
        all.sort_by(f64::total_cmp);
        f64::midpoint(all[all.len() / 2 - 1], all[all.len() / 2])
    };
    // Too slow where samples are short and models small, whose launches are counted.
    assert!(median(&steps) > 1.0 && median(&steps) < 1.07, "{steps:?}");
    assert!(steps.iter().all(|ratio| *ratio > 0.92 && *ratio < 1.65), "{steps:?}");
    // From 1024 tokens on, of the two larger models.
    let long = [&steps[8..12], &steps[14..]].concat();
    assert!(long.iter().all(|ratio| (ratio - 1.0).abs() < 0.06), "{long:?}");
    assert!(held >= 17, "{held} of 18");
    // Samples of one length, nothing fitted.
    assert!((0.93..1.02).contains(&median(&peaks)), "{peaks:?}");
    assert!(peaks.iter().all(|ratio| *ratio > 0.8 && *ratio < 1.05), "{peaks:?}");
    assert!(peaks.iter().filter(|ratio| **ratio > 0.9).count() >= 15, "{peaks:?}");
}

/// What PyTorch holds of a block, counted tensor by tensor (`tests/fine_tuning/peaks.py`).
#[test]
fn blocks_hold_what_pytorch_holds() {
    const ROWS_BY_WIDTH: f64 = 512.0 * 256.0;
    let counted: Value =
        serde_json::from_str(include_str!("../../../tests/fine_tuning/peaks.json")).expect("it is JSON");
    let mut ratios = Vec::new();
    for row in counted["blocks"].as_array().expect("rows") {
        let name = |key: &str| row[key].as_str().expect("a name");
        let family = if name("family") == "llama" { Family::Llama } else { Family::Gpt };
        let stack = if row["autocast"] == true { "pytorch-ddp" } else { "deepspeed" };
        let targets = (name("method") == "lora of attention").then(|| match family {
            Family::Llama => vec!["q".to_owned(), "v".to_owned()],
            _ => vec!["q".to_owned()],
        });
        let lora = LoraSpec { rank: Some(8), targets, ..LoraSpec::default() };
        let adapted = FineTuningSpec::towards(None, Method::Lora, Some(&lora), None).expect("valid");
        let held = |layers: u32, recompute| {
            let model =
                ModelSpec { layers: Some(layers), dropout: serde_json::from_str("false").ok(), ..small(family) };
            let plan = Plan::try_from(PlanSpec {
                precision: Precision::Bf16Mixed,
                recompute,
                fine_tuning: adapted.clone().filter(|_| name("method") != "full"),
                ..PlanSpec::plain(model, ClusterSpec::of("p4d.24xlarge", 1), layers as usize + 2)
            });
            let mut stack = catalog().stack(stack).expect("in the catalog").clone();
            Arc::make_mut(&mut stack).tiled_loss = None;
            let parts = if name("method") == "full" { &stack.token_activations } else { &stack.frozen_activations };
            let machine = Machine {
                cluster: catalog().cluster("p4d.24xlarge", 1).expect("in the catalog"),
                stack: stack.clone(),
            };
            let resident = footprint(&plan.expect("a valid plan"), &machine).resident[0];
            let part = parts.as_ref().expect("it has one").value;
            [resident.activations, resident.activations + resident.workspace]
                .map(|bytes| bytes.as_f64() * part / ROWS_BY_WIDTH)
        };
        let kept = (held(5, Recompute::None)[0] - held(3, Recompute::None)[0]) / 2.0;
        let peak = held(3, Recompute::Full)[1];
        for (predicted, key) in [(kept, "kept"), (peak, "peak_of_recomputation")] {
            ratios.push((family, predicted / row[key].as_f64().expect("a number"), format!("{row} {key}")));
        }
    }
    assert_eq!(ratios.len(), 24);
    // One factor a stack. GPT-2's activation is many kernels in transformers, of which each keeps something.
    for (family, ratio, row) in &ratios {
        let near = if *family == Family::Llama { 0.9..1.35 } else { 0.6..1.15 };
        assert!(near.contains(ratio), "{ratio}: {row}");
    }
    let [whole, kept] = ["backward", "kept"].map(|key| counted["losses"][key].as_f64().expect("bytes a logit"));
    assert_eq!((whole, kept, counted["kept_in_tiles"].as_f64()), (12.0, 4.0, Some(0.0)));
}

/// A model of width 256 with samples of 512 tokens, and few words.
fn small(family: Family) -> ModelSpec {
    ModelSpec {
        hidden: Some(256),
        ffn: Some(1024),
        heads: Some(4),
        vocab: Some(64),
        seq_len: Some(512),
        attention: Some(AttentionKernel::Flash),
        ..ModelSpec::new("small", family)
    }
}

/// Where the software takes the loss in tiles, logits are computed once more and never whole.
#[test]
fn logits_in_tiles_take_time_and_no_memory() {
    let [hidden, vocab, tokens] = [4096, 128_256, 8192];
    let (plan, whole) = of_ms_swift(decoder([32, hidden, 32, 8, 14_336, vocab, tokens]), Method::Lora);
    let mut tiled = whole.clone();
    Arc::make_mut(&mut tiled.stack).tiled_loss.clone_from(&catalog().stack("pytorch-ddp").expect("there").tiled_loss);
    let [whole, tiled] = [whole, tiled].map(|machine| simulate(&plan, &machine).expect("a GPU prices everything"));
    let logits = (4 * tokens * vocab) as f64;
    let saved = whole.footprint.resident[0].total().as_f64() - tiled.footprint.resident[0].total().as_f64();
    // Logits and their gradient in single precision are no longer the fullest moment, a block is.
    assert!(saved > 1.2 * logits && saved < 2.0 * logits, "{saved} {logits}");
    let again = (2 * tokens * hidden * vocab) as f64 / 312e12;
    let longer = tiled.step_time.0 - whole.step_time.0;
    // The product once more, less traffic of logits in single precision.
    assert!(longer > 0.0 && longer < again / 0.7, "{longer} {again}");
}

fn of_qwen(model: ModelSpec) -> (Plan, Machine) {
    let lora = LoraSpec { rank: Some(64), alpha: Some(16.0), dropout: Some(0.05), ..LoraSpec::default() };
    let (plan, machine) = of_ms_swift(model, Method::Lora);
    let plan = Plan::try_from(PlanSpec {
        batch: BatchSpec { global: 8, micro: 1, accumulation: 8 },
        fine_tuning: FineTuningSpec::towards(None, Method::Lora, Some(&lora), None).expect("valid"),
        ..plan.spec().clone()
    });
    (plan.expect("a valid plan"), machine)
}
