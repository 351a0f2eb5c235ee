//! How the library of collectives fares on a kind of network.

use crate::instance::{Interconnect, Transport};
use crate::sourced::Sourced;
use serde::{Deserialize, Serialize};
use trainyard_units::Seconds;

/// What the library of collectives makes of a network, and of the links inside the machines on it. A sweep of measured
/// collectives teaches all of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messaging {
    /// Part of the nominal rate that rings sustain where one device of each machine takes part.
    pub sustained_alone: Sourced<f64>,
    /// The same where several devices of a machine share its network.
    pub sustained: Sourced<f64>,
    /// What a benchmark of communication alone reaches in parts of that: training needs the processors that move the
    /// bytes of sockets.
    pub isolated: Sourced<f64>,
    /// One message from machine to machine takes at least this long, whatever its size; zero where the library's own
    /// latencies hold.
    pub step: Sourced<Seconds>,
    /// Whether messages of flagged words (NCCL's LL protocol) may cross: a network that delivers out of order corrupts
    /// them.
    pub flagged: Sourced<bool>,
    /// Times the way through all members that each chunk of a long message waits for before the next may follow; zero
    /// where chunks follow without waiting.
    pub chunk_trips: Sourced<f64>,
    /// Latencies inside a machine in parts of those that the library's own tuner assumes.
    pub inside: Sourced<f64>,
}

/// The links and the network of a machine type as a sweep of collectives found them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredFabric {
    /// Catalog id of the machine type.
    pub name: String,
    /// How its GPUs reach each other.
    pub interconnect: Interconnect,
    /// What the library makes of its network.
    pub messaging: Messaging,
}

impl MeasuredFabric {
    /// The least and the most of each number that a sweep teaches, by its name in the file; seconds for a time.
    pub const BOUNDS: [(&str, f64, f64); 6] = [
        ("sustained_alone", 0.01, 1.0),
        ("sustained", 0.01, 1.0),
        ("step", 1e-7, 1e-2),
        ("chunk_trips", 1e-3, 100.0),
        ("inside", 0.05, 50.0),
        ("isolated", 0.1, 10.0),
    ];

    /// The numbers of [`Self::BOUNDS`], in their order.
    pub(crate) fn numbers(&self) -> [f64; 6] {
        let Messaging { sustained_alone, sustained, isolated, step, chunk_trips, inside, .. } = &self.messaging;
        [sustained_alone.value, sustained.value, step.value.0, chunk_trips.value, inside.value, isolated.value]
    }
}

/// The messaging of a kind of network, where nothing was measured of the network itself: that of current software, or
/// of a release of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TransportDefault {
    pub(crate) transport: Transport,
    /// What publications call the release; nothing for current software.
    #[serde(default)]
    pub(crate) published_as: Vec<String>,
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
    fn a_release_is_found_by_what_publications_call_it() {
        let early = catalog().messaging_published_as(Transport::Efa, "NCCL 2.4.6, EFA without the OFI patch");
        assert!(early.sustained.value < catalog().messaging(Transport::Efa).sustained.value);
        let other = catalog().messaging_published_as(Transport::Tcp, "EFA without the OFI patch");
        assert_eq!(other, catalog().messaging(Transport::Tcp));
    }

    #[test]
    fn a_network_of_the_catalog_has_the_messaging_of_its_transport() {
        for machine in catalog().machine_types() {
            assert_eq!(&machine.network.messaging, catalog().messaging(machine.network.transport), "{}", machine.name);
        }
    }
}
