//! Rates at which machines read samples from stores.

use trainyard_units::{Bytes, BytesPerSecond, Seconds};

/// A place to read from, as one machine of several sees it. What is not stated has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Store {
    pub(super) machine: Option<BytesPerSecond>,
    /// All machines together.
    pub(super) shared: Option<BytesPerSecond>,
    pub(super) reader: Option<BytesPerSecond>,
    /// Until the first byte of a file, for its reader.
    pub(super) latency: Seconds,
    /// Files a second, of all that share them.
    pub(super) requests: Option<f64>,
}

/// One read of a machine, and those beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reading {
    pub(super) bytes: f64,
    pub(super) files: f64,
    /// Readers of this machine.
    pub(super) readers: u32,
    /// Reads of all machines, relative to this one's.
    pub(super) machines: f64,
    /// Set if requests of all machines count together.
    pub(super) shared_requests: bool,
}

impl Store {
    /// Seconds that reading takes: the slowest of what the machine, all machines, the readers and requests allow.
    pub(super) fn seconds(&self, reading: Reading) -> Seconds {
        let over = |bytes: f64, rate: Option<BytesPerSecond>| rate.map_or(0.0, |rate| bytes / rate.0);
        let waiting = reading.files * self.latency.0 + over(reading.bytes, self.reader);
        let files = reading.files * if reading.shared_requests { reading.machines } else { 1.0 };
        [
            over(reading.bytes, self.machine),
            over(reading.bytes * reading.machines, self.shared),
            waiting / f64::from(reading.readers.max(1)),
            self.requests.map_or(0.0, |requests| files / requests),
        ]
        .into_iter()
        .map(Seconds)
        .fold(Seconds::ZERO, Seconds::max)
    }
}

/// The lower of a rate and another that is there.
pub(super) fn least(rate: BytesPerSecond, other: BytesPerSecond) -> BytesPerSecond {
    BytesPerSecond(rate.0.min(other.0))
}

/// Bytes of a data set, at most what can be counted.
pub(super) fn bytes(count: f64) -> Bytes {
    Bytes(count.min(1e18) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Reading = Reading { bytes: 1e9, files: 0.0, readers: 4, machines: 2.0, shared_requests: true };

    #[test]
    fn the_slowest_limit_decides() {
        let seconds = |store: Store, reading| store.seconds(reading).0;
        let rate = |rate| Some(BytesPerSecond(rate));
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        near(seconds(Store::default(), PLAIN), 0.0);
        near(seconds(Store { machine: rate(5e8), ..Store::default() }, PLAIN), 2.0);
        near(seconds(Store { shared: rate(5e8), machine: rate(1e9), ..Store::default() }, PLAIN), 4.0);
        near(seconds(Store { reader: rate(1e8), ..Store::default() }, PLAIN), 2.5);
        let small = Reading { files: 1000.0, ..PLAIN };
        near(seconds(Store { latency: Seconds(0.02), ..Store::default() }, small), 5.0);
        near(seconds(Store { requests: Some(100.0), ..Store::default() }, small), 20.0);
        let own = Reading { shared_requests: false, ..small };
        near(seconds(Store { requests: Some(100.0), ..Store::default() }, own), 10.0);
    }
}
