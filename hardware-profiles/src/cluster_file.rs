//! Clusters that users write: the TOML form of machines that no catalog has, and what makes one valid.
//!
//! Rates are those of datasheets; what a ring reaches of them is carried over from the catalog's own links. Machines that
//! are like a type of the catalog state only what differs.

mod valid;
mod wiring;

use crate::network::Transport;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use trainyard_units::{Bytes, BytesPerSecond, FlopsPerSecond, Seconds, written, written_option};

/// A cluster as a person writes it; `Cluster::try_from` validates it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterFile {
    /// Any name; `own-cluster` if left out.
    #[serde(default = "own_cluster")]
    pub name: String,
    /// `true` if traffic between machines is encrypted.
    #[serde(default)]
    pub encrypted: bool,
    /// Kinds of machines, in rank order.
    pub machines: Vec<MachineSpec>,
    /// Switches between the machines, from the machines upwards; one non-blocking switch if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchSpec>,
    /// The file system that all machines mount, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_storage: Option<SharedStorageSpec>,
}

/// Machines of one kind. Values that are left out are those of the machine type in `like`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// Any name that no other kind has; that of `like` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Catalog id of a machine type, `p3dn.24xlarge`, which provides the values that are not stated here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    #[serde(deserialize_with = "written")]
    pub count: u32,
    /// What an hour of one machine costs, in USD; of all kinds or of none. Never that of `like`.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub usd_per_hour: Option<f64>,
    /// Number of GPUs per machine.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuChoice>,
    /// Links between the GPUs of one machine; if neither this nor `like` states them, GPUs use the host's PCIe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkSpec>,
    /// The network; needed if there is more than one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSpec>,
    /// The memory, disk and PCIe tree that the GPUs share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSpec>,
}

/// A GPU by its name in the catalog, or by a description.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum GpuChoice {
    /// Catalog id.
    Named(String),
    /// A GPU that the catalog does not have.
    Described(Box<GpuSpec>),
}

/// A GPU that the catalog does not have. Values that are not stated, and the rates that kernels reach, are those of
/// `like`. Where peak rates are stated, the GPU has only the number formats whose rates are stated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuSpec {
    /// Any name; `own-` and that of the similar GPU if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Catalog id of the most similar GPU. By default it is that of the machine type if there is one, else
    /// `a100-sxm4-40gb`, from which only the rates that kernels reach are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// Size of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Peak memory bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<BytesPerSecond>,
    /// Peak single-precision rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_fp32: Option<FlopsPerSecond>,
    /// Peak half-precision rate of the tensor cores, without sparsity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_fp16: Option<FlopsPerSecond>,
    /// Peak TensorFloat-32 rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_tf32: Option<FlopsPerSecond>,
    /// Peak bfloat16 rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bf16: Option<FlopsPerSecond>,
    /// Peak rate in eight bits (E4M3), without sparsity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_fp8: Option<FlopsPerSecond>,
    /// Number of streaming multiprocessors.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub multiprocessors: Option<u32>,
    /// Size of the second-level cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Bytes>,
}

/// The wiring of the GPUs of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// A switch that connects every GPU with every other at full rate.
    Nvswitch,
    /// NVLinks between some pairs.
    Nvlink,
    /// PCIe only.
    Pcie,
}

/// Links between the GPUs of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The wiring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<LinkKind>,
    /// Rate in one direction: of a GPU into the switch, of one NVLink, or of a GPU over PCIe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<BytesPerSecond>,
    /// Pairs of GPUs and the number of NVLinks between them; only for `nvlink`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<(u32, u32, u32)>,
    /// The part of `bandwidth` that a ring achieves; that of the catalog's links if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub reached: Option<f64>,
}

/// The network of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSpec {
    /// Number of network cards; 1 if neither this nor `like` states it.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub cards: Option<u32>,
    /// Sustained rate of each card, one direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<BytesPerSecond>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// Rate of one TCP connection, where the network limits connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_limit: Option<BytesPerSecond>,
    /// Number of TCP connections, of which each has `flow_limit`, that NCCL opens to one peer: `NCCL_SOCKET_NTHREADS`
    /// times `NCCL_NSOCKS_PERTHREAD`; 16, as on EC2, or 1 in pods, if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
}

/// The memory, disk and PCIe tree that the GPUs of a machine share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Size of main memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Bandwidth of main memory, all channels together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<BytesPerSecond>,
    /// Size of the local disk; none if neither this nor `like` states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Bytes>,
    /// Read rate of all local disks at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bandwidth: Option<BytesPerSecond>,
    /// Number of GPUs that share one PCIe uplink to the processor; 1 if neither this nor `like` states it.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub gpus_per_pcie_switch: Option<u32>,
    /// Bandwidth of that uplink, one direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie: Option<BytesPerSecond>,
    /// Number of virtual processors; required where samples are to be decoded.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u32>,
    /// Catalog id of the processor; if neither this nor `like` states it, the one for which the rates of the loader
    /// hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
}

/// One level of switches between machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchSpec {
    /// Number of machines (first level) or of switches of the level before under one switch.
    #[serde(deserialize_with = "written")]
    pub ports: u32,
    /// Bandwidth of the ports over bandwidth of the uplinks; 1, which makes a non-blocking switch, if left out.
    #[serde(default = "never_blocks", deserialize_with = "written")]
    pub oversubscription: f64,
}

/// A file system that all machines mount: NFS, Lustre, GPFS, WEKA.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedStorageSpec {
    /// Rate at which all machines together read.
    pub read: BytesPerSecond,
    /// Rate at which they write; that of reading if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<BytesPerSecond>,
    /// The most that one machine reads or writes; that of one of its network cards if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_machine: Option<BytesPerSecond>,
    /// Time to open a file; that of Amazon FSx for Lustre if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Seconds>,
}

impl ClusterFile {
    /// Returns `true` if the file says what machines cost.
    pub fn is_priced(&self) -> bool {
        self.machines.iter().any(|machine| machine.usd_per_hour.is_some())
    }
}

fn own_cluster() -> String {
    "own-cluster".into()
}

fn never_blocks() -> f64 {
    1.0
}

// By hand, because serde's untagged enums answer a wrong field with "did not match any variant".
impl<'de> Deserialize<'de> for GpuChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = GpuChoice;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the name of a GPU of the catalog, or a table with `name`, `memory` and peak rates")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<GpuChoice, E> {
                Ok(GpuChoice::Named(name.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<GpuChoice, A::Error> {
                GpuSpec::deserialize(MapAccessDeserializer::new(map)).map(|spec| GpuChoice::Described(Box::new(spec)))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests;
