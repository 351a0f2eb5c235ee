//! The machines that the jobs of a fleet share: instances to be rented, or those of a cluster file.

use super::{FleetError, FleetJob, FleetPoolSpec, FleetSpec};
use crate::queue::owned::{not_rented, refuse_terms};
use crate::queue::valid::{self, Terms};
use crate::queue::{OwnMachines, PoolSpec, QueueFiles, QueueSpec};
use std::collections::BTreeMap;
use trainyard_hardware_profiles::{ClusterFile, Instance, catalog, matches};
use trainyard_plan::{ClusterChoice, JobSpec, Pricing};
use trainyard_planner::{Problem, Quotas, Resources, problem};
use trainyard_units::Invalid;

/// What the jobs of a fleet share, type by type.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    /// The part of the pool that is of each type, as a queue describes it: at least one.
    pub(super) pools: BTreeMap<String, PoolSpec>,
    /// The most instances of types to which a quota applies.
    caps: BTreeMap<String, u32>,
    /// The content of the files that these queues name.
    pub(super) files: QueueFiles,
}

impl Shared {
    /// Returns `true` if the machines have a price.
    pub(super) fn are_priced(&self) -> bool {
        self.files.machines.as_ref().is_none_or(OwnMachines::are_priced)
    }

    /// Returns the same types of instances in the pool of another fleet.
    pub(super) fn within(&self, spec: &FleetSpec) -> Self {
        let quota = |pool: &PoolSpec| spec.pool.max_instances.or(pool.max_instances);
        let of_type = |(name, pool): (&String, &PoolSpec)| {
            (name.clone(), capped(&spec.pool, name, quota(pool), self.caps.get(name).copied()))
        };
        let pools = self.pools.iter().map(of_type).collect();
        Self { pools, caps: self.caps.clone(), files: self.files.clone() }
    }

    /// Returns the same with at most so many instances of some types, without those of which none is left.
    pub(super) fn at_most(&self, most: &BTreeMap<String, u32>) -> Self {
        let cap = |name: &String| {
            most.get(name).copied().unwrap_or(u32::MAX).min(self.caps.get(name).copied().unwrap_or(u32::MAX))
        };
        let left = self.pools.iter().filter(|(name, _)| cap(name) > 0);
        let pools = left.map(|(name, pool)| {
            let max_instances = pool.max_instances.map(|own| own.min(cap(name)));
            let max_warm_instances = pool.max_warm_instances.map(|own| own.min(cap(name)));
            (name.clone(), PoolSpec { max_instances, max_warm_instances, ..pool.clone() })
        });
        let caps =
            self.pools.keys().map(|name| (name.clone(), cap(name))).filter(|(_, cap)| (1..u32::MAX).contains(cap));
        Self { pools: pools.collect(), caps: caps.collect(), files: self.files.clone() }
    }

    /// Returns the quota of a type.
    pub(super) fn quota(&self, instance: &str) -> u32 {
        self.pools.get(instance).map_or(0, PoolSpec::quota)
    }
}

/// Returns the part of a pool that is of one type, of which there are so many, but no more than a quota allows.
fn capped(pool: &FleetPoolSpec, name: &str, quota: Option<u32>, cap: Option<u32>) -> PoolSpec {
    let Some(cap) = cap else { return pool.of_type(name, quota) };
    let own = pool.of_type(name, quota.map(|quota| quota.min(cap)));
    PoolSpec { max_warm_instances: own.max_warm_instances.map(|warm| warm.min(own.quota())), ..own }
}

/// The machines of a pool that was checked.
pub(super) enum Machines<'a> {
    Rented(Rented<'a>),
    Owned(Owned<'a>),
}

/// Instances that are rented.
pub(super) struct Rented<'a> {
    pool: &'a FleetPoolSpec,
    /// The part of the pool that is of one type.
    of_type: PoolSpec,
    /// The types that have a price, at least one.
    types: Vec<String>,
    /// Tells which types are left out because they have none, or because of a quota, if any are.
    left_out: Vec<String>,
    quotas: Quotas,
}

/// Machines of one's own.
pub(super) struct Owned<'a> {
    pool: &'a FleetPoolSpec,
    /// The file, as the pool names it and as plans do.
    file: &'a str,
    path: Option<String>,
    described: ClusterFile,
    machines: OwnMachines,
}

impl<'a> Machines<'a> {
    /// Checks the pool of a fleet; `files` is the content of those that it names.
    pub(super) fn of(spec: &'a FleetSpec, files: Resources) -> Result<Self, Invalid> {
        match &spec.pool.file {
            Some(file) => Owned::of(spec, file, files).map(Self::Owned),
            None => Rented::of(spec).map(Self::Rented),
        }
    }

    pub(super) fn are_priced(&self) -> bool {
        match self {
            Self::Rented(_) => true,
            Self::Owned(own) => own.machines.are_priced(),
        }
    }

    pub(super) fn shared(&self) -> Shared {
        match self {
            Self::Rented(rented) => rented.shared(),
            Self::Owned(own) => own.shared(),
        }
    }

    /// Tells which machines of the pool no job can have.
    pub(super) fn left_out(&self) -> Vec<String> {
        match self {
            Self::Rented(rented) => rented.left_out.clone(),
            Self::Owned(own) => own.left_out(),
        }
    }

    /// Tells who decides how jobs start.
    pub(super) fn who_starts(&self) -> &'static str {
        match self {
            Self::Rented(_) => "the pool decides who starts cold",
            Self::Owned(_) => "`pool.start` decides",
        }
    }

    /// Returns a job with the machines of the pool that it allows, and its problem.
    pub(super) fn problem(&self, job: FleetJob, index: usize) -> Result<(JobSpec, Problem), FleetError> {
        let ask = |spec: &JobSpec, resources| {
            problem(spec, resources).map_err(|error| FleetError::Job { index, error: error.into() })
        };
        match self {
            Self::Rented(rented) => {
                let within = JobSpec { cluster: rented.cluster(&job.spec.cluster, index)?, ..job.spec };
                let problem = ask(&within, job.resources)?;
                Ok((within, problem))
            }
            Self::Owned(own) => {
                let kinds = own.kinds(&job, index)?;
                let cluster = ClusterChoice {
                    file: Some(own.file.into()),
                    instances: None,
                    max_instances: None,
                    ..job.spec.cluster.clone()
                };
                let within = JobSpec { cluster, ..job.spec };
                let (cluster_file, cluster_path) = (Some(own.described.clone()), own.path.clone());
                let resources = Resources { cluster_file, cluster_path, ..job.resources };
                let problem = ask(&within, resources)?.only_on(&kinds);
                Ok((within, problem))
            }
        }
    }
}

impl<'a> Rented<'a> {
    fn of(spec: &'a FleetSpec) -> Result<Self, Invalid> {
        let pool = &spec.pool;
        let patterns = pool.instances.as_ref().ok_or_else(|| {
            let why = "write instances = [\"p5.48xlarge\"] and max_instances = 8, or file = \"cluster.toml\" for machines of \
                       one's own";
            Invalid::missing("pool.instances", why)
        })?;
        if patterns.is_empty() {
            return Err(Invalid::value("pool.instances", "[]", "a list with at least one instance type"));
        }
        let matching = matching(patterns, "pool.instances")?;
        let of_type = pool.of_type(&matching[0].name, pool.max_instances);
        let terms = Terms::of(&of_type)?;
        // That terms contradict each other is told before that nobody offers them.
        let policy = spec.policy.unwrap_or_default();
        valid::pool(&QueueSpec { pool: of_type.clone(), policy, jobs: Vec::new() }, &terms)?;
        let quotas = Quotas::new(pool.quotas.as_ref(), (terms.service, terms.pricing), catalog(), "pool.quotas")?;
        let types = types(&terms, &matching)?;
        let unpriced = without_price(&terms, &matching);
        let (types, over_quota) = within_quotas(&quotas, types)?;
        let left_out = unpriced.into_iter().chain(over_quota).collect();
        Ok(Self { pool, of_type, types, left_out, quotas })
    }

    fn shared(&self) -> Shared {
        let cap = |name: &String| {
            let instance = catalog().instance(name).ok().filter(|own| self.quotas.apply_to(own))?;
            Some((name.clone(), self.quotas.cap(instance, u32::MAX)))
        };
        let caps: BTreeMap<String, u32> = self.types.iter().filter_map(cap).collect();
        let most = self.pool.max_instances;
        let pool = |name: &String| (name.clone(), capped(self.pool, name, most, caps.get(name).copied()));
        Shared { pools: self.types.iter().map(pool).collect(), caps, files: QueueFiles::default() }
    }

    /// Returns the machines of a job: those of the pool that it allows.
    fn cluster(&self, own: &ClusterChoice, index: usize) -> Result<ClusterChoice, Invalid> {
        let (pool, quota) = (self.pool, self.of_type.quota());
        let terms = Terms::of(&self.of_type)?;
        let field = |name: &str| format!("job[{index}].cluster.{name}");
        let rented = "a pool is made of instances to be rented";
        let limited = "a pool is rented at the prices of the catalog";
        let shared = "jobs of a fleet share the quotas of its pool";
        for (name, written, other, rule) in [
            ("profile", own.profile.is_some(), "pool.instances", rented),
            ("file", own.file.is_some(), "pool.instances", rented),
            ("prices", own.prices.is_some(), "pool.max_instances", limited),
            ("quotas", own.quotas.is_some(), "pool.quotas", shared),
        ] {
            if written {
                let hint = "file = \"cluster.toml\" in [pool] makes a fleet of machines of one's own";
                let hint = (name == "file").then(|| hint.into());
                return Err(Invalid::conflict(field(name), other, rule).maybe_hint(hint));
            }
        }
        for (name, value, of_pool) in [
            ("region", own.region.as_deref(), terms.region),
            ("pricing", own.pricing.map(Pricing::name), terms.pricing.name()),
            ("service", own.service.as_deref(), terms.service.name()),
        ] {
            if let Some(value) = value.filter(|value| *value != of_pool) {
                return Err(elsewhere(&field(name), value, name, of_pool));
            }
        }
        let instances = match &own.instances {
            None => self.types.clone(),
            Some(patterns) => {
                let matching = matching(patterns, &field("instances"))?;
                self.types.iter().filter(|name| matching.iter().any(|own| own.name == **name)).cloned().collect()
            }
        };
        if instances.is_empty() {
            let listed = |names: Option<&Vec<String>>| names.map_or_else(String::new, |names| names.join(", "));
            let (wanted, of_pool) = (listed(own.instances.as_ref()), listed(pool.instances.as_ref()));
            return Err(elsewhere(&field("instances"), &wanted, "instances", &of_pool));
        }
        // None at all is an error that the job tells.
        let most = own.max_instances.map_or(quota, |own| own.min(quota));
        Ok(ClusterChoice {
            instances: Some(instances),
            max_instances: Some(most),
            region: pool.region.clone(),
            pricing: pool.pricing,
            service: pool.service.clone(),
            quotas: pool.quotas.clone(),
            ..own.clone()
        })
    }
}

/// Returns the error of a job that would run elsewhere than in its pool.
fn elsewhere(field: &str, value: &str, of_pool: &str, there: &str) -> Invalid {
    let rule = format!("`pool.{of_pool}` is {there}: jobs of a fleet run in its pool");
    Invalid::breaks(field, value, rule).with_hint(format!("leave `{field}` out, or plan the job by itself"))
}

impl<'a> Owned<'a> {
    fn of(spec: &'a FleetSpec, file: &'a str, files: Resources) -> Result<Self, Invalid> {
        let pool = &spec.pool;
        let fields = [
            ("pool.instances", pool.instances.is_some()),
            ("pool.max_instances", pool.max_instances.is_some()),
            ("pool.quotas", pool.quotas.is_some()),
        ];
        if let Some((field, _)) = fields.into_iter().find(|(_, written)| *written) {
            return Err(not_rented(field));
        }
        refuse_terms(&pool.of_type("", None))?;
        let missing = || Invalid::missing("pool.file", "the cluster file was not read");
        let described = files.cluster_file.ok_or_else(missing)?;
        let machines = match &files.constants {
            Some(constants) => OwnMachines::new(described.clone(), &catalog().with(constants))?,
            None => OwnMachines::new(described.clone(), catalog())?,
        };
        Ok(Self { pool, file, path: files.cluster_path, described, machines })
    }

    fn shared(&self) -> Shared {
        let kinds = self.machines.kinds().iter();
        let pools = kinds.map(|kind| (kind.name.clone(), self.pool.of_type(&kind.name, Some(kind.count)))).collect();
        let caps = BTreeMap::new();
        Shared { pools, caps, files: QueueFiles { machines: Some(self.machines.clone()), ..QueueFiles::default() } }
    }

    fn left_out(&self) -> Vec<String> {
        let several = self.machines.kinds().len() > 1;
        let text = "each job runs on machines of one kind, and all jobs of a [[job]] on the same; one that takes several \
                    kinds at once is planned by itself";
        several.then(|| text.into()).into_iter().collect()
    }

    /// Returns the kinds of machines that a job may have, with the most of each.
    fn kinds(&self, job: &FleetJob, index: usize) -> Result<Vec<(String, u32)>, Invalid> {
        let own = &job.spec.cluster;
        let field = |name: &str| format!("job[{index}].cluster.{name}");
        for (name, written) in [
            ("profile", own.profile.is_some()),
            ("region", own.region.is_some()),
            ("pricing", own.pricing.is_some()),
            ("service", own.service.is_some()),
            ("prices", own.prices.is_some()),
            ("quotas", own.quotas.is_some()),
        ] {
            if written {
                let rule = "jobs of a fleet run in its pool, which is of machines of one's own";
                let hint = format!("leave `{}` out, or plan the job by itself", field(name));
                return Err(Invalid::conflict(field(name), "pool.file", rule).with_hint(hint));
            }
        }
        if let Some(file) = own.file.as_ref().filter(|_| job.resources.cluster_file.as_ref() != Some(&self.described)) {
            return Err(elsewhere(&field("file"), file, "file", self.file));
        }
        if own.max_instances == Some(0) {
            return Err(Invalid::value(field("max_instances"), 0, "at least 1"));
        }
        let kinds = self.machines.kinds();
        let patterns = own.instances.as_deref();
        if patterns.is_some_and(<[String]>::is_empty) {
            let allowed = format!("a list with at least one of {}", self.machines.names());
            return Err(Invalid::value(field("instances"), "[]", allowed));
        }
        for pattern in patterns.into_iter().flatten() {
            if !kinds.iter().any(|kind| matches(pattern, &kind.name)) {
                return Err(self.machines.no_kind(&field("instances"), pattern, self.file));
            }
        }
        let wanted = |name: &str| patterns.is_none_or(|all| all.iter().any(|pattern| matches(pattern, name)));
        let most = |count: u32| own.max_instances.map_or(count, |most| most.min(count));
        Ok(kinds.iter().filter(|kind| wanted(&kind.name)).map(|kind| (kind.name.clone(), most(kind.count))).collect())
    }
}

/// Returns the instances that a field names, at least one.
fn matching(patterns: &[String], field: &str) -> Result<Vec<&'static Instance>, Invalid> {
    catalog().matching(patterns).map_err(|error| Invalid::inside(field, &error).with_hint(error.hint()))
}

/// Returns the types of the pool that have a price on its terms, at least one.
fn types(terms: &Terms<'_>, matching: &[&Instance]) -> Result<Vec<String>, Invalid> {
    let priced = matching.iter().filter(|instance| terms.price(instance).is_some());
    let types: Vec<String> = priced.map(|instance| instance.name.clone()).collect();
    if types.is_empty() { Err(terms.without_price(matching)) } else { Ok(types) }
}

/// Tells which types of the pool are left out because they have no price on its terms, if any are.
fn without_price(terms: &Terms<'_>, matching: &[&Instance]) -> Option<String> {
    let unpriced = matching.iter().filter(|instance| terms.price(instance).is_none());
    let names: Vec<&str> = unpriced.map(|instance| instance.name.as_str()).collect();
    let Terms { region, service, pricing } = terms;
    (!names.is_empty()).then(|| {
        format!("without a price, and so left out: {} ({} {pricing} in {region})", names.join(", "), service.name())
    })
}

/// Returns the types of which quotas leave at least one instance, at least one type, and tells which are left out, if any are.
fn within_quotas(quotas: &Quotas, types: Vec<String>) -> Result<(Vec<String>, Option<String>), Invalid> {
    let refusal = |name: &String| catalog().instance(name).ok().and_then(|instance| quotas.refusal(instance, 1));
    let over: Vec<String> = types.iter().filter_map(|name| Some(format!("{name} {}", refusal(name)?))).collect();
    let within: Vec<String> = types.into_iter().filter(|name| refusal(name).is_none()).collect();
    if within.is_empty() {
        let hint = "ask AWS for more (Service Quotas), or allow other types in pool.instances";
        return Err(Invalid::inside("pool.quotas", over.join("; ")).with_hint(hint));
    }
    let told = (!over.is_empty()).then(|| format!("over a quota, and so left out: {}", over.join("; ")));
    Ok((within, told))
}
