//! Pages lead somewhere: every relative link of a page names a file, and a heading of it where it names one; every page of
//! the documentation is in the contents.

use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use trainyard_tests::{root, text};

/// Folders whose pages are read.
const FOLDERS: [&str; 5] = ["", "docs", "docs/guide", "docs/design", "docs/measurements"];

fn pages() -> Vec<PathBuf> {
    let inside = |folder: &str| {
        fs::read_dir(root().join(folder)).expect("a folder").map(|entry| entry.expect("an entry").path())
    };
    let mut pages: Vec<PathBuf> = FOLDERS.into_iter().flat_map(inside).collect();
    pages.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    pages.sort();
    pages
}

/// What the links of a page lead to.
fn links(text: &str) -> Vec<String> {
    let target = |event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
        _ => None,
    };
    Parser::new(text).filter_map(target).collect()
}

/// The names by which the headings of a page can be linked to, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut found, mut heading) = (BTreeSet::new(), None::<String>);
    for event in Parser::new(text) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::Text(part) | Event::Code(part), Some(heading)) => heading.push_str(&part),
            (Event::End(TagEnd::Heading(_)), _) => found.extend(heading.take().map(|heading| anchor(&heading))),
            _ => {}
        }
    }
    found
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

/// Says what is wrong with a link of a page, if something is.
fn broken(page: &Path, link: &str) -> Option<&'static str> {
    if link.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(char::is_alphabetic)) {
        return None;
    }
    let (path, heading) = link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
    let target = if path.is_empty() { page.to_owned() } else { page.parent().expect("a folder").join(path) };
    if !target.exists() {
        return Some("there is no such file");
    }
    let is_there = heading.is_none_or(|heading| anchors(&text(&target)).contains(heading));
    (!is_there).then_some("there is no such heading")
}

#[test]
fn links_lead_to_files_and_headings() {
    let (mut wrong, mut followed) = (Vec::new(), 0);
    for page in pages() {
        for link in links(&text(&page)) {
            followed += 1;
            wrong.extend(broken(&page, &link).map(|why| format!("{}: {link}: {why}", page.display())));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(followed > 100, "only {followed} links were found");
}

#[test]
fn every_page_of_the_documentation_is_in_its_contents() {
    let docs = root().join("docs");
    let contents: BTreeSet<String> = links(&text(&docs.join("SUMMARY.md"))).into_iter().collect();
    let named = |page: &PathBuf| Some(page.strip_prefix(&docs).ok()?.to_str().expect("a name").to_owned());
    let missing: Vec<String> =
        pages().iter().filter_map(named).filter(|page| page != "SUMMARY.md" && !contents.contains(page)).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md lacks {missing:?}");
}

#[test]
fn a_broken_link_is_noticed() {
    let page = root().join("docs/README.md");
    assert_eq!(broken(&page, "no-such-page.md"), Some("there is no such file"));
    assert_eq!(broken(&page, "physics.md#no-such-heading"), Some("there is no such heading"));
    assert_eq!(broken(&page, "https://example.org/x"), None);
    assert_eq!(anchors("# One `two`, three\n\nText"), BTreeSet::from(["one-two-three".to_owned()]));
    assert_eq!(links("[a](b.md#c) `[d](e)`\n\n```\n[f](g)\n```"), ["b.md#c"]);
}
