//! The table of measured training configurations: CSV in, rows out, and an error for every cell that is not one.

use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;

/// Columns that a table of training measurements must have. Others are for people and are not read.
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

/// Why a whole table cannot be read. A single bad row is a [`RowError`] and leaves the others alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Nothing is in the file.
    #[error("`{file}` line 1: the table is empty, but it must start with a line of column names")]
    Empty {
        /// The file.
        file: String,
    },
    /// A column that every table of this kind has is absent.
    #[error("`{file}` line 1: there is no column `{column}`; a table of {kind} has the columns {allowed}")]
    Column {
        /// The file.
        file: String,
        /// The absent column.
        column: String,
        /// What the table was taken for.
        kind: &'static str,
        /// All columns that must be there.
        allowed: String,
    },
    /// The text is not CSV.
    #[error("`{file}` line {line}: {problem}")]
    Csv {
        /// The file.
        file: String,
        /// Counted from 1.
        line: u64,
        /// What is wrong.
        problem: String,
    },
}

impl TableError {
    /// What the user may do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Empty { .. } => Some("a table of measurements starts with `id,suite,source,system,…`".into()),
            Self::Column { .. } => Some("name the columns in the first line; a cell may be empty".into()),
            Self::Csv { .. } => None,
        }
    }
}

/// A cell that does not hold what its column needs. The row is not scored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{file}` line {line}: `{column}` is `{value}`, but it must be {allowed}")]
pub struct RowError {
    /// The file.
    pub file: String,
    /// Counted from 1, the header being line 1.
    pub line: u64,
    /// Name of the column.
    pub column: String,
    /// What stands there.
    pub value: String,
    /// What may stand there.
    pub allowed: String,
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

    pub(crate) fn wrong(&self, column: &str, allowed: impl Display) -> RowError {
        RowError {
            file: self.file.into(),
            line: self.line,
            column: column.into(),
            value: self.text(column).into(),
            allowed: allowed.to_string(),
        }
    }

    pub(crate) fn needed(&self, column: &str) -> Result<String, RowError> {
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
    ) -> Result<Option<T>, RowError> {
        match self.text(column) {
            "" => Ok(None),
            text => match text.parse() {
                Ok(value) if value >= least => Ok(Some(value)),
                _ => Err(self.wrong(column, format!("a whole number of at least {least}, or empty"))),
            },
        }
    }

    /// A number above zero, or nothing if the cell is empty.
    pub(crate) fn positive(&self, column: &str) -> Result<Option<f64>, RowError> {
        match self.text(column) {
            "" => Ok(None),
            text => match text.parse::<f64>() {
                Ok(value) if value.is_finite() && value > 0.0 => Ok(Some(value)),
                _ => Err(self.wrong(column, "a number above 0, or empty")),
            },
        }
    }

    /// Whole numbers above 0 with `x` between them, or none if the cell is empty.
    fn extents(&self, column: &str) -> Result<Vec<u64>, RowError> {
        let wrong = || self.wrong(column, "extents as in 224 or 800x1333, or empty");
        let extent = |text: &str| text.parse().ok().filter(|extent| *extent > 0).ok_or_else(wrong);
        match self.text(column) {
            "" => Ok(Vec::new()),
            text => text.split('x').map(extent).collect(),
        }
    }

    /// A whole number above 0 that the notes tell as `name=value`, or nothing if they do not.
    fn noted(&self, name: &str) -> Result<Option<u64>, RowError> {
        let words = self.text("notes").split([' ', ';', ',']);
        let told = words.filter_map(|word| word.split_once('=')).find(|(told, _)| *told == name);
        let wrong = || self.wrong("notes", format!("without `{name}=`, or with a whole number above 0 after it"));
        told.map(|(_, value)| value.parse().ok().filter(|value| *value > 0).ok_or_else(wrong)).transpose()
    }

    /// One of some words, or nothing if the cell is empty.
    pub(crate) fn word<'w>(&self, column: &str, words: &[&'w str]) -> Result<Option<&'w str>, RowError> {
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

/// Counts lines up to where a record begins. The reader's own count stops before the blank lines and line ends that
/// stand between two records.
struct Lines<'a> {
    text: &'a str,
    read: usize,
    line: u64,
}

impl Lines<'_> {
    fn line_at(&mut self, start: usize) -> u64 {
        let bytes = self.text.as_bytes();
        let blank = bytes[start..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let first = (start + blank).min(bytes.len());
        self.line += self.text[self.read..first].matches('\n').count() as u64;
        self.read = first;
        self.line
    }
}

/// The header and the records of a CSV text.
pub(crate) struct Table<'a> {
    file: &'a str,
    header: csv::StringRecord,
    records: Vec<(u64, csv::StringRecord)>,
}

impl<'a> Table<'a> {
    pub(crate) fn parse(text: &str, file: &'a str) -> Result<Self, TableError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
        let wrong = |error: &csv::Error| TableError::Csv {
            file: file.into(),
            line: error.position().map_or(1, csv::Position::line),
            problem: error.to_string(),
        };
        let header = reader.headers().map_err(|error| wrong(&error))?.clone();
        if header.iter().all(|name| name.trim().is_empty()) {
            return Err(TableError::Empty { file: file.into() });
        }
        let mut lines = Lines { text, read: 0, line: 1 };
        let records = reader
            .records()
            .map(|record| {
                let record = record.map_err(|error| wrong(&error))?;
                let start = record.position().map_or(0, csv::Position::byte);
                Ok((lines.line_at(start as usize), record))
            })
            .collect::<Result<_, TableError>>()?;
        Ok(Self { file, header, records })
    }

    pub(crate) fn has(&self, column: &str) -> bool {
        self.header.iter().any(|name| name == column)
    }

    pub(crate) fn needs(&self, kind: &'static str, columns: &[&str]) -> Result<(), TableError> {
        match columns.iter().find(|column| !self.has(column)) {
            None => Ok(()),
            Some(column) => Err(TableError::Column {
                file: self.file.into(),
                column: (*column).into(),
                kind,
                allowed: columns.join(", "),
            }),
        }
    }

    /// The records; one with too many or too few cells is an error of that row.
    pub(crate) fn records(&self) -> impl Iterator<Item = Result<Record<'_>, RowError>> {
        self.records.iter().map(|(line, cells)| {
            if cells.len() == self.header.len() {
                Ok(Record { file: self.file, header: &self.header, cells: cells.clone(), line: *line })
            } else {
                Err(RowError {
                    file: self.file.into(),
                    line: *line,
                    column: self.header.get(cells.len()).unwrap_or("(beyond the last)").into(),
                    value: cells.get(self.header.len()).unwrap_or("").into(),
                    allowed: format!("one of {} cells, but the line has {}", self.header.len(), cells.len()),
                })
            }
        })
    }
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
    /// How GPUs of a machine reach each other.
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
    /// `unfused` or `flash`.
    pub attention: Option<&'static str>,
    /// The framework's name in the publication.
    pub stack: String,
    /// Its version or method.
    pub stack_version: String,
    /// Whether XLA compiled the graph; a column that a table may lack.
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
    /// Order of micro-batches.
    pub schedule: Option<&'static str>,
    /// Runs of layers on one device.
    pub virtual_stages: Option<u32>,
    /// Whether activations between layers are split too.
    pub sequence_parallel: bool,
    /// What replicas share out: 1 optimizer state, 2 gradients, 3 parameters.
    pub zero_stage: Option<u32>,
    /// What is computed again.
    pub recompute: Option<&'static str>,
    /// What is kept in main memory.
    pub offload: String,
    /// The optimizer.
    pub optimizer: String,
    /// The measured value: seconds of an optimizer step.
    pub step_time_s: f64,
}

impl Row {
    fn read(record: &Record<'_>) -> Result<Self, RowError> {
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
            ffn: record.count("ffn", 1)?,
            vocab: record.count("vocab", 1)?,
            experts: record.count("experts", 1)?,
            seq_len: record.count("seq_len", 1)?,
            image_size: record.extents("image_size")?,
            base_channels: record.noted("base_channels")?,
            width_factor: record.noted("width_factor")?,
            attention: record.word("attention", &["unfused", "flash"])?,
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
            schedule: record.word("schedule", &["gpipe", "1f1b", "interleaved-1f1b"])?,
            virtual_stages: record.count("virtual_stages", 1)?,
            sequence_parallel: record
                .word("sequence_parallel", &["true", "false", "True", "False", "1", "0"])?
                .is_some_and(|word| ["true", "True", "1"].contains(&word)),
            zero_stage: record.count("zero_stage", 0)?,
            recompute: record.word("recompute", &["none", "selective", "full"])?,
            offload: record.text("offload").into(),
            optimizer: record.text("optimizer").into(),
            step_time_s: record
                .positive("step_time_s")?
                .ok_or_else(|| record.wrong("step_time_s", "a number above 0"))?,
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
    /// A row.
    Row(Box<Row>),
    /// A row with a bad cell; id and suite as far as they can be read.
    Malformed {
        /// Its id, or `line N`.
        id: String,
        /// Its suite, or nothing.
        suite: String,
        /// What is wrong.
        error: RowError,
    },
}

/// Reads a table of training measurements.
///
/// # Errors
///
/// When the text is not CSV or lacks a column. A bad cell makes its row [`Entry::Malformed`] and no error.
pub fn read_measurements(text: &str, file: &str) -> Result<Vec<Entry>, TableError> {
    let table = Table::parse(text, file)?;
    needs_measurements(&table)?;
    Ok(entries(&table))
}

pub(crate) fn needs_measurements(table: &Table<'_>) -> Result<(), TableError> {
    table.needs("training measurements", &MEASUREMENT_COLUMNS)
}

pub(crate) fn entries(table: &Table<'_>) -> Vec<Entry> {
    let mut seen = BTreeSet::new();
    table
        .records()
        .map(|record| {
            let malformed = |id: &str, suite: &str, error: RowError| Entry::Malformed {
                id: if id.is_empty() { format!("line {}", error.line) } else { id.into() },
                suite: suite.into(),
                error,
            };
            let record = match record {
                Ok(record) => record,
                Err(error) => return malformed("", "", error),
            };
            let (id, suite) = (record.text("id"), record.text("suite"));
            match Row::read(&record) {
                Ok(row) if seen.insert(row.id.clone()) => Entry::Row(Box::new(row)),
                Ok(_) => malformed("", suite, record.wrong("id", "different from those of the rows above")),
                Err(error) => malformed(id, suite, error),
            }
        })
        .collect()
}
