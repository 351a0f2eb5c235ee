//! The catalogs that come with the program: one TOML file for each GPU, link, instance, system and stack, and one table
//! with the prices of all instances.

mod like;
mod price_table;

pub use price_table::{PriceTable, USD_PER_HOUR_MAX};

use crate::cluster::Cluster;
use crate::gpu::Gpu;
use crate::instance::Instance;
use crate::interconnect::Link;
use crate::network::{MeasuredFabric, Messaging, Network, Transport, TransportDefault};
use crate::operations::{Operations, SpotAdvisor};
use crate::pattern::matches;
use crate::processor::{Loader, Processor};
use crate::sourced::Sourced;
use crate::stack::{Publication, Stack};
use crate::storage::Storage;
use price_table::price_instances;
use rust_embed::RustEmbed;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::fmt::Display;
use std::sync::{Arc, OnceLock};
use std::thread;
use toml::{Table, Value};
use trainyard_units::{BytesPerSecond, CatalogError, Invalid};

#[derive(RustEmbed)]
#[folder = "catalog"]
struct Files;

/// The catalog: all GPUs, links, machine types and stacks, each in the order of their file names.
#[derive(Clone, Debug)]
pub struct Catalog {
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) links: Vec<Link>,
    pub(crate) instances: Vec<Instance>,
    pub(crate) systems: Vec<Instance>,
    pub(crate) stacks: Vec<Arc<Stack>>,
    /// Links and networks of machines that cluster files describe, as they were measured.
    pub(crate) fabrics: Vec<MeasuredFabric>,
    operations: Operations,
    spot_advisor: SpotAdvisor,
    processors: Vec<Processor>,
    loader: Loader,
    storage: Storage,
    transports: Vec<TransportDefault>,
}

/// Returns the catalog that comes with the program, which is read once.
///
/// # Panics
///
/// Panics if a file of the catalog does not parse: the build is broken, and a test fails first.
pub fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| {
        // Stacks are half of what there is to read.
        let (stacks, machines) = thread::scope(|scope| {
            let stacks = scope.spawn(|| stacks().into_iter().map(Arc::new).collect());
            let machines = Machines::read();
            (stacks.join().expect("a file of a stack that does not parse has been told"), machines)
        });
        Catalog {
            gpus: read("gpus/", Ok),
            stacks,
            fabrics: Vec::new(),
            operations: only(read("operations/", Ok)),
            spot_advisor: only(read("spot/", Ok)),
            loader: only(read("loaders/", Ok)),
            storage: only(read("storage/", Ok)),
            instances: machines.instances,
            systems: machines.systems,
            links: machines.links,
            processors: machines.processors,
            transports: machines.transports,
        }
    })
}

/// Machine types, and what their files name.
struct Machines {
    instances: Vec<Instance>,
    systems: Vec<Instance>,
    links: Vec<Link>,
    processors: Vec<Processor>,
    transports: Vec<TransportDefault>,
}

impl Machines {
    fn read() -> Self {
        let links: Vec<Link> = read("links/", Ok);
        let processors: Vec<Processor> = read("processors/", Ok);
        let transports: Vec<TransportDefault> = read("transports/", Ok);
        let wired = |table| with_processor(with_link(with_messaging(table, &transports)?, &links)?, &processors);
        let (instances, systems) = (priced(read("instances/", wired)), read("systems/", wired));
        Self { instances, systems, links, processors, transports }
    }
}

/// Reads the files of a folder; `complete` fills in each one before it is deserialised.
fn read<T: DeserializeOwned>(folder: &str, complete: impl Fn(Table) -> Result<Table, Invalid>) -> Vec<T> {
    tables(folder).into_iter().map(|(path, table)| entry(&path, complete(table))).collect()
}

/// Reads the stacks, each with what it takes from the one that it is like.
fn stacks() -> Vec<Stack> {
    let stacks = tables("stacks/");
    stacks.iter().map(|(path, stack)| entry(path, like::completed(stack, &stacks))).collect()
}

/// Returns the files of a folder with their paths, in the order of these.
fn tables(folder: &str) -> Vec<(String, Table)> {
    let mut files: Vec<_> = Files::iter().filter(|path| path.starts_with(folder)).map(Cow::into_owned).collect();
    files.sort_unstable();
    let parsed = |path: String| {
        let table = toml::from_str(&text(&path)).unwrap_or_else(|error| broken(&path, &error));
        (path, table)
    };
    files.into_iter().map(parsed).collect()
}

fn entry<T: DeserializeOwned>(path: &str, table: Result<Table, Invalid>) -> T {
    let told = |error: Invalid| broken(path, &format!("{error}; {}", error.hint().unwrap_or_default()));
    table.unwrap_or_else(told).try_into().unwrap_or_else(|error| broken(path, &error))
}

fn broken(path: &str, error: &dyn Display) -> ! {
    panic!("catalog file {path}: {error}")
}

fn text(path: &str) -> String {
    let file = Files::get(path).expect("a file of the catalog");
    String::from_utf8(file.data.into_owned()).expect("catalog files are UTF-8")
}

/// Returns the instances with their prices from the table of all prices.
fn priced(mut instances: Vec<Instance>) -> Vec<Instance> {
    let (prices, sources) = ("prices.csv", "price_sources.toml");
    let known = toml::from_str(&text(sources)).unwrap_or_else(|error| panic!("catalog file {sources}: {error}"));
    price_instances(&mut instances, &text(prices), prices, &known).unwrap_or_else(|error| panic!("catalog: {error}"));
    instances
}

/// Returns the entry of a folder with one file.
fn only<T>(mut entries: Vec<T>) -> T {
    assert_eq!(entries.len(), 1, "a folder of the catalog has one file");
    entries.remove(0)
}

/// Replaces the name of a link in the `interconnect` of a machine type by that link.
fn with_link(mut table: Table, links: &[Link]) -> Result<Table, Invalid> {
    if let Some(Value::String(name)) = table.get("interconnect") {
        let link = look_up("link", links, name, |link| &link.name).map_err(|error| error.at("interconnect"))?;
        let wiring = Value::try_from(&link.interconnect).expect("what was read from TOML can be written as TOML");
        table.insert("interconnect".into(), wiring);
    }
    Ok(table)
}

/// Returns the messaging parameters of a transport with current software.
fn current(transports: &[TransportDefault], transport: Transport) -> Option<&TransportDefault> {
    let usual = |default: &&TransportDefault| default.name.is_none() && default.published_as.is_empty();
    transports.iter().filter(usual).find(|default| default.transport == transport)
}

fn greater<T: PartialOrd + Clone>(own: Sourced<T>, other: &Sourced<T>) -> Sourced<T> {
    if own.value < other.value { other.clone() } else { own }
}

/// Gives a machine type whose network does not state its messaging that of the network's transport, or that which it names.
fn with_messaging(mut table: Table, transports: &[TransportDefault]) -> Result<Table, Invalid> {
    if let Some(Value::Table(network)) = table.get_mut("network")
        && let Some(transport) = network.get("transport").cloned()
        && let Ok(transport) = transport.try_into::<Transport>()
    {
        let default = match network.get("messaging") {
            Some(Value::String(name)) => {
                let named = transports.iter().filter(|default| default.transport == transport);
                let named = look_up("messaging", named, name, |default| default.name.as_deref().unwrap_or_default());
                Some(named.map_err(|error| error.at("network.messaging"))?)
            }
            Some(_) => None,
            None => current(transports, transport),
        };
        if let Some(default) = default {
            let messaging =
                Value::try_from(&default.messaging).expect("what was read from TOML can be written as TOML");
            network.insert("messaging".into(), messaging);
        }
    }
    Ok(table)
}

/// Replaces the name in the `processor` of a machine type by the processor that it names.
fn with_processor(mut table: Table, processors: &[Processor]) -> Result<Table, Invalid> {
    if let Some(Value::String(name)) = table.get("processor") {
        let processor = look_up("processor", processors, name, |processor| &processor.name)
            .map_err(|error| error.at("processor"))?;
        let processor = Value::try_from(processor).expect("what was read from TOML can be written as TOML");
        table.insert("processor".into(), processor);
    }
    Ok(table)
}

fn look_up<'a, T: 'a>(
    kind: &'static str,
    entries: impl IntoIterator<Item = &'a T, IntoIter: Clone>,
    name: &str,
    name_of: impl Fn(&'a T) -> &'a str,
) -> Result<&'a T, CatalogError> {
    let mut entries = entries.into_iter();
    let all = entries.clone();
    entries.find(|entry| name_of(entry) == name).ok_or_else(|| CatalogError::new(kind, name, all.map(name_of)))
}

impl Catalog {
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// Returns all kinds of interconnects that tables of measurements name.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Returns all instances that can be rented.
    pub fn instances(&self) -> &[Instance] {
        &self.instances
    }

    /// Returns all other systems: machine types of published measurements, which nobody rents out.
    pub fn systems(&self) -> &[Instance] {
        &self.systems
    }

    /// Iterates over all machine types: instances, then systems.
    pub fn machine_types(&self) -> impl Iterator<Item = &Instance> + Clone {
        self.instances.iter().chain(&self.systems)
    }

    /// Returns what was measured of machines that a cluster file gives this name.
    pub(crate) fn fabric(&self, name: &str) -> Option<&MeasuredFabric> {
        self.fabrics.iter().find(|fabric| fabric.name == name)
    }

    /// Returns all software stacks.
    pub fn stacks(&self) -> &[Arc<Stack>] {
        &self.stacks
    }

    /// Returns the start-up times and failure rates of rented machines.
    pub fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Returns how often spot capacity is reclaimed.
    pub fn spot_advisor(&self) -> &SpotAdvisor {
        &self.spot_advisor
    }

    /// Returns the software that loads data.
    pub fn loader(&self) -> &Loader {
        &self.loader
    }

    /// Returns the kinds of storage for data sets.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Returns the parameters of the collectives library on a kind of network.
    pub fn messaging(&self, transport: Transport) -> &Messaging {
        &current(&self.transports, transport).expect("the catalog has a file for each transport").messaging
    }

    /// Returns the rate of one connection of a transport where no network states another, if it has a limit.
    pub fn flow_limit(&self, transport: Transport) -> Option<&Sourced<BytesPerSecond>> {
        current(&self.transports, transport)?.flow_limit.as_ref()
    }

    /// Returns a network as it is used over another transport. Machines wait for the slowest path whatever carries the
    /// messages, and sockets are no quicker than an adapter that was made to be quicker.
    pub fn network_over(&self, network: &Network, transport: Transport) -> Network {
        if network.transport == transport {
            return network.clone();
        }
        let (mut messaging, flow_limit) = (self.messaging(transport).clone(), self.flow_limit(transport).cloned());
        messaging.growth = messaging.growth.or_else(|| network.messaging.growth.clone());
        if transport.is_sockets() && !network.transport.is_sockets() {
            let usual = &network.messaging;
            messaging.step = greater(messaging.step, &usual.step);
            messaging.chunk_trips = greater(messaging.chunk_trips, &usual.chunk_trips);
        }
        let mut over = Network { transport, flow_limit, messaging, ..network.clone() };
        if let Some(rate) = network.sockets.clone().filter(|_| transport.is_sockets()) {
            (over.baseline, over.burst) = (rate.clone(), rate);
        }
        over
    }

    /// Returns the same parameters for the software release that `text` names by its published label, if it names one.
    pub fn messaging_published_as(&self, transport: Transport, text: &str) -> &Messaging {
        let named = |default: &&TransportDefault| {
            default.transport == transport && default.published_as.iter().any(|label| text.contains(label.as_str()))
        };
        self.transports.iter().find(named).map_or_else(|| self.messaging(transport), |default| &default.messaging)
    }

    pub fn processors(&self) -> &[Processor] {
        &self.processors
    }

    /// Returns the processor of this name.
    ///
    /// # Errors
    ///
    /// Fails if there is none.
    pub fn processor(&self, name: &str) -> Result<&Processor, CatalogError> {
        look_up("processor", &self.processors, name, |processor| &processor.name).map_err(|error| {
            let known: Vec<&str> = self.processors.iter().map(|own| own.name.as_str()).collect();
            error.with_advice(format!("known are {}", known.join(", ")))
        })
    }

    /// Returns the GPU of this name.
    ///
    /// # Errors
    ///
    /// Fails if there is none.
    pub fn gpu(&self, name: &str) -> Result<&Gpu, CatalogError> {
        look_up("GPU", &self.gpus, name, |gpu| &gpu.name)
    }

    /// Returns the interconnect of this name.
    ///
    /// # Errors
    ///
    /// Fails if there is none.
    pub fn link(&self, name: &str) -> Result<&Link, CatalogError> {
        look_up("link", &self.links, name, |link| &link.name)
    }

    /// Returns the instance or system of this name.
    ///
    /// # Errors
    ///
    /// Fails if there is none.
    pub fn instance(&self, name: &str) -> Result<&Instance, CatalogError> {
        let found = look_up("instance", self.machine_types(), name, |instance| &instance.name);
        found.map_err(|error| match self.family(name).as_slice() {
            [] => error,
            types => error.with_meant(types),
        })
    }

    /// Returns the names of the machine types of a family, `p3` or `p3dn`.
    fn family(&self, name: &str) -> Vec<&str> {
        let names = self.machine_types().map(|instance| instance.name.as_str());
        names.filter(|known| known.strip_prefix(name).is_some_and(|size| size.starts_with('.'))).collect()
    }

    /// Returns the software stack of this name.
    ///
    /// # Errors
    ///
    /// Fails if there is none.
    pub fn stack(&self, name: &str) -> Result<&Arc<Stack>, CatalogError> {
        look_up("stack", &self.stacks, name, |stack| &stack.name)
    }

    /// Returns the stack that stands for measurements under this label: the one whose published label states most. The
    /// name of a stack stands for that stack, of whatever version, unless a label of this very name fits. `None` if the catalog
    /// knows no such label.
    pub fn stack_published_as(&self, publication: Publication<'_>) -> Option<&Arc<Stack>> {
        let closeness = |entry: &&Arc<Stack>| entry.closeness(publication);
        let published = || self.stacks.iter().filter(|entry| closeness(entry).is_some()).max_by_key(closeness);
        let named = || self.stacks.iter().find(|entry| entry.name == publication.stack);
        let is_name = !self.stacks.iter().any(|entry| entry.is_known_as(publication));
        is_name.then(named).flatten().or_else(published)
    }

    /// Returns a cluster of `instances` machines of the type of this name.
    ///
    /// # Errors
    ///
    /// Fails if there is no such type.
    pub fn cluster(&self, instance: &str, instances: u32) -> Result<Cluster, CatalogError> {
        let instance = self.instance(instance)?;
        Ok(Cluster::of_instances(instance, self.gpu(&instance.gpu)?, instances))
    }

    /// Returns the catalog with only those GPUs, machine types and stacks whose names match a pattern; `*` stands for
    /// any text.
    #[must_use]
    pub fn only(&self, pattern: &str) -> Self {
        let mut own = self.clone();
        own.gpus.retain(|gpu| matches(pattern, &gpu.name));
        own.instances.retain(|instance| matches(pattern, &instance.name));
        own.systems.retain(|system| matches(pattern, &system.name));
        own.stacks.retain(|stack| matches(pattern, &stack.name));
        own
    }

    /// Names the types of machine with a GPU of this name, or with part of it; `None` if there are none.
    fn types_with(&self, name: &str) -> Option<String> {
        let name = name.to_lowercase();
        let has = |instance: &&Instance| name.split('-').all(|part| instance.gpu.split('-').any(|own| own == part));
        let types: Vec<&str> = self.instances.iter().filter(has).map(|own| own.name.as_str()).collect();
        (!types.is_empty())
            .then(|| format!("types are called by their names; these have the GPU: {}", types.join(", ")))
    }

    /// Returns the instances whose names match one of the patterns, in which `*` stands for any text, and the systems
    /// that are named in full.
    ///
    /// # Errors
    ///
    /// Fails if a pattern matches nothing.
    pub fn matching(&self, patterns: &[String]) -> Result<Vec<&Instance>, CatalogError> {
        for pattern in patterns {
            if !self.instances.iter().any(|instance| matches(pattern, &instance.name)) {
                self.instance(pattern).map_err(|error| match self.types_with(pattern) {
                    Some(types) => error.with_advice(types),
                    // A family is asked for by a pattern.
                    None if !self.family(pattern).is_empty() => error.with_meant(&[&format!("{pattern}.*")]),
                    None => error,
                })?;
            }
        }
        let instances =
            self.instances.iter().filter(|instance| patterns.iter().any(|text| matches(text, &instance.name)));
        let systems = self.systems.iter().filter(|system| patterns.contains(&system.name));
        Ok(instances.chain(systems).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_type_has_a_gpu_of_the_catalog_and_a_way_to_the_processor() {
        for machine in catalog().machine_types() {
            assert!(catalog().gpu(&machine.gpu).is_ok(), "{}", machine.name);
            let host = &machine.host;
            assert!(machine.gpus.is_multiple_of(host.gpus_per_pcie_switch.value), "{}", machine.name);
            assert!(host.pcie_uplink.value.0 > 0.0 && host.memory_bandwidth.value.0 > 0.0, "{}", machine.name);
            assert_eq!(machine.disk.value.0 > 0, host.disk_bandwidth.value.0 > 0.0, "{}", machine.name);
            assert_eq!(!machine.prices.is_empty(), machine.storage.is_some(), "{}", machine.name);
            assert!(machine.processor.is_some() || machine.storage.is_none(), "{}", machine.name);
            let network = &machine.network;
            assert!(network.interfaces > 0 && network.burst.value.0 >= network.baseline.value.0, "{}", machine.name);
        }
    }

    #[test]
    fn every_instance_has_a_price_and_no_system_has() {
        let unpriced = catalog().machine_types().filter(|machine| machine.prices.is_empty()).map(|m| m.name.as_str());
        let systems: Vec<&str> = catalog().systems().iter().map(|system| system.name.as_str()).collect();
        assert_eq!(unpriced.collect::<Vec<_>>(), systems);
    }

    #[test]
    fn every_size_of_the_families_is_there() {
        let count = |family: &str| catalog().instances().iter().filter(|i| i.family() == family).count();
        let families = ["g4dn", "g5", "g6", "g6e", "p3", "p3dn", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200"];
        assert_eq!(families.map(count), [7, 8, 8, 8, 3, 1, 1, 1, 2, 1, 1, 1]);
        assert_eq!(catalog().instances().len(), 42);
    }

    #[test]
    fn names_are_those_of_the_files_and_no_two_are_equal() {
        let mut names: Vec<&str> = catalog().machine_types().map(|machine| machine.name.as_str()).collect();
        for (folder, name) in
            [("instances", "p3.2xlarge"), ("systems", "selene"), ("links", "nvswitch2"), ("gpus", "l4")]
        {
            assert!(Files::get(&format!("{folder}/{name}.toml")).is_some(), "{folder}/{name}");
        }
        for machine in catalog().instances() {
            let file = Files::get(&format!("instances/{}.toml", machine.name)).expect(&machine.name);
            let prices = b"[[price]]";
            assert!(!file.data.windows(prices.len()).any(|part| part == prices), "{}: in prices.csv", machine.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), catalog().machine_types().count());
    }

    #[test]
    fn a_pattern_rents_no_system() {
        let names = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).into()).collect();
            catalog().matching(&patterns).map(|all| all.iter().map(|machine| machine.name.as_str()).collect::<Vec<_>>())
        };
        assert_eq!(names(&["*"]).map(|all| all.len()), Ok(catalog().instances().len()));
        assert_eq!(names(&["selene", "p3dn.*"]), Ok(vec!["p3dn.24xlarge", "selene"]));
        assert!(names(&["dgx-*"]).is_err() && names(&["q7.*"]).is_err());
    }

    #[test]
    fn a_slip_of_the_keyboard_gets_a_suggestion() {
        let error = catalog().instance("p3.16xlage").expect_err("no such instance");
        assert_eq!(error.hint(), "did you mean `p3.16xlarge`?");
        let hint = |name: &str| catalog().matching(&[name.into()]).expect_err(name).hint();
        let with_h100 = "types are called by their names; these have the GPU: p5.48xlarge, p5.4xlarge";
        assert_eq!((hint("h100"), hint("H100-80GB")), (with_h100.into(), with_h100.into()));
        let of_one = |name: &str| catalog().instance(name).expect_err(name).hint();
        assert_eq!(
            (hint("p3dn"), of_one("p3dn")),
            ("did you mean `p3dn.*`?".into(), "did you mean `p3dn.24xlarge`?".into())
        );
        let volta = "did you mean `p3.16xlarge`, `p3.2xlarge` or `p3.8xlarge`?";
        assert_eq!(of_one("p3"), volta);
        assert_eq!(hint("qqq"), "`trainyard show instances` lists the catalog");
    }
}
