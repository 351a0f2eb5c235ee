//! The machines of a measured row: a catalog instance, or a cluster built from what the row says of it.

use super::Unsupported;
use crate::table::Row;
use trainyard_hardware_profiles::{
    Catalog, Cluster, DEFAULT_STACK, Device, Fabric, Host, Interconnect, Network, Pool, Publication, SlurmSpec,
    Sourced, Transport,
};
use trainyard_plan::RANKS_MAX;
use trainyard_sim::Machine;
use trainyard_units::{BytesPerSecond, Invalid, similar};

/// Network of each GPU, in Gbit/s, where a row of Ampere machines does not state it: a stated default, one HDR port for
/// each of eight GPUs as in the NVIDIA DGX A100 SuperPOD reference architecture.
const AMPERE_PORT: f64 = 200.0;

/// Bytes a second in one Gbit/s.
pub(crate) const GBIT: f64 = 1.25e8;

/// GPUs of a machine, beyond any that was ever measured: the links of all of them could not be counted.
const GPUS_PER_MACHINE_MAX: u32 = 1 << 10;

/// The cluster and the software of a row.
pub(crate) fn machine(row: &Row, catalog: &Catalog) -> Result<Machine, Unsupported> {
    let cluster = cluster(row, catalog)?;
    let generation = cluster.first().device.gpu().map_or("", |gpu| gpu.generation.as_str());
    let publication = Publication {
        stack: &row.stack,
        version: &row.stack_version,
        generation,
        xla: row.xla,
        sequence_parallel: row.sequence_parallel,
        notes: &row.notes,
    };
    let stack = catalog
        .stack_published_as(publication)
        .or_else(|| catalog.stack(DEFAULT_STACK).ok())
        .expect("the default stack is in the catalog")
        .clone();
    Ok(Machine { cluster, stack })
}

/// Refuses machines, and GPUs of each, beyond any that was ever measured.
pub(crate) fn expect_countable(machines: u32, gpus_of_each: u32) -> Result<(), String> {
    let all = u64::from(machines) * u64::from(gpus_of_each);
    let limits = [
        ("machines", u64::from(machines), RANKS_MAX),
        ("GPUs of a machine", u64::from(gpus_of_each), GPUS_PER_MACHINE_MAX),
        ("GPUs", all, RANKS_MAX),
    ];
    match limits.into_iter().find(|(_, count, most)| *count > u64::from(*most)) {
        Some((what, count, most)) => Err(format!("it has {count} {what}, more than {most}")),
        None => Ok(()),
    }
}

fn cluster(row: &Row, catalog: &Catalog) -> Result<Cluster, Unsupported> {
    expect_countable(row.nodes, row.gpus_per_node).map_err(Unsupported::new)?;
    let mut cluster = match catalog.cluster(&row.system, row.nodes) {
        Ok(cluster) if cluster.first().devices_per_instance >= row.gpus_per_node => cluster,
        Ok(cluster) => {
            return Err(Unsupported::new(format!(
                "{} has {} GPUs, but the row uses {} of each",
                row.system,
                cluster.first().devices_per_instance,
                row.gpus_per_node
            )));
        }
        Err(_) => built(row, catalog)?,
    };
    let pool = &mut cluster.pools[0];
    pool.devices_per_instance = row.gpus_per_node;
    if let (Some(stated), Fabric::Wired { network, .. }) = (row.inter_node_gbps, &mut pool.fabric) {
        network.baseline = stated_rate(stated);
        network.burst = stated_rate(stated);
    }
    if let (true, Fabric::Wired { network, .. }) = (row.notes.contains("Kubernetes pods"), &mut pool.fabric) {
        *network = catalog.network_over(network, Transport::TcpPods);
    }
    Ok(cluster)
}

fn stated_rate(gbit: f64) -> Sourced<BytesPerSecond> {
    Sourced::new(BytesPerSecond(gbit * GBIT), "stated by the measured row")
}

/// A system of no catalog. One that is not a cloud's is taken to have a network with remote memory access.
fn built(row: &Row, catalog: &Catalog) -> Result<Cluster, Unsupported> {
    let gpu = catalog.gpu(&row.gpu).map_err(|error| {
        Unsupported::new(format!("no GPU of the catalog is called `{}`; {}", row.gpu, error.hint()))
    })?;
    let interconnect = match catalog.link(&row.intra_node_link) {
        Ok(link) => link.interconnect.clone(),
        Err(_) if row.gpus_per_node == 1 => Interconnect::Pcie { bandwidth: gpu.host_bandwidth.clone() },
        Err(_) => usual_link(row, catalog)?.clone(),
    };
    let stated = match row.inter_node_gbps {
        Some(stated) => stated,
        None if row.nodes == 1 => 0.0,
        None if gpu.generation == "Ampere" => AMPERE_PORT * f64::from(row.gpus_per_node),
        None => return Err(Unsupported::new("the network between the machines is not stated")),
    };
    Ok(Cluster::of_pool(Pool {
        name: row.system.clone(),
        instances: row.nodes,
        devices_per_instance: row.gpus_per_node,
        device: Device::Gpu(gpu.clone()),
        fabric: Fabric::Wired {
            interconnect,
            network: Network {
                baseline: stated_rate(stated),
                burst: stated_rate(stated),
                transport: Transport::Infiniband,
                also: Vec::new(),
                interfaces: 1,
                sockets: None,
                flow_limit: None,
                messaging: catalog.messaging(Transport::Infiniband).clone(),
            },
        },
        host: host(row, catalog),
        usd_per_hour: None,
        slurm: SlurmSpec::default(),
    }))
}

/// The interconnect of a row that names none: that of all machine types with this GPU and as many of it on a machine,
/// if they have the same.
fn usual_link<'a>(row: &Row, catalog: &'a Catalog) -> Result<&'a Interconnect, Unsupported> {
    let (gpus, written) = (row.gpus_per_node, row.intra_node_link.as_str());
    let large = catalog.machine_types().filter(|machine| machine.gpu == row.gpu && machine.gpus >= gpus);
    let mut usual: Vec<&Interconnect> = large.map(|machine| &machine.interconnect).collect();
    usual.dedup();
    if let ([only], "") = (usual.as_slice(), written) {
        return Ok(only);
    }
    let names = || catalog.links().iter().map(|link| link.name.as_str());
    let of_gpu: Vec<String> = catalog
        .links()
        .iter()
        .filter(|link| usual.contains(&&link.interconnect))
        .map(|link| format!("`{}`", link.name))
        .collect();
    let machines = format!("machines of the catalog with {gpus} or more `{}`", row.gpu);
    let advice = match (of_gpu.as_slice(), similar(written, names())) {
        ([], None) => String::new(),
        ([], Some(meant)) => format!("; did you mean `{meant}`?"),
        (links, _) => format!("; {machines} have {}", links.join(" or ")),
    };
    let allowed = format!("one of {}", names().collect::<Vec<_>>().join(", "));
    let problem = if written.is_empty() {
        Invalid::missing("intra_node_link", format!("write {allowed}"))
    } else {
        Invalid::value("intra_node_link", format!("`{written}`"), allowed)
    };
    Err(Unsupported::new(format!("{problem}{advice}")))
}

/// The host of the catalog's system after which a row's system is named, `dgx-1-v100-16gb` of `dgx-1-v100-16gb-100g`:
/// the same machine on another network.
fn host(row: &Row, catalog: &Catalog) -> Option<Host> {
    let namesake = |name: &&str| row.system.strip_prefix(*name).is_some_and(|rest| rest.starts_with('-'));
    let names = catalog.systems().iter().map(|system| system.name.as_str());
    let closest = names.filter(namesake).max_by_key(|name| name.len())?;
    catalog.cluster(closest, row.nodes).ok()?.first().host.clone()
}
