//! `trainyard calibrate --from RUNS`: what runs took, against what the machine's profile predicts of them.

use crate::arguments::CalibrateArguments;
use crate::diagnose::from_json;
use crate::failure::{Exit, Failure};
use crate::job::local_profile;
use crate::output::Output;
use crate::{files, machine};
use std::path::{Path, PathBuf};
use trainyard_calibration::{RunMeasurement, correct_profile, profile_to_toml};
use trainyard_executor::{MEASUREMENT_SCHEMA, RunReport};
use trainyard_hardware_profiles::EXECUTOR_STACK;
use trainyard_plan::Plan;
use trainyard_plan::document::PlanDocument;
use trainyard_reports as reports;
use trainyard_units::{Invalid, Seconds, counted, human_duration};

/// The name of the measurement file in the folder of a run.
pub(super) const MEASUREMENT: &str = "measurement.json";

/// Reads a measurement file.
pub(super) fn read_report(path: &Path) -> Result<RunReport, Failure> {
    let report: RunReport = from_json("measurement", &files::read_text("measurement", path)?, path)?;
    if report.schema != MEASUREMENT_SCHEMA {
        return Err(Failure::input(format!("cannot read measurement `{}`", path.display()))
            .because(format!("`schema` is `{}`, but this version reads `{MEASUREMENT_SCHEMA}`", report.schema))
            .hint(WRITTEN));
    }
    durations(&report).map_err(|invalid| {
        Failure::input(format!("cannot read measurement `{}`", path.display()))
            .because(invalid.to_string())
            .hint(WRITTEN)
    })?;
    Ok(report)
}

/// Advice about a file that nobody should have edited.
const WRITTEN: &str = "measurement files are written by `trainyard run`; run again";

/// What may be missing of nothing where times are subtracted from one another, in seconds.
const ROUNDING: f64 = -1e-6;

/// Refuses a run in which something took less than no time.
fn durations(report: &RunReport) -> Result<(), Invalid> {
    let steps = report.steps.iter().map(|step| (format!("steps[{}].seconds", step.step), step.seconds));
    let whole = [
        ("step_time_s", report.step_time_s),
        ("interval_s[0]", report.interval_s[0]),
        ("interval_s[1]", report.interval_s[1]),
    ];
    let whole = whole.into_iter().map(|(field, seconds)| (field.to_owned(), seconds));
    let phases = report.phases.named().map(|(phase, seconds)| (format!("phases.{phase}_s"), seconds));
    match whole.chain(phases).chain(steps).find(|(_, seconds)| !(seconds.is_finite() && *seconds >= ROUNDING)) {
        Some((field, seconds)) => Err(Invalid::value(field, seconds, "a number of seconds, at least 0")),
        None => Ok(()),
    }
}

/// Corrects a profile by the runs of a file or folder, and writes it if steps are then predicted better.
pub(super) fn correct(from: &Path, arguments: &CalibrateArguments, output: &Output) -> Result<Exit, Failure> {
    let path = arguments.profile.clone().unwrap_or_else(|| local_profile(arguments.device.into()));
    let profile = files::read_profile(&path)?;
    let catalog = files::catalog_of(arguments.constants.as_deref())?;
    let stack = catalog.stack(EXECUTOR_STACK).map_err(|error| Failure::input(error.to_string()))?;
    let runs = measurements(from)?.iter().map(|file| read_run(file, output)).collect::<Result<Vec<_>, _>>()?;
    let date = machine::today();
    let shown = from.display().to_string();
    let corrected = correct_profile(&profile, stack, &runs, &shown, &date).map_err(|error| {
        Failure::input(format!("cannot calibrate from `{shown}`")).because(error.to_string()).maybe_hint(error.hint())
    })?;
    if let Some(profile) = &corrected.profile {
        let to = arguments.out.clone().unwrap_or(path);
        files::write(&to, profile_to_toml(profile))?;
        output.note(format!("corrected profile written to {}", to.display()));
    }
    output.result(&corrected.document, || reports::corrections(&corrected.document, output.width()));
    Ok(Exit::Done)
}

/// Returns the measurement files that a path stands for, in the order of their names.
fn measurements(from: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !from.is_dir() {
        return Ok(vec![from.into()]);
    }
    let own = from.join(MEASUREMENT);
    if own.is_file() {
        return Ok(vec![own]);
    }
    files::folders(from).map(|folders| {
        folders.into_iter().map(|folder| folder.join(MEASUREMENT)).filter(|file| file.is_file()).collect()
    })
}

/// Reads the measurements of a run. Warns of one whose times are not the machine's own.
fn read_run(path: &Path, output: &Output) -> Result<RunMeasurement, Failure> {
    let report = read_report(path)?;
    let cannot = || Failure::input(format!("cannot read measurement `{}`", path.display()));
    let document: PlanDocument = serde_json::from_value(report.plan.clone())
        .map_err(|error| cannot().because(format!("in `plan`: {error}")).hint(WRITTEN))?;
    let plan = Plan::try_from(document.plan)
        .map_err(|error| cannot().because(format!("in `plan`: {error}")).maybe_hint(error.hint()))?;
    let device = &report.device;
    let most = device.cores.max(1) as usize;
    if device.kind.is_cpu() && device.threads_per_rank as usize > most {
        let threads = counted(device.threads_per_rank.into(), "thread");
        return Err(cannot()
            .because(format!("each rank ran with {threads} on {most}, so its times are not those of the machine"))
            .hint("calibrate from runs without --threads"));
    }
    let measured = super::comparison::measured(&report);
    if measured.is_disturbed() {
        let [low, high] = measured.interval_s.map(|seconds| human_duration(Seconds(seconds)));
        output.warn(format!(
            "90 % of the steps of `{}` took {low} to {high}: something else was at work, which the profile learns too; \
             leave such a run out",
            path.display()
        ));
    }
    Ok(RunMeasurement {
        file: path.display().to_string(),
        processor: report.device.processor.clone(),
        threads: report.device.cores,
        plan,
        step_time_s: report.step_time_s,
        phases: measured.phases,
    })
}
