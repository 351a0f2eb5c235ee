//! Folders of images in which one file is not what its name says, and CIFAR's records.

#![no_main]

use libfuzzer_sys::fuzz_target;
use trainyard_fuzz::samples;

fuzz_target!(|file: &[u8]| {
    let name = match file.first() {
        Some(0xff) => "class/0.jpg",
        Some(0x89) => "class/0.png",
        _ => "data_batch_1.bin",
    };
    samples::read("", &[(name, file), ("class/1.png", samples::PIXEL), ("class/2.png", samples::PIXEL)], None);
});
