//! Files that are taken for arrays in NumPy's and in Hugging Face's format, for every kind of model.

#![no_main]

use libfuzzer_sys::fuzz_target;
use trainyard_fuzz::samples;

fuzz_target!(|file: &[u8]| {
    if file.starts_with(b"\x93NUMPY") {
        samples::read("", &[("tokens.npy", file), ("inputs.npy", file), ("labels.npy", samples::LABELS)], None);
        samples::read("", &[("inputs.npy", samples::LABELS), ("labels.npy", file)], None);
    } else {
        samples::read("x.safetensors", &[("x.safetensors", file)], None);
    }
});
