//! Files that are taken for a history: opened, listed, and each entry read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use trainyard_fuzz::WIDTH;
use trainyard_history::{Filter, Store};
use trainyard_reports as reports;

fuzz_target!(|file: &[u8]| {
    let path = std::env::temp_dir().join(format!("trainyard-fuzz-{}.db", std::process::id()));
    std::fs::write(&path, file).expect("room for a file");
    if let Ok(Some(store)) = Store::existing(&path) {
        for entry in store.list(&Filter::default()).map(|listing| listing.entries).unwrap_or_default() {
            let _ = store.find(&entry.id);
            let _ = store.documents(&entry.id);
            reports::kept(&entry, WIDTH);
        }
    }
    std::fs::remove_file(&path).expect("it is there");
});
