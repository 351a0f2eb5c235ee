//! Which stacks of blocks the layers of Megatron Core's `GPTModel` can be.

use super::Blocks;
use crate::families::parts::{FeedForward, Norm};
use crate::families::{HeadKind, PositionKind, QueryKeyNorm};

impl Blocks {
    /// Returns the first field in which the model differs from what `GPTModel` can be told to be: a decoder with one
    /// normalisation in front of each part, rotary or learned positions and GELU or SwiGLU between its products.
    ///
    /// # Source
    ///
    /// NVIDIA Megatron-LM, core 0.16, `megatron/core/models/gpt/gpt_layer_specs.py`,
    /// `megatron/core/transformer/transformer_config.py` (experts with biases) and
    /// `megatron/core/transformer/moe/shared_experts.py`.
    pub(crate) fn beyond_gpt_layers(&self) -> Option<&'static str> {
        let fields = [
            ("causal", !self.causal),
            ("head", self.head != HeadKind::LanguageModel),
            ("type_vocab", self.type_vocab.is_some()),
            ("position", !matches!(self.position, PositionKind::Rotary | PositionKind::Learned)),
            ("distances", self.distances.is_some()),
            ("norm", !matches!(self.norm, Norm::Rms | Norm::Layer)),
            ("part_norms", self.part_norms > 1),
            ("parallel_norms", self.parallel_norms.is_some()),
            ("first_norm", !self.first_norm),
            ("final_norm", !self.final_norm),
            ("embedding_norm", self.embedding_norm),
            ("query_key_norm", self.query_key_norm == Some(QueryKeyNorm::Features)),
            ("output_bias", self.output_bias != self.ffn_bias),
            ("qkv_bias", self.ffn_bias && !self.qkv_bias),
            ("feed_forward", self.feed_forward == FeedForward::Relu),
            ("embedding_width", self.embedding_width != self.hidden),
            ("score_cap", self.score_cap.is_some()),
            ("logit_cap", self.logit_cap.is_some()),
            ("sinks", self.sinks),
            ("value_width", self.value_width != self.head_width && self.kv_rank.is_none()),
            ("head_bias", self.head_bias),
            ("head_norm", self.head_norm),
            ("expert_bias", self.expert_bias),
            ("ffn_bias", self.ffn_bias && self.experts.is_some()),
            ("shared_gate", self.shared_gate),
        ];
        fields.into_iter().find_map(|(field, differs)| differs.then_some(field))
    }
}
