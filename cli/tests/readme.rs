//! The commands of the README and of the pages that are run print what these say.

use std::path::Path;

#[test]
fn the_readme_shows_what_commands_print() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above this crate");
    // The README's paths are seen from the root. Nothing else runs in this process.
    std::env::set_current_dir(root).expect("the root of the repository can be entered");
    trycmd::TestCases::new()
        .register_bin("trainyard", Path::new(env!("CARGO_BIN_EXE_trainyard")))
        .env("NO_COLOR", "1")
        .env("TRAINYARD_HISTORY", "off")
        .case("README.md")
        .case("docs/export.md")
        .run();
}
