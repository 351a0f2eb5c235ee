//! Times in which the library starts a collective and passes a message on.

use trainyard_hardware_profiles::Network;

/// Microseconds in seconds.
pub(super) const MICROSECOND: f64 = 1e-6;

/// A way in which the library moves data: `LL` flags every eight bytes, which is quick to start and slow to carry;
/// `LL128` flags every 128 bytes, which only NVLinks keep together; `Simple` synchronises whole chunks. Times in
/// microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protocol {
    /// Start of a ring, or of messages between pairs.
    pub(super) ring_base: f64,
    /// Start of a tree.
    pub(super) tree_base: f64,
    nvlink_hop: f64,
    tree_nvlink_hop: f64,
    pcie_hop: f64,
    network_hop: f64,
    tree_network_hop: f64,
    /// Share of the link rate that is payload.
    pub(super) payload: f64,
    /// Set if it passes on whole chunks, each when all of it is there.
    chunks: bool,
}

/// Half of what LL moves are flags, and its buffers are small.
const LL: Protocol = Protocol {
    ring_base: 6.6,
    tree_base: 6.8,
    nvlink_hop: 0.6,
    tree_nvlink_hop: 0.6,
    pcie_hop: 1.0,
    network_hop: 2.7,
    tree_network_hop: 5.0,
    payload: 0.25,
    chunks: false,
};

/// 120 of 128 bytes are payload, of which the library's tuner expects 0.92.
const LL128: Protocol = Protocol {
    ring_base: 14.0,
    tree_base: 14.0,
    nvlink_hop: 1.9,
    tree_nvlink_hop: 1.25,
    pcie_hop: 2.5,
    network_hop: 4.0,
    tree_network_hop: 8.5,
    payload: 0.92,
    chunks: false,
};

/// The protocol of large messages.
pub(super) const SIMPLE: Protocol = Protocol {
    ring_base: 8.4,
    tree_base: 8.4,
    nvlink_hop: 3.4,
    tree_nvlink_hop: 3.4,
    pcie_hop: 5.7,
    network_hop: 14.0,
    tree_network_hop: 14.0,
    payload: 1.0,
    chunks: true,
};

/// The link that one message goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hop {
    /// NVLink, with or without a switch.
    Nvlink,
    Pcie,
    /// The network between two machines.
    Network,
}

/// Latencies of a group's messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latencies {
    /// Those inside machines in parts of the library's own.
    inside: f64,
    /// Microseconds that a message between machines takes at least.
    step: f64,
    /// The wait of each chunk, in multiples of the way through all members.
    chunk_trips: f64,
    flagged: bool,
    flagged_lines: bool,
}

impl Latencies {
    /// Of some machines with members, `across` whose network their messages go, over nothing but NVLinks or not.
    ///
    /// Machines of different networks speak over the slowest, which is the one that all of them have.
    pub(super) fn of<'a>(machines: impl Iterator<Item = &'a Network>, across: bool, nvlinks: bool) -> Self {
        let rate = |network: &Network| network.baseline.value.0 * network.messaging.sustained.value;
        let mut inside = 0.0_f64;
        let slowest = machines
            .inspect(|network| inside = inside.max(network.messaging.inside.value))
            .min_by(|a, b| rate(a).total_cmp(&rate(b)))
            .filter(|_| across);
        match slowest.map(|network| &network.messaging) {
            Some(messaging) => Self {
                inside,
                step: messaging.step.value.0 / MICROSECOND,
                chunk_trips: messaging.chunk_trips.value,
                flagged: messaging.flagged.value,
                flagged_lines: false,
            },
            None => Self { inside, step: 0.0, chunk_trips: 0.0, flagged: true, flagged_lines: nvlinks },
        }
    }

    /// Protocols that may be used.
    pub(super) fn protocols(&self) -> &'static [Protocol] {
        match (self.flagged, self.flagged_lines) {
            (true, true) => &[LL, LL128, SIMPLE],
            (true, false) => &[LL, SIMPLE],
            (false, _) => &[SIMPLE],
        }
    }

    /// Microseconds before the first message of a ring, or of messages between pairs.
    pub(super) fn ring_base(&self, protocol: &Protocol) -> f64 {
        self.inside * protocol.ring_base
    }

    /// Microseconds before the first message of a tree.
    pub(super) fn tree_base(&self, protocol: &Protocol) -> f64 {
        self.inside * protocol.tree_base
    }

    /// Microseconds of a step of a ring, or of one message.
    pub(super) fn ring_hop(&self, protocol: &Protocol, hop: Hop) -> f64 {
        match hop {
            Hop::Nvlink => self.inside * protocol.nvlink_hop,
            Hop::Pcie => self.inside * protocol.pcie_hop,
            Hop::Network => protocol.network_hop.max(self.step),
        }
    }

    /// Microseconds of a step of a tree.
    pub(super) fn tree_hop(&self, protocol: &Protocol, hop: Hop) -> f64 {
        match hop {
            Hop::Nvlink => self.inside * protocol.tree_nvlink_hop,
            Hop::Pcie => self.inside * protocol.pcie_hop,
            Hop::Network => protocol.tree_network_hop.max(self.step),
        }
    }

    /// A phase that may go this way: `microseconds` before its bytes, and `payload` bytes of use through each flow.
    pub(super) fn way(&self, protocol: &Protocol, microseconds: f64, payload: f64) -> Way {
        let latency = microseconds * MICROSECOND;
        let waiting = if protocol.chunks { self.chunk_trips * latency } else { 0.0 };
        Way { latency, volume: payload / protocol.payload, waiting }
    }
}

/// A way in which a phase may go.
///
/// A long message goes in k chunks through d stages that take L to fill. Each chunk costs o besides its bytes, and each
/// stage behind the first waits for a whole chunk of V bytes at rate B: k · o + (d − 1) V/(kB), at the best k
/// 2√(wL · V/B) with w = (d − 1) o / L. For w = 1 the whole is the square of √L + √(V/B). The library approaches that k
/// by halving its chunks until the pipeline is full (NVIDIA/nccl, `src/enqueue.cc`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Way {
    /// Seconds before the bytes.
    latency: f64,
    /// Bytes of one flow.
    pub(super) volume: f64,
    /// wL above, in seconds.
    waiting: f64,
}

impl Way {
    /// The same with `factor` times the bytes through each flow.
    pub(super) fn stretched(self, factor: f64) -> Self {
        Self { volume: self.volume * factor, ..self }
    }

    /// Seconds besides those of the bytes, each of which takes `per_byte` seconds.
    pub(super) fn latency(&self, per_byte: f64) -> f64 {
        self.latency + 2.0 * (self.waiting * self.volume * per_byte).sqrt()
    }

    /// Seconds of all of it.
    pub(super) fn time(&self, per_byte: f64) -> f64 {
        self.latency(per_byte) + self.volume * per_byte
    }
}
