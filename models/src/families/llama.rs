//! Decoders as Llama, dense or with experts.

use super::parts::{Experts, Heads, Stream};
use crate::families::fields::{
    Field, LAYERS_MAX, SEQUENCE_MAX, VOCABULARY_MAX, WIDTH_MAX, attention_heads, choice, dimensions, equal_groups,
    kernel, needed, optional, or, positive,
};
use crate::families::model::{Architecture, Sample};
use crate::families::rotary::{self, scaling};
use crate::families::{Dropout, QueryKeyNorm, RotaryScaling};
use crate::graph::{Layer, OperatorGraph};
use crate::operator::{AttentionKernel, Mask};
use trainyard_units::Invalid;

/// The epsilon of normalisations where nothing is said, that of Llama 2 and 3 and of Mistral.
pub(super) const NORM_EPSILON: f64 = 1e-5;

/// Returns the usual width inside a gated feed-forward part, whose three products have as many weights as two of 4 × the width:
/// two thirds of that, to a multiple of 256 (Touvron et al., arXiv:2302.13971, section 2.2, and the code of LLaMA).
const fn gated_width(hidden: u64) -> u64 {
    hidden.saturating_mul(8).div_ceil(3).next_multiple_of(256)
}

dimensions! {
    /// A decoder-only transformer as Llama 2 and 3, Mistral, Mixtral and Qwen: root-mean-square pre-normalisation, rotary
    /// positions, grouped-query attention, gated feed-forward parts, no biases and no dropout but what is asked for, a
    /// head of its own.
    ///
    /// Source: Touvron et al., arXiv:2307.09288, section 2.2; Jiang et al., arXiv:2310.06825 (window) and
    /// arXiv:2401.04088 (experts); Qwen team, arXiv:2407.10671, section 2.2.1 (biases), and arXiv:2505.09388, section 2
    /// (normalised heads).
    pub struct Llama {
        name,
        hidden: u64 = needed(WIDTH_MAX),
        /// Heads of queries.
        heads: u64 = attention_heads(hidden),
        head_width: u64 = or(hidden / heads, WIDTH_MAX),
        /// Width inside the feed-forward part, or inside an expert.
        ffn: u64 = or(gated_width(hidden), 4 * WIDTH_MAX),
        layers: u32 = needed(LAYERS_MAX),
        kv_heads: u64 = equal_groups(heads),
        vocab: u64 = needed(VOCABULARY_MAX),
        seq_len: u64 = needed(SEQUENCE_MAX),
        attention: AttentionKernel = kernel(),
        window: Option<u64> = optional(SEQUENCE_MAX),
        rotary_base: f64 = positive(rotary::BASE, rotary::BASE_MAX) unless rotary::BASE,
        rotary_scaling: Option<RotaryScaling> = scaling(),
        norm_epsilon: f64 = positive(NORM_EPSILON, 1) unless NORM_EPSILON,
        qkv_bias: bool = choice(false) unless false,
        query_key_norm: Option<QueryKeyNorm> = by_head(),
        tied_head: bool = choice(false),
        /// Experts, if feed-forward parts have any.
        @part experts: Option<Experts> = (hidden, ffn, 1),
        /// The shares that are dropped out.
        @part dropout: Dropout = (),
    }
}

/// Reads how queries and keys are normalised: each head by itself, or not at all.
fn by_head(at: Field, written: Option<QueryKeyNorm>) -> Result<Option<QueryKeyNorm>, Invalid> {
    match written {
        Some(QueryKeyNorm::Features) => {
            let rule = "models of this family normalise each head by itself";
            Err(Invalid::breaks(at.name, "`features`", rule).with_hint("set family = \"blocks\""))
        }
        written => Ok(written),
    }
}

impl Architecture for Llama {
    fn sample(&self) -> Sample {
        Sample::Tokens(self.seq_len)
    }

    fn tensor_heads(&self) -> Option<u64> {
        Some(self.kv_heads)
    }

    fn dropout(&self) -> Dropout {
        self.dropout
    }

    fn graph(&self) -> OperatorGraph {
        let stream = self.stream();
        let (dense, routed) = (1, 2);
        let mut layers = vec![self.embedding(), stream.block(self.heads(), stream.feed_forward(self.ffn), 0)];
        let mut order = vec![0];
        match self.experts {
            None => order.extend(std::iter::repeat_n(dense, self.layers as usize)),
            Some(experts) => {
                let feed_forward = stream.expert_feed_forward(experts, self.ffn, false);
                layers.push(stream.block(self.heads(), feed_forward, stream.exchanged(experts)));
                order.extend((0..self.layers).map(|index| if experts.are_in(index) { routed } else { dense }));
            }
        }
        order.push(layers.len());
        layers.push(self.head());
        OperatorGraph::new(layers, order, if self.tied_head { self.vocab * self.hidden } else { 0 })
    }
}

impl Llama {
    fn stream(&self) -> Stream {
        Stream::gated(self.seq_len, self.hidden, self.dropout.counted(false))
    }

    fn heads(&self) -> Heads {
        Heads {
            keys: self.kv_heads,
            rotary: true,
            qkv_bias: self.qkv_bias,
            normed: self.query_key_norm.is_some(),
            ..Heads::equal(self.heads, self.head_width, self.attention, self.window.map_or(Mask::Causal, Mask::Window))
        }
    }

    fn embedding(&self) -> Layer {
        self.stream().input(vec![self.stream().lookup(self.vocab, 0, 0)])
    }

    fn head(&self) -> Layer {
        self.stream().language_model_head(self.vocab, self.tied_head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Sharing;
    use crate::{Model, ModelSpec};

    #[test]
    fn the_usual_width_is_that_of_llama() {
        assert_eq!([4096, 5120, 6656, 8192].map(gated_width), [11008, 13824, 17920, 22016]);
    }

    #[test]
    fn a_block_keeps_the_inputs_of_what_it_computes() {
        let spec = crate::find("llama-3-8b").expect("in the catalog").model.spec();
        let spec = ModelSpec { attention: Some(AttentionKernel::Flash), ..spec };
        let block = Model::try_from(spec).expect("valid").graph().layer(1).clone();
        // Per token: both normalisations and first products h each, queries, attention's output and its product's input
        // h each, keys and values 1024 each, both halves of the gate and their product f each.
        let (s, h, f, kv) = (8192, 4096, 14336, 1024);
        let stored = block.stored(1, Sharing::WHOLE);
        assert_eq!(stored.elements, s * (7 * h + 2 * kv + 3 * f));
        assert_eq!((stored.single, stored.masks), (s * 32, 0));
        assert_eq!(block.context_elements, 2 * s * kv);
    }
}
