//! The repository as the whole-system tests in `tests/` read it: its folders, its texts, and its code without tests.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above this crate")
}

/// The files below a folder, at any depth, whose names end with `.{ending}`, in order.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("folders of the repository can be read") {
            let path = entry.expect("entries can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The text of a file.
pub fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text of a source without its modules of tests, wherever they stand. Formatted code ends such a module with a brace
/// at the start of a line.
pub fn code(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let module = lines.next_if(|next| line == "#[cfg(test)]" && is_module(next));
        match module {
            Some(module) if module.ends_with('{') => lines.by_ref().take_while(|line| *line != "}").for_each(drop),
            Some(_) => {}
            None => kept.extend([line, "\n"]),
        }
    }
    kept
}

fn is_module(line: &str) -> bool {
    line.split(' ').find(|word| !word.starts_with("pub")) == Some("mod")
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn only_modules_of_tests_are_left_out() {
        let text = "use a;\n#[cfg(test)]\nmod tests;\nmod b;\n\n#[cfg(test)]\npub(crate) mod made {\n    fn c() {\n    }\n}\n\
                    #[cfg(test)]\nfn d() {\n}\n";
        assert_eq!(code(text), "use a;\nmod b;\n\n#[cfg(test)]\nfn d() {\n}\n");
    }
}
