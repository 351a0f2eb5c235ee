//! Tables and numbers as every report shows them.

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, presets};
pub(crate) use trainyard_planner::usd;
pub(crate) use trainyard_units::three_digits as rate;
use trainyard_units::{Bytes, BytesPerSecond, Seconds, human_bytes, human_count, human_duration};

/// The number of terminal columns that a report may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width(pub u16);

/// Formats a table with a header; columns whose header starts with `>` are aligned to the right.
pub fn table<const N: usize>(width: Width, header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    columns(width, &header, rows)
}

/// Length up to which a text is not broken; a longer one keeps at least this many columns.
const TEXT_KEPT: usize = 16;

/// Returns the numbers of the columns in which something is known; all of them if there are no rows.
fn known_columns<R: AsRef<[String]>>(columns: usize, rows: &[R]) -> Vec<usize> {
    let is_known = |column: &usize| rows.iter().any(|row| !matches!(row.as_ref()[*column].as_str(), "" | "–"));
    (0..columns).filter(|column| rows.is_empty() || is_known(column)).collect()
}

/// Formats a table whose number of columns is known at run time, without those in which nothing is known.
pub(crate) fn columns<R: AsRef<[String]>>(width: Width, header: &[&str], rows: impl IntoIterator<Item = R>) -> String {
    let rows: Vec<R> = rows.into_iter().collect();
    let known = known_columns(header.len(), &rows);
    let header: Vec<&str> = known.iter().map(|column| header[*column]).collect();
    let right: Vec<bool> = header.iter().map(|title| title.starts_with('>')).collect();
    let cell = |text: &str, right: bool| {
        let alignment = if right { CellAlignment::Right } else { CellAlignment::Left };
        Cell::new(text).set_alignment(alignment)
    };
    let mut table = Table::new();
    table.load_style(presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.0);
    let longest = |text: &str| text.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
    let header: Vec<&str> = header.iter().map(|title| title.trim_start_matches('>')).collect();
    let titles: Vec<usize> = header.iter().map(|title| title.chars().count()).collect();
    let mut words = vec![0; header.len()];
    let mut letters = words.clone();
    letters[0] = titles[0];
    let mut told = Vec::new();
    for row in rows {
        let row: Vec<&String> = known.iter().map(|column| &row.as_ref()[*column]).collect();
        for ((most, word), cell) in letters.iter_mut().zip(&mut words).zip(&row) {
            *most = (*most).max(cell.chars().count());
            *word = (*word).max(longest(cell));
        }
        told.extend(row.iter().flat_map(|cell| cell.split(' ')).map(str::to_owned));
        table.add_row(row.into_iter().zip(&right).map(|(text, right)| cell(text, *right)));
    }
    let crowded = Columns { titles, right, letters, words };
    let is_crowded = crowded.is_crowded(usize::from(width.0));
    // A key is broken between its parts, but in the first column.
    let title = |(index, title): (usize, &&str)| {
        if is_crowded && index > 0 && !title.contains(' ') { title.replace('.', ". ") } else { (*title).to_owned() }
    };
    let keys = header;
    let header: Vec<String> = keys.iter().enumerate().map(title).collect();
    table.set_header(header.iter().zip(&crowded.right).map(|(title, right)| cell(title, *right)));
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 2 } else { 1 }, 0));
    }
    let columns = crowded.with_titles(header.iter().map(|title| longest(title)), usize::from(width.0));
    let mut laid_out = |unbroken: Vec<(usize, u16)>| {
        for (column, wide) in unbroken {
            let column = table.column_mut(column).expect("as many columns as titles");
            column.set_constraint(ColumnConstraint::LowerBoundary(comfy_table::Width::Fixed(wide)));
        }
        // A key that has room in one line is as it is written.
        let whole =
            |line: String, (key, title): (&&str, &String)| line.replace(title, &format!("{key:<0$}", title.len()));
        let as_written = |line: String| keys.iter().zip(&header).filter(|(key, title)| *key != title).fold(line, whole);
        lines(table.lines().map(|line| as_written(line).trim_end().to_owned()))
    };
    let text = laid_out(columns.unbroken(usize::from(width.0)));
    if told.iter().all(|word| text.contains(word)) {
        return text;
    }
    columns.with_whole_words(usize::from(width.0)).map_or(text, laid_out)
}

/// What decides how wide the columns of a table are.
struct Columns {
    /// The lengths of titles.
    titles: Vec<usize>,
    /// Which columns are aligned to the right.
    right: Vec<bool>,
    /// The lengths of the longest cells.
    letters: Vec<usize>,
    /// The lengths of the longest words in them.
    words: Vec<usize>,
}

impl Columns {
    /// Returns the column that is so long with its padding.
    fn padded(column: usize, letters: usize) -> (usize, u16) {
        let letters = u16::try_from(letters).unwrap_or(u16::MAX);
        (column, letters.saturating_add(if column == 0 { 2 } else { 1 }))
    }

    fn is_short(&self, column: usize) -> bool {
        self.right[column] || self.letters[column] <= TEXT_KEPT
    }

    /// Returns the first column, whose names are not broken unless they would leave no room for anything else.
    fn names(&self, width: usize) -> Option<(usize, u16)> {
        Some(Self::padded(0, self.letters[0])).filter(|_| self.letters[0] <= width / 3)
    }

    /// Returns the letters that are left of a line; `None` if there is no room. A blank stands between columns, and those that may
    /// be broken anywhere keep some room.
    fn left(&self, unbroken: &[(usize, u16)], width: usize) -> Option<usize> {
        let columns = self.titles.len();
        let others = (columns - unbroken.len()) * TEXT_KEPT + columns - 1;
        width.checked_sub(unbroken.iter().map(|(_, wide)| usize::from(*wide)).sum::<usize>() + others)
    }

    /// Returns `true` if not everything stands in one line each.
    fn is_crowded(&self, width: usize) -> bool {
        let titled = |column: usize| self.letters[column].max(self.titles[column]);
        let natural = (0..self.titles.len()).map(|column| usize::from(Self::padded(column, titled(column)).1) + 1);
        natural.sum::<usize>() > width + 1
    }

    /// Returns columns that are as long as the longest words of their titles, if there is room for them.
    fn with_titles(self, words: impl Iterator<Item = usize>, width: usize) -> Self {
        let titled = |(column, word): (usize, usize)| {
            let own = self.letters[column];
            if column > 0 && self.is_short(column) { own.max(word) } else { own }
        };
        let letters: Vec<usize> = words.enumerate().map(titled).collect();
        let short = (1..letters.len()).filter(|column| self.is_short(*column));
        let all: Vec<(usize, u16)> =
            self.names(width).into_iter().chain(short.map(|column| Self::padded(column, letters[column]))).collect();
        if self.left(&all, width).is_some() { Self { letters, ..self } } else { self }
    }

    /// Returns the columns that are not broken, with their widths: names, and numbers and short texts where the table is crowded.
    fn unbroken(&self, width: usize) -> Vec<(usize, u16)> {
        let names = self.names(width);
        let crowded = self.is_crowded(width);
        let short = (1..self.titles.len()).filter(|column| crowded && self.is_short(*column));
        let all: Vec<(usize, u16)> =
            names.into_iter().chain(short.map(|column| Self::padded(column, self.letters[column]))).collect();
        if self.left(&all, width).is_some() { all } else { names.into_iter().collect() }
    }

    /// Does so for columns that are broken between words alone; `None` where words leave no room.
    fn with_whole_words(&self, width: usize) -> Option<Vec<(usize, u16)>> {
        let kept = |column: usize| if self.is_short(column) { self.letters[column] } else { self.words[column] };
        let others = (1..self.titles.len()).map(|column| Self::padded(column, kept(column)));
        let mut all: Vec<(usize, u16)> = self.names(width).into_iter().chain(others).collect();
        let left = self.left(&all, width)?;
        share_out(left, &mut all, |column| Self::padded(column, self.letters[column]).1);
        Some(all)
    }
}

/// Widens columns in turn until nothing is left over, or all are as wide as they want to be.
fn share_out(mut left: usize, columns: &mut [(usize, u16)], wanted: impl Fn(usize) -> u16) {
    while left > 0 {
        let before = left;
        for (column, wide) in columns.iter_mut() {
            if left > 0 && *wide < wanted(*column) {
                *wide += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
}

/// Joins lines, each ended by a line break.
pub(crate) fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.fold(String::new(), |text, line| text + &line + "\n")
}

/// Formats lines of `name  value`, with the values aligned.
pub fn facts(rows: &[(&str, String)]) -> String {
    let longest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    lines(rows.iter().map(|(name, value)| {
        let room = " ".repeat(longest - name.chars().count());
        format!("  {name}{room}  {value}")
    }))
}

/// Formats sentences as a list, wrapped to the width.
pub fn bullets(width: Width, title: &str, items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let item = |item: &String| {
        let wrapped = wrap(item, usize::from(width.0).saturating_sub(4)).into_iter().enumerate();
        wrapped.map(|(index, line)| format!("  {} {line}", if index == 0 { "·" } else { " " })).collect::<Vec<_>>()
    };
    format!("\n{title}\n") + &lines(items.iter().flat_map(item))
}

/// Breaks a text into lines of at most `width` letters, but not between a number and its unit.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        let is_number = word.chars().next_back().is_some_and(|last| last.is_ascii_digit());
        let unit = if is_number { words.next() } else { None };
        let word = unit.map_or_else(|| word.to_owned(), |unit| format!("{word} {unit}"));
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(&word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(&word);
        } else {
            lines.push(word);
        }
    }
    lines
}

pub(crate) fn bytes(bytes: u64) -> String {
    human_bytes(Bytes(bytes))
}

/// Formats a duration; those of some minutes keep three digits.
pub(crate) fn seconds(seconds: f64) -> String {
    if (119.5..999.5).contains(&seconds) { format!("{seconds:.0} s") } else { human_duration(Seconds(seconds)) }
}

/// Formats a bandwidth with four digits and a decimal unit: `1.555 TB/s`, `15.75 GB/s`.
pub(crate) fn bandwidth(rate: BytesPerSecond) -> String {
    let (value, unit) = if rate.0 >= 1e12 { (rate.0 / 1e12, "TB/s") } else { (rate.0 / 1e9, "GB/s") };
    format!("{} {unit}", (value * 1e3).round() / 1e3)
}

/// Formats a fraction: `97.5 %`.
pub fn percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
}

/// Formats a relative deviation with its sign: `+3.2 %`.
pub(crate) fn deviation(fraction: f64) -> String {
    format!("{:+.1} %", fraction * 100.0)
}

/// Formats a rate with exactly three significant digits: `1,140,000`, `8,910`, `0.131`.
pub(crate) fn three_significant(value: f64) -> String {
    let exponent = |value: f64| if value > 0.0 { value.log10().floor() as i32 } else { 0 };
    let unit = 10_f64.powi(exponent(value) - 2);
    // Rounding may carry into one more digit.
    let rounded = (value / unit).round() * unit;
    match 2 - exponent(rounded) {
        decimals if rounded < 1000.0 => format!("{rounded:.*}", usize::try_from(decimals).unwrap_or(0)),
        _ => human_count(rounded.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_significant() {
        let all = [1_139_871.9, 8905.2, 999.6, 117.0, 70.24, 9.996, 1.098, 0.1307, 0.0];
        let expected = ["1,140,000", "8,910", "1,000", "117", "70.2", "10.0", "1.10", "0.131", "0.00"];
        assert_eq!(all.map(three_significant), expected);
    }

    #[test]
    fn numbers_read_easily() {
        assert_eq!(deviation(-0.0321), "-3.2 %");
    }

    #[test]
    fn long_sentences_are_wrapped_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("it takes 7 % of it", 11), ["it takes", "7 % of it"]);
        let text = bullets(Width(20), "why", &["a sentence that is longer than a line".into()]);
        assert!(text.lines().all(|line| line.chars().count() <= 20), "{text}");
    }

    #[test]
    fn a_column_in_which_nothing_is_known_is_left_out() {
        let rows = |cost: &str| vec![["one", "1 h", "–"].map(String::from), ["two", "", cost].map(String::from)];
        let header = |text: String| text.lines().next().map(|line| line.split_whitespace().count());
        let columns = |cost| header(table(Width(40), ["name", ">time", ">cost"], rows(cost)));
        assert_eq!((columns("–"), columns("2 USD")), (Some(2), Some(3)));
        assert_eq!(header(table(Width(40), ["name", ">cost"], [])), Some(2));
    }

    #[test]
    fn texts_in_tables_are_broken_between_words() {
        let row = ["1 × p4d.24xlarge", "data 8, ZeRO-2 over 8 ranks", "8 × 4, fp16-mixed", "pytorch-fsdp-compiled"];
        let text = table(Width(80), ["plan", "strategy", "batch", "software"], vec![row.map(String::from)]);
        assert!(text.contains("pytorch-fsdp-compiled") && text.contains("ZeRO-2"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn titles_are_broken_between_words_and_parts_of_keys() {
        let row =
            ["4", "7d", "7 d 9 h", "39,015", "at most fifty letters of a long text that is broken"].map(String::from);
        let text = table(Width(62), ["instances", "goal.deadline", ">in all", ">count", "strategy"], vec![row]);
        let told = |title: &str| text.split_whitespace().any(|word| word == title);
        assert!(["instances", "count", "strategy"].into_iter().all(told), "{text}");
        assert!(told("goal.deadline") || told("goal.") && told("deadline"), "{text}");
        let row = ["4", "7d", "at most fifty letters of a long text that is broken"].map(String::from);
        let text = table(Width(60), ["instances", "goal.deadline", "strategy"], vec![row]);
        assert!(!text.contains("goal. deadline"), "{text}");
        let wide = table(Width(120), ["instances", "goal.deadline"], vec![["4", "7d"].map(String::from)]);
        assert!(wide.contains("goal.deadline"), "{wide}");
    }

    #[test]
    fn tables_keep_to_their_width() {
        for letters in [80, 65_535] {
            let rows = vec![["a".repeat(letters), "1".into()]];
            let text = table(Width(40), ["long", ">number"], rows);
            assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        }
    }
}
