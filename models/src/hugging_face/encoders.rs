//! Encoders of text.

use super::config::{Config, unsupported};
use crate::families::{Family, HeadKind, ModelSpec, Norm, PositionKind};
use trainyard_units::Invalid;

/// The classes of encoders that are built, in the words of a message.
const CLASSES: &str = "the prediction of masked words (…ForMaskedLM) and classes (…ForSequenceClassification)";

impl Config<'_> {
    pub(super) fn bert(&self) -> Result<ModelSpec, Invalid> {
        self.bert_alike(HeadKind::Pretraining, 0)
    }

    /// RoBERTa counts positions from behind the padding token, so that the first two are never used.
    pub(super) fn roberta(&self) -> Result<ModelSpec, Invalid> {
        self.bert_alike(HeadKind::MaskedLanguageModel, 2)
    }

    fn bert_alike(&self, assumed: HeadKind, unused: u64) -> Result<ModelSpec, Invalid> {
        let positions = self.needed(&["max_position_embeddings"])?;
        let head = match self.architecture() {
            "" => assumed,
            name if name.ends_with("ForPreTraining") => HeadKind::Pretraining,
            name if name.ends_with("ForMaskedLM") => HeadKind::MaskedLanguageModel,
            name if name.ends_with("ForSequenceClassification") => HeadKind::Classifier,
            name if name.ends_with("Model") => HeadKind::Pooler,
            other => {
                let built = format!("{CLASSES}, pre-training (…ForPreTraining) or the encoder alone (…Model)");
                return Err(unsupported("architectures", format!("`{other}`"), &built));
            }
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
            dropout: Some(self.dropped(&["hidden_dropout_prob"], 0.1)?),
            attention_dropout: Some(self.dropped(&["attention_probs_dropout_prob"], 0.1)?),
            ..self.spec(Family::Bert)
        })
    }

    pub(super) fn distilbert(&self) -> Result<ModelSpec, Invalid> {
        let spec = self.smooth(self.encoder()?)?;
        Ok(ModelSpec { position: Some(PositionKind::Learned), ..after_each_part(self.biased(spec, true)) })
    }

    pub(super) fn deberta(&self) -> Result<ModelSpec, Invalid> {
        let spec = self.smooth(self.encoder()?)?;
        for field in ["embedding_size", "pooler_hidden_size"] {
            if let Some(other) = self.count(&[field])?.filter(|width| spec.hidden != Some(*width)) {
                return Err(unsupported(field, other, "the width of the model itself"));
            }
        }
        if let Some(kernel) = self.count(&["conv_kernel_size"])?.filter(|kernel| *kernel > 0) {
            return Err(unsupported("conv_kernel_size", kernel, "an encoder without a convolution (0)"));
        }
        let learned = self.flag("position_biased_input")?.unwrap_or(true);
        Ok(ModelSpec {
            position: Some(if learned { PositionKind::Learned } else { PositionKind::None }),
            distances: self.distances()?,
            type_vocab: self.count(&["type_vocab_size"])?.filter(|kinds| *kinds > 0),
            ..after_each_part(self.biased(spec, true))
        })
    }

    /// Returns the rows of the table of distances of DeBERTa, if it has one: twice as many as there are buckets, or
    /// positions.
    fn distances(&self) -> Result<Option<u64>, Invalid> {
        if self.flag("relative_attention")? != Some(true) {
            return Ok(None);
        }
        self.only("share_att_key", true, "distances that are projected as tokens are (true)")?;
        if self.flag("share_att_key")?.is_none() {
            return Err(self.missing("share_att_key"));
        }
        let is = |field, words: [&str; 2]| {
            let written = self.get(&[field]).map(|(_, value)| value.to_string().to_lowercase()).unwrap_or_default();
            if words.iter().all(|word| written.contains(word)) {
                return Ok(());
            }
            Err(unsupported(field, if written.is_empty() { "missing" } else { &written }, &words.join(" with ")))
        };
        is("pos_att_type", ["c2p", "p2c"])?;
        is("norm_rel_ebd", ["layer_norm", "layer_norm"])?;
        let positive = |field| -> Result<Option<u64>, Invalid> {
            let number = self.number(field)?;
            Ok(number.filter(|number| *number >= 1.0).map(|number| number as u64))
        };
        let half = match (positive("position_buckets")?, positive("max_relative_positions")?) {
            (Some(buckets), _) => Some(buckets),
            (None, Some(positions)) => Some(positions),
            (None, None) => self.needed(&["max_position_embeddings"])?,
        };
        Ok(half.map(|half| half.saturating_mul(2)))
    }

    pub(super) fn modernbert(&self) -> Result<ModelSpec, Invalid> {
        let spec = self.encoder()?;
        let [norm_bias, attention_bias, ffn_bias, head_bias] =
            ["norm_bias", "attention_bias", "mlp_bias", "classifier_bias"].map(|name| self.flag(name));
        let (ffn_bias, head_bias) = (ffn_bias?.unwrap_or(false), head_bias?.unwrap_or(false));
        if ffn_bias != head_bias {
            return Err(unsupported("classifier_bias", head_bias, &format!("`mlp_bias`, {ffn_bias},")));
        }
        let every = self.count(&["global_attn_every_n_layers"])?.unwrap_or(3).max(1);
        let spec = ModelSpec {
            window: Some(self.count(&["local_attention"])?.unwrap_or(128)),
            norm: Some(if norm_bias? == Some(true) { Norm::Layer } else { Norm::LayerWithoutShift }),
            embedding_norm: Some(true),
            first_norm: Some(false),
            qkv_bias: attention_bias?,
            ffn_bias: Some(ffn_bias),
            head_norm: Some(true),
            head_bias: Some(
                spec.head != Some(HeadKind::MaskedLanguageModel) || self.flag("decoder_bias")? != Some(false),
            ),
            ..spec
        };
        self.with_window(spec, |block| !u64::from(block).is_multiple_of(every))
    }

    /// Returns what all encoders of chosen parts have in common.
    fn encoder(&self) -> Result<ModelSpec, Invalid> {
        let head = match self.architecture() {
            name if name.is_empty() || name.ends_with("ForMaskedLM") => HeadKind::MaskedLanguageModel,
            name if name.ends_with("ForSequenceClassification") => HeadKind::Classifier,
            other => return Err(unsupported("architectures", format!("`{other}`"), CLASSES)),
        };
        let classifies = head == HeadKind::Classifier;
        Ok(ModelSpec {
            causal: Some(false),
            seq_len: self.needed(&["max_position_embeddings"])?,
            head: Some(head),
            classes: if classifies { self.labels()? } else { None },
            tied_head: Some(!classifies && self.flag("tie_word_embeddings")?.unwrap_or(true)),
            ..self.stack()?
        })
    }
}

/// Normalisations behind each part, as in BERT: as many as in front, but for the first and the last.
fn after_each_part(spec: ModelSpec) -> ModelSpec {
    ModelSpec { embedding_norm: Some(true), final_norm: Some(false), ..spec }
}
