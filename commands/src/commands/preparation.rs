//! What is checked and measured before a training on this machine: its place, its data, its weights and its profile.

use super::device;
use super::execution::stop_on_interrupt;
use super::measure::Needs;
use crate::arguments::{Device, TrainArguments};
use crate::failure::{Exit, Failure};
use crate::job::{Job, LOCAL, local_profile};
use crate::output::Output;
use crate::read;
use std::path::{Path, PathBuf};
use trainyard_data::{DataReport, DataSource, Dataset, SYNTHETIC, SampleKind};
use trainyard_hardware_profiles::{DeviceKind, MeasuredMachine};
use trainyard_models::Model;
use trainyard_plan::{ClusterChoice, DataSpec};
use trainyard_planner::{Limits, Problem};

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

/// Returns the training data that flags or, with paths that `resolve` makes its own, a job names; flags take
/// precedence.
pub(crate) fn source(
    named: &DataSpec,
    resolve: impl Fn(&str) -> PathBuf,
    flags: Option<&TrainArguments>,
) -> Result<DataSource, Failure> {
    let either = |flag: Option<&PathBuf>, named: Option<&String>| {
        flag.cloned().or_else(|| named.map(|path| if path == SYNTHETIC { SYNTHETIC.into() } else { resolve(path) }))
    };
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
        let before = read::profile(&path).ok().filter(|_| device.is_none());
        let kind = before.map_or(device.map(DeviceKind::from).unwrap_or_default(), |profile| profile.device);
        return Needs::of(job, limits, kind)?.met(&path, None, stop_on_interrupt(), output);
    }
    let profile = read::profile(&path)?;
    device::check_profile(device, &profile, &path)?;
    device::warn_of_another(&profile, output);
    if is_local(job) {
        return Needs::of(job, limits, profile.device)?.met(&path, Some(profile), stop_on_interrupt(), output);
    }
    output.note(format!("calibrate reused {} of {}; --recalibrate measures again", path.display(), profile.measured));
    Ok(profile)
}
