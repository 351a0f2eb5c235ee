//! Decoder-only transformers as GPT-2.

use super::parts::{Heads, Stream};
use crate::families::Dropout;
use crate::families::fields::{
    LAYERS_MAX, SEQUENCE_MAX, VOCABULARY_MAX, WIDTH_MAX, attention_heads, dimensions, kernel, needed, or,
};
use crate::families::model::{Architecture, Sample};
use crate::graph::OperatorGraph;
use crate::operator::{AttentionKernel, Mask};

dimensions! {
    /// A decoder-only transformer as GPT-2: learned positions, pre-normalisation, GELU, head tied to the token table.
    ///
    /// Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, section 2.3.
    pub struct Gpt {
        name,
        hidden: u64 = needed(WIDTH_MAX),
        layers: u32 = needed(LAYERS_MAX),
        heads: u64 = attention_heads(hidden),
        ffn: u64 = or(4 * hidden, 4 * WIDTH_MAX),
        vocab: u64 = needed(VOCABULARY_MAX),
        /// Tokens of a sample, and entries of the position table.
        seq_len: u64 = needed(SEQUENCE_MAX),
        attention: AttentionKernel = kernel(),
        /// The shares that are dropped out.
        @part dropout: Dropout = (),
    }
}

impl Architecture for Gpt {
    fn sample(&self) -> Sample {
        Sample::Tokens(self.seq_len)
    }

    fn tensor_heads(&self) -> Option<u64> {
        Some(self.heads)
    }

    fn dropout(&self) -> Dropout {
        self.dropout
    }

    fn graph(&self) -> OperatorGraph {
        let stream = self.stream();
        let block = stream.block(self.heads(), stream.feed_forward(self.ffn), 0);
        let head = self.head(true);
        OperatorGraph::of_equal_blocks(self.embedding(), block, self.layers, head, self.vocab * self.hidden)
    }
}

impl Gpt {
    pub(super) fn stream(&self) -> Stream {
        Stream::gelu(self.seq_len, self.hidden, self.dropout.counted(true))
    }

    pub(super) fn heads(&self) -> Heads {
        Heads::equal(self.heads, self.hidden / self.heads, self.attention, Mask::Causal)
    }

    pub(super) fn embedding(&self) -> crate::Layer {
        self.stream().input(vec![self.stream().lookup(self.vocab, self.seq_len, 0)])
    }

    pub(super) fn head(&self, tied: bool) -> crate::Layer {
        self.stream().language_model_head(self.vocab, tied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::{Pass, Sharing};

    fn gpt(layers: u32, hidden: u64, heads: u64) -> Gpt {
        Gpt {
            name: "test".into(),
            layers,
            hidden,
            heads,
            ffn: 4 * hidden,
            vocab: 50257,
            seq_len: 1024,
            attention: AttentionKernel::Unfused,
            dropout: Dropout::default(),
        }
    }

    #[test]
    fn a_block_sums_to_the_published_activation_bytes() {
        // Korthikanti et al., equation 1: s·b·h·(34 + 5·a·s/h) bytes in half precision.
        let model = gpt(1, 768, 12);
        let graph = model.graph();
        let (s, b, h, a) = (1024, 3, 768, 12);
        assert_eq!(graph.distinct()[1].stored(b, Sharing::WHOLE).bytes(2).0, s * b * h * 34 + 5 * a * s * s * b);
    }

    #[test]
    fn sequence_parallelism_divides_all_of_a_blocks_activations() {
        // Korthikanti et al., equation 2 without and equation 4 with sequence parallelism, in half precision.
        let model = gpt(1, 768, 12);
        let graph = model.graph();
        let (s, b, h, a, t) = (1024, 3, 768, 12, 4);
        let stored = |sharing| graph.distinct()[1].stored(b, sharing).bytes(2).0;
        let tensor = Sharing::tensor(t);
        assert_eq!(stored(tensor), s * b * h * (10 + 24 / t) + 5 * a * s * s * b / t);
        assert_eq!(stored(Sharing { sequence: true, ..tensor }), (s * b * h * 34 + 5 * a * s * s * b) / t);
    }

    #[test]
    fn parameters_depend_on_neither_context_nor_sequence() {
        let graph = gpt(1, 768, 12).graph();
        for layer in graph.distinct() {
            let tensor = Sharing::tensor(4);
            let shared = Sharing { sequence: true, context: 8, ..tensor };
            assert_eq!(layer.parameters(shared), layer.parameters(tensor));
        }
    }

    #[test]
    fn a_block_sums_to_the_documented_traffic_and_kernels() {
        let model = gpt(1, 768, 12);
        let graph = model.graph();
        let sum = |pass| -> (u64, u32) {
            graph.distinct()[1].operators.iter().fold((0, 0), |(bytes, kernels), operator| {
                (bytes + operator.kind.traffic(pass).bytes(2).0, kernels + operator.kind.kernels(pass))
            })
        };
        let (t, h, f, scores) = (1024, 768, 3072, 12 * 1024 * 1024);
        assert_eq!(sum(Pass::Forward), (30 * t * h + 4 * t * f + 9 * scores, 24));
        assert_eq!(sum(Pass::Backward), (44 * t * h + 8 * t * f + 11 * scores, 40));
    }
}
