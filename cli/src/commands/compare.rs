//! `trainyard compare`: a plan's prediction beside the measurements of a run.

use super::execution::comparison;
use crate::arguments::CompareArguments;
use crate::diagnose::from_json;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::Output;
use trainyard_executor::{MEASUREMENT_SCHEMA, RunReport};
use trainyard_plan::document::Files;
use trainyard_reports as reports;

/// Compares a plan document with a run.
pub(crate) fn compare(arguments: &CompareArguments, output: &Output) -> Result<Exit, Failure> {
    let document = files::read_plan(&arguments.plan)?;
    let path = if arguments.run.is_dir() { arguments.run.join("measurement.json") } else { arguments.run.clone() };
    let report: RunReport = from_json("measurement", &files::read_text("measurement", &path)?, &path)?;
    if report.schema != MEASUREMENT_SCHEMA {
        return Err(Failure::input(format!("cannot read measurement `{}`", path.display()))
            .because(format!("`schema` is `{}`, but this version reads `{MEASUREMENT_SCHEMA}`", report.schema)));
    }
    let mut compared = comparison(&document, Some(&document.prediction), &report);
    compared.files = Files {
        plan: Some(arguments.plan.display().to_string()),
        measurement: path.display().to_string(),
        ..Files::default()
    };
    output.result(&compared, || reports::comparison(&compared, output.width()));
    Ok(Exit::Done)
}
