//! Pools of machines of one's own: the kinds of a cluster file.

use super::{PoolSpec, QueueSpec};
use std::collections::BTreeMap;
use trainyard_hardware_profiles::{Catalog, Cluster, ClusterFile, Pool};
use trainyard_plan::document::{PlanDocument, PriceUsed};
use trainyard_units::{Invalid, UsdPerHour, similar};

/// The content of the files that a queue names.
#[derive(Clone, Debug, Default)]
pub struct QueueFiles {
    /// The plan documents of its jobs, by the path in the file.
    pub plans: BTreeMap<String, PlanDocument>,
    /// What its cluster file describes, if it names one.
    pub machines: Option<OwnMachines>,
}

/// Machines of one's own, as a cluster file describes them.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnMachines {
    kinds: Vec<OwnKind>,
}

/// Machines of one kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnKind {
    /// The name that plans for them have.
    pub(crate) name: String,
    pub(crate) count: u32,
    /// What one of them costs, where the file says it.
    pub(crate) usd_per_hour: Option<UsdPerHour>,
}

impl OwnMachines {
    /// Reads the kinds of machines of a cluster file; GPUs and types that it names are those of `catalog`.
    ///
    /// # Errors
    ///
    /// When something in the file is wrong, or when a kind among several is called as all of them are.
    pub fn new(file: ClusterFile, catalog: &Catalog) -> Result<Self, Invalid> {
        let cluster = Cluster::of_file(file, catalog)
            .map_err(|error| Invalid::inside("pool.file", &error).maybe_hint(error.hint()))?;
        let whole = &cluster.instance;
        if cluster.is_mixed() && cluster.pools.iter().any(|pool| pool.name == *whole) {
            let rule = format!("a kind of its machines and all of them are called {whole}");
            return Err(Invalid::inside("pool.file", rule).with_hint("give the cluster another name"));
        }
        // A plan names machines that are all alike as the cluster is called.
        let name = |pool: &Pool| if cluster.is_mixed() { pool.name.clone() } else { whole.clone() };
        let kind = |pool: &Pool| OwnKind { name: name(pool), count: pool.instances, usd_per_hour: pool.usd_per_hour };
        Ok(Self { kinds: cluster.pools.iter().map(kind).collect() })
    }

    pub(crate) fn kinds(&self) -> &[OwnKind] {
        &self.kinds
    }

    /// Returns `true` if the machines have a price: all of them do, or none.
    pub(crate) fn are_priced(&self) -> bool {
        self.kinds.iter().all(|kind| kind.usd_per_hour.is_some())
    }

    pub(crate) fn kind(&self, name: &str) -> Option<&OwnKind> {
        self.kinds.iter().find(|kind| kind.name == name)
    }

    /// Lists the kinds in words: `h100, a100`.
    pub(crate) fn names(&self) -> String {
        self.kinds.iter().map(|kind| kind.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Returns the error of a field that names a kind that there is not.
    pub(crate) fn no_kind(&self, field: &str, name: &str, file: &str) -> Invalid {
        let near = similar(name, self.kinds.iter().map(|kind| kind.name.as_str()));
        let hint = near.map(|near| format!("did you mean `{near}`?"));
        let allowed = format!("one of the kinds of machines of {file}: {}", self.names());
        Invalid::value(field, format!("`{name}`"), allowed).maybe_hint(hint)
    }
}

impl OwnKind {
    /// Returns the price of a machine as documents tell it.
    pub(crate) fn price(&self, file: &str) -> Option<(UsdPerHour, PriceUsed)> {
        self.usd_per_hour.map(|each| (each, PriceUsed::stated(each.0, file, Vec::new())))
    }
}

/// Returns the machines that a pool's file describes.
pub(crate) fn described(machines: Option<&OwnMachines>) -> Result<&OwnMachines, Invalid> {
    machines.ok_or_else(|| Invalid::missing("pool.file", "the cluster file was not read"))
}

/// Refuses fields of a pool that say how instances are rented, besides a cluster file.
pub(crate) fn refuse_terms(pool: &PoolSpec) -> Result<(), Invalid> {
    let fields = [
        ("pool.region", pool.region.is_some()),
        ("pool.pricing", pool.pricing.is_some()),
        ("pool.service", pool.service.is_some()),
        ("pool.warm_pool", pool.warm_pool),
        ("pool.keep_alive", pool.keep_alive.is_some()),
        ("pool.max_warm_instances", pool.max_warm_instances.is_some()),
        ("pool.start.warm", pool.start.warm.is_some()),
    ];
    let written = fields.into_iter().find(|(_, written)| *written);
    written.map_or(Ok(()), |(field, _)| Err(not_rented(field)))
}

/// Returns the error of a field of a pool that is for rented instances.
pub(crate) fn not_rented(field: &str) -> Invalid {
    let rule = "machines of one's own are not rented, and there are as many as the file says";
    let hint = match field {
        "pool.instances" => {
            "`instances` in [job.cluster] names the kinds that a job may have, and --fix instance=KIND one for all"
                .into()
        }
        field => format!("leave `{field}` out, or leave `pool.file` out to rent instances"),
    };
    Invalid::conflict(field, "pool.file", rule).with_hint(hint)
}

/// Returns a queue whose pool names its machines and says how many there are, for one on machines of one's own.
pub(crate) fn resolved(spec: &QueueSpec, machines: Option<&OwnMachines>) -> Result<QueueSpec, Invalid> {
    let pool = &spec.pool;
    let Some(file) = &pool.file else { return Ok(spec.clone()) };
    let machines = described(machines)?;
    refuse_terms(pool)?;
    let kind = match (machines.kinds(), pool.instance.as_str()) {
        ([only], "") => only,
        (_, "") => {
            let why = format!("a queue is for one of the kinds of machines of {file}: {}", machines.names());
            let hint = "write a queue for each kind; `trainyard plan` takes a fleet with jobs on all of them";
            return Err(Invalid::missing("pool.instance", why).with_hint(hint));
        }
        (_, name) => machines.kind(name).ok_or_else(|| machines.no_kind("pool.instance", name, file))?,
    };
    if let Some(most) = pool.max_instances.filter(|most| *most > kind.count) {
        let rule = format!("{file} has {} of {}", kind.count, kind.name);
        let hint = "leave `pool.max_instances` out, or change the count in the file";
        return Err(Invalid::breaks("pool.max_instances", most, rule).with_hint(hint));
    }
    let max_instances = pool.max_instances.or(Some(kind.count));
    Ok(QueueSpec { pool: PoolSpec { instance: kind.name.clone(), max_instances, ..pool.clone() }, ..spec.clone() })
}
