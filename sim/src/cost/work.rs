//! The work of a layer on one rank, from which its price follows among any number of devices.

use super::layer::{LayerCost, expected_max_sigma};
use trainyard_units::Seconds;

/// The exponent with which the slower of device and host decides: a soft maximum, because some kernels of a host-bound
/// layer are still longer than their launch. Fitted; see docs/physics.md.
const HOST_EXPONENT: f64 = 3.6;

/// One standard deviation of GPUs' times over the mean; the slowest of N sets the pace, which is
/// √(2 ln N) of them off. Fitted; see docs/physics.md.
const GPU_SPREAD: f64 = 0.02;

/// Kernels on a device, and the host thread that launches them meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Kernels {
    /// On a device of mean speed.
    pub(crate) device: Seconds,
    pub(crate) host: Seconds,
    /// What neither does beside the other.
    pub(crate) apart: Seconds,
}

impl Kernels {
    /// Work that takes the same on every device.
    pub(crate) fn fixed(time: Seconds) -> Self {
        Self { apart: time, ..Self::default() }
    }

    fn among(self, slowest: f64) -> Seconds {
        soft_maximum(self.device * slowest, self.host) + self.apart
    }
}

/// The work of a layer over a micro-batch on one rank, without communication.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LayerWork {
    pub(crate) forward: Kernels,
    /// Without recomputation.
    pub(crate) backward: Kernels,
    /// The cores of attention, forward.
    pub(crate) cores: Vec<Kernels>,
    /// The part of backward that is for gradients of weights.
    pub(crate) weights_share: f64,
    /// One standard deviation of the work of a rank's samples over its mean.
    pub(crate) spread: f64,
}

impl LayerWork {
    /// Returns its price where ranks wait for the slowest of so many devices, and for the one with the most to do.
    pub(crate) fn among(&self, devices: u32) -> LayerCost {
        let sigma = expected_max_sigma(devices);
        let (slowest, fullest) = (1.0 + GPU_SPREAD * sigma, 1.0 + self.spread * sigma);
        LayerCost {
            forward: self.forward.among(slowest) * fullest,
            backward: self.backward.among(slowest) * fullest,
            weights_share: self.weights_share,
            core: self.cores.iter().map(|core| core.among(slowest)).sum(),
            ..LayerCost::default()
        }
    }
}

/// Returns the time of kernels whose launches the host issues meanwhile.
pub(crate) fn soft_maximum(device: Seconds, host: Seconds) -> Seconds {
    let longer = device.max(host).0;
    if longer == 0.0 {
        return Seconds::ZERO;
    }
    let sum = (device.0 / longer).powf(HOST_EXPONENT) + (host.0 / longer).powf(HOST_EXPONENT);
    Seconds(longer * sum.powf(1.0 / HOST_EXPONENT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_with_the_most_to_do_is_waited_for() {
        let forward = Kernels { device: Seconds(1.0), ..Kernels::default() };
        let on = |devices, spread| LayerWork { forward, spread, ..LayerWork::default() }.among(devices).forward.0;
        assert!((on(1, 0.25) - 1.0).abs() < 1e-12);
        // 64 ranks: 2.88 standard deviations.
        assert!((on(64, 0.125) / on(64, 0.0) - (1.0 + 0.125 * 2.884)).abs() < 1e-3, "{}", on(64, 0.125));
        assert!(on(64, 0.0) > 1.05 && on(512, 0.0) > on(64, 0.0));
    }

    #[test]
    fn fixed_work_waits_for_nobody() {
        let work = LayerWork { forward: Kernels::fixed(Seconds(0.3)), ..LayerWork::default() };
        assert!((work.among(64).forward.0 - 0.3).abs() < 1e-15);
    }
}
