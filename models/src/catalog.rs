//! The models that come with the program: one TOML file each.

use crate::families::Model;
use crate::families::ModelSpec;
use rust_embed::RustEmbed;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::OnceLock;
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

/// Returns all models of the catalog, in the order of their file names.
///
/// # Panics
///
/// When a file of the catalog is not a model: the build is broken, and a test says so first.
pub fn catalog() -> &'static [CatalogEntry] {
    static CATALOG: OnceLock<Vec<CatalogEntry>> = OnceLock::new();
    CATALOG.get_or_init(|| embedded::<Files, ModelFile>().map(entry).collect())
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
    paths.into_iter().map(|path| {
        let file = Folder::get(&path).expect("an embedded file that was listed can be read");
        let text = std::str::from_utf8(&file.data).expect("catalog files are UTF-8");
        toml::from_str(text).unwrap_or_else(|error| panic!("catalog file {path}: {error}"))
    })
}

/// Returns the catalog entry of this name.
///
/// # Errors
///
/// Fails if there is none.
pub fn find(name: &str) -> Result<&'static CatalogEntry, CatalogError> {
    let names = || catalog().iter().map(|entry| entry.model.name());
    catalog().iter().find(|entry| entry.model.name() == name).ok_or_else(|| CatalogError::new("model", name, names()))
}
