//! What keeps packed samples apart: FlashAttention 2 takes the beginnings of samples and computes each for itself.

use trainyard_models::OperatorKind;
use trainyard_plan::Plan;

/// The features of a head that FlashAttention 2 takes at most (README of flash-attention 2.8).
const HEAD_WIDTH_MAX: u64 = 256;

/// Returns why FlashAttention 2 does not compute the attention of a plan on GPUs of this generation, or on processors; `None` if
/// it does.
///
/// # Source
///
/// Dao, arXiv:2307.08691, and the README of flash-attention 2.8 (GPUs, formats and widths of heads).
pub fn lacks_flash_attention(plan: &Plan, generation: Option<&str>) -> Option<String> {
    if generation.is_none_or(|generation| matches!(generation, "Pascal" | "Volta" | "Turing")) {
        let on = generation.map_or("processors".into(), |own| own.to_owned() + " GPUs");
        return Some(format!("{on} have no FlashAttention 2"));
    }
    if plan.precision().element_bytes() > 2 {
        return Some(format!("FlashAttention 2 does not compute in {}", plan.precision()));
    }
    let operators = plan.graph().distinct().iter().flat_map(|layer| &layer.operators);
    let attentions = operators.filter_map(|operator| match &operator.kind {
        OperatorKind::Attention(attention) => Some(attention),
        _ => None,
    });
    let (mut sinks, mut widest) = (false, 0);
    for attention in attentions {
        sinks |= attention.sinks;
        widest = widest.max(attention.head_width).max(attention.value_width);
    }
    if sinks {
        return Some("FlashAttention 2 has no sinks beside scores".into());
    }
    (widest > HEAD_WIDTH_MAX).then(|| format!("FlashAttention 2 takes heads of {HEAD_WIDTH_MAX} features at most"))
}
