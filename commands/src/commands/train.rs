//! `trainyard train`: the whole loop on this machine.

use super::execution::{Execution, data_flags, execute, reliability_flags, runnable, stop_on_interrupt};
use super::measure::Needs;
use super::trial::Trial;
use super::watch::described;
use super::{beside_weights, device, jobs};
use crate::arguments::{Device, TrainArguments};
use crate::failure::{Exit, Failure};
use crate::files;
use crate::history::History;
use crate::job::{self, Job, LOCAL, local_profile};
use crate::output::{Output, json};
use std::path::{Path, PathBuf};
use trainyard_calibration::profile_to_toml;
use trainyard_data::{DataReport, DataSource, Dataset, SYNTHETIC, SampleKind};
use trainyard_executor::process_group::World;
use trainyard_hardware_profiles::{DeviceKind, MeasuredMachine};
use trainyard_models::Model;
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{ClusterChoice, ParallelSpec};
use trainyard_planner::{Limits, MachineFile, MachineFiles, Problem, resimulate};
use trainyard_reports as reports;
use trainyard_sim::Options;
use trainyard_units::{Seconds, counted, human_duration};

/// Number of plans that are ranked; one's own machine is a single cluster.
const TOP: usize = 3;
/// The profile's file name in a run's folder.
const PROFILE: &str = "profile.toml";
/// The file name of constants in a run's folder, if there are some.
const CONSTANTS: &str = "constants.toml";

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
    let data = source(&job, Some(arguments))?;
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
    let path = |path: &Path| path.display().to_string();
    let mut words = vec!["trainyard".into(), "run".into(), path(plan_file)];
    words.extend(data_flags(data));
    words.extend(["--seed".into(), arguments.seed.to_string()]);
    words.extend(arguments.weights.iter().flat_map(|weights| ["--weights".into(), path(weights)]));
    words.extend(reliability_flags(arguments.reliability));
    reports::command(&words)
}

/// Sets the job's machine to this one: that of `--on`, or the profile of the job, or `local`.
pub(crate) fn place(job: &mut Job, on: Option<&str>) -> Result<(), Failure> {
    if let Some(lengths) = &job.spec.data.lengths {
        return Err(Failure::input(format!(
            "`data.lengths` is `{lengths}`, but a run here makes samples of `data.path` itself"
        ))
        .hint("leave it out; `trainyard plan` takes lengths"));
    }
    let profile = match on {
        Some(LOCAL) => Some(LOCAL.to_owned()),
        // The flag is relative to the working directory, the job's own paths to the job file.
        Some(path) => {
            Some(std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string()))
        }
        None => job.spec.cluster.profile.clone(),
    };
    let rented =
        ClusterChoice { profile: None, constants: None, ..job.spec.cluster.clone() } != ClusterChoice::default();
    if on.is_none() && rented {
        return Err(Failure::input(
            "`train` runs on this machine, but `cluster` of the job describes machines to rent",
        )
        .hint("`trainyard plan` recommends some; `--on local` trains here"));
    }
    if on.is_some() {
        job.spec.goal.budget = None;
    }
    let profile = Some(profile.unwrap_or_else(|| LOCAL.into()));
    let constants = job.spec.cluster.constants.clone();
    job.spec.cluster = ClusterChoice { profile, constants, ..ClusterChoice::default() };
    Ok(())
}

/// Checks that the data of a job is there, and enough of it, before anything is measured. If the job does not say how
/// much to train, the size of the data decides.
pub(crate) fn count(
    job: &mut Job,
    check: impl FnOnce(&Problem) -> Result<DataReport, Failure>,
) -> Result<DataReport, Failure> {
    let (data, training) = (&job.spec.data, &job.spec.training);
    let said = training.steps.is_some() || data.samples.is_some() || data.tokens.is_some();
    if !said {
        // A placeholder until samples are counted, so that everything else can be checked first.
        job.spec.data.samples = Some(1);
    }
    let found = check(&job.check()?)?;
    if !said {
        job.spec.data.samples = Some(found.training_samples as u64);
    }
    Ok(found)
}

/// Returns the training data that the job or flags name; flags take precedence.
pub(crate) fn source(job: &Job, flags: Option<&TrainArguments>) -> Result<DataSource, Failure> {
    let either = |flag: Option<&PathBuf>, named: Option<&String>| {
        flag.cloned().or_else(|| named.map(|path| if path == SYNTHETIC { SYNTHETIC.into() } else { job.path(path) }))
    };
    let named = &job.spec.data;
    let path = either(flags.and_then(|flags| flags.data.as_ref()), named.path.as_ref()).ok_or_else(|| {
        Failure::input("`data.path` is missing: there is nothing to train on")
            .hint("write path under [data], or give --data PATH")
    })?;
    let held_out = either(flags.and_then(|flags| flags.held_out.as_ref()), named.held_out.as_ref());
    let tokenizer = either(flags.and_then(|flags| flags.tokenizer.as_ref()), named.tokenizer.as_ref());
    Ok(DataSource { path, held_out, tokenizer })
}

/// Checks data for a model and steps of `batch` samples, before anything is measured.
pub(crate) fn check_data(source: &DataSource, model: &Model, batch: u64, seed: u64) -> Result<DataReport, Failure> {
    let wanted = SampleKind::of(model).ok_or_else(|| {
        Failure::input(format!("`model.family` is {}, but there is no reader for its data", model.family()))
            .hint(format!("{} can be trained here", SampleKind::FAMILIES))
    })?;
    let found = Dataset::open(source, &wanted, usize::try_from(batch).unwrap_or(usize::MAX), seed)
        .map_err(|error| Failure::of(Exit::Input, &error).hint(error.hint()))?;
    Ok(found.report())
}

/// Checks the weights that a model is to start from, if there are some, before anything is measured.
pub(crate) fn check_weights(path: Option<&Path>, model: &Model) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    trainyard_executor::check_weights(path, model)
        .map_err(|error| Failure::of(Exit::Input, &error).maybe_hint(error.hint()))
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

/// Returns `true` if a job runs on this machine without a profile of the user's.
fn is_local(job: &Job) -> bool {
    job.spec.cluster.profile.as_deref().is_none_or(|name| name == LOCAL)
}

/// Returns the path of the profile that the job names, which may not exist yet.
pub(crate) fn profile_path(job: &Job, device: Option<Device>) -> PathBuf {
    match job.spec.cluster.profile.as_deref() {
        Some(name) if !is_local(job) => job.path(name),
        _ => local_profile(device.map(DeviceKind::from).unwrap_or_default()),
    }
}

/// Returns the profile that the job names, with all that the job needs: what is missing in that of this machine is
/// measured.
pub(crate) fn profile(
    job: &Job,
    limits: &Limits,
    device: Option<Device>,
    again: bool,
    output: &Output,
) -> Result<MeasuredMachine, Failure> {
    let path = profile_path(job, device);
    if again || (is_local(job) && !path.exists()) {
        // Without a device flag, the kind measured before is measured again.
        let before = files::read_profile(&path).ok().filter(|_| device.is_none());
        let kind = before.map_or(device.map(DeviceKind::from).unwrap_or_default(), |profile| profile.device);
        return Needs::of(job, limits, kind)?.met(&path, None, stop_on_interrupt(), output);
    }
    let profile = files::read_profile(&path)?;
    device::check_profile(device, &profile, &path)?;
    device::warn_of_another(&profile, output);
    if is_local(job) {
        return Needs::of(job, limits, profile.device)?.met(&path, Some(profile), stop_on_interrupt(), output);
    }
    output.note(format!("calibrate reused {} of {}; --recalibrate measures again", path.display(), profile.measured));
    Ok(profile)
}

/// Formats every degree above one: `2 replicas × 2 tensor × 4 stages`.
pub(super) fn degrees(parallel: ParallelSpec) -> String {
    let ParallelSpec { data, tensor, context, expert, pipeline, .. } = parallel;
    let inside = [("tensor", tensor), ("context", context), ("expert", expert)];
    let mut parts = vec![counted(data.into(), "replica")];
    parts.extend(inside.into_iter().filter(|(_, degree)| *degree > 1).map(|(name, degree)| format!("{degree} {name}")));
    parts.push(counted(pipeline.into(), "stage"));
    parts.join(" × ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_degree_above_one_is_told() {
        let split =
            |data, tensor, pipeline| degrees(ParallelSpec { data, tensor, pipeline, ..ParallelSpec::default() });
        assert_eq!(split(1, 1, 1), "1 replica × 1 stage");
        assert_eq!(split(1, 2, 1), "1 replica × 2 tensor × 1 stage");
        assert_eq!(split(2, 2, 4), "2 replicas × 2 tensor × 4 stages");
    }
}
