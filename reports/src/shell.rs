//! Words of commands that a reader may copy.

use std::path::Path;

/// Quotes a word for a POSIX shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns a file as an argument of a command: quoted for a POSIX shell, and never taken for a flag.
pub fn file_argument(path: &Path) -> String {
    let name = path.to_string_lossy();
    // A dash alone is standard input or output.
    quoted(&if name.starts_with('-') && name != "-" { format!("./{name}") } else { name.into_owned() })
}

/// Joins words into one shell command.
pub fn command(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        assert_eq!(quoted("s3://bucket/a=b"), "s3://bucket/a=b");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("Et*3|tL"), "'Et*3|tL'");
        assert_eq!(quoted("plans/one.json"), "plans/one.json");
        assert_eq!(quoted("my plan's.json"), r"'my plan'\''s.json'");
    }

    #[test]
    fn a_file_is_no_flag() {
        let argument = |name: &str| file_argument(Path::new(name));
        assert_eq!(argument("-x.json"), "./-x.json");
        assert_eq!(argument("- my plan.json"), "'./- my plan.json'");
        assert_eq!(argument("$(touch pwn).toml"), "'$(touch pwn).toml'");
        assert_eq!(argument("plans/-x.json"), "plans/-x.json");
    }
}
