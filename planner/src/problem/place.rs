//! The machines on which a job may run, with their software and prices.

use super::hourly::Hourly;
use super::quota::Quotas;
use super::terms::{price_used, stated_price};
use super::transport::send_over;
use crate::edits::{MachineChange, PriceChange};
use std::borrow::Cow;
use std::sync::Arc;
use trainyard_hardware_profiles::{
    Catalog, Cluster, Constants, EXECUTOR_STACK, Fabric, Instance, Pool, Price, Service, Stack, Transport, catalog,
    price_of_one,
};
use trainyard_plan::document::PriceUsed;
use trainyard_plan::{ClusterSpec, Plan, Pricing};
use trainyard_sim::Machine;
use trainyard_units::UsdPerHour;

/// The machines on which a job may run.
#[derive(Clone, Debug)]
pub enum Place {
    /// On instances to be rented.
    Rented(Box<Rental>),
    /// On owned machines: one that was measured, or a cluster that a file describes.
    Owned {
        /// All of them, with the first of the stacks.
        machine: Box<Machine>,
        /// The training frameworks that are compared.
        stacks: Vec<Arc<Stack>>,
        /// The file that describes them.
        described_by: Description,
        /// The most machines that a plan may take, if the job says so.
        max_instances: Option<u32>,
        /// The constants file that takes precedence over the catalog, as a plan names it.
        constants: Option<String>,
        /// The only types that may be used, with the most machines of each; `None` if all may be.
        only: Option<Vec<(String, u32)>>,
    },
}

/// The description of owned machines, with the path that a plan names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Description {
    /// A calibrated profile.
    Profile(String),
    ClusterFile(String),
}

/// The instances that may be rented, and the terms.
#[derive(Clone, Debug)]
pub struct Rental {
    /// Types that may be chosen, all of them priced.
    pub instances: Vec<(Instance, Price)>,
    /// Types left out because they have no price.
    pub unpriced: Vec<String>,
    /// Types left out because of a quota, with the reason.
    pub over_quota: Vec<(String, String)>,
    /// The transport between machines, where the job names it.
    pub transport: Option<Transport>,
    /// Types left out because they do not have it, with the reason.
    pub without_transport: Vec<(String, String)>,
    /// The most instances of any type.
    pub max_instances: u32,
    /// The most instances of each type, where a quota allows fewer.
    pub(crate) most: Vec<u32>,
    /// The quotas that the job states: how much the account may rent at once.
    pub(crate) quotas: Quotas,
    /// The terms.
    pub pricing: Pricing,
    /// The service, where the job names it.
    pub service: Option<Service>,
    /// The training frameworks that are compared.
    pub stacks: Vec<Arc<Stack>>,
    /// The catalog that describes the machines.
    pub catalog: Cow<'static, Catalog>,
    /// The constants file that takes precedence over the program's own catalog, as a plan names it.
    pub constants: Option<String>,
    /// Changes to the machines, relative to the catalog.
    pub(crate) changes: Vec<MachineChange>,
    /// Changes to prices, relative to the catalog.
    pub(crate) repriced: Vec<PriceChange>,
}

impl Rental {
    /// Returns the index of a choice's instance type.
    pub(crate) fn kind(&self, choice: usize) -> usize {
        choice / self.stacks.len()
    }

    /// Returns the instance of a choice, with its price: the stacks of a type follow each other.
    pub(crate) fn offer(&self, choice: usize) -> &(Instance, Price) {
        &self.instances[self.kind(choice)]
    }

    /// Returns the transport between machines of a type.
    pub(crate) fn transport(&self, instance: &Instance) -> Transport {
        self.transport.unwrap_or(instance.network.transport)
    }

    /// Returns machines of a choice, as the catalog describes them.
    fn cluster(&self, choice: usize, instances: u32) -> Cluster {
        let (instance, _) = self.offer(choice);
        let named = self.catalog.cluster(&instance.name, instances);
        let mut cluster = named.expect("a rental names instances of the catalog");
        send_over(&mut cluster, self.transport(instance), &self.catalog);
        cluster
    }

    /// Returns the transport of a plan on a type of machine; `None` for the usual one.
    fn named_transport(&self, instance: &str) -> Option<String> {
        let usual = self.catalog.instance(instance).ok()?.network.transport;
        self.transport.filter(|named| *named != usual).map(|named| named.name().into())
    }
}

impl Place {
    /// Returns the instances that may be rented; `None` where the machines are owned.
    pub(crate) fn rental(&self) -> Option<&Rental> {
        match self {
            Self::Rented(rental) => Some(rental),
            Self::Owned { .. } => None,
        }
    }

    /// Returns the machines that a cluster file describes, with the path of that file; `None` of all others.
    pub(crate) fn cluster_file(&self) -> Option<(&Machine, &str)> {
        match self {
            Self::Owned { machine, described_by: Description::ClusterFile(file), .. } => Some((machine, file)),
            _ => None,
        }
    }

    /// Returns the same place with changed machines.
    pub(crate) fn changed(mut self, changes: &[MachineChange]) -> Self {
        match &mut self {
            Self::Owned { machine, .. } => changes.iter().for_each(|change| change.apply(machine)),
            Self::Rented(rental) => rental.changes.extend(changes.iter().cloned()),
        }
        self
    }

    /// Returns `true` if there may be `machines` of a type instead of those that there are: they are rented, or
    /// [`never_as_many`] has nothing against it.
    pub(crate) fn may_have(&self, machines: u32, of: Option<&str>) -> bool {
        match self {
            Self::Owned { machine, .. } => never_as_many(&of_type(&machine.cluster, of), machines).is_none(),
            Self::Rented(_) => true,
        }
    }

    /// Returns the same place with at least so many machines of a type, or of the only one that may be used, where they are owned
    /// and there may be so many.
    pub(crate) fn with_machines(mut self, instances: u32, of: Option<&str>) -> Self {
        let of = of.map(ToOwned::to_owned).or_else(|| self.only_type());
        let there_may_be = self.may_have(instances, of.as_deref());
        if let Self::Owned { machine, only, max_instances, .. } = &mut self
            && there_may_be
        {
            let grown = of_type(&machine.cluster, of.as_deref());
            let (grows, called) = (grown.first().name.clone(), of.unwrap_or_else(|| grown.instance.clone()));
            let pool = machine.cluster.pools.iter_mut().find(|pool| pool.name == grows);
            if let Some(pool) = pool.filter(|pool| pool.instances < instances) {
                pool.instances = instances;
                let most = instances.min(max_instances.unwrap_or(u32::MAX));
                only.iter_mut()
                    .flatten()
                    .filter(|(name, _)| *name == called)
                    .for_each(|(_, machines)| *machines = most);
            }
        }
        self
    }

    /// Returns the type of machines that is the only one that may be used, where the job names one alone.
    fn only_type(&self) -> Option<String> {
        match self {
            Self::Owned { only: Some(only), .. } if only.len() == 1 => Some(only[0].0.clone()),
            _ => None,
        }
    }

    /// Returns the same place without the other types of machines and with at most so many of these, where they are owned.
    pub(crate) fn only_on(mut self, types: &[(String, u32)]) -> Self {
        if let Self::Owned { only, .. } = &mut self {
            *only = Some(types.to_vec());
        }
        self
    }

    /// Returns the same place at changed prices, if it has prices.
    pub(crate) fn repriced(mut self, changes: &[PriceChange]) -> Self {
        match &mut self {
            Self::Owned { machine, .. } => changes.iter().for_each(|change| change.apply(&mut machine.cluster)),
            Self::Rented(rental) => {
                rental.repriced.extend(changes.iter().cloned());
                for (instance, price) in &mut rental.instances {
                    *price = repriced(changes, instance, price.clone());
                }
            }
        }
        self
    }

    /// Returns the machines of a choice: `instances` of its type, with its stack. Of a mixed cluster each kind is a type, and
    /// all of it is one that is used whole.
    /// `encrypted` says whether their traffic is encrypted; `None` leaves it as in the cluster file.
    pub(crate) fn machine(&self, choice: usize, instances: u32, encrypted: Option<bool>) -> Machine {
        let mut machine = match self {
            Self::Owned { machine, .. } => {
                let (name, _) = &self.types()[self.kind(choice)];
                let whole = || machine.cluster.clone();
                let mut cluster = if *name == machine.cluster.instance {
                    whole()
                } else {
                    machine.cluster.kind(name).unwrap_or_else(whole)
                };
                if !cluster.is_mixed() {
                    cluster.pools[0].instances = instances;
                }
                Machine { cluster, stack: self.software(choice).clone() }
            }
            Self::Rented(rental) => {
                let mut machine =
                    Machine { cluster: rental.cluster(choice, instances), stack: self.software(choice).clone() };
                rental.changes.iter().for_each(|change| change.apply(&mut machine));
                machine
            }
        };
        machine.cluster.encrypted = encrypted.unwrap_or(machine.cluster.encrypted);
        machine
    }

    /// Returns the machines that a plan is for, of a choice.
    pub(crate) fn machine_of(&self, choice: usize, plan: &Plan) -> Machine {
        let cluster = plan.cluster();
        self.machine(choice, cluster.instances, Some(cluster.encrypted))
    }

    /// Returns the machines as a plan names them.
    pub(crate) fn spec_of(&self, cluster: &Cluster) -> ClusterSpec {
        let (profile, file) = match self {
            Self::Owned { described_by: Description::Profile(path), .. } => (Some(path.clone()), None),
            Self::Owned { described_by: Description::ClusterFile(path), .. } => (None, Some(path.clone())),
            Self::Rented(_) => (None, None),
        };
        let constants = match self {
            Self::Owned { constants, .. } => constants.clone(),
            Self::Rented(rental) => rental.constants.clone(),
        };
        let transport = match self {
            Self::Owned { .. } => None,
            Self::Rented(rental) => rental.named_transport(&cluster.instance),
        };
        let (encrypted, plain) = (cluster.encrypted, ClusterSpec::of(&cluster.instance, cluster.machines()));
        ClusterSpec { profile, file, constants, encrypted, transport, ..plain }
    }

    /// Returns `true` if the machine was measured, so that it is known only for what was measured.
    pub(crate) fn is_measured(&self) -> bool {
        matches!(self, Self::Owned { described_by: Description::Profile(_), .. })
    }

    /// Returns the most machines that the job allows a plan, where it says so.
    pub(crate) fn max_instances(&self) -> Option<u32> {
        match self {
            Self::Owned { max_instances, .. } => *max_instances,
            Self::Rented(rental) => Some(rental.max_instances),
        }
    }

    /// Lists the types of machine to choose from, with the most of each.
    pub(crate) fn types(&self) -> Vec<(String, u32)> {
        match self {
            Self::Owned { only: Some(only), .. } => only.clone(),
            Self::Owned { machine, max_instances, .. } => {
                let (cluster, limit) = (&machine.cluster, max_instances.unwrap_or(u32::MAX));
                let all = cluster.machines();
                // Machines of several kinds are used together or not at all.
                let whole = if cluster.is_mixed() && all > limit { 0 } else { all.min(limit) };
                let kinds = alone(cluster).map(|pool| (pool.name.clone(), pool.instances.min(limit)));
                std::iter::once((cluster.instance.clone(), whole)).chain(kinds).collect()
            }
            Self::Rented(rental) => {
                let names = rental.instances.iter().map(|(instance, _)| instance.name.clone());
                names.zip(rental.most.iter().copied()).collect()
            }
        }
    }

    /// Lists what a plan chooses from: each type of machine, with the largest number of them, under each of the stacks.
    /// The stacks of a type follow each other.
    pub(crate) fn choices(&self) -> Vec<(String, u32)> {
        self.types().into_iter().flat_map(|kind| std::iter::repeat_n(kind, self.stacks().len())).collect()
    }

    /// Returns the index of a choice's type of machine.
    pub(crate) fn kind(&self, choice: usize) -> usize {
        choice / self.stacks().len()
    }

    pub(crate) fn software(&self, choice: usize) -> &Arc<Stack> {
        &self.stacks()[choice % self.stacks().len()]
    }

    /// Returns the stacks that are compared, at least one.
    pub(crate) fn stacks(&self) -> &[Arc<Stack>] {
        match self {
            Self::Owned { stacks, .. } => stacks,
            Self::Rented(rental) => &rental.stacks,
        }
    }

    /// Returns the catalog in which the stacks are looked up.
    pub(crate) fn catalog(&self) -> &Catalog {
        match self {
            Self::Owned { .. } => catalog(),
            Self::Rented(rental) => &rental.catalog,
        }
    }

    /// Returns the choice of a plan: its type of machine and its stack.
    pub(crate) fn choice_of(&self, plan: &Plan) -> Option<usize> {
        let stacks = self.stacks();
        let kind = self.types().iter().position(|(name, _)| *name == plan.cluster().instance)?;
        let stack = plan.stack().map_or(Some(0), |name| stacks.iter().position(|stack| stack.name == name))?;
        Some(kind * stacks.len() + stack)
    }

    /// Returns the instance of a choice, with its price; `None` for owned machines.
    pub(crate) fn offer(&self, choice: usize) -> Option<&(Instance, Price)> {
        match self {
            Self::Owned { .. } => None,
            Self::Rented(rental) => Some(rental.offer(choice)),
        }
    }

    /// Returns the terms on which a choice's machines are rented, with Region, service and date; `None` for owned machines,
    /// also where their cluster file says what they cost.
    pub(crate) fn offered(&self, choice: usize) -> Option<&Price> {
        self.offer(choice).map(|(_, price)| price)
    }

    /// Returns what an hour of one of a choice's machines costs, and on average where they differ; `None` where they have
    /// no price.
    pub(crate) fn usd_per_hour(&self, choice: usize) -> Option<UsdPerHour> {
        match self {
            Self::Owned { machine, .. } => price_of_one(self.pools_of(&machine.cluster, choice)),
            Self::Rented(rental) => Some(rental.offer(choice).1.hourly()),
        }
    }

    /// Returns what an hour of so many machines of a choice costs; `None` where they have no price.
    pub(crate) fn hourly(&self, choice: usize, instances: u32) -> Option<Hourly> {
        self.usd_per_hour(choice).map(|each| Hourly::new(instances, each, self.pricing()))
    }

    /// Returns `true` if plans have a cost: all machines have a price, or none.
    pub(crate) fn is_priced(&self) -> bool {
        self.usd_per_hour(0).is_some()
    }

    /// Returns the price of a choice's machines in its form in a document; `None` where they have none.
    pub(crate) fn price_used(&self, choice: usize) -> Option<PriceUsed> {
        match self {
            Self::Owned { machine, described_by: Description::ClusterFile(path), .. } => {
                stated_price(self.pools_of(&machine.cluster, choice), path)
            }
            Self::Owned { described_by: Description::Profile(_), .. } => None,
            Self::Rented(rental) => Some(price_used(&rental.offer(choice).1)),
        }
    }

    /// Returns the machines of a choice among those of a cluster: one kind, or all of them.
    fn pools_of<'c>(&self, cluster: &'c Cluster, choice: usize) -> &'c [Pool] {
        let types = self.types();
        let own = types.get(self.kind(choice)).and_then(|(name, _)| alone(cluster).find(|pool| pool.name == *name));
        own.map_or(&cluster.pools, std::slice::from_ref)
    }

    /// Returns the pricing of the machines; on-demand for owned ones.
    pub(crate) fn pricing(&self) -> Pricing {
        match self {
            Self::Owned { .. } => Pricing::OnDemand,
            Self::Rented(rental) => rental.pricing,
        }
    }

    /// Returns the service that rents the machines out, if the job names it.
    pub(crate) fn service(&self) -> Option<Service> {
        match self {
            Self::Owned { .. } => None,
            Self::Rented(rental) => rental.service,
        }
    }
}

/// Returns a price of an instance with changes to it.
pub(crate) fn repriced(changes: &[PriceChange], instance: &Instance, price: Price) -> Price {
    changes.iter().fold(price, |price, change| price.map(|usd| change.of(&instance.name, usd)))
}

/// Lists the kinds of machines of a cluster that may be used without the others: of a mixed one those that are not called as
/// all of it is.
fn alone(cluster: &Cluster) -> impl Iterator<Item = &Pool> {
    cluster.pools.iter().filter(|pool| cluster.is_mixed() && pool.name != cluster.instance)
}

/// Returns the machines of a type of [`Place::types`]: one kind of a mixed cluster, else all of it.
pub(crate) fn of_type<'a>(cluster: &'a Cluster, name: Option<&str>) -> Cow<'a, Cluster> {
    let kind =
        name.and_then(|name| alone(cluster).find(|pool| pool.name == name)).and_then(|pool| cluster.kind(&pool.name));
    kind.map_or(Cow::Borrowed(cluster), Cow::Owned)
}

/// Explains why a cluster of one's own cannot be supposed to have so many machines instead of its own; `None` if it can:
/// its machines are alike, and its switches have ports for them.
pub(crate) fn never_as_many(cluster: &Cluster, machines: u32) -> Option<String> {
    let name = &cluster.instance;
    if cluster.first().device.measured().is_some() {
        return Some(format!("{name} is a measured machine, which is one"));
    }
    if cluster.is_mixed() {
        let all = cluster.machines();
        return Some(format!("the {all} machines of {name} are of several kinds and are used together"));
    }
    if machines > 1 && has_no_network(cluster) {
        return Some(format!("nothing is said of a network between machines of {name} ([machines.network])"));
    }
    let room = cluster.room().filter(|room| *room < machines.into())?;
    Some(format!("the switches of {name} have ports for {room} machines"))
}

/// Returns `true` for one machine of which no network is known.
fn has_no_network(cluster: &Cluster) -> bool {
    matches!(&cluster.first().fabric, Fabric::Wired { network, .. } if network.baseline.value.0 <= 0.0)
}

/// Returns the executor's stack, as the constants describe it if there are some.
///
/// # Errors
///
/// The name of the stack, when constants do not have it: nothing that they say is about a measured machine.
pub(crate) fn executor_stack(constants: Option<&Constants>) -> Result<Arc<Stack>, &'static str> {
    match constants {
        Some(constants) => {
            let own = constants.stacks().iter().find(|stack| stack.name == EXECUTOR_STACK);
            own.cloned().map(Arc::new).ok_or(EXECUTOR_STACK)
        }
        None => Ok(catalog().stack(EXECUTOR_STACK).expect("the executor's stack is in the catalog").clone()),
    }
}

/// Returns the program's catalog, overridden by constants if there are some.
pub(crate) fn catalog_with(constants: Option<&Constants>) -> Cow<'static, Catalog> {
    match constants {
        Some(constants) => Cow::Owned(catalog().with(constants)),
        None => Cow::Borrowed(catalog()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking;
    use crate::problem::problem;

    const SMALL: &str = "[[machines]]\nlike = \"p3.8xlarge\"\ncount = 2\nusd_per_hour = 5.0\n";
    const LARGE: &str = "[[machines]]\nlike = \"p3.16xlarge\"\ncount = 1\nusd_per_hour = 20.0\n";

    fn place(machines: &str) -> Place {
        let (mut job, resources) = asking::on_own("gpt2", 8, &format!("name = \"own\"\n{machines}"));
        job.data.samples = Some(1000);
        problem(&job, resources).expect("a solvable job").place
    }

    #[test]
    fn machines_that_are_alike_may_become_as_many_as_there_are_ports() {
        assert!(place(SMALL).may_have(1000, None));
        let switched = place(&format!("{SMALL}[[switches]]\nports = 4\n"));
        assert!(switched.may_have(4, None) && !switched.may_have(5, None));
        let [four, five] = [4, 5].map(|machines| switched.clone().with_machines(machines, None).types()[0].1);
        assert_eq!((four, five), (4, 2));
        let mixed = place(&format!("{SMALL}{LARGE}"));
        assert!(!mixed.may_have(4, None) && !mixed.may_have(4, Some("own")) && mixed.may_have(4, Some("p3.16xlarge")));
        let more: Vec<u32> =
            mixed.with_machines(4, Some("p3.16xlarge")).types().into_iter().map(|(_, machines)| machines).collect();
        assert_eq!(more, [6, 2, 4]);
        let only = place(&format!("{SMALL}{LARGE}")).only_on(&[("p3.16xlarge".into(), 1)]);
        assert_eq!(only.with_machines(4, None).types(), [("p3.16xlarge".into(), 4)]);
    }

    #[test]
    fn a_place_may_be_held_to_some_kinds_and_numbers() {
        let place = place(&format!("{SMALL}{LARGE}"));
        let stacks = place.stacks().len();
        let held = place.only_on(&[("p3.16xlarge".into(), 1), ("p3.8xlarge".into(), 1)]);
        assert_eq!(held.types(), [("p3.16xlarge".into(), 1), ("p3.8xlarge".into(), 1)]);
        let prices = [0, stacks].map(|choice| held.usd_per_hour(choice));
        assert_eq!(prices, [20.0, 5.0].map(|usd| Some(UsdPerHour(usd))));
        let devices = [0, stacks].map(|choice| held.machine(choice, 1, None).cluster.first().devices_per_instance);
        assert_eq!(devices, [8, 4]);
    }

    #[test]
    fn each_type_has_the_price_of_its_machines() {
        let place = place(&format!("{SMALL}{LARGE}"));
        let stacks = place.stacks().len();
        let prices = [0, stacks, 3 * stacks - 1].map(|choice| place.usd_per_hour(choice));
        assert_eq!(prices, [10.0, 5.0, 20.0].map(|usd| Some(UsdPerHour(usd))));
        let names: Vec<String> = place.types().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["own", "p3.8xlarge", "p3.16xlarge"]);
    }
}
