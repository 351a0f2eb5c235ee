//! `trainyard validate`: predictions beside published measurements.

use crate::arguments::ValidateArguments;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::Output;
use trainyard_calibration::{TableError, validate_in};
use trainyard_reports as reports;

/// The most cells that are told one by one.
const TOLD: usize = 10;

/// Predicts every row of a table. Rows with bad cells are told, and the others predicted all the same.
pub(crate) fn validate(arguments: &ValidateArguments, output: &Output) -> Result<Exit, Failure> {
    let text = files::read_text("table", &arguments.table)?;
    let file = arguments.table.display().to_string();
    let catalog = files::catalog_of(arguments.constants.as_deref())?;
    let document = validate_in(&text, &file, &catalog).map_err(|error: TableError| Failure::of(Exit::Input, &error))?;
    output.result(&document, || {
        let mut page = reports::validation(&document, output.width());
        if output.verbose() {
            page += &reports::validation_rows(&document, output.width());
        }
        page
    });
    let malformed = &document.malformed;
    if malformed.is_empty() {
        return Ok(Exit::Done);
    }
    let mut failure = Failure::input(format!("{} rows of `{file}` cannot be read", malformed.len()));
    for error in malformed.iter().take(TOLD) {
        failure = failure.because(error.to_string());
    }
    if malformed.len() > TOLD {
        failure = failure.because(format!("and {} more", malformed.len() - TOLD));
    }
    Err(failure.hint("all other rows were predicted"))
}
