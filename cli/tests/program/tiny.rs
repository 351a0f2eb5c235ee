//! A job that is trained in seconds: a tiny model and a few thousand characters.

use std::fs;
use std::path::Path;

const JOB: &str = r#"
[model]
family = "gpt"
name = "tiny"
layers = 2
hidden = 16
heads = 2
vocab = 256
seq_len = 16

[data]
path = "text"

[training]
global_batch = 4
steps = 12
learning_rate = 1e-2
"#;

/// Writes `job.toml`, which ends with `more` after the fields of its training, and the text that it trains on.
pub(crate) fn write_job(folder: &Path, more: &str) {
    fs::write(folder.join("job.toml"), format!("{JOB}{more}")).expect("room");
    fs::create_dir(folder.join("text")).expect("room");
    let text = "All that glitters is not gold; often have you heard that told. ".repeat(60);
    fs::write(folder.join("text/proverbs.txt"), text).expect("room");
}
