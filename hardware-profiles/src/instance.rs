//! Machine types: how many GPUs, how they are wired, what network they share, and what stands behind them.

use crate::messaging::Messaging;
use crate::price::Price;
use crate::processor::Processor;
use crate::sourced::Sourced;
use crate::storage::RemoteStorage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use trainyard_units::{Bytes, BytesPerSecond, Invalid};

/// A machine type: an instance that can be rented or, without prices, a system of published measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// Catalog id, `p3.16xlarge`.
    pub name: String,
    /// Catalog id of its GPU.
    pub gpu: String,
    /// Number of GPUs.
    pub gpus: u32,
    /// Number of virtual processors.
    pub vcpus: u32,
    /// The model of the processors; left out for systems where no data was loaded in the published measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<Processor>,
    /// Size of main memory.
    pub memory: Sourced<Bytes>,
    /// Size of the local disk; zero if there is none.
    pub disk: Sourced<Bytes>,
    /// The connection between the GPUs.
    pub interconnect: Interconnect,
    /// The network between instances.
    pub network: Network,
    /// The rates of what the GPUs of an instance share.
    pub host: HostLinks,
    /// The rates at which the instance reaches remote storage; left out where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<RemoteStorage>,
    /// `true` if SageMaker's library for data parallelism (SMDDP) runs on it; left out where no source says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smddp: Option<Sourced<bool>>,
    /// The prices; none if it cannot be rented or its price is not known.
    #[serde(default, rename = "price")]
    pub prices: Vec<Price>,
}

/// Nominal rates of what the GPUs of an instance share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostLinks {
    /// Bandwidth of main memory, all channels together.
    pub memory_bandwidth: Sourced<BytesPerSecond>,
    /// Read rate of all local disks at once; zero if there are none.
    pub disk_bandwidth: Sourced<BytesPerSecond>,
    /// Number of GPUs that share one PCIe uplink to the processor.
    pub gpus_per_pcie_switch: Sourced<u32>,
    /// Bandwidth of that uplink, one direction.
    pub pcie_uplink: Sourced<BytesPerSecond>,
}

/// A kind of interconnect, with the name that tables of measurements use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Catalog id, `nvlink2-hybrid-cube-mesh`.
    pub name: String,
    /// The interconnect itself.
    pub interconnect: Interconnect,
}

/// The connection between the GPUs of an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Interconnect {
    /// Through the host's PCIe tree.
    Pcie {
        /// Achieved rate of a ring over PCIe, one direction, per GPU.
        bandwidth: Sourced<BytesPerSecond>,
    },
    /// NVLinks between some pairs; the other pairs go through PCIe.
    NvlinkMesh {
        /// Rate of one link, one direction.
        link: Sourced<BytesPerSecond>,
        /// Part of the link rate that a ring achieves.
        fraction: Sourced<f64>,
        /// Pairs as (GPU, GPU, number of links).
        pairs: Sourced<Vec<(u32, u32, u32)>>,
        /// Achieved rate over PCIe for pairs without a link.
        pcie_bandwidth: Sourced<BytesPerSecond>,
    },
    /// A switch that connects every GPU with every other at full rate.
    Nvswitch {
        /// Rate of a GPU into the switch, one direction.
        port: Sourced<BytesPerSecond>,
        /// Part of that rate that a ring achieves.
        fraction: Sourced<f64>,
    },
}

/// The transport of data between instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Sockets over the Elastic Network Adapter.
    Tcp,
    /// Elastic Fabric Adapter, staged through host memory.
    Efa,
    /// Elastic Fabric Adapter, straight from GPU memory.
    EfaGpudirect,
    /// InfiniBand with GPUDirect.
    Infiniband,
    /// Remote memory access over Ethernet, with GPUDirect.
    Roce,
    /// Omni-Path.
    OmniPath,
}

impl Transport {
    /// Every transport.
    pub const ALL: &[Self] = &[Self::Tcp, Self::Efa, Self::EfaGpudirect, Self::Infiniband, Self::Roce, Self::OmniPath];
}

/// The network of an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Sustained rate of all interfaces together, one direction.
    pub baseline: Sourced<BytesPerSecond>,
    /// Burst rate: what "up to" promises for minutes.
    pub burst: Sourced<BytesPerSecond>,
    /// The transport.
    pub transport: Transport,
    /// Number of network cards, which share the rates equally.
    #[serde(default = "one")]
    pub interfaces: u32,
    /// Rate of one TCP connection, where the network limits connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_limit: Option<Sourced<BytesPerSecond>>,
    /// Parameters of the collectives library on this network; in a catalog file, those of the transport if left out.
    pub messaging: Messaging,
}

fn one() -> u32 {
    1
}

impl Interconnect {
    /// Returns `true` if NVLinks alone connect these GPUs, perhaps through others among them.
    pub fn joins(&self, gpus: &[u32]) -> bool {
        match self {
            Self::Pcie { .. } => gpus.len() < 2,
            Self::Nvswitch { .. } => true,
            Self::NvlinkMesh { pairs, .. } => unreached(&pairs.value, gpus).is_empty(),
        }
    }
}

/// The largest number of NVLinks between two GPUs.
pub(crate) const LINKS_MAX: u32 = 64;

/// The largest number of GPUs in a machine.
pub(crate) const GPUS_MAX: u32 = 256;

/// Checks that the NVLinks of a field connect GPUs of a machine with `gpus` of them, each pair in one entry.
///
/// # Errors
///
/// Fails at the first wrong entry.
pub(crate) fn check_pairs(field: &str, pairs: &[(u32, u32, u32)], gpus: u32) -> Result<(), Invalid> {
    let mut seen = BTreeSet::new();
    for (index, (a, b, links)) in pairs.iter().copied().enumerate() {
        let allowed = if a.max(b) >= gpus {
            format!("between two of GPUs 0 to {}", gpus - 1)
        } else if a == b {
            "between two different GPUs".into()
        } else if !(1..=LINKS_MAX).contains(&links) {
            format!("from 1 to {LINKS_MAX} links")
        } else if !seen.insert((a.min(b), a.max(b))) {
            format!("the only entry for GPUs {} and {}", a.min(b), a.max(b))
        } else {
            continue;
        };
        let hint = "pairs are [GPU, GPU, links]: GPUs of a machine are counted from 0, and each pair has one entry";
        let value = format!("[{a}, {b}, {links}]");
        return Err(Invalid::value(format!("{field}[{index}]"), value, allowed).with_hint(hint));
    }
    Ok(())
}

/// Returns those of `gpus` that links do not connect to the first one.
pub(crate) fn unreached(pairs: &[(u32, u32, u32)], gpus: &[u32]) -> Vec<u32> {
    let Some((first, others)) = gpus.split_first() else { return Vec::new() };
    let (mut unseen, mut reached) = (others.to_vec(), vec![*first]);
    while let Some(gpu) = reached.pop() {
        let linked = |other: &mut u32| {
            let ends = [(gpu, *other), (*other, gpu)];
            pairs.iter().any(|(a, b, links)| *links > 0 && ends.contains(&(*a, *b)))
        };
        reached.extend(unseen.extract_if(.., linked));
    }
    unseen
}

impl Instance {
    /// Returns the family of the type, `p3dn` of `p3dn.24xlarge`.
    pub fn family(&self) -> &str {
        self.name.split('.').next().unwrap_or(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use crate::catalog::catalog;

    #[test]
    fn bridges_join_neighbours_only() {
        let bridges = &catalog().link("nvlink-bridge").expect("in the catalog").interconnect;
        assert!(
            bridges.joins(&[2, 3]) && bridges.joins(&[1]) && !bridges.joins(&[1, 2]) && !bridges.joins(&[0, 1, 2, 3])
        );
    }

    #[test]
    fn the_cube_mesh_joins_what_has_a_way_inside_the_group() {
        let mesh = &catalog().link("nvlink2-hybrid-cube-mesh").expect("in the catalog").interconnect;
        assert!(mesh.joins(&[0, 1, 2, 3, 4, 5, 6, 7]) && mesh.joins(&[0, 4]) && !mesh.joins(&[0, 5]));
        // 0 and 5 have no link, but both have one to 4.
        assert!(mesh.joins(&[5, 0, 4]));
    }
}
