//! Decoders as Gemma 2.

use super::Blocks;
use super::blocks::{bound, within};
use crate::families::Dropout;
use crate::families::fields::{
    LAYERS_MAX, SEQUENCE_MAX, VOCABULARY_MAX, WIDTH_MAX, attention_heads, choice, dimensions, equal_groups, kernel,
    needed, optional, or, positive,
};
use crate::families::model::{Architecture, Sample};
use crate::families::rotary;
use crate::graph::OperatorGraph;
use crate::operator::AttentionKernel;

/// The epsilon of normalisations where nothing is said (`Gemma2Config` of transformers).
const NORM_EPSILON: f64 = 1e-6;

dimensions! {
    /// A decoder-only transformer as Gemma 2: root-mean-square normalisation in front of each part and behind it, rotary
    /// positions, grouped-query attention with a window in some blocks and bounded scores, feed-forward parts gated by GELU,
    /// bounded logits, a head that is the token table.
    ///
    /// Source: Gemma Team, "Gemma 2", arXiv:2408.00118, section 2.
    pub struct Gemma2 {
        name,
        hidden: u64 = needed(WIDTH_MAX),
        heads: u64 = attention_heads(hidden),
        head_width: u64 = or(hidden / heads, WIDTH_MAX),
        ffn: u64 = or(4 * hidden, 4 * WIDTH_MAX),
        layers: u32 = needed(LAYERS_MAX),
        kv_heads: u64 = equal_groups(heads),
        vocab: u64 = needed(VOCABULARY_MAX),
        seq_len: u64 = needed(SEQUENCE_MAX),
        attention: AttentionKernel = kernel(),
        window: Option<u64> = optional(SEQUENCE_MAX),
        window_blocks: Option<Vec<u32>> = within(window, layers),
        rotary_base: f64 = positive(rotary::BASE, rotary::BASE_MAX) unless rotary::BASE,
        norm_epsilon: f64 = positive(NORM_EPSILON, 1) unless NORM_EPSILON,
        query_scalar: u64 = or(head_width, WIDTH_MAX),
        score_cap: Option<f64> = bound(),
        logit_cap: Option<f64> = bound(),
        tied_head: bool = choice(true),
        /// The shares that are dropped out.
        @part dropout: Dropout = (),
    }
}

impl Architecture for Gemma2 {
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
        Blocks::graph_of(self, |spec| spec.part_norms = Some(2))
    }
}

impl Gemma2 {
    /// Returns the tokens that a query of a block, counted from 0, sees at most; `None` if it sees all before it.
    pub fn window_of(&self, block: u32) -> Option<u64> {
        self.window.filter(|_| self.window_blocks.as_ref().is_none_or(|blocks| blocks.contains(&block)))
    }
}

#[cfg(test)]
mod tests {
    use crate::families::{Family, ModelSpec};
    use crate::{Model, ModelError, Sharing};

    fn spec() -> ModelSpec {
        ModelSpec {
            layers: Some(3),
            hidden: Some(32),
            heads: Some(4),
            head_width: Some(12),
            kv_heads: Some(2),
            vocab: Some(64),
            seq_len: Some(16),
            window: Some(5),
            window_blocks: Some(vec![0, 2]),
            score_cap: Some(50.0),
            logit_cap: Some(30.0),
            tied_head: Some(true),
            ..ModelSpec::new("tiny", Family::Gemma2)
        }
    }

    fn model(spec: ModelSpec) -> Result<Model, ModelError> {
        Model::try_from(spec)
    }

    #[test]
    fn it_costs_what_the_same_blocks_cost() {
        let blocks = ModelSpec { family: Family::Blocks, part_norms: Some(2), ..spec() };
        let (own, blocks) = (model(spec()).expect("valid"), model(blocks).expect("valid"));
        assert_eq!(own.graph(), blocks.graph());
        // Four normalisations, and no biases: of queries, keys, values and output, and of the feed-forward part.
        let products = 2 * 32 * 4 * 12 + 2 * 32 * 2 * 12 + 3 * 32 * 128;
        assert_eq!(own.graph().layer(1).parameters(Sharing::WHOLE), 4 * 32 + products);
    }

    #[test]
    fn every_place_of_dropout_is_counted_for_itself() {
        use crate::families::DropoutSpec::Share;
        let masks = |spec: ModelSpec| {
            let graph = model(spec).expect("valid").graph();
            [0, 1].map(|layer| graph.layer(layer).stored(1, Sharing::WHOLE).masks)
        };
        assert_eq!(masks(spec()), [0, 0]);
        assert_eq!(masks(ModelSpec { embedding_dropout: Some(Share(0.1)), ..spec() }), [16 * 32, 0]);
        assert_eq!(masks(ModelSpec { attention_dropout: Some(Share(0.1)), ..spec() }), [0, 4 * 16 * 16]);
        let residual = ModelSpec { dropout: Some(Share(0.1)), embedding_dropout: Some(Share(0.0)), ..spec() };
        let none_in_attention = ModelSpec { attention_dropout: Some(Share(0.0)), ..residual };
        assert_eq!(masks(none_in_attention), [0, 2 * 16 * 32]);
    }

    #[test]
    fn fields_out_of_range_are_refused() {
        for (spec, sentence) in [
            (ModelSpec { score_cap: Some(0.0), ..spec() }, "`score_cap` is 0, but it must be above 0"),
            (ModelSpec { logit_cap: Some(-3.0), ..spec() }, "`logit_cap` is -3, but it must be above 0"),
            (ModelSpec { query_scalar: Some(0), ..spec() }, "`query_scalar` is 0, but it must be from 1 to"),
            (ModelSpec { kv_heads: Some(3), ..spec() }, "`kv_heads` is 3, but it must divide the 4 heads"),
            (ModelSpec { window: None, ..spec() }, "`window` is missing: `window_blocks` says where it holds"),
            (ModelSpec { window_blocks: Some(vec![3]), ..spec() }, "`window_blocks` is 3, but it must be from 0 to 2"),
            (ModelSpec { qkv_bias: Some(true), ..spec() }, "family `gemma2` has no field `qkv_bias`"),
        ] {
            let error = model(spec).expect_err("refused").to_string();
            assert!(error.contains(sentence), "{error}");
        }
    }
}
