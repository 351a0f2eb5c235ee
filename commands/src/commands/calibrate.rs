//! `trainyard calibrate`: this machine measured, or constants refitted from measurements.

use super::{measure, runs};
use crate::arguments::{CalibrateArguments, Device};
use crate::failure::{Exit, Failure};
use crate::files::{self, Written};
use crate::machine;
use crate::output::Output;
use crate::read;
use std::path::Path;
use trainyard_calibration::{MeasurementKind, refit, refit_described, refit_fabrics, refit_trace};
use trainyard_hardware_profiles::{Catalog, Cluster, DEFAULT_STACK};
use trainyard_reports as reports;
use trainyard_units::Invalid;

/// Default path of refitted constants.
const CONSTANTS: &str = "runs/constants.toml";

/// Measures this machine and shows the profile, or refits constants from measurements.
pub(crate) fn calibrate(arguments: &CalibrateArguments, output: &Output) -> Result<Exit, Failure> {
    match &arguments.from {
        Some(from) => refit_from(from, arguments, output),
        None => measure::calibrate(arguments, output),
    }
}

/// Refuses flags that do not apply to measurements of a kind.
fn only_for(kind: MeasurementKind, arguments: &CalibrateArguments) -> Result<(), Failure> {
    use MeasurementKind::{Collectives, NcclTests, Run, Trace};
    let other = arguments.device != Device::Cpu;
    let flags: [(_, _, &[MeasurementKind], _); 4] = [
        ("--instance", arguments.instance.is_some(), &[Collectives, NcclTests], "measurements of collectives"),
        ("--stack", arguments.stack.is_some(), &[Trace], "traces of a profiler"),
        ("--profile", arguments.profile.is_some(), &[Run], "runs of this program"),
        ("--device", other, &[Run], "runs of this program"),
    ];
    match flags.into_iter().find(|(_, given, kinds, _)| *given && !kinds.contains(&kind)) {
        Some((flag, _, _, what)) => Err(Failure::input(format!("`{flag}` is for {what}"))
            .hint(format!("the file holds others; leave out `{flag}`"))),
        None => Ok(()),
    }
}

/// Reads the cluster of a file that `--instance` names in place of a machine type.
fn own_cluster(instance: Option<&str>, catalog: &Catalog) -> Result<Option<Cluster>, Failure> {
    let Some(path) = instance.map(Path::new).filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
    else {
        return Ok(None);
    };
    let file = read::cluster(path)?;
    let wrong = |error| Failure::input(format!("cannot use the cluster `{}`", path.display())).because_of(&error);
    Cluster::of_file(file, catalog).map(Some).map_err(wrong)
}

/// Refits constants from the measurements of a file, and writes those that predict better.
fn refit_from(from: &Path, arguments: &CalibrateArguments, output: &Output) -> Result<Exit, Failure> {
    if from.is_dir() {
        only_for(MeasurementKind::Run, arguments)?;
        return runs::correct(from, arguments, output);
    }
    let measurements = read::Packed::open("measurements", from)?;
    let file = from.display().to_string();
    let kind = MeasurementKind::of(&measurements.head());
    kind.map_or(Ok(()), |kind| only_for(kind, arguments))?;
    let catalog = read::catalog_of(arguments.constants.as_deref())?;
    let date = machine::today();
    let path = arguments.out.clone().unwrap_or_else(|| CONSTANTS.into());
    let failed = |error: Invalid| Failure::input(format!("cannot calibrate from `{file}`")).because_of(&error);
    let refitted = match kind {
        Some(MeasurementKind::StepTimes) => {
            files::expect_room(&path, Written::File)?;
            let bar = output.bar(0, "calibrating: {msg}");
            let refitted =
                refit(&measurements.text()?, &file, &catalog, &date, &mut |what| bar.set_message(what.to_owned()));
            bar.finish_and_clear();
            refitted.map_err(failed)?
        }
        Some(MeasurementKind::Collectives | MeasurementKind::NcclTests) => {
            let text = measurements.text()?;
            let refitted = match own_cluster(arguments.instance.as_deref(), &catalog)? {
                Some(cluster) => refit_described(&text, &file, &cluster, &catalog, &date),
                None => refit_fabrics(&text, &file, arguments.instance.as_deref(), &catalog, &date),
            };
            refitted.map_err(failed)?
        }
        Some(MeasurementKind::Trace) => {
            let name = arguments.stack.as_deref().unwrap_or(DEFAULT_STACK);
            let stack = catalog
                .stack(name)
                .map_err(|error| Failure::input(format!("`--stack {name}`: {error}")).hint(error.hint()))?;
            refit_trace(measurements.stream(), &file, stack, &catalog, &date).map_err(failed)?
        }
        Some(MeasurementKind::Run) => return runs::correct(from, arguments, output),
        None => {
            return Err(Failure::input(format!("`{file}` holds no measurements that are known"))
                .hint("a table of step times starts with `id,suite,source,system,…`"));
        }
    };
    for warning in &refitted.warnings {
        output.warn(warning);
    }
    if let Some(constants) = &refitted.constants {
        files::write(&path, constants.to_toml())?;
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
