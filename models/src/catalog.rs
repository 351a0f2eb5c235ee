//! The models that come with the program: one TOML file each.

use crate::families::Model;
use crate::families::ModelSpec;
use rust_embed::RustEmbed;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};
use trainyard_units::CatalogError;

#[derive(RustEmbed)]
#[folder = "catalog"]
struct Files;

/// A model of the catalog.
#[derive(Clone, Debug)]
pub struct CatalogEntry {
    /// The publication of its dimensions.
    pub source: String,
    /// The data set that it is usually trained on.
    pub dataset: String,
    /// Tokens of the longest sequence that its published weights were trained for, `max_position_embeddings` of its
    /// configuration; none for a model that reads no tokens.
    pub context_length: Option<u64>,
    /// The format of its published weights, if it is none that weights are trained in.
    pub weights: Option<PublishedWeights>,
    /// The learning rate of its published pretraining.
    pub learning_rate: Option<PublishedRate>,
    /// The model.
    pub model: Model,
}

/// Published weights that have to be converted before they are trained further.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedWeights {
    /// Their format.
    pub format: String,
    /// What writes a copy of them in bfloat16.
    pub to_bf16: String,
    /// The publication that says so.
    pub source: String,
}

/// The learning rate with which a model was trained from scratch, by Adam, with decoupled weight decay or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRate {
    /// Its peak.
    pub peak: f64,
    /// Tokens of a step, where they are published.
    #[serde(default)]
    pub batch_tokens: Option<u64>,
    /// The publication that says so.
    pub source: String,
}

/// A file of the catalog as written.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// The publication of the dimensions.
    pub source: String,
    /// The data set that it is usually trained on; every file of the catalog names one.
    #[serde(default)]
    pub dataset: Option<String>,
    /// Tokens of the longest sequence that the published weights were trained for; `model.seq_len` if left out.
    #[serde(default)]
    pub context_length: Option<u64>,
    /// The format of the published weights, if it is none that weights are trained in.
    #[serde(default)]
    pub weights: Option<PublishedWeights>,
    /// The learning rate of its published pretraining.
    #[serde(default)]
    pub learning_rate: Option<PublishedRate>,
    /// The model.
    pub model: ModelSpec,
}

/// The files in the order of their names, each with its entry as soon as it is asked for.
static ENTRIES: LazyLock<BTreeMap<Cow<'static, str>, OnceLock<CatalogEntry>>> =
    LazyLock::new(|| Files::iter().map(|path| (path, OnceLock::new())).collect());

/// Iterates over all models of the catalog, in the order of their file names.
///
/// # Panics
///
/// When a file of the catalog is not a model: the build is broken, and a test says so first.
pub fn catalog() -> impl Iterator<Item = &'static CatalogEntry> + Clone {
    ENTRIES.iter().map(|(path, entry)| entry.get_or_init(|| read(path)))
}

fn read(path: &str) -> CatalogEntry {
    entry(embedded_file::<Files, ModelFile>(path))
}

fn entry(file: ModelFile) -> CatalogEntry {
    let model = Model::try_from(file.model).unwrap_or_else(|error| panic!("model catalog: {error}"));
    let dataset = file.dataset.unwrap_or_else(|| panic!("model catalog: {} names no data set", model.name()));
    CatalogEntry {
        source: file.source,
        dataset,
        context_length: file.context_length.or(model.tokens_per_sample()),
        weights: file.weights,
        learning_rate: file.learning_rate,
        model,
    }
}

/// Reads the TOML files of a folder that comes with the program, in the order of their names.
pub(crate) fn embedded<Folder: RustEmbed, T: DeserializeOwned>() -> impl Iterator<Item = T> {
    let mut paths: Vec<_> = Folder::iter().collect();
    paths.sort_unstable();
    paths.into_iter().map(|path| embedded_file::<Folder, T>(&path))
}

fn embedded_file<Folder: RustEmbed, T: DeserializeOwned>(path: &str) -> T {
    let file = Folder::get(path).expect("an embedded file that was listed can be read");
    let text = std::str::from_utf8(&file.data).expect("catalog files are UTF-8");
    toml::from_str(text).unwrap_or_else(|error| panic!("catalog file {path}: {error}"))
}

/// What to do where no name is similar.
const ADVICE: &str = "`trainyard show models` lists the catalog; the config.json of a model on Hugging Face, or a file of \
                      dimensions, can be given instead";

/// Returns the catalog entry of this name, which its file has too: no other is read.
///
/// # Errors
///
/// Fails if there is none.
pub fn find(name: &str) -> Result<&'static CatalogEntry, CatalogError> {
    let path = format!("{name}.toml");
    match ENTRIES.get(path.as_str()) {
        Some(entry) => Ok(entry.get_or_init(|| read(&path))),
        None => Err(CatalogError::new("model", name, catalog().map(|entry| entry.model.name())).with_advice(ADVICE)),
    }
}

/// What repositories add to the name of a model whose shape stays as it is.
const ADDED: [&str; 13] = [
    "-instruct",
    "-chat",
    "-hf",
    "-base",
    "-it",
    "-pt",
    "-uncased",
    "-v0.1",
    "-v1.0",
    "-deduped",
    "-2407",
    "-2501",
    "-2507",
];

/// Returns the entry whose shape a published model has by its name, with or without its organisation on the Hugging Face
/// Hub: `Qwen/Qwen2.5-7B-Instruct` is `qwen2.5-7b`, trained further.
pub fn find_published(published: &str) -> Option<&'static CatalogEntry> {
    let name = published.split_once('/').map_or(published, |(_, name)| name).to_lowercase();
    let name = name.strip_prefix("meta-").unwrap_or(&name);
    // A version may follow what says that it was trained further: `Mistral-7B-Instruct-v0.3`.
    without_what_was_added(name).or_else(|| without_what_was_added(&name.replacen("-instruct", "", 1)))
}

fn without_what_was_added(mut name: &str) -> Option<&'static CatalogEntry> {
    loop {
        if ENTRIES.contains_key(format!("{name}.toml").as_str()) {
            return find(name).ok();
        }
        name = ADDED.iter().find_map(|added| name.strip_suffix(added))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_as_its_model() {
        for (path, entry) in ENTRIES.iter() {
            let name = entry.get_or_init(|| read(path)).model.name();
            assert_eq!(*path, format!("{name}.toml"));
            let entry = find(name).expect("it was listed");
            assert_eq!(entry.model.name(), name);
            assert!(
                entry.context_length >= entry.model.tokens_per_sample(),
                "{name} is usually trained on longer samples"
            );
        }
        assert!(find("gpt-5").is_err());
    }

    #[test]
    fn published_models_are_known_by_their_names() {
        for (published, name) in [
            ("Qwen/Qwen2.5-7B-Instruct", Some("qwen2.5-7b")),
            ("Qwen/Qwen3-30B-A3B", Some("qwen3-30b-a3b")),
            ("meta-llama/Llama-3.1-8B-Instruct", Some("llama-3.1-8b")),
            ("meta-llama/Meta-Llama-3-70B", Some("llama-3-70b")),
            ("meta-llama/Llama-2-7b-chat-hf", Some("llama-2-7b")),
            ("google/gemma-2-9b-it", Some("gemma-2-9b")),
            ("mistralai/Mixtral-8x7B-Instruct-v0.1", Some("mixtral-8x7b")),
            ("google-bert/bert-base-uncased", Some("bert-base")),
            ("openai-community/gpt2-xl", Some("gpt2-xl")),
            ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", Some("tinyllama-1.1b")),
            ("Qwen/Qwen3-4B-Instruct-2507", Some("qwen3-4b")),
            ("mistralai/Mistral-Nemo-Instruct-2407", Some("mistral-nemo")),
            ("mistralai/Mistral-Small-24B-Instruct-2501", Some("mistral-small-24b")),
            ("EleutherAI/pythia-1.4b-deduped", Some("pythia-1.4b")),
            ("mistralai/Mistral-7B-v0.3", Some("mistral-7b-v0.3")),
            ("mistralai/Mistral-7B-Instruct-v0.3", Some("mistral-7b-v0.3")),
            ("Llama-3.1-8B", Some("llama-3.1-8b")),
            ("llama-3.1-8B-instruct", Some("llama-3.1-8b")),
            ("qwen2.5-7b", Some("qwen2.5-7b")),
            ("GPT2", Some("gpt2")),
            // Another vocabulary.
            ("google-bert/bert-base-cased", None),
            // Another window.
            ("mistralai/Mistral-7B-Instruct-v0.2", None),
            ("gpt-5", None),
        ] {
            assert_eq!(find_published(published).map(|entry| entry.model.name()), name, "{published}");
        }
    }
}
