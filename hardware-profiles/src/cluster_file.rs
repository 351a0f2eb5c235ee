//! Clusters that users write: the TOML form of machines that no catalog has, and what makes one valid.
//!
//! Rates are those of datasheets; what a ring reaches of them is carried over from the catalog's own links. Machines that
//! are like a type of the catalog state only what differs.

mod valid;
mod wiring;

use crate::catalog::USD_PER_HOUR_MAX;
use crate::interconnect::GPUS_MAX;
use crate::network::Transport;
use crate::site::SlurmSpec;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use trainyard_units::{
    Bytes, BytesPerSecond, FlopsPerSecond, Seconds, numbers_or_texts, triples, written, written_option,
    written_share_option,
};

/// The largest number of devices in a cluster.
const DEVICES_MAX: u32 = 1 << 20;

/// The largest number of network cards in a machine.
const CARDS_MAX: u32 = 64;

/// The largest number of parts of other kinds, far above that of any machine.
const COUNT_MAX: u32 = 65_535;

/// More connections to a peer than NCCL opens: 16 threads at most, and 64 in all (NCCL user guide, environment variables).
const CONNECTIONS_MAX: u32 = 64;

/// The largest oversubscription accepted, far above that of any real network.
const OVERSUBSCRIPTION_MAX: f64 = 1e6;

/// A cluster of one's own as a TOML file describes it: machines of one or more kinds, and the switches between them. Rates are
/// those of datasheets, as texts with a unit, `100 Gbit/s`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct ClusterFile {
    /// Any name; `own-cluster` if left out.
    #[serde(default = "own_cluster")]
    pub name: String,
    /// `true` if traffic between machines is encrypted; `false` if left out.
    #[serde(default)]
    pub encrypted: bool,
    /// Kinds of machines, in rank order, each as `[[machines]]`.
    #[schemars(length(min = 1))]
    pub machines: Vec<MachineSpec>,
    /// Switches between the machines, from the machines upwards, each level as `[[switches]]`; one non-blocking switch
    /// if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchSpec>,
    /// The file system that all machines mount, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_storage: Option<SharedStorageSpec>,
    /// What jobs ask Slurm for besides; only `export` reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm: Option<SlurmSpec>,
    /// Environment variables of all ranks, as `NCCL_SOCKET_IFNAME = "ib0"`; launch files set them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
}

/// Machines of one kind. Values that are left out are those of the machine type in `like`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct MachineSpec {
    /// Any name that no other kind has: `cluster.instances` of a job chooses kinds by it. That of `like` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Catalog id of a machine type, `p3dn.24xlarge`, which provides the values that are not stated here; without it
    /// those must be stated that have no other default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// How many there are.
    #[serde(deserialize_with = "written")]
    #[schemars(range(min = 1, max = DEVICES_MAX))]
    pub count: u32,
    /// What an hour of one machine costs, in USD; of all kinds or of none. Never that of `like`; nothing if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = USD_PER_HOUR_MAX))]
    pub usd_per_hour: Option<f64>,
    /// Number of GPUs per machine; required without `like`.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = GPUS_MAX))]
    pub gpus: Option<u32>,
    /// The GPU, by its name in the catalog, `l40s`, or as a table that describes it; required without `like`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuChoice>,
    /// Links between the GPUs of one machine; if neither this nor `like` states them, GPUs use the host's PCIe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkSpec>,
    /// The network; required if there is more than one machine and no `like`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSpec>,
    /// The memory, disk and PCIe tree that the GPUs share; unknown without `like` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSpec>,
    /// What jobs on these machines ask Slurm for, key by key before `slurm` of the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm: Option<SlurmSpec>,
}

/// A GPU by its name in the catalog, or by a description.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum GpuChoice {
    /// Catalog id.
    Named(String),
    /// A GPU that the catalog does not have.
    Described(Box<GpuSpec>),
}

/// A GPU that the catalog does not have. Values that are not stated, and the rates that kernels reach, are those of
/// `like`. Where peak rates are stated, the GPU has only the number formats whose rates are stated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct GpuSpec {
    /// Any name; `own-` and that of the similar GPU if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Catalog id of the most similar GPU. By default it is that of the machine type if there is one, else
    /// `a100-sxm4-40gb`, from which only the rates that kernels reach are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// Size of memory, `48 GB`; required without `like`, as the next three.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Peak memory bandwidth, `864 GB/s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<BytesPerSecond>,
    /// Peak single-precision rate, `91.6 TFLOP/s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_fp32: Option<FlopsPerSecond>,
    /// Peak half-precision rate of the tensor cores, without sparsity, `362 TFLOP/s`.
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
    /// Number of streaming multiprocessors; that of the similar GPU if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = COUNT_MAX))]
    pub multiprocessors: Option<u32>,
    /// Size of the second-level cache, `96 MiB`; that of the similar GPU if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Bytes>,
}

/// The wiring of the GPUs of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct LinkSpec {
    /// The wiring; that of `like`, without which it is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<LinkKind>,
    /// Rate in one direction, `25 GB/s`: of a GPU into the switch, of one NVLink, or of a GPU over PCIe; that of `like` if
    /// left out, where it is wired in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<BytesPerSecond>,
    /// Pairs of GPUs, counted from 0, and the number of NVLinks between them, `[[0, 1, 4], [2, 3, 4]]`; only for
    /// `nvlink`.
    #[serde(default, deserialize_with = "triples", skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<(u32, u32, u32)>,
    /// The part of `bandwidth` that a ring achieves, `0.8` or `80%`; that of the catalog's links if left out.
    #[serde(default, deserialize_with = "written_share_option", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1))]
    pub reached: Option<f64>,
}

/// The network of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct NetworkSpec {
    /// Number of network cards; 1 if neither this nor `like` states it.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = CARDS_MAX))]
    pub cards: Option<u32>,
    /// Sustained rate of each card, one direction, `100 Gbit/s`; required without `like`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<BytesPerSecond>,
    /// How data goes over it; required without `like`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// Rate of one TCP connection, `5 Gbit/s`, where the network limits connections; that of `like`, or of the
    /// transport, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_limit: Option<BytesPerSecond>,
    /// Number of TCP connections, of which each has `flow_limit`, that NCCL opens to one peer: `NCCL_SOCKET_NTHREADS`
    /// times `NCCL_NSOCKS_PERTHREAD`; 16, as on EC2, or 1 in pods, if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = CONNECTIONS_MAX))]
    pub connections: Option<u32>,
}

/// The memory, disk and PCIe tree that the GPUs of a machine share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct HostSpec {
    /// Size of main memory, `512 GiB`; required without `like`, as `memory_bandwidth` and `pcie`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Bandwidth of main memory, all channels together, `300 GB/s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<BytesPerSecond>,
    /// Size of the local disk, `2 TB`; none if neither this nor `like` states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Bytes>,
    /// Read rate of all local disks at once, `6 GB/s`; required if there is a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bandwidth: Option<BytesPerSecond>,
    /// Number of GPUs that share one PCIe uplink to the processor; 1 if neither this nor `like` states it.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = GPUS_MAX))]
    pub gpus_per_pcie_switch: Option<u32>,
    /// Bandwidth of that uplink, one direction, `31.5 GB/s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie: Option<BytesPerSecond>,
    /// Number of virtual processors; that of `like`, and required where samples are to be decoded.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = COUNT_MAX))]
    pub vcpus: Option<u32>,
    /// Catalog id of the processor; if neither this nor `like` states it, the one for which the rates of the loader
    /// hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
}

/// One level of switches between machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct SwitchSpec {
    /// Number of machines (first level) or of switches of the level before under one switch.
    #[serde(deserialize_with = "written")]
    #[schemars(range(min = 1, max = DEVICES_MAX))]
    pub ports: u32,
    /// Bandwidth of the ports over bandwidth of the uplinks; 1, which makes a non-blocking switch, if left out.
    #[serde(default = "never_blocks", deserialize_with = "written")]
    #[schemars(range(min = 1, max = OVERSUBSCRIPTION_MAX))]
    pub oversubscription: f64,
}

/// A file system that all machines mount: NFS, Lustre, GPFS, WEKA.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct SharedStorageSpec {
    /// Rate at which all machines together read, `10 GB/s`.
    pub read: BytesPerSecond,
    /// Rate at which they write; that of reading if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<BytesPerSecond>,
    /// The most that one machine reads or writes; that of one of its network cards if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_machine: Option<BytesPerSecond>,
    /// Time to open a file, `1 ms`, at most 10 s; that of Amazon FSx for Lustre if left out.
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
