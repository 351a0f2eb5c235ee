//! Shell scripts.

use super::draft::Head;
use crate::shell::{self, quoted};

/// A command of several lines: the first as it is written for a shell, then words that are quoted, a line for each group.
pub(super) fn command(start: &str, groups: &[Vec<String>]) -> String {
    let line = |words: &Vec<String>| shell::command(words);
    let lines: Vec<String> = std::iter::once(start.to_owned()).chain(groups.iter().map(line)).collect();
    format!("{}\n", lines.join(" \\\n  "))
}

/// A bash script that stops at the first failure.
pub(super) fn script(head: &Head, body: &str) -> String {
    format!("#!/usr/bin/env bash\n{}set -euo pipefail\n\n{body}", head.comment())
}

/// Lines that set variables of the environment.
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
    }
}
