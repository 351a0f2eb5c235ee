//! Instances: how many GPUs, how they are wired, and what network they share.

use crate::price::Price;
use crate::sourced::Sourced;
use serde::{Deserialize, Serialize};
use trainyard_units::{Bytes, BytesPerSecond};

/// A machine type that can be rented.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// Catalog id, `p3.16xlarge`.
    pub name: String,
    /// Catalog id of its GPU.
    pub gpu: String,
    /// GPUs.
    pub gpus: u32,
    /// Virtual processors.
    pub vcpus: u32,
    /// Main memory.
    pub memory: Sourced<Bytes>,
    /// Local disk, zero if none.
    pub disk: Sourced<Bytes>,
    /// How the GPUs reach each other.
    pub interconnect: Interconnect,
    /// How instances reach each other.
    pub network: Network,
    /// What it costs.
    #[serde(default, rename = "price")]
    pub prices: Vec<Price>,
}

/// How the GPUs of an instance reach each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Interconnect {
    /// Through the host's PCIe tree.
    Pcie {
        /// Achieved rate of a ring over PCIe, one direction, each GPU.
        bandwidth: Sourced<BytesPerSecond>,
    },
    /// NVLinks between some pairs; the other pairs go through PCIe.
    NvlinkMesh {
        /// Rate of one link, one direction.
        link: Sourced<BytesPerSecond>,
        /// Part of the link rate that a ring reaches.
        fraction: Sourced<f64>,
        /// (GPU, GPU, number of links).
        pairs: Sourced<Vec<(u32, u32, u32)>>,
        /// Achieved rate over PCIe for pairs without a link.
        pcie_bandwidth: Sourced<BytesPerSecond>,
    },
    /// Every GPU at its full rate with every other.
    Nvswitch {
        /// Rate of a GPU into the switch, one direction.
        port: Sourced<BytesPerSecond>,
        /// Part of it that a ring reaches.
        fraction: Sourced<f64>,
    },
}

/// How bytes leave an instance.
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
}

/// The network of an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// What is sustained, all interfaces together, one direction.
    pub baseline: Sourced<BytesPerSecond>,
    /// What "up to" promises for minutes.
    pub burst: Sourced<BytesPerSecond>,
    /// How bytes leave.
    pub transport: Transport,
    /// Network cards, which share the rates equally.
    #[serde(default = "one")]
    pub interfaces: u32,
    /// What one TCP connection reaches, where the network limits connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_limit: Option<Sourced<BytesPerSecond>>,
}

fn one() -> u32 {
    1
}

impl Instance {
    /// The family, `p3dn` of `p3dn.24xlarge`.
    pub fn family(&self) -> &str {
        self.name.split('.').next().unwrap_or(&self.name)
    }
}
