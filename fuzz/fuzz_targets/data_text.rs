//! Tokenizers, and the text that they cut up.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::samples;
use trainyard_fuzz::tree::mutate_json;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_json(data, size, max, seed) });

fuzz_target!(|tokenizer: &[u8]| {
    samples::read("", &[("text.txt", samples::TEXT)], Some(tokenizer));
});
