//! The model of a measured row: a family whose dimensions the row tells, or a model of the catalog.

use crate::configuration::Unsupported;
use crate::table::Row;
use trainyard_hardware_profiles::Stack;
use trainyard_models::{AttentionKernel, Family, HeadKind, Model, ModelSpec};

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

/// The model that a row trained, with whatever dimensions the row tells.
pub(crate) fn model(row: &Row, stack: &Stack) -> Result<Model, Unsupported> {
    let spec = match row.model.as_str() {
        "gpt" => told(row, Family::Gpt)?,
        "gpt-moe" => told(row, Family::GptMoe)?,
        name => match trainyard_models::find(name) {
            Ok(entry) => altered(row, stack, entry.model.spec()),
            Err(error) => return Err(Unsupported::new(error.to_string())),
        },
    };
    Model::try_from(spec).map_err(|error| Unsupported::new(error.to_string()))
}

/// A decoder-only transformer of the dimensions that the row tells.
fn told(row: &Row, family: Family) -> Result<ModelSpec, Unsupported> {
    let stated = |column: &str, value: Option<u64>| {
        value.ok_or_else(|| Unsupported::new(format!("the row does not tell `{column}`")))
    };
    let routed = family == Family::GptMoe;
    Ok(ModelSpec {
        heads: Some(stated("heads", row.heads)?),
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

/// A model of the catalog with the dimensions that the row tells in place of its own.
fn altered(row: &Row, stack: &Stack, mut spec: ModelSpec) -> ModelSpec {
    spec.layers = row.layers.or(spec.layers);
    spec.hidden = row.hidden.or(spec.hidden);
    spec.heads = row.heads.or(spec.heads);
    spec.ffn = row.ffn.or(spec.ffn);
    spec.vocab = row.vocab.or(spec.vocab);
    spec.seq_len = row.seq_len.or(spec.seq_len);
    spec.experts = row.experts.or(spec.experts);
    spec.attention = attention(row).or(spec.attention);
    if let Some(base) = row.base_channels {
        // The widths of the stages follow from it.
        spec.widths = None;
        spec.base_channels = Some(base);
    }
    spec.kernel_factor = row.width_factor.or(spec.kernel_factor);
    if let [size] = row.image_size.as_slice() {
        spec.image_size = Some(*size);
    }
    let tokens = row.seq_len.or(spec.seq_len).unwrap_or(0);
    if spec.family == Family::Bert && !PRETRAINING_TOKENS.contains(&tokens) {
        spec.head = Some(HeadKind::Classifier);
        spec.classes = Some(ANSWER_CLASSES);
    } else if spec.family == Family::Bert && stack.masked_head.value {
        spec.predictions = Some((tokens * MASKED.0).div_ceil(MASKED.1));
    }
    spec
}

fn attention(row: &Row) -> Option<AttentionKernel> {
    row.attention.map(|kernel| match kernel {
        "flash" => AttentionKernel::Flash,
        _ => AttentionKernel::Unfused,
    })
}
