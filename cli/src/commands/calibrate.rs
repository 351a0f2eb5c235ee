//! `trainyard calibrate`: this machine measured, and its profile written; or constants refitted from measurements.

use crate::arguments::{CalibrateArguments, Device};
use crate::failure::{Exit, Failure};
use crate::job::{LOCAL, local_profile};
use crate::output::Output;
use crate::{files, machine};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use trainyard_calibration::{
    DEFAULT_STACK, FitError, MeasurementKind, Measurements, ProfileProblem, SweepError, TraceError, fit_profile,
    profile_to_toml, refit, refit_fabrics, refit_trace,
};
use trainyard_executor::{
    FRAMEWORK, MeasureError, MeasureProgress, MeasureSettings, copy_bandwidth, cores, measure_collectives,
    measure_operators, measure_overlap,
};
use trainyard_hardware_profiles::MeasuredMachine;
use trainyard_reports as reports;

/// Where refitted constants go unless told otherwise.
const CONSTANTS: &str = "runs/constants.toml";

/// Measures this machine and shows what was found.
pub(crate) fn calibrate(arguments: &CalibrateArguments, output: &Output) -> Result<Exit, Failure> {
    if let Some(from) = &arguments.from {
        return refit_from(from, arguments, output);
    }
    only_processors(arguments.device)?;
    let path = arguments.out.clone().unwrap_or_else(local_profile);
    let profile = measure(&path, super::execution::stop_on_interrupt(), output)?;
    output.result(&profile, || reports::profile(&profile, output.width()));
    output.note(format!("profile written to {}", path.display()));
    Ok(Exit::Done)
}

/// Refits constants from the measurements of a file, and writes those that predict better.
fn refit_from(from: &Path, arguments: &CalibrateArguments, output: &Output) -> Result<Exit, Failure> {
    if from.is_dir() {
        return super::runs::correct(from, arguments, output);
    }
    let text = files::read_packed("measurements", from)?;
    let file = from.display().to_string();
    let catalog = files::catalog_of(arguments.constants.as_deref())?;
    let date = machine::today().unwrap_or_else(|| "unknown".into());
    let failed = |message: String, hint: Option<String>| {
        Failure::input(format!("cannot calibrate from `{file}`")).because(message).maybe_hint(hint)
    };
    let refitted = match MeasurementKind::of(&text) {
        Some(MeasurementKind::StepTimes) => {
            let bar = output.bar(0, "calibrating: {msg}");
            let refitted = refit(&text, &file, &catalog, &date, &mut |what| bar.set_message(what.to_owned()));
            bar.finish_and_clear();
            refitted.map_err(|error: FitError| failed(error.to_string(), error.hint()))?
        }
        Some(MeasurementKind::Collectives | MeasurementKind::NcclTests) => {
            refit_fabrics(&text, &file, arguments.instance.as_deref(), &catalog, &date)
                .map_err(|error: SweepError| failed(error.to_string(), error.hint()))?
        }
        Some(MeasurementKind::Trace) => {
            let name = arguments.stack.as_deref().unwrap_or(DEFAULT_STACK);
            let stack = catalog
                .stack(name)
                .map_err(|error| Failure::input(format!("`--stack {name}`: {error}")).hint(error.hint()))?;
            refit_trace(text.as_bytes(), &file, stack, &catalog, &date)
                .map_err(|error: TraceError| failed(error.to_string(), Some(error.hint())))?
        }
        Some(MeasurementKind::Run) => return super::runs::correct(from, arguments, output),
        None => {
            return Err(Failure::input(format!("`{file}` holds no measurements that are known"))
                .hint("a table of step times starts with `id,suite,source,system,…`"));
        }
    };
    if let Some(constants) = &refitted.constants {
        let path = arguments.out.clone().unwrap_or_else(|| CONSTANTS.into());
        files::write(&path, &constants.to_toml())?;
        output.note(format!("constants written to {}; --constants {} uses them", path.display(), path.display()));
    }
    output.result(&refitted.document, || {
        let mut page = reports::refit(&refitted.document, output.width());
        if output.verbose() {
            page += &reports::refit_widths(&refitted.document, output.width());
        }
        page
    });
    Ok(Exit::Done)
}

/// Refuses devices that are not built in.
pub(crate) fn only_processors(device: Device) -> Result<(), Failure> {
    match device {
        Device::Cpu => Ok(()),
        Device::Cuda => Err(Failure::input("`--device cuda` is not built into this version")
            .hint("leave --device out: plans run on the processors of this machine")),
    }
}

/// The profile of this machine, measured now and written to `path`.
pub(crate) fn measure(path: &Path, stop: &AtomicBool, output: &Output) -> Result<MeasuredMachine, Failure> {
    let settings = MeasureSettings::for_cores(cores());
    let bar = output.bar(1, "measuring operators {bar:30} {pos}/{len}  {eta} left");
    let mut progress = |MeasureProgress { done, total }| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    };
    let failed = |error: MeasureError| Failure::of(Exit::Failed, &error);
    let operators = measure_operators(&settings, &mut progress, stop).map_err(failed)?;
    bar.finish_and_clear();
    let collectives = measure_collectives(&settings, stop).map_err(failed)?;
    let overlap_slowdown = measure_overlap(&settings, stop).map_err(failed)?;
    let measurements = Measurements {
        name: LOCAL.into(),
        processor: machine::processor(),
        devices: settings.cores as u32,
        memory: machine::memory(),
        measured: machine::today().unwrap_or_else(|| "unknown".into()),
        framework: FRAMEWORK.into(),
        copy_bandwidth: copy_bandwidth(),
        overlap_slowdown,
        operators,
        collectives,
    };
    let profile = fit_profile(measurements).map_err(|problem: ProfileProblem| {
        Failure::new(Exit::Failed, "the measurements make no sense").because(problem.to_string())
    })?;
    files::write(path, &profile_to_toml(&profile))?;
    Ok(profile)
}
