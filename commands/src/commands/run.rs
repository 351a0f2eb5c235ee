//! `trainyard run`: a plan trains on this machine.

use super::execution::{Execution, execute, runnable, stop_when_input_ends};
use super::preparation::check_data;
use super::{beside_weights, device, processes};
use crate::arguments::{Launcher, RunArguments};
use crate::failure::{Exit, Failure};
use crate::history::History;
use crate::output::Output;
use crate::read;
use std::path::{Path, PathBuf};
use trainyard_data::DataSource;
use trainyard_hardware_profiles::DeviceKind;
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{Plan, Timeline};
use trainyard_planner::{check_hyper_parameters, resimulate};
use trainyard_sim::Options;

/// The folder of checkpoints within that of a run.
const CHECKPOINT: &str = "checkpoint";

/// The input of a process, prepared before it joins the others.
struct Prepared {
    document: PlanDocument,
    plan: Plan,
    kind: DeviceKind,
    /// The kind of devices on which the plan's profile was measured, if it has one.
    measured_on: Option<DeviceKind>,
}

/// Runs a plan document. If the plan was made for a measured machine, its prediction is compared with the run.
pub(crate) fn run(arguments: &RunArguments, history: &History, output: &Output) -> Result<Exit, Failure> {
    if arguments.until_input_ends {
        stop_when_input_ends()?;
    }
    if let Some(device) = arguments.device {
        device::find(device.into())?;
    }
    let (processes, output) = processes::join(arguments.launcher, arguments.heartbeat_timeout, output)?;
    let output = &output;
    let Prepared { document, plan, kind, measured_on } = processes::all_ready(&processes, prepare(arguments, output))?;
    let data = source(arguments);
    let simulated = predicted(&document, arguments, (kind, measured_on), output);
    let ranks = plan.mesh().ranks() as usize;
    processes.ranks_each(ranks).map_err(|error| processes::failure(&error))?;
    let folder = processes::run_folder(&processes, arguments.out.as_deref(), &document.plan.model.name)?;
    let world = processes.world(ranks).map_err(|error| processes::failure(&error))?;
    let execution = Execution {
        world: &world,
        document: &document,
        plan_file: arguments.plan.clone(),
        predicted: simulated.as_ref(),
        data,
        tells_data: true,
        steps: arguments.steps.unwrap_or(document.prediction.steps),
        seed: arguments.seed,
        checkpoint: arguments.checkpoint.as_deref().map_or_else(|| folder.join(CHECKPOINT), checkpoints),
        folder,
        resume: arguments.resume,
        device: kind,
        threads: arguments.threads.map(usize::from),
        reliability: arguments.reliability,
        weights: arguments.weights.clone(),
    };
    processes::ended(&world, execute(&execution, &plan, history, output), output)
}

/// Returns the folder of checkpoints that a path stands for: one that is a run's has them inside.
fn checkpoints(path: &Path) -> PathBuf {
    let inside = path.join(CHECKPOINT);
    if inside.is_dir() { inside } else { path.into() }
}

fn source(arguments: &RunArguments) -> DataSource {
    DataSource {
        path: arguments.data.clone(),
        held_out: arguments.held_out.clone(),
        tokenizer: arguments.tokenizer.clone(),
    }
}

/// Reads and checks the plan and everything that a run of it needs.
fn prepare(arguments: &RunArguments, output: &Output) -> Result<Prepared, Failure> {
    let document = read::plan(&arguments.plan)?;
    check_hyper_parameters(&document.job.training, document.plan.optimizer).map_err(|error| {
        Failure::input(format!("plan `{}` cannot be run", arguments.plan.display())).because(error.to_string())
    })?;
    // Warnings about one host say nothing of many.
    let heard = if arguments.launcher == Launcher::Mpi { &output.muted() } else { output };
    let profile = read::profile_of(&document, &arguments.plan).ok().flatten();
    if let Some(profile) = &profile {
        device::warn_of_another(profile, heard);
    }
    let measured_on = profile.map(|profile| profile.device);
    let kind = arguments.device.map(DeviceKind::from).or(measured_on).unwrap_or_default();
    device::find(kind)?;
    let plan = runnable(&document, &arguments.plan, kind, arguments.threads.map(usize::from), heard)?;
    if let Some(weights) = &arguments.weights {
        let found = check_data(&source(arguments), plan.model(), plan.batch().global, arguments.seed)?;
        for warning in beside_weights::check((Some(weights), None), &found)? {
            heard.warn(warning);
        }
    }
    if arguments.resume && arguments.weights.is_some() && !plan.method().has_adapters() {
        return Err(Failure::input(format!(
            "`--weights` says where training begins, but `--resume` goes on from a checkpoint, which has all weights of a \
             training by {}",
            plan.method()
        ))
        .hint("leave one of them out; only adapters are resumed beside weights"));
    }
    Ok(Prepared { document, plan, kind, measured_on })
}

/// Returns the step as it was predicted for devices of the kind that computes; `None`, with a warning, where it was
/// not. `measured_on` is the kind on which the plan's profile was measured.
fn predicted(
    document: &PlanDocument,
    arguments: &RunArguments,
    (kind, measured_on): (DeviceKind, Option<DeviceKind>),
    output: &Output,
) -> Option<Timeline> {
    match read::machine_files_of(document, &arguments.plan, None) {
        Ok(_) if measured_on.is_some_and(|measured_on| measured_on != kind) => {
            output.warn(format!(
                "the plan is for a profile of {}; nothing is predicted of {}",
                measured_on.unwrap_or_default().name(),
                kind.name()
            ));
            None
        }
        // The prediction stays the one in the document, which was made before this run.
        Ok(files) if document.plan.cluster.profile.is_some() => {
            resimulate(document, files, Options::default()).ok().map(|(_, outcome)| outcome.timeline().into_owned())
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
    }
}
