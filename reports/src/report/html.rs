//! Pieces of a page: tables, lists, figures. Text is escaped wherever it comes from.

use crate::chart::{Breadth, Picture, dark_rules};
use crate::history::harmless;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// Colours of the page on a dark background; those of its pictures follow from the light ones.
const DARK: &str = "--paper:#15191f;--ground:#0d1014;--ink:#e6e9ee;--muted:#a3adb8;--line:#313842;--accent:#4aa3df;\
                    --mind:#2b2415;--mind-line:#f2b632";

/// Returns a self-contained page: no script, no other file, no network, and no characters that change a terminal or the
/// direction of writing.
pub(super) fn page(title: &str, content: &Markup) -> String {
    let dark = format!("@media screen and (prefers-color-scheme:dark){{:root{{{DARK}}}{}}}", dark_rules());
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                meta name="generator" content=(concat!("trainyard ", env!("CARGO_PKG_VERSION")));
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(dark)) }
            }
            body { main { (content) } }
        }
    };
    harmless(&page.into_string())
}

/// Returns a part of the page under its heading, to which the contents link.
pub(super) fn section(id: &str, heading: &str, content: &Markup) -> Markup {
    html! { section id=(id) { h2 { (heading) } (content) } }
}

/// Returns a table with a header; columns whose header starts with `>` hold numbers. Without rows it is empty.
pub(super) fn table<R: AsRef<[String]>>(caption: &str, header: &[&str], rows: &[R]) -> Markup {
    let class = |column: usize| header[column].starts_with('>').then_some("number");
    html! {
        @if !rows.is_empty() {
            div.scroll tabindex="0" role="group" aria-label=(if caption.is_empty() { "Table" } else { caption }) {
                table {
                    @if !caption.is_empty() { caption { (caption) } }
                    thead { tr { @for (column, title) in header.iter().enumerate() {
                        @let title = title.trim_start_matches('>');
                        @if title.is_empty() { td {} } @else { th scope="col" class=[class(column)] { (title) } }
                    } } }
                    tbody { @for row in rows { tr { @for (column, cell) in row.as_ref().iter().enumerate() {
                        td class=[class(column)] { (cell) }
                    } } } }
                }
            }
        }
    }
}

/// Returns a list of names with their values.
pub(super) fn facts<N: AsRef<str>>(rows: &[(N, String)]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Facts" { table.facts { tbody { @for (name, value) in rows {
            tr { th scope="row" { (name.as_ref()) } td { (value) } }
        } } } }
    }
}

pub(super) fn list(items: &[String]) -> Markup {
    html! { @if !items.is_empty() { ul.plain { @for item in items { li { (item) } } } } }
}

/// Returns a picture for a page and another for a phone, of which a reader sees one; empty where it cannot be drawn.
pub(super) fn figure(caption: &str, draw: impl Fn(Breadth) -> Result<Picture, String>) -> Markup {
    let drawn = [Breadth::Wide, Breadth::Narrow].map(|breadth| draw(breadth).map(|picture| picture.inline_svg()));
    html! {
        @if let [Ok(wide), Ok(narrow)] = drawn {
            figure {
                div.wide { (PreEscaped(wide)) }
                div.narrow { (PreEscaped(narrow)) }
                @if !caption.is_empty() { figcaption { (caption) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_wherever_it_stands() {
        let evil = "<img src=x onerror=alert(1)>\u{1b}\u{202e}&\"";
        let rows = [[evil.to_owned(), "1".into()]];
        let parts = html! {
            (section("one", evil, &html! { (list(&[evil.into()])) }))
            (table(evil, &[evil, ">n"], &rows))
            (facts(&[(evil, evil.into())]))
            (figure(evil, |_| Ok(Picture::new(evil, (10, 10)))))
        };
        let page = page(evil, &parts);
        assert!(!page.contains(['\u{1b}', '\u{202e}']), "{page}");
        assert!(!page.contains("<img") && page.contains("&lt;img src=x"), "{page}");
    }

    #[test]
    fn tables_can_be_scrolled_with_keys_and_corners_are_no_headings() {
        let written = table("", &["", ">time"], &[["a".to_owned(), "1 s".into()]]).into_string();
        assert!(
            written.contains("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\">"),
            "{written}"
        );
        assert!(written.contains("<tr><td></td><th scope=\"col\" class=\"number\">time</th></tr>"), "{written}");
    }

    #[test]
    fn a_table_of_nothing_is_nothing() {
        assert_eq!(table::<[String; 1]>("caption", &["a"], &[]).into_string(), "");
        assert_eq!(figure("caption", |_| Err("no".into())).into_string(), "");
    }
}
