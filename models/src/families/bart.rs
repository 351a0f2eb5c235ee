//! Encoder-decoders as BART.

use super::EncoderDecoder;
use super::parts::FeedForward;
use crate::families::fields::{dimensions, positions};
use crate::families::model::{Architecture, Sample};
use crate::graph::OperatorGraph;
use crate::operator::{Operator, Split};

dimensions! {
    /// An encoder-decoder as BART: learned positions on each side, normalised embeddings, GELU.
    ///
    /// Source: Lewis et al., arXiv:1910.13461, section 2.1.
    pub struct Bart {
        name,
        /// Its dimensions.
        @part stacks: EncoderDecoder = (),
        /// Entries of each position table.
        positions: u64 =
            positions(&[("seq_len", stacks.seq_len), ("decoder_seq_len", stacks.decoder_seq_len)]),
    }
}

impl Architecture for Bart {
    fn sample(&self) -> Sample {
        Sample::Tokens(self.stacks.seq_len)
    }

    fn tensor_heads(&self) -> Option<u64> {
        Some(self.stacks.heads)
    }

    fn graph(&self) -> OperatorGraph {
        let Self { stacks, positions, .. } = self;
        let [encoder, decoder] =
            [stacks.seq_len, stacks.decoder_seq_len].map(|tokens| stacks.stream(tokens, FeedForward::Smooth));
        let embedding = vec![encoder.lookup(stacks.vocab, *positions, 0), encoder.norm()];
        let learned = Operator { split: Split::Tokens, ..decoder.lookup(*positions, 0, 0) };
        let seam = vec![stacks.tied_lookup(), learned, decoder.norm()];
        stacks.graph(FeedForward::Smooth, embedding, seam)
    }
}
