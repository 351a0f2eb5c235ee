//! `trainyard explain`: what a plan is and where its step goes, or two plans side by side.

use super::simulate::enough_memory;
use crate::arguments::ExplainArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::plot;
use crate::read;
use crate::shown::explained;
use std::path::Path;
use trainyard_plan::Plan;
use trainyard_planner::{ExplainError, NamedPlan, explain as explanation};
use trainyard_reports as reports;
use trainyard_sim::Options;

/// Explains one plan, or two side by side.
pub(crate) fn explain(arguments: &ExplainArguments, output: &Output) -> Result<Exit, Failure> {
    let own = named(&arguments.plan)?;
    let against = arguments.against.as_deref().map(named).transpose()?;
    let document = explanation(&own, against.as_ref()).map_err(|error| refused(&error))?;
    let plotted = arguments.plot.write(|| explained(&document).map_err(plot::refused))?;
    output.result(&document, || reports::explanation(&document, output.width()));
    if let Some(note) = plotted {
        output.note(note);
    }
    Ok(Exit::Done)
}

/// Reads a plan document with the files that it names.
pub(crate) fn named(path: &Path) -> Result<NamedPlan, Failure> {
    let document = read::plan(path)?;
    let machine_files = read::machine_files_of(&document, path, None)?;
    // An invalid plan is reported, with its field, when it is explained.
    if let Ok(plan) = Plan::try_from(document.plan.clone()) {
        enough_memory(&plan, Options::default())?;
    }
    Ok(NamedPlan { file: path.display().to_string(), document, files: machine_files })
}

/// Returns the failure of a plan that cannot be explained.
pub(crate) fn refused(error: &ExplainError) -> Failure {
    let ExplainError { file, other, invalid } = error;
    let message = match other {
        None => format!("cannot explain plan `{file}`"),
        Some(other) => format!("cannot compare plan `{file}` with `{other}`"),
    };
    Failure::input(message).because_of(invalid)
}
