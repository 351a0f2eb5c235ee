//! Commands and what they print, word by word. After a change that is meant, `TRYCMD=overwrite cargo test --release -p
//! trainyard-cli` writes the files anew; read the difference like code.

use std::path::Path;

#[test]
fn commands_print_what_the_transcripts_say() {
    trycmd::TestCases::new()
        .register_bin("trainyard", Path::new(env!("CARGO_BIN_EXE_trainyard")))
        .env("NO_COLOR", "1")
        .env("TRAINYARD_PROFILE", "no-profile-yet.toml")
        // Transcripts that keep something name a history; its times are those of this second.
        .env("TRAINYARD_HISTORY", "off")
        .env("SOURCE_DATE_EPOCH", "1790000000")
        .case("tests/cmd/*.md")
        .run();
}
