//! Encoder-decoders.

use super::config::{Config, small, unsupported};
use crate::families::{Family, ModelSpec};
use trainyard_units::Invalid;

impl Config<'_> {
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

    pub(super) fn bart(&self) -> Result<ModelSpec, Invalid> {
        self.sequence_class(&["BartForConditionalGeneration", "BartModel"])?;
        if self.text("activation_function")? == Some("relu") {
            return Err(unsupported("activation_function", "`relu`", "a smooth function"));
        }
        let tokens = self.needed(&["max_position_embeddings"])?;
        Ok(ModelSpec {
            vocab: self.needed(&["vocab_size"])?,
            seq_len: tokens,
            // Positions are counted from behind the padding token, so that the first two rows are never used.
            positions: tokens.map(|tokens| tokens.saturating_add(2)),
            ..self.two_stacks(Family::Bart)?
        })
    }

    pub(super) fn whisper(&self) -> Result<ModelSpec, Invalid> {
        self.sequence_class(&["WhisperForConditionalGeneration", "WhisperModel"])?;
        let frames = self.needed(&["max_source_positions"])?.map(|positions| positions.saturating_mul(2));
        let positions = self.needed(&["max_target_positions"])?;
        Ok(ModelSpec {
            vocab: self.needed(&["vocab_size"])?,
            inputs: self.needed(&["num_mel_bins"])?,
            seq_len: frames,
            decoder_seq_len: positions,
            positions,
            ..self.two_stacks(Family::Whisper)?
        })
    }

    /// Returns the dimensions of an encoder and a decoder that are as wide as each other.
    fn two_stacks(&self, family: Family) -> Result<ModelSpec, Invalid> {
        self.only("tie_word_embeddings", true, "a head that is tied to the token table")?;
        for (field, other) in
            [("decoder_attention_heads", "encoder_attention_heads"), ("decoder_ffn_dim", "encoder_ffn_dim")]
        {
            let [own, other_value] = [field, other].map(|name| self.needed(&[name]));
            if let (Some(own), Some(value)) = (own?, other_value?)
                && own != value
            {
                return Err(unsupported(field, own, &format!("as many as `{other}`, {value},")));
            }
        }
        Ok(ModelSpec {
            layers: self.depth(&["encoder_layers", "num_hidden_layers"])?,
            decoder_layers: self.depth(&["decoder_layers"])?,
            hidden: self.needed(&["d_model", "hidden_size"])?,
            heads: self.needed(&["encoder_attention_heads"])?,
            ffn: self.needed(&["encoder_ffn_dim"])?,
            ..self.spec(family)
        })
    }

    /// Refuses a class that is none of these, the first of which is taken where none is named.
    fn sequence_class(&self, built: &[&str]) -> Result<(), Invalid> {
        match self.architecture() {
            name if name.is_empty() || built.contains(&name) => Ok(()),
            other => Err(unsupported("architectures", format!("`{other}`"), &format!("`{}`", built[0]))),
        }
    }
}
