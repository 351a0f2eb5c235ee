//! `trainyard explain`: what a plan is and where its step goes, or two plans side by side.

use super::simulate::enough_memory;
use crate::arguments::ExplainArguments;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::Output;
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
    output.result(&document, || reports::explanation(&document, output.width()));
    Ok(Exit::Done)
}

fn named(path: &Path) -> Result<NamedPlan, Failure> {
    let document = files::read_plan(path).map_err(|failure| {
        let known = failure.hint_text().is_some();
        failure.maybe_hint((!known).then(|| "`trainyard plan JOB --out PLAN.json` writes one".into()))
    })?;
    let machine_files = files::machine_files_of(&document, path, None)?;
    // What is not a plan is told, with its field, when it is explained.
    if let Ok(plan) = Plan::try_from(document.plan.clone()) {
        enough_memory(&plan, Options::default())?;
    }
    Ok(NamedPlan { file: path.display().to_string(), document, files: machine_files })
}

fn refused(error: &ExplainError) -> Failure {
    let message = match error {
        ExplainError::Document { file, .. } => format!("cannot explain plan `{file}`"),
        ExplainError::OtherModel { file, other, .. } => format!("cannot compare plan `{file}` with `{other}`"),
    };
    Failure::input(message).because(error.to_string()).maybe_hint(error.hint())
}
