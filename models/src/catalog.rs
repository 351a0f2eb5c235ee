//! The models that come with the program: one TOML file each.

use crate::families::Model;
use crate::families::ModelSpec;
use rust_embed::RustEmbed;
use serde::Deserialize;
use serde::de::DeserializeOwned;
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
    /// The model.
    pub model: Model,
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
    CatalogEntry { source: file.source, dataset, model }
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

/// Returns the catalog entry of this name, which its file has too: no other is read.
///
/// # Errors
///
/// Fails if there is none.
pub fn find(name: &str) -> Result<&'static CatalogEntry, CatalogError> {
    let path = format!("{name}.toml");
    match ENTRIES.get(path.as_str()) {
        Some(entry) => Ok(entry.get_or_init(|| read(&path))),
        None => Err(CatalogError::new("model", name, catalog().map(|entry| entry.model.name()))),
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
            assert_eq!(find(name).expect("it was listed").model.name(), name);
        }
        assert!(find("gpt-5").is_err());
    }
}
