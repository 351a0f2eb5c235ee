//! From what is written to a cluster: `Cluster::try_from` says what makes a file valid.

use super::{CARDS_MAX, CONNECTIONS_MAX, COUNT_MAX, DEVICES_MAX, OVERSUBSCRIPTION_MAX};
use super::{ClusterFile, GpuChoice, GpuSpec, HostSpec, MachineSpec, NetworkSpec, SharedStorageSpec, wiring};
use crate::catalog::{Catalog, USD_PER_HOUR_MAX, catalog};
use crate::cluster::{Cluster, Device, Fabric, Host, LatencyFactors, PcieTree, Pool, Processors, SwitchLevel, room};
use crate::gpu::{Achieved, Gpu};
use crate::instance::Instance;
use crate::interconnect::{GPUS_MAX, Interconnect};
use crate::network::{MeasuredFabric, Messaging, Network, Transport};
use crate::site;
use crate::sourced::Sourced;
use crate::storage::SharedStorage;
use std::fmt::Display;
use trainyard_units::{Bytes, BytesPerSecond, CatalogError, FlopsPerSecond, Invalid, Seconds, UsdPerHour};

/// The upper bound of rates, of data or of arithmetic: no real rate is near it.
const RATE_MAX: f64 = 1e18;
/// The least of these rates: a megabyte, or a million operations, a second.
const RATE_MIN: f64 = 1e6;
/// The least memory of a GPU or a machine.
const MEMORY_MIN: Bytes = Bytes(1 << 20);

/// The GPU from which values are carried over unless `like` names another.
const LIKE: &str = "a100-sxm4-40gb";

/// The longest time to open a file: no file system is near it.
const OPEN_MAX: Seconds = Seconds(10.0);

/// The source of values that the user stated.
const STATED: &str = "stated by the cluster file";

/// Half-width of the interval for GPUs that were not calibrated, as a fraction.
const UNCALIBRATED: f64 = 0.5;

impl TryFrom<ClusterFile> for Cluster {
    type Error = Invalid;

    fn try_from(file: ClusterFile) -> Result<Self, Invalid> {
        Self::of_file(file, catalog())
    }
}

impl Cluster {
    /// Builds the cluster that a file describes, with the GPUs and links of a catalog that it names.
    ///
    /// # Errors
    ///
    /// Fails if the file does not describe a cluster, with the path of the field, in which kinds of machines and switches
    /// are counted from 0: `machines[0].network.bandwidth`.
    pub fn of_file(file: ClusterFile, catalog: &Catalog) -> Result<Self, Invalid> {
        named("name", &file.name)?;
        if file.machines.is_empty() {
            return Err(Invalid::missing("machines", "a cluster has at least one kind of machine; write [[machines]]"));
        }
        let machines = file.machines.iter().fold(0u64, |sum, machine| sum + u64::from(machine.count));
        let mut pools: Vec<Pool> = Vec::new();
        for (index, machine) in file.machines.iter().enumerate() {
            let field = format!("machines[{index}]");
            let pool = pool(&field, machine, machines > 1, catalog)?;
            if pools.iter().any(|earlier| earlier.name == pool.name) {
                let value = format!("`{}`", pool.name);
                let hint = "give each kind of machines a name of its own, as in name = \"second\"";
                return Err(Invalid::value(format!("{field}.name"), value, "the name of no other kind of machine")
                    .with_hint(hint));
            }
            pools.push(pool);
        }
        all_priced(&pools)?;
        let devices = |pool: &Pool| u64::from(pool.instances) * u64::from(pool.devices_per_instance);
        let devices: u64 = pools.iter().map(devices).sum();
        if devices > u64::from(DEVICES_MAX) {
            let sentence = format!("they have {devices} GPUs together, but there may be at most {DEVICES_MAX}");
            let hint = "describe fewer machines, or a part of the cluster";
            return Err(Invalid::inside("machines", sentence).with_hint(hint));
        }
        let switches = switches(&file, machines)?;
        let slurm = file.slurm.unwrap_or_default();
        slurm.check("slurm")?;
        site::environment(&file.environment)?;
        let latency = LatencyFactors::default();
        let shared_storage = file.shared_storage.map(|spec| shared_storage(spec, &pools)).transpose()?;
        Ok(Self {
            instance: file.name,
            pools,
            switches,
            encrypted: file.encrypted,
            latency,
            shared_storage,
            slurm,
            environment: file.environment,
        })
    }
}

/// Advice for quantities.
const UNITS: &str = "quantities have a unit, as in \"80 GiB\", \"900 GB/s\", \"100 Gbit/s\"";

/// Advice where the processor is named alone.
const VCPUS: &str = "vcpus = 96 says how many hardware threads a machine has";

/// Refuses a quantity.
fn wrong_quantity(field: impl Into<String>, value: impl Display, allowed: impl Display) -> Invalid {
    Invalid::value(field, value, allowed).with_hint(UNITS)
}

/// Tells that a value is missing which a machine type could have provided.
pub(super) fn neither(field: String) -> Invalid {
    let of_gpu = field.rsplit('.').nth(1).is_some_and(|above| above == "gpu");
    let (what, hint) = if of_gpu {
        ("GPU", "gpu = { like = \"l40s\", … } names one; `trainyard show gpus` lists them")
    } else {
        ("machine type", "like = \"p3dn.24xlarge\" names one; `trainyard show instances` lists them")
    };
    Invalid::missing(field, format!("write it, or take it from a {what} of the catalog by `like`")).with_hint(hint)
}

/// Shows a value that the last key of a field may have.
fn example(field: &str, value: &str) -> String {
    format!("for example `{} = {value}`", field.rsplit('.').next().unwrap_or(field))
}

fn named(field: &str, name: &str) -> Result<(), Invalid> {
    if name.trim().is_empty() {
        return Err(Invalid::value(field, format!("`{name}`"), "a name").with_hint(example(field, "\"node\"")));
    }
    Ok(())
}

/// Checks what an hour of a machine costs.
fn price(field: String, usd_per_hour: f64) -> Result<UsdPerHour, Invalid> {
    if usd_per_hour > 0.0 && usd_per_hour <= USD_PER_HOUR_MAX {
        return Ok(UsdPerHour(usd_per_hour));
    }
    let hint =
        "it is what an hour of one machine costs, as in usd_per_hour = 24.0; leave it out where they cost nothing";
    Err(Invalid::value(field, usd_per_hour, format!("above 0 and at most {USD_PER_HOUR_MAX} USD")).with_hint(hint))
}

/// Checks that all kinds of machines have a price or none: what a plan on some of them costs could not be compared with
/// one on others.
fn all_priced(pools: &[Pool]) -> Result<(), Invalid> {
    let index = |priced: bool| pools.iter().position(|pool| pool.usd_per_hour.is_some() == priced);
    let (Some(priced), Some(unpriced)) = (index(true), index(false)) else { return Ok(()) };
    let why = format!("`machines[{priced}]` has it, and all kinds of machines have a price or none");
    Err(Invalid::missing(format!("machines[{unpriced}].usd_per_hour"), why)
        .with_hint("write what an hour of one such machine costs, or leave `usd_per_hour` out everywhere"))
}

fn counted(field: String, count: u32, most: u32) -> Result<u32, Invalid> {
    if (1..=most).contains(&count) {
        return Ok(count);
    }
    let hint = example(&field, "1");
    Err(Invalid::value(field, count, format!("from 1 to {most}")).with_hint(hint))
}

/// Checks that a rate of data or of arithmetic is one that a machine of a cluster may have: a unit that was left out or
/// mistaken shows here.
fn rate<T: Copy + Display>(field: String, rate: T, number: impl Fn(T) -> f64) -> Result<T, Invalid> {
    if (RATE_MIN..=RATE_MAX).contains(&number(rate)) {
        Ok(rate)
    } else {
        Err(wrong_quantity(field, rate, "from 1e6 to 1e18 a second"))
    }
}

pub(super) fn bandwidth(field: String, stated: BytesPerSecond) -> Result<BytesPerSecond, Invalid> {
    rate(field, stated, |bandwidth| bandwidth.0)
}

pub(super) fn stated<T>(value: T) -> Sourced<T> {
    Sourced::new(value, STATED)
}

/// A machine type of the catalog, which provides the values that a kind of machines does not state.
struct Like<'a> {
    instance: &'a Instance,
    gpu: &'a Gpu,
    host: Host,
}

impl<'a> Like<'a> {
    fn find(field: &str, name: &str, catalog: &'a Catalog) -> Result<Self, Invalid> {
        let unknown = |error: CatalogError| error.at(format!("{field}.like"));
        let instance = catalog.instance(name).map_err(unknown)?;
        let gpu = catalog.gpu(&instance.gpu).map_err(unknown)?;
        // Cloud storage is not available to the user's own machines.
        let host = Host { remote: None, ..Host::of(instance) };
        Ok(Self { instance, gpu, host })
    }
}

/// Returns the value as written, or else that of the machine type.
pub(super) fn either<T>(field: impl FnOnce() -> String, written: Option<T>, carried: Option<T>) -> Result<T, Invalid> {
    written.or(carried).ok_or_else(|| neither(field()))
}

fn pool(field: &str, machine: &MachineSpec, networked: bool, catalog: &Catalog) -> Result<Pool, Invalid> {
    let below = |name: &str| format!("{field}.{name}");
    let like = machine.like.as_ref().map(|name| Like::find(field, name, catalog)).transpose()?;
    let like = like.as_ref();
    let name = either(|| below("name"), machine.name.as_ref(), machine.like.as_ref())?;
    named(&below("name"), name)?;
    counted(below("count"), machine.count, DEVICES_MAX)?;
    let usd_per_hour = machine.usd_per_hour.map(|usd| price(below("usd_per_hour"), usd)).transpose()?;
    let gpus = either(|| below("gpus"), machine.gpus, like.map(|like| like.instance.gpus))?;
    counted(below("gpus"), gpus, GPUS_MAX)?;
    let gpu = gpu(&below("gpu"), machine.gpu.as_ref(), like.map(|like| like.gpu), catalog)?;
    let own = like.map(|like| &like.host);
    let host = match &machine.host {
        None => own.cloned().map(|host| with_gpus(host, gpus)),
        Some(spec) => Some(host(&below("host"), spec, own, gpus)?),
    };
    let mut network = match (&machine.network, like) {
        (Some(spec), _) => network(&below("network"), spec, like.map(|like| &like.instance.network))?,
        (None, Some(like)) => like.instance.network.clone(),
        (None, None) if networked => {
            return Err(Invalid::missing(below("network"), "there is more than one machine")
                .with_hint("network = { bandwidth = \"100 Gbit/s\", transport = \"tcp\" }"));
        }
        (None, None) => no_network(),
    };
    let mut interconnect = wiring::interconnect(field, machine, (&gpu, gpus), like.map(|like| like.instance), catalog)?;
    if let Some(fabric) = catalog.fabric(name) {
        put_measured(fabric, &mut interconnect, &mut network);
    }
    let slurm = machine.slurm.clone().unwrap_or_default();
    slurm.check(&below("slurm"))?;
    Ok(Pool {
        name: name.clone(),
        instances: machine.count,
        devices_per_instance: gpus,
        device: Device::Gpu(gpu),
        fabric: Fabric::Wired { interconnect, network },
        host,
        usd_per_hour,
        slurm,
    })
}

/// Puts what was measured of machines in place of what is assumed of links and transports of the kind.
fn put_measured(fabric: &MeasuredFabric, interconnect: &mut Interconnect, network: &mut Network) {
    if fabric.transport == Some(network.transport) {
        // How many connections there are, the file may state.
        let connections = network.messaging.connections.clone();
        network.messaging = Messaging { connections, ..fabric.messaging.clone() };
    }
    match (interconnect, &fabric.interconnect) {
        (Interconnect::Nvswitch { fraction, .. }, Interconnect::Nvswitch { fraction: measured, .. })
        | (Interconnect::NvlinkMesh { fraction, .. }, Interconnect::NvlinkMesh { fraction: measured, .. })
            if measured.fitted.is_some() =>
        {
            *fraction = measured.clone();
        }
        (Interconnect::Pcie { bandwidth }, Interconnect::Pcie { bandwidth: measured }) if measured.fitted.is_some() => {
            *bandwidth = measured.clone();
        }
        _ => {}
    }
}

fn gpu(field: &str, choice: Option<&GpuChoice>, own: Option<&Gpu>, catalog: &Catalog) -> Result<Gpu, Invalid> {
    let find = |field: String, name: &str| {
        let advice = "`trainyard show gpus` lists the catalog; gpu = { name = …, memory = …, … } describes another";
        catalog.gpu(name).cloned().map_err(|error| error.with_advice(advice).at(field))
    };
    match choice {
        None => either(|| field.into(), None, own.cloned()),
        Some(GpuChoice::Named(name)) => find(field.into(), name),
        Some(GpuChoice::Described(spec)) => match (&spec.like, own) {
            (Some(name), _) => described(field, spec, find(format!("{field}.like"), name)?, true),
            (None, Some(own)) => described(field, spec, own.clone(), true),
            (None, None) => described(field, spec, find(field.into(), LIKE)?, false),
        },
    }
}

/// Builds a GPU from the numbers that are stated and, for the others, those of `like`; its rates and sizes are taken
/// only if the file says that the GPU is like this one.
fn described(field: &str, spec: &GpuSpec, like: Gpu, is_like: bool) -> Result<Gpu, Invalid> {
    let below = |name: &str| format!("{field}.{name}");
    let carried = format!("carried over from {}", like.name);
    let name = either(|| below("name"), spec.name.clone(), is_like.then(|| format!("own-{}", like.name)))?;
    named(&below("name"), &name)?;
    if let Some(memory) = spec.memory.filter(|memory| *memory < MEMORY_MIN) {
        return Err(wrong_quantity(below("memory"), memory, format!("at least {MEMORY_MIN}")));
    }
    let peaks = [spec.peak_fp32, spec.peak_fp16, spec.peak_tf32, spec.peak_bf16, spec.peak_fp8];
    let has_peaks = peaks.iter().any(Option::is_some);
    let flops = |name: &str, peak| rate(below(name), peak, |peak: FlopsPerSecond| peak.0).map(stated);
    let needed = |name: &str, peak: Option<_>, own: &Sourced<_>| {
        let written = peak.map(|peak| flops(name, peak)).transpose()?;
        either(|| below(name), written, is_like.then(|| Sourced::new(own.value, &carried)))
    };
    let format = |name: &str, peak: Option<_>, own: &Option<Sourced<_>>| match peak {
        Some(peak) => flops(name, peak).map(Some),
        None => Ok(own.clone().filter(|_| is_like && !has_peaks)),
    };
    let memory_bandwidth =
        spec.memory_bandwidth.map(|stated| bandwidth(below("memory_bandwidth"), stated)).transpose()?;
    let multiprocessors = match spec.multiprocessors {
        Some(count) => stated(counted(below("multiprocessors"), count, COUNT_MAX)?),
        None => Sourced::new(like.multiprocessors.value, &carried),
    };
    let cache = match spec.cache {
        Some(Bytes(0)) => return Err(wrong_quantity(below("cache"), "0 B", "above 0")),
        Some(cache) => stated(cache),
        None => Sourced::new(like.cache.value, &carried),
    };
    let achieved = if has_peaks || memory_bandwidth.is_some() || spec.multiprocessors.is_some() {
        let why = format!("{carried}; nobody has calibrated this one");
        Achieved { uncertainty: Sourced::new(UNCALIBRATED, why), ..like.achieved.clone() }
    } else {
        like.achieved.clone()
    };
    let carry = |own: &Sourced<_>| is_like.then(|| own.clone());
    Ok(Gpu {
        name,
        memory: either(|| below("memory"), spec.memory.map(stated), is_like.then(|| like.memory.clone()))?,
        memory_bandwidth: either(
            || below("memory_bandwidth"),
            memory_bandwidth.map(stated),
            carry(&like.memory_bandwidth),
        )?,
        cache,
        multiprocessors,
        peak_fp32: needed("peak_fp32", spec.peak_fp32, &like.peak_fp32)?,
        peak_fp16: needed("peak_fp16", spec.peak_fp16, &like.peak_fp16)?,
        peak_tf32: format("peak_tf32", spec.peak_tf32, &like.peak_tf32)?,
        peak_bf16: format("peak_bf16", spec.peak_bf16, &like.peak_bf16)?,
        peak_fp8: format("peak_fp8", spec.peak_fp8, &like.peak_fp8)?,
        achieved,
        ..like
    })
}

/// Returns the host with its PCIe tree fitted to `gpus` GPUs.
fn with_gpus(mut host: Host, gpus: u32) -> Host {
    host.pcie.devices_per_switch = host.pcie.devices_per_switch.min(gpus);
    host
}

fn host(field: &str, spec: &HostSpec, own: Option<&Host>, gpus: u32) -> Result<Host, Invalid> {
    let below = |name: &str| format!("{field}.{name}");
    let memory = either(|| below("memory"), spec.memory, own.map(|own| own.memory))?;
    if memory < MEMORY_MIN {
        return Err(wrong_quantity(below("memory"), memory, format!("at least {MEMORY_MIN}")));
    }
    let disk = spec.disk.or(own.map(|own| own.disk)).unwrap_or_default();
    let disk_bandwidth = match (spec.disk, own) {
        // Without disks there is nothing to read from.
        (Some(Bytes(0)), _) => spec.disk_bandwidth.unwrap_or_default(),
        _ => spec.disk_bandwidth.or(own.map(|own| own.disk_bandwidth)).unwrap_or_default(),
    };
    if disk.0 > 0 || disk_bandwidth.0 > 0.0 {
        bandwidth(below("disk_bandwidth"), disk_bandwidth)?;
        if disk.0 == 0 {
            return Err(wrong_quantity(below("disk"), disk, "above 0, because its bandwidth is stated"));
        }
    }
    let own_rate = |rate: fn(&Host) -> BytesPerSecond| own.map(rate);
    let memory_bandwidth =
        either(|| below("memory_bandwidth"), spec.memory_bandwidth, own_rate(|own| own.memory_bandwidth))?;
    let own_switch = own.map_or(1, |own| own.pcie.devices_per_switch.min(gpus));
    let per_switch = spec.gpus_per_pcie_switch.unwrap_or(own_switch);
    let uplink = either(|| below("pcie"), spec.pcie, own_rate(|own| own.pcie.uplink))?;
    Ok(Host {
        memory,
        memory_bandwidth: bandwidth(below("memory_bandwidth"), memory_bandwidth)?,
        disk,
        disk_bandwidth,
        pcie: PcieTree {
            devices_per_switch: counted(below("gpus_per_pcie_switch"), per_switch, gpus)?,
            uplink: bandwidth(below("pcie"), uplink)?,
        },
        processors: processors(field, spec, own.and_then(|own| own.processors))?,
        remote: None,
    })
}

/// Returns the named processors or, without a name, those of the machine type, or those for which the rates of the
/// loader hold.
fn processors(field: &str, spec: &HostSpec, own: Option<Processors>) -> Result<Option<Processors>, Invalid> {
    let Some(vcpus) = spec.vcpus.or(own.map(|own| own.vcpus)) else {
        return match &spec.processor {
            Some(_) => Err(Invalid::missing(format!("{field}.vcpus"), "a processor is named").with_hint(VCPUS)),
            None => Ok(None),
        };
    };
    let vcpus = counted(format!("{field}.vcpus"), vcpus, COUNT_MAX)?;
    if let Some(name) = &spec.processor {
        let named = catalog().processor(name).map_err(|error| error.at(format!("{field}.processor")))?;
        let [coremark, single_thread] = [named.coremark.value, named.single_thread.value];
        let threads_per_core = named.threads_per_core.value;
        return Ok(Some(Processors { vcpus, threads_per_core, coremark, single_thread }));
    }
    let usual =
        || Processors { vcpus, threads_per_core: 2, coremark: catalog().loader().coremark.value, single_thread: 1.0 };
    Ok(Some(own.map_or_else(usual, |own| Processors { vcpus, ..own })))
}

fn network(field: &str, spec: &NetworkSpec, own: Option<&Network>) -> Result<Network, Invalid> {
    let below = |name: &str| format!("{field}.{name}");
    let cards = spec.cards.or(own.map(|own| own.interfaces)).unwrap_or(1);
    let cards = counted(below("cards"), cards, CARDS_MAX)?;
    let transport = either(|| below("transport"), spec.transport, own.map(|own| own.transport))?;
    // Values that belong to another transport are not carried over.
    let own_kind = own.filter(|own| own.transport == transport);
    let flow = spec.flow_limit.map(|limit| bandwidth(below("flow_limit"), limit).map(stated)).transpose()?;
    let written = spec.bandwidth.map(|each| bandwidth(below("bandwidth"), each)).transpose()?;
    let of_cards = |all: &Sourced<BytesPerSecond>, own: &Network| {
        let factor = f64::from(cards) / f64::from(own.interfaces);
        Sourced { value: all.value * factor, ..all.clone() }
    };
    let (baseline, burst) = match (written, own) {
        (Some(each), _) => (stated(each * f64::from(cards)), stated(each * f64::from(cards))),
        (None, Some(own)) => (of_cards(&own.baseline, own), of_cards(&own.burst, own)),
        (None, None) => return Err(neither(below("bandwidth"))),
    };
    let flow_limit =
        flow.or_else(|| own_kind.map_or(catalog().flow_limit(transport), |own| own.flow_limit.as_ref()).cloned());
    let mut messaging = own_kind.map_or_else(|| catalog().messaging(transport), |own| &own.messaging).clone();
    if let Some(connections) = spec.connections {
        if !transport.is_sockets() {
            let rule = format!("`{}` has no connections", transport.name());
            return Err(Invalid::breaks(below("connections"), connections, rule)
                .with_hint("leave it out, or set transport = \"tcp\""));
        }
        if flow_limit.is_none() {
            let why = "`connections` counts connections that each have this limit";
            return Err(Invalid::missing(below("flow_limit"), why)
                .with_hint("flow_limit = \"5 Gbit/s\" is what EC2 gives a connection; or leave `connections` out"));
        }
        messaging.connections = Some(stated(counted(below("connections"), connections, CONNECTIONS_MAX)?));
    }
    Ok(Network {
        baseline,
        burst,
        transport,
        also: Vec::new(),
        interfaces: cards,
        sockets: None,
        flow_limit,
        messaging,
    })
}

/// Returns the network of a single machine, which has none.
fn no_network() -> Network {
    let nothing = Sourced::new(BytesPerSecond(0.0), "there is one machine");
    Network {
        baseline: nothing.clone(),
        burst: nothing,
        transport: Transport::Tcp,
        also: Vec::new(),
        interfaces: 1,
        sockets: None,
        flow_limit: None,
        messaging: catalog().messaging(Transport::Tcp).clone(),
    }
}

/// Returns a shared file system. Where nobody says what one machine reaches, it is a network card of the slowest.
fn shared_storage(spec: SharedStorageSpec, pools: &[Pool]) -> Result<SharedStorage, Invalid> {
    let checked = |name: &str, stated| bandwidth(format!("shared_storage.{name}"), stated);
    let SharedStorageSpec { read, write, per_machine, open } = spec;
    let read = checked("read", read)?;
    let cards = pools.iter().filter_map(|pool| match &pool.fabric {
        Fabric::Wired { network, .. } => Some(network.baseline.value.0 / f64::from(network.interfaces)),
        Fabric::Measured => None,
    });
    let machine = match (per_machine, cards.reduce(f64::min)) {
        (Some(rate), _) => checked("per_machine", rate)?,
        (None, Some(card)) if card > 0.0 => BytesPerSecond(card),
        // One machine without a network reads all that there is.
        (None, _) => read,
    };
    let open = open.unwrap_or(catalog().storage().fsx.open.value);
    if !(0.0..=OPEN_MAX.0).contains(&open.0) {
        return Err(wrong_quantity("shared_storage.open", open, format!("from 0 to {OPEN_MAX}")));
    }
    Ok(SharedStorage { read, write: write.map_or(Ok(read), |rate| checked("write", rate))?, machine, open })
}

/// Builds the switches, whose ports must have room for all machines.
fn switches(file: &ClusterFile, machines: u64) -> Result<Vec<SwitchLevel>, Invalid> {
    let mut levels = Vec::new();
    for (index, level) in file.switches.iter().enumerate() {
        let field = format!("switches[{index}]");
        let ports = counted(format!("{field}.ports"), level.ports, DEVICES_MAX)?;
        let oversubscription = level.oversubscription;
        if !(1.0..=OVERSUBSCRIPTION_MAX).contains(&oversubscription) {
            let allowed = format!("from 1 to {OVERSUBSCRIPTION_MAX}");
            let field = format!("{field}.oversubscription");
            let hint = "1 is a switch whose machines may all send at their full rate";
            return Err(Invalid::value(field, oversubscription, allowed).with_hint(hint));
        }
        levels.push(SwitchLevel { ports, oversubscription });
    }
    if let Some(room) = room(&levels).filter(|room| *room < machines) {
        let sentence = format!("they have room for {room} machines, but there are {machines}");
        return Err(Invalid::inside("switches", sentence).with_hint("raise `ports`, or add a level of switches"));
    }
    Ok(levels)
}
