//! Adapters, and weights that are quantised, as arguments of a script.
//!
//! # Source
//!
//! Hugging Face TRL 1.16, `trl/trainer/model_config.py`, `trl/trainer/sft_config.py` and `trl/scripts/sft.py`.

use super::draft::{Draft, Flag};
use super::error::LaunchError;
use super::field::Field;
use super::program::Places;
use super::software::Engine;
use trainyard_models::{Family, Layer, Operator, OperatorKind, Sharing, Tuned};
use trainyard_plan::{
    BaseFormat, FineTuningSpec, LoraSpec, Method, Plan, Precision, Recompute, Reference, StateSharding, TuningKind,
};

/// TRL's scripts for supervised fine-tuning and for direct preference optimisation, which read these arguments.
const SFT: &str = "sft.py";
const DPO: &str = "dpo.py";

/// The projections beside which adapters are planned in models with experts. PEFT's own word for all products would add
/// some to routers and to each expert.
const BESIDE_EXPERTS: &str = r".*\.(self_attn|mlp|shared_experts?)\.\w*proj\w*";

/// Returns the script to start, and a description of it.
pub(super) fn script(draft: &mut Draft<'_>) -> (String, &'static str) {
    if is_trls(draft) {
        return if draft.job.plan().tuning_kind().dpo {
            let what = "TRL's dpo.py, or a script that reads trl.DPOConfig and trl.ModelConfig";
            (draft.asks_or(Flag::Script, DPO), what)
        } else {
            let what = "TRL's sft.py, or a script that reads trl.SFTConfig and trl.ModelConfig";
            (draft.asks_or(Flag::Script, SFT), what)
        };
    }
    (draft.asks_or(Flag::Script, "train.py"), "a script that reads transformers.TrainingArguments")
}

/// Returns `true` if TRL's scripts train the plan: adapters of a model that predicts the next token, or all of its
/// weights on preferences.
pub(super) fn is_trls(draft: &Draft<'_>) -> bool {
    draft.job.plan().graph().distinct().iter().any(|layer| layer.loss_in_tiles)
}

/// Returns `true` if the loss cannot be scaled: TRL keeps adapters beside quantised weights in bfloat16 (Dettmers et al.,
/// arXiv:2305.14314, section 3), whose gradients PyTorch's scaler of fp16 refuses. DeepSpeed scales by itself.
pub(super) fn scales_no_loss(draft: &Draft<'_>) -> bool {
    is_trls(draft) && draft.job.plan().method() == Method::Qlora && draft.engine != Engine::Deepspeed
}

fn has(draft: &Draft<'_>, is_it: impl Fn(OperatorKind) -> bool) -> bool {
    draft.job.plan().graph().layers().any(|layer| layer.operators.iter().any(|own: &Operator| is_it(own.kind)))
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
    draft.remark("memory was counted for TRL 1.16 or later, which takes the loss in tiles");
    let format = match plan.precision() {
        Precision::Fp32 | Precision::Tf32 => "float32",
        Precision::Fp16Mixed => "float16",
        Precision::Bf16Mixed | Precision::Fp8Mixed => "bfloat16",
    };
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
        packing(draft, &mut list);
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

/// Adds whether samples share sequences.
fn packing(draft: &mut Draft<'_>, list: &mut Vec<(&str, String)>) {
    match (&draft.job.document().job.data.lengths, draft.job.document().job.data.packing) {
        (Some(_), None | Some(true)) => list.push(("packing", "true".into())),
        (Some(_), Some(false)) => {
            draft.remark("samples were counted as padded to max_length; TRL pads to the longest of a micro-batch");
        }
        (None, _) => draft
            .remark("samples were counted as long as max_length: --packing true makes them so, shorter ones take less"),
    }
}

/// Returns the bytes of the model that is fine-tuned, as it is published: in half precision.
pub(super) fn download_bytes(plan: &Plan) -> u64 {
    let values = |layer: &Layer| layer.frozen_values() + layer.parameters(Sharing::WHOLE);
    2 * plan.graph().own_layers().map(values).sum::<u64>()
}

/// TRL from the version on that takes the loss in tiles, as memory is counted.
const TRL: &str = "trl>=1.16";

/// Returns the packages that the script needs beside transformers and Accelerate.
pub(super) fn packages(draft: &Draft<'_>) -> Vec<&'static str> {
    match draft.job.plan().method() {
        Method::Lora | Method::Qlora if !is_trls(draft) => vec!["peft"],
        Method::Lora => vec![TRL, "peft"],
        Method::Qlora => vec![TRL, "peft", "bitsandbytes"],
        Method::Full if is_trls(draft) => vec![TRL],
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
        let has_experts = has(draft, |kind| {
            matches!(kind, OperatorKind::ExpertLinear { .. } | OperatorKind::Tuned(Tuned::Frozen { experts: 2.., .. }))
        });
        return Ok(if has_experts { BESIDE_EXPERTS } else { "all-linear" }.into());
    }
    if !matches!(draft.job.plan().model().family(), Family::Llama | Family::Gemma2 | Family::Blocks) {
        let why = "the modules of this family have names of their own; lora.targets = [\"all-linear\"] needs none";
        return Err(draft.cannot(Field::FineTuning, why));
    }
    Ok(format!(".*\\.({})_proj", targets.join("|")))
}
