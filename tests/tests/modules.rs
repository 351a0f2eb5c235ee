//! Modules are layered: no two of a crate's top-level modules use each other, by whatever way, and where the `mod` lines
//! of `lib.rs` stand in groups, parted by blank lines, a module uses its own group and those above.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trainyard_tests::{files, root, text};

/// Which modules use which, and the files in which they do.
type Uses = BTreeMap<(String, String), BTreeSet<String>>;

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The word at the start of a text.
fn word(text: &str) -> &str {
    &text[..text.find(|letter| !is_word(letter)).unwrap_or(text.len())]
}

/// Code without its comments and its tests.
fn code(text: &str) -> String {
    let code = trainyard_tests::code(text);
    code.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect()
}

/// The modules that `lib.rs` declares with the numbers of their groups, and the names that it exports with their modules.
fn declared(lib: &str) -> (BTreeMap<String, usize>, BTreeMap<String, String>) {
    let (mut modules, mut exported) = (BTreeMap::new(), BTreeMap::new());
    let (mut group, mut tested) = (0, false);
    for line in lib.lines() {
        let own = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        if let Some(name) = own.strip_prefix("mod ").filter(|_| !tested) {
            modules.insert(word(name).to_owned(), group);
        }
        tested = line == "#[cfg(test)]";
        group += usize::from(line.is_empty());
    }
    for item in code(lib).split("\npub use ").skip(1) {
        let item = item.split(';').next().expect("a part").trim_start_matches("self::");
        let module = word(item);
        let names = item[module.len()..].split(|letter| !is_word(letter)).filter(|name| !name.is_empty());
        exported.extend(names.map(|name| (name.to_owned(), module.to_owned())));
    }
    (modules, exported)
}

/// The first words of the paths behind a prefix: of `crate::a::B` and of `crate::{a::{B, C}, D}`.
fn first_words(behind: &str) -> Vec<&str> {
    let Some(list) = behind.strip_prefix('{') else { return vec![word(behind)] };
    let (mut depth, mut words) = (0, vec![word(list.trim_start())]);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => words.push(word(list[at + 1..].trim_start())),
            _ => {}
        }
    }
    words
}

/// The names of the crate's root that a file uses; `depth` is how many `super` lead there.
fn names<'a>(code: &'a str, depth: usize) -> Vec<&'a str> {
    let root = "super::".repeat(depth);
    let starts = |prefix: &'a str, code: &'a str| {
        code.match_indices(prefix).filter(|(at, _)| !code[..*at].ends_with(|before| is_word(before) || before == ':'))
    };
    let whole = starts("crate::", code).map(|(at, prefix)| &code[at + prefix.len()..]);
    let relative = starts("super::", code).filter_map(|(at, _)| code[at..].strip_prefix(&root));
    whole.chain(relative).flat_map(first_words).collect()
}

/// What is wrong with a crate: its `lib.rs`, and the other files by their paths.
fn complaints(lib: &str, files: &[(String, String)]) -> Vec<String> {
    let (modules, exported) = declared(lib);
    let mut uses = Uses::new();
    for (path, text) in files {
        let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
        if parts.iter().any(|part| part.contains("tests")) || !modules.contains_key(parts[0]) {
            continue;
        }
        let depth = parts.len() - usize::from(parts.last() == Some(&"mod"));
        for name in names(&code(text), depth) {
            let used = if modules.contains_key(name) { Some(name) } else { exported.get(name).map(String::as_str) };
            if let Some(used) = used.filter(|used| *used != parts[0]) {
                uses.entry((parts[0].to_owned(), used.to_owned())).or_default().insert(path.clone());
            }
        }
    }
    let mut wrong = Vec::new();
    for ((user, used), files) in &uses {
        if reaches(&uses, used, user) {
            wrong.push(format!("`{user}` uses `{used}`, which uses it: {files:?}"));
        }
        if modules.get(user) < modules.get(used) {
            wrong.push(format!("`{user}` uses `{used}`, which stands in a group below: {files:?}"));
        }
    }
    wrong
}

fn reaches(uses: &Uses, from: &str, to: &str) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        if seen.insert(module) {
            open.extend(uses.keys().filter(|(user, _)| user == module).map(|(_, used)| used.as_str()));
        }
    }
    seen.contains(to)
}

/// The sources below a folder, by their paths in it.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let name = |path: &Path| path.strip_prefix(folder).expect("it is inside").to_string_lossy().into_owned();
    files(folder, "rs").iter().map(|path| (name(path), text(path))).collect()
}

#[test]
fn modules_are_layered() {
    let manifest: toml::Table = toml::from_str(&text(&root().join("Cargo.toml"))).expect("a manifest");
    let mut wrong = Vec::new();
    for member in manifest["workspace"]["members"].as_array().expect("a list") {
        let member = member.as_str().expect("a folder");
        let mut files = sources(&root().join(member).join("src"));
        let lib = files.iter().position(|(path, _)| path == "lib.rs" || path == "main.rs").expect("a root");
        let (_, lib) = files.remove(lib);
        wrong.extend(complaints(&lib, &files).into_iter().map(|complaint| format!("{member}: {complaint}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn circles_and_wrong_layers_are_found() {
    let lib = "// Below.\nmod low;\n\n// Above.\nmod high;\n#[cfg(test)]\nmod tests;\n\npub use high::{Roof, inner::Attic};\n";
    let wrong = |files: &[(&str, &str)]| {
        let files: Vec<_> = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        complaints(lib, &files).len()
    };
    assert_eq!(wrong(&[("high/mod.rs", "use crate::low::Floor;"), ("low.rs", "use std::fs;")]), 0);
    for upward in ["use crate::high::Roof;", "use crate::{\n    low::A,\n    high::{B, C},\n};", "use crate::Attic;"] {
        assert_eq!(wrong(&[("low.rs", upward)]), 1, "{upward}");
        assert_eq!(wrong(&[("low.rs", upward), ("high/part.rs", "fn a() { super::super::low::b() }")]), 3, "{upward}");
    }
    assert_eq!(wrong(&[("low.rs", "fn a() {\n    super::high::b();\n}")]), 1);
    assert_eq!(wrong(&[("low/part.rs", "use super::high;\n// crate::high\n")]), 0);
    assert_eq!(wrong(&[("low.rs", "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    use crate::high;\n}\n")]), 0);
    assert_eq!(wrong(&[("low/tests.rs", "use crate::high;")]), 0);
}
