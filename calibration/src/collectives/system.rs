//! The machines of a row of collectives: those of the catalog that its text begins with, or such as its words describe.

use crate::configuration::system::{GBIT, expect_countable};
use trainyard_hardware_profiles::{
    Catalog, Cluster, Device, Fabric, Gpu, Instance, Interconnect, Network, Pool, SlurmSpec, Sourced, Transport,
};
use trainyard_units::BytesPerSecond;

/// The machines that a text names or describes, with `gpus` GPUs on all `nodes` of them that take part.
pub(crate) fn cluster(catalog: &Catalog, text: &str, nodes: u32, gpus: u32) -> Result<Cluster, String> {
    let each = gpus_of_each(nodes, gpus)?;
    let mut cluster = match machine(catalog, text) {
        Some(machine) => catalog.cluster(&machine.name, nodes).map_err(|error| error.to_string())?,
        None => described(catalog, text, nodes, each)?,
    };
    use_gpus(&mut cluster.pools[0], each)?;
    Ok(cluster)
}

/// The machines of a cluster of one kind that take part, with as many of their GPUs.
pub(crate) fn part(cluster: &Cluster, nodes: u32, gpus: u32) -> Result<Cluster, String> {
    let each = gpus_of_each(nodes, gpus)?;
    let mut part = cluster.clone();
    let pool = &mut part.pools[0];
    if nodes > pool.instances {
        return Err(format!("`{}` has {} machines, but {nodes} took part", cluster.instance, pool.instances));
    }
    pool.instances = nodes;
    use_gpus(pool, each)?;
    Ok(part)
}

fn gpus_of_each(nodes: u32, gpus: u32) -> Result<u32, String> {
    if nodes == 0 || !gpus.is_multiple_of(nodes) {
        return Err(format!("{gpus} GPUs cannot be the same number on each of {nodes} machines"));
    }
    expect_countable(nodes, gpus / nodes)?;
    Ok(gpus / nodes)
}

fn use_gpus(pool: &mut Pool, each: u32) -> Result<(), String> {
    if each > pool.devices_per_instance {
        return Err(format!("`{}` has {} GPUs, but the row uses {each} of each", pool.name, pool.devices_per_instance));
    }
    pool.devices_per_instance = each;
    Ok(())
}

/// A network as a benchmark finds it, which is over before the burst rate is and has the machines to itself.
pub(crate) fn isolate(network: &mut Network) {
    network.baseline = network.burst.clone();
    let isolated = network.messaging.isolated.value;
    for share in [&mut network.messaging.sustained_alone, &mut network.messaging.sustained] {
        share.value *= isolated;
    }
}

/// The machine type of the catalog that a text begins with, the longest name if there are several.
pub(crate) fn machine<'a>(catalog: &'a Catalog, text: &str) -> Option<&'a Instance> {
    let text = dashed(text);
    let begins = |machine: &&Instance| {
        let rest = text.strip_prefix(&dashed(&machine.name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    catalog.machine_types().filter(begins).max_by_key(|machine| machine.name.len())
}

/// In small letters, with one dash for whatever is neither letter nor digit nor point.
fn dashed(text: &str) -> String {
    let lower = text.to_lowercase();
    lower.split(|c: char| !(c.is_alphanumeric() || c == '.')).filter(|w| !w.is_empty()).collect::<Vec<_>>().join("-")
}

/// Machines that a text describes: `8x A100 NVSwitch`, `V100 NVLink, 4x Omni-Path 100G`.
fn described(catalog: &Catalog, text: &str, nodes: u32, each: u32) -> Result<Cluster, String> {
    let dashed = dashed(text);
    let words: Vec<&str> = dashed.split('-').flat_map(|word| word.split_inclusive('x')).collect();
    let gpu = gpu(catalog, &words).ok_or_else(|| {
        format!("no machine type of the catalog is called as `{text}` begins, and it names no GPU of the catalog")
    })?;
    let interconnect = interconnect(catalog, gpu, &words, each)
        .ok_or_else(|| format!("`{text}` does not say how the {each} GPUs of a machine are linked"))?;
    let network = network(catalog, &dashed);
    if nodes > 1 && network.is_none() {
        return Err(format!("`{text}` does not say what network joins {nodes} machines"));
    }
    let network = network.unwrap_or_else(|| stated(catalog, 0.0, 1, Transport::Tcp));
    Ok(Cluster::of_pool(Pool {
        name: text.into(),
        instances: nodes,
        devices_per_instance: each,
        device: Device::Gpu(gpu.clone()),
        fabric: Fabric::Wired { interconnect, network },
        host: None,
        usd_per_hour: None,
        slurm: SlurmSpec::default(),
    }))
}

/// The GPU whose name shares most words with the text, its first word among them.
fn gpu<'a>(catalog: &'a Catalog, words: &[&str]) -> Option<&'a Gpu> {
    let shared = |gpu: &&Gpu| gpu.name.split('-').filter(|word| words.contains(word)).count();
    let named = |gpu: &&Gpu| gpu.name.split('-').next().is_some_and(|first| words.contains(&first));
    // Of equals the first in the catalog.
    catalog.gpus().iter().rev().filter(named).max_by_key(shared)
}

fn interconnect(catalog: &Catalog, gpu: &Gpu, words: &[&str], each: u32) -> Option<Interconnect> {
    let any = |names: &[&str]| names.iter().any(|name| words.contains(name));
    let switch = any(&["nvswitch", "hgx"]);
    let name = match (gpu.generation.as_str(), each) {
        ("Volta", _) if switch => "nvswitch1",
        ("Ampere", _) if switch => "nvswitch2",
        ("Hopper", _) if switch => "nvswitch3",
        // Twelve links to the one other GPU are as many as into a switch.
        ("Ampere", 2) if any(&["nv12"]) => "nvswitch2",
        ("Volta", 1..=4) if any(&["nvlink"]) => "nvlink2-quad",
        ("Volta", 5..=8) if any(&["nvlink"]) => "nvlink2-hybrid-cube-mesh",
        ("Ampere", 1..=4) if any(&["nvlink", "nv4"]) => "nvlink3-mesh",
        ("Volta", _) if any(&["pcie"]) => "pcie3",
        (_, _) if any(&["pcie"]) => "pcie4",
        (_, 1) => return Some(Interconnect::Pcie { bandwidth: gpu.host_bandwidth.clone() }),
        _ => return None,
    };
    catalog.link(name).ok().map(|link| link.interconnect.clone())
}

/// The network that a text describes: how bytes leave, and the rate of one card times the number of cards.
fn network(catalog: &Catalog, dashed: &str) -> Option<Network> {
    let has = |names: &[&str]| names.iter().any(|name| dashed.contains(name));
    let (transport, usual) = if has(&["efa"]) && has(&["gpudirect"]) {
        (Transport::EfaGpudirect, None)
    } else if has(&["efa"]) {
        (Transport::Efa, None)
    } else if has(&["omni-path", "opa"]) {
        (Transport::OmniPath, Some(100.0))
    } else if has(&["roce"]) {
        (Transport::Roce, None)
    } else if has(&["infiniband", "hdr", "edr", "ndr", "fdr"]) {
        let generations = [("hdr100", 100.0), ("ndr", 400.0), ("hdr", 200.0), ("edr", 100.0), ("fdr", 56.0)];
        (Transport::Infiniband, generations.iter().find(|(name, _)| dashed.contains(name)).map(|(_, rate)| *rate))
    } else if has(&["tcp", "gbe", "ethernet", "ena", "gbps", "gbit"]) {
        (Transport::Tcp, None)
    } else {
        return None;
    };
    let (cards, rate) = stated_rate(dashed);
    Some(stated(catalog, rate.or(usual)? * f64::from(cards), cards, transport))
}

/// Cards and Gbit/s of each: `4x100g`, `100g`, `32-gbe`, `4x-hdr200`.
fn stated_rate(dashed: &str) -> (u32, Option<f64>) {
    let words: Vec<&str> = dashed.split('-').collect();
    let units = ["g", "gb", "gbps", "gbe", "gbit", "gbits"];
    let mut cards = 1;
    let mut rate = None;
    for (index, word) in words.iter().enumerate() {
        let (count, rest) = match word.split_once('x') {
            Some((count, rest)) if count.parse::<u32>().is_ok() => (count.parse().ok(), rest),
            _ => (None, *word),
        };
        let rest = rest.trim_start_matches(|c: char| c.is_alphabetic());
        let digits = rest.trim_end_matches(|c: char| c.is_alphabetic());
        let unit = &rest[digits.len()..];
        let next = words.get(index + 1).is_some_and(|next| units.contains(next));
        let speed = ["hdr", "edr", "ndr", "fdr", "opa"].iter().any(|kind| word.contains(kind));
        // `40gb` is memory of a GPU where nothing says that it is a rate.
        if (units.contains(&unit) && unit != "gb") || (unit.is_empty() && (next || speed)) {
            rate = digits.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0).or(rate);
            cards = count.filter(|count| (1..=64).contains(count)).unwrap_or(cards);
        } else if speed || rest.is_empty() {
            let networked = words.get(index + 1).is_some_and(|next| {
                ["hdr", "edr", "ndr", "fdr", "opa", "omni", "infiniband", "efa"].iter().any(|kind| next.contains(kind))
            });
            cards = count.filter(|count| speed || (networked && (1..=64).contains(count))).unwrap_or(cards);
        }
    }
    (cards, rate)
}

fn stated(catalog: &Catalog, gbit: f64, cards: u32, transport: Transport) -> Network {
    let rate = Sourced::new(BytesPerSecond(gbit * GBIT), "stated by the measured row");
    let messaging = catalog.messaging(transport).clone();
    Network {
        baseline: rate.clone(),
        burst: rate,
        transport,
        also: Vec::new(),
        interfaces: cards,
        sockets: None,
        flow_limit: None,
        messaging,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;

    fn network_of(text: &str, nodes: u32, gpus: u32) -> (f64, Transport) {
        let cluster = cluster(catalog(), text, nodes, gpus).unwrap_or_else(|reason| panic!("{text}: {reason}"));
        let Fabric::Wired { network, .. } = &cluster.first().fabric else { unreachable!("it is wired") };
        (network.baseline.value.0 / GBIT, network.transport)
    }

    #[test]
    fn a_text_may_begin_with_a_machine_type() {
        let of = |text| machine(catalog(), text).map(|machine| machine.name.as_str());
        assert_eq!(of("p3dn.24xlarge (V100-32GB, 100G EFA)"), Some("p3dn.24xlarge"));
        assert_eq!(of("DGX A100 40GB, 8 GPUs"), Some("dgx-a100-40gb"));
        assert_eq!(of("p3.2xlargest"), None);
        assert_eq!(of(""), None);
        let mut network = catalog().cluster("p3.2xlarge", 2).expect("in the catalog").pools.remove(0).fabric;
        let Fabric::Wired { network, .. } = &mut network else { unreachable!("it is wired") };
        isolate(network);
        assert!((network.baseline.value.0 / GBIT - 10.0).abs() < 1e-9, "the burst rate");
        assert!(network.messaging.sustained_alone.value > 0.95, "no training beside it");
    }

    #[test]
    fn words_describe_machines_that_have_no_name() {
        assert_eq!(network_of("DIY 8x A100 NVSwitch, 4x HDR200 InfiniBand", 3, 24), (800.0, Transport::Infiniband));
        assert_eq!(network_of("somewhere, V100 NVLink 4-GPU, 4x Omni-Path 100G", 4, 16), (400.0, Transport::OmniPath));
        assert_eq!(network_of("cloud V100-16GB NVLink, 32 GbE TCP", 2, 16), (32.0, Transport::Tcp));
        assert_eq!(network_of("V100 NVLink, 4x100G EFA", 2, 16), (400.0, Transport::Efa));
        let one = cluster(catalog(), "A100-80GB pair NV12", 1, 2).expect("described");
        let gpu = one.first().device.gpu().expect("a GPU was named");
        assert!(gpu.name.starts_with("a100") && gpu.name.contains("80gb"), "{}", gpu.name);
    }

    #[test]
    fn what_is_not_told_is_asked_for() {
        let refused = |text, nodes, gpus| cluster(catalog(), text, nodes, gpus).expect_err("not enough is told");
        assert!(refused("c5n.18xlarge", 1, 1).contains("no machine type"));
        assert!(refused("eight A100 somewhere", 1, 8).contains("how the 8 GPUs"));
        assert!(refused("A100 NVSwitch", 2, 16).contains("what network"));
        assert!(refused("p3.2xlarge", 1, 2).contains("has 1 GPUs"));
        assert!(refused("p3.16xlarge", 2, 3).contains("3 GPUs"));
        assert!(refused("p3.2xlarge", u32::MAX, u32::MAX).contains("more than 1048576"));
        assert!(refused("A100 NVSwitch", 1, 1 << 20).contains("more than 1024"));
    }
}
