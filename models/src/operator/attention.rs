//! The attention core: scores, softmax, weighted sum of values.

use super::{Gemm, Pass, Storage, elements};
use serde::{Deserialize, Serialize};
use trainyard_units::Flops;

/// How the attention core is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttentionKernel {
    /// Scores, softmax and values as separate kernels; the s × s matrices go through memory.
    Unfused,
    /// One fused kernel (FlashAttention; Dao et al., arXiv:2205.14135); the s × s matrices never leave the chip and are
    /// computed again backward.
    Flash,
    /// The same for GPUs that FlashAttention does not run on (Rabe and Staats, arXiv:2112.05682, as xFormers and PyTorch
    /// have it): the same bytes, less of the peak.
    MemoryEfficient,
}

impl AttentionKernel {
    /// Returns the kernel as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unfused => "unfused",
            Self::Flash => "flash",
            Self::MemoryEfficient => "memory-efficient",
        }
    }

    /// Returns the kernel that is written exactly so.
    pub fn named(text: &str) -> Option<Self> {
        [Self::Unfused, Self::Flash, Self::MemoryEfficient].into_iter().find(|kernel| kernel.name() == text)
    }

    /// Returns `true` if one kernel computes scores, softmax and values, so that the s × s matrices never go through
    /// memory.
    pub fn is_fused(self) -> bool {
        self != Self::Unfused
    }
}

/// Which keys a query attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mask {
    Full,
    /// Those of its own and earlier tokens.
    Causal,
    /// Those of its own and earlier tokens, at most this many (Jiang et al., arXiv:2310.06825, section 2).
    Window(u64),
    /// Those of tokens at most this far away, before and behind (Beltagy et al., arXiv:2004.05150, section 3.1).
    Local(u64),
}

/// Scaled dot-product attention from projected queries, keys and values to the context that the output projection
/// reads: (samples, heads, queries, head width).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each tells of one thing that is done to scores")]
pub struct Attention {
    /// Independent sequences.
    pub samples: u64,
    /// Heads of the queries.
    pub heads: u64,
    /// Heads of keys and values, each shared by as many query heads (Ainslie et al., arXiv:2305.13245).
    pub kv_heads: u64,
    /// Tokens that attend.
    pub queries: u64,
    /// Tokens that are attended to.
    pub keys: u64,
    /// Those of them whose keys and values this rank projects and keeps; the others come round a ring.
    pub own_keys: u64,
    /// Features of a head of queries or keys.
    pub head_width: u64,
    /// Features of a head of values, which latent attention has narrower (DeepSeek-AI, arXiv:2405.04434, section 2.1).
    pub value_width: u64,
    /// Fused or not.
    pub kernel: AttentionKernel,
    /// Which keys a query sees.
    pub mask: Mask,
    /// `true` if attention weights are dropped out.
    pub dropout: bool,
    /// `true` if a bias per head, query and key is added to the scores.
    pub biased: bool,
    /// `true` if scores go through a hyperbolic tangent, which bounds them (Gemma Team, arXiv:2408.00118, section 2).
    pub soft_cap: bool,
    /// `true` if each head has a trained score that takes weight from all keys (Xiao et al., arXiv:2309.17453; OpenAI,
    /// arXiv:2508.10925, section 2).
    pub sinks: bool,
}

/// Elements of scores that separate kernels read and write for a soft cap, forward and backward: a quotient, a tangent,
/// a product, each of which reads what it needs and writes its result.
const SOFT_CAP: [u64; 2] = [6, 7];

/// The same for sinks, which are put beside the scores as one more column, whose largest value is taken off.
const SINKS: [u64; 2] = [4, 4];

/// Pairs of queries and keys, `sets` times. Long sequences have more than can be counted: then it is the most that can be
/// counted, which no micro-batch may move.
pub(super) fn pairs(sets: u64, queries: u64, keys: u64) -> u64 {
    sets.saturating_mul(queries).saturating_mul(keys)
}

impl Attention {
    /// Share of the arithmetic that a fused kernel does, which skips what the mask hides, unless it is a part of a bias.
    pub fn unmasked_share(self) -> f64 {
        match self.mask {
            _ if self.biased => 1.0,
            Mask::Full => 1.0,
            Mask::Causal => 0.5,
            Mask::Window(window) => {
                let seen = window.min(self.keys) as f64 / self.keys as f64;
                seen * (1.0 - seen / 2.0)
            }
            Mask::Local(reach) => {
                let keys = self.keys as f64;
                let reach = (reach as f64).min(keys - 1.0);
                ((2.0 * reach + 1.0) * keys - reach * (reach + 1.0)) / (keys * keys)
            }
        }
    }

    fn query_elements(self) -> u64 {
        self.samples * self.queries * self.heads * self.head_width
    }

    /// Returns the elements of what attention puts in the place of the queries.
    fn output_elements(self) -> u64 {
        self.samples * self.queries * self.heads * self.value_width
    }

    /// Returns the elements of the keys and the values of `tokens` tokens of each sample.
    fn key_and_value_elements(self, tokens: u64) -> u64 {
        self.samples * tokens * self.kv_heads * (self.head_width + self.value_width)
    }

    /// Returns the kernels and the elements of scores that a soft cap and sinks add to a pass of separate kernels.
    fn on_scores(self, pass: Pass) -> (u32, u64) {
        let index = usize::from(pass == Pass::Backward);
        let (cap, sinks) = (u64::from(self.soft_cap), u64::from(self.sinks));
        (3 * cap as u32 + 2 * sinks as u32, cap * SOFT_CAP[index] + sinks * SINKS[index])
    }

    /// Returns the number of trainable values: the scores of sinks.
    pub(super) fn parameters(self) -> u64 {
        if self.sinks { self.heads } else { 0 }
    }

    fn scores(self) -> u64 {
        pairs(self.samples * self.heads, self.queries, self.keys)
    }

    pub(super) fn share_tokens(self, parts: u64) -> Self {
        Self { queries: self.queries.div_ceil(parts), own_keys: self.own_keys.div_ceil(parts), ..self }
    }

    pub(super) fn share_heads(self, parts: u64) -> Self {
        Self { heads: self.heads.div_ceil(parts), kv_heads: self.kv_heads.div_ceil(parts), ..self }
    }

    pub(super) fn gemms(self) -> Vec<Gemm> {
        let Self { queries, keys, head_width, value_width, .. } = self;
        let batch = self.samples * self.heads;
        match self.kernel {
            AttentionKernel::Unfused => vec![
                Gemm { batch, m: queries, n: keys, k: head_width },
                Gemm { batch, m: queries, n: value_width, k: keys },
            ],
            AttentionKernel::Flash | AttentionKernel::MemoryEfficient => Vec::new(),
        }
    }

    /// What is kept if the core is computed again in backward: queries, keys and values, and a fused kernel's output, which the
    /// product behind it keeps as its input.
    pub(crate) fn stored_without_core(self) -> Storage {
        let output = if self.kernel.is_fused() { self.output_elements() } else { 0 };
        elements(self.query_elements() + self.key_and_value_elements(self.own_keys) + output)
    }

    /// Returns the arithmetic inside a fused kernel. What the mask hides is counted, as the field's formulas do.
    pub(super) fn fused_flops(self, pass: Pass) -> Flops {
        let forward = match self.kernel {
            AttentionKernel::Unfused => 0.0,
            AttentionKernel::Flash | AttentionKernel::MemoryEfficient => {
                2.0 * self.scores() as f64 * (self.head_width + self.value_width) as f64
            }
        };
        Flops(if pass == Pass::Forward { forward } else { 2.0 * forward })
    }

    pub(super) fn traffic(self, pass: Pass) -> Storage {
        let forward = pass == Pass::Forward;
        let (queries, outputs) = (self.query_elements(), self.output_elements());
        let (own, all) = (self.key_and_value_elements(self.own_keys), self.key_and_value_elements(self.keys));
        let transposes = elements(queries + own + if forward { outputs } else { 2 * outputs });
        let masked = if self.dropout { self.scores() } else { 0 };
        let kernel = match self.kernel {
            AttentionKernel::Unfused => {
                let softmax = if forward { 2 } else { 3 };
                let dropout = if self.dropout { 2 } else { 0 };
                let bias = if self.biased { 2 } else { 0 };
                let elements = self.scores().saturating_mul(softmax + dropout + bias + self.on_scores(pass).1);
                Storage { elements, single: 0, masks: masked }
            }
            AttentionKernel::Flash | AttentionKernel::MemoryEfficient => {
                let each = if forward { 1 } else { 2 };
                // A bias is read for each pair; backward also writes its gradient, which is summed over samples.
                let bias = if self.biased { if forward { 1 } else { 3 } } else { 0 };
                elements(each * (queries + outputs + all) + self.scores().saturating_mul(bias))
            }
        };
        transposes + kernel
    }

    pub(super) fn kernels(self, pass: Pass) -> u32 {
        let (forward, backward, on_scores) = match self.kernel {
            AttentionKernel::Unfused => (10, 16, self.on_scores(pass).0),
            AttentionKernel::Flash | AttentionKernel::MemoryEfficient => (5, 6, 0),
        };
        (if pass == Pass::Forward { forward } else { backward }) + u32::from(self.biased) + on_scores
    }

    pub(super) fn stored(self) -> Storage {
        let projected = self.query_elements() + self.key_and_value_elements(self.own_keys);
        // Separate kernels keep the tangents of a soft cap besides.
        let capped = if self.soft_cap && !self.kernel.is_fused() { elements(self.scores()) } else { elements(0) };
        let kept = match (self.kernel, self.dropout) {
            // The weights after softmax, and, where there is dropout, its mask and what it leaves.
            (AttentionKernel::Unfused, true) => {
                Storage { masks: self.scores(), ..elements(projected) }
                    + elements(self.scores())
                    + elements(self.scores())
            }
            (AttentionKernel::Unfused, false) => elements(projected) + elements(self.scores()),
            // The output and one statistic per row take the place of the scores.
            (AttentionKernel::Flash | AttentionKernel::MemoryEfficient, _) => Storage {
                elements: projected + self.output_elements(),
                single: self.samples * self.heads * self.queries,
                masks: 0,
            },
        };
        kept + capped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped(mask: Mask) -> Attention {
        Attention {
            samples: 2,
            heads: 8,
            kv_heads: 2,
            queries: 64,
            keys: 64,
            own_keys: 64,
            head_width: 16,
            value_width: 16,
            kernel: AttentionKernel::Flash,
            mask,
            dropout: false,
            biased: false,
            soft_cap: false,
            sinks: false,
        }
    }

    #[test]
    fn both_kernels_do_the_same_arithmetic() {
        let flash = grouped(Mask::Causal);
        let unfused = Attention { kernel: AttentionKernel::Unfused, ..flash };
        let products: Flops = unfused.gemms().into_iter().map(Gemm::flops).sum();
        assert_eq!(flash.fused_flops(Pass::Forward), products);
    }

    #[test]
    fn fused_kernels_differ_in_their_rate_alone() {
        for mask in [Mask::Full, Mask::Causal, Mask::Window(16)] {
            let flash = grouped(mask);
            let efficient = Attention { kernel: AttentionKernel::MemoryEfficient, dropout: true, ..flash };
            assert_eq!(efficient.stored(), flash.stored());
            for pass in [Pass::Forward, Pass::Backward] {
                assert_eq!(efficient.fused_flops(pass), flash.fused_flops(pass));
                assert_eq!(
                    efficient.traffic(pass).bytes(2),
                    Attention { dropout: true, ..flash }.traffic(pass).bytes(2)
                );
                assert_eq!((efficient.gemms(), efficient.kernels(pass)), (Vec::new(), flash.kernels(pass)));
            }
        }
    }

    #[test]
    fn scores_beyond_counting_are_the_most_that_can_be_counted() {
        let long = Attention { heads: 1 << 22, queries: 1 << 22, keys: 1 << 22, ..grouped(Mask::Causal) };
        for dropout in [false, true] {
            let unfused = Attention { kernel: AttentionKernel::Unfused, dropout, ..long };
            assert_eq!(unfused.traffic(Pass::Backward).bytes(4).0, u64::MAX);
            assert_eq!(unfused.stored().elements, u64::MAX);
        }
    }

    #[test]
    fn a_window_over_everything_is_the_causal_mask_and_a_narrow_one_is_a_band() {
        let share = |mask| grouped(mask).unmasked_share();
        assert!((share(Mask::Window(64)) - share(Mask::Causal)).abs() < 1e-12);
        // By hand: of 64 × 64 pairs, windows of 16 see 16·64 less the triangle at the start, 16²/2.
        let pairs = 16.0 * 64.0 - 16.0 * 16.0 / 2.0;
        assert!((share(Mask::Window(16)) - pairs / 4096.0).abs() < 1e-12);
    }

    #[test]
    fn a_local_mask_leaves_a_band_on_both_sides() {
        // Counted pair by pair.
        for reach in [0, 5, 63, 90] {
            let pairs = (0..64_i64).flat_map(|query| (0..64).map(move |key| (key - query).abs()));
            let seen = pairs.filter(|distance| *distance <= reach).count() as f64;
            let share = grouped(Mask::Local(reach as u64)).unmasked_share();
            assert!((share - seen / 4096.0).abs() < 1e-12, "{reach}");
        }
    }

    #[test]
    fn narrow_values_narrow_what_is_summed_and_put_out() {
        let latent = Attention { kv_heads: 8, head_width: 24, value_width: 16, ..grouped(Mask::Causal) };
        let unfused = Attention { kernel: AttentionKernel::Unfused, ..latent };
        let products: Flops = unfused.gemms().into_iter().map(Gemm::flops).sum();
        assert_eq!(products, Flops(2.0 * 2.0 * 8.0 * 64.0 * 64.0 * 40.0));
        assert_eq!(latent.fused_flops(Pass::Forward), products);
        // Queries and keys of 24, values and outputs of 16 features.
        assert_eq!(latent.stored().elements, 2 * 64 * 8 * (24 + 24 + 16 + 16));
    }

    #[test]
    fn a_fused_kernel_caps_scores_for_nothing() {
        let flash = grouped(Mask::Causal);
        let capped = |kernel| Attention { soft_cap: true, sinks: true, kernel, ..flash };
        let fused = capped(AttentionKernel::Flash);
        assert_eq!((fused.stored(), fused.kernels(Pass::Forward)), (flash.stored(), flash.kernels(Pass::Forward)));
        assert_eq!(fused.traffic(Pass::Backward), flash.traffic(Pass::Backward));
        let unfused = Attention { kernel: AttentionKernel::Unfused, ..flash };
        let scores = 2 * 8 * 64 * 64;
        let apart = capped(AttentionKernel::Unfused);
        assert_eq!(apart.stored(), unfused.stored() + elements(scores));
        assert_eq!(apart.traffic(Pass::Forward), unfused.traffic(Pass::Forward) + elements(10 * scores));
        assert_eq!((apart.parameters(), unfused.parameters()), (8, 0));
    }

    #[test]
    fn shared_heads_shrink_keys_and_values_alone() {
        let grouped = grouped(Mask::Causal);
        let queries = 2 * 64 * 8 * 16;
        assert_eq!(grouped.stored().elements, queries + 2 * (queries / 4) + queries);
    }
}
