//! From what is written to a cluster.

use super::{
    ClusterFile, ClusterFileError, GpuChoice, GpuSpec, HostSpec, LinkKind, LinkSpec, MachineSpec, NetworkSpec,
};
use crate::catalog::{Catalog, catalog};
use crate::cluster::{Cluster, Device, Fabric, Host, LatencyFactors, PcieTree, Pool, Processors, SwitchLevel};
use crate::gpu::{Achieved, Gpu};
use crate::instance::{GPUS_MAX, Interconnect, LINKS_MAX, Network, Transport, WrongPair, check_pairs, unreached};
use crate::sourced::Sourced;
use std::fmt::Display;
use trainyard_units::{Bytes, BytesPerSecond, FlopsPerSecond};

/// The most devices of a cluster.
const DEVICES_MAX: u64 = 1 << 20;

/// The most network cards of a machine.
const CARDS_MAX: u32 = 64;

/// No rate, of data or of arithmetic, is near this.
const RATE_MAX: f64 = 1e18;

/// The GPU that a described one is like, unless it says which.
const LIKE: &str = "a100-sxm4-40gb";

/// Nobody builds a network that is thinner above.
const OVERSUBSCRIPTION_MAX: f64 = 1e6;

/// The part of a PCIe link that a ring through the processor reaches: 10 of the 15.75 GB/s of PCIe 3.0 x16 on
/// p3.16xlarge (Apache MXNet wiki).
const PCIE_REACHED: f64 = 10.0 / 15.75;

/// The source of what the user stated.
const STATED: &str = "stated by the cluster file";

/// Half-width of the interval where nobody has calibrated the GPU.
const UNCALIBRATED: f64 = 0.5;

impl TryFrom<ClusterFile> for Cluster {
    type Error = ClusterFileError;

    fn try_from(file: ClusterFile) -> Result<Self, ClusterFileError> {
        Self::of_file(file, catalog())
    }
}

impl Cluster {
    /// The cluster that a file describes, with GPUs and links of a catalog where it names some.
    ///
    /// # Errors
    ///
    /// When the file does not describe a cluster; see [`ClusterFileError`].
    pub fn of_file(file: ClusterFile, catalog: &Catalog) -> Result<Self, ClusterFileError> {
        named("name", &file.name)?;
        if file.machines.is_empty() {
            let why = "a cluster has at least one kind of machine; write [[machines]]";
            return Err(ClusterFileError::Missing { field: "machines".into(), why });
        }
        let count = |one: fn(&MachineSpec) -> u64| file.machines.iter().map(one).fold(0, u64::saturating_add);
        let machines = count(|machine| machine.count.into());
        let devices = count(|machine| u64::from(machine.count) * u64::from(machine.gpus));
        if devices > DEVICES_MAX {
            return Err(ClusterFileError::TooManyDevices { devices, most: DEVICES_MAX });
        }
        let mut pools: Vec<Pool> = Vec::new();
        for (index, machine) in file.machines.iter().enumerate() {
            let field = format!("machines[{index}]");
            if pools.iter().any(|earlier| earlier.name == machine.name) {
                let value = format!("`{}`", machine.name);
                return Err(invalid(format!("{field}.name"), value, "the name of no other kind of machine"));
            }
            pools.push(pool(&field, machine, machines > 1, catalog)?);
        }
        let switches = switches(&file, machines)?;
        let latency = LatencyFactors::default();
        Ok(Self { instance: file.name, pools, switches, encrypted: file.encrypted, latency })
    }
}

fn invalid(field: impl Into<String>, value: impl Display, allowed: impl Into<String>) -> ClusterFileError {
    ClusterFileError::Invalid { field: field.into(), value: value.to_string(), allowed: allowed.into() }
}

fn named(field: &str, name: &str) -> Result<(), ClusterFileError> {
    if name.trim().is_empty() { Err(invalid(field, format!("`{name}`"), "a name")) } else { Ok(()) }
}

fn counted(field: String, count: u32, most: u32) -> Result<u32, ClusterFileError> {
    if (1..=most).contains(&count) { Ok(count) } else { Err(invalid(field, count, format!("from 1 to {most}"))) }
}

/// A rate of data or of arithmetic that is above zero.
fn rate<T: Copy + Display>(field: String, rate: T, number: impl Fn(T) -> f64) -> Result<T, ClusterFileError> {
    if number(rate) > 0.0 && number(rate) <= RATE_MAX {
        Ok(rate)
    } else {
        Err(invalid(field, rate, "above 0 and at most 1e18 a second"))
    }
}

fn bandwidth(field: String, stated: BytesPerSecond) -> Result<BytesPerSecond, ClusterFileError> {
    rate(field, stated, |bandwidth| bandwidth.0)
}

fn stated<T>(value: T) -> Sourced<T> {
    Sourced::new(value, STATED)
}

fn pool(field: &str, machine: &MachineSpec, networked: bool, catalog: &Catalog) -> Result<Pool, ClusterFileError> {
    named(&format!("{field}.name"), &machine.name)?;
    counted(format!("{field}.count"), machine.count, DEVICES_MAX as u32)?;
    counted(format!("{field}.gpus"), machine.gpus, GPUS_MAX)?;
    let gpu = gpu(&format!("{field}.gpu"), &machine.gpu, catalog)?;
    let host = machine.host.as_ref().map(|spec| host(&format!("{field}.host"), spec, machine.gpus)).transpose()?;
    let network = match &machine.network {
        Some(spec) => network(&format!("{field}.network"), spec)?,
        None if networked => {
            let why = "there is more than one machine";
            return Err(ClusterFileError::Missing { field: format!("{field}.network"), why });
        }
        None => no_network(),
    };
    let interconnect = interconnect(field, machine, &gpu, catalog)?;
    Ok(Pool {
        name: machine.name.clone(),
        instances: machine.count,
        devices_per_instance: machine.gpus,
        device: Device::Gpu(gpu),
        fabric: Fabric::Wired { interconnect, network },
        host,
    })
}

fn gpu(field: &str, choice: &GpuChoice, catalog: &Catalog) -> Result<Gpu, ClusterFileError> {
    let find = |field: String, name: &str| {
        catalog.gpu(name).cloned().map_err(|error| ClusterFileError::UnknownGpu { field, error })
    };
    match choice {
        GpuChoice::Named(name) => find(field.into(), name),
        GpuChoice::Described(spec) => {
            let like = find(format!("{field}.like"), spec.like.as_deref().unwrap_or(LIKE))?;
            described(field, spec, like)
        }
    }
}

/// A GPU of which some numbers are stated and the others are those of another.
fn described(field: &str, spec: &GpuSpec, like: Gpu) -> Result<Gpu, ClusterFileError> {
    named(&format!("{field}.name"), &spec.name)?;
    if spec.memory.0 == 0 {
        return Err(invalid(format!("{field}.memory"), spec.memory, "above 0"));
    }
    let flops = |name: &str, peak| rate(format!("{field}.{name}"), peak, |peak: FlopsPerSecond| peak.0);
    let optional = |name, peak: Option<_>| peak.map(|peak| flops(name, peak).map(stated)).transpose();
    let carried = format!("carried over from {}", like.name);
    let multiprocessors = match spec.multiprocessors {
        Some(count) => stated(counted(format!("{field}.multiprocessors"), count, u16::MAX.into())?),
        None => Sourced::new(like.multiprocessors.value, &carried),
    };
    let cache = match spec.cache {
        Some(Bytes(0)) => return Err(invalid(format!("{field}.cache"), "0 B", "above 0")),
        Some(cache) => stated(cache),
        None => Sourced::new(like.cache.value, &carried),
    };
    Ok(Gpu {
        name: spec.name.clone(),
        memory: stated(spec.memory),
        memory_bandwidth: stated(bandwidth(format!("{field}.memory_bandwidth"), spec.memory_bandwidth)?),
        cache,
        multiprocessors,
        peak_fp32: stated(flops("peak_fp32", spec.peak_fp32)?),
        peak_fp16: stated(flops("peak_fp16", spec.peak_fp16)?),
        peak_tf32: optional("peak_tf32", spec.peak_tf32)?,
        peak_bf16: optional("peak_bf16", spec.peak_bf16)?,
        peak_int8: None,
        achieved: Achieved {
            uncertainty: Sourced::new(UNCALIBRATED, format!("{carried}; nobody has calibrated this one")),
            ..like.achieved
        },
        ..like
    })
}

fn host(field: &str, spec: &HostSpec, gpus: u32) -> Result<Host, ClusterFileError> {
    if spec.memory.0 == 0 {
        return Err(invalid(format!("{field}.memory"), spec.memory, "above 0"));
    }
    if spec.disk.0 > 0 || spec.disk_bandwidth.0 > 0.0 {
        bandwidth(format!("{field}.disk_bandwidth"), spec.disk_bandwidth)?;
        if spec.disk.0 == 0 {
            return Err(invalid(format!("{field}.disk"), spec.disk, "above 0, because its bandwidth is stated"));
        }
    }
    Ok(Host {
        memory: spec.memory,
        memory_bandwidth: bandwidth(format!("{field}.memory_bandwidth"), spec.memory_bandwidth)?,
        disk: spec.disk,
        disk_bandwidth: spec.disk_bandwidth,
        pcie: PcieTree {
            devices_per_switch: counted(format!("{field}.gpus_per_pcie_switch"), spec.gpus_per_pcie_switch, gpus)?,
            uplink: bandwidth(format!("{field}.pcie"), spec.pcie)?,
        },
        processors: processors(field, spec)?,
        remote: None,
    })
}

/// Without a name the processor is the one for which the rates of the loader hold.
fn processors(field: &str, spec: &HostSpec) -> Result<Option<Processors>, ClusterFileError> {
    let Some(vcpus) = spec.vcpus else {
        return match &spec.processor {
            Some(_) => Err(ClusterFileError::Missing { field: format!("{field}.vcpus"), why: "a processor is named" }),
            None => Ok(None),
        };
    };
    let named = |name: &String| {
        let field = format!("{field}.processor");
        catalog().processor(name).map_err(|error| ClusterFileError::UnknownProcessor { field, error })
    };
    let processor = spec.processor.as_ref().map(named).transpose()?;
    Ok(Some(Processors {
        vcpus: counted(format!("{field}.vcpus"), vcpus, u16::MAX.into())?,
        threads_per_core: processor.map_or(2, |processor| processor.threads_per_core.value),
        coremark: processor.map_or(catalog().loader().coremark.value, |processor| processor.coremark.value),
    }))
}

fn network(field: &str, spec: &NetworkSpec) -> Result<Network, ClusterFileError> {
    let cards = counted(format!("{field}.cards"), spec.cards, CARDS_MAX)?;
    let each = bandwidth(format!("{field}.bandwidth"), spec.bandwidth)?;
    let flow = spec.flow_limit.map(|limit| bandwidth(format!("{field}.flow_limit"), limit)).transpose()?;
    let all = stated(each * f64::from(cards));
    Ok(Network {
        baseline: all.clone(),
        burst: all,
        transport: spec.transport,
        interfaces: cards,
        flow_limit: flow.map(stated),
        messaging: catalog().messaging(spec.transport).clone(),
    })
}

/// What a single machine without a network has.
fn no_network() -> Network {
    let nothing = Sourced::new(BytesPerSecond(0.0), "there is one machine");
    Network {
        baseline: nothing.clone(),
        burst: nothing,
        transport: Transport::Tcp,
        interfaces: 1,
        flow_limit: None,
        messaging: catalog().messaging(Transport::Tcp).clone(),
    }
}

/// The wiring of a machine: what is written, or the PCIe tree of its host.
fn interconnect(
    field: &str,
    machine: &MachineSpec,
    gpu: &Gpu,
    catalog: &Catalog,
) -> Result<Interconnect, ClusterFileError> {
    let host_pcie = machine.host.as_ref().map(|host| over_pcie(host.pcie));
    let Some(spec) = &machine.link else {
        return match host_pcie {
            Some(bandwidth) => Ok(Interconnect::Pcie { bandwidth }),
            None if machine.gpus == 1 => Ok(Interconnect::Pcie { bandwidth: over_pcie(gpu.host_bandwidth.value) }),
            None => Err(ClusterFileError::Unreachable { field: field.into(), gpu: 1 }),
        };
    };
    let rate = link_rate(&format!("{field}.link"), spec)?;
    Ok(match spec.kind {
        LinkKind::Nvswitch => {
            Interconnect::Nvswitch { port: stated(rate), fraction: reached(spec, catalog, reached_of_switch) }
        }
        LinkKind::Pcie => {
            Interconnect::Pcie { bandwidth: spec.reached.map_or_else(|| over_pcie(rate), |share| stated(rate * share)) }
        }
        LinkKind::Nvlink => {
            let pairs = pairs(&format!("{field}.link.links"), spec, machine.gpus)?;
            let fraction = reached(spec, catalog, reached_of_mesh);
            let pcie_bandwidth = match host_pcie {
                Some(bandwidth) => bandwidth,
                None => match unreached(&pairs, &(0..machine.gpus).collect::<Vec<_>>()).first() {
                    Some(gpu) => return Err(ClusterFileError::Unreachable { field: field.into(), gpu: *gpu }),
                    None => {
                        Sourced::new(rate * fraction.value, "no PCIe is stated: by way of other GPUs, over one link")
                    }
                },
            };
            Interconnect::NvlinkMesh { link: stated(rate), fraction, pairs: stated(pairs), pcie_bandwidth }
        }
    })
}

fn link_rate(field: &str, spec: &LinkSpec) -> Result<BytesPerSecond, ClusterFileError> {
    if let Some(reached) = spec.reached.filter(|reached| !(*reached > 0.0 && *reached <= 1.0)) {
        return Err(invalid(format!("{field}.reached"), reached, "above 0 and at most 1"));
    }
    if spec.kind != LinkKind::Nvlink && !spec.links.is_empty() {
        let value = format!("{} pairs", spec.links.len());
        return Err(invalid(format!("{field}.links"), value, "left out unless `kind` is \"nvlink\""));
    }
    bandwidth(format!("{field}.bandwidth"), spec.bandwidth)
}

/// What a ring reaches over PCIe, without a link between the GPUs.
fn over_pcie(rate: BytesPerSecond) -> Sourced<BytesPerSecond> {
    Sourced::new(rate * PCIE_REACHED, "carried over from p3.16xlarge: 10 of 15.75 GB/s (Apache MXNet wiki)")
}

/// The part of a link's rate that a ring reaches: what is written, or that of a link of the catalog.
fn reached(spec: &LinkSpec, catalog: &Catalog, of_catalog: fn(&Catalog) -> Sourced<f64>) -> Sourced<f64> {
    spec.reached.map_or_else(|| of_catalog(catalog), stated)
}

fn reached_of_switch(catalog: &Catalog) -> Sourced<f64> {
    match wiring(catalog, "nvswitch2") {
        Interconnect::Nvswitch { fraction, .. } => fraction.clone(),
        other => unreachable!("nvswitch2 is a switch, not {other:?}"),
    }
}

fn reached_of_mesh(catalog: &Catalog) -> Sourced<f64> {
    match wiring(catalog, "nvlink3-mesh") {
        Interconnect::NvlinkMesh { fraction, .. } => fraction.clone(),
        other => unreachable!("nvlink3-mesh is a mesh, not {other:?}"),
    }
}

fn wiring<'a>(catalog: &'a Catalog, link: &str) -> &'a Interconnect {
    &catalog.link(link).expect("the catalog has the link").interconnect
}

/// NVLinks between GPUs that are there, each pair once.
fn pairs(field: &str, spec: &LinkSpec, gpus: u32) -> Result<Vec<(u32, u32, u32)>, ClusterFileError> {
    if spec.links.is_empty() {
        return Err(ClusterFileError::Missing {
            field: field.into(),
            why: "`kind` is \"nvlink\": write [[GPU, GPU, links], …]",
        });
    }
    let told = |(index, wrong): (usize, WrongPair)| {
        let ((a, b, links), field) = (spec.links[index], format!("{field}[{index}]"));
        match wrong {
            WrongPair::NoSuchGpu(gpu) => ClusterFileError::NoSuchGpu { field, gpu, gpus },
            WrongPair::OneGpu => invalid(field, format!("[{a}, {b}, {links}]"), "a pair of two different GPUs"),
            WrongPair::Links => invalid(format!("{field}[2]"), links, format!("from 1 to {LINKS_MAX}")),
            WrongPair::Again(pair) => ClusterFileError::DuplicateLink { field, pair },
        }
    };
    check_pairs(&spec.links, gpus).map_err(told)?;
    Ok(spec.links.clone())
}

/// Switches whose ports have room for all machines.
fn switches(file: &ClusterFile, machines: u64) -> Result<Vec<SwitchLevel>, ClusterFileError> {
    let mut levels = Vec::new();
    let mut room = 1u64;
    for (index, level) in file.switches.iter().enumerate() {
        let field = format!("switches[{index}]");
        let ports = counted(format!("{field}.ports"), level.ports, DEVICES_MAX as u32)?;
        let oversubscription = level.oversubscription;
        if !(1.0..=OVERSUBSCRIPTION_MAX).contains(&oversubscription) {
            let allowed = format!("from 1 to {OVERSUBSCRIPTION_MAX}");
            return Err(invalid(format!("{field}.oversubscription"), oversubscription, allowed));
        }
        room = room.saturating_mul(ports.into());
        levels.push(SwitchLevel { ports, oversubscription });
    }
    if !levels.is_empty() && room < machines {
        return Err(ClusterFileError::TooFewPorts { room, machines });
    }
    Ok(levels)
}
