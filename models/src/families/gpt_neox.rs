//! Decoders as GPT-NeoX and Pythia.

use super::Blocks;
use super::parts::{FeedForward, Norm};
use crate::families::Dropout;
use crate::families::fields::{
    Field, LAYERS_MAX, SEQUENCE_MAX, VOCABULARY_MAX, WIDTH_MAX, attention_heads, choice, dimensions, kernel, needed,
    optional, or, positive,
};
use crate::families::model::{Architecture, Sample};
use crate::families::rotary;
use crate::graph::OperatorGraph;
use crate::operator::AttentionKernel;
use trainyard_units::Invalid;

/// The epsilon of normalisations where nothing is said.
const NORM_EPSILON: f64 = 1e-5;

dimensions! {
    /// A decoder-only transformer as GPT-NeoX and Pythia: layer normalisation, rotary positions for a part of each head,
    /// attention and feed-forward part with GELU side by side or one after the other, biases, a head of its own.
    ///
    /// Source: Black et al., "GPT-NeoX-20B", arXiv:2204.06745, section 2; Biderman et al., "Pythia", arXiv:2304.01373,
    /// section 2.
    pub struct GptNeox {
        name,
        hidden: u64 = needed(WIDTH_MAX),
        heads: u64 = attention_heads(hidden),
        ffn: u64 = or(4 * hidden, 4 * WIDTH_MAX),
        layers: u32 = needed(LAYERS_MAX),
        vocab: u64 = needed(VOCABULARY_MAX),
        seq_len: u64 = needed(SEQUENCE_MAX),
        attention: AttentionKernel = kernel(),
        rotary_width: Option<u64> = optional(hidden / heads),
        rotary_base: f64 = positive(rotary::BASE, rotary::BASE_MAX) unless rotary::BASE,
        norm_epsilon: f64 = positive(NORM_EPSILON, 1) unless NORM_EPSILON,
        parallel_norms: Option<u64> = two(),
        tied_head: bool = choice(false),
        /// The shares that are dropped out.
        @part dropout: Dropout = (),
    }
}

/// Reads the normalisations of parts that work side by side: each has its own.
fn two(at: Field, written: Option<u64>) -> Result<Option<u64>, Invalid> {
    match written {
        None | Some(2) => Ok(written),
        Some(count) => Err(Invalid::breaks(at.name, count, "parts that work side by side have a normalisation each")
            .with_hint("set parallel_norms = 2, or leave it out for parts that follow each other; with one normalisation for both it is a model of family = \"blocks\"")),
    }
}

impl Architecture for GptNeox {
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
        Blocks::graph_of(self, |spec| {
            (spec.norm, spec.feed_forward) = (Some(Norm::Layer), Some(FeedForward::Smooth));
            (spec.qkv_bias, spec.ffn_bias) = (Some(true), Some(true));
        })
    }
}

impl GptNeox {
    /// Returns the features of a head.
    pub fn head_width(&self) -> u64 {
        self.hidden / self.heads
    }
}

#[cfg(test)]
mod tests {
    use crate::families::{Family, FeedForward, Norm};
    use crate::{Model, ModelError, ModelSpec};

    fn spec() -> ModelSpec {
        ModelSpec {
            layers: Some(3),
            hidden: Some(32),
            heads: Some(4),
            vocab: Some(64),
            seq_len: Some(16),
            rotary_width: Some(2),
            parallel_norms: Some(2),
            ..ModelSpec::new("tiny", Family::GptNeox)
        }
    }

    fn model(spec: ModelSpec) -> Result<Model, ModelError> {
        Model::try_from(spec)
    }

    #[test]
    fn it_costs_what_the_same_blocks_cost() {
        for parallel_norms in [None, Some(2)] {
            let own = ModelSpec { parallel_norms, ..spec() };
            let blocks = ModelSpec {
                family: Family::Blocks,
                norm: Some(Norm::Layer),
                feed_forward: Some(FeedForward::Smooth),
                qkv_bias: Some(true),
                ffn_bias: Some(true),
                ..own.clone()
            };
            assert_eq!(model(own).expect("valid").graph(), model(blocks).expect("valid").graph());
        }
    }

    #[test]
    fn fields_out_of_range_are_refused() {
        for (spec, sentence) in [
            (ModelSpec { rotary_width: Some(9), ..spec() }, "`rotary_width` is 9, but it must be from 1 to 8"),
            (
                ModelSpec { parallel_norms: Some(1), ..spec() },
                "`parallel_norms` is 1, but parts that work side by side",
            ),
            (ModelSpec { heads: Some(5), ..spec() }, "`heads` is 5, but it must divide the 32 features"),
            (ModelSpec { window: Some(4), ..spec() }, "family `gpt-neox` has no field `window`"),
        ] {
            let error = model(spec).expect_err("refused").to_string();
            assert!(error.contains(sentence), "{error}");
        }
    }
}
