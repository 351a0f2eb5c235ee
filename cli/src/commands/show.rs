//! `trainyard show`: what the catalogs hold.

use crate::arguments::{Kind, ShowArguments};
use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::Output;
use serde_json::json;
use trainyard_hardware_profiles::{Catalog, CatalogError};
use trainyard_models::{CatalogEntry, ModelError, find};
use trainyard_plan::{ScheduleName, UnknownName};
use trainyard_reports as reports;

/// Shows a catalog, or one entry of it.
pub(crate) fn show(arguments: &ShowArguments, output: &Output) -> Result<Exit, Failure> {
    let (catalog, width) = (&*files::catalog_of(arguments.constants.as_deref())?, output.width());
    match (arguments.kind, arguments.name.as_deref()) {
        (Kind::Models, None) => {
            let models = trainyard_models::catalog();
            let documents: Vec<_> = models.iter().map(model).collect();
            output.result(&documents, || reports::models(models, width));
        }
        (Kind::Models, Some(name)) => {
            let entry = find(name).map_err(|error: ModelError| unknown(&error, error.hint()))?;
            output.result(&model(entry), || reports::model(entry));
        }
        (Kind::Gpus, None) => output.result(&catalog.gpus(), || reports::gpus(catalog, width)),
        (Kind::Gpus, Some(name)) => {
            let gpu = catalog.gpu(name).map_err(no_entry)?;
            output.result(gpu, || reports::gpu(gpu));
        }
        (Kind::Instances, None) => {
            let machines: Vec<_> = catalog.machine_types().collect();
            output.result(&machines, || reports::instances(catalog, width));
        }
        (Kind::Instances, Some(name)) => {
            let instance = catalog.instance(name).map_err(no_entry)?;
            output.result(instance, || reports::instance(instance, width));
        }
        (Kind::Stacks, None) => output.result(&catalog.stacks(), || reports::stacks(catalog, width)),
        (Kind::Stacks, Some(name)) => {
            let stack = catalog.stack(name).map_err(no_entry)?;
            output.result(stack, || reports::stack(stack));
        }
        (Kind::Prices, name) => prices(catalog, name, output)?,
        (Kind::Schedules, None) => output.result(&ScheduleName::ALL, || reports::schedules(width)),
        (Kind::Schedules, Some(name)) => {
            let schedule = name.parse::<ScheduleName>().map_err(|error: UnknownName| unknown(&error, None))?;
            output.result(&schedule, || reports::schedule(schedule));
        }
    }
    Ok(Exit::Done)
}

/// The prices of some instances as a table that can be given back, or as the catalog has them.
fn prices(catalog: &Catalog, pattern: Option<&str>, output: &Output) -> Result<(), Failure> {
    let wanted: Vec<String> = vec![pattern.unwrap_or("*").into()];
    let instances = catalog.matching(&wanted).map_err(no_entry)?;
    let document: Vec<_> =
        instances.iter().map(|instance| json!({ "instance": instance.name, "prices": instance.prices })).collect();
    output.result(&document, || catalog.prices_csv(pattern));
    Ok(())
}

/// A model as its catalog file has it.
fn model(entry: &CatalogEntry) -> serde_json::Value {
    json!({ "source": entry.source, "model": entry.model.spec() })
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn no_entry(error: CatalogError) -> Failure {
    unknown(&error, Some(error.hint()))
}

fn unknown(error: &dyn std::error::Error, hint: Option<String>) -> Failure {
    Failure::of(Exit::Input, error).maybe_hint(hint)
}
