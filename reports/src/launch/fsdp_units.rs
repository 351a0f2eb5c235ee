//! The units in which FSDP gathers and releases parameters.
//!
//! # Source
//!
//! accelerate 1.15, `fsdp2_prepare_auto_wrap_policy` in `src/accelerate/utils/fsdp_utils.py`; transformers 5.23,
//! `_no_split_modules` in `src/transformers/models/*/modeling_*.py`.

use super::draft::Draft;
use trainyard_models::{Model, Sharing};
use trainyard_plan::Plan;

/// Returns the parameters that a module must have more of to be a unit; `None` where the classes of transformers say which
/// of their modules are blocks. Without either the whole model would be one unit, and nothing would be gathered beside
/// arithmetic.
///
/// It is nine tenths of the middle layer with parameters: a block is larger, each of its parts is smaller.
pub(super) fn least(plan: &Plan) -> Option<u64> {
    if names_its_blocks(plan.model()) {
        return None;
    }
    let sizes = plan.graph().own_layers().map(|layer| layer.frozen_values() + layer.parameters(Sharing::WHOLE));
    let mut sizes: Vec<u64> = sizes.filter(|size| *size > 0).collect();
    sizes.sort_unstable();
    // Without any parameter there is nothing to cut.
    sizes.get(sizes.len() / 2).map(|middle| middle / 10 * 9)
}

/// Returns [`least`] for FSDP, and tells what it is.
pub(super) fn least_told(draft: &mut Draft<'_>) -> Option<u64> {
    let least = least(draft.job.plan())?;
    draft.remark(format!(
        "units of FSDP are modules of more than {least} parameters, nine tenths of the middle layer, because the classes of the script's model are not known; transformer_layer_cls_to_wrap with TRANSFORMER_BASED_WRAP names them"
    ));
    Some(least)
}

/// Returns `true` for models that are built of classes of transformers, which list their blocks. Images are trained with
/// classes of torchvision, timm and `open_clip` as well, which list none; sizes serve for all.
fn names_its_blocks(model: &Model) -> bool {
    match model {
        Model::Gpt(_)
        | Model::GptNeox(_)
        | Model::Llama(_)
        | Model::Gemma2(_)
        | Model::Mamba2(_)
        | Model::Bert(_)
        | Model::T5(_)
        | Model::Bart(_)
        | Model::Whisper(_) => true,
        // DebertaV2 lists none.
        Model::Blocks(_) => model.spec().causal != Some(false),
        _ => false,
    }
}
