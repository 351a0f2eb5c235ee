//! `trainyard show`: what the catalogs hold.

use crate::arguments::{Kind, ShowArguments};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::read;
use clap::ValueEnum;
use serde_json::json;
use std::path::Path;
use trainyard_hardware_profiles::{Catalog, Stack, matches};
use trainyard_models::{CatalogEntry, Model, Pass, data_sets, find, find_data_set, find_published};
use trainyard_plan::ScheduleName;
use trainyard_reports as reports;
use trainyard_units::{CatalogError, UnknownName};

/// Shows a catalog, or one entry of it.
pub(crate) fn show(arguments: &ShowArguments, output: &Output) -> Result<Exit, Failure> {
    let Some(kind) = arguments.kind else {
        kinds(output);
        return Ok(Exit::Done);
    };
    let catalog = &*read::catalog_of(arguments.constants.as_deref())?;
    match arguments.name.as_deref() {
        Some(pattern) if pattern.contains('*') && !matches!(kind, Kind::Prices) => {
            list(kind, catalog, pattern, output)?;
        }
        Some(name) => entry(kind, catalog, name, output)?,
        None => list(kind, catalog, "*", output)?,
    }
    Ok(Exit::Done)
}

/// Lists the catalogs.
fn kinds(output: &Output) {
    let kinds: Vec<(String, String)> = Kind::value_variants()
        .iter()
        .filter_map(Kind::to_possible_value)
        .map(|kind| (kind.get_name().to_owned(), kind.get_help().map(ToString::to_string).unwrap_or_default()))
        .collect();
    let document: Vec<_> = kinds.iter().map(|(name, about)| json!({ "catalog": name, "about": about })).collect();
    output.result(&document, || {
        reports::catalogs(&kinds, output.width())
            + "\n  trainyard show CATALOG [NAME|PATTERN], as in `trainyard show instances 'p4*'`\n"
    });
}

/// Lists the entries of a catalog whose names match a pattern.
fn list(kind: Kind, catalog: &Catalog, pattern: &str, output: &Output) -> Result<(), Failure> {
    let width = output.width();
    let found = catalog.only(pattern);
    let some = |count: usize| if count > 0 { Ok(()) } else { Err(no_match(kind, pattern)) };
    match kind {
        Kind::Models => {
            let models = trainyard_models::catalog().filter(|entry| matches(pattern, entry.model.name()));
            let models: Vec<CatalogEntry> = models.cloned().collect();
            some(models.len())?;
            let documents: Vec<_> = models.iter().map(model).collect();
            output.result(&documents, || reports::models(&models, width));
        }
        Kind::Datasets => {
            let sets: Vec<_> = data_sets().iter().filter(|set| matches(pattern, &set.name)).cloned().collect();
            some(sets.len())?;
            output.result(&sets, || reports::data_sets(&sets, width));
        }
        Kind::Gpus => {
            some(found.gpus().len())?;
            output.result(&found.gpus(), || reports::gpus(&found, width));
        }
        Kind::Instances => {
            let machines: Vec<_> = found.machine_types().collect();
            some(machines.len())?;
            output.result(&machines, || reports::instances(&found, width));
        }
        Kind::Stacks => {
            some(found.stacks().len())?;
            let stacks: Vec<&Stack> = found.stacks().iter().map(AsRef::as_ref).collect();
            output.result(&stacks, || reports::stacks(&found, width));
        }
        Kind::Schedules if pattern == "*" => output.result(&ScheduleName::ALL, || reports::schedules(width)),
        Kind::Schedules => entry(kind, catalog, pattern, output)?,
        Kind::Prices => prices(catalog, Some(pattern), output)?,
    }
    Ok(())
}

fn no_match(kind: Kind, pattern: &str) -> Failure {
    let name = kind.to_possible_value().map(|kind| kind.get_name().to_owned()).unwrap_or_default();
    Failure::input(format!("none of the {name} fits `{pattern}`"))
        .hint(format!("`trainyard show {name}` lists them all"))
}

/// Shows one entry of a catalog.
fn entry(kind: Kind, catalog: &Catalog, name: &str, output: &Output) -> Result<(), Failure> {
    let width = output.width();
    match kind {
        Kind::Models => match find_published(name).filter(|_| !Path::new(name).exists()).map_or_else(|| find(name), Ok)
        {
            Ok(entry) => {
                output.result(&model(entry), || reports::model(&entry.model, Some(entry), &entry.source));
            }
            Err(_) if read::is_model_path(name) => model_of_file(Path::new(name), output)?,
            Err(error) => return Err(no_entry(error)),
        },
        Kind::Datasets => {
            let set = find_data_set(name).map_err(no_entry)?;
            output.result(set, || reports::data_set(set));
        }
        Kind::Gpus => {
            let gpu = catalog.gpu(name).map_err(no_entry)?;
            output.result(gpu, || reports::gpu(gpu));
        }
        Kind::Instances => {
            let instance = catalog.instance(name).map_err(no_entry)?;
            output.result(instance, || reports::instance(instance, width));
        }
        Kind::Stacks => {
            let stack = catalog.stack(name).map_err(no_entry)?;
            output.result(stack.as_ref(), || reports::stack(stack, output.width()));
        }
        Kind::Schedules => {
            let schedule = name.parse::<ScheduleName>().map_err(|error: UnknownName| unknown(&error, None))?;
            output.result(&schedule, || reports::schedule(schedule));
        }
        Kind::Prices => prices(catalog, Some(name), output)?,
    }
    Ok(())
}
/// Prints the prices of some instances: as a table that `--prices` reads, or as the catalog has them.
fn prices(catalog: &Catalog, pattern: Option<&str>, output: &Output) -> Result<(), Failure> {
    let wanted: Vec<String> = vec![pattern.unwrap_or("*").into()];
    let instances = catalog.matching(&wanted).map_err(no_entry)?;
    let document: Vec<_> =
        instances.iter().map(|instance| json!({ "instance": instance.name, "prices": instance.prices })).collect();
    output.result(&document, || catalog.prices_csv(pattern));
    Ok(())
}

/// Shows the model of a file: a configuration of Hugging Face or the folder with one, a graph in the ONNX format, or TOML.
fn model_of_file(path: &Path, output: &Output) -> Result<(), Failure> {
    let spec = read::model(path, None)?;
    let model = Model::try_from(spec).map_err(|error| {
        let whole = Failure::input(format!("`{}` holds no valid model", path.display()));
        whole.because(error.to_string()).maybe_hint(error.hint())
    })?;
    let (source, graph) = (path.display().to_string(), model.graph());
    let document = json!({
        "source": source,
        "parameters": graph.parameters(),
        "forward_flops": graph.flops(Pass::Forward).0,
        "model": model.spec(),
    });
    output.result(&document, || reports::model(&model, None, &source));
    Ok(())
}

/// Returns a model in the form of its catalog file, with its parameters and the arithmetic of a sample.
fn model(entry: &CatalogEntry) -> serde_json::Value {
    let graph = entry.model.graph();
    json!({
        "source": entry.source,
        "dataset": entry.dataset,
        "context_length": entry.context_length,
        "learning_rate": entry.learning_rate,
        "parameters": graph.parameters(),
        "forward_flops": graph.flops(Pass::Forward).0,
        "model": entry.model.spec(),
    })
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn no_entry(error: CatalogError) -> Failure {
    unknown(&error, Some(error.hint()))
}

fn unknown(error: &(dyn std::error::Error + 'static), hint: Option<String>) -> Failure {
    Failure::of(Exit::Input, error).maybe_hint(hint)
}
