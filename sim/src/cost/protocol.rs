//! How long the library takes to start a collective and to pass a message on.

use trainyard_hardware_profiles::Transport;

/// Microseconds in seconds.
pub(super) const MICROSECOND: f64 = 1e-6;

/// A way in which the library moves data: `LL` flags every eight bytes, which is quick to start and slow to carry;
/// `Simple` synchronises whole chunks. Times in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protocol {
    /// Start of a ring, or of messages between pairs.
    pub(super) ring_base: f64,
    /// Start of a tree.
    pub(super) tree_base: f64,
    nvlink_hop: f64,
    pcie_hop: f64,
    network_hop: f64,
    tree_network_hop: f64,
    /// Share of the link rate that is payload.
    pub(super) payload: f64,
}

/// Half of what LL moves are flags, and its buffers are small.
const LL: Protocol = Protocol {
    ring_base: 6.6,
    tree_base: 6.8,
    nvlink_hop: 0.6,
    pcie_hop: 1.0,
    network_hop: 2.7,
    tree_network_hop: 5.0,
    payload: 0.25,
};

/// The protocol of large messages, and of all over EFA.
pub(super) const SIMPLE: Protocol = Protocol {
    ring_base: 8.4,
    tree_base: 8.4,
    nvlink_hop: 3.4,
    pcie_hop: 5.7,
    network_hop: 14.0,
    tree_network_hop: 14.0,
    payload: 1.0,
};

/// A step over EFA. The library posts messages through a provider in user space instead of writing to the peer:
/// 147 us for the smallest all-reduce on two p3dn and 175 us on two p4d are one way there and one back. Fitted on both
/// (aws-samples/aws-efa-eks README; docs/physics.md).
const EFA_HOP: f64 = 50.0;

/// What a large message over EFA takes longer than its bytes and the smallest message say, there and back: chunks wait
/// for their acknowledgements until enough of them are under way. Between two published sweeps of p4d, of which one
/// runs at 1.5 times the rate of the other (docs/physics.md).
const EFA_RAMP: f64 = 1200.0;

/// The size of a message that suffers half of it.
const EFA_RAMP_BYTES: f64 = 12e6;

/// What one message goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hop {
    /// NVLink, with or without a switch.
    Nvlink,
    /// PCIe.
    Pcie,
    /// The network between two machines.
    Network(Transport),
}

/// Whether a transport is EFA.
fn is_efa(transport: Transport) -> bool {
    matches!(transport, Transport::Efa | Transport::EfaGpudirect)
}

/// Protocols that may be used between machines, `None` being one machine. EFA needs complete messages in order, so only
/// `Simple` (NVIDIA/nccl issue 716).
pub(super) fn protocols(between: Option<Transport>) -> &'static [Protocol] {
    if between.is_some_and(is_efa) { &[SIMPLE] } else { &[LL, SIMPLE] }
}

/// Microseconds that `bytes` bytes take over the network, in `passes` directions, besides their start and their rate.
pub(super) fn ramp(between: Option<Transport>, passes: f64, bytes: f64) -> f64 {
    if between.is_some_and(is_efa) { 0.5 * passes * EFA_RAMP * bytes / (bytes + EFA_RAMP_BYTES) } else { 0.0 }
}

impl Protocol {
    /// Microseconds of a step of a ring, or of one message.
    pub(super) fn ring_hop(&self, hop: Hop) -> f64 {
        self.hop(hop, self.network_hop)
    }

    /// Microseconds of a step of a tree.
    pub(super) fn tree_hop(&self, hop: Hop) -> f64 {
        self.hop(hop, self.tree_network_hop)
    }

    fn hop(&self, hop: Hop, network: f64) -> f64 {
        match hop {
            Hop::Nvlink => self.nvlink_hop,
            Hop::Pcie => self.pcie_hop,
            Hop::Network(transport) if is_efa(transport) => network.max(EFA_HOP),
            Hop::Network(_) => network,
        }
    }
}
