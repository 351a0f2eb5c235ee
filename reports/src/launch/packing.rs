//! Samples that share sequences, in TRL's supervised fine-tuning.
//!
//! TRL lays the packed samples of a micro-batch into one row of tokens. FlashAttention 2 takes the beginnings of samples and
//! computes each for itself; under `sdpa` transformers makes a mask over the whole row instead, with which PyTorch's kernel
//! of that name cannot be used.
//!
//! # Source
//!
//! Hugging Face TRL 1.16, `padding_free` in `trl/trainer/sft_trainer.py` and `sft_config.py`; transformers 5.24,
//! `find_packed_sequence_indices` in `src/transformers/masking_utils.py` and `_check_and_adjust_attn_implementation` in
//! `modeling_utils.py`.

use super::draft::Draft;
use super::field::Field;
use super::fine_tuning;
use trainyard_planner::lacks_flash_attention;
use trainyard_units::counted;

/// Returns `true` if TRL packs the samples, as it was counted.
pub(super) fn is_on(draft: &Draft<'_>) -> bool {
    let data = &draft.job.document().job.data;
    let is_supervised = fine_tuning::is_trls(draft) && !draft.job.plan().tuning_kind().dpo;
    is_supervised && data.lengths.is_some() && data.packing != Some(false)
}

/// Returns `true` if the samples are packed and FlashAttention 2 keeps them apart.
pub(super) fn takes_flash(draft: &Draft<'_>) -> bool {
    is_on(draft) && lacks(draft).is_none()
}

/// Returns a number of samples in words: what is counted as one is a sequence of several where samples are packed, as many as
/// the file of lengths had when the plan was made.
pub(super) fn samples(draft: &Draft<'_>, count: u64) -> String {
    let tokens = draft.job.plan().model().tokens_per_sample().filter(|_| is_on(draft));
    let Some(tokens) = tokens else { return counted(count, "sample") };
    format!("{} of {} into which samples are packed", counted(count, "sequence"), counted(tokens, "token"))
}

/// Returns why FlashAttention 2 does not compute the plan's attention; `None` if it does.
fn lacks(draft: &Draft<'_>) -> Option<String> {
    lacks_flash_attention(draft.job.plan(), draft.job.generation())
}

/// Adds whether samples share sequences, and the attention that keeps them apart.
pub(super) fn arguments(draft: &mut Draft<'_>, list: &mut Vec<(&str, String)>) {
    let data = &draft.job.document().job.data;
    if data.lengths.is_none() {
        // What was priced is another attention where scores are bounded.
        let of_ones_own = if lacks(draft).is_none() && !draft.job.changes_scores() {
            ": --packing true with --attn_implementation flash_attention_2, which needs the package flash-attn, makes them so"
        } else {
            ""
        };
        draft.remark(format!("samples were counted as long as max_length{of_ones_own}; shorter ones take less"));
    } else if data.packing == Some(false) {
        draft.remark("samples were counted as padded to max_length; TRL pads to the longest of a micro-batch");
    } else {
        list.push(("packing", "true".into()));
        attention(draft, list);
    }
}

/// Adds the attention for rows of packed samples, or tells what takes its place.
fn attention(draft: &mut Draft<'_>, list: &mut Vec<(&str, String)>) {
    draft.tells(&[Field::Attention]);
    let Some(why) = lacks(draft) else {
        list.push(("attn_implementation", "flash_attention_2".into()));
        draft.remark(
            "attn_implementation flash_attention_2 keeps packed samples apart and needs the package flash-attn, or kernels, with which transformers fetches it built: pip install \"trl[kernels]\"",
        );
        return;
    };
    let plan = draft.job.plan();
    let (micro, tokens) = (plan.batch().micro, plan.model().tokens_per_sample().unwrap_or_default());
    let advice = if micro > 1 { "; plan again with --fix batch.micro=1, whose rows are one sequence" } else { "" };
    draft.remark(format!(
        "{why}, which keeps packed samples apart: attention takes a mask over the row of {} tokens that TRL makes of a micro-batch, so steps take more time and memory than predicted{advice}",
        micro * tokens
    ));
}

#[cfg(test)]
mod tests {
    use crate::launch::Target;
    use crate::launch::stack_tests::{export, first, pytorch};
    use serde_json::{Value, json};

    fn tuned(more: &[(&'static str, Value)]) -> Vec<(&'static str, Value)> {
        let adapters = json!({ "method": "lora", "lora": { "rank": 16, "targets": ["all-linear"] } });
        let lora = [("plan.fine_tuning", adapters), ("job.training.method", json!("lora"))];
        [&lora, more].concat()
    }

    fn packed(more: &[(&'static str, Value)]) -> Vec<(&'static str, Value)> {
        tuned(&[&[("job.data.lengths", json!("lengths.txt"))], more].concat())
    }

    #[test]
    fn flash_attention_keeps_packed_samples_apart() {
        let ddp = pytorch("pytorch-ddp", false);
        let script = first(&packed(&[]), &ddp, Target::Torchrun);
        assert!(
            script.contains("--packing true ") && script.contains("--attn_implementation flash_attention_2 "),
            "{script}"
        );
        assert!(!script.contains("priced as flash"), "{script}");
        let files = export(&packed(&[]), &ddp, Target::Sagemaker).expect("replicas").files;
        let requirements = files.iter().find(|file| file.name == "requirements.txt").expect("packages");
        assert!(requirements.text.contains("\ntrl[kernels]>=1.16\n"), "{requirements:?}");
        let padded = first(&packed(&[("job.data.packing", json!(false))]), &ddp, Target::Torchrun);
        assert!(!padded.contains("--packing") && padded.contains("priced as flash"), "{padded}");
    }

    #[test]
    fn gpus_without_flash_attention_take_a_mask_over_the_row() {
        let volta = json!({ "instance": "p3.16xlarge", "instances": 2 });
        let old = [("plan.cluster", volta), ("plan.precision", json!("fp16-mixed"))];
        let exact = [("plan.precision", json!("fp32"))];
        for (changes, why) in
            [(&old[..], "Volta GPUs have no FlashAttention 2"), (&exact[..], "does not compute in fp32")]
        {
            let launch = export(&packed(changes), &pytorch("pytorch-ddp", false), Target::Torchrun).expect("replicas");
            let note =
                launch.notes.iter().find(|note| note.contains(why)).unwrap_or_else(|| panic!("{:?}", launch.notes));
            assert!(note.contains("4096 tokens") && note.contains("--fix batch.micro=1"), "{note}");
            assert!(!launch.files[0].text.contains("--attn_implementation"), "{}", launch.files[0].text);
        }
    }

    /// Packing under the attention that transformers chooses by itself is no advice.
    #[test]
    fn advice_to_pack_names_the_attention() {
        let launch = export(&tuned(&[]), &pytorch("pytorch-ddp", false), Target::Torchrun);
        let notes = launch.expect("replicas").notes;
        let note = notes.iter().find(|note| note.contains("--packing true")).expect("samples of one length");
        assert!(note.contains("--attn_implementation flash_attention_2"), "{note}");
    }
}
