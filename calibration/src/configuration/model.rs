//! The model of a measured row: a family whose dimensions the row tells, or a model of the catalog.

use super::Unsupported;
use crate::table::Row;
use trainyard_hardware_profiles::Stack;
use trainyard_models::layers::InputSpec;
use trainyard_models::{AttentionKernel, Family, HeadKind, Model, ModelSpec};
use trainyard_plan::greatest_common_divisor;
use trainyard_sim::Machine;

/// Where a row does not state the vocabulary, the product with it is left out: this few entries cost nothing. Rows
/// of that kind in single precision would otherwise need more than the peak rate of their GPU (docs/physics.md).
const NO_VOCABULARY: u64 = 8;

/// Tokens that a layer with experts routes together, by products with masks: the group of the Alpa study, from which
/// all published rows are (Zheng et al., arXiv:2201.12023, section 8.1).
const EXPERT_GROUP: u64 = 2048;

/// Tokens of the sequences on which BERT is pre-trained, first the one, then the other (Devlin et al.,
/// arXiv:1810.04805, appendix A.2). Others are those of a task that the encoder is tuned for.
const PRETRAINING_TOKENS: [u64; 2] = [128, 512];

/// Part of the tokens that are masked in pre-training: 20 of 128, 80 of 512 (google-research/bert, README).
const MASKED: (u64, u64) = (5, 32);

/// Classes of each token in such a task: the start and the end of an answer (the same, section 4.2).
const ANSWER_CLASSES: u64 = 2;

/// The longest side of an image or a volume that is taken for meant.
const SIDE_MAX: u64 = 1 << 16;

/// The model that a row trained, with whatever dimensions the row tells. A row that leaves its attention kernel open
/// ran that which the stack chooses on these GPUs, as a plan does, if people start trainings with the stack today;
/// publications on older software that say nothing of a fused kernel had none.
pub(crate) fn model(row: &Row, machine: &Machine) -> Result<Model, Unsupported> {
    let stack = machine.stack.as_ref();
    let spec = match row.model.as_str() {
        "gpt" => told(row, Family::Gpt)?,
        "gpt-moe" => told(row, Family::GptMoe)?,
        name => match trainyard_models::find(name) {
            Ok(entry) => altered(row, stack, entry.model.spec())?,
            Err(error) => {
                let error = error.with_advice("`trainyard show models` lists the catalog, gpt takes dimensions");
                return Err(Unsupported::new(format!("{error}; {}", error.hint())));
            }
        },
    };
    let model = Model::try_from(spec).map_err(Unsupported::new)?;
    let chosen =
        machine.attention_kernel(model.adds_bias_to_scores()).filter(|_| row.attention.is_none() && stack.runs.today);
    Ok(chosen.map_or_else(|| model.clone(), |kernel| model.with_attention(kernel)))
}

/// A decoder-only transformer of the dimensions that the row tells.
fn told(row: &Row, family: Family) -> Result<ModelSpec, Unsupported> {
    let stated = |column: &str, value: Option<u64>| {
        value.ok_or_else(|| Unsupported::new(format!("the row does not tell `{column}`")))
    };
    let routed = family == Family::GptMoe;
    Ok(ModelSpec {
        heads: Some(stated("heads", row.heads)?),
        kv_heads: row.kv_heads,
        layers: Some(stated("layers", row.layers.map(u64::from))? as u32),
        experts: if routed { Some(stated("experts", row.experts)?) } else { None },
        hidden: Some(stated("hidden", row.hidden)?),
        ffn: row.ffn,
        vocab: Some(row.vocab.unwrap_or(NO_VOCABULARY)),
        seq_len: Some(stated("seq_len", row.seq_len)?),
        attention: attention(row),
        expert_group: routed.then_some(EXPERT_GROUP),
        ..ModelSpec::new(&row.model, family)
    })
}

/// A model of the catalog with the dimensions that the row tells in place of its own, of those that it has.
fn altered(row: &Row, stack: &Stack, mut spec: ModelSpec) -> Result<ModelSpec, Unsupported> {
    spec.layers = spec.layers.map(|own| row.layers.unwrap_or(own));
    spec.hidden = spec.hidden.map(|own| row.hidden.unwrap_or(own));
    spec.heads = spec.heads.map(|own| row.heads.unwrap_or(own));
    spec.kv_heads = spec.kv_heads.map(|own| row.kv_heads.unwrap_or(own));
    spec.ffn = spec.ffn.map(|own| row.ffn.unwrap_or(own));
    spec.vocab = spec.vocab.map(|own| row.vocab.unwrap_or(own));
    spec.experts = spec.experts.map(|own| row.experts.unwrap_or(own));
    spec.kernel_factor = spec.kernel_factor.map(|own| row.width_factor.unwrap_or(own));
    spec.attention = spec.attention.map(|own| attention(row).unwrap_or(own));
    if let (Some(own), Some(told)) = (spec.seq_len, row.seq_len) {
        spec.seq_len = Some(told);
        spec.decoder_seq_len = spec.decoder_seq_len.map(|decoder| if decoder == own { told } else { decoder });
    }
    if let (Some(_), Some(told)) = (spec.base_channels, row.base_channels) {
        // The widths of the stages follow from it.
        spec.widths = None;
        spec.base_channels = Some(told);
    }
    if let Some(side) = row.image_size.iter().find(|side| **side > SIDE_MAX) {
        return Err(Unsupported::new(format!("a side of its `image_size` is {side}, more than {SIDE_MAX}")));
    }
    match row.image_size.as_slice() {
        [] => {}
        [size] => spec.image_size = Some(*size),
        sides => {
            let told = spec.input.and_then(|input| with_sides(input, sides));
            let missing = || format!("`image_size` has {} sides, but `{}` has not", sides.len(), row.model);
            spec.input = Some(told.ok_or_else(|| Unsupported::new(missing()))?);
        }
    }
    Ok(on_its_task(spec, stack))
}

/// An input with the sides that a row tells, each padded to the multiple that the model's own sides share, as detectors
/// pad what they halve several times; nothing if it has not as many.
fn with_sides(input: InputSpec, sides: &[u64]) -> Option<InputSpec> {
    let own = [input.depth, input.height, input.width];
    let shared = own.into_iter().flatten().fold(0, greatest_common_divisor);
    let padded = |side: &u64| side.div_ceil(shared) * shared;
    match sides {
        [height, width] if input.depth.is_none() && shared > 0 => {
            Some(InputSpec { height: Some(padded(height)), width: Some(padded(width)), ..input })
        }
        [depth, height, width] if input.depth.is_some() && shared > 0 => {
            let (depth, height, width) = (Some(padded(depth)), Some(padded(height)), Some(padded(width)));
            Some(InputSpec { depth, height, width, ..input })
        }
        _ => None,
    }
}

/// An encoder with the head of what it is trained on, which the length of its samples tells.
fn on_its_task(spec: ModelSpec, stack: &Stack) -> ModelSpec {
    let encoder = matches!(spec.family, Family::Bert | Family::Electra);
    let tokens = spec.seq_len.filter(|_| encoder).unwrap_or(0);
    if encoder && !PRETRAINING_TOKENS.contains(&tokens) {
        // What is tuned of ELECTRA is its discriminator alone, an encoder as BERT.
        let head = Some(HeadKind::Classifier);
        return ModelSpec { family: Family::Bert, generator_hidden: None, head, classes: Some(ANSWER_CLASSES), ..spec };
    }
    let masked = spec.family == Family::Bert && stack.masked_head.value;
    ModelSpec { predictions: masked.then(|| (tokens * MASKED.0).div_ceil(MASKED.1)), ..spec }
}

fn attention(row: &Row) -> Option<AttentionKernel> {
    row.attention.and_then(AttentionKernel::named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_padded_to_what_the_model_halves_and_must_be_as_many() {
        let image = InputSpec { channels: Some(3), height: Some(800), width: Some(1344), ..InputSpec::default() };
        let told = with_sides(image, &[400, 667]).expect("an image has two sides");
        assert_eq!((told.height, told.width), (Some(416), Some(672)));
        assert_eq!(with_sides(image, &[800, 1333]), Some(image));
        assert_eq!(with_sides(image, &[128, 128, 128]), None);
    }
}
