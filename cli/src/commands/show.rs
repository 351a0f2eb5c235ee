//! `trainyard show`: what the catalogs hold.

use crate::arguments::{Kind, ShowArguments};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use trainyard_hardware_profiles::{CatalogError, catalog};
use trainyard_models::{ModelError, find};
use trainyard_plan::{ScheduleName, UnknownName};
use trainyard_reports as reports;

/// Shows a catalog, or one entry of it.
pub(crate) fn show(arguments: &ShowArguments, output: &Output) -> Result<Exit, Failure> {
    let (catalog, width) = (catalog(), output.width());
    let page = match (arguments.kind, arguments.name.as_deref()) {
        (Kind::Models, None) => reports::models(trainyard_models::catalog(), width),
        (Kind::Models, Some(name)) => {
            reports::model(find(name).map_err(|error: ModelError| unknown(&error, error.hint()))?)
        }
        (Kind::Gpus, None) => reports::gpus(catalog, width),
        (Kind::Gpus, Some(name)) => reports::gpu(catalog.gpu(name).map_err(no_entry)?),
        (Kind::Instances, None) => reports::instances(catalog, width),
        (Kind::Instances, Some(name)) => reports::instance(catalog.instance(name).map_err(no_entry)?, width),
        (Kind::Stacks, None) => reports::stacks(catalog, width),
        (Kind::Stacks, Some(name)) => reports::stack(catalog.stack(name).map_err(no_entry)?),
        (Kind::Schedules, None) => reports::schedules(width),
        (Kind::Schedules, Some(name)) => {
            let schedule = name.parse::<ScheduleName>().map_err(|error: UnknownName| unknown(&error, None))?;
            reports::schedule(schedule)
        }
    };
    output.page(&page);
    Ok(Exit::Done)
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn no_entry(error: CatalogError) -> Failure {
    unknown(&error, Some(error.hint()))
}

fn unknown(error: &dyn std::error::Error, hint: Option<String>) -> Failure {
    Failure::of(Exit::Input, error).maybe_hint(hint)
}
