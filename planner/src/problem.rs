//! What is to be solved: a job whose parts are known to fit together.

use crate::campaign::Settings;
use crate::cancellation::Cancellation;
use crate::input::Data;
use crate::quota::Quotas;
use crate::what_if::{MachineChange, PriceChange};
use std::borrow::Cow;
use trainyard_hardware_profiles::{
    Catalog, Cluster, Constants, EXECUTOR_STACK, Instance, Price, PriceQuery, Purchase, Service, Stack, catalog,
};
use trainyard_models::{ConvergenceCurve, Model};
use trainyard_plan::document::PriceUsed;
use trainyard_plan::{ClusterSpec, Objective, Optimizer, Plan, Precision, Pricing, Volume};
use trainyard_sim::Machine;
use trainyard_units::Seconds;

/// A solvable question.
#[derive(Clone, Debug)]
pub struct Problem {
    /// What is trained.
    pub model: Model,
    /// Whether the job or the model's file says how attention is computed; otherwise software and GPU decide.
    pub(crate) states_attention: bool,
    /// How much.
    pub training: Training,
    /// The data set, unless samples are taken to be there.
    pub data: Option<Data>,
    /// Global batch sizes that may be chosen, ascending.
    pub global_batches: Vec<u64>,
    /// Number formats that may be chosen.
    pub precisions: Vec<Precision>,
    /// Number formats that were asked for and that no machine computes in.
    pub unusable_precisions: Vec<Precision>,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// Where.
    pub place: Place,
    /// What is sought.
    pub objective: Objective,
    /// The longest training accepted.
    pub deadline: Option<Seconds>,
    /// The most money accepted, in USD.
    pub budget: Option<f64>,
    /// What happens around the steps.
    pub(crate) settings: Settings,
    /// Whether the answer is still wanted.
    pub(crate) cancellation: Cancellation,
    /// What is enough of a search; nothing if the best plan is to be proved.
    pub(crate) enough: Option<Enough>,
}

/// When a search that found something may end before it is proved that nothing is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Enough {
    /// Candidates that were looked at and fit: most of a large model's do not, and are soon dismissed.
    pub(crate) looks: u64,
    /// Plans that were simulated.
    pub(crate) simulations: u64,
}

impl Problem {
    /// The same question, whose searches end when `cancellation` says so. Nothing that was found then is a
    /// recommendation.
    #[must_use]
    pub fn until(self, cancellation: Cancellation) -> Self {
        Self { cancellation, ..self }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }
}

/// How much is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Training {
    /// A number of optimizer steps.
    Steps(u64),
    /// Passes over a data set.
    Passes(Volume),
    /// Until a target is reached.
    Target(&'static ConvergenceCurve),
}

impl Training {
    /// Optimizer steps at this global batch.
    pub fn steps(self, global_batch: u64) -> u64 {
        match self {
            Self::Steps(steps) => steps,
            Self::Passes(volume) => volume.steps(global_batch),
            Self::Target(curve) => (curve.samples(global_batch) / global_batch as f64).ceil() as u64,
        }
    }
}

/// Where a job may run.
#[derive(Clone, Debug)]
pub enum Place {
    /// On instances to be rented.
    Rented(Box<Rental>),
    /// On machines of one's own: one that was measured, or a cluster that a file describes.
    Owned {
        /// All of them, with the first of the stacks.
        machine: Box<Machine>,
        /// The training frameworks that are compared.
        stacks: Vec<Stack>,
        /// The file that describes them.
        described_by: Description,
        /// The constants file that stands before the catalog, as a plan shall name it.
        constants: Option<String>,
    },
}

/// What describes machines of one's own, with the path that a plan shall name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Description {
    /// A calibrated profile.
    Profile(String),
    /// A cluster file.
    ClusterFile(String),
}

/// What may be rented.
#[derive(Clone, Debug)]
pub struct Rental {
    /// Types that may be chosen, all of them priced.
    pub instances: Vec<(Instance, Price)>,
    /// Types left out for want of a price.
    pub unpriced: Vec<String>,
    /// Types left out because of a quota, with the reason.
    pub over_quota: Vec<(String, String)>,
    /// The most instances of any type.
    pub max_instances: u32,
    /// The most instances of each type, where a quota allows fewer.
    pub(crate) most: Vec<u32>,
    /// What the account may rent at once, as far as the job says it.
    pub(crate) quotas: Quotas,
    /// The terms.
    pub pricing: Pricing,
    /// The service, where the job names it.
    pub service: Option<Service>,
    /// The training frameworks that are compared.
    pub stacks: Vec<Stack>,
    /// What the machines are looked up in.
    pub catalog: Cow<'static, Catalog>,
    /// The constants file that stands before the program's own catalog, as a plan shall name it.
    pub constants: Option<String>,
    /// What is other about the machines than the catalog says.
    pub(crate) changes: Vec<MachineChange>,
    /// What is other about prices.
    pub(crate) repriced: Option<PriceChange>,
}

impl Rental {
    /// The type of instance of a choice.
    pub(crate) fn kind(&self, choice: usize) -> usize {
        choice / self.stacks.len()
    }

    /// The instance of a choice, with its price: the stacks of a type follow each other.
    pub(crate) fn offer(&self, choice: usize) -> &(Instance, Price) {
        &self.instances[self.kind(choice)]
    }
}

/// The purchase that a pricing stands for.
pub(crate) fn purchase(pricing: Pricing) -> Purchase {
    match pricing {
        Pricing::OnDemand => Purchase::OnDemand,
        Pricing::Spot => Purchase::Spot,
        Pricing::Reserved => Purchase::Reserved,
        Pricing::ReservedThreeYears => Purchase::ReservedThreeYears,
    }
}

/// The pricing that a purchase stands for.
fn pricing(purchase: Purchase) -> Pricing {
    match purchase {
        Purchase::OnDemand => Pricing::OnDemand,
        Purchase::Spot => Pricing::Spot,
        Purchase::Reserved => Pricing::Reserved,
        Purchase::ReservedThreeYears => Pricing::ReservedThreeYears,
    }
}

/// Why no instances are kept from one training to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoWarmPool {
    /// The service has none.
    Service,
    /// Spot instances are not kept.
    Spot,
}

/// What stands against a warm pool on these terms, if anything does (Amazon SageMaker Developer Guide, "Managed Warm
/// Pools").
pub(crate) fn no_warm_pool(service: Service, pricing: Pricing) -> Option<NoWarmPool> {
    match (service, pricing) {
        (_, Pricing::Spot) => Some(NoWarmPool::Spot),
        (Service::Ec2, _) => Some(NoWarmPool::Service),
        (Service::Sagemaker, _) => None,
    }
}

/// The price of an instance that answers a query.
pub(crate) fn price_of<'a>(instance: &'a Instance, query: PriceQuery<'_>) -> Option<&'a Price> {
    instance.prices.iter().find(|price| price.answers(query))
}

/// A price as a document carries it.
pub(crate) fn price_used(price: &Price) -> PriceUsed {
    PriceUsed {
        usd_per_hour: price.hourly().0,
        low_usd_per_hour: price.low.0,
        high_usd_per_hour: price.high.0,
        region: price.region.clone(),
        service: price.service.name().into(),
        pricing: Some(pricing(price.purchase)),
        date: price.date.clone(),
        source: price.source.clone(),
    }
}

impl Place {
    /// The same place with other machines.
    pub(crate) fn changed(mut self, changes: &[MachineChange]) -> Self {
        match &mut self {
            Self::Owned { machine, .. } => changes.iter().for_each(|change| change.apply(machine)),
            Self::Rented(rental) => rental.changes.extend(changes.iter().cloned()),
        }
        self
    }

    /// The same place at another price, where it has one.
    pub(crate) fn repriced(mut self, price: Option<PriceChange>) -> Self {
        if let (Self::Rented(rental), Some(change)) = (&mut self, price) {
            for (_, price) in &mut rental.instances {
                *price = price.clone().map(|usd| change.of(usd));
            }
            rental.repriced = Some(change);
        }
        self
    }

    /// The machines of a choice: `instances` of its type, with its stack. A mixed cluster is used whole. `encrypted` says
    /// whether their traffic is, if it is not to be as the cluster file has it.
    pub(crate) fn machine(&self, choice: usize, instances: u32, encrypted: Option<bool>) -> Machine {
        let mut machine = match self {
            Self::Owned { machine, .. } => {
                let mut machine = Machine { stack: self.software(choice).clone(), ..(**machine).clone() };
                if !machine.cluster.is_mixed() {
                    machine.cluster.pools[0].instances = instances;
                }
                machine
            }
            Self::Rented(rental) => {
                let mut machine = Machine {
                    cluster: rental
                        .catalog
                        .cluster(&rental.instances[self.kind(choice)].0.name, instances)
                        .expect("a rental names instances of the catalog"),
                    stack: self.software(choice).clone(),
                };
                rental.changes.iter().for_each(|change| change.apply(&mut machine));
                machine
            }
        };
        machine.cluster.encrypted = encrypted.unwrap_or(machine.cluster.encrypted);
        machine
    }

    /// The machines as a plan names them.
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
        let encrypted = cluster.encrypted;
        ClusterSpec { profile, file, constants, encrypted, ..ClusterSpec::of(&cluster.instance, cluster.machines()) }
    }

    /// Whether the machine was measured, and is known for what was measured only.
    pub(crate) fn is_measured(&self) -> bool {
        matches!(self, Self::Owned { described_by: Description::Profile(_), .. })
    }

    /// The types of machine to choose from, with the most of each.
    pub(crate) fn types(&self) -> Vec<(String, u32)> {
        match self {
            Self::Owned { machine, .. } => vec![(machine.cluster.instance.clone(), machine.cluster.machines())],
            Self::Rented(rental) => {
                let names = rental.instances.iter().map(|(instance, _)| instance.name.clone());
                names.zip(rental.most.iter().copied()).collect()
            }
        }
    }

    /// What a plan chooses between: each type of machine, with the most of it, under each of the stacks. The stacks of a
    /// type follow each other.
    pub(crate) fn choices(&self) -> Vec<(String, u32)> {
        self.types().into_iter().flat_map(|kind| std::iter::repeat_n(kind, self.stacks().len())).collect()
    }

    /// The type of machine of a choice.
    pub(crate) fn kind(&self, choice: usize) -> usize {
        choice / self.stacks().len()
    }

    /// The stack of a choice.
    pub(crate) fn software(&self, choice: usize) -> &Stack {
        &self.stacks()[choice % self.stacks().len()]
    }

    /// The stacks that are compared, at least one.
    pub(crate) fn stacks(&self) -> &[Stack] {
        match self {
            Self::Owned { stacks, .. } => stacks,
            Self::Rented(rental) => &rental.stacks,
        }
    }

    /// What the stacks are looked up in.
    pub(crate) fn catalog(&self) -> &Catalog {
        match self {
            Self::Owned { .. } => catalog(),
            Self::Rented(rental) => &rental.catalog,
        }
    }

    /// The choice of a plan: its type of machine and its stack.
    pub(crate) fn choice_of(&self, plan: &Plan) -> Option<usize> {
        let stacks = self.stacks();
        let kind = self.types().iter().position(|(name, _)| *name == plan.cluster().instance)?;
        let stack = plan.stack().map_or(Some(0), |name| stacks.iter().position(|stack| stack.name == name))?;
        Some(kind * stacks.len() + stack)
    }

    /// The instance of a choice, with its price; nothing for machines that are owned.
    pub(crate) fn offer(&self, choice: usize) -> Option<&(Instance, Price)> {
        match self {
            Self::Owned { .. } => None,
            Self::Rented(rental) => Some(rental.offer(choice)),
        }
    }

    /// The price of a choice's machines by the hour; nothing for machines that are owned.
    pub(crate) fn price(&self, choice: usize) -> Option<&Price> {
        self.offer(choice).map(|(_, price)| price)
    }

    /// How the machines are paid.
    pub(crate) fn pricing(&self) -> Pricing {
        match self {
            Self::Owned { .. } => Pricing::OnDemand,
            Self::Rented(rental) => rental.pricing,
        }
    }

    /// Who rents the machines out, where the job names it.
    pub(crate) fn service(&self) -> Option<Service> {
        match self {
            Self::Owned { .. } => None,
            Self::Rented(rental) => rental.service,
        }
    }
}

/// That stack, as constants have it if there are some.
///
/// # Errors
///
/// The name of the stack, when constants do not have it: nothing that they say is about a measured machine.
pub(crate) fn executor_stack(constants: Option<&Constants>) -> Result<Stack, &'static str> {
    match constants {
        Some(constants) => {
            constants.stacks().iter().find(|stack| stack.name == EXECUTOR_STACK).cloned().ok_or(EXECUTOR_STACK)
        }
        None => Ok(catalog().stack(EXECUTOR_STACK).expect("the executor's stack is in the catalog").clone()),
    }
}

/// The program's catalog, with constants before it if there are some.
pub(crate) fn catalog_with(constants: Option<&Constants>) -> Cow<'static, Catalog> {
    match constants {
        Some(constants) => Cow::Owned(catalog().with(constants)),
        None => Cow::Borrowed(catalog()),
    }
}
