//! `trainyard simulate`: one step of a plan.

use crate::arguments::SimulateArguments;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::Output;
use trainyard_planner::{DocumentError, resimulate};
use trainyard_reports::{self as reports, Process};

/// Simulates a plan anew.
pub(crate) fn simulate(arguments: &SimulateArguments, output: &Output) -> Result<Exit, Failure> {
    let document = files::read_plan(&arguments.plan)?;
    let file = files::machine_file_of(&document, &arguments.plan)?;
    let (document, outcome) = resimulate(&document, file).map_err(|error: DocumentError| {
        Failure::input(format!("cannot simulate plan `{}`", arguments.plan.display()))
            .because(error.to_string())
            .maybe_hint(error.hint())
    })?;
    if let Some(path) = &arguments.trace {
        let trace = reports::trace(&[Process { name: "predicted", timeline: &outcome.timeline }]);
        files::write(path, &format!("{trace}\n"))?;
    }
    output.result(&document, || reports::simulation(&document, output.width()));
    if let Err(full) = outcome.footprint.fits() {
        output.warn(format!("the plan does not fit into memory: {full}"));
    }
    if let Some(path) = &arguments.trace {
        output.note(format!("trace written to {}; open it at ui.perfetto.dev", path.display()));
    }
    Ok(Exit::Done)
}
