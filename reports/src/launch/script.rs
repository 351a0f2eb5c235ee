//! Shell scripts.

use super::draft::Head;
use crate::shell::{self, quoted};

/// Formats a command of several lines: the first as it is written for a shell, then words that are quoted, a line for
/// each group.
pub(super) fn command(start: &str, groups: &[Vec<String>]) -> String {
    command_with(start, groups, None)
}

/// Formats such a command with a last line as it is written for a shell, if there is one.
pub(super) fn command_with(start: &str, groups: &[Vec<String>], end: Option<&str>) -> String {
    let line = |words: &Vec<String>| shell::command(words);
    let start = std::iter::once(start.to_owned());
    let lines: Vec<String> = start.chain(groups.iter().map(line)).chain(end.map(ToOwned::to_owned)).collect();
    format!("{}\n", lines.join(" \\\n  "))
}

/// Returns a bash script that stops at the first failure.
pub(super) fn script(head: &Head, body: &str) -> String {
    format!("#!/usr/bin/env bash\n{}set -euo pipefail\n\n{body}", head.comment())
}

/// Returns lines that set environment variables.
pub(super) fn exports(variables: &[(String, String)]) -> String {
    variables.iter().map(|(name, value)| format!("export {name}={}\n", quoted(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_a_line_for_each_group() {
        let groups = [vec!["--a".to_owned(), "x y".to_owned()], vec!["--b".to_owned()]];
        assert_eq!(command("run", &groups), "run \\\n  --a 'x y' \\\n  --b\n");
        assert_eq!(command_with("run", &groups[1..], Some("$REST")), "run \\\n  --b \\\n  $REST\n");
    }
}
