//! The table of measured training configurations: CSV in, rows out, and an error for every cell that is not one.

use serde::Serialize;
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Display;
use std::io::{self, Read};
use std::rc::Rc;
use std::str::FromStr;
use trainyard_units::{Invalid, similar};

/// Columns that a table of training measurements must have.
pub const MEASUREMENT_COLUMNS: [&str; 32] = [
    "id",
    "suite",
    "system",
    "nodes",
    "gpus_per_node",
    "gpu",
    "intra_node_link",
    "inter_node_gbps",
    "model",
    "layers",
    "hidden",
    "heads",
    "ffn",
    "vocab",
    "seq_len",
    "attention",
    "stack",
    "stack_version",
    "precision",
    "global_batch",
    "micro_batch",
    "dp",
    "tp",
    "pp",
    "schedule",
    "virtual_stages",
    "sequence_parallel",
    "zero_stage",
    "recompute",
    "offload",
    "optimizer",
    "step_time_s",
];

/// Columns that such a table may have besides. Those that say where a number is from are for people and are not read.
const OPTIONAL_COLUMNS: [&str; 12] = [
    "source",
    "params",
    "kv_heads",
    "image_size",
    "experts",
    "cp",
    "ep",
    "xla",
    "peak_memory_gb",
    "reported_metric",
    "reported_value",
    "notes",
];

/// A line of a table that does not hold what it needs: one without which the table cannot be read, or a row, which is
/// then not scored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{file}` line {line}: {invalid}")]
pub struct TableError {
    pub file: String,
    /// Counted from 1, the header being line 1.
    pub line: u64,
    /// The cell, or the column, that is wrong.
    pub invalid: Invalid,
}

impl TableError {
    /// Tells that a cell does not hold what its column needs.
    pub(crate) fn cell(file: &str, line: u64, column: &str, value: &str, allowed: impl Display) -> Self {
        let value = if value.is_empty() { "empty".into() } else { format!("`{value}`") };
        Self { file: file.into(), line, invalid: Invalid::value(column, value, allowed) }
    }

    /// Advice to the user.
    pub fn hint(&self) -> Option<String> {
        self.invalid.hint()
    }
}

impl From<TableError> for Invalid {
    fn from(TableError { file, line, invalid }: TableError) -> Self {
        Self::inside(format!("{file} line {line}"), &invalid).maybe_hint(invalid.hint())
    }
}

/// One row of a table, read cell by cell.
#[derive(Clone, Debug)]
pub(crate) struct Record<'a> {
    file: &'a str,
    header: &'a csv::StringRecord,
    cells: csv::StringRecord,
    pub(crate) line: u64,
}

impl Record<'_> {
    /// The text of a cell, empty if nothing is known.
    pub(crate) fn text(&self, column: &str) -> &str {
        let index = self.header.iter().position(|name| name == column);
        index.and_then(|index| self.cells.get(index)).unwrap_or("").trim()
    }

    pub(crate) fn wrong(&self, column: &str, allowed: impl Display) -> TableError {
        TableError::cell(self.file, self.line, column, self.text(column), allowed)
    }

    pub(crate) fn needed(&self, column: &str) -> Result<String, TableError> {
        match self.text(column) {
            "" => Err(self.wrong(column, "given")),
            text => Ok(text.into()),
        }
    }

    /// A whole number of at least `least`, or nothing if the cell is empty.
    pub(crate) fn count<T: FromStr + PartialOrd + Display + Copy>(
        &self,
        column: &str,
        least: T,
    ) -> Result<Option<T>, TableError> {
        match self.text(column) {
            "" => Ok(None),
            text => match text.parse() {
                Ok(value) if value >= least => Ok(Some(value)),
                _ => Err(self.wrong(column, format!("a whole number of at least {least}, or empty"))),
            },
        }
    }

    /// A number above zero, or nothing if the cell is empty.
    pub(crate) fn positive(&self, column: &str) -> Result<Option<f64>, TableError> {
        match self.text(column) {
            "" => Ok(None),
            _ => self.above_zero(column).map(Some).ok_or_else(|| self.wrong(column, "a number above 0, or empty")),
        }
    }

    /// A number above zero that must be there.
    pub(crate) fn needed_positive(&self, column: &str) -> Result<f64, TableError> {
        self.above_zero(column).ok_or_else(|| self.wrong(column, "a number above 0"))
    }

    fn above_zero(&self, column: &str) -> Option<f64> {
        self.text(column).parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0)
    }

    /// Whole numbers above 0 with `x` between them, or none if the cell is empty.
    fn extents(&self, column: &str) -> Result<Vec<u64>, TableError> {
        let wrong = || self.wrong(column, "extents as in 224 or 800x1333, or empty");
        let extent = |text: &str| text.parse().ok().filter(|extent| *extent > 0).ok_or_else(wrong);
        match self.text(column) {
            "" => Ok(Vec::new()),
            text => text.split('x').map(extent).collect(),
        }
    }

    /// A whole number above 0 that the notes tell as `name=value`, or nothing if they do not.
    fn noted(&self, name: &str) -> Result<Option<u64>, TableError> {
        let words = self.text("notes").split([' ', ';', ',']);
        let told = words.filter_map(|word| word.split_once('=')).find(|(told, _)| *told == name);
        let wrong = || self.wrong("notes", format!("without `{name}=`, or with a whole number above 0 after it"));
        told.map(|(_, value)| value.parse().ok().filter(|value| *value > 0).ok_or_else(wrong)).transpose()
    }

    /// One of some words, or nothing if the cell is empty.
    pub(crate) fn word<'w>(&self, column: &str, words: &[&'w str]) -> Result<Option<&'w str>, TableError> {
        match self.text(column) {
            "" => Ok(None),
            text => words
                .iter()
                .find(|word| **word == text)
                .map(|word| Some(*word))
                .ok_or_else(|| self.wrong(column, format!("one of {}, or empty", words.join(", ")))),
        }
    }
}

/// Line ends among the bytes that were read but not yet accounted for. A CSV reader's own count stops before the blank
/// lines and line ends that stand between two records.
#[derive(Debug)]
struct LineEnds {
    /// Places of `\n` and `\r`, the first byte being 0, and whether it is the former.
    ahead: VecDeque<(u64, bool)>,
    read: u64,
    line: u64,
    /// Bytes since the last end of a line.
    without_end: u64,
}

/// The longest line that is read: what has no end must not be kept until memory is.
const LINE_MAX: u64 = 1 << 20;

impl LineEnds {
    fn pass(&mut self, bytes: &[u8]) {
        let ends = bytes.iter().enumerate().filter(|(_, byte)| matches!(byte, b'\n' | b'\r'));
        self.ahead.extend(ends.map(|(index, byte)| (self.read + index as u64, *byte == b'\n')));
        self.read += bytes.len() as u64;
    }

    /// The line of the first byte that is no line end, from `start` on; later calls ask for later places.
    fn line_at(&mut self, mut start: u64) -> u64 {
        while let Some((place, feeds)) = self.ahead.front().copied() {
            if place > start {
                break;
            }
            start += u64::from(place == start);
            self.line += u64::from(feeds);
            self.ahead.pop_front();
        }
        self.line
    }
}

/// Passes bytes on and remembers where lines end.
struct Counted<R> {
    inner: R,
    ends: Rc<RefCell<LineEnds>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let mut ends = self.ends.borrow_mut();
        ends.pass(&buffer[..count]);
        ends.without_end = buffer[..count]
            .iter()
            .rposition(|byte| matches!(byte, b'\n' | b'\r'))
            .map_or_else(|| ends.without_end + count as u64, |last| (count - last) as u64);
        if ends.without_end > LINE_MAX {
            return Err(io::Error::other(format!("a line is longer than {LINE_MAX} bytes")));
        }
        Ok(count)
    }
}

/// The header of a CSV text, and its records one by one: a table of any length takes the memory of one record.
pub(crate) struct Table<'a, R> {
    file: &'a str,
    header: csv::StringRecord,
    reader: csv::Reader<Counted<R>>,
    ends: Rc<RefCell<LineEnds>>,
}

impl<'a, R: Read> Table<'a, R> {
    pub(crate) fn read(input: R, file: &'a str) -> Result<Self, TableError> {
        let ends = Rc::new(RefCell::new(LineEnds { ahead: VecDeque::new(), read: 0, line: 1, without_end: 0 }));
        let counted = Counted { inner: input, ends: Rc::clone(&ends) };
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(counted);
        let header = reader.headers().map_err(|error| broken(file, 1, &error))?.clone();
        if header.iter().all(|name| name.trim().is_empty()) {
            let invalid = Invalid::missing("column names", "the table is empty, but it must start with a line of them")
                .with_hint("a table of measurements starts with `id,suite,source,system,…`");
            return Err(TableError { file: file.into(), line: 1, invalid });
        }
        Ok(Self { file, header, reader, ends })
    }

    pub(crate) fn has(&self, column: &str) -> bool {
        self.header.iter().any(|name| name == column)
    }

    pub(crate) fn needs(&self, kind: &str, columns: &[&str]) -> Result<(), TableError> {
        let Some(column) = columns.iter().find(|column| !self.has(column)) else { return Ok(()) };
        let why = format!("a table of {kind} has the columns {}", columns.join(", "));
        let hint = "name the columns in the first line; a cell may be empty";
        Err(TableError { file: self.file.into(), line: 1, invalid: Invalid::missing(*column, why).with_hint(hint) })
    }

    /// Tells of columns that are neither among `columns` nor among `others`, with what was probably meant: people keep
    /// notes in a table, but a setting under another name would be missing from every prediction.
    pub(crate) fn unread(&self, columns: &[&'static str], others: &[&'static str]) -> Option<String> {
        let known = || columns.iter().chain(others).copied();
        let named = |name: &&str| !name.trim().is_empty() && !known().any(|column| column == *name);
        let told = |name: &str| {
            let lacking = known().filter(|column| !self.has(column));
            let meant =
                similar(&name.trim().to_lowercase(), lacking).map(|meant| format!(" (did you mean `{meant}`?)"));
            format!("`{name}`{}", meant.unwrap_or_default())
        };
        let unread: Vec<String> = self.header.iter().filter(named).map(told).collect();
        match unread.as_slice() {
            [] => None,
            [one] => Some(format!("the column {one} of `{}` is not read: no prediction depends on it", self.file)),
            all => Some(format!(
                "the columns {} of `{}` are not read: no prediction depends on them",
                all.join(", "),
                self.file
            )),
        }
    }

    /// Bytes that were read from the input so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.ends.borrow().read
    }

    /// The next record, or nothing at the end. One that is no text, or has too many or too few cells, is an error of
    /// that row; the ones after it can still be read.
    pub(crate) fn next_record(&mut self) -> Result<Option<Result<Record<'_>, TableError>>, TableError> {
        let start = self.reader.position().byte();
        let mut cells = csv::StringRecord::new();
        let read = self.reader.read_record(&mut cells);
        let line = self.ends.borrow_mut().line_at(start);
        let error =
            |column: &str, value: &str, allowed: &str| TableError::cell(self.file, line, column, value, allowed);
        match read {
            Ok(false) => Ok(None),
            Ok(true) if cells.len() == self.header.len() => {
                Ok(Some(Ok(Record { file: self.file, header: &self.header, cells, line })))
            }
            Ok(true) => {
                let column = self.header.get(cells.len()).unwrap_or("(beyond the last)");
                let value = cells.get(self.header.len()).unwrap_or("");
                let allowed = format!("one of {} cells, but the line has {}", self.header.len(), cells.len());
                Ok(Some(Err(error(column, value, &allowed))))
            }
            Err(problem) => match problem.kind() {
                csv::ErrorKind::Utf8 { err, .. } => {
                    let column = self.header.get(err.field()).unwrap_or("(beyond the last)");
                    Ok(Some(Err(error(column, "(bytes)", "UTF-8 text"))))
                }
                _ => Err(broken(self.file, line, &problem)),
            },
        }
    }
}

fn broken(file: &str, line: u64, problem: &csv::Error) -> TableError {
    let invalid = Invalid::inside("the text", problem).with_hint("a table is CSV: text, and a line for each row");
    TableError { file: file.into(), line, invalid }
}

/// One measured training configuration. An absent value is unknown, or means the best setting of a plan's knob.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Line in the file, the header being line 1.
    pub line: u64,
    /// Unique name of the row.
    pub id: String,
    /// Where the row belongs.
    pub suite: String,
    /// A catalog name, or any name.
    pub system: String,
    /// Machines.
    pub nodes: u32,
    /// GPUs used on each.
    pub gpus_per_node: u32,
    /// Catalog name of the GPU.
    pub gpu: String,
    /// The links between GPUs of a machine.
    pub intra_node_link: String,
    /// Network of one machine.
    pub inter_node_gbps: Option<f64>,
    /// Family or name of the model.
    pub model: String,
    /// Transformer blocks.
    pub layers: Option<u32>,
    /// Width of the residual stream.
    pub hidden: Option<u64>,
    /// Attention heads.
    pub heads: Option<u64>,
    /// Heads of keys and values; a column that a table may lack.
    pub kv_heads: Option<u64>,
    /// Width inside the feed-forward part.
    pub ffn: Option<u64>,
    /// Vocabulary size.
    pub vocab: Option<u64>,
    /// Experts of a layer that has them; a column that a table may lack.
    pub experts: Option<u64>,
    /// Tokens of a sample.
    pub seq_len: Option<u64>,
    /// Extents of an image, `224`, or `800x1333`, or `128x128x128`; a column that a table may lack.
    pub image_size: Vec<u64>,
    /// Channels after the stem of a convolutional network, if `notes` say so.
    pub base_channels: Option<u64>,
    /// Factor of the width of its 3 × 3 convolutions, if `notes` say so.
    pub width_factor: Option<u64>,
    /// What else is said of the row.
    pub notes: String,
    /// `unfused`, `flash` or `memory-efficient`; empty: what a stack of today chooses on the GPU, unfused with others.
    pub attention: Option<&'static str>,
    /// The framework's name in the publication.
    pub stack: String,
    /// Its version or method.
    pub stack_version: String,
    /// Set if XLA compiled the graph; a column that a table may lack.
    pub xla: Option<bool>,
    /// Number formats.
    pub precision: String,
    /// Samples of a step.
    pub global_batch: Option<u64>,
    /// Samples at once on one replica.
    pub micro_batch: Option<u64>,
    /// Replicas.
    pub dp: Option<u32>,
    /// Ranks per layer.
    pub tp: Option<u32>,
    /// Stages.
    pub pp: Option<u32>,
    /// Ranks that share each sample's tokens; a column that a table may lack.
    pub cp: Option<u32>,
    /// Replicas that share the experts of each layer, a part of `dp`; a column that a table may lack.
    pub ep: Option<u32>,
    /// Order of micro-batches.
    pub schedule: Option<&'static str>,
    /// Runs of layers on one device.
    pub virtual_stages: Option<u32>,
    /// Set if activations between layers are split too.
    pub sequence_parallel: bool,
    /// States that replicas share out: 1 optimizer state, 2 gradients, 3 parameters.
    pub zero_stage: Option<u32>,
    /// The part that is computed again.
    pub recompute: Option<&'static str>,
    /// The states that are kept in main memory.
    pub offload: String,
    pub optimizer: String,
    /// The measured value: seconds of an optimizer step.
    pub step_time_s: f64,
}

impl Row {
    fn read(record: &Record<'_>) -> Result<Self, TableError> {
        Ok(Self {
            line: record.line,
            id: record.needed("id")?,
            suite: record.needed("suite")?,
            system: record.text("system").into(),
            nodes: record.count("nodes", 1)?.unwrap_or(1),
            gpus_per_node: record.count("gpus_per_node", 1)?.unwrap_or(1),
            gpu: record.text("gpu").into(),
            intra_node_link: record.text("intra_node_link").into(),
            inter_node_gbps: record.positive("inter_node_gbps")?,
            model: record.needed("model")?,
            layers: record.count("layers", 1)?,
            hidden: record.count("hidden", 1)?,
            heads: record.count("heads", 1)?,
            kv_heads: record.count("kv_heads", 1)?,
            ffn: record.count("ffn", 1)?,
            vocab: record.count("vocab", 1)?,
            experts: record.count("experts", 1)?,
            seq_len: record.count("seq_len", 1)?,
            image_size: record.extents("image_size")?,
            base_channels: record.noted("base_channels")?,
            width_factor: record.noted("width_factor")?,
            notes: record.text("notes").into(),
            attention: record.word("attention", &["unfused", "flash", "memory-efficient"])?,
            stack: record.text("stack").into(),
            stack_version: record.text("stack_version").into(),
            xla: record.word("xla", &["yes", "no", "na", "unknown"])?.and_then(|word| match word {
                "yes" => Some(true),
                "no" => Some(false),
                _ => None,
            }),
            precision: record.text("precision").into(),
            global_batch: record.count("global_batch", 1)?,
            micro_batch: record.count("micro_batch", 1)?,
            dp: record.count("dp", 1)?,
            tp: record.count("tp", 1)?,
            pp: record.count("pp", 1)?,
            cp: record.count("cp", 1)?,
            ep: record.count("ep", 1)?,
            schedule: record.word("schedule", &["gpipe", "1f1b", "interleaved-1f1b"])?,
            virtual_stages: record.count("virtual_stages", 1)?,
            sequence_parallel: record
                .word("sequence_parallel", &["true", "false", "True", "False", "1", "0"])?
                .is_some_and(|word| ["true", "True", "1"].contains(&word)),
            zero_stage: record.count("zero_stage", 0)?,
            recompute: record.word("recompute", &["none", "selective", "full"])?,
            offload: record.text("offload").into(),
            optimizer: record.text("optimizer").into(),
            step_time_s: record.needed_positive("step_time_s")?,
        })
    }

    /// GPUs of all machines.
    pub fn gpus(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.gpus_per_node)
    }
}

/// A row that was understood, or what is known of one that was not.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    Row(Box<Row>),
    /// A row with a bad cell; id and suite as far as they can be read.
    Malformed {
        /// Its id, or `line N`.
        id: String,
        /// Its suite, or nothing.
        suite: String,
        /// The problem.
        error: TableError,
    },
}

/// Reads a table of training measurements.
///
/// # Errors
///
/// When the text is not CSV or lacks a column. A bad cell makes its row [`Entry::Malformed`] and no error.
pub fn read_measurements(text: &str, file: &str) -> Result<Vec<Entry>, TableError> {
    let mut measurements = Measurements::new(Table::read(text.as_bytes(), file)?)?;
    let mut entries = Vec::new();
    while let Some(entry) = measurements.next_entry()? {
        entries.push(entry);
    }
    Ok(entries)
}

/// Tells of columns of a table of training measurements that are not read.
///
/// # Errors
///
/// When the text is not CSV or has no header.
pub(crate) fn unread_columns(text: &str, file: &str) -> Result<Option<String>, TableError> {
    Ok(Table::read(text.as_bytes(), file)?.unread(&MEASUREMENT_COLUMNS, &OPTIONAL_COLUMNS))
}

/// The rows of a table of training measurements, one by one.
pub(crate) struct Measurements<'a, R> {
    pub(crate) table: Table<'a, R>,
    seen: BTreeSet<Box<str>>,
}

impl<'a, R: Read> Measurements<'a, R> {
    pub(crate) fn new(table: Table<'a, R>) -> Result<Self, TableError> {
        table.needs("training measurements", &MEASUREMENT_COLUMNS)?;
        Ok(Self { table, seen: BTreeSet::new() })
    }

    /// Tells of columns that are not read.
    pub(crate) fn unread(&self) -> Option<String> {
        self.table.unread(&MEASUREMENT_COLUMNS, &OPTIONAL_COLUMNS)
    }

    /// The next row, understood or not; nothing at the end.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, TableError> {
        let malformed = |id: &str, suite: &str, error: TableError| Entry::Malformed {
            id: if id.is_empty() { format!("line {}", error.line) } else { id.into() },
            suite: suite.into(),
            error,
        };
        let Some(record) = self.table.next_record()? else { return Ok(None) };
        let record = match record {
            Ok(record) => record,
            Err(error) => return Ok(Some(malformed("", "", error))),
        };
        let (id, suite) = (record.text("id"), record.text("suite"));
        Ok(Some(match Row::read(&record) {
            Ok(row) if self.seen.insert(row.id.as_str().into()) => Entry::Row(Box::new(row)),
            Ok(_) => malformed("", suite, record.wrong("id", "different from those of the rows above")),
            Err(error) => malformed(id, suite, error),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_without_end_is_told_before_memory_is_full() {
        let endless = || io::repeat(b'x').take(100 * LINE_MAX);
        let header = Table::read(endless(), "t.csv").err().expect("too long");
        assert!(header.to_string().contains("longer than 1048576"), "{header}");
        let mut table = Table::read("a,b\n1,2\n".as_bytes().chain(endless()), "t.csv").expect("a header");
        assert!(table.next_record().expect("readable").is_some());
        assert!(table.next_record().is_err());
    }

    /// Lines counted by looking at the whole text: a record starts at the first byte after the line ends before it.
    fn lines_of_whole_text(text: &str) -> Vec<u64> {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
        let records = reader.records().map(|record| {
            let start = record.expect("text").position().expect("read from a reader").byte() as usize;
            let blank = text[start..].bytes().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
            text[..start + blank].matches('\n').count() as u64 + 1
        });
        records.collect()
    }

    /// Hands out a few bytes at a time.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(buffer.len()).min(3);
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_whole_text(
            parts in prop::collection::vec(prop::sample::select(vec!["a,b", "\n", "\r\n", "\"x\ny\",z", ",", "\n\n"]), 0..40)
        ) {
            let text = format!("first,second\n{}", parts.concat());
            let mut table = Table::read(Drops(text.as_bytes()), "mine.csv").expect("a header");
            let mut lines = Vec::new();
            while let Some(record) = table.next_record().expect("text can be read") {
                lines.push(record.map_or_else(|error| error.line, |record| record.line));
            }
            prop_assert_eq!(lines, lines_of_whole_text(&text));
        }
    }

    #[test]
    fn columns_that_are_not_read_are_told_once_with_what_was_meant() {
        let told = |others: &str| {
            let header = format!("{},source,xla,notes{others}\n", MEASUREMENT_COLUMNS.join(","));
            unread_columns(&header, "mine.csv").expect("a header")
        };
        assert_eq!(told(",cp,ep,kv_heads"), None);
        assert_eq!(
            told(",CP,sustained").as_deref(),
            Some(
                "the columns `CP` (did you mean `cp`?), `sustained` of `mine.csv` are not read: no prediction depends on them"
            )
        );
        assert_eq!(
            told(",remarks").as_deref(),
            Some("the column `remarks` of `mine.csv` is not read: no prediction depends on it")
        );
    }

    #[test]
    fn bytes_that_are_no_text_cost_their_row() {
        let mut table = Table::read(&b"a,b\n1,2\n3,\xff\n5,6\n"[..], "mine.csv").expect("a header");
        assert!(matches!(table.next_record(), Ok(Some(Ok(_)))));
        let Ok(Some(Err(error))) = table.next_record() else { panic!("the third line is no text") };
        assert_eq!((error.line, error.invalid.field()), (3, "b"));
        assert!(matches!(table.next_record(), Ok(Some(Ok(record))) if record.line == 4));
        assert!(matches!(table.next_record(), Ok(None)));
    }
}
