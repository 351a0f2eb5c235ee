//! The machines of a job: to be rented, measured, or described by a file.

use super::error::{JobError, invalid};
use super::place::{Description, Place, Rental, catalog_with, executor_stack};
use super::price_not_found::Unpriced;
use super::quota::Quotas;
use super::resources::Resources;
use super::software::{AUTO_STACK, executable, names_of_those_that, of_today, trains};
use super::terms::{price_of, purchase};
use std::borrow::Cow;
use trainyard_hardware_profiles::{
    Catalog, Cluster, ClusterFile, Constants, DEFAULT_STACK, Instance, MeasuredMachine, Price, PriceQuery, PriceTable,
    Service, Sourced, Stack,
};
use trainyard_models::Model;
use trainyard_plan::{ClusterChoice, Pricing};
use trainyard_sim::Machine;

/// Patterns of the instance types that a job may choose from unless it says otherwise: four families.
pub const DEFAULT_INSTANCES: [&str; 4] = ["g4dn.*", "p3.*", "p3dn.*", "p4d.*"];

const DEFAULT_MAX_INSTANCES: u32 = 16;

pub(crate) const DEFAULT_REGION: &str = "us-east-1";

pub(crate) const MAX_INSTANCES: u32 = 16_384;

pub(crate) fn place(choice: &ClusterChoice, resources: Resources, model: &Model) -> Result<Place, JobError> {
    if choice.constants.is_some() && resources.constants.is_none() {
        return Err(JobError::Missing { field: "cluster.constants", why: "the constants file was not read" });
    }
    let before = Before {
        path: resources.constants_path.or_else(|| choice.constants.clone()).filter(|_| resources.constants.is_some()),
        constants: resources.constants,
    };
    match (&choice.profile, &choice.file) {
        (None, None) if choice.prices.is_some() && resources.prices.is_none() => {
            Err(JobError::Missing { field: "cluster.prices", why: "the table of prices was not read" })
        }
        (None, None) => Ok(Place::Rented(Box::new(rental(choice, before, resources.prices.as_ref(), model)?))),
        (Some(_), Some(_)) => Err(JobError::Conflict {
            first: "cluster.profile",
            second: "cluster.file",
            rule: "a measured machine is one, and a cluster file describes others",
        }),
        (Some(_), None) => {
            let missing = JobError::Missing { field: "cluster.profile", why: "the profile file was not read" };
            owned(choice, resources.profile.ok_or(missing)?, resources.profile_path, before)
        }
        (None, Some(_)) => {
            let missing = JobError::Missing { field: "cluster.file", why: "the cluster file was not read" };
            described(choice, resources.cluster_file.ok_or(missing)?, resources.cluster_path, before, model)
        }
    }
}

/// Returns the field that says how machines are rented, if there is one.
fn rental_field(choice: &ClusterChoice) -> Option<&'static str> {
    let fields = [
        ("cluster.instances", choice.instances.is_some()),
        ("cluster.max_instances", choice.max_instances.is_some()),
        ("cluster.region", choice.region.is_some()),
        ("cluster.pricing", choice.pricing.is_some()),
        ("cluster.service", choice.service.is_some()),
        ("cluster.prices", choice.prices.is_some()),
        ("cluster.quotas", choice.quotas.is_some()),
    ];
    fields.into_iter().find(|(_, set)| *set).map(|(field, _)| field)
}

/// A constants file that takes precedence over the program's catalog, with its path.
struct Before {
    constants: Option<Constants>,
    path: Option<String>,
}

fn owned(
    choice: &ClusterChoice,
    profile: MeasuredMachine,
    path: Option<String>,
    before: Before,
) -> Result<Place, JobError> {
    if let Some(first) = rental_field(choice).or(choice.stack.is_some().then_some("cluster.stack")) {
        let rule = "a measured machine is not rented and brings its own software";
        return Err(JobError::Conflict { first, second: "cluster.profile", rule });
    }
    let stack = executor_stack(before.constants.as_ref()).map_err(|_| {
        let rule = "a measured machine needs constants of the stack `trainyard-executor` only, and the file has none";
        JobError::Conflict { first: "cluster.constants", second: "cluster.profile", rule }
    })?;
    let margin = memory_margin(choice)?.map(|part| Sourced::new(part, "cluster.memory_margin of the job"));
    let stack = Stack { memory_margin: margin, ..stack };
    let machine = Machine { cluster: Cluster::of_measured(profile), stack: stack.clone() };
    let path = path.or_else(|| choice.profile.clone()).unwrap_or_default();
    Ok(Place::Owned {
        machine: Box::new(machine),
        stacks: vec![stack],
        described_by: Description::Profile(path),
        constants: before.path,
    })
}

fn described(
    choice: &ClusterChoice,
    file: ClusterFile,
    path: Option<String>,
    before: Before,
    model: &Model,
) -> Result<Place, JobError> {
    if let Some(first) = rental_field(choice) {
        let rule = "a cluster of one's own is not rented";
        return Err(JobError::Conflict { first, second: "cluster.file", rule });
    }
    let path = path.or_else(|| choice.file.clone()).unwrap_or_default();
    let catalog = catalog_with(before.constants.as_ref());
    let cluster =
        Cluster::of_file(file, &catalog).map_err(|error| JobError::ClusterFile { path: path.clone(), error })?;
    let stacks = stacks(choice, &catalog, model)?;
    let machine = Machine { cluster, stack: stacks[0].clone() };
    Ok(Place::Owned {
        machine: Box::new(machine),
        stacks,
        described_by: Description::ClusterFile(path),
        constants: before.path,
    })
}

/// Returns the stacks that a job compares: the one that it names, or those that people use today. At least one must be
/// able to train the model.
fn stacks(choice: &ClusterChoice, catalog: &Catalog, model: &Model) -> Result<Vec<Stack>, JobError> {
    let of_today = of_today(catalog);
    let all = match choice.stack.as_deref().filter(|name| *name != AUTO_STACK) {
        Some(name) => {
            let named = catalog.stack(name).map_err(|error| JobError::Catalog { field: "cluster.stack", error })?;
            vec![named.clone()]
        }
        None if of_today.is_empty() => {
            vec![
                catalog
                    .stack(DEFAULT_STACK)
                    .map_err(|error| JobError::Catalog { field: "cluster.stack", error })?
                    .clone(),
            ]
        }
        None => of_today.clone(),
    };
    let mut able = Vec::new();
    for stack in all.iter().cloned() {
        if trains(&executable(&stack)?, model) {
            able.push(stack);
        }
    }
    if able.is_empty() {
        let others = names_of_those_that(&of_today, |runs| trains(runs, model));
        let (value, model) = (all[0].name.clone(), model.name().to_owned());
        return Err(JobError::UnableStack { value, model, others });
    }
    let margin = memory_margin(choice)?;
    for stack in &mut able {
        stack.memory_margin = margin.map(|part| Sourced::new(part, "cluster.memory_margin of the job"));
    }
    Ok(able)
}

/// Returns the part of each GPU's memory that a job leaves free, if it says so.
pub(crate) fn memory_margin(choice: &ClusterChoice) -> Result<Option<f64>, JobError> {
    let Some(text) = &choice.memory_margin else { return Ok(None) };
    let number = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse().map(|percent: f64| percent / 100.0),
        None => text.trim().parse(),
    };
    let part = number.ok().filter(|part| (0.0..=0.5).contains(part));
    part.map(Some).ok_or_else(|| invalid("cluster.memory_margin", format!("`{text}`"), "from 0% to 50%, such as 8%"))
}

fn rental(
    choice: &ClusterChoice,
    before: Before,
    prices: Option<&PriceTable>,
    model: &Model,
) -> Result<Rental, JobError> {
    let patterns =
        choice.instances.clone().unwrap_or_else(|| DEFAULT_INSTANCES.iter().map(|pattern| (*pattern).into()).collect());
    if patterns.is_empty() {
        return Err(invalid("cluster.instances", "[]", "a list with at least one instance type"));
    }
    let catalog = catalog_with(before.constants.as_ref());
    let catalog = prices.map_or(catalog.clone(), |prices| Cow::Owned(catalog.with_prices(prices)));
    let matching =
        catalog.matching(&patterns).map_err(|error| JobError::Catalog { field: "cluster.instances", error })?;
    let stacks = stacks(choice, &catalog, model)?;
    let max_instances = choice.max_instances.unwrap_or(DEFAULT_MAX_INSTANCES);
    if !(1..=MAX_INSTANCES).contains(&max_instances) {
        return Err(invalid("cluster.max_instances", max_instances, format!("from 1 to {MAX_INSTANCES}")));
    }
    let pricing = choice.pricing.unwrap_or(Pricing::OnDemand);
    let named = service(choice.service.as_deref())?;
    let service = named.unwrap_or(Service::Ec2);
    let region = choice.region.as_deref().unwrap_or(DEFAULT_REGION);
    let quotas = Quotas::new(choice.quotas.as_ref(), service, &catalog)?;
    let query = PriceQuery { region, service, purchase: purchase(pricing) };
    let (priced, unpriced): (Vec<&Instance>, Vec<&Instance>) =
        matching.iter().partition(|instance| price_of(instance, query).is_some());
    if priced.is_empty() {
        return Err(Unpriced::of(&catalog, &matching, (service, pricing), region).into());
    }
    let unpriced = unpriced.into_iter().map(|instance| instance.name.clone()).collect();
    let Within { instances, over_quota } = within(&quotas, priced, query)?;
    let most = |(instance, _): &(Instance, Price)| {
        let allowed = quotas.most(instance).map_or(max_instances, |most| u32::try_from(most).unwrap_or(u32::MAX));
        allowed.min(max_instances)
    };
    Ok(Rental {
        most: instances.iter().map(most).collect(),
        quotas,
        instances,
        unpriced,
        over_quota,
        max_instances,
        pricing,
        service: named,
        stacks,
        catalog,
        constants: before.path,
        changes: Vec::new(),
        repriced: None,
    })
}

/// Instance types by what quotas leave of them.
struct Within {
    /// Those of which one may be rented, with their prices.
    instances: Vec<(Instance, Price)>,
    /// The others with the reason.
    over_quota: Vec<(String, String)>,
}

/// Returns the instances that quotas leave; an error if they leave none.
fn within(quotas: &Quotas, priced: Vec<&Instance>, query: PriceQuery<'_>) -> Result<Within, JobError> {
    let (mut instances, mut over_quota) = (Vec::new(), Vec::new());
    for instance in priced {
        match (quotas.refusal(instance, 1), price_of(instance, query)) {
            (Some(why), _) => over_quota.push((instance.name.clone(), why)),
            (None, price) => instances.extend(price.map(|price| (instance.clone(), price.clone()))),
        }
    }
    if instances.is_empty() {
        let why: Vec<String> = over_quota.iter().map(|(name, why)| format!("{name} {why}")).collect();
        return Err(JobError::OverQuota { why: why.join("; ") });
    }
    Ok(Within { instances, over_quota })
}

fn service(name: Option<&str>) -> Result<Option<Service>, JobError> {
    let Some(name) = name else { return Ok(None) };
    let unknown = || invalid("cluster.service", format!("`{name}`"), "one of ec2, sagemaker");
    Service::named(name).map(Some).ok_or_else(unknown)
}
