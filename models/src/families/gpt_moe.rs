//! Decoder-only transformers with experts, as GShard.

use super::Gpt;
use super::parts::{Experts, FeedForward, Stream};
use crate::families::Dropout;
use crate::families::fields::{choice, dimensions};
use crate::families::model::{Architecture, Named, Sample};
use crate::graph::OperatorGraph;

dimensions! {
    /// A decoder as [`Gpt`] with experts in place of the feed-forward part of every n-th block: two products with a ReLU
    /// between them and no biases.
    ///
    /// Source: Lepikhin et al., "GShard", arXiv:2006.16668, section 2.
    pub struct GptMoe {
        /// The dimensions of a dense decoder; `ffn` is that of experts, too.
        @part dense: Gpt = (),
        /// The experts.
        @part experts: Experts = (dense.hidden, dense.ffn, 2),
        tied_head: bool = choice(true),
    }
}

impl Named for GptMoe {
    fn name(&self) -> &str {
        &self.dense.name
    }
}

impl Architecture for GptMoe {
    fn sample(&self) -> Sample {
        self.dense.sample()
    }

    fn tensor_heads(&self) -> Option<u64> {
        self.dense.tensor_heads()
    }

    fn dropout(&self) -> Dropout {
        self.dense.dropout
    }

    fn graph(&self) -> OperatorGraph {
        let Self { dense, experts, tied_head } = self;
        let stream = dense.stream();
        let block = stream.block(dense.heads(), stream.feed_forward(dense.ffn), 0);
        let routed = Stream { feed_forward: FeedForward::Relu, ..stream };
        let expert_block = stream.block(
            dense.heads(),
            routed.expert_feed_forward(*experts, dense.ffn, false),
            stream.exchanged(*experts),
        );
        let mut order = vec![0];
        order.extend((0..dense.layers).map(|index| if experts.are_in(index) { 2 } else { 1 }));
        order.push(3);
        let shared = if *tied_head { dense.vocab * dense.hidden } else { 0 };
        let layers = vec![dense.embedding(), block, expert_block, dense.head(*tied_head)];
        OperatorGraph::new(layers, order, shared)
    }
}
