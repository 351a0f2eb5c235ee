//! `trainyard compare`: a plan's prediction beside the measurements of a run.

use super::execution::comparison;
use crate::arguments::CompareArguments;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::Output;
use crate::plot;
use trainyard_executor::RunReport;
use trainyard_plan::PlanSpec;
use trainyard_plan::document::{Files, PlanDocument};
use trainyard_reports as reports;

/// Refuses a run of another plan.
fn of_that_plan(document: &PlanDocument, report: &RunReport, arguments: &CompareArguments) -> Result<(), Failure> {
    let Ok(ran) = serde_json::from_value::<PlanDocument>(report.plan.clone()) else { return Ok(()) };
    // The path of a profile may be written in several ways.
    let there = PlanSpec { cluster: document.plan.cluster.clone(), ..ran.plan };
    if there == document.plan {
        return Ok(());
    }
    let told = |plan: &PlanSpec| {
        let batch = plan.batch;
        format!("{}, {}, {} × {} samples", plan.model.name, reports::strategy(plan), batch.micro, batch.accumulation)
    };
    let (plan, run) = (arguments.plan.display(), arguments.run.display());
    Err(Failure::input(format!("`{run}` is not a run of `{plan}`"))
        .because(format!("it ran {}; the plan is for {}", told(&there), told(&document.plan)))
        .hint("the plan of a run of `train` lies in its folder, as plan.json"))
}

/// Compares a plan document with a run.
pub(crate) fn compare(arguments: &CompareArguments, output: &Output) -> Result<Exit, Failure> {
    let document = files::read_plan(&arguments.plan)?;
    let path = if arguments.run.is_dir() { arguments.run.join("measurement.json") } else { arguments.run.clone() };
    let report = super::runs::read_report(&path)?;
    of_that_plan(&document, &report, arguments)?;
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
