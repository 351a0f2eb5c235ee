//! Weights that a training starts from: files in the format of safetensors or of `torch.save`, under the names of
//! transformers, or of torchvision for residual networks and vision transformers.

use crate::network::{Network, Parameter, ParameterKey};
use safetensors::Dtype;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_checkpoint::{IndexError, TensorIndex};
use trainyard_documents::{Unreadable, from_json_bytes};
use trainyard_models::{Dropout, Model, from_hugging_face, to_hugging_face};

mod names;
#[cfg(test)]
mod tests;

/// The file of all weights in a folder that transformers saved, in either format.
const SINGLE: [&str; 2] = ["model.safetensors", "pytorch_model.bin"];

/// The file that says which of several files a weight is in.
const INDEX: [&str; 2] = ["model.safetensors.index.json", "pytorch_model.bin.index.json"];

/// The file from which transformers builds the model.
pub(crate) const CONFIGURATION: &str = "config.json";

/// Number of names that a message lists.
const LISTED: usize = 5;

/// The largest index of weights, and the largest configuration beside them, in bytes.
const INDEX_MAX: u64 = 16 << 20;
const CONFIG_MAX: u64 = 4 << 20;

/// Why weights cannot be started from.
#[derive(Debug, thiserror::Error)]
pub enum WeightError {
    /// A file or folder could not be read.
    #[error("cannot read the weights `{}`", path.display())]
    Unreadable {
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder without weights.
    #[error("`{}` holds neither {} nor an index of several files", path.display(), SINGLE.join(" nor "))]
    NoWeights { path: PathBuf },
    /// A file is not what its name says.
    #[error("`{}` is not in the {expected} format: {problem}", path.display())]
    Malformed {
        path: PathBuf,
        /// The expected content.
        expected: &'static str,
        /// The defect.
        problem: String,
    },
    /// A tensor has elements of a type that weights are not read from.
    #[error("`{}`: the tensor `{name}` has elements of type {found}, but weights are read from F32, F16 or BF16",
        path.display())]
    Format {
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its type.
        found: String,
    },
    /// The files are those of another model.
    #[error("the weights `{}` do not fit the model: {differences}", path.display())]
    OtherModel {
        path: PathBuf,
        /// In what they differ.
        differences: Differences,
    },
    /// The configuration beside the weights asks for another computation than the model's.
    #[error("`{}` says `{field}` {found}, but the model computes with {expected}", path.display())]
    OtherComputation {
        /// The configuration.
        path: PathBuf,
        field: &'static str,
        found: String,
        /// The value that the model has.
        expected: String,
    },
}

impl WeightError {
    /// Returns what the user may do about the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "name a file of safetensors or torch.save, or a folder that transformers saved",
            Self::NoWeights { .. } => "transformers writes them with `save_pretrained(folder)`",
            Self::Malformed { .. } => {
                "a file that was cut off on its way has to be fetched again; of a whole model that torch.save wrote, save \
                 `model.state_dict()`"
            }
            Self::Format { .. } => "save them in float32, float16 or bfloat16",
            Self::OtherModel { .. } => {
                "describe the model as its config.json does: layers, widths, vocabulary and tokens of a sample"
            }
            Self::OtherComputation { .. } => "describe the model by this config.json",
        }
    }
}

/// In what weights differ from what a model needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Tensors that the model needs and the files do not hold.
    pub missing: Vec<String>,
    /// Tensors that the files hold and the model does not have.
    pub unknown: Vec<String>,
    /// Tensors of another shape: name, shape found, shape needed.
    pub misshapen: Vec<(String, Vec<usize>, Vec<usize>)>,
}

impl Differences {
    fn is_none(&self) -> bool {
        self.missing.is_empty() && self.unknown.is_empty() && self.misshapen.is_empty()
    }
}

impl std::fmt::Display for Differences {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shapes = |(name, found, needed): &(String, Vec<usize>, Vec<usize>)| {
            format!("`{name}` is {found:?} and not {needed:?}")
        };
        let misshapen: Vec<String> = self.misshapen.iter().map(shapes).collect();
        let quoted = |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
        let kinds = [
            ("missing", quoted(&self.missing)),
            ("not the model's", quoted(&self.unknown)),
            ("of another shape", misshapen),
        ];
        let sentences: Vec<String> =
            kinds.iter().filter(|(_, items)| !items.is_empty()).map(|(what, items)| counted(items, what)).collect();
        formatter.write_str(&sentences.join("; "))
    }
}

/// "2 tensors are missing: `a`, `b`", with the first few of many.
fn counted(items: &[String], what: &str) -> String {
    let verb = if items.len() == 1 { "tensor is" } else { "tensors are" };
    let listed = items[..items.len().min(LISTED)].join(", ");
    let more = if items.len() > LISTED { ", …" } else { "" };
    format!("{} {verb} {what}: {listed}{more}", items.len())
}

/// The location of a tensor's values.
#[derive(Clone, Debug)]
struct Place {
    file: PathBuf,
    name: String,
    format: Dtype,
    shape: Vec<usize>,
    /// Index of its first element in the tensor of the file, which may hold several.
    first: usize,
    /// The index of the file.
    index: Arc<TensorIndex>,
}

/// Weights in files that hold all that a network needs.
#[derive(Clone, Debug)]
pub(crate) struct FirstWeights {
    places: BTreeMap<ParameterKey, Place>,
    other_heads: Vec<String>,
}

impl FirstWeights {
    /// Finds the weights of `model` at `path`: a file of safetensors or of `torch.save`, or a folder with one of all
    /// weights or with several and their index, as transformers saves them. Values are read when they are needed.
    ///
    /// # Errors
    ///
    /// When nothing can be read there, when tensors are missing, superfluous or of another shape, or when the
    /// `config.json` of the folder asks for another computation than the model's.
    pub(crate) fn find(path: &Path, model: &Model, network: &Network) -> Result<Self, WeightError> {
        let files = files(path)?;
        let mut tensors = BTreeMap::new();
        for file in &files {
            tensors.extend(places(file)?.into_iter().map(|place| (place.name.clone(), place)));
        }
        if path.is_dir() {
            compare_computation(&path.join(CONFIGURATION), model)?;
        }
        Self::assign(path, tensors, network)
    }

    fn assign(path: &Path, mut tensors: BTreeMap<String, Place>, network: &Network) -> Result<Self, WeightError> {
        let mut differences = Differences::default();
        let mut places = BTreeMap::new();
        for key in network.keys().filter(|key| !network.parameter(*key).is_adapter) {
            let parameter = network.parameter(key);
            let found = names::in_files(&parameter.name).into_iter().find_map(|name| tensors.remove(&name));
            let found = found.or_else(|| third(&parameter.name, &tensors));
            match found {
                None => differences.missing.push(parameter.name.clone()),
                Some(place) if place.shape != parameter.stored_shape() => {
                    differences.misshapen.push((place.name, place.shape, parameter.stored_shape()));
                }
                Some(place) => {
                    places.insert(key, place);
                }
            }
        }
        for key in network.keys() {
            names::packed(&network.parameter(key).name).map(|(name, _)| tensors.remove(&name));
        }
        let is_tied = network.tie().is_some();
        let (unneeded, unknown): (Vec<String>, _) =
            tensors.into_keys().partition(|name| names::may_be_ignored(name, is_tied));
        differences.unknown = unknown;
        if !differences.is_none() {
            return Err(WeightError::OtherModel { path: path.to_owned(), differences });
        }
        for place in places.values() {
            if !matches!(place.format, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
                let (path, name) = (place.file.clone(), place.name.clone());
                return Err(WeightError::Format { path, name, found: place.format.to_string() });
            }
        }
        let other_heads = unneeded.into_iter().filter(|name| names::is_of_other_head(name)).collect();
        Ok(Self { places, other_heads })
    }

    /// Returns the names of tensors in the files that belong to heads of other tasks, which are left out of the
    /// training.
    pub(crate) fn other_heads(&self) -> &[String] {
        &self.other_heads
    }

    /// Returns the whole values of a parameter, in the order in which it computes.
    ///
    /// # Errors
    ///
    /// When they can no longer be read.
    pub(crate) fn values(&self, key: ParameterKey, parameter: &Parameter) -> Result<Vec<f32>, WeightError> {
        let place = &self.places[&parameter.tied_to.unwrap_or(key)];
        let range = place.first..place.first + place.shape.iter().product::<usize>();
        let values = place.index.values(&place.file, &place.name, range);
        Ok(parameter.as_computed(&values.map_err(|error| unusable(&place.file, error))?))
    }
}

/// Returns the third of a tensor of queries, keys and values that is the parameter `name`.
fn third(name: &str, tensors: &BTreeMap<String, Place>) -> Option<Place> {
    let (packed, number) = names::packed(name)?;
    let mut place = tensors.get(&packed)?.clone();
    // What does not divide has another shape than the parameter, and is told as such.
    if let Some(rows) = place.shape.first_mut().filter(|rows| rows.is_multiple_of(3)) {
        *rows /= 3;
        place.first = number * place.shape.iter().product::<usize>();
    }
    Some(place)
}

/// Returns the error for an unusable file of weights.
fn unusable(path: &Path, error: IndexError) -> WeightError {
    let path = path.to_owned();
    match error {
        IndexError::Unreadable(source) => WeightError::Unreadable { path, source },
        IndexError::Damaged(problem) => WeightError::Malformed { path, expected: "safetensors or torch.save", problem },
    }
}

/// The file that says which file each weight is in.
#[derive(serde::Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// Returns the files that hold the weights at `path`.
pub(crate) fn files(path: &Path) -> Result<BTreeSet<PathBuf>, WeightError> {
    let unreadable = |source| WeightError::Unreadable { path: path.to_owned(), source };
    if !std::fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(BTreeSet::from([path.to_owned()]));
    }
    let there = |name: &&str| Some(path.join(name)).filter(|file| file.is_file());
    if let Some(single) = SINGLE.iter().find_map(&there) {
        return Ok(BTreeSet::from([single]));
    }
    let Some(index) = INDEX.iter().find_map(there) else {
        return Err(WeightError::NoWeights { path: path.to_owned() });
    };
    let text = trainyard_documents::bytes(&index, INDEX_MAX)
        .map_err(|error| WeightError::Unreadable { path: index.clone(), source: error.into_io() })?;
    let malformed = |problem: String| WeightError::Malformed { path: index.clone(), expected: "index", problem };
    let Index { weight_map } = from_json_bytes(&text).map_err(|error| malformed(error.to_string()))?;
    // An index speaks of files beside it; a path out of the folder is a mistake or worse.
    let plain = |name: &String| Path::new(name).components().count() == 1 && Path::new(name).file_name().is_some();
    match weight_map.values().find(|name| !plain(name)) {
        Some(name) => Err(malformed(format!("`{name}` is not the name of a file beside it"))),
        None => Ok(weight_map.values().map(|name| path.join(name)).collect()),
    }
}

/// Returns the locations of all tensors of one file.
fn places(path: &Path) -> Result<Vec<Place>, WeightError> {
    let index = Arc::new(TensorIndex::read(path).map_err(|error| unusable(path, error))?);
    let place = |(name, format, shape): (&str, Dtype, &[usize])| {
        let (name, shape) = (name.to_owned(), shape.to_vec());
        Place { file: path.to_owned(), name, format, shape, first: 0, index: index.clone() }
    };
    Ok(index.tensors().map(place).collect())
}

/// Returns what transformers drops out in the model of a folder of weights; nothing where there is no `config.json` that
/// says so.
pub fn dropout_beside(path: &Path) -> Dropout {
    let read = || {
        let text = trainyard_documents::bytes(&path.join(CONFIGURATION), CONFIG_MAX).ok()?;
        let spec = from_hugging_face(std::str::from_utf8(&text).ok()?, "weights").ok()?;
        Some(Model::try_from(spec).ok()?.dropout())
    };
    read().unwrap_or_default()
}

/// Fields of a configuration that change what a model computes and that no shape shows.
const COMPUTATION: [&str; 15] = [
    "activation_function",
    "hidden_act",
    "hidden_activation",
    "layer_norm_epsilon",
    "layer_norm_eps",
    "rms_norm_eps",
    "n_head",
    "num_attention_heads",
    "num_key_value_heads",
    "num_experts_per_tok",
    "layer_type",
    "downsample_in_first_stage",
    "downsample_in_bottleneck",
    "rope_theta",
    "attention_bias",
];

/// Fields that mean something where they are left out, or that have several forms: compared as [`to_hugging_face`] writes
/// them.
const IN_ONE_FORM: [&str; 9] = [
    "use_parallel_residual",
    "rotary_pct",
    "rotary_emb_base",
    "rms_norm_eps",
    "layer_norm_eps",
    "query_pre_attn_scalar",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    LAYER_TYPES,
];
const LAYER_TYPES: &str = "layer_types";

/// Types of models of whose configurations these fields are.
const WHOLLY_READ: [&str; 2] = ["gpt_neox", "gemma2"];

/// Fields that mean something where they are left out.
const WINDOW: &str = "sliding_window";
const TIE: &str = "tie_word_embeddings";

/// Types of models that have a head of their own where nothing is said.
const OWN_HEAD: [&str; 6] = ["llama", "mistral", "mixtral", "qwen2", "qwen3", "gpt_neox"];

/// Compares a `config.json` with how the model computes, where there is one and transformers has such a model.
fn compare_computation(path: &Path, model: &Model) -> Result<(), WeightError> {
    let Some(own) = to_hugging_face(model) else { return Ok(()) };
    let text = match trainyard_documents::bytes(path, CONFIG_MAX).map_err(Unreadable::into_io) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(WeightError::Unreadable { path: path.to_owned(), source }),
        Ok(text) => text,
    };
    let theirs: Value = from_json_bytes(&text).map_err(|error| WeightError::Malformed {
        path: path.to_owned(),
        expected: "JSON",
        problem: error.to_string(),
    })?;
    let differs = |field, found: &Value, expected: &Value| {
        let (found, expected) = (found.to_string(), expected.to_string());
        Err(WeightError::OtherComputation { path: path.to_owned(), field, found, expected })
    };
    let rotation = theirs.get("rope_parameters").or_else(|| theirs.get("rope_scaling"));
    for field in COMPUTATION {
        let nested = rotation.and_then(|rotation| rotation.get(field));
        let (found, expected) = (nested.or_else(|| theirs.get(field)), &own[field]);
        match found {
            Some(found) if !found.is_null() && !expected.is_null() && !same(found, expected) => {
                return differs(field, found, expected);
            }
            _ => {}
        }
    }
    let (found, expected) = (window(&theirs), window(&own));
    // A window that holds a whole sample is none.
    let is_wide = |window: &Value| window.as_u64().is_some_and(|width| model.tokens_per_sample() <= Some(width));
    if let Some(theirs) = in_one_form(&theirs) {
        let no_window = [found, expected].iter().all(|window| window.is_null() || is_wide(window));
        let compared = IN_ONE_FORM.into_iter().filter(|field| *field != LAYER_TYPES || !no_window);
        if let Some(field) = compared.into_iter().find(|field| !same(&theirs[field], &own[field])) {
            return differs(field, &theirs[field], &own[field]);
        }
    }
    if [found, expected].iter().any(|window| !window.is_null() && !is_wide(window)) && !same(found, expected) {
        return differs(WINDOW, found, expected);
    }
    // Left out, it is what the class has: a head of its own in Llama and its kin.
    let usual = Value::from(!own["model_type"].as_str().is_some_and(|kind| OWN_HEAD.contains(&kind)));
    let (found, expected) = (theirs.get(TIE).filter(|tie| !tie.is_null()).unwrap_or(&usual), &own[TIE]);
    if !expected.is_null() && found != expected {
        return differs(TIE, found, expected);
    }
    let kind_of = |rotation: Option<&Value>| {
        let kind = rotation.and_then(|rotation| rotation.get("rope_type").or_else(|| rotation.get("type")));
        kind.cloned().unwrap_or_else(|| "default".into())
    };
    let mine = own.get("rope_parameters");
    let (found, expected_kind) = (kind_of(rotation), kind_of(mine));
    if found != expected_kind {
        return differs("rope_type", &found, &expected_kind);
    }
    // What is left out is as Llama 3.1 has it, on either side.
    for (field, usual) in SCALING {
        let of = |rotation: Option<&Value>| {
            let stated = rotation.and_then(|rotation| rotation.get(field)).filter(|number| !number.is_null());
            stated.cloned().unwrap_or_else(|| usual.map_or(Value::Null, Value::from))
        };
        let (found, expected) = (of(rotation), of(mine));
        if expected_kind != "default" && !same(&found, &expected) {
            return differs(field, &found, &expected);
        }
    }
    Ok(())
}

/// Numbers by which rotary positions are scaled, and what they are where nothing is said.
const SCALING: [(&str, Option<f64>); 4] = [
    ("factor", None),
    ("low_freq_factor", Some(1.0)),
    ("high_freq_factor", Some(4.0)),
    ("original_max_position_embeddings", Some(8192.0)),
];

/// Returns a configuration with every field filled in; `None` for one of a type that needs none.
fn in_one_form(configuration: &Value) -> Option<Value> {
    let kind = configuration["model_type"].as_str()?;
    let spec = WHOLLY_READ.contains(&kind).then(|| from_hugging_face(&configuration.to_string(), "weights"))?.ok()?;
    to_hugging_face(&Model::try_from(spec).ok()?).filter(|written| written["model_type"] == kind)
}

/// Returns the attention window that transformers reads from a configuration, or null; Llama itself has none, and Qwen one
/// only where another field says so.
fn window(configuration: &Value) -> &Value {
    let has_window = match configuration["model_type"].as_str() {
        Some("llama") => false,
        Some("qwen2" | "qwen3") => configuration["use_sliding_window"] == true,
        _ => true,
    };
    if has_window { &configuration[WINDOW] } else { &Value::Null }
}

/// Returns `true` if two values are equal, numbers by value; both names of GPT-2's activation are the same function.
fn same(found: &Value, expected: &Value) -> bool {
    let is_tanh = |value: &Value| value == "gelu_new" || value == "gelu_pytorch_tanh";
    match (found.as_f64(), expected.as_f64()) {
        (Some(found), Some(expected)) => (found - expected).abs() <= 1e-9 * expected.abs(),
        _ => found == expected || (is_tanh(found) && is_tanh(expected)),
    }
}
