//! Adapters, and weights that are quantised, as arguments of a script.
//!
//! # Source
//!
//! Hugging Face TRL 1.16, `trl/trainer/model_config.py`, `trl/trainer/sft_config.py` and `trl/scripts/sft.py`.

use super::Target;
use super::draft::{Draft, Flag};
use super::error::LaunchError;
use super::field::Field;
use super::packing;
use super::places::Places;
use super::software::Engine;
use super::starter::Script;
use trainyard_models::{Family, Layer, Operator, OperatorKind, Sharing, Tuned, predicts_next_token};
use trainyard_plan::{
    BaseFormat, FineTuningSpec, LoraSpec, Method, Plan, Precision, Recompute, Reference, StateSharding, TuningKind,
};

/// TRL's scripts for supervised fine-tuning and for direct preference optimisation, which read these arguments.
const SFT: &str = "trl.scripts.sft";
const DPO: &str = "trl.scripts.dpo";

/// The projections beside which adapters are planned in models with experts. PEFT's own word for all products would add
/// some to routers and to each expert.
const BESIDE_EXPERTS: &str = r".*\.(self_attn|mlp|shared_experts?)\.\w*proj\w*";

/// Returns the script to start, and a description of it: TRL's own, which is a module of the package, unless the user
/// names another.
pub(super) fn script(draft: &mut Draft<'_>) -> (Script, &'static str) {
    if !is_trls(draft) {
        return (Script::File(draft.script()), "a script that reads transformers.TrainingArguments");
    }
    let given = draft.given(Flag::Script);
    let file = Script::File(draft.asks_or(Flag::Script, ""));
    match (draft.job.plan().tuning_kind().dpo, given) {
        (true, true) => (file, "a script that reads trl.DPOConfig and trl.ModelConfig"),
        (true, false) => (Script::Module(DPO), "TRL's dpo.py"),
        (false, true) => (file, "a script that reads trl.SFTConfig and trl.ModelConfig"),
        (false, false) => (Script::Module(SFT), "TRL's sft.py"),
    }
}

/// Returns `true` if TRL's scripts train the plan, which is of a model that predicts the next token: adapters, or all of
/// its weights.
pub(super) fn is_trls(draft: &Draft<'_>) -> bool {
    loss_was_counted_in_tiles(draft) || trains_all_weights(draft)
}

/// Returns `true` if memory was counted without whole logits, as TRL takes the loss: adapters, or preferences.
fn loss_was_counted_in_tiles(draft: &Draft<'_>) -> bool {
    draft.job.plan().graph().distinct().iter().any(|layer| layer.loss_in_tiles)
}

/// Returns `true` if all weights of such a model are trained on its own loss by software that transformers drives, which
/// splits no layers. SageMaker's own library, which a plan without a stack is for, takes scripts that are written for it.
fn trains_all_weights(draft: &Draft<'_>) -> bool {
    let (job, plan) = (draft.job, draft.job.plan());
    let parallel = plan.mesh().parallel();
    let is_whole = parallel.tensor.max(parallel.pipeline).max(parallel.context).max(parallel.expert) == 1;
    job.is_fine_tuning()
        && plan.tuning_kind() == TuningKind::FULL
        && is_whole
        && matches!(draft.engine, Engine::Deepspeed | Engine::Fsdp | Engine::Ddp)
        && (draft.target != Target::Sagemaker || job.stack().is_some())
        && predicts_next_token(plan.model())
}

/// Returns `true` if the weights have to be loaded in single precision for updates to be summed in it. transformers loads
/// them as they are published, most often in bfloat16; DeepSpeed keeps copies in single precision, and Accelerate makes
/// them for FSDP.
pub(super) fn must_load_whole(draft: &Draft<'_>) -> bool {
    let precision = draft.job.plan().precision();
    draft.job.plan().method() == Method::Full && draft.engine == Engine::Ddp && precision.element_bytes() < 4
}

/// Returns in which formats a script of one's own loads the weights of which the last blocks are trained, as memory was
/// counted; `None` where everything is in single precision, and with DeepSpeed, which keeps copies of what it updates.
fn formats_of_frozen(draft: &Draft<'_>) -> Option<String> {
    let format = match draft.job.plan().precision() {
        Precision::Bf16Mixed | Precision::Fp8Mixed => "bfloat16",
        Precision::Fp16Mixed => "float16",
        Precision::Fp32 | Precision::Tf32 => return None,
    };
    (draft.engine != Engine::Deepspeed).then(|| {
        format!(
            "the script loads the model with dtype=torch.{format} and brings the blocks that are trained, and what follows them, to \
             single precision (module.float()), in which AdamW keeps small updates: memory was counted so"
        )
    })
}

/// Returns the number format in which TRL loads the model: that in which it computes, or, if all weights are trained
/// outside DeepSpeed, single precision.
fn format(draft: &Draft<'_>) -> &'static str {
    if trains_all_weights(draft) && draft.engine != Engine::Deepspeed {
        return "float32";
    }
    match draft.job.plan().precision() {
        Precision::Fp32 | Precision::Tf32 => "float32",
        Precision::Fp16Mixed => "float16",
        Precision::Bf16Mixed | Precision::Fp8Mixed => "bfloat16",
    }
}

/// Returns `true` if the loss cannot be scaled: TRL keeps adapters beside quantised weights in bfloat16 (Dettmers et al.,
/// arXiv:2305.14314, section 3), whose gradients PyTorch's scaler of fp16 refuses. DeepSpeed scales by itself.
pub(super) fn scales_no_loss(draft: &Draft<'_>) -> bool {
    is_trls(draft) && draft.job.plan().method() == Method::Qlora && draft.engine != Engine::Deepspeed
}

fn has(draft: &Draft<'_>, is_it: impl Fn(OperatorKind) -> bool) -> bool {
    draft.job.plan().graph().layers().any(|layer| layer.operators.iter().any(|own: &Operator| is_it(own.kind)))
}

/// Returns `true` if the model has experts.
pub(super) fn has_experts(draft: &Draft<'_>) -> bool {
    has(draft, |kind| {
        matches!(kind, OperatorKind::ExpertLinear { .. } | OperatorKind::Tuned(Tuned::Frozen { experts: 2.., .. }))
    })
}

/// Expresses which weights are trained as names and values of arguments.
pub(super) fn arguments(draft: &mut Draft<'_>, places: Places) -> Result<Vec<(String, String)>, LaunchError> {
    let plan = draft.job.plan();
    let (method, kind) = (plan.method(), plan.tuning_kind());
    let parallel = plan.mesh().parallel();
    if kind != TuningKind::FULL && parallel.tensor.max(parallel.pipeline).max(parallel.context) > 1 {
        let why = "with PEFT and TRL there is data parallelism of it alone, and the plan splits the model";
        return Err(draft.cannot(Field::FineTuning, why));
    }
    if method == Method::Frozen {
        let blocks = plan.spec().fine_tuning.as_ref().and_then(|own| own.trained_blocks).unwrap_or(1);
        let advice = format!(
            "the script calls requires_grad_(False) on all but the last {blocks} of the blocks and what follows them"
        );
        draft.note(Field::FineTuning, &advice);
        if let Some(advice) = formats_of_frozen(draft) {
            draft.remark(advice);
        }
        return Ok(Vec::new());
    }
    let lora = plan.spec().fine_tuning.as_ref().and_then(|own| own.lora.clone());
    if is_trls(draft) {
        return trls_arguments(draft, places, lora.as_ref());
    }
    if let Some(lora) = lora {
        let (rank, alpha) = (lora.rank.unwrap_or_default(), lora.alpha.unwrap_or_default());
        let advice = format!("the script adds the adapters, peft.LoraConfig(r={rank}, lora_alpha={alpha})");
        draft.note(Field::FineTuning, &advice);
    }
    Ok(Vec::new())
}

/// Expresses what TRL's scripts are told of the model, its adapters, and its objective.
fn trls_arguments(
    draft: &mut Draft<'_>,
    places: Places,
    lora: Option<&LoraSpec>,
) -> Result<Vec<(String, String)>, LaunchError> {
    let plan = draft.job.plan();
    draft.tells(&[Field::FineTuning]);
    draft.remark(if loss_was_counted_in_tiles(draft) {
        "memory was counted for TRL 1.16 or later, which takes the loss in tiles"
    } else {
        "memory and time were counted with whole logits; TRL from 1.16 on takes the loss in tiles, in less memory, and computes the head's product once more"
    });
    draft.remark(if plan.tuning_kind().dpo {
        "TRL reads the columns prompt, chosen and rejected of the data; where these are messages, the model's tokenizer must have a chat template"
    } else {
        "TRL reads the columns messages, prompt and completion, or text of the data; messages need a model whose tokenizer has a chat template"
    });
    let format = format(draft);
    let mut list: Vec<(&str, String)> = vec![("dataset_name", data(draft, places)), ("dtype", format.into())];
    if let Some(lora) = lora {
        list.extend([
            ("use_peft", "true".into()),
            ("lora_r", lora.rank.unwrap_or_default().to_string()),
            ("lora_alpha", alpha(draft, lora)?),
            ("lora_dropout", lora.dropout.unwrap_or_default().to_string()),
            ("lora_target_modules", modules(draft, lora)?),
        ]);
    }
    list.extend(plan.model().tokens_per_sample().map(|tokens| ("max_length", tokens.to_string())));
    // SFTConfig and DPOConfig checkpoint, and compute in bfloat16, unless they are told not to.
    if plan.recompute() != Recompute::Full {
        list.push(("gradient_checkpointing", "false".into()));
    }
    if plan.precision() != Precision::Bf16Mixed {
        list.push(("bf16", "false".into()));
    }
    if plan.spec().fine_tuning.as_ref().and_then(FineTuningSpec::base) == Some(BaseFormat::Int8) {
        list.push(("load_in_8bit", "true".into()));
    } else if plan.method() == Method::Qlora {
        let quantised = [("load_in_4bit", "true"), ("bnb_4bit_quant_type", "nf4"), ("use_bnb_nested_quant", "true")];
        list.extend(quantised.map(|(name, value)| (name, value.to_owned())));
        if plan.state_sharding() == StateSharding::Parameters {
            // What is sharded is of one type (PEFT, QLoRA with DeepSpeed ZeRO-3).
            list.push(("bnb_4bit_quant_storage", format.into()));
        }
    }
    if scales_no_loss(draft) && plan.precision() == Precision::Fp16Mixed {
        draft.remark(
            "fp16 is not set: TRL keeps adapters beside 4-bit weights in bfloat16, which PyTorch's loss scaler refuses; the model itself computes in float16 (dtype)",
        );
    }
    if plan.tuning_kind().dpo {
        preferences(draft, &mut list);
    } else {
        packing::arguments(draft, &mut list);
    }
    Ok(list.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Adds where the scores of the reference model come from.
fn preferences(draft: &mut Draft<'_>, list: &mut Vec<(&str, String)>) {
    draft.tells(&[Field::Reference]);
    let reference = draft.job.plan().spec().fine_tuning.as_ref().and_then(FineTuningSpec::reference);
    if reference == Some(Reference::Precomputed) {
        list.push(("precompute_ref_log_probs", "true".into()));
    }
    draft.remark("the loss is TRL's, sigmoid with beta 0.1 (--loss_type, --beta): they change no time and no memory");
    draft.remark(
        "both sequences of a pair were counted as long as max_length; TRL pads to the longest of a micro-batch",
    );
}

/// Returns the bytes of the model that is fine-tuned, as it is published: in half precision.
pub(super) fn download_bytes(plan: &Plan) -> u64 {
    let values = |layer: &Layer| layer.frozen_values() + layer.parameters(Sharing::WHOLE);
    2 * plan.graph().own_layers().map(values).sum::<u64>()
}

/// TRL from the version on that takes the loss in tiles, as memory is counted.
const TRL: &str = "trl>=1.16";
/// The same with the package that fetches FlashAttention 2 built: flash-attn itself cannot be built from a list of packages,
/// since its build imports PyTorch.
const TRL_WITH_KERNELS: &str = "trl[kernels]>=1.16";

/// PEFT as TRL wants it (`peft` of its extras).
const PEFT: &str = "peft>=0.13";
/// The least release that transformers 5 loads quantised weights with (`utils/import_utils.py`); its optimizers in eight bits
/// have blocks of 256 values since 0.44.
pub(super) const BITSANDBYTES: &str = "bitsandbytes>=0.46.1";

/// Returns the packages that the script needs beside transformers and Accelerate.
pub(super) fn packages(draft: &Draft<'_>) -> Vec<&'static str> {
    let trl = if packing::takes_flash(draft) { TRL_WITH_KERNELS } else { TRL };
    match draft.job.plan().method() {
        Method::Lora | Method::Qlora if !is_trls(draft) => vec![PEFT],
        Method::Lora => vec![trl, PEFT],
        Method::Qlora => vec![trl, PEFT, BITSANDBYTES],
        Method::Full if is_trls(draft) => vec![trl],
        Method::Full | Method::Frozen => Vec::new(),
    }
}

fn data(draft: &mut Draft<'_>, places: Places) -> String {
    let ask =
        |draft: &mut Draft<'_>| draft.asks(Flag::Data, "DATA", "data set: a folder, or a name on the Hugging Face Hub");
    places.data.map_or_else(|| ask(draft), ToOwned::to_owned)
}

fn alpha(draft: &Draft<'_>, lora: &LoraSpec) -> Result<String, LaunchError> {
    let alpha = lora.alpha.unwrap_or_default();
    if alpha.fract() == 0.0 {
        return Ok(alpha.to_string());
    }
    Err(draft.cannot(Field::FineTuning, format!("TRL takes whole numbers for lora.alpha, not {alpha}")))
}

/// Returns the modules that have adapters, as PEFT reads one text: its word for all of them, or a pattern.
fn modules(draft: &Draft<'_>, lora: &LoraSpec) -> Result<String, LaunchError> {
    let targets = lora.targets.clone().unwrap_or_default();
    if targets.iter().any(|target| target == "all-linear") {
        return Ok(if has_experts(draft) { BESIDE_EXPERTS } else { "all-linear" }.into());
    }
    if !matches!(draft.job.plan().model().family(), Family::Llama | Family::Gemma2 | Family::Blocks) {
        let why = "the modules of this family have names of their own; lora.targets = [\"all-linear\"] needs none";
        return Err(draft.cannot(Field::FineTuning, why));
    }
    Ok(format!(".*\\.({})_proj", targets.join("|")))
}

#[cfg(test)]
mod tests {
    use crate::launch::stack_tests::{export, first, given, megatron, pytorch, sharded, stack};
    use crate::launch::{LaunchOptions, Target};
    use serde_json::{Value, json};
    use trainyard_hardware_profiles::Abilities;

    type Change = (&'static str, Value);

    fn by(method: &str) -> Vec<Change> {
        let adapters = json!({ "method": method, "lora": { "rank": 16, "targets": ["all-linear"] } });
        let mut changes = vec![("job.training.method", json!(method))];
        changes.extend((method != "full").then_some(("plan.fine_tuning", adapters)));
        changes
    }

    fn on_volta(changes: Vec<Change>) -> Vec<Change> {
        let machines = json!({ "instance": "p3.16xlarge", "instances": 2 });
        [changes, vec![("plan.cluster", machines), ("plan.precision", json!("fp16-mixed"))]].concat()
    }

    /// The Trainer takes what the launcher says of the number format too.
    #[test]
    fn accelerate_scales_no_loss_that_cannot_be_scaled() {
        let config = |changes: &[Change]| {
            export(changes, &pytorch("pytorch-ddp", false), Target::Accelerate).expect("replicas").files[1].text.clone()
        };
        let quantised = config(&on_volta(by("qlora")));
        assert!(quantised.contains("mixed_precision: \"no\"\n"), "{quantised}");
        let whole = config(&on_volta(by("lora")));
        assert!(whole.contains("mixed_precision: fp16\n"), "{whole}");
    }

    /// Accelerate ends where its configuration has a field that DeepSpeed's has.
    #[test]
    fn the_number_format_is_in_the_configuration_of_deepspeed_alone() {
        let deepspeed = stack("deepspeed", &[], Abilities::default());
        let files = export(&[sharded()], &deepspeed, Target::Accelerate).expect("ZeRO-3").files;
        assert!(!files[1].text.contains("mixed_precision"), "{}", files[1].text);
        assert!(files[2].text.contains("\"bf16\": {\n    \"enabled\": true"), "{}", files[2].text);
    }

    #[test]
    fn trl_trains_all_weights_and_keeps_them_in_single_precision() {
        let options = LaunchOptions { data: Some("trl-lib/Capybara".into()), ..LaunchOptions::default() };
        let ddp = pytorch("pytorch-ddp", false);
        let launch = given(&by("full"), &ddp, Target::Torchrun, &options).expect("replicas");
        assert!(launch.files[1].text.contains("run_module(\"trl.scripts.sft\""), "{}", launch.files[1].text);
        assert!(launch.notes.iter().any(|note| note.starts_with("TRL reads the columns messages,")));
        let script = &launch.files[0].text;
        for words in [
            " start.py \\\n",
            "--dataset_name trl-lib/Capybara ",
            "--dtype float32 ",
            "--bf16 true ",
            "--max_length 1024 ",
        ] {
            assert!(script.contains(words), "{words}: {script}");
        }
        assert!(
            !script.contains("--use_peft") && launch.notes.iter().any(|note| note.contains("whole logits")),
            "{script}"
        );
        let shared = [by("full"), vec![sharded()]].concat();
        assert!(first(&shared, &pytorch("pytorch-fsdp", false), Target::Accelerate).contains("--dtype float32 "));
        let deepspeed = stack("deepspeed", &[], Abilities::default());
        assert!(first(&shared, &deepspeed, Target::Torchrun).contains("--dtype bfloat16 "));
        let files = export(&by("full"), &ddp, Target::Sagemaker).expect("replicas").files;
        let requirements = files.iter().find(|file| file.name == "requirements.txt").expect("packages");
        assert!(requirements.text.contains("\ntrl>=1.16\n") && !requirements.text.contains("peft"), "{requirements:?}");
    }

    /// transformers loads weights as they are published.
    #[test]
    fn a_script_of_ones_own_must_load_weights_in_single_precision() {
        let weights = LaunchOptions { weights: Some("gpt2".into()), ..LaunchOptions::default() };
        let told = |name: &str, changes: &[Change]| {
            let launch = given(changes, &pytorch(name, false), Target::Torchrun, &weights).expect("data parallel");
            launch.notes.iter().any(|note| note.contains("dtype=torch.float32"))
        };
        assert!(told("pytorch-ddp", &[]));
        assert!(!told("pytorch-ddp", &[("plan.precision", json!("fp32"))]));
        assert!(!told("pytorch-fsdp", &[sharded()]));
        assert!(!told("pytorch-ddp", &by("full")));
    }

    #[test]
    fn megatron_goes_on_with_pretraining_and_says_so() {
        let told = |changes: &[Change]| {
            let launch = export(changes, &megatron(), Target::Megatron).expect("replicas");
            launch
                .notes
                .iter()
                .filter(|note| note.contains("goes on with pretraining") || note.contains("--append-eod"))
                .count()
        };
        assert_eq!((told(&by("full")), told(&[])), (2, 0));
    }
}
