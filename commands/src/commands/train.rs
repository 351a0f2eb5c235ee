//! `trainyard train`: the whole loop on this machine.

use super::execution::{Execution, execute, run_words, runnable};
use super::preparation::{check_data, check_weights, count, place, profile, source};
use super::trial::Trial;
use super::watch::described;
use super::{beside_weights, device, jobs};
use crate::arguments::TrainArguments;
use crate::failure::{Exit, Failure};
use crate::files::{self, CONSTANTS, PROFILE};
use crate::history::History;
use crate::job::{self, Job};
use crate::output::{Output, json};
use std::path::Path;
use trainyard_calibration::profile_to_toml;
use trainyard_data::{DataReport, DataSource};
use trainyard_executor::process_group::World;
use trainyard_plan::document::PlanDocument;
use trainyard_planner::{MachineFile, MachineFiles, resimulate};
use trainyard_reports::{self as reports, degrees};
use trainyard_sim::Options;
use trainyard_units::{Seconds, counted, human_duration};

/// Number of plans that are ranked; one's own machine is a single cluster.
const TOP: usize = 3;

/// Calibrates if needed, plans, tries what predictions cannot tell apart, simulates, runs, and compares.
pub(crate) fn train(arguments: &TrainArguments, history: &History, output: &Output) -> Result<Exit, Failure> {
    if let Some(file) = arguments.job.job.as_deref().filter(|file| jobs::is_list(file)) {
        return jobs::train(file, arguments, history, output);
    }
    if let Some(device) = arguments.device {
        device::find(device.into())?;
    }
    if arguments.job.prices.is_some() {
        return Err(Failure::input("`--prices` says what machines cost, but `train` rents none")
            .hint("`trainyard plan` and `what-if` take it"));
    }
    let mut job = job::read(&arguments.job)?;
    place(&mut job, arguments.on.as_deref())?;
    files::expect_run_folder(arguments.out.as_deref())?;
    let limits = job::limits(&arguments.search, TOP)?;
    let data = source(&job.spec.data, |path| job.path(path), Some(arguments))?;
    let found = count(&mut job, |problem| {
        check_weights(arguments.weights.as_deref(), &problem.model)?;
        check_data(&data, &problem.model, problem.global_batches.min(), arguments.seed)
    })?;
    output.note(format!("data      {}", described(&found)));
    check_beside(arguments, &found, output)?;
    let profile = profile(&job, &limits, arguments.device, arguments.recalibrate, output)?;
    let kind = profile.device;
    let constants = job.constants()?.map(|(constants, _)| constants);
    let problem = job.problem_on(profile.clone(), PROFILE, constants.clone().map(|own| (own, CONSTANTS)))?;
    let (seed, weights) = (arguments.seed, arguments.weights.clone());
    let trial = Trial { problem: &problem, job: &job, limits: &limits, data: &data, seed, device: kind, weights };
    let document = trial.fastest(job::solve(&problem, &limits, &job)?, output)?;
    warn_of_passes(&job, &document, &found, output);
    let plan_name = Path::new("plan.json");
    let plan = runnable(&document, plan_name, kind, None, output)?;

    let folder = files::run_folder(arguments.out.as_deref(), &document.plan.model.name)?;
    let plan_file = folder.join(plan_name);
    files::write(&folder.join(PROFILE), profile_to_toml(&profile))?;
    if let Some(constants) = &constants {
        files::write(&folder.join(CONSTANTS), constants.to_toml())?;
    }
    files::write(&plan_file, json(&document))?;
    output.note(planned(&document, &plan_file));
    history.keep(super::plan::outcome(&document, &folder), output).tell(output);
    if let Some(why) = &document.missed {
        let hint = format!("`{}` runs it all the same", all_the_same(&plan_file, &data, arguments));
        return Err(Failure::new(Exit::MissedGoal, why.clone()).hint(hint));
    }
    let files = MachineFiles { machine: Some(MachineFile::Profile(Box::new(profile))), constants, prices: None };
    let (document, outcome) =
        resimulate(&document, files, Options::default()).map_err(|error| Failure::of(Exit::Failed, &error))?;
    let timeline = outcome.timeline();
    let execution = Execution {
        world: &World::threads(plan.mesh().ranks() as usize),
        document: &document,
        plan_file,
        predicted: Some(&timeline),
        data,
        tells_data: false,
        steps: document.prediction.steps,
        seed: arguments.seed,
        checkpoint: folder.join("checkpoint"),
        folder,
        resume: false,
        device: kind,
        threads: None,
        reliability: arguments.reliability,
        weights: arguments.weights.clone(),
    };
    execute(&execution, &plan, history, output)
}

/// Returns the command that runs a plan as this one would have.
fn all_the_same(plan_file: &Path, data: &DataSource, arguments: &TrainArguments) -> String {
    let words = run_words(plan_file, data, arguments.seed, arguments);
    reports::command(&[vec!["trainyard".to_owned()], words].concat())
}

/// Checks data against what lies beside weights and model.
fn check_beside(arguments: &TrainArguments, found: &DataReport, output: &Output) -> Result<(), Failure> {
    let model = arguments.job.model.as_deref().map(Path::new);
    for warning in beside_weights::check((arguments.weights.as_deref(), model), found)? {
        output.warn(warning);
    }
    Ok(())
}

/// Warns where the job counts far more samples than the data has, so that a pass of the job is many over the data.
fn warn_of_passes(job: &Job, document: &PlanDocument, found: &DataReport, output: &Output) {
    let (data, training) = (&job.spec.data, &job.spec.training);
    let counted = data.samples.or(data.tokens.map(|tokens| tokens as u64));
    let samples = document.prediction.steps.saturating_mul(document.plan.batch.global);
    let passes = samples as f64 / found.training_samples.max(1) as f64;
    if counted.is_none() || training.steps.is_some() || passes < 2.0 * training.epochs.unwrap_or(1.0) {
        return;
    }
    output.warn(format!(
        "the job counts more samples than the data has: the run takes {passes:.0} passes over {}; without `data.samples` and \
         `data.tokens` the data is counted",
        found.path
    ));
}

fn planned(document: &PlanDocument, path: &Path) -> String {
    let (plan, prediction) = (&document.plan, &document.prediction);
    let [low, high] = prediction.interval_s.map(|seconds| human_duration(Seconds(seconds)));
    format!(
        "plan      best of {}: {}, micro-batch {} × {}; written to {}\n\
         simulate  a step takes {} (90 %: {low} to {high}), {} take {}\n\
         run       {}",
        document.search.candidates,
        degrees(plan.parallel),
        plan.batch.micro,
        plan.batch.accumulation,
        path.display(),
        human_duration(Seconds(prediction.step_time_s)),
        counted(prediction.steps, "step"),
        human_duration(Seconds(prediction.time_s)),
        path.parent().unwrap_or(Path::new(".")).display(),
    )
}
