//! Manifests of checkpoints, with the checksum that they should have: it tells damage, and keeps nobody from writing one.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use std::fs;
use trainyard_checkpoint::{Checkpoint, MODEL, Manifest};
use trainyard_fuzz::tree::mutate_json;
use xxhash_rust::xxh3::xxh3_64;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_json(data, size, max, seed) });

fuzz_target!(|document: &[u8]| {
    let folder = std::env::temp_dir().join(format!("trainyard-fuzz-checkpoint-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("plan.json"), "{}\n").expect("room");
    fs::write(folder.join("model.safetensors"), b"\x02\0\0\0\0\0\0\0{}").expect("room");
    let signed = serde_json::from_slice::<Manifest>(document).ok().map(signed);
    for document in [Some(document), signed.as_deref()].into_iter().flatten() {
        fs::write(folder.join("manifest.json"), document).expect("room");
        if let Ok(checkpoint) = Checkpoint::open(&folder) {
            assert!(checkpoint.tensors(MODEL).is_empty());
        }
    }
});

fn signed(manifest: Manifest) -> Vec<u8> {
    let text = |manifest: &Manifest| {
        let mut text = serde_json::to_vec_pretty(manifest).expect("manifests hold only what JSON can hold");
        text.push(b'\n');
        text
    };
    let unsigned = Manifest { checksum: String::new(), ..manifest };
    let checksum = format!("{:016x}", xxh3_64(&text(&unsigned)));
    text(&Manifest { checksum, ..unsigned })
}
