//! `trainyard export`: a plan as files for another engine or service.

use super::refusal;
use crate::arguments::ExportArguments;
use crate::caller;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::Output;
use crate::read;
use std::path::PathBuf;
use trainyard_hardware_profiles::EXECUTOR_STACK;
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{LaunchDocument, Plan};
use trainyard_planner::{MachineFile, named_machine};
use trainyard_reports::{self as reports, LaunchOptions, Target};
use trainyard_sim::Machine;
use trainyard_units::counted;

/// Prints or writes the launch files of a plan.
pub(crate) fn export(arguments: &ExportArguments, output: &Output) -> Result<Exit, Failure> {
    let document = read::plan(&arguments.plan)?;
    let launch = drawn_up(arguments, &document)?;
    let Some(folder) = &arguments.out else {
        output.result(&launch, || reports::launch_page(&launch));
        return Ok(Exit::Done);
    };
    let written: Vec<(PathBuf, &str)> =
        launch.files.iter().map(|file| (folder.join(&file.name), file.text.as_str())).collect();
    files::write_all(&written)?;
    output.result(&launch, || reports::launch_listing(&launch, output.width()));
    output.note(format!("{} written to {}", counted(written.len() as u64, "file"), folder.display()));
    Ok(Exit::Done)
}

fn drawn_up(arguments: &ExportArguments, document: &PlanDocument) -> Result<LaunchDocument, Failure> {
    let (file, target) = (arguments.plan.display(), arguments.to);
    let cannot = || Failure::input(format!("cannot export plan `{file}` to {}", target.name()));
    let machine_files = read::machine_files_of(document, &arguments.plan, None)?;
    let other_kinds = matches!(&machine_files.machine, Some(MachineFile::Cluster(file)) if file.machines.len() > 1);
    let machine = named_machine(document, machine_files).map_err(|error| cannot().because_of(&error))?;
    if let Ok(plan) = Plan::try_from(document.plan.clone()) {
        machine.admits(&plan).map_err(|error| cannot().because(error.to_string()).maybe_hint(error.hint()))?;
    }
    let options = LaunchOptions {
        script: arguments.script.clone(),
        image: arguments.image.clone(),
        role: arguments.role.clone(),
        data: arguments.data.clone(),
        results: arguments.results.clone(),
        learning_rate: arguments.learning_rate.clone(),
        weights: arguments.weights.clone(),
        plan: (!caller::is_stream(&arguments.plan)).then(|| file.to_string()),
        other_kinds,
    };
    launch_files(document, &machine, target, &options).map_err(|(cause, hint)| cannot().because(cause).maybe_hint(hint))
}

/// Makes the launch files of a plan for a machine; fails with the reason, and a hint.
pub(super) fn launch_files(
    document: &PlanDocument,
    machine: &Machine,
    target: Target,
    options: &LaunchOptions,
) -> Result<LaunchDocument, (String, Option<String>)> {
    let launch = reports::launch(document, &machine.cluster, Some(&machine.stack), target, options)
        .map_err(|error| (error.to_string(), error.hint()))?;
    if target == Target::Slurm && runs_on_the_executor(document) {
        executable(document)?;
    }
    Ok(launch)
}

/// Returns `true` if Slurm starts Trainyard's own executor for a plan: for those that were made for it, or that name no
/// software.
fn runs_on_the_executor(document: &PlanDocument) -> bool {
    document.plan.stack.as_ref().is_none_or(|stack| stack == EXECUTOR_STACK)
}

/// Checks that Trainyard's own executor has the model of a valid plan.
fn executable(document: &PlanDocument) -> Result<(), (String, Option<String>)> {
    let refused = Plan::try_from(document.plan.clone()).ok().and_then(|plan| refusal(&plan));
    refused
        .map_or(Ok(()), |refused| Err((format!("Trainyard's executor cannot run the plan: {refused}"), refused.hint())))
}
