//! `trainyard validate`: predictions beside published measurements.

use crate::arguments::ValidateArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::read;
use indicatif::ProgressBar;
use serde::ser::{Error, SerializeStruct};
use serde::{Serialize, Serializer};
use std::cell::RefCell;
use std::fs::File;
use trainyard_calibration::{Reason, RowResult, TableError, VALIDATION_SCHEMA, Validation};
use trainyard_reports::{self as reports, Breadth, Picture};

/// Maximum number of malformed cells that are listed, unless all are asked for.
const TOLD: usize = 20;

/// Predicts every row of a table. Rows with malformed cells are reported, and the others still predicted.
pub(crate) fn validate(arguments: &ValidateArguments, output: &Output) -> Result<Exit, Failure> {
    let name = arguments.table.display().to_string();
    let catalog = read::catalog_of(arguments.constants.as_deref())?;
    let (file, length) = read::open("table", &arguments.table)?;
    let validation = Validation::new(file, &name, &catalog).map_err(|error| refused(&error))?;
    if let Some(warning) = validation.unread() {
        output.warn(warning);
    }
    let keep = arguments.plot.plot.is_some() || (output.verbose() && !output.programs());
    let rows = RefCell::new(Rows {
        validation,
        bar: output.bar(length, "  {msg} {bar:40} {percent} % of {total_bytes}, {elapsed}").with_message("predicting"),
        kept: keep.then(Vec::new),
        broken: None,
    });
    let shown = if output.programs() {
        output.stream(&Document(&rows))
    } else {
        rows.borrow_mut().by_ref().for_each(drop);
        Ok(())
    };
    let rows = rows.into_inner();
    rows.bar.finish_and_clear();
    if let Some(error) = &rows.broken {
        return Err(refused(error));
    }
    shown?;
    let Rows { validation, kept, .. } = rows;
    let kept = kept.unwrap_or_default();
    let picture = || drawn(&kept).map_err(|why| Failure::input(format!("cannot plot `{name}`")).because(why));
    if let Some(note) = arguments.plot.write(picture)? {
        output.note(note);
    }
    if !output.programs() {
        output.page(&reports::validation(&validation.suites(), &validation.reasons(), output.width()));
        if output.verbose() {
            output.page(&reports::validation_rows(&kept, output.width()));
        }
    }
    told(&validation, &name, output.verbose())
}

/// Draws predicted against measured times; for collectives also bandwidth against message size.
fn drawn(rows: &[RowResult]) -> Result<Picture, String> {
    let picture = reports::predicted_against_measured(rows)?;
    Ok(match reports::measured_bandwidth(rows, Breadth::Wide) {
        Ok(bandwidth) => picture.above(bandwidth),
        Err(_) => picture,
    })
}

fn refused(error: &TableError) -> Failure {
    Failure::of(Exit::Input, error).maybe_hint(error.hint())
}

/// An iterator over the rows of a table, which collects what is needed of them.
struct Rows<'a> {
    validation: Validation<'a, File>,
    bar: ProgressBar,
    kept: Option<Vec<RowResult>>,
    broken: Option<TableError>,
}

impl Iterator for Rows<'_> {
    type Item = RowResult;

    fn next(&mut self) -> Option<RowResult> {
        let row = self.validation.next()?;
        self.bar.set_position(self.validation.bytes_read());
        match row {
            Ok(row) => {
                if let Some(kept) = &mut self.kept {
                    kept.push(row.clone());
                }
                Some(row)
            }
            Err(error) => {
                self.broken = Some(error);
                None
            }
        }
    }
}

/// The validation document, whose rows are written while they are predicted.
struct Document<'a, 'b>(&'a RefCell<Rows<'b>>);

impl Serialize for Document<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut document = serializer.serialize_struct("ValidationDocument", 3)?;
        document.serialize_field("schema", VALIDATION_SCHEMA)?;
        document.serialize_field("rows", &Streamed(self.0))?;
        document.serialize_field("suites", &self.0.borrow().validation.suites())?;
        document.end()
    }
}

struct Streamed<'a, 'b>(&'a RefCell<Rows<'b>>);

impl Serialize for Streamed<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = self.0.borrow_mut();
        let written = serializer.collect_seq(rows.by_ref())?;
        match &rows.broken {
            Some(error) => Err(S::Error::custom(error)),
            None => Ok(written),
        }
    }
}

/// Reports the rows that could not be read, if any, or that none could be predicted.
fn told(validation: &Validation<'_, File>, name: &str, all: bool) -> Result<Exit, Failure> {
    let count = validation.malformed_rows();
    let predicted = validation.suites().last().map_or(0, |all| all.predicted);
    if count == 0 {
        return if predicted > 0 { Ok(Exit::Done) } else { Err(nothing_predicted(validation, name)) };
    }
    let rows = if count == 1 { "row" } else { "rows" };
    let errors = validation.malformed();
    let shown = if all { errors.len() } else { errors.len().min(TOLD) };
    let mut failure = Failure::input(format!("{count} {rows} of `{name}` cannot be read"));
    for error in &errors[..shown] {
        failure = failure.because(error.to_string());
    }
    let rest = count - shown as u64;
    let mut hint = String::from(match predicted {
        0 => "correct these cells, because no other row can be predicted either",
        _ => "all other rows were predicted",
    });
    if rest > 0 {
        failure = failure.because(format!("and {rest} more"));
        hint += "; --format json has the reason of every row";
    }
    Err(failure.hint(hint))
}

/// Tells that no row has a prediction, with the most frequent reason.
fn nothing_predicted(validation: &Validation<'_, File>, name: &str) -> Failure {
    match validation.reasons().into_iter().next() {
        None => Failure::input(format!("`{name}` has no rows"))
            .hint("write a line for each measurement below the names of the columns"),
        Some(Reason { reason, rows, .. }) => {
            let rows = if rows == 1 { "1 row".into() } else { format!("{rows} rows") };
            Failure::input(format!("no row of `{name}` can be predicted"))
                .because(format!("{rows}: {reason}"))
                .hint("correct what the reasons name; --format json has the reason of every row")
        }
    }
}
