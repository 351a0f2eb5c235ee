//! Models from the `config.json` of Hugging Face transformers.
//!
//! # Source
//!
//! Names and defaults of fields: the configuration classes of Hugging Face transformers 5.23.

mod write;

pub use write::to_hugging_face;

use crate::families::Family;
use crate::families::{BlockKind, HeadKind, ModelSpec};
use serde_json::{Map, Value};
use std::fmt::Display;
use trainyard_units::{Invalid, similar};

/// The kinds of configuration that are read.
const KNOWN: [&str; 9] = ["gpt2", "llama", "mistral", "mixtral", "bert", "roberta", "t5", "vit", "resnet"];

/// Returns the model that the text of a `config.json` describes, called `name`. Its dimensions are checked when a
/// [`crate::Model`] is made of it; one sample has as many tokens as the model has positions.
///
/// # Errors
///
/// When the text is not such a configuration, lacks a field, or asks for what is not built.
pub fn from_hugging_face(text: &str, name: &str) -> Result<ModelSpec, Invalid> {
    let no_config = |sentence: String| {
        Invalid::whole(sentence).with_hint("it is the file `config.json` beside the weights of a checkpoint")
    };
    let value: Value =
        serde_json::from_str(text).map_err(|error| no_config(format!("the configuration is not JSON: {error}")))?;
    let Value::Object(fields) = value else {
        return Err(no_config("the configuration must be a JSON object with the field `model_type`".into()));
    };
    let model_type = model_type(&fields)?;
    let config = Config { fields: &fields, model_type, name };
    match model_type {
        "gpt2" => config.gpt2(),
        "bert" | "roberta" => config.bert(),
        "t5" => config.t5(),
        "vit" => config.vit(),
        "resnet" => config.resnet(),
        _ => config.llama(),
    }
}

/// Returns the name that a `config.json` gives its model, `gpt2` of `openai-community/gpt2`: where it was loaded from,
/// without the folders before it.
pub fn hugging_face_name(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    let stated = value.get("_name_or_path")?.as_str()?.trim();
    let last = stated.rsplit(['/', '\\']).find(|part| !part.is_empty())?;
    (!matches!(last, "." | "..")).then(|| last.to_owned())
}

/// Returns the known model type that `model_type` names, or the start of the first of `architectures`, as in
/// `LlamaForCausalLM`.
fn model_type(fields: &Map<String, Value>) -> Result<&'static str, Invalid> {
    let text = |value: &Value| value.as_str().map(str::to_lowercase);
    let stated = match fields.get("model_type") {
        None | Some(Value::Null) => None,
        Some(value) => Some(text(value).ok_or_else(|| wrong("model_type", value, "a text"))?),
    };
    let architecture = || fields.get("architectures")?.get(0).and_then(text);
    let other = "a model may also be described by a TOML file with its family and dimensions";
    let Some(found) = stated.or_else(architecture) else {
        let sentence = "the configuration has neither `model_type` nor `architectures`";
        return Err(Invalid::whole(sentence).with_hint(other));
    };
    let exact = KNOWN.into_iter().find(|known| *known == found);
    let leading = || {
        let rest = |known: &&str| {
            found
                .strip_prefix(known)
                .is_some_and(|rest| ["for", "model", "lmhead"].iter().any(|word| rest.starts_with(word)))
        };
        KNOWN.into_iter().find(rest)
    };
    exact.or_else(leading).ok_or_else(|| {
        let meant = similar(&found, KNOWN).map(|similar| format!("did you mean `{similar}`?"));
        let known = KNOWN.join(", ");
        Invalid::whole(format!("the model type `{found}` is not known; known are {known}"))
            .with_hint(meant.unwrap_or_else(|| other.into()))
    })
}

/// Advice where a field is absent, or holds what transformers does not write.
const WHOLE_FILE: &str = "transformers writes every field when it saves a checkpoint; take that file whole";

fn wrong(field: &str, value: &Value, expected: &str) -> Invalid {
    Invalid::value(field, shortened(value), expected).with_hint(WHOLE_FILE)
}

fn unsupported(field: &str, found: impl Display, allowed: &str) -> Invalid {
    Invalid::breaks(field, found, format!("only {allowed} is built"))
        .with_hint("a TOML file with the family and dimensions describes what comes near")
}

/// Returns a value as text that fits into a message.
fn shortened(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        other => other.to_string().chars().take(40).collect(),
    }
}

/// The fields of one configuration. A field that is null is absent.
struct Config<'a> {
    fields: &'a Map<String, Value>,
    model_type: &'static str,
    name: &'a str,
}

impl Config<'_> {
    /// Returns the value of the first of several names for the same field.
    fn get(&self, names: &[&'static str]) -> Option<(&'static str, &Value)> {
        names.iter().find_map(|name| {
            let value = self.fields.get(*name).filter(|value| !value.is_null())?;
            Some((*name, value))
        })
    }

    fn missing(&self, field: &str) -> Invalid {
        Invalid::missing(field, format!("model type `{}` needs it", self.model_type)).with_hint(WHOLE_FILE)
    }

    fn count(&self, names: &[&'static str]) -> Result<Option<u64>, Invalid> {
        let Some((name, value)) = self.get(names) else { return Ok(None) };
        value.as_u64().map(Some).ok_or_else(|| wrong(name, value, "a whole number, at least 0"))
    }

    fn needed(&self, names: &[&'static str]) -> Result<Option<u64>, Invalid> {
        match self.count(names)? {
            None => Err(self.missing(names[0])),
            count => Ok(count),
        }
    }

    fn depth(&self, names: &[&'static str]) -> Result<Option<u32>, Invalid> {
        self.needed(names)?.map(|count| small(names[0], count)).transpose()
    }

    fn number(&self, name: &'static str) -> Result<Option<f64>, Invalid> {
        let Some((name, value)) = self.get(&[name]) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| wrong(name, value, "a number"))
    }

    /// Returns the base of rotary positions; transformers writes it as a field of its own until version 4, among the
    /// parameters of the rotation since.
    fn rotary_base(&self) -> Result<f64, Invalid> {
        let stated = self.get(&["rope_parameters"]).and_then(|(_, value)| value.get("rope_theta"));
        match stated {
            Some(value) => value.as_f64().ok_or_else(|| wrong("rope_theta", value, "a number")),
            None => Ok(self.number("rope_theta")?.unwrap_or(10_000.0)),
        }
    }

    fn flag(&self, name: &'static str) -> Result<Option<bool>, Invalid> {
        let Some((name, value)) = self.get(&[name]) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| wrong(name, value, "true or false"))
    }

    fn text(&self, name: &'static str) -> Result<Option<&str>, Invalid> {
        let Some((name, value)) = self.get(&[name]) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| wrong(name, value, "a text"))
    }

    fn counts(&self, name: &'static str) -> Result<Vec<u64>, Invalid> {
        let Some((name, value)) = self.get(&[name]) else {
            return Err(self.missing(name));
        };
        let counts = value.as_array().and_then(|items| items.iter().map(Value::as_u64).collect());
        counts.ok_or_else(|| wrong(name, value, "a list of whole numbers"))
    }

    /// A flag that must have this value where it is set.
    fn only(&self, field: &'static str, value: bool, allowed: &'static str) -> Result<(), Invalid> {
        match self.flag(field)? {
            Some(found) if found != value => Err(unsupported(field, found, allowed)),
            _ => Ok(()),
        }
    }

    fn architecture(&self) -> &str {
        self.fields.get("architectures").and_then(|list| list.get(0)).and_then(Value::as_str).unwrap_or_default()
    }

    fn spec(&self, family: Family) -> ModelSpec {
        ModelSpec::new(self.name, family)
    }

    fn gpt2(&self) -> Result<ModelSpec, Invalid> {
        self.only("tie_word_embeddings", true, "a head that is tied to the token table")?;
        Ok(ModelSpec {
            layers: self.depth(&["n_layer", "num_hidden_layers"])?,
            hidden: self.needed(&["n_embd", "hidden_size"])?,
            heads: self.needed(&["n_head", "num_attention_heads"])?,
            ffn: self.count(&["n_inner", "intermediate_size"])?,
            vocab: self.needed(&["vocab_size"])?,
            seq_len: self.needed(&["n_positions", "max_position_embeddings", "n_ctx"])?,
            ..self.spec(Family::Gpt)
        })
    }

    fn llama(&self) -> Result<ModelSpec, Invalid> {
        self.only("attention_bias", false, "attention without biases")?;
        self.only("mlp_bias", false, "feed-forward parts without biases")?;
        let is_mixtral = self.model_type == "mixtral";
        Ok(ModelSpec {
            layers: self.depth(&["num_hidden_layers"])?,
            hidden: self.needed(&["hidden_size"])?,
            heads: self.needed(&["num_attention_heads"])?,
            kv_heads: self.count(&["num_key_value_heads"])?,
            head_width: self.count(&["head_dim"])?,
            ffn: self.needed(&["intermediate_size"])?,
            vocab: self.needed(&["vocab_size"])?,
            seq_len: self.needed(&["max_position_embeddings"])?,
            window: if self.model_type == "llama" { None } else { self.count(&["sliding_window"])? },
            rotary_base: Some(self.rotary_base()?),
            norm_epsilon: Some(self.number("rms_norm_eps")?.unwrap_or(1e-6)),
            tied_head: self.flag("tie_word_embeddings")?,
            experts: if is_mixtral { self.needed(&["num_local_experts"])? } else { None },
            experts_per_token: if is_mixtral { self.needed(&["num_experts_per_tok"])? } else { None },
            ..self.spec(Family::Llama)
        })
    }

    fn bert(&self) -> Result<ModelSpec, Invalid> {
        let is_roberta = self.model_type == "roberta";
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

    fn t5(&self) -> Result<ModelSpec, Invalid> {
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

    fn vit(&self) -> Result<ModelSpec, Invalid> {
        self.only("qkv_bias", true, "attention with biases")?;
        let is_encoder = self.architecture().ends_with("ViTModel");
        Ok(ModelSpec {
            layers: self.depth(&["num_hidden_layers"])?,
            hidden: self.needed(&["hidden_size"])?,
            heads: self.needed(&["num_attention_heads"])?,
            ffn: self.needed(&["intermediate_size"])?,
            image_size: self.needed(&["image_size"])?,
            patch_size: self.needed(&["patch_size"])?,
            channels: self.count(&["num_channels"])?,
            head: Some(if is_encoder { HeadKind::Pooler } else { HeadKind::Classifier }),
            classes: if is_encoder { None } else { self.labels()? },
            ..self.spec(Family::Vit)
        })
    }

    fn resnet(&self) -> Result<ModelSpec, Invalid> {
        self.only("downsample_in_first_stage", false, "a first stage without stride")?;
        self.only("downsample_in_bottleneck", false, "a stride in the 3 × 3 convolution")?;
        let block = match self.text("layer_type")? {
            None | Some("bottleneck") => BlockKind::Bottleneck,
            Some("basic") => BlockKind::Basic,
            Some(found) => return Err(unsupported("layer_type", format!("`{found}`"), "`basic` or `bottleneck`")),
        };
        let depths = self.counts("depths")?.into_iter().map(|depth| small("depths", depth));
        Ok(ModelSpec {
            depths: Some(depths.collect::<Result<_, _>>()?),
            widths: Some(self.counts("hidden_sizes")?),
            block: Some(block),
            base_channels: self.count(&["embedding_size"])?,
            channels: self.count(&["num_channels"])?,
            classes: self.labels()?,
            ..self.spec(Family::ResNet)
        })
    }

    /// Classes: the entries of `id2label`, `num_labels`, or the two that transformers assume.
    fn labels(&self) -> Result<Option<u64>, Invalid> {
        match self.get(&["id2label"]) {
            Some((_, Value::Object(labels))) => Ok(Some(labels.len() as u64)),
            Some((name, other)) => Err(wrong(name, other, "an object")),
            None => Ok(Some(self.count(&["num_labels"])?.unwrap_or(2))),
        }
    }
}

fn small(field: &'static str, count: u64) -> Result<u32, Invalid> {
    u32::try_from(count).map_err(|_| wrong(field, &count.into(), "a whole number below 4294967296"))
}
