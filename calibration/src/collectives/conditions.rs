//! Conditions of a measurement, read from the words of its row.

use crate::configuration::system::GBIT;
use trainyard_hardware_profiles::{Network, Sourced, Transport};
use trainyard_plan::Collectives;
use trainyard_units::{BytesPerSecond, Seconds};

/// The rate of one TCP connection between instances that share no cluster placement group (Amazon EC2 user guide on
/// network bandwidth).
const CONNECTION: f64 = 5.0 * GBIT;

/// TCP connections that the library opens to one peer (see `sim/src/wiring.rs`), over which slow start is spread.
const CONNECTIONS: f64 = 16.0;

/// Bytes that a TCP connection may send before the first acknowledgement: ten segments (RFC 6928) of a jumbo frame,
/// which is what instances of one VPC use (9 001 bytes: Amazon EC2 user guide).
const FIRST_WINDOW: f64 = 10.0 * 9001.0;

/// Conditions that a row states in words.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Conditions {
    /// A cap that software put on the rate, in Gbit/s.
    cap: Option<f64>,
    /// A delay that software added to each packet, one way.
    delay: Option<Seconds>,
    /// The algorithm that was forced.
    ring: bool,
    /// One connection to each peer: the library is Gloo.
    single_connection: bool,
    /// Memory of the host that is not pinned.
    pub(crate) pageable: bool,
}

impl Conditions {
    /// Returns the conditions in some text. Words that say nothing here are passed over.
    pub(crate) fn of(text: &str) -> Self {
        let lower = text.to_lowercase();
        let words: Vec<&str> =
            lower.split(|c: char| !(c.is_alphanumeric() || c == '.')).filter(|word| !word.is_empty()).collect();
        let before = |what: [&str; 2]| {
            let found = words.windows(3).find(|three| three[1..] == what)?;
            found[0].parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0)
        };
        Self {
            cap: before(["gbps", "cap"]),
            delay: before(["ms", "delay"]).map(|milliseconds| Seconds(milliseconds * 1e-3)),
            ring: words.windows(2).any(|two| two == ["ring", "forced"]),
            single_connection: words.contains(&"gloo"),
            pageable: words.contains(&"pageable"),
        }
    }

    /// Tells whether software shaped the traffic at a stated rate or delay.
    pub(crate) fn shaped(&self) -> bool {
        self.cap.is_some() || self.delay.is_some()
    }

    /// The algorithm that the library was left or told to use.
    pub(crate) fn algorithm(&self) -> Collectives {
        if self.ring { Collectives::Ring } else { Collectives::Nccl }
    }

    /// A network under these conditions.
    pub(crate) fn apply(&self, network: &mut Network) {
        let mut limit = |rate: f64, source: &str| {
            if rate < network.baseline.value.0 {
                network.baseline = Sourced::new(BytesPerSecond(rate), source);
            }
        };
        if let Some(cap) = self.cap {
            limit(cap * GBIT, "a cap that the measured row states");
        }
        if self.single_connection && network.transport == Transport::Tcp {
            limit(CONNECTION, "one TCP connection: Amazon EC2 user guide");
        }
        if let Some(delay) = self.delay {
            let step = network.messaging.step.value + delay;
            network.messaging.step = Sourced::new(step, "a delay that the measured row states");
        }
    }

    /// Time that a message over TCP takes longer because its connections start slowly, at `rate` bytes a second.
    ///
    /// A connection doubles what it has under way each round trip R from its first window on until the line is full:
    /// R · log₂ x rounds for x = rate · R over the first windows, in which it sends as much as the full line does in
    /// R · (1 − 1/x) (RFC 5681, section 3.1).
    pub(crate) fn slow_start(&self, rate: f64) -> Seconds {
        let Some(delay) = self.delay else { return Seconds::ZERO };
        let round_trip = 2.0 * delay.0;
        let windows = (rate * round_trip / (CONNECTIONS * FIRST_WINDOW)).max(1.0);
        Seconds(round_trip * (windows.log2() - (1.0 - 1.0 / windows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_conditions() {
        assert_eq!(Conditions::of("NCCL p2p, default network; 1 GB, tree"), Conditions::default());
        let shaped = Conditions::of("NCCL, 2.5 Gbps cap");
        assert_eq!((shaped.cap, shaped.delay, shaped.shaped()), (Some(2.5), None, true));
        assert_eq!(Conditions::of("NCCL, 5 ms delay").delay, Some(Seconds(5e-3)));
        assert_eq!(Conditions::of("1 GB, ring forced (60 Gbps busbw)").algorithm(), Collectives::Ring);
        assert!(Conditions::of("Gloo p2p").single_connection && Conditions::of("pageable cudaMemcpy").pageable);
        for nothing in ["", "-3 Gbps", "nan Gbps cap", "0 ms delay", "Gbps cap"] {
            assert!(!Conditions::of(nothing).shaped(), "{nothing}");
        }
    }

    #[test]
    fn connections_start_slowly_only_where_the_line_holds_more_than_their_first_windows() {
        let lost = |milliseconds: f64| {
            Conditions { delay: Some(Seconds(milliseconds * 1e-3)), ..Conditions::default() }.slow_start(1.25e9).0
        };
        assert_eq!(Conditions::default().slow_start(1.25e9), Seconds::ZERO);
        assert!(lost(0.1).abs() < 1e-12, "1.25e9 * 2e-4 is below the first windows");
        assert!(lost(1.0) > 0.0 && lost(5.0) > 5.0 * lost(1.0) && lost(10.0) > 2.0 * lost(5.0));
    }
}
