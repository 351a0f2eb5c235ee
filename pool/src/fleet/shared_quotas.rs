//! Quotas of several types together, as EC2 counts virtual processors of a class.
//!
//! Each type is capped by the quota by itself. Where the best schedule takes more of a quota with several types at once, the quota is
//! shared out among them: each of the types alone, and what those that are used may have beside each other, are tried. If the best
//! of these takes more of another quota, that is shared out next, within what the first has left.

use super::caveats::{Held, most_at_once};
use super::choose::Solution;
use super::machines::Shared;
use super::option::Kind;
use super::schedule::{Figures, Pools};
use super::{FleetError, FleetSpec, Question};
use crate::queue::valid::Terms;
use crate::queue::{QueueDocument, predict_planned};
use std::collections::BTreeMap;
use trainyard_hardware_profiles::catalog;
use trainyard_planner::Quotas;
use trainyard_units::Invalid;

/// In so many ways a quota is shared out among the types that are used.
const WAYS: usize = 16;

/// The best choice of options and its schedule, with the pools and the options that there were.
pub(super) struct Solved {
    pub(super) shared: Shared,
    pub(super) kinds: Vec<Kind>,
    pub(super) solution: Solution,
    /// Number of schedules that were simulated.
    pub(super) schedules: u64,
    /// The quotas that types share and that are shared out, in this order.
    pub(super) limited: Vec<Limited>,
}

/// A quota that several types share.
#[derive(Clone, Debug)]
pub(super) struct Limited {
    /// What it is about.
    pub(super) key: String,
    /// The most instances of each type to which it applies: none of some.
    pub(super) most: BTreeMap<String, u32>,
    /// What all jobs would take and cost without it, those before it kept to.
    pub(super) without: Figures,
}

impl Question<'_> {
    /// Finds the best choice and schedule in these pools, within the quotas of all types together as far as these can be shared out.
    pub(super) fn solved(&self, spec: &FleetSpec, shared: &Shared) -> Result<Solved, FleetError> {
        let mut solved = self.solved_in(spec, shared.clone(), self.kinds.clone())?;
        let (bound, impossible) = (solved.solution.bound, solved.solution.impossible);
        while let Some((quotas, key)) = exceeded(spec, &solved)? {
            let Some(own) = self.sharing_out(spec, &solved, &quotas, &key)? else { break };
            // What is proved is of all ways to share the quotas out.
            let complete = solved.solution.complete && own.solution.complete;
            solved = own;
            let own = &mut solved.solution;
            (own.bound, own.impossible, own.complete) = (bound.min(own.best.worth.value), impossible, complete);
        }
        Ok(solved)
    }

    /// Finds the best way to share a quota out; `None` if some job has no machines then.
    fn sharing_out(
        &self,
        spec: &FleetSpec,
        without: &Solved,
        quotas: &Quotas,
        key: &str,
    ) -> Result<Option<Solved>, FleetError> {
        let (mut best, mut schedules) = (None::<Solved>, without.schedules);
        for most in ways(quotas, key, without) {
            let shared = without.shared.at_most(&most);
            let Some(kinds) = within(&without.kinds, &shared) else { continue };
            let mut own = self.solved_in(spec, shared, kinds)?;
            schedules += own.schedules;
            let limited = Limited { key: key.to_owned(), most, without: without.solution.best.schedule.figures };
            own.limited = [without.limited.as_slice(), &[limited]].concat();
            let worth = |solved: &Solved| solved.solution.best.worth;
            if best.as_ref().is_none_or(|best| worth(&own).beats(&worth(best))) {
                best = Some(own);
            }
        }
        Ok(best.map(|best| Solved { schedules, ..best }))
    }

    fn solved_in(&self, spec: &FleetSpec, shared: Shared, kinds: Vec<Kind>) -> Result<Solved, FleetError> {
        let mut pools = Pools::new(spec, &shared, &kinds)?;
        let solution = self.solve(&mut pools)?;
        let schedules = pools.schedules;
        Ok(Solved { shared, kinds, solution, schedules, limited: Vec::new() })
    }
}

/// Returns the quotas with the first of which a schedule takes more than it allows, of those that are not shared out yet.
fn exceeded(spec: &FleetSpec, solved: &Solved) -> Result<Option<(Quotas, String)>, Invalid> {
    let (Some(allowed), [any, ..]) = (&spec.pool.quotas, &solved.solution.best.schedule.parts[..]) else {
        return Ok(None);
    };
    let terms = Terms::of(&any.queue.pool)?;
    let quotas = Quotas::new(Some(allowed), (terms.service, terms.pricing), catalog(), "pool.quotas")?;
    let parts = solved.solution.best.schedule.parts.iter();
    let documents = parts.map(|part| predict_planned(&part.queue, &solved.shared.files));
    let documents: Vec<QueueDocument> = documents.collect::<Result<_, _>>()?;
    let held: Vec<Held<'_>> = documents.iter().filter_map(Held::of).collect();
    let refusals = quotas.refusals(|each| most_at_once(&held, each));
    let is_open = |key: &&str| solved.limited.iter().all(|limited| limited.key != **key);
    let key = refusals.iter().map(|(key, _)| *key).find(is_open).map(str::to_owned);
    Ok(key.map(|key| (quotas, key)))
}

/// Lists ways to share a quota out among the types to which it applies: the most instances of each.
fn ways(quotas: &Quotas, key: &str, solved: &Solved) -> Vec<BTreeMap<String, u32>> {
    let taken = |name: &String| catalog().instance(name).map_or(0, |instance| quotas.taken(key, instance));
    let types: Vec<(&String, u64)> =
        solved.shared.pools.keys().map(|name| (name, taken(name))).filter(|(_, each)| *each > 0).collect();
    let allowed = quotas.allowed(key);
    let none: BTreeMap<String, u32> = types.iter().map(|(name, _)| ((*name).clone(), 0)).collect();
    let with = |own: &[(&String, u32)]| {
        let mut most = none.clone();
        most.extend(own.iter().map(|(name, count)| ((*name).clone(), *count)));
        most
    };
    let count = |room: u64, each: u64| u32::try_from(room / each).unwrap_or(u32::MAX);
    let alone = types.iter().map(|(name, each)| with(&[(*name, count(allowed, *each))]));
    let parts = &solved.solution.best.schedule.parts;
    let is_used = |name: &String| parts.iter().any(|part| part.queue.pool.instance == *name);
    let used: Vec<(&String, u64)> = types.iter().copied().filter(|(name, _)| is_used(name)).collect();
    let mut beside = vec![(Vec::<(&String, u32)>::new(), allowed)];
    for (place, (name, each)) in used.iter().enumerate() {
        let is_last = place + 1 == used.len();
        let next = beside.iter().flat_map(|(own, room)| {
            let most = count(*room, *each).min(solved.shared.quota(name));
            let counts = if is_last { most.max(1)..=most } else { 1..=most };
            counts.map(move |count| ([own.as_slice(), &[(*name, count)]].concat(), room - u64::from(count) * each))
        });
        beside = thinned(next.collect());
    }
    alone.chain(beside.iter().map(|(own, _)| with(own))).collect()
}

/// Returns up to [`WAYS`] of these, evenly.
fn thinned<T>(all: Vec<T>) -> Vec<T> {
    let each = all.len().div_ceil(WAYS).max(1);
    all.into_iter().step_by(each).collect()
}

/// Returns kinds with those of their options that fit into the pools; `None` if one has none.
fn within(kinds: &[Kind], shared: &Shared) -> Option<Vec<Kind>> {
    let within = |kind: &Kind| {
        let options = kind.options.iter().filter(|option| option.instances <= shared.quota(&option.instance));
        let options: Vec<_> = options.cloned().collect();
        (!options.is_empty()).then(|| Kind { options, ..kind.clone() })
    };
    kinds.iter().map(within).collect()
}
