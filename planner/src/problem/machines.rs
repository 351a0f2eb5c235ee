//! The machines of a job: to be rented, measured, or described by a file.

use super::error::{JobError, inside};
use super::place::{Description, Place, Rental, catalog_with, executor_stack};
use super::price_not_found::price_not_found;
use super::quota::Quotas;
use super::resources::Resources;
use super::software::{AUTO_STACK, Trained, executable, names_of_those_that, of_today, trains, why_refused};
use super::terms::{price_of, purchase};
use super::transport::{has_instead, on_no_instance, transport_named};
use std::borrow::Cow;
use std::sync::Arc;
use trainyard_hardware_profiles::{
    Catalog, Cluster, ClusterFile, Constants, DEFAULT_STACK, Instance, MeasuredMachine, Price, PriceQuery, PriceTable,
    Purchase, Service, Sourced, Stack, Transport,
};
use trainyard_plan::{ClusterChoice, Pricing, TuningKind};
use trainyard_sim::Machine;
use trainyard_units::{Invalid, share};

/// Patterns of the instance types that a job may choose from unless it says otherwise: four families.
pub const DEFAULT_INSTANCES: [&str; 4] = ["g4dn.*", "p3.*", "p3dn.*", "p4d.*"];

const DEFAULT_MAX_INSTANCES: u32 = 16;

/// The Region of prices where nothing names one.
pub const DEFAULT_REGION: &str = "us-east-1";

pub const MAX_INSTANCES: u32 = 16_384;

pub(crate) fn place(choice: &ClusterChoice, resources: Resources, wanted: Wanted<'_>) -> Result<Place, JobError> {
    let unread = |field: &str, what: &str| Invalid::missing(field, format!("the {what} was not read"));
    if choice.constants.is_some() && resources.constants.is_none() {
        return Err(unread("cluster.constants", "constants file").into());
    }
    let before = Before {
        path: resources.constants_path.or_else(|| choice.constants.clone()).filter(|_| resources.constants.is_some()),
        constants: resources.constants,
    };
    Ok(match (&choice.profile, &choice.file) {
        (None, None) if choice.prices.is_some() && resources.prices.is_none() => {
            return Err(unread("cluster.prices", "table of prices").into());
        }
        (None, None) => Place::Rented(Box::new(rental(choice, before, resources.prices.as_ref(), wanted)?)),
        (Some(_), Some(_)) => {
            let rule = "a measured machine is one, and a cluster file describes others";
            return Err(Invalid::conflict("cluster.profile", "cluster.file", rule).into());
        }
        (Some(_), None) => {
            let profile = resources.profile.ok_or_else(|| unread("cluster.profile", "profile file"))?;
            owned(choice, profile, resources.profile_path, before)?
        }
        (None, Some(_)) => {
            let file = resources.cluster_file.ok_or_else(|| unread("cluster.file", "cluster file"))?;
            described(choice, file, resources.cluster_path, before, wanted)?
        }
    })
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
) -> Result<Place, Invalid> {
    if choice.transport.is_some() {
        let rule = "a measured machine is one machine, which has no network";
        return Err(Invalid::conflict("cluster.transport", "cluster.profile", rule));
    }
    if let Some(first) = rental_field(choice).or(choice.stack.is_some().then_some("cluster.stack")) {
        let rule = "a measured machine is not rented and brings its own software";
        return Err(Invalid::conflict(first, "cluster.profile", rule));
    }
    let stack = executor_stack(before.constants.as_ref()).map_err(|_| {
        let rule = "a measured machine needs constants of the stack `trainyard-executor` only, and the file has none";
        Invalid::conflict("cluster.constants", "cluster.profile", rule)
    })?;
    let margin = memory_margin(choice)?.map(|part| Sourced::new(part, "cluster.memory_margin of the job"));
    let stack = Arc::new(Stack { memory_margin: margin, ..Arc::unwrap_or_clone(stack) });
    let machine = Machine { cluster: Cluster::of_measured(profile), stack: stack.clone() };
    let path = path.or_else(|| choice.profile.clone()).unwrap_or_default();
    Ok(Place::Owned {
        machine: Box::new(machine),
        stacks: vec![stack],
        described_by: Description::Profile(path),
        max_instances: None,
        constants: before.path,
        only: None,
    })
}

fn described(
    choice: &ClusterChoice,
    file: ClusterFile,
    path: Option<String>,
    before: Before,
    wanted: Wanted<'_>,
) -> Result<Place, Invalid> {
    let max_instances = choice.max_instances.map(within_limits).transpose()?;
    if let Some(first) = rental_field(&ClusterChoice { instances: None, max_instances: None, ..choice.clone() }) {
        let rule = "a cluster of one's own is not rented";
        return Err(Invalid::conflict(first, "cluster.file", rule));
    }
    if choice.transport.is_some() {
        let rule = "the file says the transport of each kind of machines (`network.transport`)";
        return Err(Invalid::conflict("cluster.transport", "cluster.file", rule));
    }
    let path = path.or_else(|| choice.file.clone()).unwrap_or_default();
    let catalog = catalog_with(before.constants.as_ref());
    let cluster = Cluster::of_file(file, &catalog).map_err(|error| inside("cluster.file", &error, error.hint()))?;
    let stacks = stacks(choice, &catalog, wanted)?;
    let machine = Machine { cluster, stack: stacks[0].clone() };
    let place = Place::Owned {
        machine: Box::new(machine),
        stacks,
        described_by: Description::ClusterFile(path),
        max_instances,
        constants: before.path,
        only: None,
    };
    let Some(names) = &choice.instances else { return Ok(place) };
    let kinds = named(&place.types(), names)?;
    Ok(place.only_on(&kinds))
}

/// Returns the kinds of machines of a cluster that a job names.
fn named(kinds: &[(String, u32)], names: &[String]) -> Result<Vec<(String, u32)>, Invalid> {
    let is_kind = |name: &String| kinds.iter().any(|(kind, _)| kind == name);
    if names.is_empty() || !names.iter().all(is_kind) {
        let wrong = names.iter().find(|name| !is_kind(name)).map_or_else(|| "[]".into(), String::clone);
        let known: Vec<&str> = kinds.iter().map(|(kind, _)| kind.as_str()).collect();
        let allowed = format!("kinds of machines of the cluster file: {}", known.join(", "));
        return Err(
            Invalid::value("cluster.instances", wrong, allowed).with_hint("name some of these, or none to use any")
        );
    }
    Ok(kinds.iter().filter(|(kind, _)| names.contains(kind)).cloned().collect())
}

/// Checks the number of machines that a job allows.
fn within_limits(max_instances: u32) -> Result<u32, Invalid> {
    let is_within = (1..=MAX_INSTANCES).contains(&max_instances);
    let wrong = || Invalid::range("cluster.max_instances", max_instances, 1..=MAX_INSTANCES);
    is_within.then_some(max_instances).ok_or_else(wrong)
}

/// What stacks are chosen for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) trained: Trained<'a>,
    /// `true` if a pretrained model is trained on examples.
    pub(crate) fine_tuned: bool,
}

impl Wanted<'_> {
    /// Returns `true` if people train so with a stack. Megatron-LM's scripts go on with pretraining: without a chat template,
    /// with a loss on every token, or, of masked language models, without a head of another task.
    fn is_usual(self, stack: &Stack) -> bool {
        !(self.fine_tuned && stack.runs.own_models)
    }
}

/// Returns the stacks that a job compares: the one that it names, or those that people use today. At least one must be
/// able to train the model.
fn stacks(choice: &ClusterChoice, catalog: &Catalog, wanted: Wanted<'_>) -> Result<Vec<Arc<Stack>>, Invalid> {
    let Wanted { trained, .. } = wanted;
    let Trained { model, kind, optimizer } = trained;
    let of_today: Vec<Arc<Stack>> = of_today(catalog).into_iter().filter(|stack| wanted.is_usual(stack)).collect();
    let named = |name: &str| catalog.stack(name).cloned().map_err(|error| error.at("cluster.stack"));
    let all = match choice.stack.as_deref().filter(|name| *name != AUTO_STACK) {
        Some(name) => vec![named(name)?],
        None if of_today.is_empty() => vec![named(DEFAULT_STACK)?],
        None => of_today.clone(),
    };
    let mut able = Vec::new();
    for stack in all.iter().cloned() {
        if trains(&executable(&stack)?, Trained { kind: TuningKind::FULL, ..trained }) {
            able.push(stack);
        }
    }
    // Other methods are compared with it, by stacks that may not run it.
    let runs = |stack: &Arc<Stack>| executable(stack).is_ok_and(|software| trains(&software, trained));
    if !able.iter().any(runs) {
        let others = names_of_those_that(&of_today, |runs| trains(runs, trained));
        let hint = match others.as_slice() {
            [] => format!("none of the stacks of today can; `--stack {DEFAULT_STACK}` predicts what it would take"),
            others => format!("use one of {}, or `auto`", others.join(", ")),
        };
        let way = if kind == TuningKind::FULL { String::new() } else { format!(" by {kind}") };
        let updates = all.iter().any(|stack| executable(stack).is_ok_and(|runs| runs.updates_with(optimizer)));
        let by = if updates { String::new() } else { format!(" with {optimizer}") };
        let why = why_refused(&all[0], model, kind.method).map_or_else(String::new, |why| format!(", because {why}"));
        let rule = format!("plans of {}{way}{by} with it are not modelled{why}", model.name());
        return Err(Invalid::breaks("cluster.stack", &all[0].name, rule).with_hint(hint));
    }
    let margin = memory_margin(choice)?;
    for stack in &mut able {
        Arc::make_mut(stack).memory_margin = margin.map(|part| Sourced::new(part, "cluster.memory_margin of the job"));
    }
    Ok(able)
}

/// Returns the part of each GPU's memory that a job leaves free, if it says so.
pub(crate) fn memory_margin(choice: &ClusterChoice) -> Result<Option<f64>, Invalid> {
    let Some(text) = &choice.memory_margin else { return Ok(None) };
    let part = share(text).ok().filter(|part| (0.0..=0.5).contains(part));
    part.map(Some)
        .ok_or_else(|| Invalid::value("cluster.memory_margin", format!("`{text}`"), "from 0% to 50%, such as 8%"))
}

fn rental(
    choice: &ClusterChoice,
    before: Before,
    prices: Option<&PriceTable>,
    wanted: Wanted<'_>,
) -> Result<Rental, JobError> {
    let catalog = catalog_with(before.constants.as_ref());
    let catalog = prices.map_or(catalog.clone(), |prices| Cow::Owned(catalog.with_prices(prices)));
    let pricing = choice.pricing.unwrap_or(Pricing::OnDemand);
    let patterns = choice.instances.clone().unwrap_or_else(|| usual_types(&catalog, pricing));
    if patterns.is_empty() {
        return Err(Invalid::value("cluster.instances", "[]", "a list with at least one instance type").into());
    }
    let matching = catalog.matching(&patterns).map_err(|error| error.at("cluster.instances"))?;
    let transport = choice.transport.as_deref().map(|name| transport_named("cluster.transport", name)).transpose()?;
    let (matching, without_transport) = by_transport(transport, matching);
    if let (Some(transport), true) = (transport, matching.is_empty()) {
        return Err(on_no_instance("cluster.transport", transport, &without_transport, &catalog).into());
    }
    let stacks = stacks(choice, &catalog, wanted)?;
    let max_instances = within_limits(choice.max_instances.unwrap_or(DEFAULT_MAX_INSTANCES))?;
    let named = service(choice.service.as_deref())?;
    let service = named.unwrap_or(Service::Ec2);
    let region = choice.region.as_deref().unwrap_or(DEFAULT_REGION);
    let quotas = Quotas::new(choice.quotas.as_ref(), (service, pricing), &catalog, "cluster.quotas")?;
    let query = PriceQuery { region, service, purchase: purchase(pricing) };
    let (priced, unpriced): (Vec<&Instance>, Vec<&Instance>) =
        matching.iter().partition(|instance| price_of(instance, query).is_some());
    if priced.is_empty() {
        return Err(price_not_found(&catalog, &matching, (service, pricing), region).within("cluster").into());
    }
    let unpriced = unpriced.into_iter().map(|instance| instance.name.clone()).collect();
    let Within { instances, over_quota } = within(&quotas, priced, query)?;
    Ok(Rental {
        most: instances.iter().map(|(instance, _)| quotas.cap(instance, max_instances)).collect(),
        quotas,
        instances,
        unpriced,
        over_quota,
        transport,
        without_transport: reasons(&without_transport, transport),
        max_instances,
        pricing,
        service: named,
        stacks,
        catalog,
        constants: before.path,
        changes: Vec::new(),
        repriced: Vec::new(),
    })
}

/// Returns patterns of the instance types that a job may choose from unless it says otherwise: [`DEFAULT_INSTANCES`], but of capacity
/// blocks all that are offered in some Region, since most of these are hardly to be had in another way.
pub(crate) fn usual_types(catalog: &Catalog, pricing: Pricing) -> Vec<String> {
    let in_blocks = |own: &&Instance| own.prices.iter().any(|price| price.purchase == Purchase::CapacityBlock);
    let blocks: Vec<String> = match pricing {
        Pricing::CapacityBlock => catalog.instances().iter().filter(in_blocks).map(|own| own.name.clone()).collect(),
        _ => Vec::new(),
    };
    if blocks.is_empty() { DEFAULT_INSTANCES.map(String::from).into() } else { blocks }
}

/// Splits instance types into those that have a transport, all of them if none is named, and the others.
fn by_transport(transport: Option<Transport>, types: Vec<&Instance>) -> (Vec<&Instance>, Vec<&Instance>) {
    types.into_iter().partition(|instance| transport.is_none_or(|named| has_instead(instance, named).is_none()))
}

/// Returns the names of the types that do not have a transport, each with the reason.
fn reasons(without: &[&Instance], transport: Option<Transport>) -> Vec<(String, String)> {
    let reason = |instance: &Instance| {
        let (named, own) = (transport?, has_instead(instance, transport?)?);
        Some((instance.name.clone(), format!("has no {}, but {own}", named.name())))
    };
    without.iter().filter_map(|instance| reason(instance)).collect()
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
        let over = Invalid::inside("cluster.quotas", why.join("; "));
        return Err(JobError::OverQuota(
            over.with_hint("ask AWS for more (Service Quotas), or allow other types in cluster.instances"),
        ));
    }
    Ok(Within { instances, over_quota })
}

fn service(name: Option<&str>) -> Result<Option<Service>, Invalid> {
    name.map(Service::exactly).transpose().map_err(|unknown| unknown.in_field("cluster.service"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_names_kinds_of_a_cluster_file() {
        let kinds =
            [("lab", 9), ("h100", 2), ("a100", 4), ("workstation", 3)].map(|(name, count)| (name.into(), count));
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let chosen = named(&kinds, &names(&["a100", "h100"])).expect("kinds");
        assert_eq!(chosen, [("h100".to_owned(), 2), ("a100".to_owned(), 4)]);
        for (wrong, value) in [(&["h100", "p5.48xlarge"][..], "p5.48xlarge"), (&[], "[]")] {
            let error = named(&kinds, &names(wrong)).expect_err("no kinds").to_string();
            assert!(error.contains(value) && error.contains("lab, h100, a100, workstation"), "{error}");
        }
    }
}
