//! Configurations of Hugging Face: read, built, counted, written again.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::tree::mutate_json;
use trainyard_models::{Model, from_hugging_face, to_hugging_face};

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_json(data, size, max, seed) });

fuzz_target!(|text: &str| {
    let Ok(spec) = from_hugging_face(text, "model") else { return };
    let Ok(model) = Model::try_from(spec) else { return };
    trainyard_fuzz::counted(&model);
    if let Some(config) = to_hugging_face(&model) {
        let again = from_hugging_face(&config.to_string(), "model").expect("what was written is read");
        assert_eq!(Model::try_from(again).ok(), Some(model), "{config}");
    }
});
