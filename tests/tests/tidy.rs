//! The rules of the house: who may depend on whom, how long things may be, and where every number comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use trainyard_tests::{files, root, text};

/// Crates and what each may depend on (design: data goes one way).
const ALLOWED: [(&str, &[&str]); 20] = [
    ("units", &[]),
    ("documents", &[]),
    ("host", &["units"]),
    ("models", &["units", "documents"]),
    ("hardware-profiles", &["units"]),
    ("plan", &["units", "models"]),
    ("interop", &["units", "documents", "models", "plan"]),
    ("sim", &["units", "hardware-profiles", "plan"]),
    ("calibration", &["units", "documents", "models", "hardware-profiles", "plan", "sim"]),
    ("planner", &["units", "models", "hardware-profiles", "plan", "sim", "calibration"]),
    ("data", &["documents", "models"]),
    ("checkpoint", &["documents"]),
    ("executor", &["units", "documents", "host", "models", "hardware-profiles", "plan", "data", "checkpoint"]),
    ("history", &["documents"]),
    ("reports", &["units", "models", "hardware-profiles", "plan", "calibration", "planner", "history"]),
    ("pool", &["units", "hardware-profiles", "plan", "sim", "planner", "reports"]),
    ("server", &["units", "documents", "models", "hardware-profiles", "plan", "sim", "planner", "pool", "history"]),
    (
        "commands",
        &[
            "units",
            "documents",
            "host",
            "models",
            "hardware-profiles",
            "plan",
            "interop",
            "sim",
            "calibration",
            "planner",
            "data",
            "executor",
            "history",
            "reports",
            "pool",
            "server",
        ],
    ),
    ("cli", &["commands"]),
    ("tests", &[]),
];

/// What may stand before `fn`.
const MODIFIERS: [&str; 5] = ["pub", "pub(crate)", "pub(super)", "async", "const"];

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 800;

/// A source file without its tests.
fn code(path: &Path) -> String {
    trainyard_tests::code(&text(path))
}

fn sources() -> Vec<PathBuf> {
    ALLOWED.iter().flat_map(|(folder, _)| files(&root().join(folder).join("src"), "rs")).collect()
}

#[test]
fn crates_depend_only_on_what_the_table_allows() {
    let mut wrong = Vec::new();
    for (folder, allowed) in ALLOWED {
        let manifest: toml::Table = toml::from_str(&text(&root().join(folder).join("Cargo.toml"))).expect("a manifest");
        let Some(dependencies) = manifest.get("dependencies").and_then(toml::Value::as_table) else { continue };
        for dependency in dependencies.keys().filter_map(|name| name.strip_prefix("trainyard-")) {
            if !allowed.contains(&dependency) {
                wrong.push(format!("`{folder}` may not depend on `{dependency}`"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What talks to a library in C may, what hands addresses to one in Rust, and what uses instructions that not every
/// processor has; each place says above why it is sound.
#[test]
fn only_foreign_calls_are_unsafe() {
    const FOREIGN: [&str; 4] = [
        "commands/src/allocator.rs",
        "executor/src/device/cuda.rs",
        "executor/src/kernels/halves.rs",
        "executor/src/kernels/product.rs",
    ];
    for path in sources() {
        let name = path.strip_prefix(root()).expect("inside the repository").display().to_string();
        let lines: Vec<String> = text(&path).lines().map(str::to_owned).collect();
        for (number, line) in lines.iter().enumerate().filter(|(_, line)| line.contains("unsafe ")) {
            assert!(FOREIGN.contains(&name.as_str()), "{name}:{}: {line}", number + 1);
            let above = lines[..number].iter().rev().take_while(|line| line.trim_start().starts_with("//"));
            assert!(above.into_iter().any(|line| line.contains("SAFETY:")), "{name}:{}: no argument", number + 1);
        }
    }
}

#[test]
fn only_the_executor_knows_burn() {
    for (folder, _) in ALLOWED.iter().filter(|(folder, _)| *folder != "executor") {
        assert!(!text(&root().join(folder).join("Cargo.toml")).contains("burn"), "{folder}");
    }
}

#[test]
fn files_and_functions_stay_short() {
    let mut long = Vec::new();
    for path in sources() {
        let code = code(&path);
        let name = path.strip_prefix(root()).expect("inside the repository").display().to_string();
        let lines = code.lines().count();
        if lines > FILE_LINES_MAX {
            long.push(format!("{name} has {lines} lines"));
        }
        long.extend(
            long_functions(&code).into_iter().map(|(function, lines)| format!("{name}: {function} has {lines} lines")),
        );
    }
    assert!(long.is_empty(), "{long:#?}");
}

/// Functions with too many lines. Formatted code ends a function with a brace as deep as its `fn` stands.
fn long_functions(code: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut long = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        let mut words = trimmed.split(' ').skip_while(|word| MODIFIERS.contains(word));
        if words.next() != Some("fn") {
            continue;
        }
        let end = format!("{}}}", " ".repeat(indent));
        let length = lines[start..].iter().position(|line| *line == end).map_or(1, |length| length + 1);
        if length > FUNCTION_LINES_MAX {
            long.push((trimmed.to_owned(), length));
        }
    }
    long
}

#[test]
fn a_long_function_is_noticed() {
    let body = "    step();\n".repeat(FUNCTION_LINES_MAX);
    for head in ["fn", "pub const fn", "pub(super) async fn"] {
        assert_eq!(long_functions(&format!("{head} long() {{\n{body}}}\n\nfn short() {{\n}}\n")).len(), 1);
    }
}

#[test]
fn every_number_of_the_hardware_catalog_has_a_source() {
    let mut bare = Vec::new();
    for path in files(&root().join("hardware-profiles/catalog"), "toml") {
        let table: toml::Table = toml::from_str(&text(&path)).expect("a catalog file");
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        for (key, value) in &table {
            check(&format!("{name}: {key}"), value, is_count(key), &mut bare);
        }
    }
    assert!(bare.is_empty(), "{bare:#?}");
}

/// Counts that are what they are: no measurement stands behind them.
fn is_count(key: &str) -> bool {
    ["gpus", "vcpus", "interfaces", "pipeline", "rows", "devices"].contains(&key)
}

fn check(at: &str, value: &toml::Value, counts: bool, bare: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) if table.contains_key("source") => {
            let named = table["source"].as_str().is_some_and(|source| !source.is_empty());
            bare.extend((!named).then(|| format!("{at} has an empty source")));
        }
        toml::Value::Table(table) => {
            for (key, value) in table {
                check(&format!("{at}.{key}"), value, is_count(key), bare);
            }
        }
        toml::Value::Array(items) => items.iter().for_each(|item| check(at, item, counts, bare)),
        toml::Value::Integer(_) | toml::Value::Float(_) if !counts => bare.push(format!("{at} is a bare number")),
        _ => {}
    }
}

#[test]
fn only_what_reads_and_keeps_things_for_users_opens_files() {
    for path in sources() {
        let name = path.strip_prefix(root()).expect("inside the repository").display().to_string();
        let may =
            ["checkpoint/", "cli/", "commands/", "data/", "documents/", "executor/", "history/", "host/", "tests/"];
        let may = may.iter().any(|folder| name.starts_with(folder));
        assert!(may || !code(&path).contains("std::fs"), "{name} opens files");
        assert!(name == "host/src/clock.rs" || !code(&path).contains("Instant::now"), "{name} reads the clock");
    }
}

#[test]
fn the_event_kernel_knows_no_training_word() {
    for path in files(&root().join("sim/src/des"), "rs") {
        let foreign: Vec<String> = code(&path)
            .lines()
            .filter(|line| {
                line.starts_with("use ") && !line.starts_with("use std::") && !line.starts_with("use trainyard_units::")
            })
            .map(Into::into)
            .collect();
        assert!(foreign.is_empty(), "{foreign:?}");
    }
}

#[test]
fn every_dependency_has_a_sentence() {
    let described = text(&root().join("docs/dependencies.md"));
    let manifest: toml::Table = toml::from_str(&text(&root().join("Cargo.toml"))).expect("a manifest");
    let dependencies = manifest["workspace"]["dependencies"].as_table().expect("a table of dependencies");
    let missing: Vec<&String> = dependencies
        .keys()
        .filter(|name| !name.starts_with("trainyard-") && !described.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "docs/dependencies.md says nothing of {missing:?}");
}

#[test]
fn no_unused_dependency_is_declared_for_the_workspace() {
    let manifest: toml::Table = toml::from_str(&text(&root().join("Cargo.toml"))).expect("a manifest");
    let declared = manifest["workspace"]["dependencies"].as_table().expect("a table of dependencies");
    let mut uses: BTreeMap<&str, usize> = declared.keys().map(|name| (name.as_str(), 0)).collect();
    for (folder, _) in ALLOWED {
        let manifest: toml::Table = toml::from_str(&text(&root().join(folder).join("Cargo.toml"))).expect("a manifest");
        for section in ["dependencies", "dev-dependencies"] {
            for name in manifest.get(section).and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys) {
                uses.entry(declared.get_key_value(name).map_or("", |(name, _)| name)).and_modify(|uses| *uses += 1);
            }
        }
    }
    let unused: Vec<&str> = uses.into_iter().filter(|(_, uses)| *uses == 0).map(|(name, _)| name).collect();
    assert!(unused.is_empty(), "declared and used by no crate: {unused:?}");
}

/// Which crates use a dependency, if its row names them.
#[test]
fn the_table_of_dependencies_says_who_uses_them() {
    let mut used: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (folder, _) in ALLOWED {
        let manifest: toml::Table = toml::from_str(&text(&root().join(folder).join("Cargo.toml"))).expect("a manifest");
        let own = manifest.get("dependencies").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys);
        for name in own {
            used.entry(name.clone()).or_default().insert(folder);
        }
    }
    let mut wrong = Vec::new();
    for row in text(&root().join("docs/dependencies.md")).lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let words = cells[2].split([',', ';']).map(str::trim);
        let told: BTreeSet<&str> = words.filter(|word| ALLOWED.iter().any(|(folder, _)| folder == word)).collect();
        for name in cells[1].split(", ") {
            let using = used.get(name).cloned().unwrap_or_default();
            if !told.is_empty() && !told.contains("tests") && told != using {
                wrong.push(format!("{name} is used by {using:?}, but its row tells of {told:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn crates_wheel_and_changelog_have_one_version_and_what_a_registry_wants() {
    let manifest = |folder: &str| -> toml::Table {
        toml::from_str(&text(&root().join(folder).join("Cargo.toml"))).expect("a manifest")
    };
    let workspace = manifest("")["workspace"].clone();
    let version = workspace["package"]["version"].as_str().expect("a version");
    assert_eq!(manifest("python")["package"]["version"].as_str(), Some(version), "python/Cargo.toml");
    let changelog = text(&root().join("CHANGELOG.md"));
    let newest = changelog.lines().find_map(|line| line.strip_prefix("## ")).expect("a version");
    assert!(newest.split(',').next() == Some(version), "CHANGELOG.md begins with {newest}, but this is {version}");
    for (name, dependency) in workspace["dependencies"].as_table().expect("dependencies") {
        if name.starts_with("trainyard-") {
            assert_eq!(dependency["version"].as_str(), Some(version), "{name}");
        }
    }
    for (folder, _) in ALLOWED.iter().filter(|(folder, _)| *folder != "tests") {
        let package = manifest(folder)["package"].clone();
        assert!(package["description"].as_str().is_some_and(|words| words.len() > 30), "{folder}");
        for field in ["version", "license", "readme", "keywords", "categories", "publish"] {
            assert!(package.get(field).is_some_and(|value| value.get("workspace").is_some()), "{folder}: {field}");
        }
    }
}
