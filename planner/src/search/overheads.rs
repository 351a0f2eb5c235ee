//! The overheads of all candidates of a search.

use super::space::{Candidate, Space};
use crate::cost::{Overheads, RunConditions, Saved, ranks_of_state};
use crate::problem::Problem;
use rayon::prelude::*;
use std::collections::BTreeMap;
use trainyard_plan::{Precision, checkpoint_bytes_of};
use trainyard_units::Bytes;

/// Overheads by the ranks that hold a state and the number format, where they are known: with the state whole on each
/// replica, and sharded.
type Site = BTreeMap<(u32, Precision), [Option<Overheads>; 2]>;

/// The overheads of all candidates of a search.
#[derive(Default)]
pub(crate) struct SearchOverheads {
    /// By type and number of machines.
    sites: Vec<BTreeMap<u32, Site>>,
}

impl SearchOverheads {
    pub(crate) fn new(problem: &Problem, space: &Space<'_>, candidates: &[Candidate]) -> Self {
        let graph = problem.graph();
        let bytes_of = |precision| checkpoint_bytes_of(&graph, precision, problem.optimizer);
        let bytes: BTreeMap<Precision, Bytes> =
            problem.precisions.iter().map(|precision| (*precision, bytes_of(*precision))).collect();
        let site = |candidates: &[Candidate]| {
            let Candidate { choice, instances, .. } = candidates[0];
            let machine = space.machine_of(choice, instances);
            let overheads = |precision: Precision, ranks, shards_state| {
                let bytes = bytes.get(&precision).copied().unwrap_or_else(|| bytes_of(precision));
                let conditions = RunConditions {
                    machine: &machine,
                    settings: &problem.settings,
                    saved: Saved { bytes, ranks, shards_state },
                    pricing: problem.place.pricing(),
                    rented: problem.place.offered(choice).map(Into::into),
                    input: None,
                };
                conditions.are_known().then(|| Overheads::new(&conditions))
            };
            let mut site = Site::new();
            for Candidate { parallel, precision, .. } in candidates {
                let ranks = ranks_of_state(*parallel);
                let both = || [false, true].map(|shards_state| overheads(*precision, ranks, shards_state));
                site.entry((ranks, *precision)).or_insert_with(both);
            }
            (choice, instances, site)
        };
        let sites: Vec<&[Candidate]> =
            candidates.chunk_by(|a, b| (a.choice, a.instances) == (b.choice, b.instances)).collect();
        let sites: Vec<(usize, u32, Site)> = sites.into_par_iter().map(site).collect();
        let mut all = Self::default();
        for (choice, instances, site) in sites {
            all.site(choice, instances).extend(site);
        }
        all
    }

    fn site(&mut self, choice: usize, instances: u32) -> &mut Site {
        if self.sites.len() <= choice {
            self.sites.resize_with(choice + 1, BTreeMap::new);
        }
        self.sites[choice].entry(instances).or_default()
    }

    /// Returns the overheads of a candidate's plans whose replicas shard their state, or do not; `None` where nothing is
    /// known of them.
    pub(crate) fn of(&self, candidate: &Candidate, shards_state: bool) -> Option<&Overheads> {
        let site = self.sites.get(candidate.choice)?.get(&candidate.instances)?;
        let both = site.get(&(ranks_of_state(candidate.parallel), candidate.precision))?;
        both[usize::from(shards_state)].as_ref()
    }
}
