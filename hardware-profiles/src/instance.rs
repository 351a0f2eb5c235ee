//! Machine types: how many GPUs, how they are wired, what network they share, and what stands behind them.

use crate::interconnect::Interconnect;
use crate::network::Network;
use crate::price::Price;
use crate::processor::Processor;
use crate::sourced::Sourced;
use crate::storage::RemoteStorage;
use serde::{Deserialize, Serialize};
use trainyard_units::{Bytes, BytesPerSecond};

/// A machine type: an instance that can be rented or, without prices, a system of published measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// Catalog id, `p3.16xlarge`.
    pub name: String,
    /// Catalog id of its GPU.
    pub gpu: String,
    pub gpus: u32,
    /// Number of virtual processors.
    pub vcpus: u32,
    /// The model of the processors; left out for systems where no data was loaded in the published measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<Processor>,
    /// Why that one, where the processors are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_source: Option<String>,
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

impl Instance {
    /// Returns the family of the type, `p3dn` of `p3dn.24xlarge`.
    pub fn family(&self) -> &str {
        self.name.split('.').next().unwrap_or(&self.name)
    }
}
