//! Models from the `config.json` of Hugging Face transformers.
//!
//! A type of model is a line of [`TYPES`] and a function that tells in which fields of a [`ModelSpec`] it differs from what
//! [`Config`] reads of every type of its kind.
//!
//! # Source
//!
//! Names and defaults of fields: the configuration classes of Hugging Face transformers 5.24, and of 4 where files of older
//! checkpoints have other ones.

mod config;
mod decoders;
mod encoders;
mod experts;
mod images;
mod sequences;
mod write;

pub use write::to_hugging_face;

use crate::families::ModelSpec;
use config::{Config, wrong};
use serde_json::{Map, Value};
use trainyard_documents::from_json;
use trainyard_units::{Invalid, slip};

/// Makes a specification of a configuration.
type Reader = fn(&Config) -> Result<ModelSpec, Invalid>;

/// The types of configuration that are read, and how.
const TYPES: &[(&str, Reader)] = &[
    ("gpt2", |config| config.gpt2()),
    ("llama", |config| config.llama()),
    ("mistral", |config| config.llama()),
    ("mixtral", |config| config.llama()),
    ("qwen2", |config| config.qwen2()),
    ("qwen3", |config| config.qwen3()),
    ("gemma", |config| config.gemma()),
    ("gemma2", |config| config.gemma2()),
    ("gemma3_text", |config| config.gemma3()),
    ("gemma3", |_| Err(decoders::gemma3_with_images())),
    ("phi", |config| config.phi()),
    ("phi3", |config| config.phi3()),
    ("gpt_neox", |config| config.gpt_neox()),
    ("gptj", |config| config.gptj()),
    ("gpt_neo", |config| config.gpt_neo()),
    ("opt", |config| config.opt()),
    ("bloom", |config| config.bloom()),
    ("falcon", |config| config.falcon()),
    ("mpt", |config| config.mpt()),
    ("stablelm", |config| config.stablelm()),
    ("starcoder2", |config| config.starcoder2()),
    ("olmo", |config| config.olmo()),
    ("olmo2", |config| config.olmo2()),
    ("cohere", |config| config.cohere()),
    ("granite", |config| config.granite()),
    ("qwen2_moe", |config| config.qwen2_moe()),
    ("qwen3_moe", |config| config.qwen3_moe()),
    ("deepseek_v2", |config| config.deepseek()),
    ("deepseek_v3", |config| config.deepseek()),
    ("gpt_oss", |config| config.gpt_oss()),
    ("mamba2", |config| config.mamba2()),
    ("bert", |config| config.bert()),
    ("roberta", |config| config.roberta()),
    ("xlm-roberta", |config| config.roberta()),
    ("distilbert", |config| config.distilbert()),
    ("deberta-v2", |config| config.deberta()),
    ("modernbert", |config| config.modernbert()),
    ("t5", |config| config.t5()),
    ("bart", |config| config.bart()),
    ("whisper", |config| config.whisper()),
    ("vit", |config| config.vit()),
    ("resnet", |config| config.resnet()),
    ("clip", |config| config.clip()),
    ("deit", |config| config.deit()),
    ("beit", |config| config.beit()),
    ("swin", |config| config.swin()),
    ("convnext", |config| config.convnext()),
];

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
    let value: Value = from_json(text).map_err(|error| no_config(format!("the configuration is not JSON: {error}")))?;
    let Value::Object(fields) = value else {
        return Err(no_config("the configuration must be a JSON object with the field `model_type`".into()));
    };
    let (model_type, read) = model_type(&fields)?;
    read(&Config { fields: &fields, model_type, name })
}

/// Returns the name that a `config.json` gives its model, `gpt2` of `openai-community/gpt2`: where it was loaded from,
/// without the folders before it.
pub fn hugging_face_name(text: &str) -> Option<String> {
    let value: Value = from_json(text).ok()?;
    let stated = value.get("_name_or_path")?.as_str()?.trim();
    let last = stated.rsplit(['/', '\\']).find(|part| !part.is_empty())?;
    (!matches!(last, "." | "..")).then(|| last.to_owned())
}

/// Returns the known type that `model_type` names, or the first of `architectures`, as in `LlamaForCausalLM`.
fn model_type(fields: &Map<String, Value>) -> Result<(&'static str, Reader), Invalid> {
    let text = |value: &Value| value.as_str().map(str::to_lowercase);
    let stated = match fields.get("model_type") {
        None | Some(Value::Null) => None,
        Some(value) => Some(text(value).ok_or_else(|| wrong("model_type", value, "a text"))?),
    };
    let architecture = || fields.get("architectures")?.get(0).and_then(text);
    let Some(found) = stated.or_else(architecture) else {
        if let Some(class) = fields.get("_class_name").and_then(Value::as_str) {
            return Err(Invalid::whole(format!("it is a configuration of diffusers ({class}), which is not read"))
                .with_hint("export the model to ONNX and name that file, or describe it with family = \"layers\""));
        }
        let sentence = "the configuration has neither `model_type` nor `architectures`";
        return Err(Invalid::whole(sentence).with_hint(BY_HAND));
    };
    let exact = TYPES.iter().find(|(known, _)| *known == found);
    // The longest name: classes of `gemma2` begin with `gemma` too.
    let leading = || TYPES.iter().filter(|(known, _)| is_class_of(&found, known)).max_by_key(|(known, _)| known.len());
    exact.or_else(leading).copied().ok_or_else(|| unknown(&found, fields))
}

/// Returns `true` if a class, in small letters, is one of a type: `qwen2moeforcausallm` of `qwen2_moe`.
fn is_class_of(class: &str, model_type: &str) -> bool {
    let stem: String = model_type.chars().filter(char::is_ascii_alphanumeric).collect();
    let rest = class.strip_prefix(&stem);
    rest.is_some_and(|rest| ["for", "model", "lmhead"].iter().any(|word| rest.starts_with(word)))
}

/// What to do about a model of no known type.
const BY_HAND: &str = "a model may also be described by hand: a TOML file with family = \"blocks\" and the parts of its \
     blocks, or family = \"layers\" and its operators";

/// What to do about a model that reads images and writes text.
const WITH_IMAGES: &str = "models of images and text are not read; the text model alone is, as a file of its own: the fields under \
     `text_config` where there is one, with the `model_type` of a type that is known and has the same fields";

/// Returns `true` for a model of images and text, of which a known type is a part at most.
fn sees_images(found: &str, fields: &Map<String, Value>) -> bool {
    fields.get("vision_config").is_some_and(Value::is_object) || found.split(['_', '-']).any(|part| part == "vl")
}

/// Returns `true` if a configuration has the fields of a type, or none at all by which to tell.
fn reads_as((model_type, read): (&'static str, Reader), fields: &Map<String, Value>) -> bool {
    let is_bare = fields.keys().all(|name| name == "model_type" || name == "architectures");
    is_bare || read(&Config { fields, model_type, name: model_type }).is_ok()
}

fn unknown(found: &str, fields: &Map<String, Value>) -> Invalid {
    let known: Vec<&str> = TYPES.iter().map(|(known, _)| *known).collect();
    let refused = Invalid::whole(format!("the model type `{found}` is not known; known are {}", known.join(", ")));
    if sees_images(found, fields) {
        return refused.with_hint(WITH_IMAGES);
    }
    // Another version of a known type is nearest to the latest one, whatever merely sounds alike.
    let stem = |name: &str| name.trim_end_matches(|letter: char| letter.is_ascii_digit()).to_owned();
    let kin = known.iter().rev().copied().find(|known| stem(known) == stem(found));
    let nearest = kin.or_else(|| slip(found, known.iter().copied()));
    let nearest = nearest.filter(|nearest| {
        TYPES.iter().filter(|(known, _)| known == nearest).any(|(known, read)| reads_as((*known, *read), fields))
    });
    let hint = nearest.map_or_else(
        || BY_HAND.into(),
        |nearest| {
            format!(
                "the nearest is `{nearest}`, which may be written in its place if the fields are the same; {BY_HAND}"
            )
        },
    );
    refused.with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_name_their_type() {
        for (class, known) in [
            ("Gemma2ForCausalLM", "gemma2"),
            ("GemmaForCausalLM", "gemma"),
            ("Qwen2MoeForCausalLM", "qwen2_moe"),
            ("Qwen2ForSequenceClassification", "qwen2"),
            ("GPTNeoXForCausalLM", "gpt_neox"),
            ("GPTNeoForCausalLM", "gpt_neo"),
            ("XLMRobertaModel", "xlm-roberta"),
            ("DeepseekV3ForCausalLM", "deepseek_v3"),
        ] {
            let fields = serde_json::json!({ "architectures": [class] });
            let found = model_type(fields.as_object().expect("an object")).expect("known");
            assert_eq!(found.0, known);
        }
    }

    #[test]
    fn another_type_is_named_only_if_it_has_the_same_fields() {
        let fields = |value: Value| value.as_object().cloned().expect("an object");
        let stages = fields(serde_json::json!({ "model_type": "bit", "hidden_sizes": [256, 512], "depths": [3, 4] }));
        assert_eq!(unknown("bit", &stages).hint().as_deref(), Some(BY_HAND));
        let seen = fields(serde_json::json!({ "model_type": "blip", "vision_config": { "hidden_size": 768 } }));
        for (found, fields) in [("blip", seen), ("qwen2_5_vl", Map::new()), ("qwen3_vl_moe", Map::new())] {
            assert_eq!(unknown(found, &fields).hint().as_deref(), Some(WITH_IMAGES), "{found}");
        }
    }

    #[test]
    fn an_unknown_type_names_its_kin() {
        for (found, nearest) in [
            ("qwen4", "qwen3"),
            ("gpt3", "gpt2"),
            ("lama", "llama"),
            ("olmo3", "olmo2"),
            ("deepseek_v4", "deepseek_v3"),
        ] {
            let hint = unknown(found, &Map::new()).hint().expect("there is one");
            assert!(hint.starts_with(&format!("the nearest is `{nearest}`")), "{found}: {hint}");
        }
        for found in ["zzzzzz", "detr", "albert"] {
            assert_eq!(unknown(found, &Map::new()).hint().as_deref(), Some(BY_HAND), "{found}");
        }
    }
}
