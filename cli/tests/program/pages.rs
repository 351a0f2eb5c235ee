//! What pages and launch files must say in cases of which `tests/cmd/` does not show the whole.

use crate::commands::{Commands, program};

fn all_say_their_words(table: &'static str) {
    for Commands { folder, rows, .. } in Commands::read(table) {
        for row in rows {
            let output = program(folder.path(), &row.arguments).output().expect("the program starts");
            let said =
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert_eq!(output.status.code(), Some(row.code), "{}: {said}", row.arguments);
            assert_eq!(row.missing(&said), Vec::<&str>::new(), "{}:\n{said}", row.arguments);
        }
    }
}

#[test]
fn pages_tell_what_is_not_plain() {
    all_say_their_words(include_str!("pages.txt"));
}

/// `tests/launch_files/` has the programs that read such files.
#[test]
fn launch_files_say_what_the_plan_does() {
    all_say_their_words(include_str!("launch_files.txt"));
}
