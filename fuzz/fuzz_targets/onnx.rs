//! ONNX files: read, built, counted.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::protobuf::mutate_message;
use trainyard_interop::from_onnx;
use trainyard_models::Model;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_message(data, size, max, seed) });

fuzz_target!(|file: &[u8]| {
    let Ok(spec) = from_onnx(std::io::Cursor::new(file), "model") else { return };
    let model = Model::try_from(spec).expect("a model that was read is one");
    trainyard_fuzz::counted(&model);
});
