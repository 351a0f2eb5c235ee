//! Encoder-decoders as the first transformer.

use super::EncoderDecoder;
use super::parts::FeedForward;
use crate::families::fields::dimensions;
use crate::families::model::{Architecture, Sample};
use crate::graph::OperatorGraph;

dimensions! {
    /// The encoder-decoder that was called transformer first: sinusoidal positions, which are added where tokens are looked
    /// up, ReLU.
    ///
    /// Source: Vaswani et al., arXiv:1706.03762, section 3.
    pub struct Transformer {
        name,
        /// Its dimensions.
        @part stacks: EncoderDecoder = (),
    }
}

impl Architecture for Transformer {
    fn sample(&self) -> Sample {
        Sample::Tokens(self.stacks.seq_len)
    }

    fn tensor_heads(&self) -> Option<u64> {
        Some(self.stacks.heads)
    }

    fn graph(&self) -> OperatorGraph {
        let Self { stacks, .. } = self;
        stacks.graph(
            FeedForward::Relu,
            vec![stacks.stream(stacks.seq_len, FeedForward::Relu).lookup(stacks.vocab, 0, 0)],
            vec![stacks.tied_lookup()],
        )
    }
}
