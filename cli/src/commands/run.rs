//! `trainyard run`: a plan trains on this machine.

use super::calibrate::only_processors;
use super::execution::{Execution, execute, runnable};
use crate::arguments::RunArguments;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::Output;
use trainyard_planner::resimulate;
use trainyard_sim::Options;

/// Runs a plan document. Where the plan was made for a measured machine, its prediction is compared with the run.
pub(crate) fn run(arguments: &RunArguments, output: &Output) -> Result<Exit, Failure> {
    only_processors(arguments.device)?;
    let document = files::read_plan(&arguments.plan)?;
    let plan = runnable(&document, &arguments.plan, output)?;
    super::train::check_data(&arguments.data)?;
    let simulated = match files::machine_files_of(&document, &arguments.plan, None) {
        // The prediction stays the one in the document: it was written down before this run.
        Ok(files) if document.plan.cluster.profile.is_some() => {
            resimulate(&document, files, Options::default()).ok().map(|(_, outcome)| outcome.timeline)
        }
        Ok(_) => {
            output.warn(format!(
                "the plan is for {}; nothing is predicted of this machine",
                document.plan.cluster.instance
            ));
            None
        }
        Err(_) => {
            output.warn("the profile that the plan names is not there; nothing is compared with its prediction");
            None
        }
    };
    let folder = files::run_folder(arguments.out.as_deref(), &document.plan.model.name)?;
    let execution = Execution {
        document: &document,
        plan_file: arguments.plan.clone(),
        predicted: simulated.as_ref(),
        data: arguments.data.clone(),
        steps: arguments.steps.unwrap_or(document.prediction.steps),
        seed: arguments.seed,
        checkpoint: arguments.checkpoint.clone().unwrap_or_else(|| folder.join("checkpoint")),
        folder,
        resume: arguments.resume,
        reliability: arguments.reliability,
        weights: arguments.weights.clone(),
    };
    execute(&execution, &plan, output)
}
