//! Selective state-space models as Mamba-2.

use super::parts::{Norm, Stream};
use crate::families::fields::{
    Field, LAYERS_MAX, SEQUENCE_MAX, VOCABULARY_MAX, WIDTH_MAX, choice, dimensions, divisor, needed, or,
};
use crate::families::model::{Architecture, Sample};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{OperatorKind, Scan, Split, StateSpace, replicated};
use trainyard_units::Invalid;

dimensions! {
    /// A decoder whose blocks have no attention: a product to gates, inputs and steps, a short convolution, the scan of a
    /// state for each head, a gate, a normalisation and a product back. Ranks do not split its layers.
    ///
    /// Source: Dao and Gu, "Transformers are SSMs", arXiv:2405.21060, section 7.1.
    pub struct Mamba2 {
        name,
        hidden: u64 = needed(WIDTH_MAX),
        layers: u32 = needed(LAYERS_MAX),
        head_width: u64 = or(64, WIDTH_MAX),
        /// Heads, two times as wide as the stream together unless stated.
        heads: u64 = or((2 * hidden / head_width).max(1), 4 * WIDTH_MAX / head_width),
        /// Groups of heads that share what is written into their states and read out of them.
        groups: u64 = of_heads(heads),
        state_width: u64 = or(128, WIDTH_MAX),
        chunk: u64 = or(256, SEQUENCE_MAX),
        taps: u64 = or(4, SEQUENCE_MAX),
        vocab: u64 = needed(VOCABULARY_MAX),
        seq_len: u64 = needed(SEQUENCE_MAX),
        tied_head: bool = choice(false),
    }
}

/// Reads groups, which have equally many heads each.
fn of_heads(at: Field, written: Option<u64>, heads: u64) -> Result<u64, Invalid> {
    divisor(at.name, or(at, written, 1, heads)?, (heads, "heads"))
}

impl Architecture for Mamba2 {
    fn sample(&self) -> Sample {
        Sample::Tokens(self.seq_len)
    }

    fn graph(&self) -> OperatorGraph {
        let stream = self.stream();
        let embedding = Layer { tensor_reductions: 0, ..stream.input(vec![stream.lookup(self.vocab, 0, 0)]) };
        let head = Layer { tensor_reductions: 0, ..stream.language_model_head(self.vocab, self.tied_head) };
        let shared = if self.tied_head { self.vocab * self.hidden } else { 0 };
        OperatorGraph::of_equal_blocks(embedding, self.block(), self.layers, head, shared)
    }
}

impl Mamba2 {
    fn stream(&self) -> Stream {
        Stream::gated(self.seq_len, self.hidden, false)
    }

    fn block(&self) -> Layer {
        let stream = self.stream();
        let (steps, inner) = (self.seq_len, self.heads * self.head_width);
        let mixed = inner + 2 * self.groups * self.state_width;
        let convolution = StateSpace::Convolution { samples: 1, steps, channels: mixed, taps: self.taps, bias: true };
        let scan = StateSpace::Scan(Scan {
            samples: 1,
            steps,
            chunk: self.chunk,
            heads: self.heads,
            width: self.head_width,
            groups: self.groups,
            state: self.state_width,
        });
        let operators = vec![
            stream.norm(),
            stream.linear(self.hidden, inner + mixed + self.heads, Split::Replicated),
            replicated(OperatorKind::StateSpace(convolution)),
            replicated(OperatorKind::StateSpace(scan)),
            replicated(OperatorKind::GatedActivation { rows: steps, width: inner }),
            replicated(Norm::Rms.over(steps, inner)),
            stream.linear(inner, self.hidden, Split::Replicated),
            stream.residual(),
        ];
        Layer::undivided("block", LayerRole::Block, operators, stream.elements())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Family, Model, ModelSpec};

    #[test]
    fn a_block_has_the_parameters_of_its_parts() {
        let spec = ModelSpec {
            hidden: Some(64),
            layers: Some(3),
            head_width: Some(16),
            groups: Some(2),
            state_width: Some(24),
            vocab: Some(100),
            seq_len: Some(32),
            ..ModelSpec::new("test", Family::Mamba2)
        };
        let graph = Model::try_from(spec.clone()).expect("valid").graph();
        let (inner, mixed, heads) = (128, 128 + 2 * 2 * 24, 8);
        let block = 64 + 64 * (inner + mixed + heads) + mixed * 5 + 3 * heads + inner + inner * 64;
        assert_eq!(graph.parameters(), 3 * block + 2 * 64 * 100 + 64);
        let uneven = Model::try_from(ModelSpec { groups: Some(3), ..spec }).expect_err("refused");
        assert!(uneven.to_string().contains("`groups` is 3, but it must divide the 8 heads"), "{uneven}");
    }
}
