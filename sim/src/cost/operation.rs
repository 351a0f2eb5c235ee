//! The load of a collective on the links of a cluster.

use crate::network::LinkId;
use trainyard_units::Seconds;

/// Phases one after another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operation {
    /// In order. None: nothing is to be sent.
    pub phases: Vec<Phase>,
}

/// A latency, then the same number of bytes through each of several flows, all at one rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Time before and between bytes that no faster link would shorten.
    pub latency: Seconds,
    /// Bytes of one flow, with what the protocol adds to the payload.
    pub volume: f64,
    /// The rate of one flow by itself, in bytes per second; infinite if only its links limit it.
    pub limit: f64,
    /// Links and how many of the flows go through each, in ascending order of the links.
    pub uses: Vec<(LinkId, f64)>,
}

impl Operation {
    /// One that takes this long whatever the links do.
    pub(crate) fn taking(time: Seconds) -> Self {
        Self { phases: vec![Phase::lasting(time)] }
    }

    /// The same if it is cut into this many, one after another: its latency comes as often.
    pub(crate) fn repeat_latency(&mut self, times: u32) {
        for phase in &mut self.phases {
            phase.latency = phase.latency * f64::from(times);
        }
    }

    /// The time it takes while nothing else is under way; `capacities` are those of the links in bytes per second.
    pub fn alone(&self, capacities: &[f64]) -> Seconds {
        self.phases.iter().map(|phase| phase.alone(capacities)).sum()
    }
}

impl Phase {
    /// One that takes this long whatever the links do.
    pub(crate) fn lasting(time: Seconds) -> Self {
        Self { latency: time, volume: 0.0, limit: f64::INFINITY, uses: Vec::new() }
    }

    /// The time it takes while nothing else is under way; `capacities` are those of the links in bytes per second.
    pub fn alone(&self, capacities: &[f64]) -> Seconds {
        self.latency + Seconds(self.volume / rate(self.limit, &self.uses, |link, flows| capacities[link] / flows))
    }

    /// The time it takes while `flows` flows, its own among them, share each link equally.
    pub(super) fn shared(&self, capacities: &[f64], flows: &[f64]) -> Seconds {
        self.latency + Seconds(self.volume / rate(self.limit, &self.uses, |link, _| capacities[link] / flows[link]))
    }
}

/// The least of a flow's own limit and of what each link leaves to it.
fn rate(limit: f64, uses: &[(LinkId, f64)], share: impl Fn(usize, f64) -> f64) -> f64 {
    uses.iter().map(|(link, flows)| share(link.0 as usize, *flows)).fold(limit, f64::min)
}
