//! How fast checkpoints go to a disk.

use std::fs;
use std::io::Write;
use trainyard_checkpoint::{Checkpoint, DataEntry, MODEL, Manifest, Progress, TensorSpec, Writer, create};
use trainyard_host::Clock;

/// Not a claim, but a measurement: `cargo test --release -- --ignored --nocapture gigabyte`, with `TMPDIR` on the disk in
/// question. It says how fast a checkpoint of a gigabyte goes to the disk and comes back, and how fast bare bytes do.
#[test]
#[ignore = "it writes four gigabytes and says how fast that was"]
fn a_gigabyte_goes_to_the_disk_and_comes_back() {
    const VALUES: usize = 1 << 28;
    let clock = Clock::start();
    let rate = |what: &str, start: f64| {
        let seconds = clock.seconds() - start;
        println!("{what:<44} {:>6.0} MB/s", (VALUES * 4) as f64 / 1e6 / seconds);
    };
    let piece: Vec<f32> = (0..1 << 22).map(|index| index as f32).collect();
    for _ in 0..3 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bare = folder.path().join("bare");
        let bytes: Vec<u8> = piece.iter().flat_map(|value| value.to_le_bytes()).collect();
        let start = clock.seconds();
        let mut file = fs::File::create(&bare).expect("room");
        (0..VALUES / piece.len()).for_each(|_| file.write_all(&bytes).expect("room"));
        file.sync_all().expect("a disk that works");
        rate("bare bytes, flushed", start);
        fs::remove_file(&bare).expect("there");
        let start = clock.seconds();
        let mut writer = Writer::begin(folder.path(), &create).expect("room");
        let specs = [TensorSpec { name: "wte.weight".into(), shape: vec![VALUES] }];
        let mut tensors = writer.tensors(MODEL, &specs).expect("room");
        (0..VALUES / piece.len()).for_each(|_| writer.put(&mut tensors, &piece).expect("room"));
        writer.add(tensors).expect("a disk that works");
        let progress = Progress::start(0);
        let data = DataEntry { bytes: 0, checksum: String::new() };
        let manifest = Manifest::new(progress, "adamw".into(), data, "no framework");
        writer.finish(manifest, &serde_json::json!({})).expect("room");
        rate("a checkpoint, summed up, flushed and shown", start);
        let start = clock.seconds();
        let checkpoint = Checkpoint::open(folder.path()).expect("whole");
        rate("all of it read back and summed up", start);
        let start = clock.seconds();
        let values = checkpoint.values(MODEL, "wte.weight", 0..VALUES).expect("there");
        rate("all of it read into memory", start);
        assert_eq!(values[VALUES - piece.len()..], piece[..]);
    }
}
