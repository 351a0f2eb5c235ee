//! Images and labels as MNIST stores them, from one input that tells where the labels begin.

#![no_main]

use libfuzzer_sys::fuzz_target;
use trainyard_fuzz::samples;

fuzz_target!(|input: (u16, &[u8])| {
    let (images, labels) = input.1.split_at(usize::from(input.0).min(input.1.len()));
    samples::read("", &[("train-images-idx3-ubyte", images), ("train-labels-idx1-ubyte", labels)], None);
});
