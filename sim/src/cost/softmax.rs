//! Softmax over attention scores by a fused kernel, or by separate ones where it cannot be used.
//!
//! Some frameworks have a fused kernel for causal masks only, and compute others in separate kernels too.
//!
//! Megatron-LM's kernel reads of each row only the scores that a causal mask leaves. It takes so many rows of scores at
//! a time that the heads of all samples on a rank must come in fours; otherwise PyTorch's own kernels do it in single
//! precision, one after another: to single precision, scaled, masked, softmax, back to half precision.
//!
//! # Source
//!
//! NVIDIA/Megatron-LM, megatron/model/fused_softmax.py, `is_kernel_available` and `forward_torch_softmax`;
//! megatron/fused_kernels/scaled_upper_triang_masked_softmax.h.

use trainyard_plan::operators::{Attention, AttentionKernel, Pass};
use trainyard_units::Bytes;

/// Bytes that five separate kernels read and write for a score: 2 + 4, 4 + 4, 4 + 4, 4 + 4, 4 + 2. Backward a softmax
/// reads what it put out besides.
const SEPARATE: [u64; 2] = [36, 40];

/// Elements that the fused kernel reads and writes: a score read and a weight written; backward a weight and two
/// gradients.
const FUSED: [u64; 2] = [4, 6];

/// Kernels that take the place of one.
const ADDED_KERNELS: u32 = 4;

/// Work of separate kernels besides that of the fused one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Separate {
    pub(super) kernels: u32,
    pub(super) bytes: Bytes,
}

/// Elements that a pass of the fused kernel does not read, of those that `models` counts: scores forward, weights and
/// their gradients backward. What the mask hides is written all the same, as zeros.
pub(super) fn skipped(attention: Attention, pass: Pass) -> f64 {
    let reads = if pass == Pass::Forward { 1.0 } else { 2.0 };
    let scores = (attention.samples * attention.heads * attention.queries * attention.keys) as f64;
    reads * scores * (1.0 - attention.unmasked_share())
}

/// What a framework's fused kernel takes in half precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fused {
    /// Heads of all samples by so many; any number if none.
    pub(super) heads: Option<u64>,
    /// Causal masks only.
    pub(super) causal: bool,
}

impl Fused {
    fn takes(self, attention: Attention) -> bool {
        let heads = attention.samples * attention.heads;
        let masked = !self.causal || attention.unmasked_share() < 1.0;
        masked && self.heads.is_none_or(|by| heads.is_multiple_of(by))
    }
}

/// The separate kernels of a pass in half precision; nothing if the fused kernel can be used.
pub(super) fn separate(attention: Attention, pass: Pass, fused: Fused) -> Option<Separate> {
    let heads = attention.samples * attention.heads;
    if attention.kernel != AttentionKernel::Unfused || fused.takes(attention) {
        return None;
    }
    let index = usize::from(pass == Pass::Backward);
    let scores = heads * attention.queries * attention.keys;
    Some(Separate { kernels: ADDED_KERNELS, bytes: Bytes(scores * (SEPARATE[index] - FUSED[index])) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_models::Mask;

    fn attention(samples: u64, heads: u64) -> Attention {
        Attention {
            samples,
            heads,
            kv_heads: heads,
            queries: 1024,
            keys: 1024,
            own_keys: 1024,
            head_width: 64,
            value_width: 64,
            kernel: AttentionKernel::Unfused,
            mask: Mask::Causal,
            dropout: true,
            biased: false,
            soft_cap: false,
            sinks: false,
        }
    }

    #[test]
    fn half_of_the_scores_are_behind_a_causal_mask() {
        let scores = 4.0 * 1024.0 * 1024.0;
        let near = |value: f64, expected: f64| (value - expected).abs() < 1e-6;
        assert!(near(skipped(attention(1, 4), Pass::Forward), scores / 2.0));
        assert!(near(skipped(attention(1, 4), Pass::Backward), scores));
        let full = Attention { mask: Mask::Full, ..attention(1, 4) };
        assert!(near(skipped(full, Pass::Forward), 0.0));
    }

    #[test]
    fn heads_of_all_samples_must_come_in_fours() {
        // Sixteen heads on eight ranks are two each: one sample is too few, two are four.
        let by = |heads| Fused { heads: Some(heads), causal: false };
        let alone = separate(attention(1, 2), Pass::Forward, by(4)).expect("two are no four");
        assert_eq!(alone, Separate { kernels: 4, bytes: Bytes(2 * 1024 * 1024 * 32) });
        assert_eq!(
            separate(attention(1, 2), Pass::Backward, by(4)).map(|more| more.bytes.0),
            Some(2 * 1024 * 1024 * 34)
        );
        assert_eq!(separate(attention(2, 2), Pass::Forward, by(4)), None);
        assert_eq!(separate(attention(1, 2), Pass::Forward, by(1)), None);
        let flash = Attention { kernel: AttentionKernel::Flash, ..attention(1, 2) };
        assert_eq!(separate(flash, Pass::Forward, by(4)), None);
    }
    #[test]
    fn a_kernel_for_causal_masks_takes_no_others() {
        let causal = Fused { heads: None, causal: true };
        let full = Attention { mask: Mask::Full, ..attention(1, 2) };
        assert_eq!(separate(attention(1, 2), Pass::Forward, causal), None);
        assert_eq!(separate(full, Pass::Forward, causal).map(|more| more.bytes.0), Some(2 * 1024 * 1024 * 32));
        assert_eq!(separate(full, Pass::Forward, Fused::default()), None);
    }
}
