//! Models in TOML, by dimensions or in layers, as in the catalog or alone: read, built, counted.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::tree::mutate_toml;
use trainyard_models::{Model, ModelFile, ModelSpec};

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_toml(data, size, max, seed) });

fuzz_target!(|text: &str| {
    let spec = toml::from_str::<ModelFile>(text).map(|file| file.model).or_else(|_| toml::from_str::<ModelSpec>(text));
    if let Some(model) = spec.ok().and_then(|spec| Model::try_from(spec).ok()) {
        trainyard_fuzz::counted(&model);
    }
});
