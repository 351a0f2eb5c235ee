//! The models that come with the program: one TOML file each.

use crate::families::Model;
use crate::families::ModelSpec;
use rust_embed::RustEmbed;
use serde::Deserialize;
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

/// All models of the catalog, in the order of their file names.
///
/// # Panics
///
/// When a file of the catalog is not a model: the build is broken, and a test says so first.
pub fn catalog() -> &'static [CatalogEntry] {
    static CATALOG: OnceLock<Vec<CatalogEntry>> = OnceLock::new();
    CATALOG.get_or_init(|| {
        let mut paths: Vec<_> = Files::iter().collect();
        paths.sort_unstable();
        paths.iter().map(|path| read(path)).collect()
    })
}

fn read(path: &str) -> CatalogEntry {
    let file = Files::get(path).expect("an embedded file that was listed can be read");
    let text = std::str::from_utf8(&file.data).expect("catalog files are UTF-8");
    let file: ModelFile = toml::from_str(text).unwrap_or_else(|error| panic!("catalog file {path}: {error}"));
    let model = Model::try_from(file.model).unwrap_or_else(|error| panic!("catalog file {path}: {error}"));
    let dataset = file.dataset.unwrap_or_else(|| panic!("catalog file {path}: it names no data set"));
    CatalogEntry { source: file.source, dataset, model }
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
