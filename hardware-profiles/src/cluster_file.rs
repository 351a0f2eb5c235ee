//! Clusters that users write: the TOML form of machines that no catalog has, and what makes one valid.
//!
//! Rates are those of datasheets; what a ring reaches of them is carried over from the catalog's own links.

mod error;
mod valid;

pub use error::ClusterFileError;

use crate::instance::Transport;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use trainyard_units::{Bytes, BytesPerSecond, FlopsPerSecond};

/// A cluster as a person writes it. `Cluster::try_from` makes it valid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterFile {
    /// Any name.
    pub name: String,
    /// Whether traffic between machines is encrypted.
    #[serde(default)]
    pub encrypted: bool,
    /// Kinds of machines, in rank order.
    pub machines: Vec<MachineSpec>,
    /// Switches between the machines, from the machines upwards; if left out, one switch that never blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchSpec>,
}

/// Machines of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// Any name that no other kind has.
    pub name: String,
    /// How many.
    pub count: u32,
    /// GPUs of one.
    pub gpus: u32,
    /// Which GPU.
    pub gpu: GpuChoice,
    /// Links between the GPUs of one machine; if left out, they reach each other over the host's PCIe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkSpec>,
    /// The network; needed if there is more than one machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSpec>,
    /// What the GPUs share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSpec>,
}

/// A GPU of the catalog by its name, or one that is described.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum GpuChoice {
    /// Catalog id.
    Named(String),
    /// A GPU that the catalog does not have.
    Described(Box<GpuSpec>),
}

/// A GPU that the catalog does not have. What is not stated, and what kernels reach, is carried over from `like`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuSpec {
    /// Any name.
    pub name: String,
    /// Catalog id of the most similar GPU; a100-sxm4-40gb if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// Memory.
    pub memory: Bytes,
    /// Peak memory bandwidth.
    pub memory_bandwidth: BytesPerSecond,
    /// Peak single-precision rate.
    pub peak_fp32: FlopsPerSecond,
    /// Peak half-precision rate of the tensor cores, without sparsity.
    pub peak_fp16: FlopsPerSecond,
    /// Peak TensorFloat-32 rate; the GPU does not have the format if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_tf32: Option<FlopsPerSecond>,
    /// Peak bfloat16 rate; the GPU does not have the format if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_bf16: Option<FlopsPerSecond>,
    /// Streaming multiprocessors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiprocessors: Option<u32>,
    /// Second-level cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Bytes>,
}

/// How the GPUs of a machine are wired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// Every GPU at its full rate with every other.
    Nvswitch,
    /// Links between some pairs.
    Nvlink,
    /// PCIe only.
    Pcie,
}

/// Links between the GPUs of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// How they are wired.
    pub kind: LinkKind,
    /// One direction: of a GPU into the switch, of one NVLink, or of a GPU over PCIe.
    pub bandwidth: BytesPerSecond,
    /// Pairs of GPUs and the number of NVLinks between them; only for `nvlink`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<(u32, u32, u32)>,
    /// The part of `bandwidth` that a ring reaches; carried over from the catalog's links if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<f64>,
}

/// The network of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSpec {
    /// Network cards.
    #[serde(default = "one")]
    pub cards: u32,
    /// What each of them sustains, one direction.
    pub bandwidth: BytesPerSecond,
    /// How bytes leave.
    pub transport: Transport,
    /// What one TCP connection reaches, where the network limits connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_limit: Option<BytesPerSecond>,
}

/// What the GPUs of a machine share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Main memory.
    pub memory: Bytes,
    /// Rate of main memory, all channels together.
    pub memory_bandwidth: BytesPerSecond,
    /// Local disk; none if left out.
    #[serde(default)]
    pub disk: Bytes,
    /// Reading from all local disks at once.
    #[serde(default)]
    pub disk_bandwidth: BytesPerSecond,
    /// GPUs that share one PCIe uplink to the processor.
    #[serde(default = "one")]
    pub gpus_per_pcie_switch: u32,
    /// That uplink, one direction.
    pub pcie: BytesPerSecond,
}

/// One level of switches between machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchSpec {
    /// Machines, on the first level, or switches of the level before, under one switch.
    pub ports: u32,
    /// Bandwidth of the ports over bandwidth of the uplinks; 1, which never blocks, if left out.
    #[serde(default = "never_blocks")]
    pub oversubscription: f64,
}

fn one() -> u32 {
    1
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
