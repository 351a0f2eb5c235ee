//! Files of tensors: checkpoints and weights of other frameworks.

#![no_main]

use libfuzzer_sys::fuzz_target;
use trainyard_checkpoint::TensorIndex;

/// More values are not read: inputs are to be many, not large.
const VALUES_MAX: usize = 1 << 16;

fuzz_target!(|file: &[u8]| {
    let path = std::env::temp_dir().join(format!("trainyard-fuzz-{}.safetensors", std::process::id()));
    std::fs::write(&path, file).expect("room for a file");
    if let Ok(index) = TensorIndex::read(&path) {
        for (name, _, shape) in index.tensors() {
            let values: usize = shape.iter().product();
            let _ = index.values(&path, name, 0..values.min(VALUES_MAX));
            let _ = index.values(&path, name, values / 2..values.min(values / 2 + VALUES_MAX));
        }
    }
    std::fs::remove_file(&path).expect("it is there");
});
