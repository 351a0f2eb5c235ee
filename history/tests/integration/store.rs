//! The file: what goes in comes out, older files are read, and what is no history stays as it is.

use proptest::prelude::*;
use std::path::{Path, PathBuf};
use trainyard_history::{
    Document, Entry, Figures, Filter, HistoryError, Kind, NewEntry, Old, Prune, Store, Tagged, UtcTime, VERSION,
};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn entry(kind: Kind, at: u64, model: &str) -> NewEntry {
    NewEntry {
        kind,
        at: UtcTime::of_unix_seconds(at),
        program: "0.1.0".into(),
        arguments: vec!["plan".into(), model.into()],
        model: Some(model.into()),
        machines: Some("1 × p3.2xlarge".into()),
        figures: Figures { step_time_s: Some(0.25), ..Figures::default() },
        documents: vec![Document { name: "plan.json".into(), text: format!("{{\"model\": \"{model}\"}}\n") }],
    }
}

fn ids(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.id.as_str()).collect()
}

fn found(store: &Store, filter: &Filter) -> Vec<String> {
    store.list(filter).expect("readable").entries.into_iter().filter_map(|entry| entry.model).collect()
}

#[test]
fn entries_are_found_by_what_they_are() {
    let folder = folder();
    let mut store = Store::open(&folder.path().join("history.db")).expect("room");
    let kept =
        [(Kind::Plan, 10, "gpt2"), (Kind::Run, 20, "gpt2-xl"), (Kind::Plan, 30, "resnet50"), (Kind::Plan, 30, "vit")]
            .map(|(kind, at, model)| store.keep(&entry(kind, at, model)).expect("room").id);
    store.tag(&kept[0], &["a".into(), "b".into()]).expect("room");
    store.tag(&kept[2], &["b".into()]).expect("room");
    let all = Filter::default();
    assert_eq!(found(&store, &all), ["vit", "resnet50", "gpt2-xl", "gpt2"], "the newest first");
    assert_eq!(found(&store, &Filter { kind: Some(Kind::Run), ..all.clone() }), ["gpt2-xl"]);
    assert_eq!(found(&store, &Filter { model: Some("gpt2".into()), ..all.clone() }), ["gpt2"]);
    assert_eq!(found(&store, &Filter { model: Some("GPT*".into()), ..all.clone() }), ["gpt2-xl", "gpt2"]);
    assert_eq!(found(&store, &Filter { tags: vec!["b".into()], ..all.clone() }), ["resnet50", "gpt2"]);
    assert_eq!(found(&store, &Filter { tags: vec!["b".into(), "a".into()], ..all.clone() }), ["gpt2"]);
    assert_eq!(found(&store, &Filter { since: Some(UtcTime::of_unix_seconds(20)), ..all.clone() }).len(), 3);
    let listed = store.list(&Filter { limit: Some(3), ..all }).expect("readable");
    assert_eq!((listed.entries.len(), listed.left_out), (3, 1));
}

#[test]
fn an_id_is_found_by_its_start_and_a_wrong_one_names_the_nearest() {
    let folder = folder();
    let mut store = Store::open(&folder.path().join("history.db")).expect("room");
    assert_eq!(store.find("abc"), Err(HistoryError::Unknown { id: "abc".into(), nearest: Vec::new() }));
    // More entries than there are first letters.
    let kept: Vec<String> = (0..40).map(|at| store.keep(&entry(Kind::Plan, at, "gpt2")).expect("room").id).collect();
    for id in &kept {
        assert_eq!(store.find(id).expect("kept").id, *id);
        assert_eq!(store.find(&id.to_uppercase()).expect("kept").id, *id);
    }
    let start = kept.iter().map(|id| &id[..1]).find(|start| kept.iter().filter(|id| id.starts_with(start)).count() > 1);
    let start = start.expect("two of forty begin alike");
    let Err(HistoryError::Ambiguous { ids, .. }) = store.find(start) else { panic!("{start} is ambiguous") };
    assert!(ids.len() > 1 && ids.iter().all(|id| id.starts_with(start)), "{ids:?}");
    let mut slip = kept[7].clone();
    slip.replace_range(2..3, "u");
    let Err(HistoryError::Unknown { nearest, .. }) = store.find(&slip) else { panic!("{slip} is unknown") };
    assert_eq!(nearest[0], kept[7]);
}

#[test]
fn the_same_command_in_the_same_second_is_two_entries() {
    let folder = folder();
    let mut store = Store::open(&folder.path().join("history.db")).expect("room");
    let (one, two) = (store.keep(&entry(Kind::Plan, 1, "a")), store.keep(&entry(Kind::Plan, 1, "a")));
    assert_ne!(one.expect("room").id, two.expect("room").id);
}

#[test]
fn tags_and_notes_come_and_go() {
    let folder = folder();
    let mut store = Store::open(&folder.path().join("history.db")).expect("room");
    let id = store.keep(&entry(Kind::Plan, 1, "a")).expect("room").id;
    assert_eq!(store.tag(&id, &["b".into(), "a".into(), "b".into()]).expect("room").tags, ["a", "b"]);
    assert!(matches!(store.tag(&id, &["c".into(), "two words".into()]), Err(HistoryError::NotATag { .. })));
    assert!(matches!(store.untag(&id, &["a".into(), "c".into()]), Err(HistoryError::NoSuchTag { .. })));
    assert_eq!(store.find(&id).expect("kept").tags, ["a", "b"], "all of it or nothing");
    assert_eq!(store.untag(&id, &["a".into()]).expect("room").tags, ["b"]);
    assert_eq!(store.note(&id, Some("it's\nfast")).expect("room").note.as_deref(), Some("it's\nfast"));
    assert_eq!(store.note(&id, None).expect("room").note, None);
}

#[test]
fn old_entries_are_removed_and_tagged_ones_stay() {
    let folder = folder();
    let path = folder.path().join("history.db");
    let mut store = Store::open(&path).expect("room");
    let large = Document { name: "large.json".into(), text: "x".repeat(100_000) };
    let kept: Vec<String> = (0..6)
        .map(|at| {
            let kind = if at % 2 == 0 { Kind::Plan } else { Kind::Run };
            let mut new = entry(kind, at, "a");
            new.documents.push(large.clone());
            store.keep(&new).expect("room").id
        })
        .collect();
    store.tag(&kept[0], &["stays".into()]).expect("room");
    let prune = |old, kind, tagged| Prune { old, kind, tagged };
    let newest = prune(Old::AllBut(1), Some(Kind::Plan), Tagged::Stay);
    assert_eq!(ids(&store.prunable(&newest).expect("readable")), [&kept[2]]);
    assert_eq!(ids(&store.prunable(&Prune { tagged: Tagged::Go, ..newest }).expect("readable")), [&kept[2], &kept[0]]);
    let early = prune(Old::Before(UtcTime::of_unix_seconds(4)), None, Tagged::Stay);
    let size = || std::fs::metadata(&path).expect("there").len();
    let before = size();
    assert_eq!(ids(&store.prune(&early).expect("room")), [&kept[3], &kept[2], &kept[1]]);
    assert!(size() < before - 250_000, "the room goes back to the disk");
    assert_eq!(store.list(&Filter::default()).expect("readable").entries.len(), 3);
    assert_eq!(store.prunable(&prune(Old::AllBut(9), None, Tagged::Go)).expect("readable"), []);
    assert_eq!(store.prune(&prune(Old::AllBut(0), None, Tagged::Go)).expect("room").len(), 3);
    assert!(matches!(store.documents(&kept[5]), Err(HistoryError::Unknown { .. })));
}

/// Returns a file as version 1 left it, copied so that it can be changed.
fn of_version_1(folder: &Path) -> PathBuf {
    let path = folder.join("old.db");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-1.db");
    std::fs::copy(kept, &path).expect("a file of version 1");
    path
}

#[test]
fn a_file_of_version_1_is_brought_forward_and_loses_nothing() {
    let folder = folder();
    let path = of_version_1(folder.path());
    let mut store = Store::existing(&path).expect("an older version").expect("it is there");
    let old = store.find("a1b").expect("kept by version 1");
    assert_eq!((old.tags.clone(), old.note.clone()), (vec!["baseline".to_owned()], None));
    assert_eq!(
        old.figures,
        Figures { step_time_s: Some(0.25), time_s: Some(3600.5), cost_usd: Some(12.5), ..Figures::default() }
    );
    assert_eq!((old.documents.len(), old.at.to_string().as_str()), (2, "2026-09-21T14:13:20Z"));
    assert_eq!(store.documents("a1b2c3").expect("readable")[0].text, "{\"schema\": \"trainyard.plan/1\"}\n");
    store.note("z9", Some("older")).expect("what version 2 has");
    store.keep(&entry(Kind::Plan, 1_790_000_120, "new")).expect("room");
    drop(store);
    let again = Store::open(&path).expect("the present version");
    assert_eq!(again.list(&Filter::default()).expect("readable").entries.len(), 3);
    let header = std::fs::read(&path).expect("readable");
    assert_eq!(u32::from_be_bytes([header[60], header[61], header[62], header[63]]), VERSION);
}

#[cfg(unix)]
#[test]
fn what_is_no_history_is_refused_and_not_changed() {
    let folder = folder();
    let foreign: [(&str, Vec<u8>); 5] = [
        ("text", b"not a database".to_vec()),
        ("long-text", vec![b'x'; 5000]),
        ("cut-short", b"SQLite format 3\0".to_vec()),
        ("another", {
            let mut header = std::fs::read(of_version_1(folder.path())).expect("a history");
            header[68..72].copy_from_slice(&[0; 4]);
            header
        }),
        ("newer", {
            let mut header = std::fs::read(of_version_1(folder.path())).expect("a history");
            header[60..64].copy_from_slice(&99_u32.to_be_bytes());
            header
        }),
    ];
    std::fs::remove_file(folder.path().join("old.db")).expect("it is there");
    for (name, content) in &foreign {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("room");
        let refused = Store::open(&path).expect_err(name);
        assert_eq!(matches!(refused, HistoryError::Newer { found: 99, .. }), *name == "newer", "{refused}");
        assert_eq!(Store::existing(&path).expect_err(name), refused);
        assert!(refused.is_input() && refused.hint().is_some());
        assert!(std::fs::read(&path).expect("readable") == *content, "{name} is not changed");
    }
    assert!(matches!(Store::open(folder.path()), Err(HistoryError::Foreign { .. })), "a folder");
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("readable").count(),
        foreign.len(),
        "nothing is left beside them"
    );
}

#[test]
fn a_damaged_history_is_told_as_such() {
    let folder = folder();
    let path = folder.path().join("history.db");
    let mut store = Store::open(&path).expect("room");
    for at in 0..50 {
        store.keep(&entry(Kind::Plan, at, "gpt2")).expect("room");
    }
    drop(store);
    let mut content = std::fs::read(&path).expect("readable");
    let length = content.len();
    content[4096..length].fill(0xa5);
    std::fs::write(&path, &content).expect("room");
    let told = Store::open(&path).and_then(|mut store| store.keep(&entry(Kind::Plan, 99, "gpt2")));
    assert!(matches!(told, Err(HistoryError::Damaged { .. })), "{told:?}");
    assert!(std::fs::read(&path).expect("readable") == content, "it is not changed");
}

/// What a history says, or that it cannot say it.
fn told(path: &Path) -> Result<Vec<(Entry, Vec<Document>)>, HistoryError> {
    let Some(store) = Store::existing(path)? else { return Ok(Vec::new()) };
    let entries = store.list(&Filter::default())?.entries;
    entries.into_iter().map(|entry| Ok((entry.clone(), store.documents(&entry.id)?))).collect()
}

#[test]
fn damaged_bytes_are_told_or_change_nothing() {
    let folder = folder();
    let path = folder.path().join("history.db");
    let mut store = Store::open(&path).expect("room");
    for at in 0..20 {
        let mut new = entry(Kind::Plan, at, "gpt2");
        // One document is longer than a page of the file.
        new.documents[0].text = "{\"figure\": 1.25}\n".repeat(1 + 400 * usize::from(at == 7));
        new.figures.step_time_s = Some(0.25);
        store.keep(&new).expect("room");
    }
    drop(store);
    let whole = std::fs::read(&path).expect("readable");
    let before = told(&path).expect("whole");
    let mut noticed = 0;
    // Text stays text when a digit becomes another.
    for (damage, width) in [([0xff_u8; 64], 64), ([b'7'; 64], 64), ([b'8'; 64], 1)] {
        for at in (105..whole.len() - width).step_by(97) {
            let mut content = whole.clone();
            content[at..at + width].copy_from_slice(&damage[..width]);
            if content == whole {
                continue;
            }
            std::fs::write(&path, &content).expect("room");
            match told(&path) {
                Err(error) => {
                    noticed += 1;
                    assert!(error.hint().is_some(), "{error}");
                }
                Ok(now) => {
                    let tags = |all: &[(Entry, Vec<Document>)]| {
                        all.iter().map(|(entry, _)| (entry.tags.clone(), entry.note.clone())).collect::<Vec<_>>()
                    };
                    let untold = tags(&now) != tags(&before);
                    let differs = now.iter().zip(&before).find(|(now, before)| now != before);
                    assert!(untold || now == before, "{width} bytes at {at} change what is told: {differs:?}");
                }
            }
        }
    }
    assert!(noticed > 200, "{noticed}");
}

#[test]
fn looking_makes_no_file_and_keeping_makes_one() {
    let folder = folder();
    let path = folder.path().join("new/below/history.db");
    assert!(Store::existing(&path).expect("nothing is wrong").is_none());
    assert!(!folder.path().join("new").exists());
    // A process that was killed before its first entry leaves this.
    let empty = folder.path().join("empty.db");
    std::fs::write(&empty, "").expect("room");
    // A process that was killed a moment later leaves this.
    let made = folder.path().join("made.db");
    let copied =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/empty.db")).expect("a database");
    std::fs::write(&made, copied).expect("room");
    let missing = Store::open(&path).expect_err("no folder is made that was not named");
    assert!(matches!(&missing, HistoryError::Unavailable { cause, .. } if cause.contains("new/below")), "{missing}");
    assert!(!folder.path().join("new").exists());
    let path = folder.path().join("history.db");
    for path in [&path, &empty, &made] {
        Store::open(path).and_then(|mut store| store.keep(&entry(Kind::Plan, 1, "a"))).expect("room");
        let alone = std::fs::read_dir(path.parent().expect("a folder")).expect("readable");
        assert!(alone.flatten().all(|file| !file.file_name().to_string_lossy().contains("-journal")), "one file");
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[ -~]{0,40}", Just("\0'; DROP TABLE entry; --\u{202e}\n".to_owned())]
}

fn number() -> impl Strategy<Value = Option<f64>> {
    proptest::option::of(any::<f64>().prop_filter("documents hold no others", |value| value.is_finite()))
}

fn new_entry() -> impl Strategy<Value = NewEntry> {
    let figures = (number(), number(), number(), number(), number());
    let documents = proptest::collection::vec((text(), text()), 1..4);
    let arguments = proptest::collection::vec(text(), 0..4);
    let about = (proptest::option::of(text()), proptest::option::of(text()));
    (0_usize..4, any::<u64>(), text(), arguments, about, figures, documents).prop_map(
        |(kind, at, program, arguments, (model, machines), figures, documents)| NewEntry {
            kind: Kind::ALL[kind],
            at: UtcTime::of_unix_seconds(at),
            program,
            arguments,
            model,
            machines,
            figures: Figures {
                step_time_s: figures.0,
                predicted_step_time_s: figures.1,
                time_s: figures.2,
                cost_usd: figures.3,
                loss: figures.4,
            },
            documents: documents.into_iter().map(|(name, text)| Document { name, text }).collect(),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_goes_in_comes_out(new in proptest::collection::vec(new_entry(), 1..5)) {
        let folder = folder();
        let path = folder.path().join("history.db");
        let mut kept = Vec::new();
        for entry in &new {
            kept.push(Store::open(&path).and_then(|mut store| store.keep(entry)).expect("room"));
        }
        let store = Store::existing(&path).expect("readable").expect("it is there");
        for (new, kept) in new.iter().zip(&kept) {
            prop_assert_eq!(&store.find(&kept.id).expect("kept"), kept);
            prop_assert_eq!(&store.documents(&kept.id).expect("kept"), &new.documents);
            let back = NewEntry {
                kind: kept.kind,
                at: kept.at,
                program: kept.program.clone(),
                arguments: kept.arguments.clone(),
                model: kept.model.clone(),
                machines: kept.machines.clone(),
                figures: kept.figures,
                documents: new.documents.clone(),
            };
            prop_assert_eq!(new, &back);
            let names: Vec<&String> = new.documents.iter().map(|document| &document.name).collect();
            prop_assert_eq!(kept.documents.iter().collect::<Vec<_>>(), names);
        }
        let listed = store.list(&Filter::default()).expect("readable").entries;
        prop_assert!(listed.windows(2).all(|two| two[0].at >= two[1].at) && listed.len() == new.len());
    }
}
