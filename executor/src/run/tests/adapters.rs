//! Whole runs that train adapters: what they save, and how they go on.

use super::*;
use serde_json::{Value, json};
use trainyard_plan::{FineTuningSpec, LoraSpec, Method};

/// Trains these products of a cut of the tiny model by adapters.
fn adapted(spec: PlanSpec, targets: &[&str]) -> PlanSpec {
    let targets = Some(targets.iter().map(ToString::to_string).collect());
    let lora = LoraSpec { rank: Some(4), targets, ..LoraSpec::default() };
    let cluster = ClusterSpec { profile: Some("profile.toml".into()), ..spec.cluster };
    PlanSpec {
        fine_tuning: FineTuningSpec::towards(None, Method::Lora, Some(&lora), None).expect("valid"),
        cluster,
        ..spec
    }
}

/// Returns the options of a run of `spec` that begins with weights of others, which they are in a folder `base`.
fn beside_weights(folder: &tempfile::TempDir, spec: &PlanSpec, steps: u64) -> RunOptions {
    let base = folder.path().join("base");
    if !base.exists() {
        let full = PlanSpec { fine_tuning: None, ..spec.clone() };
        let options = RunOptions { checkpoint: Some(base.clone()), ..options(folder, 2) };
        go(&full, &options).expect("a run of all weights");
    }
    let plan_document = json!({ "plan": spec });
    RunOptions { weights: Some(base.join("checkpoint-1/model.safetensors")), plan_document, ..options(folder, steps) }
}

fn go(spec: &PlanSpec, options: &RunOptions) -> Result<RunOutcome, RunError> {
    run(&plan(spec.clone()), options, &|_| {}, &AtomicBool::new(false))
}

fn document(path: PathBuf) -> Value {
    serde_json::from_slice(&fs::read(path).expect("it was written")).expect("it is JSON")
}

#[test]
fn a_resumed_run_of_adapters_gives_the_bits_of_one_that_never_stopped() {
    let sharded = PlanSpec { state_sharding: StateSharding::Parameters, ..spec(2, 1, 1, ScheduleName::None) };
    let half = PlanSpec { precision: Precision::Bf16Mixed, ..sharded.clone() };
    for cut in [spec(1, 1, 2, ScheduleName::None), spec(2, 2, 1, ScheduleName::GPipe), sharded, half] {
        let cut = adapted(cut, &["all-linear"]);
        let (folder, straight) = (text(), text());
        let straight_options = beside_weights(&straight, &cut, 6);
        let expected = go(&cut, &straight_options).expect("the run ends well").report;
        go(&cut, &beside_weights(&folder, &cut, 3)).expect("the first half");
        // The weights are found where they were.
        let again = RunOptions { resume: true, weights: None, ..beside_weights(&folder, &cut, 6) };
        let report = go(&cut, &again).expect("the second half").report;
        let losses = |steps: &[StepReport]| steps.iter().map(|s| (s.step, s.loss.to_bits())).collect::<Vec<_>>();
        assert_eq!(losses(&report.steps), losses(&expected.steps[3..]));
        let [state, expected] =
            [&folder, &straight].map(|own| state::read(&own.path().join("checkpoint")).expect("a whole checkpoint").1);
        assert_eq!((&state.model, &state.second_moments), (&expected.model, &expected.second_moments));
        assert_eq!(state.model.len(), 2 * 4 * 4, "two weights of four adapters in each of four blocks");
        assert!(state.model.keys().all(|name| name.starts_with("base_model.model.transformer.h.")));
    }
}

#[test]
fn what_is_saved_is_what_peft_reads() {
    let folder = text();
    let some = adapted(spec(1, 1, 1, ScheduleName::None), &["q", "o"]);
    let options = beside_weights(&folder, &some, 1);
    let saved = go(&some, &options).expect("the run ends well").checkpoint.expect("a checkpoint");
    let configuration = document(saved.join("adapter_config.json"));
    // Both projections of GPT-2 are called `c_proj`.
    assert_eq!(configuration["target_modules"], json!(["attn.c_proj", "c_attn"]));
    assert_eq!([&configuration["r"], &configuration["lora_alpha"]], [&json!(4), &json!(8)]);
    assert_eq!([&configuration["peft_type"], &configuration["fan_in_fan_out"]], [&json!("LORA"), &json!(true)]);
    let base = options.weights.as_ref().map(|path| path.display().to_string());
    assert_eq!(configuration["base_model_name_or_path"], json!(base));
    let mut files: Vec<_> =
        fs::read_dir(&saved).expect("a folder").map(|file| file.expect("a file").file_name()).collect();
    files.sort();
    let written = ["adapter_config.json", "adapter_model.safetensors", "first_moments.safetensors", "manifest.json"];
    assert_eq!(files[..4], written);
    assert_eq!(files[4..], ["plan.json", "second_moments.safetensors"]);
    let all = adapted(spec(1, 1, 1, ScheduleName::None), &["all-linear"]);
    let other = RunOptions { checkpoint: Some(folder.path().join("other")), weights: None, ..options };
    let saved = go(&all, &other).expect("the run ends well").checkpoint.expect("a checkpoint");
    let configuration = document(saved.join("adapter_config.json"));
    assert_eq!(configuration["target_modules"], json!(["c_attn", "c_fc", "c_proj"]));
    assert_eq!(configuration["base_model_name_or_path"], Value::Null);
}

#[test]
fn adapters_go_on_beside_the_same_weights_alone() {
    let folder = text();
    let cut = adapted(spec(1, 1, 1, ScheduleName::None), &["q"]);
    let options = beside_weights(&folder, &cut, 2);
    go(&cut, &options).expect("the run ends well");
    let again = RunOptions { resume: true, steps: 4, ..options.clone() };
    let field = |result: Result<RunOutcome, RunError>| match result {
        Err(RunError::Checkpoint(CheckpointError::Mismatch { field, .. })) => field,
        other => panic!("{other:?}"),
    };
    // The same training with other weights, and with adapters of another scale.
    let base = folder.path().join("base");
    fs::copy(base.join("checkpoint-1/first_moments.safetensors"), folder.path().join("other.safetensors"))
        .expect("there");
    let other = RunOptions { weights: Some(folder.path().join("other.safetensors")), ..again.clone() };
    assert_eq!(field(go(&cut, &other)), "weights");
    let mut scaled = cut.clone();
    scaled.fine_tuning.as_mut().and_then(|part| part.lora.as_mut()).expect("adapters").alpha = Some(3.0);
    let told = RunOptions { plan_document: json!({ "plan": scaled }), ..again.clone() };
    assert_eq!(field(go(&scaled, &told)), "fine_tuning");
    let full = PlanSpec { fine_tuning: None, ..cut.clone() };
    let told = RunOptions { plan_document: json!({ "plan": full }), ..again.clone() };
    assert_eq!(field(go(&full, &told)), "fine_tuning");
    // Elsewhere the same files do.
    let moved = folder.path().join("moved");
    fs::rename(&base, &moved).expect("it is there");
    assert!(matches!(go(&cut, &RunOptions { weights: None, ..again.clone() }), Err(RunError::Weights(_))));
    let found = RunOptions { weights: Some(moved.join("checkpoint-1/model.safetensors")), ..again };
    assert_eq!(go(&cut, &found).expect("the run ends well").report.steps.len(), 2);
}

#[test]
fn parts_that_are_not_run_are_refused() {
    let lora = |model: ModelSpec| {
        let layers = Model::try_from(model.clone()).expect("valid").graph().len();
        let plain = PlanSpec::plain(model, ClusterSpec::of("local", 1), layers);
        adapted(plain, &["all-linear"])
    };
    let images = &trainyard_models::find("vit-b-16").expect("in the catalog").model;
    let refused = refusal_of(&lora(images.spec())).expect("there are no such adapters");
    assert!(refused.to_string().contains("lora of gpt, gpt-moe, llama, gpt-neox or gemma2"), "{refused}");
    let mut quantised = adapted(spec(1, 1, 1, ScheduleName::None), &["all-linear"]);
    quantised.precision = Precision::Bf16Mixed;
    quantised.fine_tuning.as_mut().expect("a part").method = Method::Qlora;
    let refused = refusal_of(&quantised).expect("there are no weights in NF4");
    assert_eq!(refused.field(), "fine_tuning.method");
    assert!(refused.to_string().contains("qlora") && refused.to_string().contains("full, lora or frozen"), "{refused}");
}

fn refusal_of(spec: &PlanSpec) -> Option<Invalid> {
    crate::refusal(&plan(spec.clone()))
}
