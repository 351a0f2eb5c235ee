//! `trainyard train`: the whole loop on this machine.

use super::execution::{Execution, execute, runnable, stop_on_interrupt};
use crate::arguments::TrainArguments;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::job::{self, Job, LOCAL, local_profile};
use crate::output::{Output, json};
use std::path::{Path, PathBuf};
use trainyard_calibration::profile_to_toml;
use trainyard_executor::process_group::World;
use trainyard_executor::{Corpus, DataError, Samples};
use trainyard_hardware_profiles::MeasuredMachine;
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{ClusterChoice, DataSpec};
use trainyard_planner::{MachineFile, MachineFiles, missed_goal, resimulate};
use trainyard_sim::Options;
use trainyard_units::{Bytes, Seconds, human_bytes, human_duration};

/// How many plans are ranked; a machine of one's own is one cluster.
const TOP: usize = 3;
/// The profile's name in a run's folder.
const PROFILE: &str = "profile.toml";
/// The name of constants there, if there are some.
const CONSTANTS: &str = "constants.toml";

/// Calibrates if needed, plans, simulates, runs, and compares.
pub(crate) fn train(arguments: &TrainArguments, output: &Output) -> Result<Exit, Failure> {
    let mut job = job::read(&arguments.job)?;
    place(&mut job, arguments.on.as_deref())?;
    let limits = job::limits(&arguments.search, TOP)?;
    let data = data(&mut job, arguments, output)?;
    let profile = profile(&job, arguments.recalibrate, output)?;
    let constants = job.constants()?.map(|(constants, _)| constants);
    let problem = job.problem_on(profile.clone(), PROFILE, constants.clone().map(|own| (own, CONSTANTS)))?;
    let document = job::solve(&problem, &limits, &job)?;
    let plan_name = Path::new("plan.json");
    let plan = runnable(&document, plan_name, output)?;

    let folder = files::run_folder(arguments.out.as_deref(), &document.plan.model.name)?;
    let plan_file = folder.join(plan_name);
    files::write(&folder.join(PROFILE), &profile_to_toml(&profile))?;
    if let Some(constants) = &constants {
        files::write(&folder.join(CONSTANTS), &constants.to_toml())?;
    }
    files::write(&plan_file, &json(&document))?;
    output.note(planned(&document, &plan_file));
    if let Some(why) = missed_goal(&document) {
        let hint = format!("`trainyard run {} --data {}` runs it all the same", plan_file.display(), data.display());
        return Err(Failure::new(Exit::MissedGoal, why).hint(hint));
    }
    let files = MachineFiles { machine: Some(MachineFile::Profile(Box::new(profile))), constants, prices: None };
    let (document, outcome) =
        resimulate(&document, files, Options::default()).map_err(|error| Failure::of(Exit::Failed, &error))?;
    let execution = Execution {
        world: &World::threads(plan.mesh().ranks() as usize),
        document: &document,
        plan_file,
        predicted: Some(&outcome.timeline),
        data,
        steps: document.prediction.steps,
        seed: arguments.seed,
        checkpoint: folder.join("checkpoint"),
        folder,
        resume: false,
        reliability: arguments.reliability,
        weights: arguments.weights.clone(),
    };
    execute(&execution, &plan, output)
}

/// Puts the job onto this machine: what `--on` says, or the profile of the job, or `local`.
fn place(job: &mut Job, on: Option<&str>) -> Result<(), Failure> {
    let profile = match on {
        Some(LOCAL) => Some(LOCAL.to_owned()),
        // The flag is relative to where the user is, the job's own paths to the job.
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

/// The text to train on, which must be there, and enough of it, before anything is measured. Where the job does not
/// say how much is trained, the text does.
fn data(job: &mut Job, arguments: &TrainArguments, output: &Output) -> Result<PathBuf, Failure> {
    let path = match (&arguments.data, &job.spec.data.path) {
        (Some(path), _) => path.to_owned(),
        (None, Some(path)) => job.path(path),
        (None, None) => {
            return Err(Failure::input("`data.path` is missing: there is no text to train on")
                .hint("write path under [data], or give --data PATH"));
        }
    };
    let corpus = read_data(&path)?;
    let (bytes, files) = (corpus.bytes.len() as u64, corpus.files as u64);
    let said = |job: &Job| {
        let (data, training) = (&job.spec.data, &job.spec.training);
        training.steps.is_some() || data.samples.is_some() || data.tokens.is_some()
    };
    let whole = if said(job) { None } else { Some(bytes as f64) };
    job.spec.data.tokens = job.spec.data.tokens.or(whole);
    let problem = job.check()?;
    if let Some(sequence) = problem.model.tokens_per_sample() {
        let samples = Samples::new(corpus, sequence as usize, problem.global_batches[0] as usize, arguments.seed)
            .map_err(|error| unusable(&error))?;
        if whole.is_some() {
            job.spec.data =
                DataSpec { samples: Some(samples.training_samples() as u64), tokens: None, ..job.spec.data.clone() };
        }
    }
    output.note(format!(
        "data      {} in {}, {}",
        human_bytes(Bytes(bytes)),
        counted(files, "text file"),
        path.display()
    ));
    Ok(path)
}

/// Tells early what is wrong with a data path.
pub(crate) fn check_data(path: &Path) -> Result<(), Failure> {
    read_data(path).map(|_| ())
}

fn read_data(path: &Path) -> Result<Corpus, Failure> {
    Corpus::read(path).map_err(|error| unusable(&error))
}

fn unusable(error: &DataError) -> Failure {
    let failure = Failure::of(Exit::Input, error);
    match error {
        DataError::TooLittle { .. } => failure.hint("a smaller training.global_batch or model.seq_len needs less"),
        _ => failure.hint("name a UTF-8 text file, or a folder that holds some"),
    }
}

/// The profile that the job names; this machine is measured if it has none.
fn profile(job: &Job, again: bool, output: &Output) -> Result<MeasuredMachine, Failure> {
    let name = job.spec.cluster.profile.as_deref().unwrap_or(LOCAL);
    let path = if name == LOCAL { local_profile() } else { job.path(name) };
    if again || (name == LOCAL && !path.exists()) {
        output.note(format!("calibrate measuring this machine; the profile goes to {}", path.display()));
        return super::calibrate::measure(&path, stop_on_interrupt(), output);
    }
    let profile = files::read_profile(&path)?;
    output.note(format!("calibrate reused {} of {}; --recalibrate measures again", path.display(), profile.measured));
    Ok(profile)
}

fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn planned(document: &PlanDocument, path: &Path) -> String {
    let (plan, prediction) = (&document.plan, &document.prediction);
    let [low, high] = prediction.interval_s.map(|seconds| human_duration(Seconds(seconds)));
    format!(
        "plan      best of {}: {} × {}, micro-batch {} × {}; written to {}\n\
         simulate  a step takes {} (90 %: {low} to {high}), {} take {}\n\
         run       {}",
        document.search.candidates,
        counted(u64::from(plan.parallel.data), "replica"),
        counted(u64::from(plan.parallel.pipeline), "stage"),
        plan.batch.micro,
        plan.batch.accumulation,
        path.display(),
        human_duration(Seconds(prediction.step_time_s)),
        counted(prediction.steps, "step"),
        human_duration(Seconds(prediction.time_s)),
        path.parent().unwrap_or(Path::new(".")).display(),
    )
}
