//! What is kept, as pages.

use crate::format::{Width, bullets, columns, deviation, facts, lines, seconds, table, usd};
use crate::shell::quoted;
use trainyard_history::{ComparedDocument, Entry, Figures, HistoryAct, HistoryDocument, Kind, UtcTime};

/// Formats entries for a reader; with their notes and command lines if `everything` is set.
pub fn history(document: &HistoryDocument, width: Width, everything: bool) -> String {
    let mut text = format!("{}\n", title(document));
    if document.entries.is_empty() {
        return text;
    }
    text += "\n";
    text += &rows(document, width);
    if document.left_out > 0 {
        text += &lines(
            [String::new(), format!("  and {} more, older ones; --limit N shows more", document.left_out)].into_iter(),
        );
    }
    let notes =
        document.entries.iter().filter_map(|entry| Some(format!("{}: {}", entry.id, plain(entry.note.as_ref()?))));
    text += &bullets(width, "Notes", &notes.collect::<Vec<_>>());
    if everything {
        let commands = document.entries.iter().map(|entry| format!("{}: {}", entry.id, command(entry)));
        text += &bullets(width, "Commands", &commands.collect::<Vec<_>>());
    }
    let files: Vec<String> = document.files.iter().map(|file| plain(file)).collect();
    text + &bullets(width, "Files", &files)
}

/// Formats the figures and facts of an entry that are not in its document.
pub fn kept(entry: &Entry, width: Width) -> String {
    let Figures { step_time_s, predicted_step_time_s, time_s, cost_usd, loss } = entry.figures;
    let step = if entry.kind == Kind::Run { "measured step" } else { "step" };
    let shown = [
        ("when", Some(format!("{} {} UTC", entry.at.date(), entry.at.time_of_day()))),
        ("program", Some(format!("trainyard {}", plain(&entry.program)))),
        ("model", entry.model.as_deref().map(plain)),
        ("machines", entry.machines.as_deref().map(plain)),
        (step, step_time_s.map(seconds)),
        ("predicted step", predicted_step_time_s.map(seconds)),
        ("time", time_s.map(seconds)),
        ("cost", cost_usd.map(usd)),
        ("loss", loss.map(|loss| format!("{loss:.3}"))),
        ("tags", (!entry.tags.is_empty()).then(|| tags(entry))),
        ("documents", Some(entry.documents.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", "))),
    ];
    let rows: Vec<(&str, String)> = shown.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let mut text = format!("{} {}\n\n{}", entry.kind.name(), entry.id, facts(&rows));
    text += &bullets(width, "Command", &[command(entry)]);
    text + &bullets(width, "Note", &entry.note.iter().map(|note| plain(note)).collect::<Vec<_>>())
}

/// Formats two entries side by side.
pub fn compared(document: &ComparedDocument, width: Width) -> String {
    let (a, b) = (&document.a, &document.b);
    let word = |of: fn(&Entry) -> Option<String>| [a, b].map(|entry| of(entry).unwrap_or_else(none));
    let words = [
        ("kind", word(|entry| Some(entry.kind.name().into()))),
        ("when, UTC", word(|entry| Some(minute(entry.at)))),
        ("model", word(|entry| entry.model.as_deref().map(plain))),
        ("machines", word(|entry| entry.machines.as_deref().map(plain))),
        ("tags", word(|entry| (!entry.tags.is_empty()).then(|| tags(entry)))),
    ];
    let words = words.into_iter().filter(|(_, [a, b])| *a != none() || *b != none());
    let words = words.map(|(name, [a, b])| [name.to_owned(), a, b, String::new()]);
    let figures = [
        figure("step", a.figures.step_time_s, b.figures.step_time_s, seconds),
        figure("predicted step", a.figures.predicted_step_time_s, b.figures.predicted_step_time_s, seconds),
        figure("time", a.figures.time_s, b.figures.time_s, seconds),
        figure("cost", a.figures.cost_usd, b.figures.cost_usd, usd),
        figure("loss", a.figures.loss, b.figures.loss, |loss| format!("{loss:.3}")),
    ];
    let rows = words.chain(figures.into_iter().flatten());
    let commands = [format!("{}: {}", a.id, command(a)), format!("{}: {}", b.id, command(b))];
    format!("{} and {}\n\n", a.id, b.id)
        + &table(width, ["", &format!(">{}", a.id), &format!(">{}", b.id), ">change"], rows)
        + &bullets(width, "Commands", &commands)
}

/// Formats a row for each entry, without empty columns.
fn rows(document: &HistoryDocument, width: Width) -> String {
    let header = ["id", "when, UTC", "kind", "model", "machines", ">step", ">time", ">cost", "tags"];
    let cells: Vec<[String; 9]> = document.entries.iter().map(row).collect();
    let told = |column: usize| cells.iter().any(|row| !row[column].is_empty() && row[column] != none());
    let shown: Vec<usize> = (0..header.len()).filter(|column| told(*column)).collect();
    let header: Vec<&str> = shown.iter().map(|column| header[*column]).collect();
    let rows = cells.iter().map(|row| shown.iter().map(|column| row[*column].clone()).collect::<Vec<_>>());
    columns(width, &header, rows)
}

fn figure(name: &str, a: Option<f64>, b: Option<f64>, print: fn(f64) -> String) -> Option<[String; 4]> {
    let change = a.zip(b).filter(|(a, _)| *a > 0.0).map(|(a, b)| deviation(b / a - 1.0));
    (a.is_some() || b.is_some())
        .then(|| [name.into(), a.map_or_else(none, print), b.map_or_else(none, print), change.unwrap_or_default()])
}

fn title(document: &HistoryDocument) -> String {
    let (count, store) = (document.entries.len(), plain(&document.store));
    let entries = format!("{count} entr{}", if count == 1 { "y" } else { "ies" });
    match document.act {
        HistoryAct::Listed if count == 0 => format!("nothing of that is kept in {store}"),
        HistoryAct::Listed => format!("{entries} of {store}"),
        HistoryAct::Changed => format!("{entries} of {store} changed"),
        HistoryAct::Exported => format!("{entries} of {store} exported"),
        HistoryAct::Pruned => format!("{entries} of {store} removed"),
        HistoryAct::WouldPrune => format!("{entries} of {store} would be removed"),
    }
}

fn row(entry: &Entry) -> [String; 9] {
    let figures = &entry.figures;
    [
        entry.id.clone(),
        minute(entry.at),
        entry.kind.name().into(),
        entry.model.as_deref().map_or_else(none, plain),
        entry.machines.as_deref().map_or_else(none, plain),
        figures.step_time_s.map_or_else(none, seconds),
        figures.time_s.map_or_else(none, seconds),
        figures.cost_usd.map_or_else(none, usd),
        tags(entry),
    ]
}

fn none() -> String {
    "–".into()
}

/// Formats a time to the minute, for a table.
fn minute(time: UtcTime) -> String {
    format!("{} {}", time.date(), &time.time_of_day()[..5])
}

fn tags(entry: &Entry) -> String {
    entry.tags.iter().map(|tag| plain(tag)).collect::<Vec<_>>().join(" ")
}

/// Returns the command as a shell would read it.
fn command(entry: &Entry) -> String {
    let word = |word: &String| quoted(&plain(word));
    std::iter::once("trainyard".to_owned()).chain(entry.arguments.iter().map(word)).collect::<Vec<_>>().join(" ")
}

/// Escapes foreign text on a line: characters that would move the cursor, break the line or turn the direction of
/// writing are spelt out.
fn plain(text: &str) -> String {
    spelt(text, |_| false)
}

/// Escapes a page that contains foreign names, so that only its own line breaks remain.
pub fn harmless(page: &str) -> String {
    spelt(page, |letter| letter == '\n')
}

fn spelt(text: &str, fine: impl Fn(char) -> bool) -> String {
    let turns = |letter: char| {
        ['\u{200b}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2060}'..='\u{206f}', '\u{feff}'..='\u{feff}']
            .iter()
            .any(|range| range.contains(&letter))
    };
    let harmful = |letter: char| (letter.is_control() || turns(letter)) && !fine(letter);
    let spelt = |letter: char| if harmful(letter) { letter.escape_default().to_string() } else { letter.into() };
    text.chars().map(spelt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_history::HISTORY_SCHEMA;

    fn entry() -> Entry {
        Entry {
            id: "4f2k9c".into(),
            kind: Kind::Plan,
            at: UtcTime::of_unix_seconds(1_790_000_000),
            program: "0.1.0".into(),
            arguments: vec!["plan".into(), "my job.toml".into()],
            model: Some("gpt2".into()),
            machines: Some("1 × p3.2xlarge".into()),
            figures: Figures { step_time_s: Some(0.25), cost_usd: Some(12.5), ..Figures::default() },
            tags: vec!["a".into(), "b".into()],
            note: None,
            documents: vec!["plan.json".into()],
        }
    }

    fn listed(entries: Vec<Entry>) -> String {
        let document = HistoryDocument {
            schema: HISTORY_SCHEMA.into(),
            store: "runs/history.db".into(),
            act: HistoryAct::Listed,
            entries,
            left_out: 2,
            files: Vec::new(),
        };
        history(&document, Width(110), true)
    }

    #[test]
    fn a_list_has_a_row_for_each_entry() {
        let page = listed(vec![entry()]);
        for words in
            ["4f2k9c  2026-09-21 14:13  plan", "250 ms", "12.50 USD  a b", "trainyard plan 'my job.toml'", "2 more"]
        {
            assert!(page.contains(words), "{words}: {page}");
        }
    }

    #[test]
    fn names_of_others_do_nothing_to_a_terminal() {
        let hostile = "\u{1b}[2J<b>x</b>\n\r\u{202e}\u{9b}31m";
        let evil = Entry {
            model: Some(hostile.into()),
            note: Some(hostile.into()),
            arguments: vec![hostile.into()],
            tags: vec![hostile.into()],
            documents: vec![hostile.into()],
            machines: Some(hostile.into()),
            program: hostile.into(),
            ..entry()
        };
        let both = ComparedDocument { schema: String::new(), a: entry(), b: evil.clone() };
        for page in [listed(vec![evil.clone()]), kept(&evil, Width(110)), compared(&both, Width(110))] {
            let fine = |letter: char| letter == '\n' || !(letter.is_control() || letter == '\u{202e}');
            assert!(page.chars().all(fine), "{page:?}");
            assert!(page.contains("\\u{1b}[2J<b>x</b>\\n"), "{page}");
        }
    }

    #[test]
    fn two_entries_differ_by_their_figures() {
        let faster =
            Entry { id: "7b".into(), figures: Figures { step_time_s: Some(0.2), ..Figures::default() }, ..entry() };
        let page = compared(&ComparedDocument { schema: String::new(), a: entry(), b: faster }, Width(110));
        assert!(page.contains("-20.0 %") && page.contains("12.50 USD"), "{page}");
    }
}
