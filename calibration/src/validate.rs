//! Every row of a table predicted, and the errors summed up.

use crate::SuiteResult;
use crate::collectives;
use crate::configuration::{Unsupported, configure_in};
use crate::document::{RowResult, VALIDATION_SCHEMA, ValidationDocument};
use crate::interval::interval;
use crate::summary::{Choice, Reason, Summary};
use crate::table::{Entry, Measurements, Row, Table, TableError};
use rayon::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use trainyard_hardware_profiles::{Catalog, catalog};

/// Rows that are read before they are predicted together.
const TOGETHER: usize = 512;

/// Configurations whose predictions are remembered: rows often repeat one.
const REMEMBERED: usize = 32_768;

/// Bad cells that are remembered one by one; of more, only the number is.
const ERRORS_KEPT: usize = 1_000;

/// A prediction and its interval, in seconds, or why there is none.
type Prediction = Result<(f64, [f64; 2]), Unsupported>;

/// Predicts every row of a table of training measurements, or of collective measurements, which its header tells
/// apart.
///
/// A row with a bad cell is unsupported, with the cell in its reason and in [`ValidationDocument::malformed`].
///
/// # Errors
///
/// When the text is no table: not CSV, empty, or without a column that such tables have.
pub fn validate(text: &str, file: &str) -> Result<ValidationDocument, TableError> {
    validate_in(text, file, catalog())
}

/// The same with GPUs, machines and stacks of another catalog.
///
/// # Errors
///
/// As [`validate`].
pub(crate) fn validate_in(text: &str, file: &str, catalog: &Catalog) -> Result<ValidationDocument, TableError> {
    let mut validation = Validation::new(text.as_bytes(), file, catalog)?;
    let rows = validation.by_ref().collect::<Result<Vec<RowResult>, TableError>>()?;
    let suites = validation.suites();
    Ok(ValidationDocument { schema: VALIDATION_SCHEMA.into(), rows, suites, malformed: validation.malformed })
}

/// A table on its way through prediction: an iterator over the results of its rows, in the table's order. It keeps a
/// few numbers of each row, not the table.
pub struct Validation<'a, R> {
    catalog: &'a Catalog,
    rows: Rows<'a, R>,
    ready: VecDeque<RowResult>,
    known: BTreeMap<String, Prediction>,
    summary: Summary,
    malformed: Vec<TableError>,
    malformed_rows: u64,
}

enum Rows<'a, R> {
    Measurements(Measurements<'a, R>),
    Collectives(Table<'a, R>),
}

impl<'a, R: Read> Validation<'a, R> {
    /// Reads the header of a table; `file` is its name in messages. GPUs, machines and stacks are those of `catalog`.
    ///
    /// # Errors
    ///
    /// When there is no header, or it lacks a column that such tables have.
    pub fn new(input: R, file: &'a str, catalog: &'a Catalog) -> Result<Self, TableError> {
        let table = Table::read(input, file)?;
        let rows = if collectives::is_table(&table) {
            table.needs("collective measurements", &collectives::COLLECTIVE_COLUMNS)?;
            Rows::Collectives(table)
        } else {
            Rows::Measurements(Measurements::new(table)?)
        };
        Ok(Self {
            catalog,
            rows,
            ready: VecDeque::new(),
            known: BTreeMap::new(),
            summary: Summary::default(),
            malformed: Vec::new(),
            malformed_rows: 0,
        })
    }

    /// Tells of columns that are not read, if there are any.
    pub fn unread(&self) -> Option<String> {
        match &self.rows {
            Rows::Measurements(measurements) => measurements.unread(),
            Rows::Collectives(table) => table.unread(&collectives::COLLECTIVE_COLUMNS, &collectives::OPTIONAL_COLUMNS),
        }
    }

    /// Bytes of the table that were read so far.
    pub fn bytes_read(&self) -> u64 {
        match &self.rows {
            Rows::Measurements(measurements) => measurements.table.bytes_read(),
            Rows::Collectives(table) => table.bytes_read(),
        }
    }

    /// The rows so far, summed up: every suite by name, then `*` for all rows.
    pub fn suites(&self) -> Vec<SuiteResult> {
        self.summary.suites()
    }

    /// Why rows so far have no prediction, the most frequent reason first.
    pub fn reasons(&self) -> Vec<Reason> {
        self.summary.reasons()
    }

    /// Rows so far with a cell that could not be read.
    pub fn malformed_rows(&self) -> u64 {
        self.malformed_rows
    }

    /// The first thousand cells that could not be read.
    pub fn malformed(&self) -> &[TableError] {
        &self.malformed
    }

    /// Reads some rows and predicts them.
    fn go_on(&mut self) -> Result<(), TableError> {
        match &mut self.rows {
            Rows::Measurements(measurements) => {
                let mut entries = Vec::new();
                while entries.len() < TOGETHER
                    && let Some(entry) = measurements.next_entry()?
                {
                    entries.push(entry);
                }
                self.predict(entries);
            }
            Rows::Collectives(table) => {
                for _ in 0..TOGETHER {
                    let Some(record) = table.next_record()? else { break };
                    let line = record.as_ref().ok().map(|record| record.line);
                    let (line, result) = match record.and_then(|record| collectives::result(&record, self.catalog)) {
                        Ok(result) => (line, result),
                        Err(error) => {
                            let row =
                                RowResult::unsupported(&format!("line {}", error.line), "", None, error.to_string());
                            remember(&mut self.malformed, &mut self.malformed_rows, error);
                            (None, row)
                        }
                    };
                    self.summary.add(line, &result, None);
                    self.ready.push_back(result);
                }
            }
        }
        Ok(())
    }

    fn predict(&mut self, entries: Vec<Entry>) {
        let keys: Vec<Option<String>> = entries.iter().map(configuration_key).collect();
        if self.known.len() > REMEMBERED {
            self.known.clear();
        }
        let mut fresh: Vec<(&String, &Row)> = Vec::new();
        for (entry, key) in entries.iter().zip(&keys) {
            if let (Entry::Row(row), Some(key)) = (entry, key)
                && !self.known.contains_key(key)
            {
                self.known.insert(key.clone(), Err(Unsupported::new("")));
                fresh.push((key, row));
            }
        }
        let predictions: Vec<Prediction> = fresh.par_iter().map(|(_, row)| predict(row, self.catalog)).collect();
        for ((key, _), prediction) in fresh.iter().zip(predictions) {
            self.known.insert((*key).clone(), prediction);
        }
        for (entry, key) in entries.into_iter().zip(keys) {
            let prediction = key.map(|key| self.known[&key].clone());
            self.add(entry, prediction);
        }
    }

    fn add(&mut self, entry: Entry, prediction: Option<Prediction>) {
        let (line, result, choice) = match (entry, prediction) {
            (Entry::Malformed { id, suite, error }, _) => {
                let result = RowResult::unsupported(&id, &suite, None, error.to_string());
                remember(&mut self.malformed, &mut self.malformed_rows, error);
                (None, result, None)
            }
            (Entry::Row(row), Some(Ok((seconds, interval)))) => {
                let result = RowResult::scored(&row.id, &row.suite, seconds, interval, row.step_time_s);
                (Some(row.line), result, Choice::of(&row))
            }
            (Entry::Row(row), refused) => {
                let reason = refused.and_then(Result::err).map_or_else(String::new, |error| error.reason);
                (Some(row.line), RowResult::unsupported(&row.id, &row.suite, Some(row.step_time_s), reason), None)
            }
        };
        self.summary.add(line, &result, choice);
        self.ready.push_back(result);
    }
}

impl<R: Read> Iterator for Validation<'_, R> {
    type Item = Result<RowResult, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty()
            && let Err(error) = self.go_on()
        {
            return Some(Err(error));
        }
        self.ready.pop_front().map(Ok)
    }
}

fn remember(kept: &mut Vec<TableError>, count: &mut u64, error: TableError) {
    *count += 1;
    if kept.len() < ERRORS_KEPT {
        kept.push(error);
    }
}

/// All that a prediction depends on: the row without its name and what was measured.
fn configuration_key(entry: &Entry) -> Option<String> {
    let Entry::Row(row) = entry else { return None };
    let bare = Row { line: 0, id: String::new(), suite: String::new(), step_time_s: 0.0, ..Row::clone(row) };
    Some(format!("{bare:?}"))
}

fn predict(row: &Row, catalog: &Catalog) -> Prediction {
    let configuration = configure_in(row, catalog)?;
    let (plan, outcome) = configuration.predict()?;
    // Images are decoded beside the step before.
    let waited = configuration.decoding.0 / outcome.step_time.0;
    let [low, high] = interval(plan, &configuration.machine, &outcome).map(|end| end * waited.max(1.0));
    Ok((outcome.step_time.0 * waited.max(1.0), [low, high]))
}
