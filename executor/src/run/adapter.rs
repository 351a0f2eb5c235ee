//! Adapters as PEFT saves and reads them, and the weights that they stand beside, which no checkpoint holds.

use super::{Job, RunError};
use crate::network::{Network, module_of};
use crate::weights::{WeightError, files};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use trainyard_checkpoint::{Base, Checkpoint, CheckpointError, FileEntry};
use trainyard_models::Family;

/// The file of adapters' weights, without its ending.
pub(super) const FILE: &str = "adapter_model";

/// The file from which PEFT makes them.
pub(super) const CONFIGURATION: &str = "adapter_config.json";

/// Returns what PEFT makes the adapters of a run from; `None` where there are none.
pub(super) fn configuration(job: &Job<'_>) -> Option<Value> {
    let lora = job.plan.spec().fine_tuning.as_ref()?.lora.as_ref()?;
    // PEFT's word for weights that are stored as (inputs, outputs), as GPT-2's are.
    let fan_in_fan_out = matches!(job.plan.model().family(), Family::Gpt | Family::GptMoe);
    Some(json!({
        "base_model_name_or_path": job.base.map(|base| base.path.clone()),
        "bias": "none",
        "fan_in_fan_out": fan_in_fan_out,
        "inference_mode": true,
        "init_lora_weights": true,
        "lora_alpha": lora.alpha.map(whole),
        "lora_dropout": lora.dropout,
        "modules_to_save": null,
        "peft_type": "LORA",
        "r": lora.rank,
        "target_modules": modules(job.network),
        "task_type": "CAUSAL_LM",
    }))
}

/// Writes a whole number without a fraction, as PEFT does.
fn whole(number: f64) -> Value {
    if number.fract() == 0.0 { json!(number as i64) } else { json!(number) }
}

/// Returns the ends of names by which PEFT finds the modules with adapters: the last part of each, or the last two
/// where other modules end alike.
fn modules(network: &Network) -> BTreeSet<String> {
    let parameters = || network.keys().map(|key| network.parameter(key));
    let adapted: BTreeSet<&str> = parameters().filter_map(module_of).collect();
    let matrices = parameters().filter(|parameter| !parameter.is_adapter && parameter.shape.len() == 2);
    let others: Vec<&str> = matrices.filter_map(|parameter| parameter.name.strip_suffix(".weight")).collect();
    let is_adapted = |name: &str| adapted.iter().any(|module| module.ends_with(name));
    let parts = |module: &str, count: usize| {
        let parts: Vec<&str> = module.rsplitn(count + 1, '.').take(count).collect();
        parts.into_iter().rev().collect::<Vec<_>>().join(".")
    };
    let end = |module: &&str| {
        let last = parts(module, 1);
        let alike = others.iter().any(|other| parts(other, 1) == last && !is_adapted(other));
        if alike { parts(module, 2) } else { last }
    };
    adapted.iter().map(end).collect()
}

/// Sums up the weights at a path.
pub(super) fn base(path: &Path) -> Result<Base, RunError> {
    let unreadable = |source| WeightError::Unreadable { path: path.to_owned(), source };
    let path = std::path::absolute(path).map_err(unreadable)?;
    Ok(Base::of(&path, &files(&path)?).map_err(unreadable)?)
}

/// Returns the weights beside which resumed adapters stand: those at `given`, if they are the same, or where they were.
pub(super) fn base_of(checkpoint: &Checkpoint, given: Option<&Path>) -> Result<Option<Base>, RunError> {
    let before = checkpoint.manifest().base.as_ref();
    let told = |base: Option<&Base>| match base {
        Some(base) => base.files.iter().map(|FileEntry { name, checksum, .. }| format!("{name} {checksum}")).collect(),
        None => vec!["random ones".to_owned()],
    };
    let now = match (given, before) {
        (Some(path), _) => Some(base(path)?),
        (None, Some(before)) => Some(base(Path::new(&before.path))?),
        (None, None) => None,
    };
    if before.map(|base| &base.files) == now.as_ref().map(|base| &base.files) {
        return Ok(now);
    }
    let [found, expected] = [before, now.as_ref()].map(|base| told(base).join(", "));
    let path = checkpoint.path().to_owned();
    Err(CheckpointError::Mismatch { path, field: "weights", found, expected }.into())
}
