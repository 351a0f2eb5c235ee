//! Encoders of text, and encoder-decoders.

use super::config::{Config, small, unsupported};
use crate::families::{Family, HeadKind, ModelSpec};
use trainyard_units::Invalid;

impl Config<'_> {
    pub(super) fn bert(&self) -> Result<ModelSpec, Invalid> {
        self.bert_alike(false)
    }

    pub(super) fn roberta(&self) -> Result<ModelSpec, Invalid> {
        self.bert_alike(true)
    }

    fn bert_alike(&self, is_roberta: bool) -> Result<ModelSpec, Invalid> {
        let positions = self.needed(&["max_position_embeddings"])?;
        // RoBERTa counts positions from behind the padding token, so that the first two are never used.
        let unused = if is_roberta { 2 } else { 0 };
        let head = match self.architecture() {
            name if name.ends_with("ForPreTraining") => HeadKind::Pretraining,
            name if name.ends_with("ForMaskedLM") => HeadKind::MaskedLanguageModel,
            name if name.ends_with("ForSequenceClassification") => HeadKind::Classifier,
            name if name.ends_with("Model") => HeadKind::Pooler,
            _ if is_roberta => HeadKind::MaskedLanguageModel,
            _ => HeadKind::Pretraining,
        };
        Ok(ModelSpec {
            layers: self.depth(&["num_hidden_layers"])?,
            hidden: self.needed(&["hidden_size"])?,
            heads: self.needed(&["num_attention_heads"])?,
            ffn: self.needed(&["intermediate_size"])?,
            vocab: self.needed(&["vocab_size"])?,
            type_vocab: self.count(&["type_vocab_size"])?,
            positions,
            seq_len: positions.map(|positions| positions.saturating_sub(unused)),
            head: Some(head),
            classes: if head == HeadKind::Classifier { self.labels()? } else { None },
            ..self.spec(Family::Bert)
        })
    }

    pub(super) fn t5(&self) -> Result<ModelSpec, Invalid> {
        let gated = match self.text("feed_forward_proj")? {
            None | Some("relu") => false,
            Some(gated) if gated.starts_with("gated-") => true,
            Some(found) => return Err(unsupported("feed_forward_proj", format!("`{found}`"), "`relu` or `gated-…`")),
        };
        let decoder_layers = self.count(&["num_decoder_layers"])?;
        Ok(ModelSpec {
            layers: self.depth(&["num_layers", "num_hidden_layers"])?,
            decoder_layers: decoder_layers.map(|count| small("num_decoder_layers", count)).transpose()?,
            hidden: self.needed(&["d_model", "hidden_size"])?,
            heads: self.needed(&["num_heads", "num_attention_heads"])?,
            head_width: self.needed(&["d_kv"])?,
            ffn: self.needed(&["d_ff"])?,
            gated: Some(gated),
            vocab: self.needed(&["vocab_size"])?,
            // Relative positions have no end; the checkpoints were trained on samples of 512 tokens.
            seq_len: Some(self.count(&["n_positions"])?.unwrap_or(512)),
            tied_head: self.flag("tie_word_embeddings")?,
            ..self.spec(Family::T5)
        })
    }
}
