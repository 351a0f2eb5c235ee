//! `trainyard compare`: a plan's prediction beside the measurements of a run.

use super::execution::comparison;
use crate::arguments::CompareArguments;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::Output;
use crate::plot;
use trainyard_plan::document::Files;
use trainyard_reports as reports;

/// Compares a plan document with a run.
pub(crate) fn compare(arguments: &CompareArguments, output: &Output) -> Result<Exit, Failure> {
    let document = files::read_plan(&arguments.plan)?;
    let path = if arguments.run.is_dir() { arguments.run.join("measurement.json") } else { arguments.run.clone() };
    let report = super::runs::read_report(&path)?;
    let mut compared = comparison(&document, Some(&document.prediction), &report);
    compared.files = Files {
        plan: Some(arguments.plan.display().to_string()),
        measurement: path.display().to_string(),
        ..Files::default()
    };
    if arguments.plot.plot.is_some() {
        let picture = reports::phases(&compared).map_err(plot::refused)?;
        if let Some((path, content)) = arguments.plot.file(&picture) {
            files::write(path, content)?;
            output.note(format!("plot written to {}", path.display()));
            compared.files.phases = Some(path.display().to_string());
        }
    }
    output.result(&compared, || reports::comparison(&compared, output.width()));
    Ok(Exit::Done)
}
