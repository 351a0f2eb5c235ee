//! The input of each candidate, and how long its steps wait for samples. It does not interact with the layout but
//! through the step, so one way is chosen for each candidate, at the time that no step of it beats; a longer step then
//! never makes a shorter training, and bounds stay bounds.

use super::bounds::Bounds;
use super::space::{Candidate, Space};
use crate::problem::chosen;
use rayon::prelude::*;
use std::collections::BTreeMap;
use trainyard_plan::{InputSpec, ParallelSpec, Precision, Recompute};
use trainyard_sim::{InputStall, LoaderRates};
use trainyard_units::Seconds;

/// Everything that tells candidates apart.
type Key = (usize, u32, ParallelSpec, [u64; 2], Precision, Recompute);

/// Everything besides the step time that decides how samples are loaded.
type Site = (usize, u32, ParallelSpec, u64);

/// An input for each candidate; empty if the job does not say how large samples are.
#[derive(Debug, Default)]
pub(crate) struct InputStalls {
    supplies: BTreeMap<Site, Vec<(InputSpec, LoaderRates)>>,
    /// The index of the supply, among its site's, that each candidate uses.
    chosen: BTreeMap<Key, usize>,
}

fn key(candidate: &Candidate) -> Key {
    let Candidate { choice, instances, parallel, batch, precision, recompute, .. } = *candidate;
    (choice, instances, parallel, [batch.global, batch.micro], precision, recompute)
}

fn site(candidate: &Candidate) -> Site {
    (candidate.choice, candidate.instances, candidate.parallel, candidate.batch.global)
}

impl InputStalls {
    pub(crate) fn new(space: &Space<'_>, bounds: &Bounds, candidates: &[Candidate]) -> Self {
        let Some(data) = space.problem().data else { return Self::default() };
        let sites: BTreeMap<Site, &Candidate> =
            candidates.iter().map(|candidate| (site(candidate), candidate)).collect();
        let supply = |(site, candidate): (Site, &Candidate)| {
            let machine = space.machine(candidate);
            let there = data.supplies(space.fixed(), &machine, candidate.parallel, candidate.batch);
            (site, there.unwrap_or_default())
        };
        let supplies: BTreeMap<Site, Vec<(InputSpec, LoaderRates)>> = sites.into_par_iter().map(supply).collect();
        let way = |candidate: &Candidate| {
            let step = Seconds(bounds.step_time(candidate)?);
            let steps = space.problem().training.steps(candidate.batch.global);
            Some((key(candidate), chosen(&supplies[&site(candidate)], (step, candidate.batch.micro), steps)?))
        };
        let chosen = candidates.par_iter().filter_map(way).collect();
        Self { supplies, chosen }
    }

    fn supply(&self, candidate: &Candidate) -> Option<&(InputSpec, LoaderRates)> {
        let way = *self.chosen.get(&key(candidate))?;
        Some(&self.supplies[&site(candidate)][way])
    }

    /// Returns the input of a candidate; `None` if its samples are assumed to be at hand.
    pub(crate) fn input(&self, candidate: &Candidate) -> Option<InputSpec> {
        self.supply(candidate).map(|(input, _)| *input)
    }

    /// Computes how loading samples delays a training whose steps take this long when they never wait; `None` if its
    /// samples are assumed to be at hand.
    pub(crate) fn of(&self, candidate: &Candidate, step_time_s: f64, steps: u64) -> Option<InputStall> {
        self.supply(candidate).map(|(_, supply)| supply.feed(Seconds(step_time_s), steps))
    }

    /// Returns `true` if the samples of a candidate can be loaded.
    pub(crate) fn reaches(&self, candidate: &Candidate) -> bool {
        self.supplies.is_empty() || self.chosen.contains_key(&key(candidate))
    }
}
