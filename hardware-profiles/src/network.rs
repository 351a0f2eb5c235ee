//! Networks between machines, and the parameters of the collectives library on each kind of them.

use crate::interconnect::Interconnect;
use crate::sourced::Sourced;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_units::{BytesPerSecond, Seconds, named};

named! {
    /// The transport of data between instances.
    #[derive(JsonSchema)]
    Transport {
        /// Sockets over the machines' own network devices.
        Tcp = "tcp",
        /// Sockets over the virtual network of Kubernetes pods, behind which the library does not recognise the network.
        TcpPods = "tcp-pods",
        /// Elastic Fabric Adapter, staged through host memory.
        Efa = "efa",
        /// Elastic Fabric Adapter, straight from GPU memory.
        EfaGpudirect = "efa-gpudirect",
        /// InfiniBand with GPUDirect.
        Infiniband = "infiniband",
        /// Remote memory access over Ethernet, with GPUDirect.
        Roce = "roce",
        /// Omni-Path.
        OmniPath = "omni-path",
    }
}

impl Transport {
    /// Returns `true` for sockets, whose bytes the processors move.
    pub fn is_sockets(self) -> bool {
        matches!(self, Self::Tcp | Self::TcpPods)
    }
}

/// The network of an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Sustained rate of all interfaces together, one direction.
    pub baseline: Sourced<BytesPerSecond>,
    /// Burst rate: what "up to" promises for minutes.
    pub burst: Sourced<BytesPerSecond>,
    pub transport: Transport,
    /// Other transports that the machines can be set up for, besides those that [`Self::transports`] takes from the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Transport>,
    /// Number of network cards, which share the rates equally.
    #[serde(default = "one")]
    pub interfaces: u32,
    /// Sustained rate of sockets over all interfaces together, where it is less than what the adapters have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sockets: Option<Sourced<BytesPerSecond>>,
    /// Rate of one TCP connection, where the network limits connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_limit: Option<Sourced<BytesPerSecond>>,
    /// Parameters of the collectives library on this network; in a catalog file, those of the transport if left out, or
    /// the name of a file of `catalog/transports/`.
    pub messaging: Messaging,
}

fn one() -> u32 {
    1
}

impl Network {
    /// Lists the transports of the machines, the usual one first. Sockets always work, and an adapter that reads GPU
    /// memory can be used through host memory.
    pub fn transports(&self) -> Vec<Transport> {
        let staged = (self.transport == Transport::EfaGpudirect).then_some(Transport::Efa);
        let mut all = vec![self.transport];
        for other in self.also.iter().copied().chain(staged).chain([Transport::Tcp, Transport::TcpPods]) {
            if !all.contains(&other) {
                all.push(other);
            }
        }
        all
    }
}

/// Parameters of the collectives library on a network, and on the links inside the machines there. All can be learnt
/// from a sweep of measured collectives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messaging {
    /// Part of the nominal rate that rings sustain where one device of each machine takes part.
    pub sustained_alone: Sourced<f64>,
    /// Part of the nominal rate that rings sustain where several devices of a machine share its network.
    pub sustained: Sourced<f64>,
    /// Rate that a benchmark of communication alone reaches, relative to that of training, which itself needs the
    /// processors that move the bytes of sockets.
    pub isolated: Sourced<f64>,
    /// The shortest time of a message from machine to machine, whatever its size; zero where the library's own
    /// latencies hold.
    pub step: Sourced<Seconds>,
    /// `true` if messages of flagged words (NCCL's LL protocol) may cross the network: one that delivers out of order
    /// corrupts them.
    pub flagged: Sourced<bool>,
    /// Number of trips through all members that each chunk of a long message waits for before the next may follow; zero
    /// where chunks follow without waiting.
    pub chunk_trips: Sourced<f64>,
    /// Latencies inside a machine, relative to those that the library's own tuner assumes.
    pub inside: Sourced<f64>,
    /// The part by which gathers and scatters between machines take longer with each doubling of the machines beyond two,
    /// because all wait for the slowest path; none where size was not seen to matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<Sourced<f64>>,
    /// Number of connections that the library opens to one peer, each of which a network may limit; none without sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Sourced<u32>>,
}

/// The links and the network of a machine type, or of the machines of a cluster file, as learnt from a sweep of collectives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredFabric {
    /// Catalog id of the machine type, or the name that the cluster file gives to the machines.
    pub name: String,
    /// The transport over which machines of a cluster file were measured; left out for a machine type of the catalog,
    /// which has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// The connection between its GPUs.
    pub interconnect: Interconnect,
    /// The parameters of the collectives library on its network.
    pub messaging: Messaging,
}

impl MeasuredFabric {
    /// The name in the file, the minimum and the maximum of each number that a sweep teaches; times in seconds.
    pub const BOUNDS: [(&str, f64, f64); 6] = [
        ("sustained_alone", 0.01, 1.0),
        ("sustained", 0.01, 1.0),
        ("step", 1e-7, 1e-2),
        ("chunk_trips", 1e-3, 100.0),
        ("inside", 0.05, 50.0),
        ("isolated", 0.1, 10.0),
    ];

    /// Returns the numbers of [`Self::BOUNDS`], in the same order.
    pub(crate) fn numbers(&self) -> [f64; 6] {
        let Messaging { sustained_alone, sustained, isolated, step, chunk_trips, inside, .. } = &self.messaging;
        [sustained_alone.value, sustained.value, step.value.0, chunk_trips.value, inside.value, isolated.value]
    }
}

/// The messaging of a kind of network with current software, with an older release, or on machines that name it, for
/// networks that were not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TransportDefault {
    pub(crate) transport: Transport,
    /// What machine types call it whose adapters can do more than the transport's others; none for those.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// The names of the release in publications; none for current software.
    #[serde(default)]
    pub(crate) published_as: Vec<String>,
    /// Rate of one connection, where no network states another.
    #[serde(default)]
    pub(crate) flow_limit: Option<Sourced<BytesPerSecond>>,
    pub(crate) messaging: Messaging,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::catalog;

    #[test]
    fn every_transport_has_constants_in_range() {
        for transport in Transport::ALL {
            let messaging = catalog().messaging(*transport);
            for share in [&messaging.sustained_alone, &messaging.sustained] {
                assert!(share.value > 0.0 && share.value <= 1.0, "{transport:?}: {share:?}");
            }
            assert!(messaging.step.value >= Seconds::ZERO && messaging.step.value < Seconds(1e-3), "{transport:?}");
            assert!(messaging.chunk_trips.value >= 0.0 && messaging.inside.value > 0.0, "{transport:?}");
            assert!(messaging.sustained.value <= messaging.sustained_alone.value, "{transport:?}");
        }
    }

    #[test]
    fn a_transport_is_found_by_the_name_that_files_give_it() {
        for transport in Transport::ALL {
            assert_eq!(Transport::named(transport.name()), Some(*transport));
            assert_eq!(toml::Value::try_from(transport).expect("a word"), toml::Value::from(transport.name()));
        }
        assert_eq!(Transport::named("ethernet"), None);
    }

    #[test]
    fn instances_have_sockets_and_the_adapters_that_they_can_be_set_up_for() {
        let of = |name| catalog().instance(name).expect("in the catalog").network.transports();
        let [tcp, pods, efa] = [Transport::Tcp, Transport::TcpPods, Transport::Efa];
        assert_eq!(of("p3.16xlarge"), [tcp, pods]);
        assert_eq!(of("g4dn.4xlarge"), [tcp, pods]);
        for name in ["g4dn.8xlarge", "g4dn.12xlarge", "g4dn.16xlarge", "g4dn.metal"] {
            assert_eq!(of(name), [tcp, efa, pods], "{name}");
        }
        assert_eq!(of("p3dn.24xlarge"), [efa, tcp, pods]);
        assert_eq!(of("p4d.24xlarge"), [Transport::EfaGpudirect, efa, tcp, pods]);
    }

    #[test]
    fn a_release_is_found_by_what_publications_call_it() {
        let early = catalog().messaging_published_as(Transport::Efa, "NCCL 2.4.6, EFA without the OFI patch");
        assert!(early.sustained.value < catalog().messaging(Transport::Efa).sustained.value);
        let other = catalog().messaging_published_as(Transport::Tcp, "EFA without the OFI patch");
        assert_eq!(other, catalog().messaging(Transport::Tcp));
    }

    #[test]
    fn a_network_of_the_catalog_has_the_messaging_of_its_transport_unless_its_adapters_write() {
        for machine in catalog().machine_types() {
            let network = &machine.network;
            // The plug-in sends and receives on P4d, P4de and p5.4xlarge (aws/aws-ofi-nccl, src/platform-aws.cpp).
            let sends = machine.name.starts_with("p4") || machine.name == "p5.4xlarge";
            let writes = network.transport == Transport::EfaGpudirect && !sends;
            let usual = &network.messaging == catalog().messaging(network.transport);
            assert_eq!(usual, !writes, "{}", machine.name);
            assert_eq!(network.messaging.growth.is_some(), sends, "{}", machine.name);
        }
    }
}
