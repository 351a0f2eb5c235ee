//! Attention scores by relative position.

use super::attention::pairs;
use super::{Gemm, Pass, Storage, elements};

/// The part of attention scores that depends on distances: queries with a bias, times projected sinusoids of all
/// distances, shifted so that each query has its own (Dai et al., arXiv:1901.02860, section 3.3 and appendix B). The
/// sinusoids are projected once for all samples. What is added to scores is counted with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RelativePositions {
    /// Independent sequences.
    pub samples: u64,
    pub heads: u64,
    /// Tokens that attend.
    pub queries: u64,
    /// Tokens that are attended to: distances.
    pub keys: u64,
    /// Features of a head.
    pub head_width: u64,
    /// Features of a sinusoid.
    pub width: u64,
    /// `true` if it has the two biases of queries, which all layers share.
    pub owns_biases: bool,
}

impl RelativePositions {
    pub(super) fn for_samples(self, samples: u64) -> Self {
        Self { samples: self.samples * samples, ..self }
    }

    pub(super) fn share_tokens(self, parts: u64) -> Self {
        Self { queries: self.queries.div_ceil(parts), ..self }
    }

    pub(super) fn share_heads(self, parts: u64) -> Self {
        Self { heads: self.heads.div_ceil(parts), ..self }
    }

    fn head_features(self) -> u64 {
        self.heads * self.head_width
    }

    pub(super) fn parameters(self) -> u64 {
        self.head_features() * (self.width + if self.owns_biases { 2 } else { 0 })
    }

    pub(super) fn parameter_tensors(self) -> u32 {
        if self.owns_biases { 3 } else { 1 }
    }

    pub(super) fn gemms(self) -> Vec<Gemm> {
        let Self { samples, heads, queries, keys, head_width, width, .. } = self;
        vec![
            Gemm { batch: 1, m: keys, n: heads * head_width, k: width },
            Gemm { batch: samples * heads, m: queries, n: keys, k: head_width },
        ]
    }

    fn biased_queries(self) -> u64 {
        self.samples * self.queries * self.head_features()
    }

    /// Two biases are added to queries, and scores are read and written in other places.
    pub(super) fn traffic(self, pass: Pass) -> Storage {
        let passes = if pass == Pass::Forward { 4 } else { 3 };
        let scores = elements(pairs(2 * self.samples * self.heads, self.queries, self.keys));
        elements(passes * self.biased_queries()) + scores
    }

    /// Queries with the bias for distances; those with the other one are counted with the scores.
    pub(super) fn stored(self) -> Storage {
        elements(self.biased_queries() + self.keys * (self.width + self.head_features()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinusoids_are_projected_once_and_scores_for_each_sample() {
        let one = RelativePositions {
            samples: 1,
            heads: 8,
            queries: 192,
            keys: 384,
            head_width: 64,
            width: 512,
            owns_biases: false,
        };
        let two = one.for_samples(2);
        assert_eq!(one.gemms()[0], two.gemms()[0]);
        assert_eq!(one.gemms()[1].flops() * 2.0, two.gemms()[1].flops());
        assert_eq!(RelativePositions { owns_biases: true, ..one }.parameters(), one.parameters() + 2 * 8 * 64);
    }
}
