//! The kernels of Megatron-LM's training scripts, and the packages that have them.
//!
//! # Source
//!
//! megatron-core 0.16: `tensor_parallel/layers.py` (gradients that add to their sums), `models/gpt/gpt_layer_specs.py`,
//! `models/backends.py`, `fusions/fused_layer_norm.py` and `transformer/torch_norm.py` (norms),
//! `transformer/transformer_config.py` (rotary positions), `fusions/fused_softmax.py`.

use super::draft::Draft;
use super::error::LaunchError;
use super::field::Field;
use super::megatron_arguments::Words;
use super::megatron_model;
use trainyard_models::{Model, Norm};
use trainyard_plan::StateSharding;

/// Keeps products of weights' gradients from adding to their sums, which Megatron-LM's own linear layers do with a kernel of
/// Apex: the last layer is one of them, whatever the others are.
const NO_FUSED_SUMS: &str = "no-gradient-accumulation-fusion";

/// Selects the kernels with which the stack was priced, as far as no package must be there that few machines have.
pub(super) fn arguments(draft: &mut Draft<'_>, words: &mut Words) -> Result<(), LaunchError> {
    let attention = draft.job.attention();
    if attention.is_some() {
        draft.tells(&[Field::Attention]);
    }
    if let Some(attention) = attention.filter(|attention| attention.is_before_transformer_engine()) {
        return own_layers(draft, attention.generation, words);
    }
    if let Some(attention) = attention {
        let half = draft.job.plan().precision().element_bytes() == 2;
        let backend = match attention.kernel {
            // Fused kernels exist for half precision only.
            _ if !half => "unfused",
            "flash" => megatron_model::flash(attention.generation),
            "unfused" => "unfused",
            _ => "fused",
        };
        words.set("attention-backend", backend);
        if backend == "flash" {
            draft.remark(megatron_model::FLASH_PACKAGE);
        }
    }
    draft.remark(
        "layers are those of Transformer Engine, which must be installed: NVIDIA's containers of PyTorch have it, elsewhere pip install --no-build-isolation \"transformer-engine[pytorch]\"",
    );
    words.flag(NO_FUSED_SUMS);
    // Megatron-FSDP keeps sums of its own.
    if draft.job.plan().state_sharding() < StateSharding::Gradients {
        draft.remark(format!(
            "--{NO_FUSED_SUMS} is for machines without NVIDIA's Apex, on which the output layer ends otherwise: where Apex is installed, as in NVIDIA's containers of PyTorch, leave it out; steps were predicted with it left out, and take a few percent longer with it"
        ));
    }
    Ok(())
}

/// Selects Megatron-LM's own layers, for GPUs without Transformer Engine. Their layer norm is Apex's where ranks shard
/// sequences, and PyTorch's otherwise; RMSNorm is PyTorch's always, but the last one of the network, which is Apex's or
/// Transformer Engine's where one of them is installed: the one refuses it, the other has no kernels.
fn own_layers(draft: &mut Draft<'_>, generation: &str, words: &mut Words) -> Result<(), LaunchError> {
    let parallel = draft.job.plan().mesh().parallel();
    if parallel.context > 1 {
        let why = format!("without Transformer Engine, as on {generation} GPUs, Megatron-LM's attention does not");
        return Err(draft.cannot(Field::Context, format!("{why} share sequences")));
    }
    let has_rms_norm = match draft.job.plan().model() {
        Model::Llama(_) => true,
        Model::Blocks(model) => model.norm == Norm::Rms,
        _ => false,
    };
    if parallel.sequence && has_rms_norm {
        let why = format!("without Transformer Engine, as on {generation} GPUs, RMSNorm does not share sequences");
        return Err(draft.cannot(Field::Sequence, why));
    }
    match draft.job.plan().model() {
        Model::Bert(_) => words.set("spec", "local"),
        _ => words.set("transformer-impl", "local"),
    };
    words.flag("no-persist-layer-norm").flag("no-rope-fusion");
    if parallel.sequence {
        draft.remark("sequence parallelism without Transformer Engine wants NVIDIA's Apex, for its layer norm, built with --cpp_ext and --cuda_ext: its kernels sum gradients and compute softmax too");
        return Ok(());
    }
    words.flag("no-masked-softmax-fusion").flag(NO_FUSED_SUMS);
    draft.remark(if has_rms_norm {
        format!(
            "{generation} GPUs have no Transformer Engine, and RMSNorm is PyTorch's (2.4 or later): neither NVIDIA's Apex nor Transformer Engine may be installed, for Megatron-LM would take their norm behind the last layer, and end; without Apex softmax is computed by several kernels, and steps may take longer than predicted"
        )
    } else {
        format!(
            "{generation} GPUs have no Transformer Engine, which must not be installed; --no-masked-softmax-fusion and --{NO_FUSED_SUMS} are for machines without NVIDIA's Apex: where it is installed (--cpp_ext, --cuda_ext), leave them out, as steps were predicted; with them they may take longer"
        )
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::launch::Target;
    use crate::launch::stack_tests::{export, megatron};
    use crate::launch::tests::model;
    use serde_json::{Value, json};

    /// The words of a script and what its notes say of packages, on machines of a type.
    fn on(instance: &str, changes: &[(&'static str, Value)]) -> (String, String) {
        let machines = ("plan.cluster", json!({ "instance": instance, "instances": 2 }));
        let half = ("plan.precision", json!(if instance.starts_with("p3") { "fp16-mixed" } else { "bf16-mixed" }));
        let launch =
            export(&[changes, &[machines, half]].concat(), &megatron(), Target::Megatron).expect("Megatron-LM");
        let notes: Vec<String> = launch.notes.into_iter().filter(|note| note.contains("Apex")).collect();
        (launch.files[0].text.clone(), notes.join("\n"))
    }

    /// What the output layer of all models, and what layers without Transformer Engine, would ask of Apex by default.
    #[test]
    fn files_start_where_apex_is_not_installed() {
        for (instance, model, of_own_layers) in [
            ("p4d.24xlarge", model("gpt2"), false),
            ("p4d.24xlarge", model("bert-large"), false),
            ("p3.16xlarge", model("gpt2"), true),
            ("p3.16xlarge", model("bert-large"), true),
            ("p3.16xlarge", model("llama-3-8b"), true),
        ] {
            let (script, notes) = on(instance, &model);
            assert!(script.contains("--no-gradient-accumulation-fusion"), "{script}");
            for flag in ["--no-rope-fusion", "--no-masked-softmax-fusion", "--no-persist-layer-norm"] {
                assert_eq!(script.contains(flag), of_own_layers, "{flag}: {script}");
            }
            assert_eq!(script.contains("Transformer Engine, which must be installed: "), !of_own_layers, "{script}");
            let without = notes.contains("neither NVIDIA's Apex nor Transformer Engine may be installed");
            assert_eq!(without, of_own_layers && script.contains("RMSNorm"), "{notes}");
            assert_eq!(notes.contains("leave"), !without, "{notes}");
        }
    }

    /// Where layer norm is Apex's anyway, its other kernels are there, with which steps were priced.
    #[test]
    fn what_apex_has_is_used_where_it_must_be_there() {
        let parallel = json!({ "data": 8, "tensor": 2, "pipeline": 1, "sequence": true });
        let batch = json!({ "global": 128, "micro": 4, "accumulation": 4 });
        let (script, notes) = on("p3.16xlarge", &[("plan.parallel", parallel), ("plan.batch", batch)]);
        assert!(script.contains("--sequence-parallel") && script.contains("--no-rope-fusion"), "{script}");
        assert!(!script.contains("softmax-fusion") && !script.contains("accumulation-fusion"), "{script}");
        assert!(notes.contains("wants NVIDIA's Apex"), "{notes}");
    }

    /// Megatron-FSDP does not add to sums, whatever is installed.
    #[test]
    fn megatron_fsdp_keeps_its_own_sums() {
        let (script, notes) = on("p4d.24xlarge", &[("plan.state_sharding", json!("gradients"))]);
        assert!(script.contains("--use-megatron-fsdp"), "{script}");
        assert_eq!(script.matches("--no-gradient-accumulation-fusion").count(), 1, "{script}");
        assert_eq!(notes, "", "{script}");
    }
}
