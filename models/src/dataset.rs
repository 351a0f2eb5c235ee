//! The data sets that models are usually trained on, as they are stored: one TOML file each.

use crate::catalog::embedded;
use crate::families::{Model, Sample};
use rust_embed::RustEmbed;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use trainyard_units::CatalogError;

#[derive(RustEmbed)]
#[folder = "datasets"]
struct Files;

/// Entries of a vocabulary from which ids are stored with 32 bits: Megatron-LM, indexed data sets.
const WIDE_VOCABULARY: u64 = 65_500;

/// How samples are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoredFormat {
    /// Ids of tokens.
    Tokens,
    /// Compressed images.
    Jpeg,
    /// Arrays that need no decoding.
    Raw,
    /// NumPy archives.
    Npz,
}

/// What models see that read no tokens and have no data set of their own in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// Images.
    Images,
    /// Volumes.
    Volumes,
    /// Sound.
    Sound,
}

/// A number with its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact<T> {
    /// The number.
    pub value: T,
    /// Where it was published, or how it was computed.
    pub source: String,
}

/// A data set of the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredDataSet {
    /// Catalog id, `imagenet`.
    pub name: String,
    /// What it holds.
    pub description: String,
    /// How samples are stored.
    pub format: StoredFormat,
    /// What models see of which it is the first example: at most one data set a kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example_of: Option<Seen>,
    /// Mean bytes of a sample; nothing for tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_sample: Option<Fact<u64>>,
    /// Standard deviation of these bytes; 0 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_deviation: Option<Fact<u64>>,
    /// Bytes of a token of a small and of a large vocabulary; for tokens only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_token: Option<Fact<[u64; 2]>>,
    /// Samples of a pass over it, where it has a size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<Fact<u64>>,
}

/// Returns all data sets, in the order of their file names.
///
/// # Panics
///
/// When a file of the catalog is not a data set: the build is broken, and a test says so first.
pub fn data_sets() -> &'static [StoredDataSet] {
    static CATALOG: OnceLock<Vec<StoredDataSet>> = OnceLock::new();
    CATALOG.get_or_init(|| embedded::<Files, StoredDataSet>().collect())
}

/// Returns the data set of this name.
///
/// # Errors
///
/// Fails if there is none.
pub fn find_data_set(name: &str) -> Result<&'static StoredDataSet, CatalogError> {
    data_sets().iter().find(|set| set.name == name).ok_or_else(|| {
        let names: Vec<&str> = data_sets().iter().map(|set| set.name.as_str()).collect();
        let all = names.join(", ");
        let other = "`none` says that samples are there, and bytes_per_sample describes others";
        CatalogError::new("data set", name, names).with_advice(format!("data sets are {all}; {other}"))
    })
}

/// Returns the first example of what a model sees; `None` if it reads tokens, or what has no kind.
pub fn example_for(model: &Model) -> Option<&'static StoredDataSet> {
    let seen = match model.sample() {
        Sample::Image(_) => Seen::Images,
        Sample::Volume(_) => Seen::Volumes,
        Sample::Sound => Seen::Sound,
        Sample::Tokens(_) | Sample::Record => return None,
    };
    data_sets().iter().find(|set| set.example_of == Some(seen))
}

impl StoredFormat {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Jpeg => "jpeg",
            Self::Raw => "raw",
            Self::Npz => "npz",
        }
    }
}

impl StoredDataSet {
    /// Mean bytes of a sample of `model` as stored; nothing where the model does not read such samples.
    pub fn bytes_for(&self, model: &Model) -> Option<f64> {
        match (&self.bytes_per_sample, &self.bytes_per_token, model.sample()) {
            (Some(bytes), _, Sample::Image(_) | Sample::Volume(_) | Sample::Sound | Sample::Record) => {
                Some(bytes.value as f64)
            }
            (None, Some(bytes), Sample::Tokens(tokens)) => {
                let [narrow, wide] = bytes.value;
                let is_narrow = model.spec().vocab.is_some_and(|entries| entries < WIDE_VOCABULARY);
                Some((tokens * if is_narrow { narrow } else { wide }) as f64)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{catalog, find};

    #[test]
    fn every_data_set_has_a_size_and_a_source_for_every_number() {
        for set in data_sets() {
            let tokens = set.format == StoredFormat::Tokens;
            assert_eq!(
                (set.bytes_per_sample.is_none(), set.bytes_per_token.is_some()),
                (tokens, tokens),
                "{}",
                set.name
            );
            let sources = [&set.bytes_per_sample, &set.bytes_deviation, &set.samples];
            let facts = sources.into_iter().flatten();
            assert!(facts.clone().all(|fact| fact.value > 0 && fact.source.len() > 10), "{}", set.name);
            if let (Some(mean), Some(deviation)) = (&set.bytes_per_sample, &set.bytes_deviation) {
                assert!(deviation.value < mean.value, "{}", set.name);
            }
        }
    }

    #[test]
    fn every_model_of_the_catalog_reads_its_data_set() {
        for entry in catalog() {
            let name = entry.model.name();
            let set = find_data_set(&entry.dataset).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(set.bytes_for(&entry.model).is_some_and(|bytes| bytes >= 1.0), "{name} does not read {}", set.name);
        }
        let used = |set: &StoredDataSet| catalog().any(|entry| entry.dataset == set.name);
        assert!(data_sets().iter().all(used));
    }

    #[test]
    fn every_kind_of_what_models_see_has_one_example() {
        let example = |name: &str| example_for(&find(name).expect("in the catalog").model).map(|set| set.name.as_str());
        assert_eq!(example("vit-b-16"), Some("imagenet"));
        assert_eq!(example("unet3d"), Some("kits19"));
        assert_eq!(example("rnn-t"), Some("librispeech"));
        assert_eq!([example("gpt2"), example("dlrm")], [None, None]);
        assert_eq!(data_sets().iter().filter(|set| set.example_of.is_some()).count(), 3);
    }

    #[test]
    fn ids_of_large_vocabularies_are_wider() {
        let bytes = |model: &str| {
            let entry = find(model).expect("in the catalog");
            find_data_set("text").expect("in the catalog").bytes_for(&entry.model)
        };
        assert_eq!(bytes("gpt2"), Some(2048.0));
        assert_eq!(bytes("llama-3-8b"), Some(4.0 * 8192.0));
        let images = find_data_set("imagenet").expect("in the catalog");
        assert_eq!(images.bytes_for(&find("gpt2").expect("in the catalog").model), None);
    }

    #[test]
    fn a_similar_name_is_suggested() {
        let error = find_data_set("imagnet").expect_err("there is none");
        assert_eq!(error.hint(), "did you mean `imagenet`?");
        assert!(find_data_set("zzz").expect_err("there is none").hint().contains("criteo-1tb"));
    }
}
