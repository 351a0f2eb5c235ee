//! `trainyard calibrate --from RUNS`: what runs took, against what the machine's profile predicts of them.

use crate::arguments::CalibrateArguments;
use crate::diagnose::from_json;
use crate::failure::{Exit, Failure};
use crate::job::local_profile;
use crate::output::Output;
use crate::{files, machine, read};
use std::path::{Path, PathBuf};
use trainyard_calibration::{RunMeasurement, correct_profile, profile_to_toml};
use trainyard_executor::{MEASUREMENT_SCHEMA, RunReport};
use trainyard_hardware_profiles::EXECUTOR_STACK;
use trainyard_plan::Plan;
use trainyard_plan::document::PlanDocument;
use trainyard_reports as reports;
use trainyard_units::{Invalid, counted};

/// The name of the measurement file in the folder of a run.
pub(super) const MEASUREMENT: &str = "measurement.json";

/// Reads a measurement file.
pub(super) fn read_report(path: &Path) -> Result<RunReport, Failure> {
    let report: RunReport = from_json("measurement", &read::text("measurement", path)?, path)?;
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
    let profile = read::profile(&path)?;
    let catalog = read::catalog_of(arguments.constants.as_deref())?;
    let stack = catalog.stack(EXECUTOR_STACK).map_err(|error| Failure::input(error.to_string()))?;
    let date = machine::today();
    let shown = from.display().to_string();
    let correct = |runs: &[RunMeasurement]| {
        correct_profile(&profile, stack, runs, &shown, &date).map_err(|error| {
            let cannot = Failure::input(format!("cannot calibrate from `{shown}`"));
            cannot.because(error.to_string()).maybe_hint(error.hint())
        })
    };
    let usable = |file: &PathBuf| {
        let run = read_run(file)?;
        correct(std::slice::from_ref(&run)).map(|_| run)
    };
    let runs = left(measurements(from)?.iter().map(|file| (file, usable(file))), output)?;
    let corrected = correct(&runs)?;
    if let Some(profile) = &corrected.profile {
        let to = arguments.out.clone().unwrap_or(path);
        files::write(&to, profile_to_toml(profile))?;
        output.note(format!("corrected profile written to {}", to.display()));
    }
    output.result(&corrected.document, || reports::corrections(&corrected.document, output.width()));
    Ok(Exit::Done)
}

/// Returns the runs that can be used, and tells why the others cannot; their reason is the failure if none is left.
fn left<'a>(
    read: impl Iterator<Item = (&'a PathBuf, Result<RunMeasurement, Failure>)>,
    output: &Output,
) -> Result<Vec<RunMeasurement>, Failure> {
    let (mut runs, mut unusable) = (Vec::new(), Vec::new());
    for (file, run) in read {
        match run {
            Ok(run) => runs.push(run),
            Err(failure) => unusable.push((file, failure)),
        }
    }
    if runs.is_empty()
        && let Some((_, failure)) = unusable.pop()
    {
        let others = unusable.len() as u64;
        let hint = || format!("so it is with {} besides", counted(others, "run"));
        return Err(if others == 0 { failure } else { failure.because(hint()) });
    }
    for (file, failure) in unusable {
        let why = failure.causes().last().map_or(failure.message(), String::as_str);
        output.warn(format!("`{}` is left out: {why}", file.display()));
    }
    Ok(runs)
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

/// Reads the measurements of a run. Refuses one whose times are not the machine's own.
fn read_run(path: &Path) -> Result<RunMeasurement, Failure> {
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
    if let Some(how) = reports::disturbed(&measured) {
        return Err(cannot()
            .because(format!("{how}: something else was at work, which the profile would learn too"))
            .hint("run the plan again while the machine does nothing else"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Global;
    use crate::listener::{Event, Listener};
    use std::sync::{Arc, Mutex};
    use trainyard_plan::document::Phases;

    fn run() -> RunMeasurement {
        let document: PlanDocument =
            serde_json::from_str(include_str!("../../../cli/tests/cmd/explain.in/one.json")).expect("a plan");
        RunMeasurement {
            file: "good".into(),
            processor: "one".into(),
            threads: 2,
            plan: Plan::try_from(document.plan).expect("a valid plan"),
            step_time_s: 1.0,
            phases: Phases::default(),
        }
    }

    #[test]
    fn runs_that_are_of_no_use_are_left_out_with_their_reason() {
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let heard = warnings.clone();
        let listener = Listener::new(move |event| {
            if let Event::Warning(text) = event {
                heard.lock().expect("nobody panics with it").push(text.to_owned());
            }
        });
        let output = Output::new(&Global::default()).heard_by(listener);
        let [one, two] = ["one", "two"].map(PathBuf::from);
        let bad = || Failure::input("cannot read it").because("its ranks had 40 % of the processor time");
        let kept = left([(&one, Ok(run())), (&two, Err(bad()))].into_iter(), &output).expect("one is left");
        assert_eq!(kept.len(), 1);
        let warnings = warnings.lock().expect("nobody panics with it");
        assert_eq!(*warnings, ["`two` is left out: its ranks had 40 % of the processor time"]);
        let none = left([(&one, Err(bad())), (&two, Err(bad()))].into_iter(), &output).expect_err("none is left");
        assert_eq!((none.code(), none.message()), (Exit::Input, "cannot read it"));
        assert!(none.causes()[1].contains("1 run besides"), "{:?}", none.causes());
        assert!(left(std::iter::empty(), &output).expect("the fit tells that there is none").is_empty());
    }
}
