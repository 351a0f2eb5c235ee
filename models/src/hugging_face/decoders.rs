//! Decoders of text without experts.

use super::config::{Config, unsupported, wrong};
use crate::families::{Family, FeedForward, HeadKind, ModelSpec, Norm, PositionKind, QueryKeyNorm};
use serde_json::Value;
use trainyard_units::Invalid;

// The names under which types of configuration have the same dimension, the usual one first.
const LAYERS: &[&str] = &["num_hidden_layers", "n_layer", "n_layers", "num_layers"];
const HIDDEN: &[&str] = &["hidden_size", "n_embd", "d_model", "n_embed", "dim"];
const HEADS: &[&str] = &["num_attention_heads", "n_head", "n_heads", "num_heads"];
const FFN: &[&str] = &["intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "hidden_dim"];
const TOKENS: &[&str] = &["max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx"];

/// The shares of what is added to the residual stream that are dropped out, and those of weights of attention.
const DROPOUTS: &[&str] =
    &["hidden_dropout", "resid_pdrop", "resid_dropout", "residual_dropout", "dropout", "hidden_dropout_prob"];
const ATTENTION_DROPOUTS: &[&str] = &["attention_dropout", "attn_pdrop", "attention_probs_dropout_prob"];

/// Tokens of a sample where a configuration says nothing of positions, because nothing in the model depends on them: those
/// that BLOOM, Falcon and Mamba-2 were trained on.
const TOKENS_ASSUMED: u64 = 2048;

impl Config<'_> {
    pub(super) fn gpt2(&self) -> Result<ModelSpec, Invalid> {
        self.only("tie_word_embeddings", true, "a head that is tied to the token table")?;
        Ok(ModelSpec {
            layers: self.depth(&["n_layer", "num_hidden_layers"])?,
            hidden: self.needed(&["n_embd", "hidden_size"])?,
            heads: self.needed(&["n_head", "num_attention_heads"])?,
            ffn: self.count(&["n_inner", "intermediate_size"])?,
            vocab: self.needed(&["vocab_size"])?,
            seq_len: self.needed(&["n_positions", "max_position_embeddings", "n_ctx"])?,
            dropout: Some(self.dropped(&["resid_pdrop"], 0.1)?),
            attention_dropout: Some(self.dropped(&["attn_pdrop"], 0.1)?),
            embedding_dropout: Some(self.dropped(&["embd_pdrop"], 0.1)?),
            ..self.spec(Family::Gpt)
        })
    }

    /// The family of its own if nothing besides is asked for, which is what the executor trains.
    pub(super) fn llama(&self) -> Result<ModelSpec, Invalid> {
        let blocks = self.decoder(false)?;
        let (attention_bias, ffn_bias) = (self.flag("attention_bias")?, self.flag("mlp_bias")?);
        let is_mixtral = self.model_type == "mixtral";
        let common = ModelSpec {
            ffn: self.needed(&["intermediate_size"])?,
            seq_len: self.needed(&["max_position_embeddings"])?,
            window: if self.model_type == "llama" { None } else { self.window()? },
            tied_head: self.flag("tie_word_embeddings")?,
            experts: if is_mixtral { self.needed(&["num_local_experts"])? } else { None },
            experts_per_token: if is_mixtral { self.needed(&["num_experts_per_tok"])? } else { None },
            ..blocks
        };
        if attention_bias == Some(true) || ffn_bias == Some(true) {
            return Ok(ModelSpec { qkv_bias: attention_bias, ffn_bias, ..common });
        }
        Ok(as_llama(common))
    }

    pub(super) fn qwen2(&self) -> Result<ModelSpec, Invalid> {
        let decoder = self.decoder(false)?;
        Ok(as_llama(self.windowed(ModelSpec { qkv_bias: Some(true), output_bias: Some(false), ..decoder })?))
    }

    pub(super) fn qwen3(&self) -> Result<ModelSpec, Invalid> {
        let normed = ModelSpec { query_key_norm: Some(QueryKeyNorm::Head), ..self.decoder(false)? };
        let attention_bias = self.flag("attention_bias")?;
        let spec = self.windowed(ModelSpec { qkv_bias: attention_bias, ..normed })?;
        Ok(if attention_bias == Some(true) { spec } else { as_llama(spec) })
    }

    /// Adds the window of Qwen, which holds from some block on and only if another field says so.
    pub(super) fn windowed(&self, spec: ModelSpec) -> Result<ModelSpec, Invalid> {
        if self.flag("use_sliding_window")? != Some(true) {
            return Ok(spec);
        }
        let from = self.count(&["max_window_layers"])?.unwrap_or(28);
        self.with_window(ModelSpec { window: self.window_or(4096)?, ..spec }, |block| u64::from(block) >= from)
    }

    pub(super) fn gemma(&self) -> Result<ModelSpec, Invalid> {
        self.without("use_bidirectional_attention", "attention to earlier tokens")?;
        let spec = self.decoder(true)?;
        Ok(ModelSpec {
            head_width: Some(spec.head_width.unwrap_or(256)),
            qkv_bias: self.flag("attention_bias")?,
            ..spec
        })
    }

    fn gemma_with_window(&self) -> Result<ModelSpec, Invalid> {
        Ok(ModelSpec { part_norms: Some(2), window: self.window_or(4096)?, ..self.gemma()? })
    }

    pub(super) fn gemma2(&self) -> Result<ModelSpec, Invalid> {
        let [score_cap, logit_cap] =
            [("attn_logit_softcapping", 50.0), ("final_logit_softcapping", 30.0)].map(|(name, assumed)| {
                if self.fields.contains_key(name) { self.number(name) } else { Ok(Some(assumed)) }
            });
        let spec = ModelSpec { score_cap: score_cap?, logit_cap: logit_cap?, ..self.gemma_with_window()? };
        let gated_by_tanh = self.text("hidden_activation")?.is_none_or(|name| name == "gelu_pytorch_tanh");
        let spec = self.with_window(spec, |block| block % 2 == 0)?;
        if spec.head.is_some() || spec.qkv_bias == Some(true) || !gated_by_tanh {
            return Ok(spec);
        }
        Ok(ModelSpec {
            query_scalar: self.count(&["query_pre_attn_scalar"])?.or(Some(256)),
            dropout: None,
            qkv_bias: None,
            part_norms: None,
            ..of_own_family(spec, Family::Gemma2)
        })
    }

    pub(super) fn gemma3(&self) -> Result<ModelSpec, Invalid> {
        let every = self.count(&["sliding_window_pattern", "_sliding_window_pattern"])?.unwrap_or(6).max(1);
        let spec = ModelSpec {
            query_key_norm: Some(QueryKeyNorm::Head),
            score_cap: self.number("attn_logit_softcapping")?,
            logit_cap: self.number("final_logit_softcapping")?,
            ..self.gemma_with_window()?
        };
        self.with_window(spec, |block| !(u64::from(block) + 1).is_multiple_of(every))
    }

    pub(super) fn phi(&self) -> Result<ModelSpec, Invalid> {
        let spec = self.smooth(self.decoder(false)?)?;
        let normed = self.flag("qk_layernorm")? == Some(true);
        Ok(ModelSpec {
            parallel_norms: Some(1),
            query_key_norm: normed.then_some(QueryKeyNorm::Head),
            rotary_width: self.rotary_width(&spec, 0.5)?,
            head_bias: spec.head.is_none().then_some(true).or(spec.head_bias),
            ..self.biased(spec, true)
        })
    }

    pub(super) fn phi3(&self) -> Result<ModelSpec, Invalid> {
        let spec = self.decoder(false)?;
        Ok(ModelSpec { window: self.window()?, rotary_width: self.rotary_width(&spec, 1.0)?, ..spec })
    }

    pub(super) fn gpt_neox(&self) -> Result<ModelSpec, Invalid> {
        let spec = self.smooth(self.decoder(false)?)?;
        let parallel = self.flag("use_parallel_residual")?.unwrap_or(true);
        let attention_bias = self.flag("attention_bias")?.unwrap_or(true);
        let rotary_width = self.rotary_width(&spec, 0.25)?;
        let spec = ModelSpec { parallel_norms: parallel.then_some(2), rotary_width, ..spec };
        let is_gelu = self.text("hidden_act")?.is_none_or(|name| name == "gelu");
        let is_grouped = spec.kv_heads.is_some() || spec.head_width.is_some();
        if spec.head.is_some() || !attention_bias || !is_gelu || is_grouped {
            let (qkv_bias, output_bias) = (Some(attention_bias), Some(attention_bias));
            return Ok(ModelSpec { qkv_bias, output_bias, ..self.biased(spec, true) });
        }
        Ok(ModelSpec { norm: None, feed_forward: None, ..of_own_family(spec, Family::GptNeox) })
    }

    pub(super) fn gptj(&self) -> Result<ModelSpec, Invalid> {
        let spec = self.smooth(self.decoder(false)?)?;
        Ok(ModelSpec {
            parallel_norms: Some(1),
            rotary_width: self.count(&["rotary_dim"])?,
            ffn_bias: Some(true),
            head_bias: spec.head.is_none().then_some(true).or(spec.head_bias),
            ..spec
        })
    }

    pub(super) fn gpt_neo(&self) -> Result<ModelSpec, Invalid> {
        let spec = self.smooth(self.decoder(true)?)?;
        let local = self.local_blocks()?;
        Ok(ModelSpec {
            position: Some(PositionKind::Learned),
            positions: spec.seq_len,
            output_bias: Some(true),
            ffn_bias: Some(true),
            window: if local.is_empty() { None } else { Some(self.count(&["window_size"])?.unwrap_or(256)) },
            window_blocks: (!local.is_empty()).then_some(local),
            ..spec
        })
    }

    /// Returns the blocks of GPT-Neo whose attention is local: a list has a word for each block, or, in older files, a
    /// pattern of words and how often it is repeated.
    fn local_blocks(&self) -> Result<Vec<u32>, Invalid> {
        let words: Vec<&Value> = match (self.get(&["attention_layers"]), self.get(&["attention_types"])) {
            (Some((name, list)), _) => list.as_array().ok_or_else(|| wrong(name, list, "a list"))?.iter().collect(),
            (None, Some((name, list))) => repeated(list)
                .ok_or_else(|| wrong(name, list, "a list of patterns, each with the number of its repetitions"))?,
            (None, None) => Vec::new(),
        };
        Ok((0..).zip(words).filter(|(_, word)| word.as_str() == Some("local")).map(|(block, _)| block).collect())
    }

    pub(super) fn opt(&self) -> Result<ModelSpec, Invalid> {
        let spec = self.smooth(self.decoder(true)?)?;
        let last_norm = self.flag("do_layer_norm_before")?.unwrap_or(true)
            && !self.flag("_remove_final_layer_norm")?.unwrap_or(false);
        let weights = self.flag("layer_norm_elementwise_affine")?.unwrap_or(true);
        Ok(ModelSpec {
            position: Some(PositionKind::Learned),
            // Positions are counted from behind the padding token, so that the first two rows are never used.
            positions: spec.seq_len.map(|tokens| tokens.saturating_add(2)),
            norm: Some(if weights { Norm::Layer } else { Norm::LayerWithoutWeights }),
            final_norm: Some(last_norm),
            embedding_width: self.count(&["word_embed_proj_dim"])?,
            ..self.biased(spec, self.flag("enable_bias")?.unwrap_or(true))
        })
    }

    pub(super) fn bloom(&self) -> Result<ModelSpec, Invalid> {
        let spec = self.smooth(self.decoder(true)?)?;
        Ok(ModelSpec { position: Some(PositionKind::Alibi), embedding_norm: Some(true), ..self.biased(spec, true) })
    }

    pub(super) fn falcon(&self) -> Result<ModelSpec, Invalid> {
        let spec = self.smooth(self.decoder(true)?)?;
        let recent = self.flag("new_decoder_architecture")?.unwrap_or(false);
        let parallel = recent || self.flag("parallel_attn")?.unwrap_or(true);
        let norms = self.count(&["num_ln_in_parallel_attn"])?.unwrap_or(if recent { 2 } else { 1 });
        let kv_heads = match (recent, self.flag("multi_query")?.unwrap_or(true)) {
            (true, _) => self.count(&["num_kv_heads"])?,
            (false, true) => Some(1),
            (false, false) => None,
        };
        let alibi = self.flag("alibi")?.unwrap_or(false);
        Ok(ModelSpec {
            kv_heads,
            position: Some(if alibi { PositionKind::Alibi } else { PositionKind::Rotary }),
            parallel_norms: parallel.then_some(if recent { norms } else { 1 }),
            ..self.biased(spec, self.flag("bias")?.unwrap_or(false))
        })
    }

    pub(super) fn mpt(&self) -> Result<ModelSpec, Invalid> {
        self.only("no_bias", true, "products and normalisations without biases")?;
        if let Some(attention) = self.part("attn_config")? {
            attention.only("alibi", true, "attention with ALiBi")?;
            for field in ["prefix_lm", "qk_ln", "clip_qkv"] {
                attention.without(field, "attention without it")?;
            }
        }
        if let Some(ratio) = self.count(&["expansion_ratio"])?.filter(|ratio| *ratio != 4) {
            return Err(unsupported("expansion_ratio", ratio, "a ratio of 4, whatever transformers reads,"));
        }
        let spec = self.smooth(self.decoder(true)?)?;
        Ok(ModelSpec { norm: Some(Norm::LayerWithoutShift), position: Some(PositionKind::Alibi), ..spec })
    }

    pub(super) fn stablelm(&self) -> Result<ModelSpec, Invalid> {
        self.without("qk_layernorm", "attention without normalised heads")?;
        let spec = self.decoder(false)?;
        let parallel = self.flag("use_parallel_residual")?.unwrap_or(false);
        Ok(ModelSpec {
            norm: Some(Norm::Layer),
            parallel_norms: parallel.then_some(1),
            rotary_width: self.rotary_width(&spec, 0.25)?,
            qkv_bias: self.flag("use_qkv_bias")?,
            output_bias: Some(false),
            ..spec
        })
    }

    pub(super) fn starcoder2(&self) -> Result<ModelSpec, Invalid> {
        let spec = self.smooth(self.decoder(true)?)?;
        Ok(ModelSpec { window: self.window()?, ..self.biased(spec, self.flag("use_bias")?.unwrap_or(true)) })
    }

    pub(super) fn olmo(&self) -> Result<ModelSpec, Invalid> {
        self.without("clip_qkv", "attention whose queries, keys and values are not clipped")?;
        Ok(ModelSpec {
            norm: Some(Norm::LayerWithoutWeights),
            qkv_bias: self.flag("attention_bias")?,
            ..self.decoder(false)?
        })
    }

    pub(super) fn olmo2(&self) -> Result<ModelSpec, Invalid> {
        Ok(ModelSpec {
            query_key_norm: Some(QueryKeyNorm::Features),
            qkv_bias: self.flag("attention_bias")?,
            ..self.decoder(false)?
        })
    }

    pub(super) fn cohere(&self) -> Result<ModelSpec, Invalid> {
        let normed = self.flag("use_qk_norm")? == Some(true);
        Ok(ModelSpec {
            norm: Some(Norm::LayerWithoutShift),
            parallel_norms: Some(1),
            query_key_norm: normed.then_some(QueryKeyNorm::Features),
            qkv_bias: self.flag("attention_bias")?,
            ..self.decoder(true)?
        })
    }

    pub(super) fn granite(&self) -> Result<ModelSpec, Invalid> {
        Ok(ModelSpec {
            qkv_bias: self.flag("attention_bias")?,
            ffn_bias: self.flag("mlp_bias")?,
            ..self.decoder(false)?
        })
    }

    /// No position is in the model, which was trained on samples of 2 048 tokens.
    pub(super) fn mamba2(&self) -> Result<ModelSpec, Invalid> {
        self.without("use_bias", "products without biases")?;
        self.only("use_conv_bias", true, "a convolution with a bias")?;
        match self.architecture() {
            "" | "Mamba2ForCausalLM" => {}
            other => return Err(unsupported("architectures", format!("`{other}`"), "`Mamba2ForCausalLM`")),
        }
        Ok(ModelSpec {
            layers: self.depth(LAYERS)?,
            hidden: self.needed(HIDDEN)?,
            heads: self.needed(&["num_heads"])?,
            head_width: self.needed(&["head_dim"])?,
            groups: self.needed(&["n_groups"])?,
            state_width: self.needed(&["state_size"])?,
            chunk: self.count(&["chunk_size"])?,
            taps: self.count(&["conv_kernel"])?,
            vocab: self.needed(&["vocab_size"])?,
            seq_len: Some(TOKENS_ASSUMED),
            tied_head: Some(self.flag("tie_word_embeddings")?.unwrap_or(false)),
            ..self.spec(Family::Mamba2)
        })
    }

    /// Returns what all decoders have in common. A head is tied as `tied` says where nothing is written, which transformers
    /// leaves out where it is what it assumes.
    pub(super) fn decoder(&self, tied: bool) -> Result<ModelSpec, Invalid> {
        let head = match self.architecture() {
            name if name.ends_with("ForSequenceClassification") => Some(HeadKind::Classifier),
            name if name.is_empty() || name.ends_with("ForCausalLM") || name.ends_with("LMHeadModel") => None,
            // The table is the head.
            name if name.ends_with("Model") && self.flag("tie_word_embeddings")?.unwrap_or(tied) => None,
            other => {
                let built = "the prediction of next tokens (…ForCausalLM) and classes (…ForSequenceClassification)";
                return Err(unsupported("architectures", format!("`{other}`"), built));
            }
        };
        let needs_positions = !matches!(self.model_type, "bloom" | "falcon");
        let tokens = self.count(TOKENS)?;
        Ok(ModelSpec {
            rotary_base: Some(self.rotary_base()?),
            rotary_scaling: self.rotary_scaling()?,
            norm_epsilon: Some(self.number("rms_norm_eps")?.unwrap_or(1e-6)),
            head,
            classes: if head.is_some() { self.labels()? } else { None },
            head_bias: head.map(|_| false),
            seq_len: if needs_positions { self.needed(TOKENS)? } else { tokens.or(Some(TOKENS_ASSUMED)) },
            kv_heads: self.count(&["num_key_value_heads"])?,
            head_width: self.count(&["head_dim"])?,
            tied_head: Some(head.is_none() && self.flag("tie_word_embeddings")?.unwrap_or(tied)),
            ..self.stack()?
        })
    }

    /// Returns the dimensions that every stack of blocks has.
    pub(super) fn stack(&self) -> Result<ModelSpec, Invalid> {
        Ok(ModelSpec {
            layers: self.depth(LAYERS)?,
            hidden: self.needed(HIDDEN)?,
            heads: self.needed(HEADS)?,
            ffn: self.count(FFN)?,
            vocab: self.needed(&["vocab_size"])?,
            dropout: Some(self.dropped(DROPOUTS, 0.0)?),
            attention_dropout: Some(self.dropped(ATTENTION_DROPOUTS, 0.0)?),
            ..self.spec(Family::Blocks)
        })
    }

    /// Adds what decoders have whose feed-forward parts have no gate: the function between their products, and layer
    /// normalisation.
    pub(super) fn smooth(&self, spec: ModelSpec) -> Result<ModelSpec, Invalid> {
        let mut names = ["activation_function", "hidden_act", "activation", "hidden_activation"].into_iter();
        let named = names.find_map(|name| self.text(name).transpose()).transpose()?;
        let is_relu = named == Some("relu");
        let feed_forward = if is_relu { FeedForward::Relu } else { FeedForward::Smooth };
        let mut epsilons = ["layer_norm_epsilon", "layer_norm_eps", "norm_epsilon"].into_iter();
        let epsilon = epsilons.find_map(|name| self.number(name).transpose()).transpose()?;
        let norm_epsilon = Some(epsilon.unwrap_or(1e-5));
        Ok(ModelSpec { norm: Some(Norm::Layer), norm_epsilon, feed_forward: Some(feed_forward), ..spec })
    }

    /// Adds biases to all products of blocks, or none.
    #[expect(clippy::unused_self, reason = "it reads as the other parts of a type do")]
    pub(super) fn biased(&self, spec: ModelSpec, bias: bool) -> ModelSpec {
        ModelSpec { qkv_bias: Some(bias), output_bias: Some(bias), ffn_bias: Some(bias), ..spec }
    }

    /// Returns the window of attention; older files write 0 where there is none.
    pub(super) fn window(&self) -> Result<Option<u64>, Invalid> {
        Ok(self.count(&["sliding_window"])?.filter(|window| *window > 0))
    }

    /// The same, with the window that transformers assumes where nothing is written.
    pub(super) fn window_or(&self, assumed: u64) -> Result<Option<u64>, Invalid> {
        if self.fields.contains_key("sliding_window") { self.window() } else { Ok(Some(assumed)) }
    }

    /// Restricts the window of a model to the blocks of which `layer_types` says so, or else to those that `assumed` names.
    pub(super) fn with_window(&self, spec: ModelSpec, assumed: impl Fn(u32) -> bool) -> Result<ModelSpec, Invalid> {
        let Some(window) = spec.window else { return Ok(spec) };
        let layers = spec.layers.unwrap_or(0).min(LISTED_MAX);
        let blocks: Vec<u32> = match self.get(&["layer_types"]) {
            None => (0..layers).filter(|block| assumed(*block)).collect(),
            Some((name, value)) => sliding(name, value, layers)?,
        };
        let some = !blocks.is_empty();
        Ok(ModelSpec { window: some.then_some(window), window_blocks: some.then_some(blocks), ..spec })
    }
}

/// Returns the same model as one of the family that is named after Llama, which the executor trains, if it is one.
fn as_llama(blocks: ModelSpec) -> ModelSpec {
    if blocks.head.is_some() || blocks.window_blocks.is_some() {
        return blocks;
    }
    let rotary_scaling = blocks.rotary_scaling.clone();
    ModelSpec { dropout: None, output_bias: None, rotary_scaling, ..of_own_family(blocks, Family::Llama) }
}

/// Returns a stack of blocks as a model of a family that the executor trains, with what it drops out.
fn of_own_family(blocks: ModelSpec, family: Family) -> ModelSpec {
    let dropout = blocks.dropout.filter(|share| share.drops());
    // What says nothing of its own has the share of the residual stream.
    let attention_dropout = blocks.attention_dropout.filter(|share| share.drops() || dropout.is_some());
    ModelSpec { family, dropout, attention_dropout, rotary_scaling: None, ..blocks }
}

/// Refuses the configuration of a model that reads images besides, whose part for text is one of its own.
pub(super) fn gemma3_with_images() -> Invalid {
    Invalid::whole("a model of type `gemma3` has a part for images, which is not built").with_hint(
        "its part for text alone is read: a file with the fields under `text_config` and \"model_type\": \"gemma3_text\"",
    )
}

/// Most blocks that are listed one by one; a model has no more.
const LISTED_MAX: u32 = 10_000;

/// Returns the blocks whose word in a list says that a window slides over them.
fn sliding(name: &'static str, value: &Value, layers: u32) -> Result<Vec<u32>, Invalid> {
    let words = value.as_array().ok_or_else(|| wrong(name, value, "a list"))?;
    if words.len() != layers as usize {
        let rule = format!("there are {layers} blocks");
        return Err(Invalid::breaks(name, format!("a list of {}", words.len()), rule));
    }
    let mut blocks = Vec::new();
    for (block, word) in (0..).zip(words) {
        match word.as_str() {
            Some("full_attention") => {}
            Some("sliding_attention") => blocks.push(block),
            _ => return Err(unsupported(name, word, "`full_attention` and `sliding_attention`")),
        }
    }
    Ok(blocks)
}

/// Returns the words of patterns, each as often as it is repeated.
fn repeated(list: &Value) -> Option<Vec<&Value>> {
    let mut words = Vec::new();
    for pattern in list.as_array()? {
        let [pattern, times] = pattern.as_array()?.as_slice() else { return None };
        let (pattern, times) = (pattern.as_array()?, times.as_u64()?.min(u64::from(LISTED_MAX)));
        for _ in 0..times {
            words.extend(pattern.iter().take(LISTED_MAX as usize));
            if words.len() > LISTED_MAX as usize {
                return None;
            }
        }
    }
    Some(words)
}
